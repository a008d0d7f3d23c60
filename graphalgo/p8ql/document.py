"""The capability document: what this database is, for whoever writes queries for it.

What the catalogue can prove is read from it. What it cannot express is written
here by hand; the examples among it are run through the parser on each read, so
that one that is no longer accepted says so.
"""

from __future__ import annotations

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.p8ql.parser import FORMS, LONGEST_QUERY, MODES, parse
from graphalgo.p8ql.plan import (
    DEGREE_CAP,
    FUSION_CONSTANT,
    FUSION_DEPTH,
    GREATEST_DEPTH,
    GREATEST_LIMIT,
    KEY_LIMIT,
    ROW_LIMIT,
    WALK_DEPTH,
    WALK_LIMIT,
)
from graphalgo.p8ql.printing import quote

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from graphalgo.p8ql.protocol import QueryStore

# Raised by hand with every change to what is written by hand below.
REVISION = 1

MEANINGS = {
    "LOOKUP": "The nodes that hold a key: canonical first, then short keys and aliases, then soft "
    "nodes by name, then with FUZZY similar names. Each key stops at the first of these that "
    "finds anything. unresolved lists the keys that found nothing.",
    "GRAPH": "Everything within DEPTH hops of one node, edges walked both ways, the strongest "
    "first. A key of no node or of several answers error, with did_you_mean or candidates.",
    "TEXT": "Full text search in a source, as on the web: all words, or, -without, and a phrase in "
    "double quotes (put single quotes around it all).",
    "SEMANTIC": "The rows whose vectors are nearest to p_embedding, the vector of the words.",
    "SEARCH": "Both searches, fused by reciprocal rank: lex and sem are the places in each.",
    "SCHEMA": "This document, or one facet of it; FROM shows the columns of a relation.",
    "SQL": "The plan only: aiq.sql_passthrough(p_statement) runs one statement, read only.",
}
RULES = (
    "Keywords stand in any case; strings in double or single quotes, a quote inside is doubled.",
    "Names after FROM, USING and TYPE may stand bare or in quotes; keys and words stand in quotes.",
    "Modifiers follow the keys or words, in any order, each once; FUZZY goes before LOOKUP.",
    "A handle such as VSL-12, a soft node's kind/name, or any key names the node of GRAPH.",
    "SEMANTIC and SEARCH need p_embedding: '[0.1, 0.2]'. The database calls no model.",
    "You see what the caller may see; what you may not see answers as what is not there.",
)
# What each asks, and the query; names in braces stand for the catalogue's own.
EXAMPLES = (
    ("Which node is this?", 'LOOKUP "meridian dawn"'),
    ("Two keys at once", "LOOKUP \"merb\", 'rotterdam' LIMIT 5"),
    ("A name that may be misspelt", 'FUZZY LOOKUP "meridien"'),
    ("What is around this node?", 'GRAPH "bulk harmony" DEPTH 2'),
    ("Only by one relation", 'GRAPH "VSL-1" DEPTH 3 TYPE {relation} LIMIT 20'),
    ("Texts with these words", 'TEXT "boiler pump -galley" FROM {source}'),
    ("Texts with a phrase", "TEXT '\"port state control\" or galley' FROM {source} LIMIT 5"),
    ("Texts of this meaning", 'SEMANTIC "broken steam equipment" FROM {source}'),
    ("Of a model that is named", 'SEMANTIC "broken steam equipment" FROM {source} USING {model}'),
    ("By words and meaning", 'SEARCH "PSC-441 boiler" FROM {source} LIMIT 5'),
    ("What can I read in SQL?", 'SCHEMA "sql"'),
    ("The columns of a relation", "SCHEMA sql FROM {readable}"),
    (
        "Who operates what shares a number with this register entry?",
        "select summary, path from aiq.iterated_join('nl-2231', 'operator', "
        "p_links => '{edge,shared_key}')",
    ),
)
PASSTHROUGH = (
    "One statement that begins with SELECT, WITH, TABLE, VALUES or EXPLAIN goes to "
    "aiq.sql_passthrough(p_statement), which runs it read only, as the caller."
)
FUNCTIONS = (
    "iterated_join", "iterated_join_trace", "lookup", "parse", "query", "sql_passthrough", "walk",
)  # fmt: skip


