"""The README's section on the dialect: its worked examples, and what holds an answer to one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECTION = (
    (Path(__file__).parents[2] / "README.md")
    .read_text(encoding="utf-8")
    .partition("## P8QL\n")[2]
    .partition("\n## ")[0]
)
VECTOR = re.search(r"the vector is\s+`([^`]*)`", SECTION)
# A query, and the lines that stand below it.
EXAMPLES = [
    (lines[0], [line.strip() for line in lines[1:]])
    for block in re.findall(r"```text\n(.*?)```", SECTION, re.DOTALL)
    for lines in (part.split("\n") for part in re.split(r"\n(?=\S)", block.strip()))
]
QUERIES = [text for text, _ in EXAMPLES]


def check_example(ask: Callable[[str, str], Any], text: str, told: list[str]) -> None:
    """Hold an example to what `ask` gives for it and the vector: an envelope, or a refusal.

    A refusal is its SQLSTATE and its message.
    """
    assert told and VECTOR
    answer = ask(text, VECTOR[1])
    if isinstance(answer, tuple):
        assert told == [f"refused: {' '.join(answer)}"]
        return
    rows = [json.loads(line) for line in told if line.startswith("{")]
    found = [
        {name: row[name] for name in expected}
        for row, expected in zip(answer["rows"], rows, strict=True)
    ]
    assert found == rows
    for line in told:
        if not line.startswith("{"):
            name, _, value = line.partition(": ")
            assert answer[name] == json.loads(value)
