"""A dump restored into a fresh server is the same graph store, and goes on as one."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from graphalgo import cluster as private_cluster
from graphalgo.cluster import servers
from graphalgo.install import check, install
from graphalgo.loading import load_harbour
from tests.support import harbour
from tests.support.catalogue import OURS, differences, schema_of
from tests.support.roles import ALL_ROLES

SCHEMAS = (*OURS, "harbour", "yard")
VIEWS = ("nodes_api", "nodes_ever", "node_keys_api", "edges_current", "edge_periods",
         "link_verdicts_api", "distinct_nodes_api", "edge_assertions_api", "entity_types_api",
         "relations_api", "text_sources_api", "passages", "embedding_models_api", "embeddings",
         "embedded_models_api", "entities_api")  # fmt: skip
TABLES = ("nodes", "node_keys", "edges", "edge_assertions", "node_promotions", "distinct_nodes",
          "link_verdicts", "entity_tables", "link_tables", "link_rows", "installed_objects",
          "meta", "text_sources", "text_chunks", "embedding_models",
          "chunk_vectors", "entity_documents", "entity_vectors")  # fmt: skip

# Beside the sample: a partitioned table with a table of links, private rows, a load
# that is paused.
_YARD = """
create schema yard;
grant usage on schema yard to aiq_engine;
create table yard.docks (
    region text, id int, name text not null, hidden boolean not null default false,
    next int, primary key (region, id)
) partition by list (region);
create table yard.docks_north partition of yard.docks for values in ('north');
create table yard.docks_south partition of yard.docks for values in ('south');
create table yard.paused (id int primary key, name text);
create function yard.may_open(p_nodes bigint[]) returns setof bigint language sql stable
as $$ select unnest(p_nodes) $$;
grant usage on schema yard to authenticated;
insert into aiq.entity_types (name, handle_prefix) values ('dock', 'DCK'), ('slip', 'SLP');
insert into aiq.relations (src_type, relation, dst_type)
values ('vessel', 'built_in', 'dock'), ('slip', 'beside', 'slip');
select aiq.register_entity_table(
    'dock', 'yard.docks', 'name', p_include_where => 'not hidden',
    p_title_expr => 'name', p_body_expr => 'region', p_policy => 'yard.may_open',
    p_alias_exprs => array[$$array['d-' || id]$$], p_code_exprs => array[$$array['d-' || id]$$]
);
insert into yard.docks values
    ('north', 1, 'Upper Dock', false), ('south', 1, 'Lower Dock', false),
    ('south', 2, 'Closed Dock', true);
