"""What a benchmark run found: rows, bounds and notes by section; JSON in and out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import Timings


@dataclass
class Bound:
    """A promise, and what was measured.

    Attributes
    ----------
    name : str
        What is promised.
    measured, limit : float
        What was found and the most it may be.
    unit : str
        Of both: ``x`` for a ratio, ``ms`` or ``MB``.
    judged : bool
        Whether the promise holds for a graph of this size; one that does not is told only.
    """

    name: str
    measured: float
    limit: float
    unit: str = "x"
    judged: bool = True

    @property
    def met(self) -> bool:
        """Whether the promise is kept; a measurement that is missing keeps none."""
        return self.measured <= self.limit


@dataclass
class Section:
    """The findings of one benchmark.

    Attributes
    ----------
    name, title : str
        The benchmark's name, and what it measures in a line.
    columns : list of str
        The names of the columns of `rows` that are shown, in order.
    rows : list of dict
        One finding each.
    bounds : list of Bound
        The promises it speaks to.
    notes : list of str
        What has to be known to read the figures, also what speaks against us.
    """

    name: str
    title: str
    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, timings: Timings, base: Timings | None = None, **labels: Any) -> None:
        """Add a row of timings; with `base`, also how many times the base's they are."""
        row = {**labels, **timings.as_dict()}
        if base is not None:
            row["x p50"] = _ratio(timings.p50, base.p50)
            row["x p95"] = _ratio(timings.p95, base.p95)
        self.rows.append(row)
        for column in row:
            if column not in self.columns:
                self.columns.append(column)

    def note(self, text: str) -> None:
        """Add a note."""
        self.notes.append(text)

    def as_dict(self) -> dict[str, Any]:
        """Give the section for JSON."""
        bounds = [
            {
                "name": bound.name,
                "measured": bound.measured,
                "limit": bound.limit,
                "unit": bound.unit,
                "judged": bound.judged,
                "met": bound.met,
            }
            for bound in self.bounds
        ]
        return {
            "title": self.title,
            "columns": self.columns,
            "rows": self.rows,
            "bounds": bounds,
            "notes": self.notes,
        }


def _ratio(value: float, base: float) -> float:
    return round(value / base, 2) if base else float("nan")


def write(file: Path, about: dict[str, Any], sections: list[Section]) -> None:
    """Write a run's findings as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    found = {"about": about, "sections": {section.name: section.as_dict() for section in sections}}
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
