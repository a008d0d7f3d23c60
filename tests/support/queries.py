"""The dialect's grammar as data: what each query is understood as, and what is refused."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from graphalgo.p8ql import plan as plans

# Query, plan.
UNDERSTOOD: list[tuple[str, dict[str, Any]]] = [
    ('LOOKUP "k"', {"mode": "LOOKUP", "keys": ["k"], "fuzzy": False, "limit": 10}),
    (
        'lookup "a", \'b\' "c" limit 3',
        {"mode": "LOOKUP", "keys": ["a", "b", "c"], "fuzzy": False, "limit": 3},
    ),
    ('FUZZY LOOKUP "k"', {"mode": "LOOKUP", "keys": ["k"], "fuzzy": True, "limit": 10}),
    (
        'GRAPH "k"',
        {
            "mode": "GRAPH", "key": "k", "depth": 1, "relation": None, "degree_cap": 100,
            "limit": 100,
        },
    ),
    (
        'graph "k" Depth 2 TYPE operated_by LIMIT 7',
        {
            "mode": "GRAPH", "key": "k", "depth": 2, "relation": "operated_by",
            "degree_cap": 100, "limit": 7,
        },
    ),
    (
        'TEXT "boiler pump" FROM notes',
        {"mode": "TEXT", "words": "boiler pump", "source": "notes", "limit": 10},
    ),
    (
        "SEMANTIC 'x' FROM notes USING hand-4d LIMIT 2",
        {"mode": "SEMANTIC", "words": "x", "source": "notes", "model": "hand-4d", "limit": 2},
    ),
    (
        'SEARCH "x" FROM "my notes"',
        {
            "mode": "SEARCH", "words": "x", "source": "my notes", "model": None, "limit": 10,
            "k": 60, "depth": 100,
        },
    ),
    (
        'SEARCH "x" LIMIT 500 FROM notes',
        {
            "mode": "SEARCH", "words": "x", "source": "notes", "model": None, "limit": 500,
            "k": 60, "depth": 500,
        },
    ),
    ("SCHEMA", {"mode": "SCHEMA", "facet": None, "from": None}),
    ('schema "GRAPH"', {"mode": "SCHEMA", "facet": "graph", "from": None}),
    ("SCHEMA sql FROM aiq.nodes_api", {"mode": "SCHEMA", "facet": "sql", "from": "aiq.nodes_api"}),
    ("SCHEMA FROM nodes_api", {"mode": "SCHEMA", "facet": "sql", "from": "nodes_api"}),
    *(
        (statement, {"mode": "SQL", "statement": statement})
        for statement in (
            "SELECT 1", "select 'a;b' -- c", "With x as (select 1) table x", "TABLE t",
            "values(1)", "EXPLAIN select 1", 'select"x"from t',
        )
    ),
    ("\n\t select 1 ; ;\n", {"mode": "SQL", "statement": "select 1"}),
    # The quote of a string is doubled inside it; the other kind stands for itself.
    ('LOOKUP "a ""b"" \'c\'"', {"mode": "LOOKUP", "keys": ['a "b" \'c\''], "fuzzy": False,
                               "limit": 10}),
    ("LOOKUP 'it''s'", {"mode": "LOOKUP", "keys": ["it's"], "fuzzy": False, "limit": 10}),
    ('LOOKUP ""', {"mode": "LOOKUP", "keys": [""], "fuzzy": False, "limit": 10}),
    ('  \u00a0LOOKUP"a""b"LIMIT 010', {"mode": "LOOKUP", "keys": ['a"b'], "fuzzy": False,
                                      "limit": 10}),
    # A word that is a modifier elsewhere is a name in quotes.
    (
        'TEXT "x" FROM "LIMIT"',
        {"mode": "TEXT", "words": "x", "source": "LIMIT", "limit": 10},
    ),
]  # fmt: skip

SYNTAX, VALUE = "42601", "22023"

# Query, SQLSTATE, position, what the message and the hint say.
REFUSED: list[tuple[str, str, int, str, str]] = [
    # A modifier where it means nothing; the sentence says where it belongs.
    ('TEXT "x" DEPTH 2', SYNTAX, 10, "DEPTH belongs to GRAPH", "TEXT takes FROM and LIMIT"),
    ('LOOKUP "x" DEPTH 2', SYNTAX, 12, "DEPTH belongs to GRAPH", "LOOKUP takes LIMIT"),
    ('SEARCH "x" FROM n TYPE r', SYNTAX, 19, "TYPE belongs to GRAPH", "Leave TYPE out"),
    ('LOOKUP "x" FROM n', SYNTAX, 12, "FROM belongs to TEXT, SEMANTIC, SEARCH and SCHEMA", ""),
    ('GRAPH "x" FROM n', SYNTAX, 11, "FROM belongs to", "GRAPH takes DEPTH, TYPE and LIMIT"),
    ('TEXT "x" FROM n USING m', SYNTAX, 17, "USING belongs to SEMANTIC and SEARCH", "no vectors"),
    ('GRAPH "x" USING m', SYNTAX, 11, "USING belongs to SEMANTIC and SEARCH", ""),
    ("SCHEMA LIMIT 3", SYNTAX, 8, "LIMIT belongs to LOOKUP, GRAPH, TEXT, SEMANTIC and SEARCH", ""),
    ("SCHEMA graph FROM x", SYNTAX, 14, 'FROM belongs to the facet "sql"', 'SCHEMA "sql" FROM'),
    ('LOOKUP "x" FUZZY', SYNTAX, 12, "FUZZY stands after LOOKUP", "Write FUZZY LOOKUP"),
    ('LOOKUP FUZZY "x"', SYNTAX, 8, "FUZZY stands after LOOKUP", "Write FUZZY LOOKUP"),
    ('GRAPH "x" FUZZY', SYNTAX, 11, "FUZZY belongs before LOOKUP", "Leave FUZZY out"),
    ('FUZZY LOOKUP "x" FUZZY', SYNTAX, 18, "FUZZY is given twice", ""),
    ('FUZZY GRAPH "x"', SYNTAX, 7, 'FUZZY stands before "GRAPH"', "FUZZY LOOKUP"),
    ("FUZZY", SYNTAX, 6, "FUZZY stands before nothing", "FUZZY LOOKUP"),
    ('LOOKUP "x" LIMIT 5 LIMIT 6', SYNTAX, 20, "LIMIT is given twice", "once"),
    ('GRAPH "x" DEPTH 1 depth 2', SYNTAX, 19, "DEPTH is given twice", "once"),
    # Numbers.
    ('LOOKUP "x" LIMIT', SYNTAX, 17, "LIMIT needs a whole number, but the query ends", "LIMIT 10"),
    ('LOOKUP "x" LIMIT ten', SYNTAX, 18, 'LIMIT needs a whole number, but "ten"', "LIMIT 10"),
    ('LOOKUP "x" LIMIT "5"', SYNTAX, 18, "LIMIT needs a whole number", "LIMIT 10"),
    ('LOOKUP "x" LIMIT 2.5', SYNTAX, 18, 'but "2.5" stands there', ""),
    ('LOOKUP "x" LIMIT ٣', SYNTAX, 18, "LIMIT needs a whole number", ""),
    ('LOOKUP "x" LIMIT 0', VALUE, 18, "LIMIT is 0, but must be from 1 to 2147483647", ""),
    ('LOOKUP "x" LIMIT -3', VALUE, 18, "LIMIT is -3", ""),
    ('LOOKUP "x" LIMIT 2147483648', VALUE, 18, "LIMIT is 2147483648", ""),
    ('LOOKUP "x" LIMIT ' + "9" * 5000, VALUE, 18, "LIMIT is 999", ""),
    ('GRAPH "x" DEPTH 0', VALUE, 17, "DEPTH is 0, but must be from 1 to 5", ""),
    ('GRAPH "x" DEPTH 6', VALUE, 17, "DEPTH is 6, but must be from 1 to 5", "DEPTH 2"),
    # The first word.
    ('LOKUP "x"', SYNTAX, 1, '"LOKUP" is not a mode (did you mean LOOKUP?)', "LOOKUP"),
    ('grpah "x"', SYNTAX, 1, "did you mean GRAPH?", "The form is GRAPH"),
    ('SEMANTICS "x"', SYNTAX, 1, "did you mean SEMANTIC?", ""),
    ("SELEKT 1", SYNTAX, 1, "did you mean SELECT?", ""),
    ('SEARHC "x" FROM n', SYNTAX, 1, "did you mean SEARCH?", ""),
    ('WALK "x"', SYNTAX, 1, "did you mean GRAPH?", ""),
    ("MATCH (a)-[]->(b)", SYNTAX, 1, "did you mean GRAPH?", ""),
    ('HYBRID "x" FROM n', SYNTAX, 1, "HYBRID is not a mode, but SEARCH is", "Write SEARCH"),
    ("SQL select 1", SYNTAX, 1, "SQL is not a mode", "Leave the word out"),
    ("delete from t", SYNTAX, 1, "nothing here writes", "SELECT"),
    ("LIMIT 3", SYNTAX, 1, "LIMIT is not a mode but a modifier", "LOOKUP"),
    ("meridian dawn", SYNTAX, 1, '"meridian" is not a mode', "A query begins with LOOKUP"),
    # A letter that only looks like one of a mode's does not make it one.
    ("\u017fELECT 1", SYNTAX, 1, "is not a mode", "SELECT"),
    ("", SYNTAX, 1, "the query is empty", "SCHEMA"),
    (" \n ", SYNTAX, 4, "the query is empty", "SCHEMA"),
    (' "meridian dawn"', SYNTAX, 2, "the query begins with", 'LOOKUP "key"'),
    ("(select 1)", SYNTAX, 1, "the query begins with '('", "SELECT"),
    (";", SYNTAX, 1, "the query begins with ';'", ""),
    ("-- c\nselect 1", SYNTAX, 1, "the query begins with '-'", "Comments"),
    # Strings.
    ("LOOKUP", SYNTAX, 7, "LOOKUP needs a key in quotes, but the query ends", "[FUZZY] LOOKUP"),
    ("LOOKUP meridian dawn", SYNTAX, 8, "not in quotes", 'Write LOOKUP "meridian dawn"'),
    ("GRAPH VSL-1 DEPTH 2", SYNTAX, 7, '"VSL-1" is not in quotes', 'Write GRAPH "VSL-1"'),
    ("TEXT boiler pump FROM n", SYNTAX, 6, "not in quotes", 'Write TEXT "boiler pump"'),
    ('LOOKUP "abc', SYNTAX, 8, 'begins with " is not closed', "write the quote twice"),
    ("LOOKUP 'it's'", SYNTAX, 12, '"s" stands right behind a string', "write ' twice"),
    ("LOOKUP 'it', 's", SYNTAX, 14, "begins with ' is not closed", "write the quote twice"),
    ("LOOKUP “x”", SYNTAX, 8, "“ is not a quote", "straight quotes"),
    ("“x”", SYNTAX, 1, "the query begins with '“'", "straight quotes"),
    ('LOOKUP "a",', SYNTAX, 12, "needs a key in quotes, but the query ends", ""),
    ('LOOKUP "a",, "b"', SYNTAX, 12, "but a comma stands there", ""),
    ('LOOKUP , "a"', SYNTAX, 8, "but a comma stands there", ""),
    ('LOOKUP "a", LIMIT 5', SYNTAX, 13, "needs a key in quotes", ""),
    # What is too much.
    ('GRAPH "a" "b"', SYNTAX, 11, "GRAPH takes one key", "GRAPH"),
    ('TEXT "a", "b" FROM n', SYNTAX, 9, "TEXT takes one string of words", ""),
    ('SCHEMA "sql" "x"', SYNTAX, 14, "SCHEMA takes one facet", ""),
    ('LOOKUP "x" LIMIT 5 "y"', SYNTAX, 20, 'the key "y" stands after a modifier', "keys first"),
    ('GRAPH "x" DEPHT 2', SYNTAX, 11, '"DEPHT" is no modifier', "Did you mean DEPTH?"),
    ('LOOKUP "x" where y', SYNTAX, 12, '"where" is no modifier of LOOKUP', "The form is"),
    ('LOOKUP "x";', SYNTAX, 11, "a semicolon has no place here", "one query"),
    ('LOOKUP "x" -- c', SYNTAX, 12, '"--" begins a comment, which has no place here,', "SQL"),
    ('LOOKUP "x" )', SYNTAX, 12, ") has no place here", ""),
    # Names.
    ('TEXT "x"', SYNTAX, 9, "TEXT needs FROM", 'SCHEMA "p8ql" lists the sources'),
    ('SEMANTIC "x" LIMIT 3', SYNTAX, 21, "SEMANTIC needs FROM", ""),
    ('SEARCH "x" USING m', SYNTAX, 19, "SEARCH needs FROM", ""),
    ('TEXT "x" FROM', SYNTAX, 14, "FROM needs a name, but the query ends", ""),
    ('TEXT "x" FROM LIMIT 3', SYNTAX, 15, "FROM needs a name", 'FROM "LIMIT"'),
    ('GRAPH "x" TYPE ""', VALUE, 16, "the name after TYPE is empty", ""),
    ('GRAPH "x" TYPE ,', SYNTAX, 16, "TYPE needs a name, but a comma", ""),
    ("SCHEMA grahp", VALUE, 8, '"grahp" is not a facet', 'Did you mean SCHEMA "graph"?'),
    ('SCHEMA "tables"', VALUE, 8, "not a facet", "p8ql, graph and sql"),
    ('LOOKUP "' + "x" * 100_000 + '"', VALUE, 100_001, "it is too long", "less at a time"),
]  # fmt: skip

# Pieces that the grammar is made of, so that random texts get somewhere.
PIECES = st.sampled_from(
    [
        "LOOKUP", "FUZZY", "GRAPH", "TEXT", "SEMANTIC", "SEARCH", "SCHEMA", "select", "HYBRID",
        "DEPTH", "TYPE", "FROM", "USING", "LIMIT", '"key"', "'k''x'", '"', "'", "“x”", ",", ";",
        "--", "/*", "(", ")", "0", "5", "-1", "99999999999", "2.5", "notes", "hand-4d", "sql",
        " ", "\n", "\u00a0", "\0", "ſ", "ı", "\ud800", "𝓛",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.text(st.characters(), max_size=60),
    st.lists(st.one_of(PIECES, st.text(st.characters(), max_size=3)), max_size=14).map(" ".join),
    st.lists(PIECES, max_size=14).map("".join),
)

_STRINGS = st.text(st.characters(), max_size=12)
_NAMES = st.text(st.characters(), min_size=1, max_size=12)
_LIMITS = st.integers(1, plans.GREATEST_LIMIT)
PLANS = st.one_of(
    st.builds(plans.LookupPlan, st.lists(_STRINGS, min_size=1, max_size=4), st.booleans(), _LIMITS),
    st.builds(
        plans.GraphPlan,
        _STRINGS,
        st.integers(1, plans.GREATEST_DEPTH),
        st.none() | _NAMES,
        _LIMITS,
    ),
    st.builds(plans.TextPlan, _STRINGS, _NAMES, _LIMITS),
    st.builds(plans.SemanticPlan, _STRINGS, _NAMES, st.none() | _NAMES, _LIMITS),
    st.builds(plans.SearchPlan, _STRINGS, _NAMES, st.none() | _NAMES, _LIMITS),
    st.builds(plans.SchemaPlan, st.sampled_from([None, "p8ql", "graph", "sql"])),
    st.builds(plans.SchemaPlan, st.just("sql"), _NAMES),
)
