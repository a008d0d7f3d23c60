"""What a reconciler finds out: which typed node a soft one is, and which nodes are distinct."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.facts import (
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

ANA, ACME = "person/Ana", "company/Acme"


def promote(facts: Facts, soft: int, node: int) -> int:
    evidence = Jsonb({"same": "birthday"})
    return int(facts.call("promote_soft_node", soft, node, "clerk", evidence))


def refused(facts: Facts, code: str, call: Callable[[], object]) -> str:
    """Check that a call is refused and nothing changes; returns the sentence."""
    before = (facts.count(), facts.periods())
    with pytest.raises(psycopg.Error) as caught:
        call()
    assert caught.value.sqlstate == code
    assert caught.value.diag.message_hint
    assert (facts.count(), facts.periods()) == before
    return caught.value.diag.message_primary or ""


# Promotion


def test_edges_and_name_follow_and_the_soft_nodes_history_stays(facts: Facts) -> None:
    context = {"memory": "doc", "agent": "x"}
    old = facts.state(ANA, "works_for", ACME, w=0.5, valid_from=JANUARY, **context)
    closed = facts.state(ANA, "works_for", "company/Bolt", valid_from=JANUARY)
    facts.close(FEBRUARY, edge_id=closed)
    soft, acme = facts.periods(old)[0].src, facts.periods(old)[0].dst
    anna = facts.typed("person", "anna")
    assert promote(facts, soft, anna) == anna

    (new,) = [row for row in facts.periods() if row.src == anna]
    assert new[2:9] == ("works_for", acme, 0.5, "2024-01-01 00:00:00+00", None, "doc", None)
    assert facts.one("select provenance from aiq.edges where id = %s", new.id) == {
        **context, "valid_from": JANUARY,
    }  # fmt: skip
    assert facts.seen_edges(None) == [new.id]
    assert facts.seen_keys(anna, None) == ["ana", "anna"]
    assert facts.one(
        "select (kind, is_name, soft) = ('alias', true, false) from aiq.node_keys"
        " where node_id = %s and key = 'ana'", anna,
    )  # fmt: skip
    assert facts.one("select retired_at is not null from aiq.nodes where id = %s", soft)
    # The soft node's own past is there, as it was.
    assert [(row.id, row.src) for row in facts.periods() if row.src == soft] == [
        (old, soft), (closed, soft),
    ]  # fmt: skip
    past = f"select node_id from aiq.walk('company/acme', p_as_of => '{FEBRUARY}') order by 1"
    assert facts.seen(past, None) == [(soft,), (anna,)]
    record = facts.connection.execute(
        "select node_id, promoted_by, evidence from aiq.node_promotions where soft_id = %s", (soft,)
    ).fetchone()
    assert record == (anna, "clerk", {"same": "birthday"})


def test_the_memories_of_an_edge_may_close_it_after_it_followed(facts: Facts) -> None:
    facts.state(ANA, "works_for", ACME, valid_from=JANUARY, memory="first")
    facts.state(ANA, "works_for", ACME, valid_from=FEBRUARY, memory="second")
    soft = facts.periods()[0].src
    anna = facts.typed("person", "anna")
    promote(facts, soft, anna)
    (new,) = [row.id for row in facts.periods() if row.src == anna]
    assert facts.memories(new) == {"first", "second"}
    assert facts.close(memory="second", relation="works_for") == new


def test_an_edge_that_the_typed_node_has_too_becomes_one(facts: Facts) -> None:
    anna = facts.typed("person", "anna")
    kept = facts.state("person/Anna", "works_for", ACME, w=0.75, valid_from=MARCH, memory="typed")
    facts.state(ANA, "works_for", ACME, w=0.5, valid_from=JANUARY, memory="soft")
    (soft,) = {row.src for row in facts.periods()} - {anna}
    promote(facts, soft, anna)
    (period,) = [row for row in facts.periods() if row.src == anna]
    assert (period.id, period.weight, period.start[:10]) == (kept, 0.75, "2024-01-01")
    assert period.memory == "soft"
    assert facts.memories(kept) == {"typed", "soft"}


def test_a_start_does_not_follow_into_a_closed_period_of_the_typed_node(facts: Facts) -> None:
    anna = facts.typed("person", "anna")
    closed = facts.state("person/Anna", "works_for", ACME, valid_from=JANUARY)
    facts.close(MARCH, edge_id=closed)
    facts.state(ANA, "works_for", ACME, valid_from=FEBRUARY)
    (soft,) = {row.src for row in facts.periods()} - {anna}
    promote(facts, soft, anna)
    assert [(row.start[:10], row.end and row.end[:10]) for row in facts.periods()
            if row.src == anna] == [("2024-01-01", "2024-03-01"), ("2024-03-01", None)]  # fmt: skip


@pytest.mark.parametrize("typed_has_it", [False, True])
def test_an_edge_with_an_end_ahead_follows(facts: Facts, typed_has_it: bool) -> None:
    anna = facts.typed("person", "anna")
    edge = facts.state(ANA, "works_for", ACME, valid_from=JANUARY, memory="doc")
    soft = facts.periods()[0].src
    facts.close(FUTURE, edge_id=edge)
    if typed_has_it:
        facts.state("person/Anna", "works_for", ACME, valid_from=FEBRUARY)
    promote(facts, soft, anna)
    (period,) = [row for row in facts.periods() if row.src == anna]
    assert period.start[:10] == "2024-01-01"
    assert (period.end is None) == typed_has_it
    assert facts.memories(period.id) == {"doc"}


def test_later_facts_about_the_name_are_about_the_typed_node(facts: Facts) -> None:
    soft = facts.node("person", "Ana")
    anna = facts.typed("person", "anna")
    promote(facts, soft, anna)
    assert facts.node("PERSON", "ana") == anna


def test_a_soft_node_of_a_kind_that_is_no_type_may_be_promoted_and_its_kind_and_name_join(
    facts: Facts,
) -> None:
    soft = facts.node("ship", "Dawn")
    elsewhere = facts.node("ship", "Dawn", org=ORG_A)
    ship = facts.typed("Vessel", "meridian dawn")
    promote(facts, soft, ship)
    assert facts.node("ship", "Dawn") == ship
    assert facts.node("ship", "Dawn", org=ORG_A) == elsewhere
    assert facts.node("vessel", "Dawn", org=ORG_A) == ship


def test_while_the_typed_node_is_retired_the_soft_node_is_back(facts: Facts) -> None:
    soft = facts.node("ship", "Dawn")
    ship = facts.typed("Vessel", "meridian dawn")
    promote(facts, soft, ship)
    facts.retire(ship)
    assert facts.node("ship", "Dawn") == soft
    facts.retire(ship, False)
    promote(facts, soft, ship)
    assert facts.node("ship", "Dawn") == ship


def test_an_edge_between_the_two_is_not_carried_over(facts: Facts) -> None:
    anna = facts.typed("person", "anna")
    facts.state(ANA, "knows", "person/Anna")
    soft = facts.periods()[0].src
    promote(facts, soft, anna)
    assert facts.seen_edges(None) == []
    assert len(facts.periods()) == 1


def test_a_loop_of_the_soft_node_is_a_loop_of_the_typed_one(facts: Facts) -> None:
    facts.state(ANA, "knows", ANA)
    soft = facts.periods()[0].src
    anna = facts.typed("person", "anna")
    promote(facts, soft, anna)
    assert [(row.src, row.dst) for row in facts.periods() if row.src != soft] == [(anna, anna)]


def test_promoting_again_changes_nothing(facts: Facts) -> None:
    facts.state(ANA, "works_for", ACME, valid_from=JANUARY)
    soft = facts.periods()[0].src
    anna = facts.typed("person", "anna")
    promote(facts, soft, anna)
    before = (facts.count(), facts.periods())
    assert promote(facts, soft, anna) == anna
    assert (facts.count(), facts.periods()) == before
    other = facts.typed("person", "other")
    assert "is retired" in refused(facts, "22023", lambda: promote(facts, soft, other))


def test_nobody_sees_more_of_an_organisations_facts_or_names(facts: Facts) -> None:
    facts.state(ANA, "works_for", ACME, org=ORG_A, valid_from=JANUARY)
    soft = facts.periods()[0].src
    anna = facts.typed("person", "anna")
    promote(facts, soft, anna)
    (new,) = [row.id for row in facts.periods() if row.src == anna]
    assert facts.seen_edges(USER_A) == [new]
    assert facts.seen_keys(anna, USER_A) == ["ana", "anna"]
    for stranger in (USER_B, None):
        assert facts.seen_edges(stranger) == []
        assert facts.seen_keys(anna, stranger) == ["anna"]
        assert facts.seen("select key from aiq.lookup('{ana}')", stranger) == []
    assert facts.seen("select node_id from aiq.lookup('{ana}')", USER_A) == [(anna,)]
    # Nor do the facts of others join by that name.
    assert facts.node("person", "Ana", org=ORG_A) == anna
    assert facts.node("person", "Ana", org=ORG_B) != anna
    assert facts.node("person", "Ana") != anna


def test_an_edge_that_only_the_soft_node_hid_takes_the_soft_nodes_scope(facts: Facts) -> None:
    soft, acme = facts.node("person", "Ana", org=ORG_A), facts.node("company", "Acme")
    shared = facts.one(
        "insert into aiq.edges (src_id, relation, dst_id, weight) values (%s, 'works_for', %s, 1)"
        " returning id", soft, acme,
    )  # fmt: skip
    assert facts.seen_edges(USER_A) == [shared]
    assert facts.seen_edges(USER_B) == []
    promote(facts, soft, facts.typed("person", "anna"))
    assert len(facts.seen_edges(USER_A)) == 1
    assert facts.seen_edges(USER_B) == []


def test_an_edge_whose_scope_cannot_hold_both_is_refused_by_name(facts: Facts) -> None:
    soft, acme = facts.node("person", "Ana", org=ORG_A), facts.node("company", "Acme")
    facts.connection.execute(
        "insert into aiq.edges (src_id, relation, dst_id, weight, org_id)"
        " values (%s, 'works_for', %s, 1, %s)", (soft, acme, ORG_B),
    )  # fmt: skip
    anna = facts.typed("person", "anna")
    said = refused(facts, "22023", lambda: promote(facts, soft, anna))
    assert f"(soft-{soft} works_for soft-{acme})" in said


def test_a_name_that_came_with_a_promotion_is_nobodys_when_the_node_goes_to_others(
    facts: Facts,
) -> None:
    soft = facts.node("person", "Ana", org=ORG_A)
    anna = facts.typed("person", "anna")
    promote(facts, soft, anna)
    facts.connection.execute("update aiq.nodes set org_id = %s where id = %s", (ORG_B, anna))
    assert facts.seen_keys(anna, USER_B) == ["anna"]
    assert facts.seen_keys(anna, USER_A) == []
    facts.connection.execute("update aiq.nodes set org_id = null where id = %s", (anna,))
    assert facts.seen_keys(anna, USER_A) == ["ana", "anna"]
    assert facts.seen_keys(anna, USER_B) == ["anna"]


def test_a_name_that_everyone_knew_widens_one_that_some_knew(facts: Facts) -> None:
    of_a, shared = facts.node("person", "Ana", org=ORG_A), facts.node("person", "Ana")
    anna = facts.typed("person", "anna")
    promote(facts, of_a, anna)
    assert facts.seen_keys(anna, USER_B) == ["anna"]
    promote(facts, shared, anna)
    assert facts.seen_keys(anna, USER_B) == ["ana", "anna"]


def test_a_promoted_name_stays_until_the_source_has_it_itself(facts: Facts) -> None:
    with facts.connection.transaction(force_rollback=True):
        facts.connection.execute(
            "create table public.people (id int primary key, name text);"
            " insert into public.people values (1, 'Anna');"
            " select aiq.register_entity_table('person', 'public.people', 'name')"
        )
        anna = facts.one("select id from aiq.nodes where source_pk is not null")
        promote(facts, facts.node("person", "Ana", org=ORG_A), anna)
        facts.connection.execute("update public.people set name = 'Anna K'")
        facts.connection.execute("select aiq.rebuild('person')")
        assert facts.seen_keys(anna, USER_A) == ["ana", "anna k"]
        assert facts.seen_keys(anna, USER_B) == ["anna k"]
        facts.connection.execute("update public.people set name = 'Ana'")
        assert facts.seen_keys(anna, USER_B) == ["ana"]


def test_a_shared_soft_node_may_become_a_node_of_one_organisation(facts: Facts) -> None:
    facts.state(ANA, "works_for", ACME)
    soft = facts.periods()[0].src
    anna = facts.typed("person", "anna", org=ORG_A)
    promote(facts, soft, anna)
    assert facts.seen_keys(anna, USER_A) == ["ana", "anna"]
    assert len(facts.seen_edges(USER_A)) == 1
    assert facts.seen_edges(USER_B) == facts.seen_edges(None) == []
    assert facts.node("person", "Ana") == anna


def test_an_undeclared_relation_is_refused_naming_the_edge(facts: Facts) -> None:
    facts.typed("company", "acme")
    edge = facts.state("ship/Dawn", "works_for", ACME, valid_from=FAR_FUTURE)
    soft = facts.periods()[0].src
    ship = facts.typed("Vessel", "meridian dawn")
    said = refused(facts, "42704", lambda: promote(facts, soft, ship))
    assert said.startswith(f"edge {edge} (soft-{soft} works_for C-")
    assert 'relation "works_for" is not declared from "Vessel" to "company"' in said


def test_what_is_no_soft_and_typed_pair_is_refused(facts: Facts) -> None:
    soft, other_soft = facts.node("person", "Ana"), facts.node("person", "Annie")
    typed, other = facts.typed("person", "anna"), facts.typed("company", "acme")
    of_b = facts.typed("person", "berta", org=ORG_B)
    of_a = facts.node("person", "Bea", org=ORG_A)
    retired = facts.typed("person", "gone")
    facts.retire(retired)
    for code, pair, part in [
        ("22023", (None, typed), "not null to"),
        ("22023", (soft, None), "to null"),
        ("22023", (soft, soft), "a soft node is promoted to another"),
        ("P0002", (soft, 10**9), "there is no node 1000000000"),
        ("P0002", (10**9, typed), "there is no node 1000000000"),
        ("22023", (typed, other), f'node {typed} is not soft, but of the type "person"'),
        ("22023", (soft, other_soft), f"node {other_soft} is soft"),
        ("22023", (soft, retired), f"node {retired} is retired"),
        ("22023", (soft, other), f'node {soft} is said to be of the type "person"'),
        ("22023", (of_a, of_b), "who would see what is not theirs"),
    ]:
        said = refused(facts, code, partial(facts.call, "promote_soft_node", *pair, "x", None))
        assert part in said


# Distinct nodes


def test_a_pair_is_remembered_in_either_order_and_its_evidence_is_the_latest(facts: Facts) -> None:
    a, b = facts.node("person", "Ana"), facts.node("person", "Anna")
    facts.call("record_distinct", b, a, "clerk", None)
    facts.call("record_distinct", a, b, "judge", Jsonb(["birthdays differ"]))
    rows = facts.connection.execute(
        "select node_a, node_b, recorded_by, evidence from aiq.distinct_nodes"
    ).fetchall()
    assert rows == [(a, b, "judge", ["birthdays differ"])]
    assert facts.seen("select * from aiq.distinct_nodes_api", None) == [(a, b)]


def test_a_distinct_pair_is_seen_by_those_who_see_both_nodes(facts: Facts) -> None:
    a, b = facts.node("person", "Ana", org=ORG_A), facts.node("person", "Anna")
    facts.call("record_distinct", a, b)
    query = "select node_a, node_b from aiq.distinct_nodes_api"
    assert facts.seen(query, USER_A) == [(a, b)]
    assert facts.seen(query, USER_B) == facts.seen(query, None) == []
    # An earlier moment may still reach a retired node.
    facts.retire(b)
    assert facts.seen(query, USER_A) == [(a, b)]


def test_a_distinct_pair_is_not_queued_for_a_judge(facts: Facts) -> None:
    a, b = facts.node("person", "Anna Karenina"), facts.node("person", "Anna Karenin")
    c = facts.node("person", "Anna Kareninas")
    queued = "select node_a, node_b from aiq.queue_link_pairs(0.3, 1, 10) order by 1, 2"
    with facts.connection.transaction(force_rollback=True):
        assert facts.connection.execute(queued.encode()).fetchall() == [(a, b), (a, c), (b, c)]
        facts.call("record_distinct", b, a)
        left = facts.connection.execute(b"select node_a, node_b from aiq.link_pair_queue")
        assert sorted(left.fetchall()) == [(a, c), (b, c)]
    facts.call("record_distinct", a, b)
    assert facts.connection.execute(queued.encode()).fetchall() == [(a, c), (b, c)]


def test_what_is_not_two_nodes_is_refused(facts: Facts) -> None:
    a = facts.node("person", "Ana")
    for code, pair in [
        ("22023", (a, a)), ("22023", (None, a)), ("22023", (a, None)), ("P0002", (a, 10**9)),
    ]:  # fmt: skip
        said = refused(facts, code, partial(facts.call, "record_distinct", *pair))
        assert said == (
            "there is no node 1000000000"
            if code == "P0002"
            else "two different nodes can be distinct, not {} and {}".format(
                *("null" if one is None else one for one in pair)
            )
        )


def test_distinct_nodes_are_not_promoted_into_each_other(facts: Facts) -> None:
    soft, anna = facts.node("person", "Ana"), facts.typed("person", "anna")
    facts.call("record_distinct", anna, soft)
    said = refused(facts, "22023", lambda: promote(facts, soft, anna))
    assert said == f"nodes {soft} and {anna} are recorded as distinct"


def test_what_a_soft_node_is_not_the_typed_node_is_not_either(facts: Facts) -> None:
    soft, other = facts.node("person", "Ana"), facts.node("person", "Anne")
    anna = facts.typed("person", "anna")
    facts.call("record_distinct", soft, other, "clerk", None)
    promote(facts, soft, anna)
    pairs = facts.seen("select * from aiq.distinct_nodes_api order by 1", None)
    assert pairs == [(soft, other), (other, anna)]
