"""A run's findings as one picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.results import Section
from benchmarks.suite import walk

matplotlib.use("Agg")
from matplotlib import pyplot

Panel = Callable[[Any, Section], None]

# What is drawn of a walk: one colour in all panels, a little beside each other.
WALKS = {
    walk.WALKED: ("tab:blue", -0.05),
    walk.BARE_SQL: ("tab:cyan", -0.03),
    walk.CAPPED: ("tab:orange", -0.01),
    walk.CAPPED_STRONGEST: ("tab:olive", 0.01),
    walk.CAPPED_VIEW: ("tab:red", 0.03),
    walk.PLAIN: ("tab:brown", 0.05),
}


def draw(file: Path, title: str, sections: list[Section]) -> bool:
    """Draw a panel for each section that has one; say whether there was any."""
    drawn = [(section, PANELS[section.name]) for section in sections if section.name in PANELS]
    panels = [(section, panel) for section, panels in drawn for panel in panels if section.rows]
    if not panels:
        return False
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(7.5 * columns, 4.6 * lines), squeeze=False
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (section, panel) in zip(axes.flat, panels, strict=False):
        panel(axis, section)
        axis.grid(True, which="major", alpha=0.3)
    figure.suptitle(title)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return True


def _by_depth(start: str, limit: int) -> Panel:
    def panel(axis: Any, section: Section) -> None:
        rows = [row for row in section.rows if row["from"] == start and row["limit"] == limit]
        for name, (colour, aside) in WALKS.items():
            chosen = [row for row in rows if row["what"] == name]
            depths = [row["depth"] + aside for row in chosen]
            medians = [row["p50"] for row in chosen]
            spread = [row["p95"] - row["p50"] for row in chosen]
            ours = name.startswith("aiq.walk")
            axis.errorbar(
                depths, medians, yerr=[[0.0] * len(spread), spread], marker="o", capsize=3,
                linewidth=2.5 if ours else 1.2, label=name, color=colour,
            )  # fmt: skip
        axis.set_yscale("log")
        axis.set_xticks([1, 2, 3])
        axis.set_xlabel("depth")
        axis.set_ylabel("ms: median, up to p95")
        axis.set_title(
            f"walk from {'random nodes' if start == 'random' else 'the hub'}, limit {limit:,}"
        )
        axis.legend(fontsize=7)

    return panel


def _curves(x: str, label: str, title: str, **only: object) -> Panel:
    def panel(axis: Any, section: Section) -> None:
        rows = [row for row in section.rows if only.items() <= row.items() and "p50" in row]
        for name in dict.fromkeys(row["what"] for row in rows):
            chosen = [row for row in rows if row["what"] == name]
            (line,) = axis.plot(
                [row[x] for row in chosen], [row["p50"] for row in chosen], marker="o", label=name
            )
            axis.plot(
                [row[x] for row in chosen], [row["p95"] for row in chosen], linestyle=":",
                color=line.get_color(),
            )  # fmt: skip
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(label)
        axis.set_ylabel("ms: median (dotted: p95)")
        axis.set_title(title)
        axis.legend(fontsize=7)

    return panel


def _memory(axis: Any, section: Section) -> None:
    for name in dict.fromkeys(row["call"] for row in section.rows if row["budget"]):
        chosen = [row for row in section.rows if row["call"] == name]
        budgets = [row["budget"] for row in chosen]
        (line,) = axis.plot(
            budgets, [row["peak"] for row in chosen], marker="o", label=f"{name}, peak"
        )
        axis.plot(
            budgets, [row["after"] for row in chosen], linestyle=":", color=line.get_color(),
            label=f"{name}, after",
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_xlabel("budget")
    axis.set_ylabel("MB over a no-op")
    axis.set_title("a backend's own memory, 4 rounds from the hub")
    axis.legend(fontsize=7)


def _late(axis: Any, section: Section) -> None:
    for name in dict.fromkeys(row["call"] for row in section.rows):
        chosen = [row for row in section.rows if row["call"] == name and row["n"]]
        axis.plot(
            [row["timeout"] for row in chosen],
            [row["max"] for row in chosen],
            marker="o",
            label=name,
        )
    axis.axhline(250, color="red", linestyle="--", linewidth=1)
    axis.set_xscale("log")
    axis.set_xlabel("statement_timeout, ms")
    axis.set_ylabel("ms past it, at worst")
    axis.set_title("time-outs, greatest budget and cap from the hub")
    axis.legend(fontsize=7)


PANELS: dict[str, tuple[Panel, ...]] = {
    "walk": (
        _by_depth("random", 100),
        _by_depth("hub", 100),
        _by_depth("random", 1_000_000),
        _by_depth("hub", 1_000_000),
    ),
    "growth": (
        _curves("nodes", "nodes (four edges each)", "growth, from random nodes", start="random"),
        _curves("nodes", "nodes (four edges each)", "growth, from the hub", start="hub"),
    ),
    "similar": tuple(
        _curves("names", "names", f"one probe, similarity {least}", threshold=least)
        for least in (0.6, 0.3)
    ),
    "names": tuple(
        _curves("names", "names", f"names that are {kind}, similarity 0.6", of=kind)
        for kind in ("company-like", "common words")
    ),
    "memory": (_memory,),
    "cancelling": (_late,),
}
