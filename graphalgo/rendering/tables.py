"""Answers as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from graphalgo.rendering.text import number, visible

Row = Mapping[str, Any]

_KINDS = ("edge", "shared_key", "similar", "judged")


def join_table(rows: Sequence[Row], handles: Mapping[int, str]) -> Table:
    """Make the table of an iterated join that resolved.

    Parameters
    ----------
    rows : sequence of mappings
        The answer's rows.
    handles : mapping
        The handle of each node on a path, by its id.
    """
    table = Table("round", "handle", "type", "key", "summary", "score", "path")
    _right(table, "round", "score")
    for row in rows:
        table.add_row(
            *_cells(row["round"], row["handle"], row["entity_type"], row["key"], row["summary"]),
            *_cells(number(row["score"]), path_text(row["path"], handles)),
        )
    return table


def path_text(path: Sequence[Row], handles: Mapping[int, str]) -> str:
    """Write a path as one line: handles, with the link between each two.

    Parameters
    ----------
    path : sequence of mappings
        The hops of an answer of an iterated join.
    handles : mapping
        The handle of each node on it, by its id.
    """
    parts = [handles[path[0]["from"]]] if path else []
    for hop in path:
        weight = number(hop["weight"])
        match hop["link"]:
            case "edge" if hop["direction"] == "out":
                parts.append(f"-[{hop['relation']} {weight}]->")
            case "edge":
                parts.append(f"<-[{hop['relation']} {weight}]-")
            case "shared_key":
                parts.append(f"=[key {hop['key']} {weight}]=")
            case "similar":
                first, second = hop["names"]
                parts.append(f"~[{first} ~ {second} {weight}]~")
            case _:
                reason = f" {hop['reason']}" if hop["reason"] else ""
                parts.append(f"?[judged {weight}{reason}]?")
        parts.append(handles[hop["to"]])
    return " ".join(parts)


def unresolved_text(row: Row) -> str:
    """Say why an iterated join found nothing."""
    reason = {
        "exhausted": "exhausted, nothing is left to examine",
        "max_rounds": "max_rounds, the last round that was allowed is over",
    }.get(row["reason"], row["reason"])
    return (
        f"Not resolved in {row['round']} {'round' if row['round'] == 1 else 'rounds'}: {reason}"
        f" (examined {row['examined']}, deferred {row['deferred']})."
    )


def walk_table(rows: Sequence[Row]) -> Table:
    """Make the table of a walk."""
    table = Table("depth", "handle", "type", "key", "summary", "weight", "path", "capped")
    _right(table, "depth", "weight")
    for row in rows:
        table.add_row(
            *_cells(row["depth"], row["handle"], row["entity_type"], row["key"], row["summary"]),
            *_cells(number(row["weight"]), " / ".join(row["path"]), "yes" if row["capped"] else ""),
        )
    return table


def lookup_table(rows: Sequence[Row]) -> Table:
    """Make the table of a lookup."""
    table = Table("looked up", "handle", "type", "key", "summary", "match", "score")
    _right(table, "score")
    for row in rows:
        table.add_row(
            *_cells(row["input_key"], row["handle"], row["entity_type"], row["key"]),
            *_cells(row["summary"], row["match_kind"], number(row["score"])),
        )
    return table


def ranking_table(rows: Sequence[Row]) -> Table:
    """Make the table of a search in texts or vectors, whichever columns it has."""
    table = Table(*rows[0])
    _right(table, "id", "rank", "distance", "lex", "sem", "rrf")
    for row in rows:
        table.add_row(
            *_cells(
                *(
                    # Fused ranks are near each other.
                    f"{value:.5f}"
                    if name == "rrf"
                    else number(value)
                    if isinstance(value, float)
                    else value
                    for name, value in row.items()
                )
            )
        )
    return table


def trace_table(trace: Row) -> Table:
    """Make the table of an iterated join's account, a line for each round."""
    kinds = [
        kind for kind in _KINDS if any(kind in round_["candidates"] for round_ in trace["rounds"])
    ]
    columns = ["round", "frontier", *kinds, "examined", "deferred", "capped", "milliseconds"]
    table = Table(*columns)
    _right(table, *columns)
    for round_ in trace["rounds"]:
        table.add_row(
            *_cells(round_["round"], round_["frontier"]),
            *_cells(*(round_["candidates"].get(kind, 0) for kind in kinds)),
            *_cells(round_["examined"], round_["deferred"], round_["capped"]),
            *_cells(f"{round_['milliseconds']:.1f}"),
        )
    return table


def history_table(periods: Sequence[Row]) -> Table:
    """Make the table of the periods of a node's edges."""
    table = Table(
        "relation", "", "handle", "other end", "from", "to", "weight", "stated by", "ended by"
    )
    _right(table, "weight")
    for row in periods:
        ended = row["ends_at"]
        by = row["closed_by"]
        if ended is not None and ended != row["valid_to"]:
            by = "retirement"
        table.add_row(
            *_cells(row["relation"], "→" if row["direction"] == "out" else "←"),
            *_cells(row["other_handle"], row["other_summary"] or row["other_key"]),
            *_cells(moment_text(row["valid_from"]), moment_text(ended), number(row["weight"])),
            *_cells(row["memory"], by),
        )
    return table


def moment_text(written: str | None) -> str:
    """Write a moment, given as ISO text in UTC: without seconds that are none, or an hour."""
    if written is None:
        return ""
    if written == "-infinity":
        return "always"
    if written == "infinity":
        return "for ever"
    day, _, hour = written.partition("T")
    hour = hour.partition(".")[0]
    if hour in ("", "00:00:00"):
        return day
    return f"{day} {hour.removesuffix(':00') if hour.count(':') == 2 else hour}"


def _cells(*values: object) -> list[Text]:
    return [Text("" if value is None else visible(str(value))) for value in values]


def _right(table: Table, *names: str) -> None:
    for column in table.columns:
        if column.header in names:
            column.justify = "right"