def document(
    store: QueryStore, facet: str | None = None, relation: str | None = None
) -> dict[str, Any]:
    """Return the document, or one facet of it.

    Parameters
    ----------
    store : QueryStore
        Whose catalogue is read.
    facet : str, optional
        `p8ql`, `graph` or `sql`; None for all three.
    relation : str, optional
        With facet `sql`: the relation whose columns are shown.

    Returns
    -------
    dict
        `revision`, raised with what is written by hand; `digest`, a hash of all
        the rest, which changes when, and only when, the document does; and the
        facets.

    Raises
    ------
    UnknownName
        There is no such relation that the caller may read (42704).
    """
    content: dict[str, Any] = {"revision": REVISION}
    if facet in (None, "p8ql"):
        content["p8ql"] = _dialect(store)
    if facet in (None, "graph"):
        content["graph"] = _graph(store)
    if facet in (None, "sql"):
        content["sql"] = _sql(store) if relation is None else _relation(store, relation)
    return {"revision": REVISION, "digest": digest(content), **content}


def digest(content: Any) -> str:
    """Return a hash of a value of JSON, whatever the order of the members of its objects."""
    from hashlib import sha256  # noqa: PLC0415 - only SCHEMA needs it

    return sha256(canonical(content).encode(errors="surrogatepass")).hexdigest()[:32]


def canonical(value: Any) -> str:
    """Return a value of JSON in a form that two values share only where they are equal."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    return repr(value)


def handwritten() -> dict[str, Any]:
    """Return what is written by hand, for whoever checks that the revision was raised with it."""
    return {
        "forms": FORMS,
        "meanings": MEANINGS,
        "rules": RULES,
        "examples": EXAMPLES,
        "limits": _limits(),
        "passthrough": PASSTHROUGH,
        "functions": FUNCTIONS,
    }


def _limits() -> dict[str, Any]:
    return {
        "query_characters": LONGEST_QUERY,
        "DEPTH": {"from": 1, "to": GREATEST_DEPTH, "default": WALK_DEPTH},
        "LIMIT": {
            "from": 1,
            "to": GREATEST_LIMIT,
            "default": {"LOOKUP": KEY_LIMIT, "GRAPH": WALK_LIMIT, "others": ROW_LIMIT},
        },
        "degree_cap": DEGREE_CAP,
        "fusion": {"k": FUSION_CONSTANT, "rows_of_each_ranking": FUSION_DEPTH},
    }


def _dialect(store: QueryStore) -> dict[str, Any]:
    sources = store.text_sources()
    models = store.embedding_models()
    return {
        "modes": [
            {"mode": mode, "form": FORMS[mode], "answers": MEANINGS[mode]}
            for mode in (*MODES, "SQL")
        ],
        "rules": list(RULES),
        "limits": _limits(),
        "sources": [
            {
                "name": source.name,
                "configuration": source.configuration,
                "description": source.description,
                "models": store.embedded_models(source.name),
            }
            for source in sources
        ],
        "models": [
            {
                "name": model.name,
                "dim": model.dim,
                "distance": model.distance,
                "is_default": model.is_default,
                "description": model.description,
            }
            for model in models
        ],
        "vector_search": store.vector_search(),
        "examples": _examples(
            {
                "source": next((source.name for source in sources), "notes"),
                "model": next((model.name for model in models), "model"),
                "relation": next(iter(store.relation_names()), "operated_by"),
                "readable": "aiq.nodes_api",
            }
        ),
    }


def _examples(names: dict[str, str]) -> list[dict[str, Any]]:
    """Return the examples with the catalogue's own names, each held to the parser."""
    examples = []
    for asks, form in EXAMPLES:
        text = form
        for part, name in names.items():
            text = text.replace("{" + part + "}", quote(name))
        example: dict[str, Any] = {"asks": asks, "query": text, "accepted": True}
        try:
            example["mode"] = parse(text).mode
        except GraphAlgoError as error:
            example["accepted"] = False
            example["error"] = error.message
        examples.append(example)
    return examples


def _graph(store: QueryStore) -> dict[str, Any]:
    return {"entity_types": store.entity_type_rows(), "relations": store.relation_rows()}


def _sql(store: QueryStore) -> dict[str, Any]:
    return {
        "passthrough": PASSTHROUGH,
        "functions": store.callable_functions(FUNCTIONS),
        "relations": store.readable_relations(),
    }


def _relation(store: QueryStore, relation: str) -> dict[str, Any]:
    columns = store.relation_columns(relation)
    if columns is None:
        from graphalgo.p8ql.searching import unknown  # noqa: PLC0415

        names = [f"{one['schema']}.{one['name']}" for one in store.readable_relations()]
        bare = [name.partition(".")[2] for name in names if name.startswith("aiq.")]
        raise unknown(relation, bare if "." not in relation else names, "readable relation", "FROM")
    return {"relation": relation, "columns": columns}
