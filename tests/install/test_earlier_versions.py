"""A database of an earlier version becomes what a new one is, and its graph stays.

`tests/data/versions` keeps, for every version that came out, the SQL files and
bodies as they were, statements that write rows as that version wrote them, and what it
answered about them; `tests/support/keep_version.py` makes the archives.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from graphalgo import __version__, resources
from graphalgo.install import check, install, installer, uninstall
from graphalgo.install.versions import is_newer, sort_key
from graphalgo.stores.client import ClientStore
from tests.support import harbour
from tests.support.catalogue import OURS, differences, schema_of
from tests.support.engine import Bound
from tests.support.names import THRESHOLDS, assert_exact, refresh, use_index
from tests.support.registered import active
from tests.support.server import ServerFunctions

from .conftest import catalogues, execute, fetch

HERE = Path(__file__).parents[1]
ENDING = ".tar.xz"
VERSIONS = sorted(
    (file.name.removesuffix(ENDING) for file in (HERE / "data" / "versions").iterdir()),
    key=sort_key,
)
WITH_INDEX = [version for version in VERSIONS if not is_newer("0.3.0", version)]
# What 0.3.0 wrote tells names by their nodes alone, which is not enough any more.
OUTDATED = ("0.3.0",)
# What an installation writes anew, and the index of names, of which another test asks
# whether it answers.
OTHER_ROWS = ("aiq.meta", "aiq.installed_objects", "aiq.name_segments", "aiq.name_lists")
ORG = "d0000000-0000-0000-0000-00000000000a"
MEMBER = "e0000000-0000-0000-0000-00000000000a"

Installer = Callable[..., None]
every_version = pytest.mark.parametrize("version", VERSIONS, indirect=True)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the folder with what is kept of a version."""
    folder = tmp_path_factory.mktemp("versions")

    def unpack(name: str) -> Path:
        if not (folder / name).exists():
            with tarfile.open(HERE / "data" / "versions" / f"{name}{ENDING}") as archive:
                # Python 3.11.2, which is Debian 12's, has no filter to name.
                archive.extraction_filter = getattr(tarfile, "data_filter", lambda one, _: one)
                archive.extractall(folder / name)
        return folder / name

    return unpack


@pytest.fixture
def version(request: pytest.FixtureRequest, unpacked: Callable[[str], Path]) -> Path:
    return unpacked(request.param)


@pytest.fixture
def oldest(unpacked: Callable[[str], Path]) -> Path:
    return unpacked(VERSIONS[0])


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


def fill_index(dsn: str, version: Path) -> None:
    """Write the rows of the index of names as that version wrote them, where it had one."""
    if (version / "names.sql").exists():
        execute(dsn, (version / "names.sql").read_text(encoding="utf-8"))


def rows(dsn: str, columns: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: sorted(fetch(dsn, f"select {names} from {table}"), key=repr)
        for table, names in columns.items()
    }


def columns_of(dsn: str) -> dict[str, str]:
    """The tables there are, ours and the sample's, with their columns."""
    found = fetch(
        dsn,
        "select c.oid::regclass::text, string_agg(quote_ident(a.attname), ', ' order by a.attnum)"
        " from pg_class as c join pg_attribute as a on a.attrelid = c.oid"
        " where a.attnum > 0 and not a.attisdropped and c.relkind = 'r'"
        " and c.relnamespace::regnamespace::text in ('aiq', 'rbac', 'harbour') group by 1",
    )
    return {str(table): str(names) for table, names in found if table not in OTHER_ROWS}


def test_every_earlier_version_is_kept() -> None:
    changelog = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    named = re.findall(r"^## (\d\S*)$", changelog, re.MULTILINE)
    assert len(named) > 1
    assert set(VERSIONS) <= set(named)
    # The one that is being worked on may have the number of the last that came out.
    earlier = [version for version in VERSIONS if version != __version__]
    assert earlier == [version for version in reversed(named) if version != __version__]
    assert not any(is_newer(version, __version__) for version in VERSIONS)


