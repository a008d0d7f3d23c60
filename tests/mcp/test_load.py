"""Many clients at once, each of whom checks that nobody else's rows come along.

GRAPHALGO_SOAK_SECONDS=60 makes it run so long.
"""

from __future__ import annotations

import json
import os
import time

import anyio
import psycopg
import pytest

from tests.mcp import serving
from tests.mcp.conftest import ADA, BEN, CAM
from tests.mcp.test_callers import HANDLES, SEEN, WORDS
from tests.mcp.test_failures import OURS

CLIENTS = 32
CONNECTIONS = 6
SECONDS = float(os.environ.get("GRAPHALGO_SOAK_SECONDS", "5"))
# What of a row may name: its own handle, or in another's answer a reference to it.
BODIES = {
    "DSC-104": "Six statements account", "INS-208": "Six candidates ordered",
    "INS-209": "The ten slowest statements", "MEM-41": "Notes from an earlier review",
}  # fmt: skip


class Checks:
    """One client's calls, and what they may hold."""

    def __init__(self, sub: str) -> None:
        self.seen = SEEN[sub]
        self.calls = 0
        self.slowest = 0.0

    def check(self, text: str, asked: str = "") -> None:
        """Nothing that the user may not see is in an answer, but what they wrote themselves."""
        for handle in HANDLES - self.seen - {asked}:
            assert handle not in text, (handle, text)
        for handle, body in BODIES.items():
            assert handle in self.seen or body not in text, (handle, text)

    async def round(self, client, number: int) -> None:
        handle = sorted(HANDLES)[number % len(HANDLES)]
        begun = time.monotonic()
        if number % 6 == 0:
            result = await client.call_tool("search_entities", WORDS)
            found = {row["handle"] for row in result.structured_content["rows"]}
            assert found == self.seen - {"INS-209"} or found == self.seen
            self.check(result.content[0].text)
        elif number % 6 == 1:
            result = await client.call_tool("get_neighbors", {"handle": handle})
            assert result.is_error is (handle not in self.seen)
            self.check(result.content[0].text, handle)
        elif number % 6 == 2:
            result = await client.call_tool("lookup", {"keys": ["workload", "x"], "fuzzy": True})
            assert not result.is_error
            self.check(result.content[0].text)
        elif number % 6 == 3:
            result = await client.call_tool("query", {"p8ql": 'GRAPH "MEM-72" DEPTH 2'})
            assert not result.is_error
            self.check(result.content[0].text)
        elif number % 6 == 4:
            arguments = {"seed": "MEM-72", "target_type": "insight", "links": ["edge"]}
            result = await client.call_tool("iterated_join", arguments)
            assert result.structured_content["resolved"] is ("DSC-104" in self.seen)
            self.check(result.content[0].text)
        else:
            try:
                read = await client.read_resource(f"aiq://ontology/entities/{handle}")
            except Exception as error:
                assert handle not in self.seen, error
                self.check(str(error), handle)
            else:
                assert json.loads(read.contents[0].text)["handle"] == handle in self.seen
        self.slowest = max(self.slowest, time.monotonic() - begun)
        self.calls += 1


def backends(connection: psycopg.Connection) -> set[int]:
    """The connections that servers have to this database."""
    return {pid for (pid,) in connection.execute(f"select pid {OURS}".encode()).fetchall()}


@pytest.mark.slow
def test_many_clients_at_once_get_their_own_rows_and_leave_nothing_behind(tenants_map):
    """Without an error, over no more connections than the pool may have, in flat memory."""
    checks: list[Checks] = []
    most, memory = 0, []
    with psycopg.connect(tenants_map.owner) as connection:
        others = backends(connection)  # of other tests' servers on this database

    async def one(server, number: int, end: float) -> None:
        sub = (ADA, BEN, CAM)[number % 3]
        mine = Checks(sub)
        checks.append(mine)
        step = number
        while time.monotonic() < end:
            # Sessions come and go, too.
            mode = ("legacy", "auto")[step % 2]
            async with serving.over_http(server.url, serving.token(sub), mode) as client:
                for _ in range(25):
                    await mine.round(client, step)
                    step += 1
                    if time.monotonic() >= end:
                        break

    async def watch(server, end: float) -> None:
        nonlocal most
        with psycopg.connect(tenants_map.owner, autocommit=True) as connection:
            while time.monotonic() < end:
                most = max(most, len(backends(connection) - others))
                memory.append(server.resident())
                await anyio.sleep(0.25)

    async def soak(server, seconds: float) -> None:
        end = time.monotonic() + seconds
        async with anyio.create_task_group() as group:
            group.start_soon(watch, server, end)
            for number in range(CLIENTS):
                group.start_soon(one, server, number, end)

    settings = {"connections": str(CONNECTIONS), "rate": "1000000", "wait": "30"}
    with serving.http_server(tenants_map.server, **settings) as server:
        anyio.run(soak, server, SECONDS / 2)
        settled = max(memory)
        memory.clear()
        anyio.run(soak, server, SECONDS)
        outcomes = [entry for entry in server.log if entry["event"] != "request"]
        failed = [entry for entry in server.log if entry.get("outcome") in ("failed", "cancelled")]
    calls = sum(each.calls for each in checks)
    print(
        f"{calls} calls of {CLIENTS} clients in {1.5 * SECONDS:g} s, slowest"
        f" {max(each.slowest for each in checks):.2f} s, {most} connections,"
        f" memory {settled} then {max(memory)} KiB"
    )
    assert calls > 10 * CLIENTS
    assert not failed and {entry["event"] for entry in outcomes} <= {
        "started",
        "stopping",
        "stopped",
    }
    assert most <= CONNECTIONS
    # The first half warms up; after it a server that leaks would go on growing.
    assert max(memory) < settled * 1.15 + 4096
