"""The tools: what each takes, the SQL function that answers it, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool, ToolAnnotations

from graphalgo.engine.arguments import DEFAULT_LINKS, LINK_KINDS, MAX_BUDGET, MAX_DEGREE_CAP
from graphalgo.mcp.arguments import (
    Argument,
    Choice,
    Flag,
    Moment,
    Schema,
    Similarity,
    Text,
    Texts,
    Whole,
    input_schema,
)
from graphalgo.mcp.errors import TooLarge

Row = dict[str, Any]

# Room for a vector of a few thousand numbers beside the words.
_LONGEST_QUERY = 20_000
# What aiq.search_entities takes.
_LONGEST_WORDS = 4_000
_LONGEST_VECTOR = 200_000

_STRING: Schema = {"type": "string"}
_TEXT: Schema = {"type": ["string", "null"]}
_NUMBER: Schema = {"type": ["number", "null"]}
_COUNT: Schema = {"type": ["integer", "null"]}
_FLAG: Schema = {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class MapTool:
    """A tool of the server.

    Attributes
    ----------
    name, title, about : str
        What it is called and what it is for.
    arguments : tuple of Argument
        What it takes.
    statement : str
        The one statement that answers it, with named parameters.
    output : dict
        The JSON schema of what comes back.
    result : callable
        Makes that of the statement's rows and the arguments.
    """

    name: str
    title: str
    about: str
    arguments: tuple[Argument, ...]
    statement: str
    output: Schema
    result: Callable[[list[Row], Mapping[str, Any]], Row]

    def definition(self) -> Tool:
        """Describe it as the protocol does."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.about,
            input_schema=input_schema(self.arguments),
            output_schema=self.output,
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=True,
                destructive_hint=False,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )


def sized(statement: str) -> str:
    """Have the database measure an answer, and send it only if it is not too large.

    Parameters
    ----------
    statement : str
        Selects one `answer`, a document. It is run once, whatever is asked of it here.
    """
    return f"""
        with a as materialized ({statement}),
        s as materialized (select answer, octet_length(answer::text) as bytes from a)
        select case when bytes <= %(answer_bytes)s::int then answer end as answer, bytes from s
    """


def document(rows: list[Row], most: int) -> Row:
    """Take the document of a :func:`sized` statement; refuse one that was too large (54000)."""
    answer: Row | None = rows[0]["answer"]
    if answer is None:
        raise TooLarge(
            f"the answer has {rows[0]['bytes']} bytes, but may have {most}",
            "Ask for less, with a lower LIMIT or DEPTH.",
        )
    return answer


def _object(required: Mapping[str, Schema], **others: Schema) -> Schema:
    """Give the schema of an object; more members than are named may come."""
    return {"type": "object", "properties": {**required, **others}, "required": list(required)}


