"""The twin refuses what cannot be meant, in a sentence that says what to write instead."""

from __future__ import annotations

import re

import pytest

from graphalgo.engine import errors
from graphalgo.engine.errors import GraphAlgoError, InvalidValue
from tests.support import refusals
from tests.support.building import Building


@pytest.fixture(scope="module")
def twin():
    return refusals.graph().bound()


@pytest.mark.parametrize("refusal", refusals.cases())
def test_a_refusal_has_its_code_its_sentence_and_its_hint(twin, refusal):
    with pytest.raises(GraphAlgoError) as caught:
        getattr(twin, refusal.function)(**refusal.arguments)
    error = caught.value
    assert error.sqlstate == refusal.sqlstate
    assert error.message.startswith(refusal.message)
    assert error.hint and refusal.hint in error.hint
    assert str(error) == f"{error.message}\nHINT: {error.hint}"


@pytest.mark.parametrize(("function", "arguments"), refusals.accepted_cases())
def test_the_ends_of_every_range_are_accepted(twin, function, arguments):
    assert isinstance(getattr(twin, function)(**arguments), list)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("iterated_join", {"budget": 1.0}, "p_budget is 1.0, but must be a whole number"),
        ("iterated_join", {"budget": "5"}, "p_budget is '5', but must be a whole number"),
        ("iterated_join", {"max_rounds": True}, "p_max_rounds is True, but must be a whole"),
        ("iterated_join", {"similarity": "0.5"}, "p_similarity is '0.5', but must be a number"),
        ("iterated_join", {"similarity": True}, "p_similarity is True, but must be a number"),
        ("iterated_join", {"similarity": 1e-50}, "p_similarity is 0, but must be above 0"),
        ("iterated_join", {"similarity": 1e300}, "p_similarity is 1e+300, but must be above"),
        ("iterated_join", {"links": "edge"}, "p_links is 'edge', but must be a list"),
        ("iterated_join", {"links": [1]}, "an element of p_links is 1, but must be a text"),
        ("iterated_join", {"relations": "owns"}, "p_relations is 'owns', but must be a list"),
        ("iterated_join", {"target_type": 7}, "p_target_type is 7, but must be a text"),
        ("iterated_join", {"seed": 1}, "p_seed is 1, but must be a text"),
        ("iterated_join", {"as_of": "yesterday"}, '"yesterday" is not a moment'),
        ("walk", {"as_of": "yesterday"}, '"yesterday" is not a moment'),
        ("walk", {"relation": 1}, "p_relation is 1, but must be a text"),
        ("walk", {"key": "a\0b"}, "NUL"),
        ("walk", {"key": "a\ud800é"}, "surrogate"),
        ("lookup", {"keys": "meridian dawn"}, "p_keys is 'meridian dawn', but must be a list"),
        ("lookup", {"keys": [1]}, "an element of p_keys is 1, but must be a text"),
        ("lookup", {"fuzzy": 1}, "p_fuzzy is 1, but must be true or false"),
        # Python writes no number of so many digits, and no message is that long.
        ("walk", {"limit": 10**5000}, "p_limit is a very large int, but must be from 1 to"),
        ("walk", {"key": 10**5000}, "p_key is a very large int, but must be a text"),
        ("walk", {"as_of": 10**5000}, "a very large int is not a moment"),
        ("lookup", {"keys": 10**5000}, "p_keys is a very large int, but must be a list"),
        ("lookup", {"fuzzy": 10**5000}, "p_fuzzy is a very large int, but must be true or"),
        ("iterated_join", {"links": 10**5000}, "p_links is a very large int, but must be a list"),
        ("iterated_join", {"similarity": [0] * 10**5}, "…, but must be a number above 0"),
        ("iterated_join", {"links": "edge" * 10**5}, "…, but must be a list"),
        ("lookup", {"keys": "x" * 10**5}, "…, but must be a list of keys"),
    ],
)
def test_what_sql_types_rule_out_is_refused_by_name(twin, function, arguments, message):
    defaults = {"walk": refusals.WALK, "lookup": refusals.LOOKUP}.get(function, refusals.JOIN)
    with pytest.raises(InvalidValue, match=re.escape(message)) as caught:
        getattr(twin, function)(**{**defaults, **arguments})
    assert caught.value.hint
    assert len(caught.value.message) < 300


def test_without_a_vocabulary_the_hint_says_so():
    empty = Building().bound()
    store = type(empty.store)()
    with pytest.raises(errors.UnknownName) as caught:
        type(empty)(store).iterated_join("x", "goal")
    assert caught.value.hint == "No entity types are declared yet."


def test_of_many_declared_the_hint_shows_ten():
    store = Building().store()
    for number in range(20):
        store.add_entity_type(f"q{number:02}", f"Q{number}")
    with pytest.raises(errors.UnknownName) as caught:
        type(Building().bound())(store).iterated_join("x", "zzz")
    assert caught.value.hint.endswith(" and 13 more.")
    assert caught.value.hint.count('"') == 20


def test_every_refusal_is_of_one_family_with_its_own_sqlstate():
    family = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type)
        and issubclass(kind, GraphAlgoError)
        and kind is not GraphAlgoError
    ]
    states = {kind.sqlstate for kind in family}
    assert len(states) == len(family)
    assert {"22023", "42704", "P0002", "21000", "55000", "42883", "42501"} <= states


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e300, 1e-60, -1e-60])
def test_a_similarity_that_no_real_holds_is_out_of_range(value):
    with pytest.raises(errors.InvalidValue, match="must be above 0 and at most 1"):
        Building().things(1).join("T-1", similarity=value)


@pytest.mark.parametrize("moment", ["yesterday", 5, object()])
def test_a_moment_that_is_none_is_refused(moment):
    with pytest.raises(errors.InvalidValue, match="is not a moment"):
        Building().things(1).bound().walk("T-1", as_of=moment)


def test_a_limit_beyond_every_integer_is_told_its_range():
    with pytest.raises(errors.InvalidValue, match="must be from 1 to 2147483647"):
        Building().things(1).join("T-1", limit=2**31)


def test_a_message_repeats_only_the_beginning_of_a_very_long_text():
    with pytest.raises(errors.NotFound) as caught:
        Building().things(1).join("x" * 1_000_000)
    assert len(caught.value.message) < 300
