"""A time-out or a cancellation stops any call soon, whatever the budget, the cap and the hub."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest

from graphalgo.install import install

HUB_DEGREE = 30_000
EDGES = 200_000
# How late a call may stop. The aim is a quarter of a second on an idle machine;
# this is a test and shares its machine.
GRACE = 1.0

LOAD = f"""
insert into aiq.entity_types (name, handle_prefix) values ('thing', 'T'), ('nobody', 'N');
insert into aiq.relations values ('thing', 'knows', 'thing'), ('thing', 'owns', 'thing');
insert into aiq.nodes (id, entity_type)
select i, 'thing' from generate_series(1, {HUB_DEGREE}) as i;
select setseed(0.5);
insert into aiq.edges (src_id, dst_id, relation, weight)
select 1, i, 'knows', (1 + i % 1000) / 1000.0 from generate_series(2, {HUB_DEGREE}) as i;
insert into aiq.edges (src_id, dst_id, relation, weight)
select distinct on (src, dst) src, dst, 'owns', 0.001 + random() * 0.998
from (
    select
        1 + floor(random() * {HUB_DEGREE})::int as src,
        1 + floor(random() * {HUB_DEGREE})::int as dst
    from generate_series(1, {EDGES - HUB_DEGREE})
) as drawn;
insert into aiq.node_keys (node_id, key, kind, is_name)
select i, 'everybody holds this', 'alias', false from generate_series(1, {HUB_DEGREE}) as i;
insert into aiq.node_keys (node_id, key, kind)
select i, 'meridian shipping company ' || i, 'canonical' from generate_series(1, {HUB_DEGREE}) as i;
create function public.talkative(p_nodes bigint[])
returns table (node_id bigint, linked_id bigint, confidence real, reason text)
language sql stable as $$
    select n.id, i::bigint, ((1 + i % 1000) / 1000.0)::real, 'because'
    from unnest(p_nodes) as n (id), generate_series(1, {HUB_DEGREE}) as i
