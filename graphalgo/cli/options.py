"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DSN_VARIABLE = "GRAPHALGO_DSN"

DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        help="Where the private cluster lives (default: one of the project's own)",
        show_default=False,
    ),
]
VersionOption = Annotated[
    int | None,
    typer.Option(
        "--version",
        metavar="MAJOR",
        help="The major version of PostgreSQL, from 15 (default: the newest usable one)",
        show_default=False,
    ),
]
DsnOption = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="DSN",
        help="A connection string or URL of PostgreSQL."
        f" (default: the environment variable {DSN_VARIABLE})",
        show_default=False,
    ),
]
GraphOption = Annotated[
    Path | None,
    typer.Option(
        "--graph",
        metavar="FILE",
        help="Ask a graph in a JSON file instead: the same algorithms in memory, without a server.",
        show_default=False,
    ),
]
WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="server|client|auto",
        help="With a DSN: where the algorithm runs, inside the server (which needs PL/Python)"
        " or here, over the connection; auto takes the server if the functions are there.",
    ),
]
AsSubOption = Annotated[
    str | None,
    typer.Option(
        "--as-sub",
        "--as",
        metavar="UUID",
        help="Ask as this user: with the rights of a caller, and seeing what they see.",
        show_default=False,
    ),
]
AsOrgOption = Annotated[
    list[str] | None,
    typer.Option(
        "--as-org",
        metavar="UUID",
        help="With --as-sub: only as a member of this organisation; may be given several times"
        " (default: of every one that the user belongs to)",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of a table.")
]
SvgOption = Annotated[
    Path | None,
    typer.Option("--svg", metavar="FILE", help="Write a picture as SVG, too.", show_default=False),
]
DotOption = Annotated[
    Path | None,
    typer.Option(
        "--dot", metavar="FILE", help="Write a picture for Graphviz, too.", show_default=False
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Use the edges that held then: 2024-01-31 or 2024-01-31T12:00+01:00;"
        " without an offset in UTC.",
        show_default=False,
    ),
]
DegreeCapOption = Annotated[
    int,
    typer.Option(
        "--degree-cap", help="The most links out of one node, the strongest (1 to 100000)."
    ),
]
