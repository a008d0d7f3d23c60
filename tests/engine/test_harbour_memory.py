"""The harbour sample answers as written, on the store in memory."""

from __future__ import annotations

import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.samples import harbour_json
from graphalgo.stores.memory import MemoryStore
from tests.support import harbour
from tests.support.engine import Bound


@pytest.fixture(scope="module")
def twin() -> Bound:
    return Bound(MemoryStore.from_json(harbour_json()))


@pytest.mark.parametrize("case", harbour.join_cases())
def test_iterated_join_answers_as_written(twin, case):
    harbour.check_join(twin, case, GraphAlgoError)


@pytest.mark.parametrize("case", harbour.walk_cases())
def test_walk_answers_as_written(twin, case):
    harbour.check_walk(twin, case)


@pytest.mark.parametrize("case", harbour.lookup_cases())
def test_lookup_answers_as_written(twin, case):
    harbour.check_lookup(twin, case)
