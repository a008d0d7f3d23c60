"""Connections that break, statements that hang, a database that restarts, a server that stops."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import psycopg
import pytest

from graphalgo import cluster as private_cluster
from tests.mcp import serving
from tests.mcp.conftest import ADA, CAM, prepare
from tests.mcp.test_callers import opened, post

HOP = ("get_neighbors", {"handle": "DSC-104"})
OURS = """
from pg_stat_activity where application_name = 'graphalgo mcp' and datname = current_database()
"""


@contextmanager
def blocked(dsn: str) -> Iterator[psycopg.Connection]:
    """Hold back every statement that reads nodes; give a connection beside."""
    with psycopg.connect(dsn) as holder, psycopg.connect(dsn, autocommit=True) as beside:
        holder.execute("lock table aiq.nodes in access exclusive mode")
        yield beside
        holder.rollback()


def waiting(connection: psycopg.Connection) -> list[int]:
    """The server's backends that wait for a lock."""
    rows = connection.execute(f"select pid {OURS} and wait_event_type = 'Lock'".encode())
    return [pid for (pid,) in rows.fetchall()]


def until(condition, seconds: float = 10.0):
    """Wait until a condition gives something true, and give that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


@pytest.fixture(scope="module")
def made(make_map):
    return make_map()


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_a_connection_that_is_cut_in_the_middle_is_told_and_the_next_call_works(made, transport):
    def cut() -> None:
        with blocked(made.owner) as beside:
            for pid in until(lambda: waiting(beside)):
                beside.execute("select pg_terminate_backend(%s)", [pid])
            until(lambda: not waiting(beside))

    async def ask(connected):
        async with connected as client:
            assert not (await client.call_tool(*HOP)).is_error
            thread = threading.Thread(target=cut)
            thread.start()
            await anyio.sleep(0.5)
            text = serving.refusal(await client.call_tool(*HOP))
            await anyio.to_thread.run_sync(thread.join)
            assert "the connection to the database was lost during the call" in text
            assert "SQLSTATE: 08006" in text
            assert not (await client.call_tool(*HOP)).is_error

    if transport == "stdio":
        anyio.run(ask, serving.over_stdio(made.server))
        return
    with serving.http_server(made.server) as server:
        anyio.run(ask, serving.over_http(server.url, serving.token(ADA)))


def test_idle_connections_that_were_cut_cost_no_call(made):
    async def ask(url):
        async with serving.over_http(url, serving.token(ADA)) as client:
            for _ in range(3):
                async with anyio.create_task_group() as group:
                    for _ in range(8):
                        group.start_soon(client.call_tool, *HOP)
                with psycopg.connect(made.owner, autocommit=True) as connection:
                    connection.execute(f"select pg_terminate_backend(pid) {OURS}".encode())
                assert not (await client.call_tool(*HOP)).is_error

    with serving.http_server(made.server) as server:
        anyio.run(ask, server.url)


def test_a_statement_that_takes_too_long_is_stopped(made):
    async def ask(url):
        async with serving.over_http(url, serving.token(ADA)) as client:
            with blocked(made.owner) as beside:
                begun = time.monotonic()
                text = serving.refusal(await client.call_tool(*HOP))
                assert 0.5 <= time.monotonic() - begun < 5
                assert "ran longer than 0.5 s and was stopped" in text
                assert waiting(beside) == []
            assert not (await client.call_tool(*HOP)).is_error

    with serving.http_server(made.server, statement_timeout="0.5") as server:
        anyio.run(ask, server.url)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_call_that_the_client_cancels_is_stopped_in_the_database(made, mode):
    async def ask(connected):
        async with connected as client:
            with blocked(made.owner) as beside:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, *HOP)
                    await anyio.to_thread.run_sync(until, lambda: waiting(beside))
                    group.cancel_scope.cancel()
                await anyio.to_thread.run_sync(until, lambda: not waiting(beside))
            assert not (await client.call_tool(*HOP)).is_error

    anyio.run(ask, serving.over_stdio(made.server, mode=mode))


def test_more_calls_than_connections_wait_and_then_are_refused(made):
    async def ask(url):
        answers = []

        async def one(client):
            answers.append(await client.call_tool(*HOP))

        async with serving.over_http(url, serving.token(ADA)) as client:
            with blocked(made.owner) as beside:
                async with anyio.create_task_group() as group:
                    for _ in range(5):
                        group.start_soon(one, client)
                    await anyio.to_thread.run_sync(until, lambda: len(answers) == 3)
                    count = beside.execute(f"select count(*) {OURS}".encode()).fetchone()
                    assert count == (2,)
                    assert all(serving.refusal(each).endswith("53300") for each in answers)
                    assert "all 2 connections" in serving.refusal(answers[0])
                    group.cancel_scope.cancel()
            assert not (await client.call_tool(*HOP)).is_error

    with serving.http_server(made.server, connections="2", wait="0.5") as server:
        anyio.run(ask, server.url)


def test_a_user_who_asks_too_often_is_held_back_and_no_other(made):
    async def ask(url):
        async with serving.over_http(url, serving.token(ADA)) as client:
            with pytest.raises(Exception, match="more than 60 requests a minute"):
                for _ in range(12):
                    await client.call_tool(*HOP)
        async with serving.over_http(url, serving.token(CAM)) as client:
            assert not (await client.call_tool(*HOP)).is_error

    with serving.http_server(made.server, rate="60") as server:
        anyio.run(ask, server.url)
        headers = {"authorization": f"Bearer {serving.token(ADA)}"}
        answer = httpx2.post(server.url, json={}, headers=headers)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1


def test_sessions_are_bounded_and_end_when_they_are_idle(made):
    with serving.http_server(made.server, sessions="3", session_idle="3") as server:
        sessions = [opened(server, ADA) for _ in range(3)]
        hello = {"protocolVersion": "2025-06-18", "capabilities": {},
                 "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
        assert post(server, ADA, "initialize", hello).status_code == 503
        time.sleep(4)
        assert post(server, ADA, "ping", {}, sessions[0]).status_code == 404
        assert opened(server, ADA)


def test_nobody_takes_all_sessions(made):
    """Other users still open theirs; one that is ended makes room."""
    hello = {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }  # fmt: skip
    with serving.http_server(made.server, sessions_each="2") as server:
        first, second = (opened(server, ADA) for _ in range(2))
        refused = post(server, ADA, "initialize", hello)
        assert refused.status_code == 429
        assert "the user has 2 sessions" in refused.json()["error"]["message"]
        assert opened(server, CAM)
        assert post(server, ADA, "ping", {}, second).status_code == 200
        headers = {"authorization": f"Bearer {serving.token(ADA)}", "mcp-session-id": first}
        assert httpx2.delete(server.url, headers=headers).status_code == 200
        assert opened(server, ADA)


def test_an_answer_that_is_too_large_is_not_sent(made):
    async def ask(url):
        async with serving.over_http(url, serving.token(ADA)) as client:
            text = serving.refusal(await client.call_tool("query", {"p8ql": "SCHEMA"}))
            assert "bytes, but may have 1000" in text and text.endswith("54000")
            assert not (await client.call_tool(*HOP)).is_error

    with serving.http_server(made.server, answer_bytes="1000") as server:
        anyio.run(ask, server.url)


def test_a_server_without_a_database_runs_and_says_so(made):
    nowhere = psycopg.conninfo.make_conninfo(made.server, dbname="nowhere_at_all")

    async def ask(url):
        async with serving.over_http(url, serving.token(ADA)) as client:
            assert "could not be read just now" in client.instructions
            text = serving.refusal(await client.call_tool(*HOP))
            assert "the database does not answer" in text and "08001" in text

    with serving.http_server(nowhere, wait="0.5") as server:
        assert httpx2.get(f"{server.root}/healthz").status_code == 200
        assert httpx2.get(f"{server.root}/readyz").status_code == 503
        anyio.run(ask, server.url)


@pytest.mark.slow
def test_a_database_that_restarts_is_found_again():
    with tempfile.TemporaryDirectory(prefix="graphalgo-", dir="/tmp") as top:
        Path(top).chmod(0o755)
        place = Path(top) / "c"
        own = private_cluster.up(place)
        try:
            prepare(own.dsn)

            async def ask(url):
                async with serving.over_http(url, serving.token(ADA)) as client:
                    assert not (await client.call_tool(*HOP)).is_error
                    await anyio.to_thread.run_sync(lambda: private_cluster.down(place))
                    text = serving.refusal(await client.call_tool(*HOP))
                    assert "the database does not answer" in text or "was lost" in text
                    await anyio.to_thread.run_sync(lambda: private_cluster.up(place))
                    results = []
                    for _ in range(100):
                        results.append(await client.call_tool(*HOP))
                        if not results[-1].is_error:
                            break
                        await anyio.sleep(0.1)
                    assert not results[-1].is_error, results[-1]
                    assert all("08" in serving.refusal(each)[-5:] for each in results[:-1])

            with serving.http_server(own.dsn, wait="1") as server:
                assert httpx2.get(f"{server.root}/readyz").status_code == 200
                anyio.run(ask, server.url)
                assert httpx2.get(f"{server.root}/readyz").status_code == 200
                assert server.process.poll() is None
        finally:
            private_cluster.down(place, purge=True)


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_stopped_finishes_what_it_began(made, kind):
    answers = []

    def ask(server, session):
        call = {"name": HOP[0], "arguments": HOP[1]}
        answers.append(post(server, ADA, "tools/call", call, session))

    with serving.http_server(made.server) as server:
        session = opened(server, ADA)
        with blocked(made.owner) as beside:
            thread = threading.Thread(target=ask, args=(server, session))
            thread.start()
            until(lambda: waiting(beside))
            server.process.send_signal(kind)
            time.sleep(0.5)
            assert server.process.poll() is None
        thread.join()
        assert server.process.wait(timeout=20) == 0
        assert len(answers[0].json()["result"]["structuredContent"]["rows"]) == 3
        with psycopg.connect(made.owner) as connection:
            assert until(
                lambda: connection.execute(f"select count(*) {OURS}".encode()).fetchone() == (0,)
            )
    assert [entry["event"] for entry in server.log][-3:] == ["stopping", "request", "stopped"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_server_that_is_stopped_stops_what_does_not_end(made, mode):
    async def ask(url):
        async with serving.over_http(url, serving.token(ADA), mode) as client:
            await client.call_tool(*HOP)

    def swallow(url):
        with pytest.raises(BaseException):  # noqa: B017 - however the client sees it
            anyio.run(ask, url)

    with serving.http_server(made.server, shutdown="1", statement_timeout="60") as server:
        with blocked(made.owner) as beside:
            thread = threading.Thread(target=swallow, args=(server.url,))
            thread.start()
            until(lambda: waiting(beside))
            begun = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begun < 10
            assert until(lambda: not waiting(beside))
        thread.join()


def test_a_server_on_stdio_ends_on_a_signal_while_a_call_hangs(made):
    lines = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
         "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"id": 2, "method": "tools/call", "params": {"name": HOP[0], "arguments": HOP[1]}},
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "graphalgo.cli", "mcp", "--dsn", made.server],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        env=serving.environment(shutdown="0.5"),
    )  # fmt: skip
    try:
        with blocked(made.owner) as beside:
            assert process.stdin is not None
            for line in lines:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
            process.stdin.flush()
            until(lambda: waiting(beside), 20)
            process.terminate()
            assert process.wait(timeout=20) == 0
            assert until(lambda: not waiting(beside))
    finally:
        process.kill()
        process.wait()
