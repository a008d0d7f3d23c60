"""The parser reads as the grammar says, refuses with a sentence and a place, and is total."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphalgo.engine.errors import GraphAlgoError, InvalidValue
from graphalgo.p8ql.errors import QuerySyntaxError, QueryValueError
from graphalgo.p8ql.parser import LONGEST_QUERY, MODES, _plain_search, _Reader, parse
from graphalgo.p8ql.printing import _shortest
from graphalgo.p8ql.spelling import distance, nearest
from tests.support.queries import PLANS, REFUSED, TEXTS, UNDERSTOOD


@pytest.mark.parametrize(("text", "plan"), UNDERSTOOD, ids=[text for text, _ in UNDERSTOOD])
def test_a_query_is_understood(text, plan):
    found = parse(text).as_dict()
    assert found == plan
    assert list(found) == list(plan)


@pytest.mark.parametrize(
    ("text", "sqlstate", "position", "message", "hint"),
    REFUSED,
    ids=[case[0][:40] for case in REFUSED],
)
def test_a_query_is_refused_with_a_sentence_and_its_place(text, sqlstate, position, message, hint):
    with pytest.raises((QuerySyntaxError, QueryValueError)) as caught:
        parse(text)
    error = caught.value
    assert (error.sqlstate, error.position) == (sqlstate, position)
    assert message in error.message
    assert error.message.endswith(f" at character {position}")
    assert error.hint and hint in error.hint


PIECES = st.sampled_from(
    [
        '"x"', "'x'", '"a \'b"', '"', '""', "FROM", "from", "USING", "LIMIT", "DEPTH", "FUZZY",
        "notes", "notes.en", "limit", "7", "007", "0", "-1", "+5", "99999999999", "\u00e9", "²",
        ";", ",", "(", "--", "_a1",
    ]
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(["TEXT", "SEMANTIC", "SEARCH"]),
    st.lists(st.tuples(st.sampled_from([" ", "", "\t\n", "\x1c", "\u00a0"]), PIECES), max_size=7),
)
@example("SEARCH", [(" ", '"x"'), (" ", "LIMIT"), (" ", "7"), (" ", "from"), (" ", "notes")])
@example("TEXT", [(" ", '"x"'), (" ", "FROM"), (" ", "notes"), (" ", "USING"), (" ", "m")])
def test_a_plain_search_is_read_as_the_reader_reads_it(mode, pieces):
    text = mode + "".join(space + piece for space, piece in pieces)
    plan = _plain_search(text, len(mode), mode)
    if plan is not None:
        assert plan == _Reader(text, len(mode), mode).plan()


def test_most_searches_are_plain():
    text = 'SEMANTIC "the boiler\'s feed" FROM notes USING small LIMIT 5'
    plan = _plain_search(text, len("SEMANTIC"), "SEMANTIC")
    assert plan is not None and plan.as_dict() == {
        "mode": "SEMANTIC", "words": "the boiler's feed", "source": "notes", "model": "small",
        "limit": 5,
    }  # fmt: skip


@pytest.mark.parametrize("value", [None, 5, b"SCHEMA", ["SCHEMA"]])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(InvalidValue, match="must be a text"):
        parse(value)


@settings(max_examples=600, deadline=None)
@given(TEXTS)
@example("FUZZY lookup")
@example("GRAPH \"x\" TYPE ''")
@example("SCHEMA \ud800")
def test_any_text_gives_a_plan_or_an_error_with_a_place(text):
    try:
        plan = parse(text)
    except (QuerySyntaxError, QueryValueError) as error:
        assert 1 <= error.position <= len(text) + 1
        assert error.sqlstate in ("42601", "22023")
        assert error.hint
        # What a caller wrote is shown, but not all of it.
        assert len(error.message) < 600
    else:
        assert parse(plan.to_text()) == plan


@settings(max_examples=300, deadline=None)
@given(PLANS)
def test_what_is_printed_of_a_plan_parses_back_to_it(plan):
    assert parse(plan.to_text()) == plan
    assert parse(plan.to_text()).as_dict() == plan.as_dict()


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("lookup 'a' \"b\" limit 10", 'LOOKUP "a", "b"'),
        ("FUZZY LOOKUP 'say \"hi\"' LIMIT 3", "FUZZY LOOKUP 'say \"hi\"' LIMIT 3"),
        ('GRAPH "it\'s" LIMIT 100 DEPTH 1', 'GRAPH "it\'s"'),
        ('GRAPH "x" TYPE "type" DEPTH 2', 'GRAPH "x" DEPTH 2 TYPE "type"'),
        ('TEXT "x" FROM "--n"', 'TEXT "x" FROM "--n"'),
        ('SEARCH "x" USING \'a b\' FROM "notes.en"', 'SEARCH "x" FROM notes.en USING "a b"'),
        ("SCHEMA \"sql\" FROM 'aiq.nodes_api'", "SCHEMA FROM aiq.nodes_api"),
        ("schema", "SCHEMA"),
        ("Schema GRAPH", "SCHEMA graph"),
    ],
)
def test_a_plan_is_printed_without_defaults_and_in_the_shorter_quotes(text, printed):
    assert parse(text).to_text() == printed


_FEW = st.text("ab\"' -", max_size=4)
_PADDED = st.sampled_from(['"', "'", "a", "\"'", "''\"", " "])


@st.composite
def longest_texts(draw):
    """Queries as long as may be, written as tightly as the grammar lets anyone."""
    mode = draw(st.sampled_from(["LOOKUP", "FUZZY LOOKUP", "GRAPH", "TEXT", "SEARCH", "SCHEMA"]))
    strings = draw(st.lists(_FEW, min_size=1, max_size=9 if "LOOKUP" in mode else 1))
    tail = [f"LIMIT {draw(st.sampled_from([1, 10, 100, 2_000_000_000]))}"]
    quoted = []
    if mode == "GRAPH":
        tail.append(f"DEPTH {draw(st.integers(1, 5))}")
        quoted.append("TYPE" + repr_of(draw, draw(_FEW) or "LIMIT"))
    if mode in ("TEXT", "SEARCH", "SCHEMA"):
        quoted.append("FROM" + repr_of(draw, draw(_FEW) or "from"))
    if mode == "SCHEMA":
        strings, tail = [], []
        quoted = [" " + quoted[0]]
    written = ""
    for text in strings:
        one = repr_of(draw, text)
        written += (" " if written[-1:] == one[0] else "") + one
    written += "".join(draw(st.permutations(quoted)))
    written += (" " if mode != "SCHEMA" and draw(st.booleans()) else "") + " ".join(tail)
    # One string is as long as the rest leaves room for.
    piece = draw(_PADDED)
    mark = next(one for one in written if one in "\"'")
    unit = piece.replace(mark, mark * 2)
    times = (LONGEST_QUERY - len(mode) - len(written)) // len(unit)
    head, _, rest = written.partition(mark)
    return mode + head + mark + unit * times + rest


def repr_of(draw, text):
    mark = draw(st.sampled_from("\"'"))
    return mark + text.replace(mark, mark * 2) + mark


@settings(max_examples=200, deadline=None)
@given(longest_texts())
def test_what_was_accepted_is_printed_within_the_limit(text):
    assert LONGEST_QUERY - 8 < len(text) <= LONGEST_QUERY
    plan = parse(text)
    assert len(plan.to_text()) <= LONGEST_QUERY
    assert parse(plan.to_text()) == plan


@pytest.mark.parametrize(
    "text",
    [
        "LOOKUP" + "\"a\"'b'" * 16_665,
        "LOOKUP" + ' "\'"' * 24_990,
        'TEXT"x"FROM ' + "n" * (LONGEST_QUERY - 12),
        'TEXT"x"FROM"' + "n " * 49_990 + '"LIMIT 7',
        "SCHEMA FROM " + "n" * (LONGEST_QUERY - 12),
        "GRAPH'" + '"' * 49_000 + "'TYPE\"" + "'" * 50_900 + '"DEPTH 5 LIMIT 7',
        "select " + "x" * (LONGEST_QUERY - 7),
    ],
    ids=lambda text: text[:16],
)
def test_a_tight_query_of_the_greatest_length_prints_within_the_limit(text):
    plan = parse(text)
    assert len(text) > LONGEST_QUERY - 100
    assert len(plan.to_text()) <= LONGEST_QUERY
    assert parse(plan.to_text()) == plan


@settings(max_examples=200, deadline=None)
@given(PLANS)
def test_the_shortest_form_parses_back_too(plan):
    shortest = _shortest(*plan._written())
    assert parse(shortest) == plan
    assert len(shortest) <= len(plan.to_text())


ENORMOUS = {
    "keys": 'LOOKUP "k"' + ', "k"' * 200_000,
    "keys that fit": 'LOOKUP "k"' + ',"k"' * 24_000,
    "one string": 'LOOKUP "' + "x" * 1_000_000 + '"',
    "one string that fits": 'LOOKUP "' + "x" * 99_000 + '"',
    "doubled quotes": "LOOKUP '" + "''" * 49_000 + "'",
    "an open quote": 'LOOKUP "' + '""' * 49_000,
    "commas": "LOOKUP " + "," * 1_000_000,
    "commas that fit": 'LOOKUP "x"' + "," * 99_000,
    "brackets": "LOOKUP " + "([{" * 33_000,
    "spaces": " " * 99_000 + "LOOKUP" + " " * 900,
    "a word": "A" * 99_999,
    "words": "LOOKUP " + "a " * 49_000,
    "modifiers": 'LOOKUP "x" ' + "LIMIT 1 " * 12_000,
    "digits": 'LOOKUP "x" LIMIT ' + "1" * 99_000,
    "signs": 'LOOKUP "x" LIMIT ' + "-" * 99_000,
    "semicolons": "select 1" + " ;" * 49_000,
    "sql": "select " + "x" * 1_000_000,
    "a facet": "SCHEMA " + "p" * 99_000,
}


@pytest.mark.parametrize("text", ENORMOUS.values(), ids=ENORMOUS)
def test_a_huge_query_is_parsed_or_refused_at_once(text):
    best = min(_seconds(text) for _ in range(3))
    assert best < 0.2
    if len(text) > LONGEST_QUERY:
        assert best < 0.005, "it is refused unread"


def _seconds(text):
    start = time.perf_counter()
    try:
        parse(text)
    except GraphAlgoError as error:
        assert len(str(error)) < 2_000
    return time.perf_counter() - start


@pytest.mark.parametrize(
    ("one", "other", "slips"),
    [("", "", 0), ("a", "", 1), ("lokup", "lookup", 1), ("grpah", "graph", 1), ("ab", "ba", 1),
     ("search", "schema", 5), ("kitten", "sitting", 3)],
)  # fmt: skip
def test_slips_are_counted_and_a_swap_is_one(one, other, slips):
    assert distance(one, other) == distance(other, one) == slips


def test_nothing_is_near_what_is_like_nothing():
    assert nearest("ZZZZZZ", MODES) is None
    assert nearest("LOOKUPS" * 10, MODES) is None
    assert nearest("LOOK", MODES) == "LOOKUP"
    assert nearest("SCHEM", MODES) == "SCHEMA"
