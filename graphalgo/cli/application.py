"""The program: its commands, and what holds for all of them."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from graphalgo import __version__
from graphalgo.cli import (
    agents,
    asking,
    demo,
    history,
    installing,
    loading,
    maintaining,
    ontology,
    querying,
    registering,
    repl,
    serving,
)
from graphalgo.cli.refusals import RefusingGroup

app = typer.Typer(
    name="graphalgo",
    cls=RefusingGroup,
    help="Graph algorithms that run inside PostgreSQL, each with a twin that runs outside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

_START, _ASK, _FILL, _SERVE = "Set up", "Ask", "Fill", "Serve"

app.command(rich_help_panel=_START)(demo.demo)
app.command(rich_help_panel=_START)(serving.up)
app.command(rich_help_panel=_START)(serving.down)
app.command(rich_help_panel=_START)(installing.install)
app.command(rich_help_panel=_START)(installing.uninstall)
app.command(rich_help_panel=_START)(installing.check)
app.command(rich_help_panel=_START)(maintaining.maintain)
app.command(rich_help_panel=_FILL)(loading.load)
app.command(rich_help_panel=_FILL)(registering.register)
app.command(rich_help_panel=_ASK)(asking.join)
app.command(rich_help_panel=_ASK)(asking.walk)
app.command(rich_help_panel=_ASK)(asking.lookup)
app.command(rich_help_panel=_ASK)(history.history)
app.command(rich_help_panel=_ASK)(querying.query)
app.command(rich_help_panel=_ASK)(repl.repl)
app.add_typer(ontology.app, name="ontology", rich_help_panel=_FILL)
app.add_typer(agents.app, name="mcp", rich_help_panel=_SERVE)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"graphalgo {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Graph algorithms that run inside PostgreSQL, each with a twin that runs outside."""


def run() -> None:
    """Run the command that the program's arguments name, and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a letter shows its escape; nothing breaks off.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(prog_name="graphalgo")
