"""The project on a bare Debian: from the checkout and apt to a running server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".graphalgo*", ".*_cache", ".hypothesis", "__pycache__", "results"
)

BARE_MACHINE = """
set -e
cp -r /checkout /project
cd /project
printf '#!/bin/sh\\nexit 0\\n' >/usr/sbin/policy-rc.d
chmod 700 /usr/sbin/policy-rc.d
scripts/setup demo
exec .venv/bin/python - <<'PYTHON'
import json, os, subprocess
from pathlib import Path
import psycopg
from graphalgo.cluster import down, up

said = []
cluster = up(report=said.append)
again = up(report=said.append)
with psycopg.connect(cluster.dsn) as connection:
    connection.execute("create extension plpython3u; create extension pg_trgm")
    connection.execute(
        "create function graphalgo_version() returns text language plpython3u"
        " as 'import graphalgo; return graphalgo.__version__'"
    )
    version = connection.execute("select graphalgo_version()").fetchone()[0]
policy = Path("/usr/sbin/policy-rc.d")
print(json.dumps({
    "said": said,
    "directory": str(cluster.data_directory.parent),
    "reused": again.pid == cluster.pid and not again.started_now,
    "version": version,
    "default_clusters": os.listdir("/etc/postgresql"),
    "drop_in": Path("/etc/postgresql-common/createcluster.d").exists(),
    "policy": [policy.read_text(), oct(policy.stat().st_mode & 0o777)],
    "policies": [path.name for path in policy.parent.glob("policy-rc.d*")],
    "purged": down(purge=True) and not cluster.data_directory.exists(),
}))
PYTHON
"""


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of the checkout, without what was built in it."""
    with tempfile.TemporaryDirectory(prefix="checkout-", dir="/var/tmp") as top:
        copy = Path(top) / "graphalgo"
        shutil.copytree(CHECKOUT, copy, ignore=NOT_COPIED, symlinks=True)
        yield copy


def set_up(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    return subprocess.run(
        [checkout / "scripts" / "setup", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean,
    )


@pytest.mark.container
@pytest.mark.slow
@pytest.mark.parametrize("suite", ["trixie", "forky"])
def test_a_bare_debian_gets_a_server_and_nothing_else(checkout: Path, suite: str) -> None:
    image = f"debian:{suite}-slim"
    found = shutil.which("docker") and subprocess.run(
        ["docker", "image", "inspect", image], capture_output=True, check=False
    )
    if not found or found.returncode != 0:
        if os.environ.get("GRAPHALGO_REQUIRE_CONTAINERS") == "1":
            pytest.fail(f"there is no Docker engine with the image {image}")
        pytest.skip(f"there is no Docker engine with the image {image}")
    command = ["docker", "run", "--rm", "-v", f"{checkout}:/checkout:ro", image]
    done = subprocess.run(
        [*command, "bash", "-c", BARE_MACHINE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert any(line.startswith("Installing postgresql-") for line in answer.pop("said"))
    assert answer == {
        "directory": "/project/.graphalgo",
        "reused": True,
        "version": answer["version"],
        "default_clusters": [],
        "drop_in": False,
        "policy": ["#!/bin/sh\nexit 0\n", "0o700"],
        "policies": ["policy-rc.d"],
        "purged": True,
    }


@pytest.mark.slow
def test_setup_makes_an_environment_once_and_again_where_it_was_moved(checkout: Path) -> None:
    first = set_up(checkout)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "making .venv" in first.stdout
    began = time.monotonic()
    again = set_up(checkout)
    assert time.monotonic() - began < 0.5
    assert (again.returncode, again.stdout) == (0, "")

    moved = checkout.rename(checkout.with_name("moved"))
    program = moved / ".venv" / "bin" / "python"
    assert "making .venv" in set_up(moved).stdout
    where = subprocess.run(
        [program, "-c", "import graphalgo; print(graphalgo.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert where.stdout.strip() == str(moved / "graphalgo" / "__init__.py")

    with (moved / "pyproject.toml").open("a") as file:
        file.write("\n")
    changed = set_up(moved)
    assert "making .venv" not in changed.stdout
    assert "installing graphalgo" in changed.stdout


def test_setup_refuses_a_target_that_it_does_not_know(checkout: Path) -> None:
    done = set_up(checkout, "everything")
    assert done.returncode == 1
    assert "there is no target 'everything'" in done.stderr
    assert not (checkout / ".venv").exists()
