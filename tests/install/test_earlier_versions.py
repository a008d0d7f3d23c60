"""A database of an earlier version becomes what a new one is, and its graph stays.

`tests/data/versions` keeps, for every version that came out, the SQL files and
bodies as they were, rows as that version wrote them, and what it answered about them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from graphalgo import __version__, resources
from graphalgo.install import check, install, installer, uninstall
from graphalgo.install.versions import is_newer
from graphalgo.stores.client import ClientStore
from tests.support import harbour
from tests.support.catalogue import differences, schema_of
from tests.support.engine import Bound
from tests.support.registered import active
from tests.support.server import ServerFunctions

from .conftest import catalogues, execute, fetch

VERSIONS = sorted((Path(__file__).parents[1] / "data" / "versions").iterdir())
OLDEST = VERSIONS[0]
# Of 0.1.0's rows, the tables whose every column is a column today.
KEPT = ("entity_types", "relations", "nodes", "node_keys", "edges", "link_verdicts",
        "link_pair_queue")  # fmt: skip
ORG = "d0000000-0000-0000-0000-00000000000a"
MEMBER = "e0000000-0000-0000-0000-00000000000a"

Installer = Callable[..., None]


@pytest.fixture
def install_old(monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Install an earlier version's files as that version would have."""

    def put(dsn: str, version: Path, *, plpython: bool = True) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(installer, "__version__", version.name)
            install(dsn, files=resources.Resources(version), plpython=plpython)
        assert fetch(dsn, "select value from aiq.meta where key = 'schema_version'") == [
            (version.name,)
        ]

    return put


def fill(dsn: str, version: Path) -> None:
    execute(dsn, (version / "harbour.sql").read_text(encoding="utf-8"))


