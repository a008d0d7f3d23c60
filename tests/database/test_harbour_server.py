"""The harbour sample answers as written, inside the server and over a connection."""

from __future__ import annotations

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.client import ClientStore
from tests.support import harbour
from tests.support.engine import Bound
from tests.support.server import ServerFunctions


@pytest.fixture(scope="module", params=["inside the server", "over a connection"])
def algorithms(request, dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        if request.param == "inside the server":
            yield ServerFunctions(connection)
        else:
            yield Bound(ClientStore(connection))


@pytest.mark.parametrize("case", harbour.join_cases())
def test_iterated_join_answers_as_written(algorithms, case):
    harbour.check_join(algorithms, case, (GraphAlgoError, psycopg.Error))


@pytest.mark.parametrize("case", harbour.walk_cases())
def test_walk_answers_as_written(algorithms, case):
    harbour.check_walk(algorithms, case)


@pytest.mark.parametrize("case", harbour.lookup_cases())
def test_lookup_answers_as_written(algorithms, case):
    harbour.check_lookup(algorithms, case)
