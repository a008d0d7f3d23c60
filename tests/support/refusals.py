"""Every way to be refused by the algorithms, with the sentence and the code.

The same table holds for the store in memory, the store over a connection and the
functions inside the server.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from tests.support.building import Building

ENDED = "2022-01-01T00:00:00+00:00"
LINK_KINDS = "Write some of edge, shared_key, similar, judged."
WHAT_TO_WRITE = "Write a handle, a soft node's kind/name, or a key."


def graph() -> Building:
    """The graph that the table is about."""
    building = Building()
    building.node(1, "thing", "meridian dawn").code("nl-2231", 1)
    building.node(2, "goal", "bulk harmony")
    building.node(3, "thing", "shared name").node(4, "goal", "shared name")
    building.soft(5, "ship", "nordvik star").soft(6, "ship", "shared soft")
    building.soft(7, "tug", "shared soft").node(8, "person", "old hand", retired_at=ENDED)
    building.node(9, "thing", "t-77")
    for node in range(20, 32):
        building.node(node, "thing").code("crowd", node)
    building.node(40, "thing", "ship/twofold").soft(41, "ship", "twofold")
    return building.edge(1, 2).edge(1, 3)


class Refusal(NamedTuple):
    """One call and what is said of it. `hint` is a part of the hint."""

    function: str
    arguments: dict[str, Any]
    sqlstate: str
    message: str
    hint: str


JOIN: dict[str, Any] = {"seed": "T-1", "target_type": "goal"}
WALK: dict[str, Any] = {"key": "T-1"}
LOOKUP: dict[str, Any] = {"keys": ["meridian dawn"]}


def _join(sqlstate: str, message: str, hint: str, **arguments: Any) -> list[Refusal]:
    """The join and its trace refuse alike."""
    given = {**JOIN, **arguments}
    return [
        Refusal(function, given, sqlstate, message, hint)
        for function in ("iterated_join", "iterated_join_trace")
    ]


def _walk(sqlstate: str, message: str, hint: str, **arguments: Any) -> list[Refusal]:
    return [Refusal("walk", {**WALK, **arguments}, sqlstate, message, hint)]


def _lookup(sqlstate: str, message: str, hint: str, **arguments: Any) -> list[Refusal]:
    return [Refusal("lookup", {**LOOKUP, **arguments}, sqlstate, message, hint)]


def _ranges() -> list[Refusal]:
    """Whole numbers: each one below, one above, far off and null."""
    refusals = []
    for call, name, low, high, example in (
        (_join, "max_rounds", 1, 5, 3),
        (_join, "budget", 1, 100_000, 500),
        (_join, "degree_cap", 1, 100_000, 100),
        (_join, "limit", 1, None, 100),
        (_walk, "depth", 1, 5, 2),
        (_walk, "degree_cap", 1, 100_000, 100),
        (_walk, "limit", 1, None, 100),
        (_lookup, "limit", 1, None, 10),
    ):
        expected = f"at least {low}" if high is None else f"from {low} to {high}"
        hint = f"Write for example p_{name} => {example}."
        values: list[int | None] = [low - 1, -(2**31), None]
        if high is not None:
            values += [high + 1, 2**31 - 1]
        for value in values:
            shown = "null" if value is None else value
            message = f"p_{name} is {shown}, but must be {expected}"
            refusals += call("22023", message, hint, **{name: value})
    return refusals


def _similarities() -> list[Refusal]:
    refusals = []
    for value, shown in (
        (0.0, "0"), (-0.5, "-0.5"), (1.0000001, "1.0000001"), (2.0, "2"), (math.nan, "NaN"),
        (math.inf, "Infinity"), (-math.inf, "-Infinity"), (None, "null"),
    ):  # fmt: skip
        refusals += _join(
            "22023",
            f"p_similarity is {shown}, but must be above 0 and at most 1",
            "Write for example p_similarity => 0.6.",
            similarity=value,
        )
    return refusals


def _links() -> list[Refusal]:
    return [
        *_join("22023", "p_links is null, but must be a list", LINK_KINDS, links=None),
        *_join("22023", "p_links is empty, but must name at least one link kind", LINK_KINDS,
               links=[]),
        *_join("22023", 'p_links holds "edges", which is not a link kind', LINK_KINDS,
               links=["edge", "edges"]),
        *_join("22023", 'p_links holds "Edge", which is not a link kind', LINK_KINDS,
               links=["Edge"]),
        *_join("22023", 'p_links holds "", which is not a link kind', LINK_KINDS, links=[""]),
        *_join("22023", "an element of p_links is null, but must be a text", LINK_KINDS,
               links=["edge", None]),
        *_join("55000", "judged links are asked for, but percolate.link_judge names no function",
               "Set percolate.link_judge to a judge, such as aiq.stored_link_judge.",
               links=["edge", "judged"]),
    ]  # fmt: skip


def _vocabulary() -> list[Refusal]:
    types = 'The declared entity types are "goal", "person", "thing".'
    relations = (
        'The declared relations are "Zebra", "knows", "owns", "part_of", "éclair".'
    )
    return [
        *_join("22023", "p_target_type is null, but must be a text", types, target_type=None),
        *_join("42704", 'p_target_type is "goals", which is not a registered entity type',
               'Did you mean "goal"?', target_type="goals"),
        *_join("42704", 'p_target_type is "Goal", which is not a registered entity type',
               'Did you mean "goal"?', target_type="Goal"),
        *_join("42704", 'p_target_type is "x", which is not a registered entity type', types,
               target_type="x"),
        *_join("42704", 'p_target_type is "", which is not a registered entity type', types,
               target_type=""),
        *_join("22023", "p_relations is empty, but must name at least one relation",
               "Write null for every relation.", relations=[]),
        *_join("22023", "an element of p_relations is null, but must be a text", relations,
               relations=["owns", None]),
        *_join("42704", 'p_relations holds "know", which is not a declared relation',
               'Did you mean "knows"?', relations=["owns", "know"]),
        *_join("42704", 'p_relations holds "zebra", which is not a declared relation',
               'Did you mean "Zebra"?', relations=["zebra"]),
        *_join("42704", 'p_relations holds "x\'); drop", which is not a declared relation',
               relations, relations=["x'); drop"]),
        *_walk("42704", 'p_relation is "part of", which is not a declared relation',
               'Did you mean "part_of"?', relation="part of"),
        *_walk("42704", 'p_relation is "", which is not a declared relation', relations,
               relation=""),
        *_walk("42704", 'p_relation is "eclair", which is not a declared relation', '"éclair"',
               relation="eclair"),
    ]  # fmt: skip


# What a caller wrote, and (SQLSTATE, message, hint).
SEEDS: list[tuple[str | None, str, str, str]] = [
    (None, "22023", "{name} is null, but must be a text", WHAT_TO_WRITE),
    ("", "22023", "{name} is empty, but must name a node", WHAT_TO_WRITE),
    (" \t\u00a0 ", "22023", "{name} is empty, but must name a node", WHAT_TO_WRITE),
    ("meridian down", "P0002", 'no node is found by "meridian down"',
     'Near spellings: "meridian dawn".'),
    ("qqqq", "P0002", 'no node is found by "qqqq"', "aiq.lookup with p_fuzzy => true"),
    ("%", "P0002", 'no node is found by "%"', "Check the spelling"),
    # Of a registered prefix, so a handle, though a node holds it as a key.
    ("T-77", "P0002", 'no node is found by "T-77"', '"t-77"'),
    ("t-2", "P0002", 'no node is found by "t-2"', ""),
    ("soft-1", "P0002", 'no node is found by "soft-1"', ""),
    ("soft-99", "P0002", 'no node is found by "soft-99"', ""),
    # No handles: leading zeros, no number, a number that no node can have.
    ("T-01", "P0002", 'no node is found by "T-01"', ""),
    ("T-", "P0002", 'no node is found by "T-"', ""),
    ("-1", "P0002", 'no node is found by "-1"', ""),
    ("T-9223372036854775808", "P0002", 'no node is found by "T-9223372036854775808"', ""),
    ("T-9223372036854775807", "P0002", 'no node is found by "T-9223372036854775807"', ""),
    ("T-١", "P0002", 'no node is found by "T-١"', ""),
    # Soft nodes are found by kind/name alone.
    ("nordvik star", "P0002", 'no node is found by "nordvik star"',
     'Near spellings: "ship/nordvik star".'),
    ("tug/nordvik star", "P0002", 'no node is found by "tug/nordvik star"',
     '"ship/nordvik star"'),
    ("ship", "P0002", 'no node is found by "ship"', ""),
    ("shared soft", "P0002", 'no node is found by "shared soft"',
     'Near spellings: "ship/shared soft", "tug/shared soft"'),
    # Retired.
    ("P-8", "P0002", 'no node is found by "P-8"', ""),
    ("old hand", "P0002", 'no node is found by "old hand"', "Check the spelling"),
    ("Shared  NAME", "21000", '"Shared  NAME" names 2 nodes: T-3, G-4',
     "Write the handle of the one you mean."),
    ("crowd", "21000",
     '"crowd" names more than 10 nodes: T-20, T-21, T-22, T-23, T-24, T-25, T-26, T-27, T-28, T-29',
     "Write the handle of the one you mean."),
    ("ship/twofold", "21000", '"ship/twofold" names 2 nodes: T-40, soft-41',
     "Write the handle of the one you mean."),
]  # fmt: skip


def _seeds() -> list[Refusal]:
    refusals = []
    for value, sqlstate, message, hint in SEEDS:
        refusals += _join(sqlstate, message.format(name="p_seed"), hint, seed=value)
        refusals += _walk(sqlstate, message.format(name="p_key"), hint, key=value)
    return refusals


def _lookups() -> list[Refusal]:
    keys = "Write a list of keys, such as array['meridian dawn']."
    return [
        *_lookup("22023", "p_keys is null, but must be a list of keys", keys, keys=None),
        *_lookup("22023", "an element of p_keys is null, but must be a text", keys,
                 keys=["a", None]),
        *_lookup("22023", "p_fuzzy is null, but must be true or false",
                 "Write for example p_fuzzy => false.", fuzzy=None),
    ]  # fmt: skip


def _first_of_several() -> list[Refusal]:
    """Where several things are wrong, all stores name the same one."""
    return [
        *_join("22023", "p_max_rounds is 0, but must be from 1 to 5", "",
               seed=None, target_type=None, max_rounds=0, links=[], budget=0),
        *_join("22023", "p_links is empty", "", seed=None, links=[]),
        *_join("42704", 'p_target_type is "x"', "", seed="nobody", target_type="x"),
        *_walk("22023", "p_depth is 0", "", key=None, depth=0),
    ]  # fmt: skip


REFUSALS = [
    *_ranges(), *_similarities(), *_links(), *_vocabulary(), *_seeds(), *_lookups(),
    *_first_of_several(),
]  # fmt: skip


def cases() -> list[Any]:
    """The table as parameters of a test."""
    defaults = {**JOIN, **WALK, **LOOKUP}
    return [
        pytest.param(
            refusal,
            id=f"{refusal.function}-"
            + ",".join(
                f"{name}={value!r}"
                for name, value in refusal.arguments.items()
                if defaults.get(name, ...) != value
            ),
        )
        for refusal in REFUSALS
    ]


# Calls at the ends of every range, which are accepted.
ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    *(("iterated_join", {**JOIN, **extra}) for extra in (
        {"max_rounds": 1}, {"max_rounds": 5}, {"budget": 1}, {"budget": 100_000},
        {"degree_cap": 1}, {"degree_cap": 100_000}, {"limit": 1}, {"limit": 2**31 - 1},
        {"similarity": 1.0}, {"similarity": 1.00000001}, {"similarity": 1e-45},
        {"links": ["edge", "edge"]}, {"relations": ["knows", "knows", "Zebra"]},
        {"seed": " t-1 "}, {"seed": "NL-2231"}, {"seed": "Meridian  DAWN"},
        {"seed": "ship/nordvik star"}, {"seed": "SHIP/Nordvik Star"}, {"seed": "Soft-5"},
    )),
    *(("walk", {**WALK, **extra}) for extra in (
        {"depth": 1}, {"depth": 5}, {"degree_cap": 1}, {"degree_cap": 100_000}, {"limit": 1},
        {"limit": 2**31 - 1}, {"relation": "knows"}, {"key": "nl-2231"}, {"key": "soft-5"},
    )),
    *(("lookup", {**LOOKUP, **extra}) for extra in (
        {"limit": 1}, {"limit": 2**31 - 1}, {"fuzzy": True}, {"keys": []}, {"keys": ["", " "]},
    )),
]  # fmt: skip


def accepted_cases() -> list[Any]:
    """The accepted calls as parameters of a test."""
    return [
        pytest.param(function, arguments, id=f"{function}-{arguments}")
        for function, arguments in ACCEPTED
    ]
