"""What is wrong is said, and the server goes on."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys

import anyio
import httpx2
import pytest

from tests.mcp import serving
from tests.mcp.conftest import ADA

LIMIT = "must be a whole number from 1 to 100"
BAD = [
    ("search_entities", {"query": "a", "limit": 0}, f"limit is 0, but {LIMIT}"),
    ("search_entities", {"query": "a", "limit": 101}, f"limit is 101, but {LIMIT}"),
    ("search_entities", {"query": "a", "limit": "ten"}, f'limit is "ten", but {LIMIT}'),
    ("search_entities", {"query": "a", "limit": True}, f"limit is true, but {LIMIT}"),
    ("search_entities", {"query": "a", "limit": 1.5}, f"limit is 1.5, but {LIMIT}"),
    ("search_entities", {"query": "a", "limit": 10**30}, LIMIT),
    ("get_neighbors", {"handle": "DSC-104", "limit": 0}, f"limit is 0, but {LIMIT}"),
    ("get_neighbors", {"handle": "DSC-104", "limit": 101}, f"limit is 101, but {LIMIT}"),
    ("get_neighbors", {"handle": "DSC-104", "limit": "ten"}, f'limit is "ten", but {LIMIT}'),
    ("get_neighbors", {"handle": "DSC-99999"}, "DSC-99999"),
    ("get_neighbors", {"handle": "no handle at all"}, "no handle at all"),
    ("get_neighbors", {"handle": "'; drop table aiq.nodes; --"}, "drop table"),
    ("get_neighbors", {"handle": ""}, "handle is"),
    ("get_neighbors", {"handle": "x" * 201}, "handle has 201 characters, but may have 200"),
    ("get_neighbors", {"handle": 104}, "handle is 104, but must be a text"),
    ("get_neighbors", {}, "handle is null, but must be a text"),
    ("get_neighbors", {"handle": "DSC-104", "direction": "up"}, "must be in or out"),
    ("get_neighbors", {"handle": "DSC-104", "handel": "x"}, 'takes no argument "handel"'),
    ("search_entities", {"query": "a\x00b"}, "NUL character"),
    ("search_entities", {"query": "x" * 20_001}, "20001 characters"),
    ("search_entities", {"query": "a", "types": []}, "a list of 1 to 100 texts"),
    ("search_entities", {"query": "a", "types": ["x", 7]}, "each of types is 7"),
    ("lookup", {"keys": "x"}, "a list of 1 to 100 texts"),
    ("lookup", {"keys": ["x"] * 101}, "a list of 1 to 100 texts"),
    ("lookup", {"keys": ["x"], "fuzzy": "yes"}, "must be true or false"),
    ("query", {"p8ql": "LOKUP 'x'"}, "LOOKUP"),
    ("query", {"p8ql": 'TEXT "x" DEPTH 2'}, "DEPTH"),
    ("iterated_join", {"seed": "DSC-104", "target_type": "nothing"}, "nothing"),
    ("iterated_join", {"seed": "DSC-104", "target_type": "memory", "links": ["x"]}, "judged"),
    ("iterated_join", {"seed": "DSC-104", "target_type": "memory", "similarity": 0}, "above 0"),
    ("iterated_join", {"seed": "DSC-104", "target_type": "memory", "as_of": "then"}, "ISO 8601"),
]


@pytest.fixture(scope="module", params=["http", "stdio"])
def refusals(request, shared_map, shared_server):
    """What each bad call is answered, all over one connection; and a good one after them."""

    async def ask(client):
        texts = []
        for tool, arguments, _ in BAD:
            texts.append(serving.refusal(await client.call_tool(tool, arguments)))
        good = await client.call_tool("get_neighbors", {"handle": "DSC-104"})
        assert len(good.structured_content["rows"]) == 3
        return texts

    async def connect():
        if request.param == "stdio":
            async with serving.over_stdio(shared_map.server, "--sub", ADA) as client:
                return await ask(client)
        async with serving.over_http(shared_server.url, serving.token(ADA)) as client:
            return await ask(client)

    return anyio.run(connect)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_call_is_told_what_is_wrong_and_what_to_write(refusals, number):
    text = refusals[number]
    assert BAD[number][2] in text
    assert "\nSQLSTATE: " in text
    assert len(text) < 2000
    assert "Traceback" not in text and "psycopg" not in text


@pytest.mark.parametrize(
    "uri",
    [
        "aiq://ontology/entities/INS-999", "aiq://ontology/entities/", "aiq://ontology/x",
        "aiq://other", "aiq://ontology/entities/%ff", "aiq://ontology/entities/a%00b",
        "aiq://ontology/entities/" + "x" * 300, "file:///etc/passwd",
    ],
)  # fmt: skip
def test_a_bad_uri_is_told(shared_server, uri):
    async def ask():
        async with serving.over_http(shared_server.url, serving.token(ADA)) as client:
            with pytest.raises(Exception, match=r"SQLSTATE: (P0002|22023)"):
                await client.read_resource(uri)

    anyio.run(ask)


def post(server, body, **headers):
    given = {
        "authorization": f"Bearer {serving.token(ADA)}", "content-type": "application/json",
    } | serving.ACCEPT | headers  # fmt: skip
    return httpx2.post(server.url, content=body, headers=given)


def call(query):
    return json.dumps({
        "jsonrpc": "2.0", "id": 5, "method": "tools/call",
        "params": {"name": "search_entities", "arguments": {"query": query}},
    }).encode()  # fmt: skip


INVALID_UTF8 = call("x").replace(b'"x"', b'"\xff\xfe"')


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (call("x" * 5_000_000), 413, "more than 1000000 bytes"),
        (INVALID_UTF8, 400, "not UTF-8"),
        (b"{", 400, "arse error"),
        (b"[]", 400, ""),
        (b"", 400, "arse error"),
        (b'{"jsonrpc": "2.0"}', 400, ""),
        (b"[" * 100_000, 400, "arse error"),
    ],
)
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_a_body_that_is_no_request_is_refused(shared_server, body, status, says, version):
    answer = post(shared_server, body, **{"mcp-protocol-version": version})
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]
    assert httpx2.get(f"{shared_server.root}/readyz").status_code == 200


def test_a_body_without_a_length_is_cut_off_too(shared_server):
    def parts():
        for _ in range(80):
            yield b"x" * 65_536

    assert post(shared_server, parts()).status_code == 413


def test_a_5_mb_query_is_refused_to_the_client(shared_map, shared_server):
    async def ask(connected):
        async with connected as client:
            with pytest.raises(Exception, match="more than 1000000 bytes"):
                await client.call_tool("search_entities", {"query": "x" * 5_000_000})
            assert not (await client.call_tool("get_neighbors", {"handle": "DSC-104"})).is_error

    anyio.run(ask, serving.over_http(shared_server.url, serving.token(ADA)))
    anyio.run(ask, serving.over_stdio(shared_map.server))


def test_lines_that_are_no_messages_are_answered_on_stdio(shared_map):
    first = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    last = json.loads(call("query")) | {"id": "last"}
    lines = [
        json.dumps(first).encode(), b"\xff", INVALID_UTF8, b"nothing", b"", b'{"id": 9}', b"[1]",
        b"[" * 50_000, call("x" * 1_000_000), json.dumps(last).encode(),
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "graphalgo.cli", "mcp", "--dsn", shared_map.server],
        input=b"\n".join(lines), env=serving.environment(), capture_output=True, timeout=60,
        check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [(a["id"], a["error"]["message"]) for a in answers if "error" in a]
    assert errors == [
        (None, "the message is not UTF-8: byte 1 is 0xff"),
        (5, f"the message is not UTF-8: byte {INVALID_UTF8.index(0xFF) + 1} is 0xff"),
        (None, "the message is not JSON"),
        (9, "the message is no request of JSON-RPC 2.0"),
        (None, "the message is no request of JSON-RPC 2.0"),
        (None, "the message is not JSON"),
        (5, "the message has more than 1000000 bytes"),
    ]
    # What was asked before the input ended is answered.
    assert answers[-1]["id"] == "last" and answers[-1]["result"]["structuredContent"]["rows"]


def test_a_client_that_reads_nothing_does_not_keep_the_server_from_ending(shared_map):
    """Neither the answers nor the log: the pipes of both are full."""
    process = subprocess.Popen(
        [sys.executable, "-m", "graphalgo.cli", "mcp", "--dsn", shared_map.server],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=serving.environment(),
    )  # fmt: skip
    try:
        assert process.stderr is not None and process.stdin is not None
        assert json.loads(process.stderr.readline())["event"] == "started"
        line = json.dumps({"jsonrpc": "2.0", "id": "x" * 900, "method": "ping"}).encode() + b"\n"
        for _ in range(2000):
            _, writable, _ = select.select([], [process.stdin], [], 2)
            if not writable:
                break
            os.write(process.stdin.fileno(), line)
        process.terminate()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("options", "settings", "says"),
    [
        (["--transport", "tcp"], {}, '--transport is "tcp"'),
        (["--transport", "http"], {}, "no key to check it by"),
        (["--transport", "http", "--sub", ADA], {}, "are for stdio"),
        (["--sub", "ada"], {}, "must be a uuid"),
        (["--orgs", ADA], {}, "--orgs is given without --sub"),
        ([], {"connections": "0"}, "must be a whole number from 1 to 1000"),
        ([], {"statement_timeout": "nan"}, "must be a number from"),
        ([], {"conections": "3"}, "is no setting"),
        ([], {"scheme": "A B"}, "must be the scheme of a URI"),
        ([], {"jwt_secret_file": "/nowhere"}, "which is no file"),
    ],
)
def test_a_server_that_is_told_nonsense_does_not_start(shared_map, options, settings, says):
    done = subprocess.run(
        [sys.executable, "-m", "graphalgo.cli", "mcp", "--dsn", shared_map.server, *options],
        env=serving.environment(**settings), capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr and "Traceback" not in done.stderr
