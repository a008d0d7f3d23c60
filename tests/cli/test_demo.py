"""The demonstration shows the database's answers, and fails where they are not the twin's."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import psycopg
import pytest
from rich.console import Console

from graphalgo.cli import demo
from graphalgo.samples import harbour, harbour_json
from graphalgo.stores.memory import MemoryStore


def run_demo(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "graphalgo.cli", "demo", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


@pytest.fixture(scope="module")
def shown(cluster):
    return run_demo("--directory", str(cluster.data_directory.parent))


def test_the_demonstration_succeeds_and_every_answer_is_the_twins(shown):
    assert shown.returncode == 0, shown.stdout + shown.stderr
    # The last question is asked by two tenants.
    assert shown.stdout.count("\nsame as the twin\n") == len(demo.SCENES) + 2
    assert f"PostgreSQL {_major(shown)} answers" in shown.stdout


def _major(shown):
    return int(shown.stdout.split("PostgreSQL ", 1)[1].split(" ", 1)[0])


@pytest.mark.parametrize(
    "text",
    [
        "Who operates the ship behind register entry NL-2231?",
        "select * from aiq.iterated_join('NL-2231', 'operator', p_links => '{edge,shared_key}')",
        "REG-1 =[key 9331802 1]= VSL-1 -[operated_by 1]-> OPR-1",
        "~[meridien dawn ~ meridian dawn 0.647]~ VSL-1",
        "select * from aiq.walk('Bulk Harmony', p_depth => 2)",
        "operated_by / subsidiary_of",
        "Not resolved in 1 round: exhausted",
        'refused: "9331802" names 2 nodes: VSL-1, REG-1',
        "SQLSTATE 21000",
    ],
)
def test_the_demonstration_shows(shown, text):
    assert text in shown.stdout


def test_the_demonstration_asks_the_same_under_two_tenants(shown):
    _, meridian, kestrel = re.split(r"As a member of .* \((?:meridian|kestrel)\):", shown.stdout)
    assert meridian.count("iterated_join('SE-0117', 'operator'") == 1
    assert "Not resolved in 1 round: exhausted" in meridian
    assert "Kestrel" not in meridian
    assert "REG-2 =[key 9214578 1]= VSL-4 -[operated_by 1]-> OPR-2" in kestrel


def test_the_demonstration_leaves_no_database_behind(shown, cluster):
    with psycopg.connect(cluster.dsn) as connection:
        assert connection.execute(
            "select count(*) from pg_database where datname like 'graphalgo_demo%'"
        ).fetchone() == (0,)


def test_without_any_server_the_twin_answers_and_says_why(tmp_path):
    alone = run_demo(
        "--directory",
        str(tmp_path / "none"),
        PATH=str(tmp_path),
        GRAPHALGO_PG_BINDIR=str(tmp_path),
    )
    assert alone.returncode == 0, alone.stderr
    assert "No PostgreSQL can be had here: GRAPHALGO_PG_BINDIR names" in alone.stdout
    assert "there is no docker command on this machine" in alone.stdout
    assert "So the twin answers alone" in alone.stdout
    assert alone.stdout.count("(answered by the twin)") == len(demo.SCENES) + 2
    assert "REG-1 =[key 9331802 1]= VSL-1 -[operated_by 1]-> OPR-1" in alone.stdout


def test_an_answer_that_is_not_the_twins_fails(dsn, monkeypatch):
    changed = harbour_json()
    changed["edges"][0]["weight"] = 0.5
    console = Console(record=True, width=200)
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert demo.show_scenes(console, MemoryStore.from_json(harbour_json()), connection)
        assert not demo.show_scenes(console, MemoryStore.from_json(changed), connection)
    assert "NOT the same as the twin" in console.export_text()


def test_a_tenants_answer_that_is_not_the_twins_fails(tenants_dsn, monkeypatch):
    console = Console(record=True, width=200)
    with psycopg.connect(tenants_dsn, autocommit=True) as connection:
        assert demo.show_tenants(console, connection)
        # As if the twin of the one saw what is the other's.
        monkeypatch.setattr(harbour, "visible_to", lambda graph, org: graph)
        assert not demo.show_tenants(console, connection)
    assert "NOT the same as the twin" in console.export_text()
