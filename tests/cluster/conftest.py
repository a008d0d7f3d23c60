"""What the tests of the private cluster share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graphalgo.cluster import down


@contextmanager
def place_for_servers() -> Iterator[Path]:
    """Make a directory that the server's user can get into, as pytest's own are not."""
    place = Path(tempfile.mkdtemp(prefix="cluster-test-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        for marker in list(place.rglob("graphalgo-cluster.json")):
            down(marker.parent, purge=True)
        shutil.rmtree(place)


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory for one test's servers."""
    with place_for_servers() as place:
        yield place


@pytest.fixture(scope="module")
def module_top() -> Iterator[Path]:
    """A directory for servers that the tests of a module share."""
    with place_for_servers() as place:
        yield place
