"""What the tests of the private cluster share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphalgo.cluster import down


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory that the server's user can get into, as pytest's own are not."""
    place = Path(tempfile.mkdtemp(prefix="cluster-test-", dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    for marker in list(place.rglob("graphalgo-cluster.json")):
        down(marker.parent, purge=True)
    shutil.rmtree(place)
