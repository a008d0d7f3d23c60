"""Who asks decides what there is."""

from __future__ import annotations

import json
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx2
import psycopg
import pytest

from tests.mcp import serving
from tests.mcp.conftest import ADA, BEN, CAM, ORG_A, ORG_B
from tests.support.timing import soon

WORDS = {"query": "query optimization candidates workload"}
SEEN = {
    ADA: {"DSC-104", "DSC-87", "INS-208", "INS-209", "MEM-72"},
    BEN: {"DSC-87", "MEM-41", "MEM-72"},
    CAM: {"DSC-87", "MEM-72"},
}
HANDLES = {"DSC-104", "DSC-87", "INS-208", "INS-209", "MEM-41", "MEM-72"}


async def outcome(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    return result.is_error, result.content[0].text


async def read(client, handle):
    try:
        result = await client.read_resource(f"aiq://ontology/entities/{handle}")
    except Exception as error:
        return type(error).__name__, getattr(error, "code", None), str(error)
    return json.loads(result.contents[0].text)["handle"]


@pytest.mark.parametrize("sub", [ADA, BEN, CAM])
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_each_user_finds_reaches_and_reads_what_is_theirs(
    transport, sub, tenants_map, tenants_server
):
    async def look(client):
        found = (await client.call_tool("search_entities", WORDS)).structured_content
        handles = [row["handle"] for row in found["rows"]]
        assert set(handles) <= SEEN[sub]
        assert found["total"] == len(handles)
        assert [row["rank"] for row in found["rows"]] == list(range(1, len(handles) + 1))
        for handle in HANDLES:
            assert (await read(client, handle) == handle) is (handle in SEEN[sub])
        hop = await client.call_tool("get_neighbors", {"handle": "MEM-72"})
        reached = {row["handle"] for row in hop.structured_content["rows"]}
        assert reached == ({"DSC-104"} & SEEN[sub])
        return handles

    async def ask():
        if transport == "stdio":
            async with serving.over_stdio(tenants_map.server, "--sub", sub) as client:
                return await look(client)
        async with serving.over_http(tenants_server.url, serving.token(sub)) as client:
            return await look(client)

    assert ("DSC-104" in anyio.run(ask)) is (sub == ADA)


def test_organisations_of_a_token_only_narrow(tenants_server):
    async def seen(**claims):
        async with serving.over_http(tenants_server.url, serving.token(ADA, **claims)) as client:
            return {handle for handle in HANDLES if await read(client, handle) == handle}

    assert anyio.run(lambda: seen(orgs=[ORG_A])) == SEEN[ADA]
    assert anyio.run(lambda: seen(orgs=[])) == {"INS-209", *SEEN[CAM]}
    assert anyio.run(lambda: seen(orgs=[ORG_B])) == {"INS-209", *SEEN[CAM]}


def test_nobody_on_stdio_sees_what_is_shared(tenants_map):
    async def seen():
        async with serving.over_stdio(tenants_map.server) as client:
            return {handle for handle in HANDLES if await read(client, handle) == handle}

    assert anyio.run(seen) == SEEN[CAM]


@pytest.mark.parametrize("missing", ["DSC-105", "INS-1", "nothing", "DSC-", "DSC-104-1"])
def test_what_is_denied_answers_as_what_is_missing(tenants_server, missing):
    """Byte for byte, in every tool and resource, the handle itself apart."""

    async def ask():
        answers = {}
        async with serving.over_http(tenants_server.url, serving.token(BEN)) as client:
            for handle in ("DSC-104", missing):
                answers[handle] = [
                    await outcome(client, "get_neighbors", {"handle": handle}),
                    await outcome(client, "lookup", {"keys": [handle], "fuzzy": True}),
                    await read(client, handle),
                ]
        return answers

    answers = anyio.run(ask)
    denied, absent = (json.dumps(answers[handle]) for handle in ("DSC-104", missing))
    assert denied.replace("DSC-104", "?") == absent.replace(missing, "?")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hop", "read"])
def test_what_is_denied_takes_as_long_as_what_is_missing(tenants_map, way):
    async def measure(url):
        taken: dict[str, list[float]] = {"DSC-104": [], "DSC-105": []}
        async with serving.over_http(url, serving.token(BEN)) as client:
            for number in range(160):
                handle = ("DSC-104", "DSC-105")[number % 2]
                begun = time.perf_counter()
                if way == "hop":
                    await client.call_tool("get_neighbors", {"handle": handle})
                else:
                    await read(client, handle)
                taken[handle].append(time.perf_counter() - begun)
        return [statistics.median(each[10:]) for each in taken.values()]

    with serving.http_server(tenants_map.server, rate="100000") as server:
        soon(
            lambda: anyio.run(measure, server.url),
            lambda medians: 0.7 < medians[0] / medians[1] < 1.4,
        )


def opened(server, sub):
    """Open a session by hand; give its id."""
    answer = post(server, sub, "initialize", {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    })  # fmt: skip
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


def post(server, sub, method, params, session=None, id=7, **claims):
    headers = {"authorization": f"Bearer {serving.token(sub, **claims)}", **serving.ACCEPT}
    if session:
        headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
    body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return httpx2.post(server.url, json=body, headers=headers)


@pytest.mark.parametrize("again", [7, "7"])
def test_a_request_takes_no_other_ones_answer(tenants_map, tenants_server, again):
    """A second request of an id is refused while the first is not answered."""
    session = opened(tenants_server, ADA)
    call = {"name": "get_neighbors", "arguments": {"handle": "DSC-104"}}
    with (
        ThreadPoolExecutor(1) as beside,
        psycopg.connect(tenants_map.owner) as holding,
        psycopg.connect(tenants_map.owner, autocommit=True) as watching,
    ):
        holding.execute("lock table aiq.edges in access exclusive mode")
        first = beside.submit(post, tenants_server, ADA, "tools/call", call, session)
        waiting = "select count(*) from pg_locks where not granted and locktype = 'relation'"
        while not watching.execute(waiting).fetchone()[0]:
            time.sleep(0.02)
        second = post(tenants_server, ADA, "tools/list", {}, session, id=again)
        holding.rollback()
    assert second.status_code == 409
    assert "is not yet answered" in second.json()["error"]["message"]
    assert first.result().json()["result"]["structuredContent"]["rows"]
    assert post(tenants_server, ADA, "tools/list", {}, session, id=again).status_code == 200


@pytest.mark.parametrize("odd", [None, 1.5, True, {}])
def test_a_request_whose_id_is_none_is_refused(tenants_server, odd):
    answer = post(tenants_server, ADA, "tools/list", {}, opened(tenants_server, ADA), id=odd)
    assert answer.status_code == 400
    assert "must be a text or an integer" in answer.json()["error"]["message"]


def test_a_session_is_its_openers_alone(tenants_server):
    session = opened(tenants_server, ADA)
    call = {"name": "get_neighbors", "arguments": {"handle": "DSC-104"}}
    theirs = post(tenants_server, ADA, "tools/call", call, session)
    assert theirs.json()["result"]["structuredContent"]["rows"]
    others = post(tenants_server, BEN, "tools/call", call, session)
    unknown = post(tenants_server, BEN, "tools/call", call, "0" * 32)
    assert others.status_code == unknown.status_code == 404
    assert others.content == unknown.content
    headers = {"authorization": f"Bearer {serving.token(BEN)}", "mcp-session-id": session}
    assert httpx2.delete(tenants_server.url, headers=headers).status_code == 404
    assert post(tenants_server, ADA, "tools/call", call, session).content == theirs.content


def test_each_request_counts_with_its_own_token(tenants_server):
    """A later token of the same user may see less."""
    session = opened(tenants_server, ADA)
    call = {"name": "get_neighbors", "arguments": {"handle": "DSC-104"}}
    assert (
        not post(tenants_server, ADA, "tools/call", call, session).json()["result"].get("isError")
    )
    narrowed = post(tenants_server, ADA, "tools/call", call, session, orgs=[])
    assert narrowed.json()["result"]["isError"]


def test_the_log_names_no_user_word_or_token(tenants_map):
    marks = ["zebra-in-words", "zebra-handle", "zebra-tool", "zebra.example"]

    async def ask(server):
        async with serving.over_http(server.url, serving.token(ADA)) as client:
            await client.call_tool("search_entities", {"query": marks[0]})
            await client.call_tool("get_neighbors", {"handle": marks[1]})
            with pytest.raises(Exception, match="there is no tool"):
                await client.call_tool(marks[2], {})

    with serving.http_server(tenants_map.server) as server:
        anyio.run(ask, server)
        httpx2.post(server.url, json={}, headers={"authorization": "Bearer zebra.a.b"})
        httpx2.post(server.url, json={"zebra.example": 1}, headers={
            "authorization": f"Bearer {serving.token(ADA)}", **serving.ACCEPT,
        })  # fmt: skip
    written = json.dumps(server.log)
    assert "zebra" not in written and ADA not in written and "eyJ" not in written
    calls = [entry for entry in server.log if entry["event"] == "request"]
    searched = next(entry for entry in calls if entry.get("tool") == "search_entities")
    assert re.fullmatch("[0-9a-f]{32}", searched["request"])
    assert searched["milliseconds"] > 0 and searched["outcome"] == "ok"
    denied = next(entry for entry in calls if entry.get("tool") == "get_neighbors")
    assert (denied["outcome"], denied["sqlstate"]) == ("refused", "P0002")
    assert [entry["event"] for entry in server.log if entry["event"] == "no JSON"] == []
