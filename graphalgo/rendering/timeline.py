"""The periods of a node's edges as a picture: a lane an edge, time from left to right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from graphalgo.rendering.layout import MARGIN, SMALL_SIZE, TITLE_SIZE
from graphalgo.rendering.svg import HEADING_SIZE, escaped, plain, text_at
from graphalgo.rendering.tables import moment_text
from graphalgo.rendering.text import number, shortened, visible, width

Row = Mapping[str, Any]
Lane = tuple[str, str, int]

_PLOT_WIDTH = 640.0
_MOST_LABEL = 330.0
_LANE = 34.0
_BAR = 16.0
_HEAD = 62.0
_FOOT = 44.0
# A moment's period is still to be seen, and a click's width apart from the next.
_LEAST_BAR = 3.0
_MOST_LANES = 200

# Open ended or ended: the border says it too, so that colour is never alone.
_HOLDS, _OVER, _AHEAD = "#5b9bd5", "#c9d3dd", "#f2d7a6"
_STEPS_DAYS = (1, 2, 7, 14, 30.4375, 91.3125, 182.625, 365.25)
_YEAR = 365.25


def timeline(node: Row, periods: Sequence[Row], now: datetime) -> str:
    """Draw when each edge of a node held.

    Parameters
    ----------
    node : mapping
        With `handle`, `key` and `summary`.
    periods : sequence of mappings
        With `relation`, `direction`, `other_id`, `other_handle`, `other_key`,
        `other_summary`, `weight`, `valid_from`, `ends_at`, `memory` and `closed_by`;
        moments as ISO text in UTC, or ``-infinity`` and ``infinity``.
    now : datetime
        In UTC without an offset, as the periods' moments are.

    Returns
    -------
    str
        A whole SVG document; what is shortened is whole in the tooltip.
    """
    lanes = _lanes(periods)
    shown = dict(list(lanes.items())[:_MOST_LANES])
    axis = _Axis([row for rows in shown.values() for row in rows], now)
    labels = {lane: _lane_label(lane, rows[0]) for lane, rows in shown.items()}
    label_width = min(
        _MOST_LABEL, max((width(text, TITLE_SIZE) for text in labels.values()), default=0.0)
    )
    left = MARGIN + label_width + 14.0
    title = visible(f"{node['handle']} {node['summary'] or node['key'] or ''}".rstrip())
    total_width = left + _PLOT_WIDTH + MARGIN
    total_height = _HEAD + max(1, len(shown)) * _LANE + _FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{plain(total_width)}"'
        f' height="{plain(total_height)}" viewBox="0 0 {plain(total_width)} {plain(total_height)}"'
        ' role="img" font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif">',
        f"<title>{escaped(f'The history of {title}')}</title>",
        f'<rect width="{plain(total_width)}" height="{plain(total_height)}" fill="#ffffff"/>',
        text_at(
            MARGIN,
            26.0,
            shortened(title, HEADING_SIZE, (total_width - 2 * MARGIN) / 1.1),
            HEADING_SIZE,
            weight="bold",
        ),
        *_grid(axis, left, len(shown)),
    ]
    for place, (lane, rows) in enumerate(shown.items()):
        middle = _HEAD + (place + 0.5) * _LANE
        label = shortened(labels[lane], TITLE_SIZE, label_width)
        written = text_at(MARGIN, middle + 4.0, label, TITLE_SIZE)
        parts.append(f"<g>{written}<title>{escaped(labels[lane])}</title></g>")
        parts += [_bar(row, axis, left, middle, now) for row in rows]
    parts.append(_foot(axis, left, total_height, len(lanes) - len(shown), bool(periods)))
    return "\n".join(part for part in parts if part) + "\n</svg>\n"


class _Axis:
    """From the earliest to the latest moment that is told, with some room, to the plot's width."""

    def __init__(self, periods: Sequence[Row], now: datetime) -> None:
        told = [
            moment
            for row in periods
            for moment in (_moment(row["valid_from"]), _moment(row["ends_at"]))
            if moment is not None
        ]
        self.now = now
        first, last = min([*told, now]), max([*told, now])
        room = max((last - first) * 0.06, timedelta(hours=1))
        self.first = first - room if first - datetime.min > room else first
        self.last = last + room if datetime.max - last > room else last

    def place(self, moment: datetime | None, beyond: float) -> float:
        """Give the place of a moment, from 0 to the plot's width; `beyond` of none."""
        if moment is None:
            return beyond
        return (moment - self.first) / (self.last - self.first) * _PLOT_WIDTH

    def ticks(self) -> list[tuple[datetime, str]]:
        """Give moments to mark, at most a dozen, and how each is written."""
        days = (self.last - self.first) / timedelta(days=1)
        if days < 2:
            step = timedelta(hours=next(hours for hours in (1, 3, 6, 12) if days * 24 / hours <= 8))
            start = self.first.replace(hour=0, minute=0, second=0, microsecond=0)
            return self._every(step, start, "%Y-%m-%d %H:%M")
        wanted = next((step for step in _STEPS_DAYS if days / step <= 8), None)
        if wanted is not None and wanted < 30:
            start = self.first.replace(hour=0, minute=0, second=0, microsecond=0)
            return self._every(timedelta(days=wanted), start, "%Y-%m-%d")
        months = 12 * _round_years(days / _YEAR / 8) if wanted is None else round(wanted / 30.4375)
        return self._months(months)

    def _every(self, step: timedelta, start: datetime, form: str) -> list[tuple[datetime, str]]:
        found = []
        moment = start
        while moment <= self.last:
            if moment >= self.first:
                found.append((moment, moment.strftime(form)))
            moment += step
        return found

    def _months(self, step: int) -> list[tuple[datetime, str]]:
        found = []
        count = (self.first.year * 12 + self.first.month - 1) // step * step
        while count // 12 <= self.last.year:
            year, month = divmod(count, 12)
            count += step
            if not 1 <= year <= 9999:
                continue
            moment = datetime(year, month + 1, 1)
            if self.first <= moment <= self.last:
                text = f"{year:04}" if step % 12 == 0 else f"{year:04}-{month + 1:02}"
                found.append((moment, text))
        return found


