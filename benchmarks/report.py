"""A run's findings as tables for the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.results import Bound, Section

NUMBERS = ("n", "cut", "p50", "p95", "max", "x p50", "x p95", "after", "peak", "budget")


def show(console: Console, section: Section) -> None:
    """Print a section: its rows, its notes."""
    table = Table(title=escape(section.title), title_justify="left", header_style="bold")
    columns = [name for name in section.columns if name != "cut"]
    for name in columns:
        numeric = name in NUMBERS or name.endswith(("nothing", "time"))
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for row in section.rows:
        table.add_row(*(_cell(row, name) for name in columns))
    console.print(table)
    for note in section.notes:
        console.print(f"  {escape(note)}", style="dim")
    console.print()


def show_bounds(console: Console, sections: list[Section]) -> None:
    """Print every promise beside what was measured."""
    if not any(section.bounds for section in sections):
        return
    table = Table(title="What is promised, and what was measured", title_justify="left")
    for name, justify in (
        ("promise", "left"),
        ("measured", "right"),
        ("at most", "right"),
        ("", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for section in sections:
        for bound in section.bounds:
            measured, limit = (
                f"{value:,.2f} {bound.unit}" for value in (bound.measured, bound.limit)
            )
            table.add_row(escape(bound.name), measured, limit, _verdict(bound))
    console.print(table)


def _verdict(bound: Bound) -> str:
    if bound.met:
        return "[green]met[/]" if bound.judged else "[green]met[/] (told only)"
    return "[bold red]not met[/]" if bound.judged else "[yellow]not met[/] (told only)"


def _cell(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None or value != value:  # noqa: PLR0124 - not a number
        return ""
    if isinstance(value, float):
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = str(value)
    if name in ("p50", "p95", "max") and row.get("cut"):
        # Some were cut off by the time-out.
        text = f">= {text}" if name == "max" else f"{text} *"
    return escape(text)
