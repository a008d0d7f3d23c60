"""The command that asks in the dialect: ``query``, and how its answers are shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from graphalgo.cli.console import output, print_json
from graphalgo.cli.options import (
    AsOrgOption,
    AsSubOption,
    DsnOption,
    GraphOption,
    JsonOption,
    WhereOption,
)
from graphalgo.cli.sources import Row, opened
from graphalgo.engine.errors import InvalidValue
from graphalgo.rendering.text import visible

EmbeddingOption = Annotated[
    str | None,
    typer.Option(
        "--embedding",
        metavar="FILE",
        help="For SEMANTIC and SEARCH: a file with the vector of the words, such as [0.1, -0.2];"
        " - reads it from standard input.",
        show_default=False,
    ),
]


def query(
    text: Annotated[str, typer.Argument(metavar="QUERY", help="A query of P8QL; try SCHEMA.")],
    dsn: DsnOption = None,
    graph: GraphOption = None,
    where: WhereOption = "auto",
    as_sub: AsSubOption = None,
    as_org: AsOrgOption = None,
    embedding: EmbeddingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a QUERY: LOOKUP, GRAPH, TEXT, SEMANTIC, SEARCH, SCHEMA, or SQL, which is only planned.

    A GRAPH whose key names no node, or several, says so, and is no error: the exit code is 0.
    """
    vector = read_embedding(embedding)
    with opened(dsn, graph, where, as_sub, as_org) as source:
        answer = source.query(text, vector)
    if as_json:
        print_json(answer)
    else:
        show(answer)


def read_embedding(name: str | None) -> str | None:
    """Return the text of a vector's file; refuse one that cannot be read (22023)."""
    if name is None:
        return None
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise InvalidValue(
            f'the embedding file "{name}" cannot be read: {reason}',
            "Name a file with an array of numbers, such as [0.1, -0.2].",
        ) from error


def show(answer: Row) -> None:
    """Print an envelope as a table, or as what its mode answers."""
    from graphalgo.rendering.tables import lookup_table, ranking_table, walk_table

    console = output()
    mode, rows = answer["mode"], answer["rows"]
    if mode == "SCHEMA":
        print_json(answer["document"])
        return
    if mode == "SQL":
        _print(console, answer["plan"]["statement"], visible(answer["note"]))
        return
    if rows:
        table = {"LOOKUP": lookup_table, "GRAPH": walk_table}.get(mode, ranking_table)
        console.print(table(rows))
    elif mode not in ("LOOKUP", "GRAPH") or ("error" not in answer and mode == "GRAPH"):
        console.print(Text("Nothing is found."))
    if answer.get("unresolved"):
        _print(console, f"Nothing found by: {', '.join(map(visible, answer['unresolved']))}")
    if "error" in answer:
        _print(console, visible(answer["error"]["message"]))
        for name, says in (("did_you_mean", "Did you mean"), ("candidates", "It may be")):
            if answer.get(name):
                _print(console, f"{says}: {', '.join(map(visible, answer[name]))}")


def _print(console: Any, *lines: str) -> None:
    for line in lines:
        console.print(Text(line))