@pytest.mark.parametrize("plpython", [True, False])
@every_version
def test_upgrading_gives_exactly_the_schema_of_a_new_installation(
    fresh_database: Callable[[], str], install_old: Installer, version: Path, plpython: bool
) -> None:
    old, new = fresh_database(), fresh_database()
    install_old(old, version, plpython=plpython)
    assert differences(schema_of(old), {what: [] for what in schema_of(old)})
    fill(old, version)
    if plpython:
        fill_index(old, version)
    report = install(old, plpython=plpython)
    assert (report.action, report.previous_version) == ("upgraded", version.name)
    install(new, plpython=plpython)
    # So there are the triggers on registered tables, too.
    fill(new, version)
    schemas = (*OURS, "harbour")
    assert differences(schema_of(old, *schemas), schema_of(new, *schemas)) == {}
    books = "select kind, name from aiq.installed_objects where kind <> 'role' order by 1, 2"
    assert [row for row in fetch(old, books) if row[0] != "extension"] == [
        row for row in fetch(new, books) if row[0] != "extension"
    ]
    assert [finding for finding in check(old) if not finding.ok] == []


def test_the_comparison_sees_what_differs(
    fresh_database: Callable[[], str], install_old: Installer, oldest: Path
) -> None:
    """Each kind of thing that two schemas could differ in, made to differ."""
    old, new = fresh_database(), fresh_database()
    install_old(old, oldest)
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


@every_version
def test_what_an_earlier_version_wrote_is_kept_row_by_row(
    database: str, install_old: Installer, version: Path
) -> None:
    install_old(database, version)
    fill(database, version)
    fill_index(database, version)
    columns = columns_of(database)
    before = rows(database, columns)
    install(database)
    install(database)
    assert rows(database, columns) == before
    written = {table for table, found in before.items() if found}
    assert columns.keys() - written <= {"aiq.unsettled"}


@every_version
def test_it_answers_as_the_earlier_version_did(
    database: str, install_old: Installer, version: Path
) -> None:
    install_old(database, version)
    fill(database, version)
    fill_index(database, version)
    install(database)
    answers = json.loads((version / "answers.json").read_text(encoding="utf-8"))
    with harbour.caller(database, None) as connection:
        for answer in answers:
            if "statement" in answer:
                found: Any = connection.execute(answer["statement"]).fetchall()
                assert json.loads(json.dumps(found)) == answer["rows"], answer
                continue
            for store in (ServerFunctions(connection), Bound(ClientStore(connection))):
                found = getattr(store, answer["call"])(**answer["arguments"])
                found = json.loads(json.dumps([row.as_dict() for row in found], default=str))
                assert found == answer["rows"], answer


@pytest.mark.parametrize("version", WITH_INDEX, indirect=True)
def test_an_index_of_names_answers_rightly_before_and_after_its_next_refresh(
    database: str, install_old: Installer, version: Path
) -> None:
    install_old(database, version)
    fill(database, version)
    fill_index(database, version)
    for table, least in (("name_segments", 2), ("name_lists", 100), ("name_changes", 10)):
        assert fetch(database, f"select count(*) >= {least} from aiq.{table}") == [(True,)], table
    install(database)
    with psycopg.connect(database, autocommit=True) as connection:
        use_index(connection)
        names = connection.execute(
            "select key from aiq.node_keys where is_name and retired_at is null"
            " order by md5(key) limit 60"
        ).fetchall()
        probes = [key for (key,) in names]
        probes += ["baltic freight 30009", "renamed baltic", "café", "東京海上", "unheard of", ""]
        served = version.name not in OUTDATED
        count = assert_exact(connection, probes, THRESHOLDS, served=served)
        refresh(connection)
        assert assert_exact(connection, probes, THRESHOLDS) == count > 1_000


def test_rows_of_an_organisation_become_its_members_own(
    database: str, install_old: Installer, oldest: Path
) -> None:
    install_old(database, oldest)
    fill(database, oldest)
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
    database: str, install_old: Installer, oldest: Path
) -> None:
    install_old(database, oldest)
    fill(database, oldest)
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


def test_an_upgraded_graph_goes_on_growing(
    database: str, install_old: Installer, oldest: Path
) -> None:
    """New rows get new ids, and tables can be registered beside what is there."""
    install_old(database, oldest)
    fill(database, oldest)
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


@every_version
def test_an_upgraded_database_can_be_left_without_a_trace(
    database: str, install_old: Installer, version: Path
) -> None:
    execute(database, "grant usage on schema pg_catalog to public")
    before = catalogues(database)
    install_old(database, version)
    fill(database, version)
    fill_index(database, version)
    install(database)
    assert uninstall(database).left == []
    execute(database, "drop schema if exists harbour cascade")
    assert catalogues(database) == before
