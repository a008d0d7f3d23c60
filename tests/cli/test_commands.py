"""The commands that set up and fill a database, and the program as a process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import psycopg
import pytest
from typer.testing import CliRunner

from graphalgo import __version__
from graphalgo.cli.application import app
from graphalgo.install import install

TYPES = "name,handle_prefix\nship,SHP\nfirm,FRM\n"
RELATIONS = "src_type,relation,dst_type\nship,run_by,firm\n"
NODES = "ref,entity_type,summary\ns1,ship,The Dawn\nf1,firm,Line\n"
EDGES = "src,relation,dst,weight\ns1,run_by,f1,0.5\n"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("GRAPHALGO_DSN", raising=False)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def installed(fresh_database):
    made = fresh_database()
    install(made)
    return made


@pytest.fixture
def files(tmp_path):
    options = []
    for kind, text in {
        "types": TYPES, "relations": RELATIONS, "nodes": NODES, "edges": EDGES
    }.items():  # fmt: skip
        (tmp_path / f"{kind}.csv").write_text(text)
        options += [f"--{kind}", str(tmp_path / f"{kind}.csv")]
    return options


def count(dsn, table):
    with psycopg.connect(dsn) as connection:
        return connection.execute(f"select count(*) from aiq.{table}").fetchone()[0]


def program(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "graphalgo.cli", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


def test_load_tells_what_it_did(run, installed, files):
    answer = run("load", "--dsn", installed, "--source", "fleet", *files)
    assert answer.exit_code == 0
    rows = [line.split("│")[1:-1] for line in answer.stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["types", "2", "2", "0"],
        ["relations", "1", "1", "0"],
        ["nodes", "2", "2", "0"],
        ["edges", "1", "1", "0"],
    ]
    assert "Line" in run("walk", "SHP-1", "--dsn", installed).stdout


def test_load_refuses_a_bad_line_and_loads_nothing(run, installed, files, tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES + "s1,run_by,f1,2\n")
    answer = run("load", "--dsn", installed, *files)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr.splitlines()[0] == (
        f'error: {tmp_path / "edges.csv"}, line 3: weight is "2",'
        " but must be a weight above 0 and at most 1"
    )
    assert "SQLSTATE 22023" in answer.stderr
    assert count(installed, "nodes") == count(installed, "entity_types") == 0


def test_load_without_a_file_says_what_to_give(run, installed):
    answer = run("load", "--dsn", installed)
    assert answer.exit_code == 2
    assert "Give at least one of types, relations, nodes, keys, edges" in answer.stderr


def test_load_shows_its_progress_on_a_terminal(installed, files):
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "graphalgo.cli", "load", "--dsn", installed, *files],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(theirs)
        shown = b""
        # Linux ends the reading of a terminal that nobody writes to with an error.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                shown += part
        assert process.wait(timeout=60) == 0, shown
    os.close(ours)
    assert b"storing edges" in shown
    assert f"{len(EDGES)}/{len(EDGES)} bytes".encode() in shown


def test_a_user_who_may_not_write_is_told_so(run, installed, files):
    with psycopg.connect(installed, autocommit=True) as connection:
        connection.execute("create role loader_without_rights login")
        try:
            answer = run("load", "--dsn", f"{installed} user=loader_without_rights", *files)
        finally:
            connection.execute("drop role loader_without_rights")
    assert answer.exit_code == 2
    assert "SQLSTATE 42501" in answer.stderr


def test_install_check_and_uninstall_follow_each_other(run, fresh_database):
    dsn = fresh_database()
    answer = run("check", "--dsn", dsn)
    assert answer.exit_code == 1
    assert "FAILS" in answer.stdout and "graphalgo install --dsn" in answer.stdout
    answer = run("install", "--dsn", dsn, "--check")
    assert answer.exit_code == 1
    answer = run("install", "--dsn", dsn)
    assert answer.exit_code == 0
    assert answer.stdout.startswith(f"graphalgo {__version__} installed in PostgreSQL")
    assert answer.stdout.endswith("with PL/Python functions\n")
    answer = run("check", "--dsn", dsn)
    assert (answer.exit_code, "FAILS" in answer.stdout) == (0, False)
    findings = json.loads(run("check", "--dsn", dsn, "--json").stdout)["findings"]
    assert {"name", "ok", "message", "remedy"} == set(findings[0])
    answer = run("uninstall", "--dsn", dsn)
    assert (answer.exit_code, answer.stdout) == (0, "graphalgo is removed\n")
    assert run("uninstall", "--dsn", dsn).stdout == "graphalgo was not installed\n"


def test_install_can_leave_out_the_plpython_functions(run, fresh_database):
    dsn = fresh_database()
    answer = run("install", "--dsn", dsn, "--no-plpython")
    assert answer.stdout.endswith("without PL/Python functions\n")


def test_install_of_a_database_that_does_not_answer_is_told(run):
    answer = run("install", "--dsn", "host=/nowhere-at-all user=me password=hunter2")
    assert answer.exit_code == 2
    assert "hunter2" not in answer.stderr
    assert "SQLSTATE 08001" in answer.stderr


def test_up_prints_the_dsn_last_and_uses_what_is_there_again(cluster):
    directory = str(cluster.data_directory.parent)
    first = program("up", "--directory", directory)
    assert first.returncode == 0, first.stderr
    dsn = first.stdout.splitlines()[-1]
    assert first.stdout == dsn + "\n"
    answer = program("join", "NL-2231", "operator", "--json", GRAPHALGO_DSN=dsn)
    assert [row["handle"] for row in json.loads(answer.stdout)["rows"]] == ["OPR-1"]
    again = program("up", "--directory", directory)
    assert again.stdout == first.stdout
    assert "Installing" not in again.stderr and "Loading" not in again.stderr


def test_the_settings_for_agents_are_listed_with_what_they_are_if_unset(run):
    told = " ".join(run("mcp", "settings").stdout.split())
    assert "GRAPHALGO_MCP_CONNECTIONS the most connections to the database" in told
    assert "so the most statements; 8 if it is not set" in told
    assert "GRAPHALGO_MCP_JWT_SECRET the secret of tokens signed with HS256 GRAPHALGO" in told


def test_up_sets_settings_and_refuses_what_is_none(run, cluster):
    answer = run("up", "--directory", str(cluster.data_directory.parent), "--set", "work_mem")
    assert answer.exit_code == 2
    assert '--set is "work_mem", but must be a name and a value' in answer.stderr


def test_up_refuses_a_server_that_is_too_old(run, tmp_path):
    answer = run("up", "--directory", str(tmp_path / "new"), "--version", "14")
    assert answer.exit_code == 2
    assert "PostgreSQL 14 is too old" in answer.stderr


def test_down_where_nothing_runs_says_so(tmp_path):
    answer = program("down", "--directory", str(tmp_path))
    assert answer.returncode == 0
    assert "There is no private PostgreSQL to stop" in answer.stderr


def test_the_program_names_its_version():
    assert program("--version").stdout == f"graphalgo {__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["demo", "up", "down", "install", "uninstall", "check", "load", "join", "walk", "lookup"],
)
def test_every_command_has_help(run, command):
    answer = run(command, "--help")
    assert answer.exit_code == 0
    assert "Usage" in answer.stdout


def test_help_imports_nothing_that_it_does_not_need():
    code = (
        "import sys\n"
        "from graphalgo.cli import main\n"
        "sys.argv = ['graphalgo', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name in"
        " ('psycopg', 'networkx', 'numpy', 'graphalgo.loading', 'graphalgo.cluster')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_output_without_unicode_still_prints(dsn):
    answer = program(
        "join", "NL-2231", "operator", "--json", "--dsn", dsn, PYTHONIOENCODING="ascii"
    )
    assert json.loads(answer.stdout)["rows"][0]["handle"] == "OPR-1"
    assert program("walk", "Bulk Harmony", "--dsn", dsn, PYTHONIOENCODING="ascii").returncode == 0
