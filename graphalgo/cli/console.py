"""Where output goes: answers to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

# Into a pipe or a file no line is broken.
_UNBROKEN = 100_000


def output() -> Console:
    """Give a console for the answer."""
    # Looked up now and not when the module is loaded: tests put streams of their own there.
    stream = sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False, markup=False)
    return Console(file=stream, highlight=False, markup=False, width=_UNBROKEN)


def messages() -> Console:
    """Give a console for what is not the answer: progress, notes, errors."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def say(line: str) -> None:
    """Tell about a step that is being done."""
    messages().print(Text(line, style="dim"))


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document as the whole of the output."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(document, indent=2, ensure_ascii=not unicode, allow_nan=False))
