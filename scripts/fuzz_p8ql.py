#!/usr/bin/env python3
"""Feeds the dialect's parser with what a fuzzer makes of its own coverage.

    pip install atheris
    python scripts/fuzz_p8ql.py -max_total_time=60

Every text must give a plan that is printed and parsed back to itself, or one of the
dialect's errors with a place inside the text.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import atheris

with atheris.instrument_imports(include=["graphalgo.p8ql"]):
    from graphalgo.p8ql.errors import QuerySyntaxError, QueryValueError
    from graphalgo.p8ql.parser import parse

SEEDS = (
    'FUZZY LOOKUP "a", \'b\' LIMIT 5', 'GRAPH "k" DEPTH 2 TYPE operated_by',
    'TEXT "x" FROM notes', 'SEARCH "x" FROM "n" USING m', 'SCHEMA "sql" FROM aiq.nodes_api',
    "select 1;", "LOKUP", "LOOKUP “x”", 'TEXT "x" DEPTH 2',
)  # fmt: skip


def check(text: str) -> None:
    """Hold the parser to what it promises for a text."""
    try:
        plan = parse(text)
    except (QuerySyntaxError, QueryValueError) as error:
        assert 1 <= error.position <= len(text) + 1, (text, error.position)
        assert error.hint, text
    else:
        assert parse(plan.to_text()) == plan, text


def one_input(data: bytes) -> None:
    check(atheris.FuzzedDataProvider(data).ConsumeUnicode(4_000))
    check(data.decode("utf-8", "replace"))


if __name__ == "__main__":
    for seed in SEEDS:
        check(seed)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