update yard.docks set name = 'Lower Basin' where name = 'Lower Dock';
delete from yard.docks where name = 'Upper Dock';
insert into yard.docks values ('north', 2, 'New Dock');
create table yard.built (vessel int primary key, region text, dock int);
select aiq.register_link_table(
    'yard.built', 'built_in', 'vessel', 'dock', p_src_expr => 'vessel',
    p_dst_expr => 'row(region, dock)', p_weight_expr => '0.5'
);
insert into yard.built values (1, 'south', 1), (2, 'north', 2);
update yard.built set region = 'north', dock = 2 where vessel = 1;
select aiq.register_entity_table('slip', 'yard.paused', 'name');
select aiq.bulk('yard.paused', true);
insert into yard.paused values (1, 'Slip One');
select aiq.register_embedding_model('dock-model', 2);
select aiq.put_entity_embeddings('dock-model', array_agg(e.id), array_agg(array[0.6, 0.8]::real[]))
from aiq.entities_to_embed('dock-model') as e;
"""


def _graph(*names: str, relation: str = "last_called") -> Jsonb:
    nodes = [dict(zip("kn", name.split("/", 1), strict=True)) for name in names]
    return Jsonb({"nodes": nodes, "edges": [{"s": 0, "t": 1, "r": relation}]})


def _org(tenant: str) -> str:
    return harbour.claims_of(tenant)["sub"].replace("e", "d", 1)


def _write_facts(connection: psycopg.Connection[Any]) -> None:
    """History, soft nodes of two organisations, one of them promoted, a pair kept apart."""
    upsert = "select aiq.upsert_graph(%s, %s)"
    for tenant in ("meridian", "kestrel"):
        context = {"memory": f"log of {tenant}", "valid_from": "2023-01-01", "org": _org(tenant)}
        graph = _graph("vessel/Ghost Ship", "port/Rotterdam")
        connection.execute(upsert, [graph, Jsonb(context)])
    connection.execute(
        "select aiq.close_edge('2023-06-01', p_memory => %s, p_relation => 'last_called')",
        ["log of kestrel"],
    )
    context = {"memory": "a second log", "valid_from": "2023-09-01", "org": _org("kestrel")}
    connection.execute(upsert, [_graph("vessel/Ghost Ship", "port/Rotterdam"), Jsonb(context)])
    connection.execute(
        "select aiq.promote_soft_node(s.id, v.id, 'a test', '{}') from aiq.nodes as s,"
        " aiq.nodes as v where s.soft_name = 'ghost ship' and s.org_id = %s"
        " and v.source_table = 'harbour.vessels' and v.source_pk = '4'",
        [_org("kestrel")],
    )
    connection.execute(
        "select aiq.record_distinct(s.id, v.id, 'a test', '{}') from aiq.nodes as s,"
        " aiq.nodes as v where s.soft_name = 'ghost ship' and s.org_id = %s"
        " and v.source_table = 'harbour.vessels' and v.source_pk = '1'",
        [_org("meridian")],
    )
    connection.execute(
        "select aiq.record_link_verdict(min(id), max(id), 0.8::real, 'alike') from aiq.nodes"
        " where source_table = 'harbour.vessels'"
    )


@pytest.fixture(scope="module")
def original(make_database: Callable[[], str]) -> str:
    """The DSN of a database with all that can be in one."""
    dsn = make_database()
    install(dsn)
    load_harbour(dsn, scoped=True)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_YARD)
        _write_facts(connection)
    return dsn


@pytest.fixture(scope="module")
def fresh_server(cluster: private_cluster.Cluster) -> Iterator[private_cluster.Cluster]:
    """Another server of the same version, with no role of ours."""
    with tempfile.TemporaryDirectory(prefix="graphalgo-restore-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield private_cluster.up(Path(folder) / "cluster", version=cluster.version)
        private_cluster.down(Path(folder) / "cluster", purge=True)


class Programs:
    """The server's own client programs."""

    def __init__(self, major: int) -> None:
        self.directory = next(
            server.bin_directory for server in servers.find_servers() if server.major == major
        )

    def run(self, program: str, *arguments: str) -> str:
        command = [str(self.directory / program), *arguments]
        return subprocess.run(command, check=True, text=True, capture_output=True).stdout

    def copy(self, source: str, target: str, file: Path) -> None:
        """Dump one database and restore it into another, which is empty."""
        self.run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={source}")
        self.run("pg_restore", "--exit-on-error", "--jobs=2", f"--dbname={target}", str(file))


