"""Starting, reusing, stopping and removing real private clusters."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

import graphalgo
from graphalgo.cluster import Cluster, ClusterError, down, processes, status, up
from graphalgo.cluster.account import Account, server_account

AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root hands the server to another user")


@pytest.fixture
def home(top: Path) -> Path:
    """A directory for a cluster; it is not there yet."""
    return top / "cluster"


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A running cluster for tests that change nothing about it."""
    place = Path(tempfile.mkdtemp(prefix="cluster-test-", dir="/var/tmp"))
    place.chmod(0o755)
    yield up(place / "cluster")
    down(place / "cluster", purge=True)
    shutil.rmtree(place)


def ask(cluster: Cluster, query: str) -> str:
    """The one value that a query answers, as text."""
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        return "" if row is None else str(row[0])


def run(cluster: Cluster, *statements: str) -> None:
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def ask_python(cluster: Cluster, expression: str) -> str:
    """What a Python expression gives inside a fresh backend."""
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("create extension if not exists plpython3u")
        connection.execute(
            "create or replace function pg_temp.evaluate(code text) returns text"
            " language plpython3u as 'import sys, os, graphalgo; return str(eval(code))'"
        )
        row = connection.execute("select pg_temp.evaluate(%s)", [expression]).fetchone()
        assert row is not None
        return str(row[0])


def alive(pid: int) -> bool:
    return processes.is_alive(pid)


