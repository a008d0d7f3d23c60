"""Work is done in blocks so that none is long; where the blocks end changes no answer."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from unittest.mock import patch

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphalgo.stores.client import ClientStore
from graphalgo.stores.memory import MemoryStore
from tests.support import agreement, graphs
from tests.support.engine import Bound
from tests.support.server import write_graph

# Every length that cuts work into blocks, and one so short that there are many blocks.
TINY = [
    ("stores.relational", "BLOCK_LINKS", 3),
    ("stores.relational", "FIRST_NODES", 2),
    ("stores.relational", "MOST_NODES", 3),
    ("stores.relational", "BLOCK_IDS", 2),
    ("stores.memory", "BLOCK_LINKS", 2),
    ("engine.judging", "BLOCK_LINKS", 1),
    ("engine.join", "BLOCK_ROWS", 1),
    ("engine.join", "PRUNE_SLACK", 0),
    ("engine.walk", "BLOCK_ROWS", 1),
    ("engine.lookup", "BLOCK_ROWS", 1),
    ("engine.ordering", "RUN_LENGTH", 2),
]

TRACED = {"iterated_join": "iterated_join_trace"}


@pytest.fixture(scope="module")
def connection(empty_dsn):
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        yield connection


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_answers_do_not_depend_on_where_blocks_end(connection, data):
    graph = data.draw(st.integers(0, 2**32).map(graphs.dense_graph), label="graph")
    twin = Bound(
        MemoryStore.from_dict({**graph, "verdicts": graph["verdicts"] or agreement.NO_VERDICTS})
    )
    with connection.transaction(force_rollback=True):
        write_graph(connection, graph)
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        client = Bound(ClientStore(connection))
        for _ in range(4):
            name, arguments = data.draw(agreement.calls(graph), label="call")
            # A trace also tells how many links were seen.
            for call in sorted({name, TRACED.get(name, name)}):
                hold_in_blocks(connection, (twin, client), call, arguments)


def hold_in_blocks(connection, stores, call, arguments):
    """Hold the stores, with tiny blocks, to what the first answers with its own."""
    whole = agreement.outcome(connection, stores[0], call, arguments)
    with ExitStack() as tiny:
        for module, constant, length in TINY:
            # Some modules share their name with the function they hold.
            found = import_module(f"graphalgo.{module}")
            tiny.enter_context(patch.object(found, constant, length))
        for store in stores:
            assert agreement.outcome(connection, store, call, arguments) == whole