def _round_years(least: float) -> int:
    """Give the next round number of years that is at least so many."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if factor * size >= least:
                return factor * size
        size *= 10


def _lanes(periods: Sequence[Row]) -> dict[Lane, list[Row]]:
    lanes: dict[Lane, list[Row]] = {}
    for row in periods:
        lanes.setdefault((row["relation"], row["direction"], row["other_id"]), []).append(row)
    return lanes


def _lane_label(lane: Lane, row: Row) -> str:
    relation, direction, _ = lane
    arrow = f"{relation} →" if direction == "out" else f"← {relation}"
    named = row["other_summary"] or row["other_key"] or ""
    return visible(f"{arrow} {row['other_handle']} {named}".rstrip())


def _grid(axis: _Axis, left: float, lanes: int) -> list[str]:
    top, bottom = _HEAD - 4.0, _HEAD + max(1, lanes) * _LANE
    parts = []
    for moment, text in axis.ticks():
        x = left + axis.place(moment, 0.0)
        parts.append(
            f'<path d="M{plain(x)} {plain(top)} V{plain(bottom)}" stroke="#dddddd" fill="none"/>'
        )
        half = width(text, SMALL_SIZE) / 2
        if left <= x - half and x + half <= left + _PLOT_WIDTH:
            parts.append(text_at(x, top - 6.0, text, SMALL_SIZE, "#555555", anchor="middle"))
    x = left + axis.place(axis.now, 0.0)
    parts.append(
        f'<path d="M{plain(x)} {plain(top)} V{plain(bottom)}" stroke="#d55e00"'
        ' stroke-dasharray="4 3" fill="none"><title>now</title></path>'
    )
    return parts


def _bar(row: Row, axis: _Axis, left: float, middle: float, now: datetime) -> str:
    start, end = _moment(row["valid_from"]), _moment(row["ends_at"])
    x = left + max(0.0, axis.place(start, 0.0))
    x_end = left + min(_PLOT_WIDTH, axis.place(end, _PLOT_WIDTH))
    x_end = max(x_end, x + _LEAST_BAR)
    if start is not None and start > now:
        fill = _AHEAD
    else:
        fill = _HOLDS if end is None or end > now else _OVER
    y = middle - _BAR / 2
    # What goes on has an open end: an arrow and no border.
    going_on = row["ends_at"] in (None, "infinity")
    if going_on:
        tip = min(8.0, (x_end - x) / 2)
        shape = (
            f'<path d="M{plain(x)} {plain(y)} H{plain(x_end - tip)} L{plain(x_end)} {plain(middle)}'
            f' L{plain(x_end - tip)} {plain(y + _BAR)} H{plain(x)} z" fill="{fill}"'
            ' stroke="#444444" stroke-width="1">'
        )
        closing = "</path>"
    else:
        shape = (
            f'<rect x="{plain(x)}" y="{plain(y)}" width="{plain(x_end - x)}"'
            f' height="{plain(_BAR)}" fill="{fill}" stroke="#444444" stroke-width="1">'
        )
        closing = "</rect>"
    weight = number(row["weight"])
    written = ""
    if width(weight, SMALL_SIZE) + 10.0 <= x_end - x:
        written = text_at(x + 4.0, middle + 4.0, weight, SMALL_SIZE)
    return f"<g>{shape}<title>{escaped(_tooltip(row))}</title>{closing}{written}</g>"


def _tooltip(row: Row) -> str:
    until = moment_text(row["ends_at"]) or "now and on"
    lines = [
        _lane_label((row["relation"], row["direction"], row["other_id"]), row),
        f"{moment_text(row['valid_from'])} to {until}",
        f"weight {number(row['weight'])}",
    ]
    if row["memory"]:
        lines.append(f"stated by {row['memory']}")
    if row["closed_by"]:
        lines.append(f"ended by {row['closed_by']}")
    return "\n".join(visible(line) for line in lines)


def _foot(axis: _Axis, left: float, height: float, hidden: int, any_period: bool) -> str:
    y = height - 16.0
    if not any_period:
        return text_at(MARGIN, y, "No edge of it is known, past or present.", SMALL_SIZE, "#555555")
    parts = []
    x = MARGIN
    for fill, words in ((_HOLDS, "holds"), (_OVER, "is over"), (_AHEAD, "lies ahead")):
        parts.append(
            f'<rect x="{plain(x)}" y="{plain(y - 9.0)}" width="22" height="11" fill="{fill}"'
            ' stroke="#444444" stroke-width="1"/>'
        )
        parts.append(text_at(x + 28.0, y, words, SMALL_SIZE, "#333333"))
        x += 28.0 + width(words, SMALL_SIZE) + 18.0
    note = f"the dashed line is now, {axis.now:%Y-%m-%d %H:%M} UTC"
    if hidden:
        note += f"; {hidden} more edges are not shown"
    parts.append(text_at(x, y, note, SMALL_SIZE, "#555555"))
    return "".join(parts)


def _moment(written: str | None) -> datetime | None:
    """Read a moment; none where there is none, or one that no calendar of Python's has."""
    if written is None or written.endswith("infinity"):
        return None
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        return None
