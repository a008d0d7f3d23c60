"""The commands ``install``, ``uninstall`` and ``check``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from graphalgo.cli.console import output, print_json, say
from graphalgo.cli.options import DsnOption, JsonOption
from graphalgo.cli.sources import required_dsn
from graphalgo.rendering.text import visible

if TYPE_CHECKING:
    from graphalgo.install import Finding

EXIT_FAILED = 1


def install(
    dsn: DsnOption = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Change nothing; tell what is missing, as check does.")
    ] = False,
    plpython: Annotated[
        bool,
        typer.Option(
            "--plpython/--no-plpython",
            help="Whether to install the functions that need PL/Python. Without them the same"
            " algorithms run from the client's side.",
        ),
    ] = True,
) -> None:
    """Install graphalgo into a database, or upgrade it there; can be run again."""
    from graphalgo.install import install as install_into

    where = required_dsn(dsn)
    if check_only:
        _check(where, as_json=False)
        return
    report = install_into(where, plpython=plpython, report=say)
    functions = "with" if report.plpython else "without"
    print(
        f"graphalgo {report.version} {report.action} in PostgreSQL {report.server_version},"
        f" {functions} PL/Python functions"
    )


def uninstall(dsn: DsnOption = None) -> None:
    """Remove from a database exactly what install made, the graph included."""
    from graphalgo.install import uninstall as uninstall_from

    report = uninstall_from(required_dsn(dsn), report=say)
    print("graphalgo is removed" if report.found else "graphalgo was not installed")


def check(dsn: DsnOption = None, as_json: JsonOption = False) -> None:
    """Tell whether graphalgo is installed as it should be, and what mends what is not.

    Exits with 1 if anything is not as it should be.
    """
    _check(required_dsn(dsn), as_json=as_json)


def _check(dsn: str, *, as_json: bool) -> None:
    from graphalgo.install import check as check_installation

    findings = check_installation(dsn)
    if as_json:
        print_json(
            {
                "findings": [
                    {
                        "name": finding.name,
                        "ok": finding.ok,
                        "message": finding.message,
                        "remedy": finding.remedy,
                    }
                    for finding in findings
                ]
            }
        )
    else:
        output().print(_table(findings))
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def _table(findings: Sequence[Finding]) -> Table:
    table = Table("", "checked", "found", "what mends it")
    marks = {True: ("ok", "green"), False: ("FAILS", "bold red"), None: ("?", "yellow")}
    for finding in findings:
        table.add_row(
            Text(*marks[finding.ok]),
            Text(visible(finding.name)),
            Text(visible(finding.message)),
            Text(visible(finding.remedy or "")),
        )
    return table