def in_another_process(
    code: str, *arguments: Path | str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Run Python code that sees this same package, in a process of its own."""
    where = Path(graphalgo.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(where), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_up_makes_a_cluster_that_answers(shared: Cluster) -> None:
    assert shared.started_now
    assert ask(shared, "select current_database() || ' ' || current_user") == "graphalgo postgres"
    assert ask(shared, "select current_setting('server_version_num')::int / 10000") == str(
        shared.version
    )
    assert ask(shared, "show data_directory") == str(shared.data_directory)
    encoding = "select pg_encoding_to_char(encoding) || ' ' || datcollate from pg_database"
    assert ask(shared, f"{encoding} where datname = 'graphalgo'") == "UTF8 C.UTF-8"
    assert shared.server_version.startswith(f"{shared.version}.")


def test_the_extensions_that_graphalgo_needs_can_be_made(shared: Cluster) -> None:
    run(shared, "create extension if not exists plpython3u")
    run(shared, "create extension if not exists pg_trgm")
    assert float(ask(shared, "select similarity('Bulk Harmony', 'Bulk Harmoni')")) > 0.5


def test_the_server_listens_on_its_socket_alone(shared: Cluster) -> None:
    assert ask(shared, "show listen_addresses") == ""
    mode = stat.S_IMODE(shared.socket_directory.stat().st_mode)
    assert mode == 0o700
    assert stat.S_IMODE(shared.data_directory.stat().st_mode) == 0o700


@needs_root
def test_another_user_cannot_reach_the_server(shared: Cluster) -> None:
    socket = shared.socket_directory / f".s.PGSQL.{shared.port}"
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    done = subprocess.run(
        ["/usr/bin/python3", "-c", code, str(socket)],
        user="nobody",
        group="nogroup",
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "PermissionError" in done.stderr


@needs_root
def test_root_does_not_let_the_server_write_what_root_reads(shared: Cluster) -> None:
    owned = {path.name: path.stat().st_uid for path in shared.data_directory.parent.iterdir()}
    server = server_account().uid
    assert {name for name, owner in owned.items() if owner == server} == {"data", "run"}


def test_the_servers_python_finds_the_compiled_package(shared: Cluster) -> None:
    import_it = "__import__('graphalgo.engine.errors').engine.errors"
    file = Path(ask_python(shared, f"{import_it}.__file__"))
    assert file.is_relative_to(shared.python_directory)
    cached = Path(ask_python(shared, f"{import_it}.__cached__"))
    # The copy belongs to the invoking user, so the server cannot have compiled it.
    assert cached.is_file()
    assert cached.stat().st_uid == os.geteuid()


def test_the_sql_files_lie_in_the_copy_as_in_a_wheel(shared: Cluster) -> None:
    data = shared.python_directory / "graphalgo" / "_data"
    assert list((data / "sql").glob("*.sql"))
    assert list((data / "plpy").glob("*.py"))


def test_the_servers_python_sees_nothing_of_the_callers(home: Path) -> None:
    start = in_another_process(
        "import sys; from graphalgo.cluster import up; up(sys.argv[1])",
        home,
        environment={
            "PYTHONHOME_OF_CALLER": "/somewhere",
            "VIRTUAL_ENV": "/somewhere",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONOPTIMIZE": "2",
        },
    )
    assert start.wait() == 0, start.stderr and start.stderr.read()
    cluster = up(home)
    assert not cluster.started_now
    seen = ask_python(cluster, "dict(os.environ)")
    assert "somewhere" not in seen
    assert ask_python(cluster, "sys.flags.optimize") == "0"
    path = ask_python(cluster, "sys.path")
    assert "site-packages" not in path
    assert sys.prefix == sys.base_prefix or sys.prefix not in path


def test_up_reuses_a_running_cluster_quickly(shared: Cluster) -> None:
    began = time.monotonic()
    again = up(shared.data_directory.parent)
    assert time.monotonic() - began < 0.5
    assert (again.pid, again.dsn) == (shared.pid, shared.dsn)
    assert not again.started_now


def test_up_makes_the_database_again_when_it_was_dropped(home: Path) -> None:
    cluster = up(home)
    with psycopg.connect(cluster.dsn, dbname="postgres", autocommit=True) as connection:
        connection.execute("drop database graphalgo")
    assert ask(up(home), "select current_database()") == "graphalgo"


def test_status_tells_of_a_running_cluster_alone(home: Path) -> None:
    assert status(home) is None
    cluster = up(home)
    running = status(home)
    assert running is not None
    assert (running.pid, running.dsn) == (cluster.pid, cluster.dsn)
    down(home)
    assert status(home) is None


def test_down_stops_and_up_starts_with_the_data_kept(home: Path) -> None:
    first = up(home)
    run(first, "create table kept as select 42 as answer")
    assert down(home)
    assert not alive(first.pid)
    second = up(home)
    assert second.started_now
    assert ask(second, "select answer from kept") == "42"


def test_down_where_nothing_runs_says_so(home: Path) -> None:
    assert not down(home)
    up(home)
    assert down(home)
    assert not down(home)


def test_purge_removes_the_directory_once(home: Path) -> None:
    pid = up(home).pid
    assert down(home, purge=True)
    assert not home.exists()
    assert not alive(pid)
    assert not down(home, purge=True)


def test_down_cuts_off_a_session_that_does_not_obey(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FAST_STOP_SECONDS", 1)
    cluster = up(home)
    run(cluster, "create extension plpython3u")
    stuck = in_another_process(
        """
        import sys, psycopg
        with psycopg.connect(sys.argv[1]) as connection:
            connection.execute("do language plpython3u $$\\nwhile True: pass\\n$$")
        """,
        cluster.dsn,
    )
    busy = "select count(*) from pg_stat_activity where query like 'do %' and state = 'active'"
    while ask(cluster, busy) != "1":
        assert stuck.poll() is None
        time.sleep(0.05)
    assert down(home)
    assert not alive(cluster.pid)
    assert stuck.wait() != 0


def test_up_starts_again_after_the_server_was_killed(home: Path) -> None:
    first = up(home)
    run(first, "create table kept as select 42 as answer")
    os.kill(first.pid, signal.SIGKILL)
    second = up(home)
    assert second.started_now
    assert second.pid != first.pid
    assert ask(second, "select answer from kept") == "42"


def test_up_waits_for_a_server_that_recovers_from_a_killed_session(home: Path) -> None:
    cluster = up(home)
    with psycopg.connect(cluster.dsn) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        again = up(home)
    assert again.pid == cluster.pid
    assert ask(again, "select 1") == "1"


def test_a_strangers_process_id_in_the_pid_file_is_left_alone(home: Path) -> None:
    up(home)
    down(home)
    account = server_account()
    # Of the server's own user, so that the server could not tell it from one of its kind.
    identity = {"user": account.uid, "group": account.gid, "extra_groups": []}
    stranger = subprocess.Popen(["/bin/sleep", "600"], **identity if AS_ROOT else {})  # type: ignore[call-overload]
    try:
        pid_file = home / "data" / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{home / 'data'}\n")
        os.chown(pid_file, account.uid, account.gid)
        assert status(home) is None
        assert not down(home)
        assert up(home).started_now
        assert down(home)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_two_at_once_get_one_server(home: Path) -> None:
    code = """
        import sys
        from graphalgo.cluster import up
        cluster = up(sys.argv[1])
        print(cluster.pid, cluster.started_now)
    """
    both = [in_another_process(code, home) for _ in range(2)]
    answers = []
    for process in both:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        answers.append(output.split())
    assert len({pid for pid, _ in answers}) == 1
    assert sorted(started for _, started in answers) == ["False", "True"]


def test_up_follows_a_directory_that_was_moved_while_the_server_ran(top: Path) -> None:
    first = up(top / "before")
    run(first, "create table kept as select 42 as answer")
    (top / "before").rename(top / "after")
    second = up(top / "after")
    assert not alive(first.pid)
    assert ask(second, "select answer from kept") == "42"


def test_a_changed_package_reaches_backends_that_start_later(home: Path, top: Path) -> None:
    cluster = up(home)
    old_copies = set((home / "python-copies").iterdir())
    checkout = Path(graphalgo.__file__).parents[1]
    changed = top / "changed"
    for folder in ("graphalgo", "sql", "plpy"):
        if (checkout / folder).is_dir():
            shutil.copytree(
                checkout / folder,
                changed / folder,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
    with (changed / "graphalgo" / "__init__.py").open("a") as file:
        file.write("CHANGED = 'yes'\n")
    before = ask_python(cluster, "getattr(graphalgo, 'CHANGED', 'no')")
    code = "import sys; from graphalgo.cluster import up; print(up(sys.argv[1]).pid)"
    again = in_another_process(code, home, environment={"PYTHONPATH": str(changed)})
    output, errors = again.communicate()
    assert again.returncode == 0, errors
    assert int(output) == cluster.pid
    assert (before, ask_python(cluster, "graphalgo.CHANGED")) == ("no", "yes")
    assert old_copies.isdisjoint((home / "python-copies").iterdir())


def test_a_strict_umask_does_not_lock_the_server_out(top: Path) -> None:
    previous = os.umask(0o077)
    try:
        cluster = up(top / "deeper" / "cluster")
    finally:
        os.umask(previous)
    assert ask_python(cluster, "graphalgo.__version__") == graphalgo.__version__


@pytest.mark.parametrize(
    "name", ["with space", "qu'ote", 'dou"ble', "$HOME", "back\\slash", "größe"]
)
def test_any_name_of_a_directory_will_do(top: Path, name: str) -> None:
    cluster = up(top / name)
    assert ask(cluster, "show data_directory") == str(top / name / "data")
    assert ask_python(cluster, "graphalgo.__version__") == graphalgo.__version__


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(top: Path) -> None:
    home = top / ("long" * 25)
    cluster = up(home)
    assert not cluster.socket_directory.is_relative_to(home)
    assert ask(cluster, "select 1") == "1"
    down(home)
    assert up(home).socket_directory == cluster.socket_directory
    down(home, purge=True)
    assert not cluster.socket_directory.exists()


def test_settings_are_applied_and_remembered(home: Path) -> None:
    assert ask(up(home), "show fsync") == "off"
    first = up(home, settings={"work_mem": "7MB", "Shared_Buffers": "64MB"})
    assert first.started_now
    assert ask(first, "show shared_buffers") == "64MB"
    assert not up(home).started_now
    assert not up(home, settings={"shared_buffers": "64MB", "work_mem": "7MB"}).started_now
    down(home)
    assert ask(up(home), "show work_mem") == "7MB"
    assert ask(up(home, settings={}), "show work_mem") == "32MB"


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"no_such_setting": "1"}, "no_such_setting"),
        ({"work_mem": "much"}, "work_mem"),
        ({"listen_addresses": "*"}, "private cluster's own"),
        ({"work_mem = 1 #": "1"}, "not the name of a server setting"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_and_changes_nothing(
    shared: Cluster, settings: dict[str, str], part: str
) -> None:
    with pytest.raises(ClusterError, match=part) as caught:
        up(shared.data_directory.parent, settings=settings)
    assert caught.value.sqlstate == "22023"
    assert caught.value.hint
    assert up(shared.data_directory.parent).pid == shared.pid


def test_settings_with_which_the_server_does_not_start_are_forgotten(home: Path) -> None:
    up(home)
    down(home)
    # The library is only looked for at the start, after the configuration was found good.
    with pytest.raises(ClusterError, match="no_such_library"):
        up(home, settings={"shared_preload_libraries": "no_such_library"})
    assert ask(up(home), "show shared_preload_libraries") == ""


def test_a_first_up_that_fails_leaves_nothing(home: Path, top: Path) -> None:
    with pytest.raises(ClusterError, match="no_such_library"):
        up(home, settings={"shared_preload_libraries": "no_such_library"})
    assert not home.exists()
    existing = top / "empty"
    existing.mkdir()
    with pytest.raises(ClusterError, match="no_such_library"):
        up(existing, settings={"shared_preload_libraries": "no_such_library"})
    assert list(existing.iterdir()) == []


def test_an_interrupted_first_up_is_made_good_by_the_next(home: Path) -> None:
    up(home)
    down(home)
    # As if the process had been killed while initdb ran.
    (home / "data").rename(home / "data.new")
    (home / "data.new" / "PG_VERSION").unlink()
    assert ask(up(home), "select 1") == "1"
    assert not (home / "data.new").exists()


def test_data_of_another_version_is_kept_and_the_command_told(home: Path) -> None:
    cluster = up(home)
    with pytest.raises(ClusterError, match=f"made by PostgreSQL {cluster.version}") as caught:
        up(home, version=cluster.version + 1)
    assert caught.value.sqlstate == "55000"
    assert "graphalgo down --purge" in (caught.value.hint or "")
    assert up(home).pid == cluster.pid


def test_data_of_a_version_that_is_gone_is_kept_and_the_command_told(home: Path) -> None:
    up(home)
    down(home)
    marker = home / "graphalgo-cluster.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "major": 99}))
    with pytest.raises(ClusterError, match="made by PostgreSQL 99") as caught:
        up(home)
    assert "graphalgo down --purge" in (caught.value.hint or "")
    assert (home / "data" / "PG_VERSION").exists()


def a_python_for(account: Account, environment: Mapping[str, str]) -> str:
    """An interpreter that another user can run, with all that a cluster needs."""
    for program in (sys.executable, "/usr/bin/python3"):
        try:
            command = [program, "-c", "import psycopg, graphalgo.cluster"]
            if account.run(command, environment=environment).returncode == 0:
                return program
        except PermissionError:
            continue
    pytest.skip(f"{account.name} cannot run any Python that has psycopg")


@needs_root
def test_a_user_without_privileges_has_a_server_of_their_own(top: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    account = Account("nobody", nobody.pw_uid, nobody.pw_gid, borrowed=True)
    folders = [Path(module.__file__ or "").parents[1] for module in (graphalgo, psycopg)]
    environment = {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    python = a_python_for(account, environment)
    home = top / "theirs"
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    code = """
        import sys
        from graphalgo.cluster import down, up
        if sys.argv[2] == "up":
            print(up(sys.argv[1]).pid)
        else:
            down(sys.argv[1], purge=True)
    """

    def as_nobody(order: str) -> str:
        command = [python, "-c", textwrap.dedent(code), str(home), order]
        done = account.run(command, environment=environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    pid = int(as_nobody("up"))
    assert processes.owner(pid) == nobody.pw_uid
    try:
        with pytest.raises(ClusterError, match="belongs to nobody, not to root") as caught:
            down(home)
        assert caught.value.sqlstate == "42501"
        assert alive(pid)
    finally:
        as_nobody("purge")
    assert not alive(pid)