$$;
analyze aiq.nodes, aiq.edges, aiq.node_keys;
"""  # fmt: skip

# For the owner of the functions that callers use.
SLOW_POLICY = """
set slow.seconds = 0.002;
create policy slow on aiq.nodes as restrictive for select to aiq_owner using (
    pg_sleep(coalesce(nullif(current_setting('slow.seconds', true), ''), '0')::float8) is not null
)
"""

GREATEST = "p_max_rounds => 5, p_budget => 100000, p_degree_cap => 100000"
JOIN = f"aiq.iterated_join('T-1', 'nobody', {GREATEST}, p_similarity => 0.01, p_links => '{{%s}}')"
CALLS = {
    "walk": "aiq.walk('T-1', 5, p_degree_cap => 100000, p_limit => 2147483647)",
    "edges": JOIN % "edge",
    "shared keys": JOIN % "shared_key",
    "similar names": JOIN % "similar",
    "judged": JOIN % "judged",
    "all links": JOIN % "edge,shared_key,similar,judged",
    "trace": (JOIN % "edge,shared_key").replace("iterated_join", "iterated_join_trace"),
}


@pytest.fixture(scope="module")
def hub_dsn(make_database):
    """A database with a hub that everything leads to."""
    made = make_database()
    install(made)
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(LOAD)
    return made


@pytest.fixture
def connection(hub_dsn):
    with psycopg.connect(hub_dsn, autocommit=True) as connection:
        connection.execute("set percolate.link_judge = 'public.talkative'")
        yield connection


def check_still_good(connection: psycopg.Connection[Any]) -> None:
    """The same backend goes on, with the same answers."""
    connection.execute("set statement_timeout = 0")
    rows = connection.execute(
        "select node_id, depth, path from aiq.walk('T-1', p_degree_cap => 3)"
    ).fetchall()
    assert rows == [(node, 1, ["knows"]) for node in (999, 1999, 2999)]
    reason = connection.execute(
        "select reason from aiq.iterated_join('T-1', 'nobody', p_links => '{edge}', p_budget => 3)"
    ).fetchone()
    assert reason is not None and reason[0].startswith("max_rounds")


@pytest.mark.parametrize("milliseconds", [50, 200, 500])
@pytest.mark.parametrize("name", CALLS)
def test_a_statement_timeout_stops_it(connection, name, milliseconds):
    connection.execute(f"set statement_timeout = {milliseconds}")
    started = time.perf_counter()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(f"select count(*) from {CALLS[name]} as answer")
    late = time.perf_counter() - started - milliseconds / 1000
    print(f"{name}: {late * 1000:.0f} ms past {milliseconds} ms")
    assert late < GRACE
    check_still_good(connection)


@pytest.mark.parametrize("milliseconds", [50, 150])
def test_a_statement_timeout_stops_a_query(connection, milliseconds):
    text = f'GRAPH "T-1" DEPTH 5 LIMIT {2**31 - 1}'
    connection.execute(f"set statement_timeout = {milliseconds}")
    started = time.perf_counter()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("select aiq.query(%s)", [text])
    assert time.perf_counter() - started - milliseconds / 1000 < GRACE
    check_still_good(connection)
    rows = connection.execute("select aiq.query(%s) -> 'rows'", [text]).fetchone()[0]
    assert len(rows) == HUB_DEGREE - 1
    assert rows == sorted(rows, key=lambda row: (row["depth"], -row["weight"], row["path"]))


LOOKUPS = {
    "one of many holders": 'LOOKUP "everybody holds this too"',
    "every holder": f'LOOKUP "everybody holds this too" LIMIT {2**31 - 1}',
    "many keys": "LOOKUP " + ",".join(f'"meridian shipping company {i}"' for i in range(1, 2_000)),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_statement_timeout_stops_a_lookup_wherever_it_strikes(connection, name):
    """Answered in SQL or in Python; the same transaction then goes on with the same answers."""
    connection.execute(
        "insert into aiq.node_keys (node_id, key, kind, is_name)"
        " select i, 'everybody holds this too', 'canonical', false"
        " from generate_series(1, %s) as i on conflict do nothing",
        [HUB_DEGREE],
    )
    ask, text = "select aiq.query(%s) -> 'rows'", LOOKUPS[name]
    whole = connection.execute(ask, [text]).fetchone()
    stopped = 0
    # A policy that takes its time makes even the shortest lookup long enough to be stopped.
    connection.execute(SLOW_POLICY)
    try:
        for milliseconds in (1, 2, 5, 20, 60, 150):
            with connection.transaction():
                connection.execute(f"set local statement_timeout = {milliseconds}")
                started = time.perf_counter()
                try:
                    with connection.transaction():
                        connection.execute(ask, [text])
                except psycopg.errors.QueryCanceled:
                    stopped += 1
                    assert time.perf_counter() - started - milliseconds / 1000 < GRACE
                connection.execute("set local statement_timeout = 0")
                connection.execute("set local slow.seconds = 0")
                assert connection.execute(ask, [text]).fetchone() == whole
    finally:
        connection.execute("drop policy slow on aiq.nodes")
    assert stopped
    check_still_good(connection)


@pytest.mark.parametrize("name", CALLS)
def test_a_cancellation_stops_it(hub_dsn, connection, name):
    pid = connection.info.backend_pid
    asked_at = 0.0

    def cancel() -> None:
        nonlocal asked_at
        with psycopg.connect(hub_dsn, autocommit=True) as other:
            asked_at = time.perf_counter()
            other.execute("select pg_cancel_backend(%s)", (pid,))

    timer = threading.Timer(0.4, cancel)
    timer.start()
    try:
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(f"select count(*) from {CALLS[name]} as answer")
        late = time.perf_counter() - asked_at
    finally:
        timer.join()
    print(f"{name}: {late * 1000:.0f} ms past the cancellation")
    assert late < GRACE
    check_still_good(connection)
