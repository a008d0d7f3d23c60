"""Input that is no text, no graph or no number is refused, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app

BIG = "99999999999999999999"


@pytest.mark.parametrize(
    "arguments", [["join", "a\udcff", "operator"], ["walk", "a\udcff"], ["lookup", "a\udcff"]]
)
def test_an_argument_that_is_no_text_is_refused(dsn, arguments):
    answer = CliRunner().invoke(app, [*arguments, "--dsn", dsn])
    assert answer.exit_code == 2
    assert "an argument holds bytes that are no text" in answer.stderr


def test_a_graph_file_of_endless_depth_is_refused(tmp_path: Path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    answer = CliRunner().invoke(app, ["walk", "x", "--graph", str(path)])
    assert answer.exit_code == 2
    assert "is not JSON" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["join", "NL-2231", "operator", "--max-rounds", BIG], "p_max_rounds is 9"),
        (["join", "NL-2231", "operator", "--limit", BIG], "must be from 1 to 2147483647"),
        (["walk", "MERI", "--depth", BIG], "must be from 1 to 5"),
        (["lookup", "MERI", "--limit", BIG], "must be from 1 to 2147483647"),
    ],
)
def test_a_number_that_no_integer_holds_is_refused_by_name(dsn, arguments, says):
    answer = CliRunner().invoke(app, [*arguments, "--dsn", dsn])
    assert answer.exit_code == 2
    assert says in answer.stderr
    assert "SQLSTATE 22023" in answer.stderr


def test_a_full_disk_under_the_answer_is_told(dsn):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "graphalgo.cli", "walk", "Bulk Harmony", "--dsn", dsn],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
