"""Joins, lookups and near spellings answer the same with the index and without, in every store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import rapidfuzz

from graphalgo.engine import iterated_join, lookup
from graphalgo.engine.errors import NotFound
from graphalgo.install import install
from graphalgo.loading import load_harbour
from graphalgo.names.finding import similar_names
from graphalgo.samples import harbour_json
from graphalgo.stores.client import ClientStore
from graphalgo.stores.memory import MemoryStore
from tests.support.names import SERVED, refresh
from tests.support.server import ServerFunctions

LINKS = ("edge", "shared_key", "similar")


@pytest.fixture(scope="module")
def harbour_dsn(make_database: Callable[[], str]) -> str:
    made = make_database()
    install(made)
    load_harbour(made)
    return made


def answers(connection: psycopg.Connection[Any]) -> list[Any]:
    """What the functions in the server and the store over the connection answer."""
    server, client = ServerFunctions(connection), ClientStore(connection)
    found: list[Any] = []
    for target in ("vessel", "port", "operator"):
        for seed in ("NL-2231", "meridian dawn"):
            arguments = {"seed": seed, "target_type": target, "similarity": 0.3, "links": LINKS}
            try:
                found.append(server.iterated_join(**arguments))
                assert iterated_join(client, **arguments) == found[-1]
            except psycopg.Error as error:
                found.append((error.sqlstate, str(error)))
    keys = ["meridain dawn", "dawn meridian", "north lines", "nobody at all"]
    found.append(server.lookup(keys, True, 5))
    assert lookup(client, keys, True, 5) == found[-1]
    found.append(similar_names(client, keys, 0.3, 5))
    with pytest.raises(NotFound) as missing:
        iterated_join(client, "meridain dawnn", "vessel")
    found.append((missing.value.message, missing.value.hint))
    return found


def test_all_that_compares_names_answers_the_same_with_the_index(harbour_dsn: str) -> None:
    with psycopg.connect(harbour_dsn, autocommit=True) as connection:
        before = answers(connection)
        assert refresh(connection)[1] > 10
        assert answers(connection) == before, "so few are not looked for in the index"
        connection.execute("set aiq.name_index_from = 0")
        assert connection.execute(SERVED).fetchone() == (True,)
        assert answers(connection) == before


def test_the_twin_finds_the_same_similar_names(harbour_dsn: str) -> None:
    store = MemoryStore.from_json(harbour_json())
    with psycopg.connect(harbour_dsn, autocommit=True) as connection:
        connection.execute("set aiq.name_index_from = 0")
        refresh(connection)
        for scorer in ("trigram", "token_set", "jaro_winkler"):
            names = ["meridain dawn", "Dawn Meridian", "north"]
            over_connection = similar_names(ClientStore(connection), names, 0.4, 5, scorer)
            in_memory = similar_names(store, names, 0.4, 5, scorer)
            shown = [(row.input_name, row.key, row.score) for row in over_connection]
            assert shown == [(row.input_name, row.key, row.score) for row in in_memory]
            assert shown


@pytest.fixture
def rapidfuzz_place() -> Iterator[Path]:
    """A directory with rapidfuzz that the server's user can get into."""
    place = Path(tempfile.mkdtemp(prefix="rapidfuzz-", dir="/var/tmp"))
    copied = place / "rapidfuzz"
    shutil.copytree(Path(rapidfuzz.__file__).parent, copied)
    for path in (place, copied, *copied.rglob("*")):
        path.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("scorer", ["jaro_winkler", "token_set"])
@pytest.mark.parametrize("candidates", [None, 0.2])
def test_the_server_scores_as_the_twin_does(
    harbour_dsn: str, rapidfuzz_place: Path, scorer: str, candidates: float | None
) -> None:
    names = ["meridain dawn", "Dawn Meridian", "line meridian", "north"]
    with psycopg.connect(harbour_dsn, autocommit=True) as connection:
        reach = f"import sys; sys.path.append('{rapidfuzz_place}')"
        connection.execute(f"do language plpython3u $$ {reach} $$".encode())
        found = connection.execute(
            "select input_name, handle, key, score::float8, candidate_similarity::float8"
            " from aiq.similar_names(%s, 0.5, 5, %s, %s::real)",
            [names, scorer, candidates],
        ).fetchall()
    twin = similar_names(MemoryStore.from_json(harbour_json()), names, 0.5, 5, scorer, candidates)
    assert found == [
        (row.input_name, row.handle, row.key, row.score, row.candidate_similarity) for row in twin
    ]
    assert len({row[0] for row in found}) == len(names)
