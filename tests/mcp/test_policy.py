"""A type that asks its product's own policy: what it denies is nowhere."""

from __future__ import annotations

import json

import anyio
import psycopg
import pytest

from tests.mcp import serving
from tests.mcp.conftest import ADA, CAM
from tests.mcp.test_callers import WORDS, read

POLICY = """
create schema product;
grant usage on schema product to authenticated;
create function product.may_open(p_nodes bigint[]) returns setof bigint language sql stable as $$
    select n from unnest(p_nodes) as n
    where
        n <> (select id from aiq.nodes_api where handle = 'INS-208')
        or current_setting('request.jwt.claims', true)::jsonb ->> 'sub' = %L
$$;
grant execute on function product.may_open(bigint[]) to authenticated;
select aiq.register_entity_table(
    'insight', 'investigation.insight', p_key_expr => 'title', p_summary_expr => 'title',
    p_org_expr => 'org', p_number_expr => 'id', p_title_expr => 'title', p_body_expr => 'body',
    p_policy => 'product.may_open'
)
"""


@pytest.fixture(scope="module")
def made(make_map):
    made = make_map()
    with psycopg.connect(made.owner, autocommit=True) as connection:
        connection.execute(POLICY.replace("%L", f"'{ADA}'").encode())
    return made


def test_what_a_policy_denies_is_hidden_from_search_neighbours_reads_and_counts(made):
    async def look(url, sub):
        async with serving.over_http(url, serving.token(sub)) as client:
            found = (await client.call_tool("search_entities", WORDS)).structured_content
            hops = [
                (
                    await client.call_tool(
                        "get_neighbors", {"handle": "DSC-104", "direction": "out", "limit": limit}
                    )
                ).structured_content
                for limit in (1, 25)
            ]
            return (
                {row["handle"] for row in found["rows"]},
                found["total"],
                [row["rank"] for row in found["rows"]],
                [{row["handle"] for row in hop["rows"]} for hop in hops],
                hops[0]["truncated"],
                await read(client, "INS-208"),
                await read(client, "INS-999"),
                (await client.call_tool("get_neighbors", {"handle": "INS-208"})).content[0].text,
                (await client.call_tool("get_neighbors", {"handle": "INS-999"})).content[0].text,
            )

    with serving.http_server(made.server) as server:
        ada = anyio.run(look, server.url, ADA)
        cam = anyio.run(look, server.url, CAM)
    assert ada[0] - cam[0] == {"INS-208"} and ada[1] - cam[1] == 1
    assert cam[2] == list(range(1, len(cam[0]) + 1))
    assert ada[3][1] == {"INS-208", "INS-209"} and ada[4] is True
    assert cam[3] == [{"INS-209"}, {"INS-209"}] and cam[4] is False
    assert ada[5] == "INS-208"
    denied, missing = json.dumps(cam[5]), json.dumps(cam[6])
    assert denied.replace("INS-208", "?") == missing.replace("INS-999", "?")
    assert cam[7].replace("INS-208", "?") == cam[8].replace("INS-999", "?")
