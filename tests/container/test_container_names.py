"""The index of names on each supported major version, as on this machine's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.database import test_name_index as index
from tests.support.names import use_index

Case = Callable[[psycopg.Connection[Any]], None]
CASES: list[Case] = [
    index.test_hard_names_are_found_as_pg_trgm_finds_them,
    index.test_random_names_in_several_segments_are_found_as_pg_trgm_finds_them,
    index.test_each_of_a_nodes_names_has_its_own_similarity,
    index.test_what_is_written_changed_and_deleted_counts_in_the_next_statement,
    index.test_a_name_is_found_wherever_its_row_has_come_to_lie,
    index.test_names_are_read_where_they_lie_and_not_looked_for_by_their_nodes,
    index.test_of_names_that_have_moved_a_caller_sees_their_own_alone,
    index.test_two_tenants_see_their_own_names_alone,
]


@pytest.fixture
def connection(empty_server_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection to a database without names, in a transaction to be rolled back."""
    with psycopg.connect(empty_server_dsn) as made:
        use_index(made)
        made.execute("delete from aiq.node_keys")
        made.execute("delete from aiq.nodes")
        made.execute("delete from rbac.orgs")
        made.execute("delete from rbac.users")
        yield made
        made.rollback()


@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_the_index_of_names(connection: psycopg.Connection[Any], case: Case) -> None:
    case(connection)