def _rows(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _document(rows: list[Row], arguments: Mapping[str, Any]) -> Row:
    return document(rows, arguments["answer_bytes"])


def _found(rows: list[Row], arguments: Mapping[str, Any]) -> Row:
    found = {row["input_key"] for row in rows}
    keys = dict.fromkeys(arguments["keys"])
    return {"rows": rows, "unresolved": [key for key in keys if key not in found]}


def _reached(rows: list[Row], _arguments: Mapping[str, Any]) -> Row:
    counts = {name: rows[0][name] for name in ("resolved", "round", "examined", "deferred")}
    reached = [
        {name: value for name, value in row.items() if name not in {*counts, "reason"}}
        for row in rows
        if row["resolved"]
    ]
    return {**counts, "reason": rows[0]["reason"], "rows": reached}


_HANDLE = Text(
    name="handle",
    about="The entity's handle, such as DSC-104.",
    required=True,
    longest=200,
    example="DSC-104",
)

SEARCH = MapTool(
    name="search_entities",
    title="Search entities",
    about="Find entities by words: one list, best first, with handle, type, title and a snippet"
    " in which what matched is marked «so». Start here; then follow get_neighbors from a hit, and"
    " read what you chose at its resource.",
    arguments=(
        Text(name="query", about="What to search for, in words.", required=True,
             longest=_LONGEST_WORDS, example="query optimization"),
        Texts(name="types", about="Only entities of these types; see the ontology.",
              example=["discovery"]),
        Whole(name="limit", about="The most entities.", default=10, least=1, most=100, example=10),
        Text(name="embedding", about="A vector of the query, as a JSON list of numbers, to rank by"
             " meaning as well.", longest=_LONGEST_VECTOR, example="[0.1, 0.2]"),
        Text(name="model", about="The model that made the vector.", longest=200, example="small"),
    ),
    statement=sized("""
        select aiq.search_entities(
            p_query => %(query)s::text, p_types => %(types)s::text[], p_limit => %(limit)s::int,
            p_embedding => %(embedding)s::text, p_model => %(model)s::text
        ) as answer
    """),
    output=_object(
        {
            "rows": _rows(
                _object(
                    {"handle": _STRING, "type": _TEXT, "title": _TEXT, "snippet": _TEXT,
                     "rank": {"type": "integer"},
                     "found_by": {"type": "array", "items": _STRING}},
                    rrf=_NUMBER,
                )
            ),
            "ranked_by": _STRING,
        },
        note=_TEXT, total=_COUNT, truncated=_FLAG,
    ),
    result=_document,
)  # fmt: skip

NEIGHBORS = MapTool(
    name="get_neighbors",
    title="Get neighbors",
    about="Go one hop from an entity: compact references to what it refers to (out) and what"
    " refers to it (in), strongest first. truncated says that there are more: pass cursor on to"
    " go on.",
    arguments=(
        _HANDLE,
        Choice(name="direction", about="Only references out of the entity, or in to it.",
               words=("in", "out"), example="out"),
        Texts(name="relations", about="Only these relations; see the ontology.",
              example=["references"]),
        Whole(name="limit", about="The most references.", default=25, least=1, most=100,
              example=25),
        Text(name="cursor", about="Where an earlier answer left off.", longest=2000,
             example="the cursor of that answer"),
    ),
    statement=sized("""
        select aiq.neighbors(
            p_handle => %(handle)s::text, p_direction => %(direction)s::text,
            p_relations => %(relations)s::text[], p_limit => %(limit)s::int,
            p_cursor => %(cursor)s::text
        ) as answer
    """),
    output=_object(
        {
            "handle": _STRING,
            "rows": _rows(
                _object(
                    {"handle": _STRING, "type": _TEXT, "title": _TEXT, "relation": _STRING,
                     "direction": {"type": "string", "enum": ["in", "out"]}},
                    weight=_NUMBER,
                )
            ),
            "truncated": _FLAG,
            "cursor": _TEXT,
        }
    ),
    result=_document,
)  # fmt: skip

LOOKUP = MapTool(
    name="lookup",
    title="Look up keys",
    about="Find entities by name, code or other key: exact canonical keys, then short ones and"
    " aliases, then names that were only mentioned, then, with fuzzy, similar names.",
    arguments=(
        Texts(name="keys", about="What to look up.", required=True, example=["Bulk Harmony"]),
        Flag(name="fuzzy", about="Where nothing matches exactly, take similar names.",
             default=False, example=True),
        Whole(name="limit", about="The most entities for each key.", default=10, least=1, most=100,
              example=10),
    ),
    statement="""
        select
            input_key, node_id, handle, key, entity_type, summary, match_kind,
            score::float8 as score
        from aiq.opened_lookup(
            p_keys => %(keys)s::text[], p_fuzzy => %(fuzzy)s::boolean, p_limit => %(limit)s::int
        )
    """,
    output=_object(
        {
            "rows": _rows(
                _object(
                    {"input_key": _STRING, "handle": _STRING, "key": _TEXT, "entity_type": _TEXT,
                     "summary": _TEXT, "match_kind": _STRING, "score": _NUMBER}
                )
            ),
            "unresolved": {"type": "array", "items": _STRING},
        }
    ),
    result=_found,
)  # fmt: skip

QUERY = MapTool(
    name="query",
    title="Ask in P8QL",
    about='Ask in the query dialect: LOOKUP "key", GRAPH "key" DEPTH 2, TEXT "words" FROM source,'
    ' SEARCH "words" FROM source, SCHEMA. SCHEMA answers what there is to ask and how. An SQL'
    " statement is only planned, never run.",
    arguments=(
        Text(name="p8ql", about="The query.", required=True, longest=_LONGEST_QUERY,
             example='LOOKUP "Bulk Harmony"'),
        Text(name="embedding", about="A vector for SEMANTIC and SEARCH, as a JSON list of"
             " numbers.", longest=_LONGEST_VECTOR, example="[0.1, 0.2]"),
    ),
    statement=sized("""
        select aiq.opened_query(
            p_query => %(p8ql)s::text, p_embedding => %(embedding)s::text
        ) as answer
    """),
    output=_object({"mode": _TEXT}),
    result=_document,
)  # fmt: skip

JOIN = MapTool(
    name="iterated_join",
    title="Iterated join",
    about="Walk out from one entity, a round at a time, over stored edges, shared keys and"
    " similar names, until entities of the target type are reached; each with the path to it.",
    arguments=(
        Text(name="seed", about="A handle, a key, or kind/name.", required=True, example="NL-2231"),
        Text(name="target_type", about="The entity type that is looked for.", required=True,
             longest=200, example="operator"),
        Whole(name="max_rounds", about="The most rounds.", default=3, least=1, most=5, example=3),
        Texts(name="links", about="The kinds of links to walk.", default=list(DEFAULT_LINKS),
              words=LINK_KINDS, most=len(LINK_KINDS), example=["edge", "shared_key"]),
        Similarity(name="similarity", about="The least similarity of similar names.", default=0.6,
                   example=0.6),
        Whole(name="budget", about="The most entities that a round examines.", default=500,
              least=1, most=MAX_BUDGET, example=500),
        Whole(name="degree_cap", about="The most links out of one entity, the strongest.",
              default=100, least=1, most=MAX_DEGREE_CAP, example=100),
        Texts(name="relations", about="Only edges of these relations.", example=["operated_by"]),
        Moment(name="as_of", about="The edges that held then (default: now).",
               example="2024-01-31"),
        Whole(name="limit", about="The most answers.", default=25, least=1, most=100, example=25),
    ),
    statement="""
        select
            resolved, round, hops, node_id, handle, key, entity_type, summary, score, path,
            deferred, examined, reason
        from aiq.opened_iterated_join(
            p_seed => %(seed)s::text, p_target_type => %(target_type)s::text,
            p_max_rounds => %(max_rounds)s::int, p_links => %(links)s::text[],
            p_similarity => %(similarity)s::real, p_budget => %(budget)s::int,
            p_degree_cap => %(degree_cap)s::int, p_relations => %(relations)s::text[],
            p_as_of => %(as_of)s::timestamptz, p_limit => %(limit)s::int
        )
    """,
    output=_object(
        {
            "resolved": _FLAG, "round": _COUNT, "examined": _COUNT, "deferred": _COUNT,
            "reason": _TEXT,
            "rows": _rows(
                _object(
                    {"handle": _STRING, "key": _TEXT, "entity_type": _TEXT, "summary": _TEXT,
                     "score": _NUMBER, "hops": _COUNT, "path": {"type": ["array", "null"]}}
                )
            ),
        }
    ),
    result=_reached,
)  # fmt: skip

TOOLS = {tool.name: tool for tool in (SEARCH, NEIGHBORS, LOOKUP, QUERY, JOIN)}
"""The tools by name."""
