"""What the harbour sample must answer, as calls that any store can be held to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXPECTED = json.loads(
    (Path(__file__).parents[1] / "data" / "harbour_expected.json").read_text(encoding="utf-8")
)

# Answers that depend on which tenant asks; they need a scoped sample.
TENANT_DEPENDENT = ("another tenant's",)


def depends_on_caller(case: dict[str, Any]) -> bool:
    """Say whether an expected answer depends on who asks."""
    return case["as"] != "meridian" or any(
        part in case.get("note", "") for part in TENANT_DEPENDENT
    )


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


def check_join(algorithms: Any, case: dict[str, Any], refused: type[Exception]) -> None:
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
