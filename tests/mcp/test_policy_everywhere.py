"""What a policy denies answers as what is not there: in every tool and resource.

Two databases hold the same rows, but for some insights. In the one a policy denies
them, in the other they have been deleted. Who is denied gets the same bytes from both.
"""

from __future__ import annotations

import json
import re

import anyio
import psycopg
import pytest

from tests.mcp import serving
from tests.mcp.conftest import ADA, CAM
from tests.mcp.test_callers import outcome, read

TITLE = "Optimization candidates by performance impact"
ROWS = f"""
insert into investigation.insight (id, title, body)
select n, '{TITLE} ' || n, 'Candidates, denied.' from generate_series(300, 339) as n;
insert into investigation.insight (id, title, body)
select n, '{TITLE} of ' || n, 'Candidates, open.' from generate_series(400, 403) as n;
insert into investigation.dashboard (id, title, body) values (1, '{TITLE}', 'A page.');
insert into investigation.segment (id, title, body) values (1, '{TITLE}', 'A population.');
insert into investigation.discovery_insight (src, dst)
select 104, i.id from investigation.insight as i where i.id >= 300;
insert into investigation.memory_insight (src, dst) values (41, 208), (41, 300);
insert into investigation.dashboard_insight (src, dst) values (1, 208);
create schema product;
grant usage on schema product to authenticated;
create function product.may_open(p_nodes bigint[]) returns setof bigint language sql stable as $$
    select n.id from aiq.nodes_api as n
    where
        n.id = any (p_nodes) and (
            n.handle !~ '^INS-(208|3..)$'
            or current_setting('request.jwt.claims', true)::jsonb ->> 'sub' = '{ADA}'
        )
$$;
grant execute on function product.may_open(bigint[]) to authenticated;
select aiq.register_text_source(
    'insights', 'investigation.insight', 'id', 'body', p_title_column => 'title'
);
select aiq.register_entity_table(
    'insight', 'investigation.insight', p_key_expr => 'title', p_summary_expr => 'title',
    p_org_expr => 'org', p_number_expr => 'id', p_title_expr => 'title', p_body_expr => 'body',
    p_policy => 'product.may_open'
)
"""
DELETED = """
delete from investigation.discovery_insight where dst = 208 or dst between 300 and 399;
delete from investigation.memory_insight where dst = 208 or dst between 300 and 399;
delete from investigation.dashboard_insight where dst = 208;
delete from investigation.insight where id = 208 or id between 300 and 399
"""
KEYS = [TITLE, "INS-208", f"{TITLE} 301", TITLE[:-3]]
JOIN = {"seed": "DSC-104", "target_type": "memory"}
CALLS = [
    *(
        ("lookup", {"keys": KEYS, "fuzzy": fuzzy, "limit": n})
        for fuzzy in (False, True) for n in (1, 3, 100)
    ),
    *(("query", {"p8ql": text}) for text in (
        f'LOOKUP "{TITLE}", "{TITLE} 301"', f'LOOKUP FUZZY "{TITLE[:-3]}" LIMIT 2',
        f'GRAPH "{TITLE}" DEPTH 1', f'GRAPH "{TITLE} 301" DEPTH 1', f'GRAPH "{TITLE[:-3]}"',
        'GRAPH "INS-208"', 'GRAPH "DSC-104" DEPTH 1', 'GRAPH "DSC-104" DEPTH 3',
        'GRAPH "DSC-104" DEPTH 2 LIMIT 2', 'GRAPH "MEM-41" DEPTH 3',
        'TEXT "candidates" FROM insights', 'SCHEMA types', 'select 1',
    )),
    *(("iterated_join", JOIN | more) for more in (
        {}, {"links": ["edge"]}, {"target_type": "insight", "degree_cap": 3},
        {"target_type": "insight", "limit": 2}, {"target_type": "insight", "budget": 2},
        {"seed": "INS-208"}, {"seed": TITLE}, {"seed": f"{TITLE} 301"}, {"seed": TITLE[:-3]},
        {"seed": "DSH-1", "target_type": "segment", "links": ["shared_key"]},
        {"seed": "DSH-1", "target_type": "insight", "links": ["similar"], "degree_cap": 2},
        {"seed": "MEM-41", "target_type": "discovery", "links": ["edge"]},
    )),
    ("search_entities", {"query": "optimization candidates", "limit": 3}),
    *(
        ("get_neighbors", {"handle": handle, "limit": 2})
        for handle in ("DSC-104", "INS-208", "MEM-41")
    ),
]  # fmt: skip