def rows(dsn: str, columns: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    return {table: fetch(dsn, f"select {columns[table]} from aiq.{table} order by 1, 2, 3")
            for table in KEPT}  # fmt: skip


def columns_of(dsn: str) -> dict[str, str]:
    found = fetch(
        dsn,
        "select attrelid::regclass::text, string_agg(quote_ident(attname), ', ' order by attnum)"
        " from pg_attribute where attnum > 0 and not attisdropped"
        " and attrelid = any (%s::text[]::regclass[]) group by 1",
        [f"aiq.{table}" for table in KEPT],
    )
    return {str(table).removeprefix("aiq."): str(names) for table, names in found}


def test_every_earlier_version_is_kept() -> None:
    assert VERSIONS
    assert all(is_newer(__version__, version.name) for version in VERSIONS)


@pytest.mark.parametrize("plpython", [True, False])
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_upgrading_gives_exactly_the_schema_of_a_new_installation(
    fresh_database: Callable[[], str], install_old: Installer, version: Path, plpython: bool
) -> None:
    old, new = fresh_database(), fresh_database()
    install_old(old, version, plpython=plpython)
    assert differences(schema_of(old), {what: [] for what in schema_of(old)})
    fill(old, version)
    report = install(old, plpython=plpython)
    assert (report.action, report.previous_version) == ("upgraded", version.name)
    install(new, plpython=plpython)
    assert differences(schema_of(old), schema_of(new)) == {}
    books = "select kind, name from aiq.installed_objects where kind <> 'role' order by 1, 2"
    assert [row for row in fetch(old, books) if row[0] != "extension"] == [
        row for row in fetch(new, books) if row[0] != "extension"
    ]
    assert [finding for finding in check(old) if not finding.ok] == []


def test_the_comparison_sees_what_differs(
    fresh_database: Callable[[], str], install_old: Installer
) -> None:
    """Each kind of thing that two schemas could differ in, made to differ."""
    old, new = fresh_database(), fresh_database()
    install_old(old, OLDEST)
    install(new)
    seen = set(differences(schema_of(old), schema_of(new)))
    assert {"relations", "columns", "constraints", "indexes", "views", "functions", "policies",
            "triggers", "comments", "types", "sequences"} <= seen  # fmt: skip
    install(old)
    for statement, kind in (
        ("alter table aiq.edges alter column weight set default 1", "columns"),
        ("revoke select on aiq.nodes from aiq_engine", "relations"),
        ("alter function aiq.fold_key(text) set work_mem = '8MB'", "functions"),
        ("grant execute on function aiq.fold_key(text) to public", "functions"),
        ("comment on column aiq.nodes.summary is 'x'", "comments"),
        ("alter table aiq.nodes no force row level security", "relations"),
        ("alter table aiq.nodes disable trigger user", "triggers"),
        ("alter policy caller_sees on aiq.nodes using (true)", "policies"),
        ("alter view aiq.nodes_api owner to aiq_engine", "relations"),
    ):
        before = schema_of(old)
        execute(old, statement)
        assert kind in differences(before, schema_of(old)), statement


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_what_an_earlier_version_wrote_is_kept_row_by_row(
    database: str, install_old: Installer, version: Path
) -> None:
    install_old(database, version)
    fill(database, version)
    columns = columns_of(database)
    before = rows(database, columns)
    install(database)
    install(database)
    assert rows(database, columns) == before
    assert all(before.values())


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_it_answers_as_the_earlier_version_did(
    database: str, install_old: Installer, version: Path
) -> None:
    install_old(database, version)
    fill(database, version)
    install(database)
    answers = json.loads((version / "answers.json").read_text(encoding="utf-8"))
    with harbour.caller(database, None) as connection:
        for store in (ServerFunctions(connection), Bound(ClientStore(connection))):
            for answer in answers:
                found = getattr(store, answer["call"])(**answer["arguments"])
                found = json.loads(json.dumps([row.as_dict() for row in found], default=str))
                assert found == answer["rows"], answer


def test_rows_of_an_organisation_become_its_members_own(
    database: str, install_old: Installer
) -> None:
    install_old(database, OLDEST)
    fill(database, OLDEST)
    install(database)
    execute(
        database,
        f"insert into rbac.orgs (id, slug) values ('{ORG}', 'a')",
        f"insert into rbac.users (id) values ('{MEMBER}')",
        f"insert into rbac.org_members (org_id, user_id) values ('{ORG}', '{MEMBER}')",
    )
    seen = []
    for claims in (None, {"sub": MEMBER}):
        with harbour.caller(database, claims) as connection:
            nodes = connection.execute("select id from aiq.nodes_api where id = 17").fetchall()
            keys = connection.execute("select from aiq.node_keys_api where node_id = 17").fetchall()
            edges = connection.execute("select id from aiq.edges_current where id = 12").fetchall()
            seen.append((len(nodes), len(keys), len(edges)))
    assert seen == [(0, 0, 0), (1, 1, 1)]


def test_a_memory_closes_the_edge_that_it_had_asserted_before_the_upgrade(
    database: str, install_old: Installer
) -> None:
    install_old(database, OLDEST)
    fill(database, OLDEST)
    install(database)
    execute(
        database,
        "set role aiq_worker; select aiq.close_edge(p_memory => 'log-4',"
        " p_relation => 'last_called')",
    )
    closed = "select valid_to is not null, closed_by from aiq.edges where id = 13"
    assert fetch(database, closed) == [(True, "log-4")]
    # What was asserted later is not made up again by installing again.
    execute(database, "delete from aiq.edge_assertions")
    install(database)
    assert fetch(database, "select count(*) from aiq.edge_assertions") == [(0,)]


def test_an_upgraded_graph_goes_on_growing(database: str, install_old: Installer) -> None:
    """New rows get new ids, and tables can be registered beside what is there."""
    install_old(database, OLDEST)
    fill(database, OLDEST)
    install(database)
    execute(
        database,
        "create schema yard",
        "grant usage on schema yard to aiq_engine",
        "create table yard.ships (id int primary key, name text)",
        "insert into yard.ships values (901, 'Fresh Paint')",
        "select aiq.register_entity_table('vessel', 'yard.ships', 'name')",
        "insert into yard.ships values (902, 'Second Coat')",
    )
    with psycopg.connect(database) as connection:
        mine = {key: keys for key, keys in active(connection).items() if key in ("901", "902")}
    assert mine == {"901": {"fresh paint"}, "902": {"second coat"}}


def test_an_upgraded_database_can_be_left_without_a_trace(
    database: str, install_old: Installer
) -> None:
    execute(database, "grant usage on schema pg_catalog to public")
    before = catalogues(database)
    install_old(database, OLDEST)
    fill(database, OLDEST)
    install(database)
    assert uninstall(database).left == []
    assert catalogues(database) == before
