"""Ending a fact: exactly one edge, by whom, and what is refused."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.facts import FAR_FUTURE, FEBRUARY, FUTURE, JANUARY, MARCH, Facts

ANNA, ACME, BOLT = "person/Anna", "company/Acme", "company/Bolt"


def refused(facts: Facts, code: str, at: str | None = None, **named: Any) -> str:
    """Check that a close is refused and nothing changes; returns the sentence."""
    before = facts.periods()
    with pytest.raises(psycopg.Error) as caught:
        facts.close(at, **named)
    assert caught.value.sqlstate == code
    assert caught.value.diag.message_hint
    assert facts.periods() == before
    return caught.value.diag.message_primary or ""


def test_an_edge_is_closed_by_its_id_and_the_row_stays(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY, memory="doc")
    other = facts.state(ANNA, "works_for", BOLT, valid_from=JANUARY)
    assert facts.close(FEBRUARY, by="clerk", edge_id=edge) == edge
    period = facts.periods(edge)[0]
    assert (period.start[:10], (period.end or "")[:10]) == ("2024-01-01", "2024-02-01")
    assert (period.memory, period.closed_by) == ("doc", "clerk")
    assert facts.periods(other)[0].end is None
    assert facts.seen_edges(None) == [other]
    history = facts.seen("select id from aiq.edge_periods order by id", None)
    assert [row[0] for row in history] == [edge, other]


def test_each_memory_that_asserted_an_edge_may_close_it(facts: Facts) -> None:
    for memory in ("first", "second"):
        facts.clear()
        edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY, memory="first")
        facts.state(ANNA, "works_for", ACME, valid_from=FEBRUARY, memory="second")
        facts.state(ANNA, "knows", "person/Berta", memory="second")
        assert facts.close(memory=memory, relation="works_for") == edge
        assert facts.periods(edge)[0].closed_by == memory


def test_without_a_moment_it_ends_now_and_without_a_name_the_user_closed_it(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    facts.close(edge_id=edge)
    assert facts.one("select valid_to between now() - interval '1 minute' and now() from aiq.edges")
    assert facts.periods(edge)[0].closed_by == facts.one("select session_user::text")


def test_an_edge_may_end_where_it_began(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    facts.close(JANUARY, edge_id=edge)
    assert facts.spans() == [("2024-01-01", "2024-01-01")]


def test_an_edge_with_an_end_ahead_stays_current_and_may_end_sooner(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY, memory="doc")
    facts.close(FAR_FUTURE, edge_id=edge)
    assert facts.seen_edges(None) == [edge]
    facts.close(FUTURE, memory="doc", relation="works_for")
    assert facts.spans() == [("2024-01-01", "2124-01-01")]
    assert "cannot be made to end later" in refused(facts, "22023", FAR_FUTURE, edge_id=edge)
    facts.close(edge_id=edge)
    assert facts.seen_edges(None) == []


def test_what_is_to_begin_may_be_closed_but_not_before_it_does(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=FUTURE)
    refused(facts, "22023", edge_id=edge)
    facts.close(FAR_FUTURE, edge_id=edge)
    assert facts.spans() == [("2124-01-01", "2125-01-01")]


def test_an_end_before_the_start_is_refused_naming_the_edge(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=FEBRUARY)
    said = refused(facts, "22023", JANUARY, edge_id=edge)
    source, target = facts.periods()[0].src, facts.periods()[0].dst
    assert said.startswith(f"edge {edge} (soft-{source} works_for soft-{target}) begins at 2024-02")


def test_several_edges_are_refused_and_named_by_handle(facts: Facts) -> None:
    anna, acme = facts.typed("person", "anna"), facts.typed("company", "acme")
    edges = [
        facts.state(ANNA, "works_for", end, valid_from=JANUARY, memory="doc")
        for end in (ACME, BOLT)
    ]
    said = refused(facts, "21000", memory="doc", relation="works_for")
    assert 'memory "doc" has asserted 2 current edges "works_for"' in said
    assert f"{edges[0]} (P-{anna} works_for C-{acme})" in said
    assert f"{edges[1]} (P-{anna} works_for soft-" in said
    facts.close(MARCH, edge_id=edges[0])
    assert facts.close(memory="doc", relation="works_for") == edges[1]


def test_of_many_edges_the_first_ten_are_named(facts: Facts) -> None:
    for number in range(13):
        facts.state(ANNA, "knows", f"person/{number}", memory="doc")
    said = refused(facts, "21000", memory="doc", relation="knows")
    assert said.count("knows soft-") == 10
    assert said.endswith("and 3 more")


def test_an_edge_that_is_no_more_or_never_was_is_not_found(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY, memory="doc")
    facts.close(FEBRUARY, edge_id=edge)
    assert refused(facts, "P0002", MARCH, edge_id=edge) == f"there is no current edge {edge}"
    refused(facts, "P0002", MARCH, memory="doc", relation="works_for")
    refused(facts, "P0002", edge_id=edge + 1)
    said = refused(facts, "P0002", memory="another", relation="works_for")
    assert said == 'there is no current edge "works_for" that memory "another" has asserted'


def test_an_edge_of_a_retired_node_is_not_current(facts: Facts) -> None:
    edge = facts.state(ANNA, "works_for", ACME, valid_from=JANUARY)
    facts.retire(facts.periods()[0].src)
    refused(facts, "P0002", edge_id=edge)


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"memory": "doc"},
        {"relation": "works_for"},
        {"edge_id": 1, "memory": "doc"},
        {"edge_id": 1, "relation": "works_for"},
        {"edge_id": 1, "memory": "doc", "relation": "works_for"},
    ],
)
def test_an_edge_is_named_by_its_id_or_by_memory_and_relation(
    facts: Facts, named: dict[str, Any]
) -> None:
    facts.state(ANNA, "works_for", ACME, memory="doc")
    assert "is named by its id alone or by a memory and a relation" in refused(
        facts, "22023", **named
    )


@pytest.mark.parametrize("moment", ["infinity", "-infinity"])
def test_an_end_is_a_moment(facts: Facts, moment: str) -> None:
    edge = facts.state(ANNA, "works_for", ACME)
    assert "must be a moment" in refused(facts, "22023", moment, edge_id=edge)
    with pytest.raises(psycopg.Error, match="p_at is null"):
        facts.call("close_edge", at=None, edge_id=edge)


def test_the_past_is_read_as_it_was(facts: Facts) -> None:
    anna, acme = facts.typed("person", "anna"), facts.typed("company", "acme")
    facts.close(MARCH, edge_id=facts.state(ANNA, "works_for", ACME, valid_from=JANUARY))
    rows = {
        moment: facts.seen(f"select node_id from aiq.walk('anna', p_as_of => '{moment}')", None)
        for moment in (JANUARY, FEBRUARY, MARCH)
    }
    assert rows == {JANUARY: [(acme,)], FEBRUARY: [(acme,)], MARCH: []}
    assert facts.seen("select node_id from aiq.walk('anna')", None) == []
    assert facts.seen(f"select node_id from aiq.walk('acme', p_as_of => '{FEBRUARY}')", None) == [
        (anna,)
    ]
