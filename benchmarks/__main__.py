"""``python -m benchmarks``: loads synthetic graphs, measures, and tells it in figures."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

import benchmarks.needs  # noqa: F401 - before what it looks for is imported
import graphalgo
from benchmarks import report
from benchmarks.bench import PROFILES, Bench
from benchmarks.results import Section, write
from benchmarks.server import CHECKOUT, Server
from benchmarks.suite import (
    cancelling,
    denied,
    first_call,
    growth,
    history,
    hub,
    join,
    map,
    memory,
    names,
    outside,
    query,
    row_security,
    shapes,
    similar,
    store,
    text,
    twin,
    walk,
)

SUITE: dict[str, Callable[[Bench], Section]] = {
    "walk": walk.run,
    "join": join.run,
    "hub": hub.run,
    "first_call": first_call.run,
    "cancelling": cancelling.run,
    "memory": memory.run,
    "history": history.run,
    "row_security": row_security.run,
    "denied": denied.run,
    "store": store.run,
    "similar": similar.run,
    "names": names.run,
    "text": text.run,
    "map": map.run,
    "query": query.run,
    "twin": twin.run,
    "growth": growth.run,
    "shapes": shapes.run,
    "outside": outside.run,
}


# They load graphs of their own.
NOT_WHEN_SMALL = ("row_security", "denied", "store", "names")


def main() -> int:
    """Run the benchmarks; 1 with ``--check`` where a promise is not kept."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 150)
    began = perf_counter()
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        console.print(
            f"The machine is busy already (load {load:.1f} on {cores} cores):"
            " figures will be greater and less steady than they are.",
            style="yellow",
        )
    server = Server(options.dsn, options.size, lambda text: console.print(text, style="dim"))
    bench = Bench(PROFILES[options.size], options.seed, server, console)
    sections: list[Section] = []
    stem = options.output / f"{options.size}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for name in options.only or _run_at(options.size):
        section = SUITE[name](bench)
        sections.append(section)
        report.show(console, section)
        # After each, so that a long run that is broken off leaves what it found.
        write(stem.with_suffix(".json"), _about(options, server, perf_counter() - began), sections)
    report.show_bounds(console, sections)
    console.print(f"\n{perf_counter() - began:.0f} s in all. {stem.with_suffix('.json')}")
    from benchmarks.plotting import draw  # noqa: PLC0415 - only where it is needed

    if draw(
        stem.with_suffix(".png"), f"graphalgo {graphalgo.__version__}, {options.size}", sections
    ):
        console.print(str(stem.with_suffix(".png")))
    missed = [
        bound for section in sections for bound in section.bounds if bound.judged and not bound.met
    ]
    if missed:
        console.print(f"[bold red]{len(missed)} promises are not kept.[/]")
    return 1 if missed and options.check else 0


def _run_at(size: str) -> list[str]:
    """Return the benchmarks that a run of that size consists of; a small one stays quick."""
    return [name for name in SUITE if size != "small" or name not in NOT_WHEN_SMALL]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=PROFILES, default="small", help="how much is measured")
    parser.add_argument(
        "--only", choices=SUITE, action="append", help="one benchmark; may be given several times"
    )
    parser.add_argument(
        "--dsn",
        help="a superuser's, instead of a private cluster; databases are made beside its own",
    )
    parser.add_argument("--seed", type=int, default=1, help="of every generator and choice")
    parser.add_argument(
        "--output", type=Path, default=CHECKOUT / "benchmarks" / "results", help="where to write"
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 where a promise is not kept"
    )
    return parser.parse_args()


def _about(options: argparse.Namespace, server: Server, seconds: float) -> dict[str, Any]:
    return {
        "graphalgo": graphalgo.__version__,
        "when": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "size": options.size,
        "seed": options.seed,
        "seconds": round(seconds),
        "postgresql": server.version,
        "settings": server.settings,
        "python": platform.python_version(),
        "machine": {
            "system": platform.system(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load": [round(load, 2) for load in os.getloadavg()],
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    sys.exit(main())