def prepared(made, *statements):
    with psycopg.connect(made.owner, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
    return made


async def answers(url, sub, calls):
    async with serving.over_http(url, serving.token(sub)) as client:
        told = [(call, await outcome(client, *call)) for call in calls]
        return [*told, ("read", await read(client, "INS-208"))]


@pytest.fixture(scope="module")
def denied_map(make_map):
    return prepared(make_map(), ROWS)


@pytest.fixture(scope="module")
def three(make_map, denied_map):
    """Of Cam where they are denied, of Cam where they are deleted, of Ada, who may open all."""
    deleted = prepared(make_map(), ROWS, DELETED)
    with serving.http_server(denied_map.server, rate="100000") as one:
        cam = anyio.run(answers, one.url, CAM, CALLS)
        ada = anyio.run(answers, one.url, ADA, CALLS)
    with serving.http_server(deleted.server, rate="100000") as other:
        return cam, anyio.run(answers, other.url, CAM, CALLS), ada


@pytest.mark.parametrize("number", range(len(CALLS) + 1))
def test_what_is_denied_is_as_what_is_deleted(three, number):
    denied, deleted, _ = three
    assert denied[number] == deleted[number]


def test_no_answer_names_what_is_denied(three):
    hidden = re.compile(
        "INS-(?:208|3..)|impact 3..|Candidates, denied|ordered by saved", re.IGNORECASE
    )
    seen = 0
    for (call, told), (_, opened) in zip(three[0], three[2], strict=True):
        # What a caller wrote is said back to them.
        written = {each.lower() for each in hidden.findall(json.dumps(call))} | {"ins-208"}
        assert {each.lower() for each in hidden.findall(json.dumps(told))} <= written, call
        seen += bool(hidden.search(json.dumps(opened)))
    assert seen > 20


def test_who_may_open_them_finds_and_walks_them(three):
    _, _, opened = three
    text = {json.dumps(call): json.dumps(told) for call, told in opened}
    for call, told in text.items():
        if "INS-208" in call:
            assert "no entity has" not in told and "no node" not in told, call
    through = text[json.dumps(("iterated_join", JOIN | {"links": ["edge"], "seed": "MEM-41",
                                                        "target_type": "discovery"}))]  # fmt: skip
    assert "DSC-104" in through


@pytest.mark.parametrize("tool", ["lookup", "query", "iterated_join"])
@pytest.mark.parametrize(
    ("denied", "missing"), [("INS-208", "INS-999"), (f"{TITLE} 333", f"{TITLE} 777")]
)
def test_a_denied_handle_or_key_answers_as_a_missing_one(denied_map, tool, denied, missing):
    written = {
        "lookup": lambda key: {"keys": [key]},
        "query": lambda key: {"p8ql": f'GRAPH "{key}"'},
        "iterated_join": lambda key: JOIN | {"seed": key},
    }[tool]

    async def ask(url):
        async with serving.over_http(url, serving.token(CAM)) as client:
            return [
                json.dumps(await outcome(client, tool, written(key))) for key in (denied, missing)
            ]

    with serving.http_server(denied_map.server) as server:
        one, other = anyio.run(ask, server.url)
    assert one.replace(denied, "?") == other.replace(missing, "?")