@pytest.fixture(scope="module", params=["roles dumped", "roles installed"])
def restored(
    request: pytest.FixtureRequest,
    original: str,
    tenants_dsn: str,
    cluster: private_cluster.Cluster,
    fresh_server: private_cluster.Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The DSN of a restored database; beside it is `sample`, the sample alone."""
    programs = Programs(cluster.version)
    folder = tmp_path_factory.mktemp("dumps")
    made = {
        name: make_conninfo(fresh_server.dsn, dbname=name)
        for name in ("restored", "sample", "other")
    }
    with psycopg.connect(fresh_server.dsn, autocommit=True) as connection:
        for name in made:
            connection.execute(f"create database {name} template template0".encode())
        if request.param == "roles installed":
            install(made["other"])
        else:
            # The server's own superuser is there already, and so are other tests' roles.
            roles = programs.run("pg_dumpall", "--roles-only", f"--dbname={cluster.dsn}")
            for line in roles.splitlines():
                ours = rf"([A-Z ]+ ROLE|GRANT authenticated TO) ({'|'.join(ALL_ROLES)})\b"
                if re.match(ours, line):
                    connection.execute(line.encode())
    programs.copy(original, made["restored"], folder / "original.dump")
    programs.copy(tenants_dsn, made["sample"], folder / "sample.dump")
    yield made["restored"]
    with psycopg.connect(fresh_server.dsn, autocommit=True) as connection:
        for name in made:
            connection.execute(f"drop database {name} with (force)".encode())
        for role in ALL_ROLES:
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


CALLERS = [None, {"sub": "00000000-0000-0000-0000-000000000001"}, *map(harbour.claims_of, (
    "meridian", "kestrel"))]  # fmt: skip


def _seen(dsn: str, claims: dict[str, str] | None) -> dict[str, list[Any]]:
    with harbour.caller(dsn, claims) as connection:
        return {
            view: connection.execute(
                f"select v::text from aiq.{view} as v order by 1".encode()
            ).fetchall()
            for view in VIEWS
        }


def _stored(dsn: str) -> dict[str, list[Any]]:
    with psycopg.connect(dsn) as connection:
        return {
            table: connection.execute(
                f"select t::text from aiq.{table} as t order by 1".encode()
            ).fetchall()
            for table in TABLES
        }


def test_the_schema_is_the_same_to_the_last_policy_and_trigger(
    original: str, restored: str
) -> None:
    assert differences(schema_of(original, *SCHEMAS), schema_of(restored, *SCHEMAS)) == {}


def test_every_row_is_there(original: str, restored: str) -> None:
    stored = _stored(original)
    assert all(stored.values())
    assert _stored(restored) == stored


@pytest.mark.parametrize("claims", CALLERS, ids=["nobody", "a stranger", "meridian", "kestrel"])
def test_each_caller_sees_the_same(
    original: str, restored: str, claims: dict[str, str] | None
) -> None:
    assert _seen(restored, claims) == _seen(original, claims)


def test_callers_see_different_things(original: str) -> None:
    """Or the comparison above would prove nothing."""
    nobody, _, meridian, kestrel = (_seen(original, claims) for claims in CALLERS)
    for view in ("nodes_api", "node_keys_api", "edges_current", "edge_periods"):
        assert nobody[view] != meridian[view] != kestrel[view]


def test_every_answer_of_the_sample_is_given(restored: str) -> None:
    cases = sum(len(harbour.EXPECTED[kind]) for kind in harbour.KINDS)
    sample = make_conninfo(restored, dbname="sample")
    assert harbour.check_tenants(sample) == 2 * cases


def test_check_finds_what_it_found_before(original: str, restored: str) -> None:
    for dsn in (original, restored):
        (finding,) = [finding for finding in check(dsn) if finding.ok is not True]
        assert finding.name == "registrations"
        assert "aiq.bulk was left on" in finding.message


def test_nothing_is_left_to_install_or_to_rebuild(restored: str) -> None:
    before, rows = schema_of(restored, *SCHEMAS), _stored(restored)
    assert install(restored).action == "unchanged"
    assert differences(before, schema_of(restored, *SCHEMAS)) == {}
    with psycopg.connect(restored, autocommit=True) as connection:
        for entity_type in ("operator", "vessel", "port", "registration", "dock"):
            written = connection.execute("select * from aiq.rebuild(%s)", [entity_type]).fetchall()
            assert [set(row[1:]) for row in written] == [{0}]
        connection.execute("select * from aiq.rebuild_links('yard.built')")
    after = _stored(restored)
    assert after["nodes"] == rows["nodes"]
    assert after["node_keys"] == rows["node_keys"]
    assert after["edges"] == rows["edges"]


@pytest.fixture
def changing(restored: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection; what it changes is rolled back."""
    with psycopg.connect(restored) as connection, connection.transaction(force_rollback=True):
        yield connection


def _found(connection: psycopg.Connection[Any], key: str) -> list[tuple[str, str]]:
    rows = connection.execute(
        "select n.entity_type, n.source_pk from aiq.nodes as n"
        " join aiq.node_keys as k on k.node_id = n.id"
        " where k.key = %s and k.retired_at is null and n.retired_at is null order by n.id",
        [key],
    ).fetchall()
    return [(row[0], row[1]) for row in rows]


def _held(connection: psycopg.Connection[Any]) -> set[tuple[str, str]]:
    rows = connection.execute(
        "select s.source_pk, d.source_pk from aiq.edges as e"
        " join aiq.nodes as s on s.id = e.src_id join aiq.nodes as d on d.id = e.dst_id"
        " where e.relation = 'built_in' and e.ends_at is null"
    ).fetchall()
    return {(row[0], row[1]) for row in rows}


def test_registered_tables_are_kept_in_step(changing: psycopg.Connection[Any]) -> None:
    before = changing.execute("select max(id) from aiq.nodes").fetchone()
    changing.execute("insert into yard.docks_north values ('north', 7, 'Straight In')")
    assert len(_found(changing, "straight in")) == 1
    assert len(_found(changing, "d-7")) == 1
    after = changing.execute("select max(id) from aiq.nodes").fetchone()
    assert after is not None
    assert before is not None
    assert after[0] > before[0]
    changing.execute("update yard.docks set name = 'Open Dock', hidden = false where hidden")
    assert len(_found(changing, "open dock")) == 1
    changing.execute("delete from yard.docks where name = 'Lower Basin'")
    assert _found(changing, "lower basin") == []
    changing.execute("truncate yard.docks_north")
    assert _found(changing, "straight in") == []


def test_link_tables_are_kept_in_step(changing: psycopg.Connection[Any]) -> None:
    before = _held(changing)
    assert {vessel for vessel, _ in before} == {"1", "2"}
    changing.execute("update yard.built set region = 'south', dock = 1 where vessel = 1")
    after = _held(changing)
    assert {vessel for vessel, _ in after} == {"1", "2"}
    assert len(after - before) == 1
    changing.execute("delete from yard.built")
    assert _held(changing) == set()


def test_a_paused_table_is_paused_until_it_is_resumed(changing: psycopg.Connection[Any]) -> None:
    changing.execute("insert into yard.paused values (2, 'Slip Two')")
    assert _found(changing, "slip two") == []
    changing.execute("select aiq.bulk('yard.paused', false)")
    assert _found(changing, "slip one") == [("slip", "1")]
    changing.execute("insert into yard.paused values (3, 'Slip Three')")
    assert _found(changing, "slip three") == [("slip", "3")]


def test_facts_go_on_from_where_they_were(changing: psycopg.Connection[Any]) -> None:
    """A name of a promoted node leads to what it became; a memory closes its edge."""
    context = {"memory": "log of meridian", "org": _org("meridian"), "valid_from": "2022-01-01"}
    written = changing.execute(
        "select aiq.upsert_graph(%s, %s)",
        [_graph("vessel/Ghost Ship", "port/Rotterdam"), Jsonb(context)],
    ).fetchone()
    assert written is not None
    (edge,) = written[0]["edges"]
    start = changing.execute("select valid_from::date::text from aiq.edges where id = %s", [edge])
    assert start.fetchone() == ("2022-01-01",)
    closed = changing.execute(
        "select aiq.close_edge(p_memory => 'log of meridian', p_relation => 'last_called')"
    )
    assert closed.fetchone() == (edge,)
    context = {"memory": "a third log", "org": _org("kestrel")}
    written = changing.execute(
        "select aiq.upsert_graph(%s, %s)",
        [_graph("vessel/Ghost Ship", "port/Felixstowe"), Jsonb(context)],
    ).fetchone()
    assert written is not None
    node = changing.execute(
        "select source_pk from aiq.nodes where id = %s", [written[0]["nodes"][0]]
    )
    assert node.fetchone() == ("4",)
