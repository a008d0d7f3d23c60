"""One hop from an entity that a hundred thousand others refer to."""

from __future__ import annotations

import statistics
import time

import anyio
import psycopg
import pytest

from tests.mcp import serving
from tests.mcp.conftest import ADA
from tests.support.timing import soon

NEIGHBORS = 100_000


@pytest.fixture(scope="module")
def hub(make_map):
    """The sample and many memories, all about one discovery, 25 of them about another, too."""
    made = make_map()
    with psycopg.connect(made.owner) as connection:
        connection.execute(
            "insert into investigation.discovery (id, title, body)"
            " values (1000, 'The hub', ''), (1001, 'The other', '')"
        )
        # Not row by row through registered tables: that is measured elsewhere.
        connection.execute(
            "insert into aiq.nodes (entity_type, handle_number, summary)"
            " select 'memory', 1000 + n, 'Note ' || n from generate_series(1, %s) as n",
            [NEIGHBORS],
        )
        connection.execute(
            "insert into aiq.edges (src_id, dst_id, relation, weight)"
            " select m.id, d.id, 'references', 1 from aiq.nodes as m, aiq.nodes as d"
            " where m.entity_type = 'memory' and d.entity_type = 'discovery'"
            " and m.handle_number > 1000"
            " and (d.handle_number = 1000 or d.handle_number = 1001 and m.handle_number <= 1025)"
        )
    with psycopg.connect(made.owner, autocommit=True) as connection:
        connection.execute("vacuum analyze")
    return made


@pytest.mark.slow
def test_a_hop_from_a_hub_answers_25_and_costs_what_25_cost(hub):
    async def measure(url):
        taken: dict[str, list[float]] = {"DSC-1000": [], "DSC-1001": []}
        async with serving.over_http(url, serving.token(ADA)) as client:
            for _ in range(40):
                for handle, times in taken.items():
                    begun = time.perf_counter()
                    answer = await client.call_tool("get_neighbors", {"handle": handle})
                    times.append(time.perf_counter() - begun)
                    assert len(answer.structured_content["rows"]) == 25
                    assert answer.structured_content["truncated"] is (handle == "DSC-1000")
        return [statistics.median(times) for times in taken.values()]

    with serving.http_server(hub.server) as server:
        many, few = soon(
            lambda: anyio.run(measure, server.url), lambda medians: medians[0] < 2 * medians[1]
        )
    print(f"{NEIGHBORS} neighbours {many * 1000:.1f} ms, 25 neighbours {few * 1000:.1f} ms")
