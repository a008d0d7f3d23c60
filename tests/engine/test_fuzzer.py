"""The fuzzer finds what the parser gets wrong, and finds nothing in a short run.

Random texts are hypothesis's in `test_p8ql_parser`; here a fuzzer is led by what its own
texts reach in the parser. It runs where its package could be installed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="the fuzzer's package is not installed")

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "fuzz_p8ql.py"
# A parser that trips over one letter, in the place of the project's.
BROKEN = """
import runpy, sys
sys.path.insert(0, {root!r})
from graphalgo.p8ql import parser
sound = parser.parse
def parse(text):
    if text[:1] == "Q":
        raise KeyError(text)
    return sound(text)
parser.parse = parse
runpy.run_path({script!r}, run_name="__main__")
"""


def run(directory, *program):
    return subprocess.run(
        [sys.executable, *program, "-runs=20000", "-seed=1", "-timeout=10"],
        cwd=directory, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_short_run_finds_nothing(tmp_path):
    done = run(tmp_path, str(SCRIPT))
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "Done 20000 runs" in done.stderr


def test_a_parser_that_raises_something_else_is_found_out(tmp_path):
    program = BROKEN.format(root=str(ROOT), script=str(SCRIPT))
    done = run(tmp_path, "-c", program)
    assert done.returncode != 0
    assert "KeyError" in done.stdout + done.stderr
