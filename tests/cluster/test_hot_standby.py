"""A hot standby answers from the index of names as its primary does, with nothing rebuilt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from graphalgo.cluster import Cluster, places, servers, up
from graphalgo.cluster.account import server_account
from graphalgo.install import check, install
from tests.support.names import assert_exact, random_names, refresh, use_index, write_names

Connection = psycopg.Connection[Any]

REPLICATED = {"wal_level": "replica", "max_wal_senders": "2"}
ORG_A, ORG_B = ("a0000000-0000-0000-0000-00000000000a", "b0000000-0000-0000-0000-00000000000b")
USER_A = "e0000000-0000-0000-0000-00000000000a"
NAMES, LATER = 4_000, 60
FIRST_LATER, FIRST_SCOPED = 10_001, 20_001
SCOPED = ["northern star line"] * 4


@pytest.fixture(scope="module")
def primary(module_top: Path) -> Iterator[Connection]:
    """A primary with an index of names, and names written and retired since its refresh."""
    cluster = up(module_top / "primary", settings=REPLICATED)
    install(cluster.dsn)
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        write_names(connection, random_names(NAMES, 1))
        write_scoped(connection)
        refresh(connection)
        write_names(connection, random_names(LATER, 2), FIRST_LATER)
        connection.execute("update aiq.nodes set retired_at = now() where id % 50 = 0")
        yield connection


def write_scoped(connection: Connection) -> None:
    """Write four nodes of one name, of all, of two organisations and of all, in a chain."""
    connection.execute("insert into rbac.orgs (id) values (%s), (%s)", [ORG_A, ORG_B])
    connection.execute("insert into rbac.users (id) values (%s)", [USER_A])
    connection.execute("insert into rbac.org_members values (%s, %s)", [ORG_A, USER_A])
    write_names(connection, SCOPED, FIRST_SCOPED)
    for number, org in enumerate((None, ORG_A, ORG_B, None)):
        connection.execute(
            "update aiq.nodes set org_id = %s where id = %s", [org, FIRST_SCOPED + number]
        )
    connection.execute("insert into aiq.relations values ('company', 'owns', 'company')")
    connection.execute(
        "insert into aiq.edges (src_id, dst_id, relation, weight)"
        " select g, g + 1, 'owns', 1 from generate_series(%s::bigint, %s::bigint) as g",
        [FIRST_SCOPED, FIRST_SCOPED + len(SCOPED) - 2],
    )


@pytest.fixture(scope="module")
def standby_cluster(primary: Connection, module_top: Path) -> Cluster:
    """A hot standby of the primary, made by a base backup."""
    place, account = module_top / "standby", server_account()
    with (module_top / "primary" / "pg_hba.conf").open("a") as file:
        file.write("local replication all trust\n")
    primary.execute("select pg_reload_conf()")
    state = places.read_state(module_top / "primary")
    assert state is not None
    server = servers.best(servers.find_servers(), state.major)
    assert server is not None
    place.mkdir(mode=0o755)
    places.write_state(place, state)
    places.make_private(place / "data", account)
    backup: list[str | Path] = [server.bin_directory / "pg_basebackup", "-D", place / "data"]
    backup += ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
    backup += ["-d", f"host={primary.info.host} port={primary.info.port} user=postgres"]
    done = account.run(backup, environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stdout
    return up(place)


@pytest.fixture
def standby(primary: Connection, standby_cluster: Cluster) -> Iterator[Connection]:
    """A superuser's session of the standby, which has all that the primary has."""
    with psycopg.connect(standby_cluster.dsn, autocommit=True) as connection:
        assert connection.execute("select pg_is_in_recovery()").fetchone() == (True,)
        catch_up(primary, connection)
        use_index(connection)
        yield connection


def catch_up(primary: Connection, standby: Connection) -> None:
    """Wait until the standby has replayed what the primary has committed."""
    written = primary.execute("select pg_current_wal_lsn()").fetchone()
    assert written is not None
    deadline = time.monotonic() + 20
    while standby.execute("select pg_last_wal_replay_lsn() >= %s", written).fetchone() != (True,):
        assert time.monotonic() < deadline, "the standby does not follow"
        time.sleep(0.02)


def serves(connection: Connection) -> bool:
    """Say whether the index is what a search reads."""
    row = connection.execute(
        "select bool_and(served) from aiq.indexed_name_candidates(array['x'], 0.5::real)"
    ).fetchone()
    return row == (True,)


def become(connection: Connection, claims: str) -> None:
    """Be an authenticated caller until the transaction ends."""
    connection.execute("select set_config('request.jwt.claims', %s, true)", [claims])
    connection.execute("set local role authenticated")


def test_the_index_answers_on_a_standby_as_pg_trgm_does_there(
    primary: Connection, standby: Connection
) -> None:
    write_names(primary, random_names(LATER, 6), 40_001)
    catch_up(primary, standby)
    assert serves(standby)
    tokens = "select array_agg(token order by id) from aiq.name_segments"
    assert standby.execute(tokens).fetchone() == primary.execute(tokens).fetchone()
    since = standby.execute("select count(*) >= %s from aiq.name_changes", [LATER]).fetchone()
    assert since == (True,)
    probes = [*random_names(12, 3), *random_names(LATER, 6)[:5], "", "unheard of"]
    assert assert_exact(standby, probes, (0.3, 0.6, 1.0)) > 1_000


