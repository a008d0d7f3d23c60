"""What the harbour sample must answer, as calls that any store can be held to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.samples import harbour_json
from graphalgo.stores.client import ClientStore
from tests.support.engine import Bound
from tests.support.server import ServerFunctions

EXPECTED = json.loads(
    (Path(__file__).parents[1] / "data" / "harbour_expected.json").read_text(encoding="utf-8")
)

KINDS = ("lookup", "walk", "iterated_join")

# Answers that depend on which tenant asks; they need a scoped sample.
TENANT_DEPENDENT = ("another tenant's",)


def depends_on_caller(case: dict[str, Any]) -> bool:
    """Say whether an expected answer depends on who asks."""
    return case["as"] != "meridian" or any(
        part in case.get("note", "") for part in TENANT_DEPENDENT
    )


def claims_of(tenant: str) -> dict[str, str]:
    """The claims of the one member of the tenant with that slug."""
    sample = harbour_json()
    org = next(org["id"] for org in sample["orgs"] if org["slug"] == tenant)
    return {"sub": next(row["user"] for row in sample["members"] if row["org"] == org)}


def speak_as(connection: psycopg.Connection[Any], claims: dict[str, Any] | str | None) -> None:
    """Make a superuser's connection a caller's with those claims (a text: as it stands)."""
    written = "" if claims is None else claims if isinstance(claims, str) else json.dumps(claims)
    connection.execute("select set_config('request.jwt.claims', %s, false)", [written])
    connection.execute("set role authenticated")


@contextmanager
def caller(dsn: str, claims: dict[str, Any] | str | None) -> Iterator[psycopg.Connection[Any]]:
    """Give a caller's connection to the database of a superuser's DSN."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        speak_as(connection, claims)
        yield connection


def tenant_cases() -> list[Any]:
    """Every expected answer, with its kind and whoever asks."""
    return [
        pytest.param(kind, case, id=f"{kind}-{index}-{case['as']}")
        for kind in KINDS
        for index, case in enumerate(EXPECTED[kind])
    ]


def check_case(algorithms: Any, kind: str, case: dict[str, Any]) -> None:
    """Hold an answer of that kind to what is expected of it."""
    if kind == "iterated_join":
        check_join(algorithms, case, (GraphAlgoError, psycopg.Error))
    elif kind == "walk":
        check_walk(algorithms, case)
    else:
        check_lookup(algorithms, case)


def check_tenants(dsn: str, *, inside: bool = True) -> int:
    """Hold every expected answer, each as its caller, over a superuser's DSN.

    The database holds the scoped sample. With `inside` the SQL functions are
    asked, too. Returns how many answers were held.
    """
    held = 0
    for tenant in ("meridian", "kestrel"):
        with caller(dsn, claims_of(tenant)) as connection:
            asked: list[Any] = [Bound(ClientStore(connection))]
            if inside:
                asked.append(ServerFunctions(connection))
            for kind in KINDS:
                for case in EXPECTED[kind]:
                    if case["as"] == tenant:
                        for algorithms in asked:
                            check_case(algorithms, kind, case)
                            held += 1
    return held


def join_cases() -> list[Any]:
    return _cases("iterated_join", lambda case: f"{case['seed']}-{case['target']}")


def walk_cases() -> list[Any]:
    return _cases("walk", lambda case: case["key"])


def lookup_cases() -> list[Any]:
    return _cases("lookup", lambda case: case["query"])


def _cases(kind: str, name: Callable[[dict[str, Any]], str]) -> list[Any]:
    return [
        pytest.param(case, id=f"{index}-{name(case)}")
        for index, case in enumerate(EXPECTED[kind])
        if not depends_on_caller(case)
    ]


def check_join(
    algorithms: Any,
    case: dict[str, Any],
    refused: type[Exception] | tuple[type[Exception], ...],
) -> None:
    """Hold an iterated join to what is expected of it."""
    arguments = {"seed": case["seed"], "target_type": case["target"]}
    if "links" in case:
        arguments["links"] = case["links"]
    if "similarity" in case:
        arguments["similarity"] = case["similarity"]
    if "refused" in case:
        with pytest.raises(refused) as caught:
            algorithms.iterated_join(**arguments)
        expected = "55000" if "link_judge" in case["refused"] else "21000"
        assert caught.value.sqlstate == expected  # type: ignore[attr-defined]
        return
    rows = algorithms.iterated_join(**arguments)
    assert all(row.resolved is case["resolved"] for row in rows)
    if not case["resolved"]:
        assert len(rows) == 1
        return
    assert {row.summary for row in rows} == set(case["reached"])
    assert all(row.round == case["round"] for row in rows)
    assert all([hop["link"] for hop in row.path] == case["path_links"] for row in rows)
    if "score" in case:
        assert round(rows[0].score, 3) == case["score"]


def check_walk(algorithms: Any, case: dict[str, Any]) -> None:
    """Hold a walk to what is expected of it."""
    rows = algorithms.walk(case["key"], depth=case["depth"], relation=case.get("relation"))
    fields = ("depth", "entity_type", "summary", "path")
    found = [
        {**{name: getattr(row, name) for name in fields}, "weight": round(row.weight, 3)}
        for row in rows
    ]
    assert found == case["rows"]


def check_lookup(algorithms: Any, case: dict[str, Any]) -> None:
    """Hold a lookup, written in the dialect's form, to what is expected of it."""
    words = case["query"].split('"')
    tail = words[2].split()
    limit = int(tail[1]) if tail[:1] == ["LIMIT"] else 10
    rows = algorithms.lookup([words[1]], fuzzy=words[0].startswith("FUZZY"), limit=limit)
    assert len(rows) == len(case["rows"])
    for row, expected in zip(rows, case["rows"], strict=True):
        shown = {name: getattr(row, name) for name in expected}
        if "score" in shown:
            shown["score"] = round(shown["score"], 3)
        assert shown == expected
