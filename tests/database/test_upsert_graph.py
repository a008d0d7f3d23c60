"""Graphs of facts: which node a name joins, which edge a fact joins, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from graphalgo.engine.folding import fold_key
from tests.support.facts import (
    APRIL,
    FAR_FUTURE,
    FEBRUARY,
    FUTURE,
    JANUARY,
    MARCH,
    ORG_A,
    ORG_B,
    USER_A,
    USER_B,
    Facts,
)

ANNA, ACME = "person/Anna", "company/Acme"


def refused(facts: Facts, code: str, graph: Any, context: Any = None) -> psycopg.Error:
    """Check that a graph is refused and nothing of it is kept; returns the error."""
    before = facts.count()
    with pytest.raises(psycopg.Error) as caught:
        facts.call("upsert_graph", Jsonb(graph), Jsonb({} if context is None else context))
    assert caught.value.sqlstate == code
    assert caught.value.diag.message_hint
    assert facts.count() == before
    return caught.value


def said(error: psycopg.Error) -> str:
    return error.diag.message_primary or ""


# Which node a name joins


def test_a_name_joins_the_typed_node_of_its_kind_by_any_key_however_written(facts: Facts) -> None:
    ship = facts.typed("Vessel", "meridian dawn", "9331802")
    assert facts.node("VESSEL", "  Meridian   DAWN ") == ship
    assert facts.node("vessel", "9331802") == ship


def test_a_name_that_is_a_code_of_the_typed_node_joins_it(facts: Facts) -> None:
    ship = facts.typed("Vessel", "9331802", is_name=False)
    assert facts.node("vessel", "9331802") == ship


def test_a_name_of_a_node_of_another_type_is_a_soft_node(facts: Facts) -> None:
    company = facts.typed("company", "apollo")
    assert facts.node("project", "Apollo") != company
    assert facts.node("person", "Apollo") != company


def test_a_name_of_several_typed_nodes_joins_none_of_them(facts: Facts) -> None:
    several = {facts.typed("person", "anna"), facts.typed("person", "anna")}
    soft = facts.node("person", "Anna")
    assert soft not in several
    assert facts.node("person", "Anna") == soft


def test_a_retired_typed_node_is_not_joined_until_it_comes_back(facts: Facts) -> None:
    anna = facts.typed("person", "anna")
    facts.retire(anna)
    assert facts.node("person", "Anna") != anna
    facts.retire(anna, False)
    assert facts.node("person", "Anna") == anna


def test_only_a_typed_node_that_the_organisations_members_see_is_joined(facts: Facts) -> None:
    of_a = facts.typed("person", "anna", org=ORG_A)
    assert facts.node("person", "Anna", org=ORG_A) == of_a
    assert facts.node("person", "Anna", org=ORG_B) != of_a
    assert facts.node("person", "Anna") != of_a
    public = facts.typed("person", "berta", org=ORG_A, visibility="public")
    assert facts.node("person", "Berta", org=ORG_B) == public
    assert facts.node("person", "Berta") == public


def test_what_another_organisation_has_does_not_make_a_name_ambiguous(facts: Facts) -> None:
    of_a = facts.typed("person", "anna", org=ORG_A)
    facts.typed("person", "anna", org=ORG_B)
    assert facts.node("person", "Anna", org=ORG_A) == of_a


def test_a_private_typed_node_is_joined_by_its_owners_private_facts_alone(facts: Facts) -> None:
    private = facts.typed("person", "anna", org=ORG_A, visibility="private", owner=USER_A)
    scope = {"org": ORG_A, "visibility": "private"}
    assert facts.node("person", "Anna", **scope, owner=USER_A) == private
    assert facts.node("person", "Anna", **scope, owner=USER_B) != private
    assert facts.node("person", "Anna", org=ORG_A) != private


def test_a_soft_node_is_one_for_each_kind_name_and_scope(facts: Facts) -> None:
    scopes: list[dict[str, str]] = [
        {}, {"visibility": "public"}, {"org": ORG_A}, {"org": ORG_B},
        {"org": ORG_A, "visibility": "public"},
        {"org": ORG_A, "visibility": "private", "owner": USER_A},
    ]  # fmt: skip
    made = [facts.node("project", "Apollo", **scope) for scope in scopes]
    assert len(set(made)) == len(scopes)
    assert [facts.node(" PROJECT", "apollo  ", **scope) for scope in scopes] == made
    assert facts.node("plan", "Apollo") not in made


def test_a_soft_node_keeps_its_name_as_written_and_is_found_by_it_folded(facts: Facts) -> None:
    node = facts.node("Project", " Ärger  im HAFEN ")
    row = facts.connection.execute(
        "select claimed_kind, soft_name, summary, soft_key from aiq.nodes where id = %s", (node,)
    ).fetchone()
    assert row == (
        "project", "ärger im hafen", "Ärger  im HAFEN", "project/ärger im hafen",
    )  # fmt: skip
    keys = facts.connection.execute(
        "select key, kind, is_name, soft, audience, retired_at from aiq.node_keys"
        " where node_id = %s",
        (node,),
    ).fetchall()
    assert keys == [("ärger im hafen", "alias", True, True, None, None)]


@pytest.mark.parametrize(
    "name",
    ["Plain", "two  blanks", " led", "trailed ", "tab\there", "İstanbul", "Σς", "a\u00a0b", "~"],
)
def test_names_fold_as_keys_do_everywhere(facts: Facts, name: str) -> None:
    node = facts.node("project", name)
    assert facts.one("select soft_name from aiq.nodes where id = %s", node) == fold_key(name)


def test_a_summary_of_a_new_soft_node_may_be_given(facts: Facts) -> None:
    graph = {"nodes": [{"k": "project", "n": "Apollo", "summary": "The moon", "page": 3}]}
    node = facts.upsert(graph)["nodes"][0]
    assert facts.one("select summary from aiq.nodes where id = %s", node) == "The moon"


def test_a_retired_soft_node_comes_back_as_the_same_node(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    anna = facts.periods()[0].src
    facts.retire(anna)
    assert facts.seen_edges(None) == []
    assert facts.node("person", "Anna") == anna
    assert facts.seen_edges(None) == [edge]


# What a call answers


def test_the_answer_gives_ids_by_index_and_counts_what_was_new(facts: Facts) -> None:
    acme = facts.typed("company", "acme")
    graph = {
        "nodes": [{"k": "person", "n": "Anna"}, {"k": "company", "n": "Acme"},
                  {"k": "person", "n": "ANNA"}],
        "edges": [{"s": 0, "t": 1, "r": "works_for"}, {"s": 2, "t": 1, "r": "works_for"},
                  {"s": 0, "t": 2, "r": "knows"}],
    }  # fmt: skip
    first = facts.upsert(graph)
    anna = first["nodes"][0]
    assert first["nodes"] == [anna, acme, anna]
    assert first["edges"][0] == first["edges"][1] != first["edges"][2]
    assert first["counts"] == {
        "typed": 1, "soft_made": 1, "soft_found": 0, "edges_made": 2, "edges_found": 0,
    }  # fmt: skip
    again = facts.upsert(graph)
    assert (again["nodes"], again["edges"]) == (first["nodes"], first["edges"])
    assert again["counts"] == {
        "typed": 1, "soft_made": 0, "soft_found": 1, "edges_made": 0, "edges_found": 2,
    }  # fmt: skip


@pytest.mark.parametrize("graph", [{}, {"nodes": []}, {"edges": []}, {"nodes": [], "edges": []}])
def test_an_empty_graph_writes_nothing(facts: Facts, graph: Any) -> None:
    assert facts.upsert(graph) == {
        "nodes": [], "edges": [],
        "counts": {"typed": 0, "soft_made": 0, "soft_found": 0, "edges_made": 0, "edges_found": 0},
    }  # fmt: skip


def test_a_graph_with_one_wrong_entry_writes_nothing_at_all(facts: Facts) -> None:
    nodes = [{"k": "project", "n": f"node {number}"} for number in range(50)]
    edges = [{"s": number, "t": 0, "r": "knows"} for number in range(49)]
    error = refused(
        facts, "42704", {"nodes": nodes, "edges": [*edges, {"s": 1, "t": 2, "r": "hates"}]}
    )
    assert said(error).startswith('edge 49: relation "hates"')


# Which edge a fact joins


def test_an_edge_carries_its_scope_memory_and_provenance_and_its_ends_scopes(facts: Facts) -> None:
    acme = facts.typed("company", "acme")
    context = {"agent": "reader", "memory": "doc-1", "org": ORG_A, "page": 7}
    edge = facts.state(ANNA, "works_for", ACME, w=0.5, **context)
    row = facts.connection.execute(
        "select dst_id, weight, org_id::text, visibility, owner_id, memory, provenance,"
        " src_audience::text, dst_audience, valid_to from aiq.edges where id = %s",
        (edge,),
    ).fetchone()
    assert row == (acme, 0.5, ORG_A, "org", None, "doc-1", context, ORG_A, None, None)
    assert facts.seen_edges(USER_A) == [edge]
    assert facts.seen_edges(USER_B) == facts.seen_edges(None) == []


def test_a_fact_of_two_scopes_is_two_edges(facts: Facts) -> None:
    facts.typed("person", "anna")
    facts.typed("company", "acme")
    edges = {
        facts.state(ANNA, "works_for", ACME),
        facts.state(ANNA, "works_for", ACME, org=ORG_A),
        facts.state(ANNA, "works_for", ACME, org=ORG_B),
    }
    assert len(edges) == 3
    assert len(facts.seen_edges(USER_A)) == 2


def test_without_a_weight_it_is_one_and_the_greatest_weight_wins(facts: Facts) -> None:
    edges = [facts.state("person/a", "knows", "person/b", w=w) for w in (0.4, 0.25, 0.75, 0.5)]
    assert len(set(edges)) == 1
    assert facts.periods()[0].weight == 0.75
    facts.state("person/a", "knows", "person/b")
    assert facts.periods()[0].weight == 1


def test_a_fact_loaded_today_about_january_holds_from_january(facts: Facts) -> None:
    facts.state(ANNA, "works_for", ACME, valid_from="2024-01-01")
    assert facts.spans() == [("2024-01-01", None)]


def test_without_a_start_a_fact_holds_from_now(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=None)
    assert facts.one(
        "select valid_from = recorded_at and valid_from > now() - interval '1 minute'"
        " from aiq.edges where id = %s", edge,
    )  # fmt: skip


def test_a_fact_may_hold_for_ever(facts: Facts) -> None:
    facts.state(ANNA, "works_for", ACME, valid_from="-infinity")
    facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    assert facts.one("select valid_from = '-infinity' from aiq.edges")


@pytest.mark.parametrize("starts", [(JANUARY, MARCH, FEBRUARY), (MARCH, FEBRUARY, JANUARY)])
def test_the_earliest_start_wins_and_names_what_began_the_period(
    facts: Facts, starts: tuple[str, ...]
) -> None:
    edges = {
        facts.state(ANNA, "works_for", ACME, valid_from=start, memory=f"says {start}")
        for start in starts
    }
    (edge,) = edges
    period = facts.periods()[0]
    assert (period.start[:10], period.memory) == ("2024-01-01", f"says {JANUARY}")
    assert facts.one("select provenance ->> 'memory' from aiq.edges") == f"says {JANUARY}"
    assert facts.memories(edge) == {f"says {start}" for start in starts}


def test_each_asserting_memory_is_recorded_with_what_it_stated(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, w=0.5, valid_from=FEBRUARY, memory="m", agent="x")
    facts.state(ANNA, "works_for", ACME, w=0.75, valid_from=MARCH, memory="m")
    facts.state(ANNA, "works_for", ACME, w=0.25, valid_from=JANUARY, memory="n")
    facts.state(ANNA, "works_for", ACME)
    rows = facts.connection.execute(
        "select memory, agent, weight, extract(month from stated_from)::int from"
        " aiq.edge_assertions where edge_id = %s order by memory",
        (edge,),
    ).fetchall()
    assert rows == [("m", "x", 0.75, 2), ("n", None, 0.25, 1)]
    seen = "select memory from aiq.edge_assertions_api order by memory"
    assert [row[0] for row in facts.seen(seen, None)] == ["m", "n"]


def test_who_may_not_see_an_edge_may_not_see_who_asserted_it(facts: Facts) -> None:
    facts.state(ANNA, "works_for", ACME, org=ORG_A, memory="secret")
    query = "select memory from aiq.edge_assertions_api"
    assert facts.seen(query, USER_B) == facts.seen(query, None) == []
    assert facts.seen(query, USER_A) == [("secret",)]


def test_entries_for_one_fact_in_one_graph_collapse(facts: Facts) -> None:
    nodes = [{"k": "person", "n": "a"}, {"k": "person", "n": "b"}]
    edges = [{"s": 0, "t": 1, "r": "knows", "w": w} for w in (0.25, 0.75, 0.5)]
    written = facts.upsert({"nodes": nodes, "edges": edges}, memory="m")
    assert len(set(written["edges"])) == 1
    assert [period.weight for period in facts.periods()] == [0.75]
    assert facts.one("select weight from aiq.edge_assertions") == 0.75


def test_a_node_may_have_an_edge_to_itself_and_two_directions_are_two_facts(facts: Facts) -> None:
    loop = facts.state("person/a", "knows", "person/a")
    there = facts.state("person/a", "knows", "person/b")
    back = facts.state("person/b", "knows", "person/a")
    assert len({loop, there, back}) == 3


# Time


@pytest.mark.parametrize(
    ("stated", "start"),
    [
        pytest.param(JANUARY, "2024-03-01", id="before the period"),
        pytest.param(FEBRUARY, "2024-03-01", id="inside it"),
        pytest.param(MARCH, "2024-03-01", id="at its end"),
        pytest.param(APRIL, "2024-04-01", id="after it"),
    ],
)
def test_a_start_before_or_inside_a_closed_period_moves_to_its_end(
    facts: Facts, stated: str, start: str
) -> None:
    first = facts.state(ANNA, "works_for", ACME, valid_from="2024-01-15")
    facts.close(MARCH, edge_id=first)
    again = facts.state(ANNA, "works_for", ACME, valid_from=stated, memory="again")
    assert again != first
    assert facts.spans() == [("2024-01-15", "2024-03-01"), (start, None)]
    # And the open period, stated to be earlier, stays behind the closed one.
    assert facts.state(ANNA, "works_for", ACME, valid_from=JANUARY, memory="late") == again
    assert facts.spans() == [("2024-01-15", "2024-03-01"), ("2024-03-01", None)]
    assert facts.periods(again)[0].memory == ("again" if start == "2024-03-01" else "late")


def test_of_several_closed_periods_the_last_one_counts(facts: Facts) -> None:
    for start, end in ((JANUARY, FEBRUARY), (MARCH, APRIL)):
        facts.close(end, edge_id=facts.state(ANNA, "works_for", ACME, valid_from=start))
    facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    assert facts.spans() == [
        ("2024-01-01", "2024-02-01"), ("2024-03-01", "2024-04-01"), ("2024-04-01", None),
    ]  # fmt: skip


def test_a_period_that_was_closed_where_it_began_is_in_nobodys_way(facts: Facts) -> None:
    facts.close(FEBRUARY, edge_id=facts.state(ANNA, "works_for", ACME, valid_from=FEBRUARY))
    facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    assert facts.spans() == [("2024-01-01", None), ("2024-02-01", "2024-02-01")]


def test_closed_periods_of_other_scopes_and_facts_are_in_nobodys_way(facts: Facts) -> None:
    facts.typed("person", "anna")
    facts.typed("company", "acme")
    facts.close(MARCH, edge_id=facts.state(ANNA, "works_for", ACME, org=ORG_A, valid_from=JANUARY))
    facts.state(ANNA, "works_for", ACME, org=ORG_B, valid_from=FEBRUARY)
    assert facts.spans() == [("2024-01-01", "2024-03-01"), ("2024-02-01", None)]


def test_a_start_ahead_is_kept_until_an_earlier_one_is_stated(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=FUTURE)
    assert facts.seen_edges(None) == []
    assert facts.state(ANNA, "works_for", ACME, valid_from=JANUARY) == edge
    assert facts.seen_edges(None) == [edge]
    assert facts.spans() == [("2024-01-01", None)]


def test_a_fact_stated_while_it_has_an_end_ahead_goes_on_after_that_end(facts: Facts) -> None:
    first = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    facts.close(FUTURE, edge_id=first)
    facts.state(ANNA, "works_for", ACME)
    assert facts.spans() == [("2024-01-01", "2124-01-01"), ("2124-01-01", None)]
    assert facts.seen_edges(None) == [first]
    facts.state(ANNA, "works_for", ACME, valid_from=FAR_FUTURE)
    assert len(facts.spans()) == 2


# What is refused

NODES = [{"k": "person", "n": "Anna"}, {"k": "company", "n": "Acme"}]
EDGE = {"s": 0, "t": 1, "r": "works_for"}


@pytest.mark.parametrize(
    ("graph", "part"),
    [
        (None, "p_graph is null"),
        ([], "p_graph is []"),
        ("x", 'p_graph is "x"'),
        ({"nodes": None}, '"nodes" is null'),
        ({"nodes": {}}, '"nodes" is {}'),
        ({"nodes": [], "edges": 1}, '"edges" is 1'),
        ({"node": []}, 'has a part "node"'),
        ({"nodes": [*NODES, None]}, "node 2: is null"),
        ({"nodes": [*NODES, [1]]}, "node 2: is [1]"),
        ({"nodes": [{"n": "x"}]}, 'node 0: has no kind "k"'),
        ({"nodes": [{"k": "x"}]}, 'node 0: has no name "n"'),
        ({"nodes": [{"k": None, "n": "x"}]}, 'node 0: the kind "k" is null'),
        ({"nodes": [NODES[0], {"k": "x", "n": 7}]}, 'node 1: the name "n" is 7'),
        ({"nodes": [NODES[0], {"k": "x", "n": " \t"}]}, 'node 1: the name "n" is empty'),
        ({"nodes": [{"k": "", "n": "x"}]}, 'node 0: the kind "k" is empty'),
        ({"nodes": [{"k": "x", "n": "ä" * 1001}]}, "has 2002 bytes"),
        ({"nodes": [{"k": "x" * 201, "n": "x"}]}, "has 201 bytes"),
        ({"nodes": [{"k": "x", "n": "x", "summary": 1}]}, "the summary is 1"),
        ({"nodes": NODES, "edges": [EDGE, 3]}, "edge 1: is 3"),
    ],
)
def test_another_shape_is_refused_naming_the_entry(facts: Facts, graph: Any, part: str) -> None:
    assert part in said(refused(facts, "22023", graph))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"s": 2}, '"s" is 2, but the nodes are 0 to 1'),
        ({"t": -1}, '"t" is -1, but the nodes are 0 to 1'),
        ({"t": 10**30}, '"t" is 1000'),
        ({"s": 0.5}, '"s" is 0.5'),
        ({"s": "0"}, '"s" is "0"'),
        ({"t": None}, '"t" is null'),
        ({"t": True}, '"t" is true'),
        ({"s": ...}, 'has no "s"'),
        ({"t": ...}, 'has no "t"'),
        ({"r": ...}, 'has no relation "r"'),
        ({"r": ""}, 'the relation "r" is ""'),
        ({"r": 1}, 'the relation "r" is 1'),
        ({"r": None}, 'the relation "r" is null'),
        ({"w": 0}, 'the weight "w" is 0'),
        ({"w": -0.5}, 'the weight "w" is -0.5'),
        ({"w": 1.00000000001}, 'the weight "w" is 1.00000000001'),
        ({"w": 1e-300}, 'the weight "w" is 1.0e-300, but must be at least 1e-37'),
        ({"w": "NaN"}, 'the weight "w" is "NaN"'),
        ({"w": "0.5"}, 'the weight "w" is "0.5"'),
        ({"w": [1]}, 'the weight "w" is [1]'),
        ({"weight": 0.5}, 'has a part "weight"'),
    ],
)
def test_a_wrong_edge_is_refused_naming_its_place(
    facts: Facts, change: dict[str, Any], part: str
) -> None:
    wrong = {name: value for name, value in (EDGE | change).items() if value is not ...}
    error = refused(facts, "22023", {"nodes": NODES, "edges": [EDGE, EDGE, wrong, wrong]})
    assert said(error).startswith("edge 2: ")
    assert part in said(error)


def test_an_edge_without_any_nodes_is_refused(facts: Facts) -> None:
    assert "there are no nodes" in said(refused(facts, "22023", {"edges": [EDGE]}))


@pytest.mark.parametrize("weight", [1, 1.0, 0.9999999999999, 1e-30, None])
def test_a_weight_at_the_edge_of_its_range_is_taken(facts: Facts, weight: float | None) -> None:
    facts.upsert({"nodes": NODES, "edges": [EDGE | {"s": 0.0, "w": weight}]})
    stored = facts.periods()[0].weight
    assert stored == pytest.approx(1 if weight is None else weight, rel=1e-6)


def test_a_relation_is_checked_for_the_types_and_soft_ends_by_itself(facts: Facts) -> None:
    facts.typed("person", "typed")
    facts.typed("company", "typed")
    nodes = [{"k": "person", "n": "typed"}, {"k": "company", "n": "typed"},
             {"k": "person", "n": "soft"}]  # fmt: skip
    facts.upsert({"nodes": nodes, "edges": [{"s": 0, "t": 1, "r": "works_for"}]})
    error = refused(
        facts, "42704",
        {"nodes": nodes, "edges": [{"s": 0, "t": 1, "r": "works_for"},
                                   {"s": 1, "t": 0, "r": "works_for"}]},
    )  # fmt: skip
    assert said(error) == (
        'edge 1: relation "works_for" is not declared from "company" to "person"'
    )
    facts.upsert({"nodes": nodes, "edges": [{"s": 1, "t": 2, "r": "works_for"}]})
    error = refused(facts, "42704", {"nodes": nodes, "edges": [{"s": 0, "t": 2, "r": "Knows"}]})
    assert said(error) == ('edge 0: relation "Knows" is not declared from "person" to a soft node')
    assert '"knows" from "person" to "person"' in (error.diag.message_hint or "")


@pytest.mark.parametrize(
    ("code", "context", "part"),
    [
        ("22023", [], "p_context is []"),
        ("22023", None, "p_context is null"),
        ("22023", {"org": "meridian"}, '"org" is "meridian"'),
        ("22023", {"org": 7}, '"org" is 7'),
        ("22023", {"org": ""}, '"org" is ""'),
        ("42704", {"org": "d0000000-0000-0000-0000-0000000000ff"}, "no organisation d0000000"),
        ("22023", {"visibility": "secret"}, '"visibility" is "secret"'),
        ("22023", {"visibility": "private"}, 'there is no "owner"'),
        ("22023", {"owner": USER_A}, '"visibility" is "org"'),
        ("22023", {"visibility": "private", "owner": "me"}, '"owner" is "me"'),
        ("42704", {"visibility": "private", "owner": ORG_A}, f"there is no user {ORG_A}"),
        ("22023", {"valid_from": "yesteryear"}, '"valid_from" is "yesteryear"'),
        ("22023", {"valid_from": "2024-13-01"}, '"valid_from" is "2024-13-01"'),
        ("22023", {"valid_from": "infinity"}, '"valid_from" is "infinity"'),
        ("22023", {"valid_from": 2024}, '"valid_from" is 2024'),
        ("22023", {"memory": 1}, '"memory" is 1'),
        ("22023", {"memory": "m" * 1001}, '"memory" has 1001 bytes'),
        ("22023", {"agent": {}}, '"agent" is {}'),
    ],
)
def test_a_wrong_context_is_refused(facts: Facts, code: str, context: Any, part: str) -> None:
    before = facts.count()
    with pytest.raises(psycopg.Error) as caught:
        facts.call("upsert_graph", Jsonb({"nodes": NODES, "edges": [EDGE]}), Jsonb(context))
    assert caught.value.sqlstate == code
    assert part in said(caught.value)
    assert facts.count() == before


def test_null_arguments_are_refused(facts: Facts) -> None:
    for arguments in ((None, Jsonb({})), (Jsonb({}), None)):
        with pytest.raises(psycopg.Error, match="is null, but must be an object") as caught:
            facts.call("upsert_graph", *arguments)
        assert caught.value.sqlstate == "22023"


def test_a_transaction_with_one_snapshot_is_refused(facts: Facts) -> None:
    with (
        pytest.raises(psycopg.Error, match="repeatable read") as caught,
        facts.connection.transaction(),
    ):
        facts.connection.execute("set transaction isolation level repeatable read")
        facts.call("upsert_graph", Jsonb({"nodes": NODES}), Jsonb({}))
    assert caught.value.sqlstate == "55000"


# Who may call


@pytest.mark.parametrize("role", ["authenticated", "web_anon", "aiq_owner"])
@pytest.mark.parametrize(
    "call",
    [
        "upsert_graph('{}', '{}')",
        "close_edge(p_edge_id => 1)",
        "promote_soft_node(1, 2, null, null)",
        "record_distinct(1, 2, null, null)",
        "upsert_graph_once('{}', '{}')",
        "resolve_names('{}', '{}', null, 'org', null, null)",
        "closable_edges(1, null, null)",
        "node_handle(1)",
    ],
)
def test_nobody_but_a_worker_may_write(facts: Facts, role: str, call: str) -> None:
    with facts.connection.transaction(force_rollback=True):
        facts.connection.execute(f"set local role {role}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            facts.connection.execute(f"select aiq.{call}".encode())


def test_a_worker_may_call_no_more_than_the_writers(facts: Facts) -> None:
    rows = facts.connection.execute(
        "select p.proname from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace"
        " join pg_roles as o on o.oid = p.proowner where n.nspname = 'aiq'"
        " and o.rolname = 'aiq_engine' and p.prorettype <> 'trigger'::regtype"
        " and p.proname = any (%s)"
        " and has_function_privilege('aiq_worker', p.oid, 'execute') order by 1",
        ([
            "upsert_graph", "close_edge", "promote_soft_node", "record_distinct",
            "upsert_graph_once", "take_nodes", "assert_edges", "resolve_names", "make_soft_nodes",
            "move_promoted_edges", "move_promoted_keys", "follow_assertions", "closable_edges",
        ],),
    )  # fmt: skip
    assert [row[0] for row in rows] == [
        "close_edge", "promote_soft_node", "record_distinct", "upsert_graph",
    ]  # fmt: skip


def test_a_worker_reads_and_writes_no_base_table(facts: Facts) -> None:
    for table in ("edge_assertions", "node_promotions", "distinct_nodes", "edges"):
        with facts.connection.transaction(force_rollback=True):
            facts.connection.execute("set local role aiq_worker")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                facts.connection.execute(f"select from aiq.{table}".encode())


def test_objects_of_the_caller_are_never_used(facts: Facts) -> None:
    with facts.connection.transaction(force_rollback=True):
        facts.connection.execute(
            "create schema evil; grant usage on schema evil to aiq_engine;"
            " create function evil.lower(text) returns text language sql as $$ select 'evil' $$;"
            " create temp table nodes (id int); set local search_path = evil, pg_temp, pg_catalog"
        )
        written = facts.upsert({"nodes": NODES, "edges": [EDGE]})
        name = facts.one("select soft_name from aiq.nodes where id = %s", written["nodes"][0])
    assert name == "anna"


def test_a_large_graph_is_written_and_found_again(facts: Facts) -> None:
    nodes = [{"k": "person", "n": f"Person number {number}"} for number in range(2000)]
    edges = [
        {"s": number, "t": (number * step + 1) % 2000, "r": "knows", "w": step / 10}
        for number in range(2000)
        for step in (3, 7)
    ]
    first = facts.upsert({"nodes": nodes, "edges": edges}, org=ORG_A, memory="bulk")
    again = facts.upsert({"nodes": nodes, "edges": edges}, org=ORG_A, memory="bulk")
    assert first["nodes"] == again["nodes"]
    assert first["edges"] == again["edges"]
    assert again["counts"]["edges_made"] == again["counts"]["soft_made"] == 0
    pairs = {(edge["s"], edge["t"]) for edge in edges}
    assert facts.count() == (2000, 2000, len(pairs), len(pairs))
    assert json.loads(json.dumps(first["counts"]))["edges_made"] == len(pairs)
