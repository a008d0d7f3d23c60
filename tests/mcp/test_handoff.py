"""From a question to the entities that answer it: search, one hop, read."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import psycopg
import pytest

from graphalgo.samples.investigation import investigation_json
from tests.mcp import serving
from tests.mcp.conftest import ADA

SAMPLE = investigation_json()
WAYS = [(transport, mode) for transport in ("stdio", "http") for mode in ("legacy", "auto")]


@asynccontextmanager
async def connected(way, shared_map, shared_server, sub=ADA):
    transport, mode = way
    if transport == "stdio":
        async with serving.over_stdio(shared_map.server, "--sub", sub, mode=mode) as client:
            yield client
    else:
        async with serving.over_http(shared_server.url, serving.token(sub), mode) as client:
            yield client


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_the_question_is_answered_by_search_one_hop_and_two_reads(way, shared_map, shared_server):
    expected = SAMPLE["expected"]["neighbors_of_DSC-104"]
    entities = {each["handle"]: each for each in SAMPLE["entities"]}

    async def ask():
        async with connected(way, shared_map, shared_server) as client:
            assert "discovery -references->" in client.instructions
            assert not [handle for handle in entities if f"{handle}:" in client.instructions]
            found = await client.call_tool("search_entities", {"query": SAMPLE["question"]})
            rows = found.structured_content["rows"]
            assert rows[0]["handle"] == SAMPLE["expected"]["search_first"]
            assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
            assert any("«" in row["snippet"] for row in rows)
            assert "words alone" in found.structured_content["note"]
            hop = (
                await client.call_tool("get_neighbors", {"handle": "DSC-104"})
            ).structured_content
            for direction in ("out", "in"):
                reached = {r["handle"] for r in hop["rows"] if r["direction"] == direction}
                assert reached == set(expected[direction])
            assert (hop["truncated"], hop["cursor"]) == (False, None)
            assert not [row for row in hop["rows"] if "body" in row]
            for handle in expected["out"]:
                read = await client.read_resource(f"aiq://ontology/entities/{handle}")
                document = json.loads(read.contents[0].text)
                assert document["title"] == entities[handle]["title"]
                assert document["body"] == entities[handle]["body"]
                assert read.contents[0].mime_type == "application/json"

    anyio.run(ask)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_a_hop_is_paged_by_its_cursor(way, shared_map, shared_server):
    async def ask():
        async with connected(way, shared_map, shared_server) as client:
            handles, cursor = [], None
            for _ in range(3):
                arguments = {"handle": "DSC-104", "limit": 1} | (
                    {"cursor": cursor} if cursor else {}
                )
                page = (await client.call_tool("get_neighbors", arguments)).structured_content
                handles += [row["handle"] for row in page["rows"]]
                cursor = page["cursor"]
                assert page["truncated"] is (cursor is not None)
            assert cursor is None
            assert sorted(handles) == ["INS-208", "INS-209", "MEM-72"]

    anyio.run(ask)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_a_route_declared_while_the_server_runs_is_in_the_next_initialize(way, make_map):
    made = make_map()

    async def ask(server):
        async with connected(way, made, server) as client:
            assert "segment -references-> insight" not in client.instructions
            with psycopg.connect(made.owner) as connection:
                connection.execute(
                    "insert into aiq.relations (src_type, relation, dst_type)"
                    " values ('segment', 'references', 'insight')"
                )
            read = await client.read_resource("aiq://ontology")
            routes = json.loads(read.contents[0].text)["routes"]
            assert ("segment", "insight") in {(r["src_type"], r["dst_type"]) for r in routes}
        async with connected(way, made, server) as client:
            assert "segment -references-> insight" in client.instructions

    if way[0] == "stdio":
        anyio.run(ask, None)
        return
    with serving.http_server(made.server) as server:
        anyio.run(ask, server)


def test_the_tools_say_what_they_take_and_that_they_only_read(shared_map, shared_server):
    async def ask():
        async with connected(("http", "legacy"), shared_map, shared_server) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in anyio.run(ask)}
    assert set(tools) == {"search_entities", "get_neighbors", "lookup", "query", "iterated_join"}
    for tool in tools.values():
        assert tool.annotations.read_only_hint and not tool.annotations.destructive_hint
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        assert all(each["description"] for each in tool.input_schema["properties"].values())
    limit = tools["get_neighbors"].input_schema["properties"]["limit"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 100, 25)
    assert tools["search_entities"].input_schema["properties"]["limit"]["default"] == 10


def test_lookup_query_and_join_answer_as_the_functions_do(shared_map, shared_server):
    def one(connection, statement):
        return connection.execute(statement.encode()).fetchone()[0]

    async def ask():
        async with connected(("http", "legacy"), shared_map, shared_server) as client:
            found = await client.call_tool("lookup", {"keys": ["Slowest production queries", "?"]})
            asked = await client.call_tool("query", {"p8ql": 'GRAPH "DSC-104" DEPTH 1'})
            joined = await client.call_tool(
                "iterated_join", {"seed": "DSC-104", "target_type": "memory", "links": ["edge"]}
            )
            return [each.structured_content for each in (found, asked, joined)]

    found, asked, joined = anyio.run(ask)
    assert [row["handle"] for row in found["rows"]] == ["INS-209"]
    assert found["unresolved"] == ["?"]
    assert joined["resolved"] and [row["handle"] for row in joined["rows"]] == ["MEM-72"]
    with psycopg.connect(shared_map.owner) as connection:
        assert asked == one(connection, """select aiq.query('GRAPH "DSC-104" DEPTH 1')""")


def test_the_scheme_of_the_resources_is_a_setting(shared_map):
    async def ask():
        async with serving.over_stdio(shared_map.server, scheme="acme") as client:
            assert "acme://ontology" in client.instructions
            templates = (await client.list_resource_templates()).resource_templates
            read = await client.read_resource("acme://ontology/entities/INS-208")
            with pytest.raises(Exception, match="there is no resource"):
                await client.read_resource("aiq://ontology/entities/INS-208")
            return templates[0].uri_template, json.loads(read.contents[0].text)["handle"]

    assert anyio.run(ask) == ("acme://ontology/entities/{HANDLE}", "INS-208")


def test_instructions_that_would_be_too_long_say_where_the_rest_is(make_map):
    made = make_map()
    with psycopg.connect(made.owner) as connection:
        connection.execute(
            "insert into aiq.entity_types (name, handle_prefix)"
            " select 'type ' || n, 'T' || n from generate_series(1, 2000) as n"
        )

    async def ask():
        async with serving.over_stdio(made.server, instructions="5000") as client:
            return client.instructions

    text = anyio.run(ask)
    assert len(text) <= 5000
    assert text.rstrip().endswith("read aiq://ontology.)")