def test_a_caller_on_a_standby_sees_the_names_of_its_own_alone(standby: Connection) -> None:
    def seen(claims: str) -> list[int]:
        with standby.transaction():
            become(standby, claims)
            rows = standby.execute(
                "select node_id from aiq.similar_names('{northern star lines}', 0.6) order by 1"
            ).fetchall()
            keys = standby.execute(
                "select node_id from aiq.similar_keys('{northern star lines}', 0.6) order by 1"
            ).fetchall()
            assert keys == rows
        return [row[0] - FIRST_SCOPED for row in rows]

    assert seen("") == [0, 3]
    assert seen(f'{{"sub": "{USER_A}"}}') == [0, 1, 3]


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_refresh_on_a_standby_is_refused_and_the_session_goes_on(
    standby: Connection, rebuild: bool
) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as raised:
        refresh(standby, rebuild=rebuild)
    assert raised.value.diag.message_hint, "it says where to refresh"
    assert serves(standby)
    assert assert_exact(standby, random_names(4, 5), (0.3,)) > 100


def test_an_open_session_of_a_standby_sees_what_is_written_and_refreshed_on_the_primary(
    primary: Connection, standby: Connection
) -> None:
    def found(name: str) -> list[int]:
        rows = standby.execute(
            "select node_id from aiq.similar_keys(array[%s], 0.7) order by 1", [name]
        ).fetchall()
        return [row[0] for row in rows]

    assert found("silver harbour") == []
    write_names(primary, ["silver harbour", "silver harbor"], 30_001)
    catch_up(primary, standby)
    assert found("silver harbour") == [30_001, 30_002], "from what was written since"
    for rebuild in (False, True):
        refresh(primary, rebuild=rebuild)
        catch_up(primary, standby)
        assert standby.execute("select count(*) from aiq.name_changes").fetchone() == (0,)
        assert serves(standby)
        assert found("silver harbour") == [30_001, 30_002]
    primary.execute("update aiq.nodes set retired_at = now() where id = 30001")
    catch_up(primary, standby)
    assert found("silver harbour") == [30_002]
    assert assert_exact(standby, [*random_names(6, 4), "silver harbour"], (0.3, 0.6)) > 100
    # Nothing is left to fold in, and still it is said that this is not the place.
    refresh(primary)
    catch_up(primary, standby)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        refresh(standby)


def test_a_standby_is_found_to_be_as_its_primary_is(
    primary: Connection, standby: Connection, module_top: Path
) -> None:
    def found(connection: Connection, place: str) -> list[tuple[str, bool, str]]:
        own = str(module_top / place)  # each server has its own copy of the package
        return [
            (finding.name, finding.ok, finding.message.replace(own, ""))
            for finding in check(connection.info.dsn)
        ]

    findings = found(standby, "standby")
    assert findings == found(primary, "primary")
    assert "names" in {name for name, _, _ in findings}


def test_walks_lookups_joins_and_the_dialect_answer_on_a_standby(
    primary: Connection, standby: Connection
) -> None:
    questions = (
        "select depth, node_id, path from aiq.walk('CO-20001', 3) order by 1, 2",
        "select node_id, match_kind from aiq.lookup('{CO-20001, northern star line}') order by 1",
        "select node_id, score from aiq.lookup('{northern star lin}', p_fuzzy => true) order by 1",
        "select node_id, round, path from aiq.iterated_join('CO-20001', 'company') order by 1",
        "select aiq.query('LOOKUP \"northern star line\"') -> 'rows'",
        "select aiq.query('FUZZY LOOKUP \"northern star lin\"') -> 'rows'",
        "select aiq.sql_passthrough('select count(*) from aiq.nodes_api') -> 'rows'",
    )
    use_index(primary)
    for question in questions:
        answers = []
        for connection in (primary, standby):
            with connection.transaction():
                become(connection, f'{{"sub": "{USER_A}"}}')
                answers.append(connection.execute(question.encode()).fetchall())
        assert answers[0] == answers[1]
        assert answers[1] not in ([], [([],)]), question


def test_a_standby_that_takes_over_refreshes_the_index_it_has(standby: Connection) -> None:
    """The last of the module: afterwards there is no standby any more."""
    probes = [*random_names(4, 7), "a name of the new primary"]
    assert_exact(standby, probes, (0.3,))
    assert standby.execute("select pg_promote()").fetchone() == (True,)
    write_names(standby, [probes[-1], *random_names(LATER, 8)], 50_001)
    assert_exact(standby, probes, (0.3,))
    folded, _, _, rebuilt, _ = refresh(standby)
    assert (folded > LATER, rebuilt) == (True, False)
    assert serves(standby)
    assert assert_exact(standby, probes, (0.3, 1.0)) > 100
