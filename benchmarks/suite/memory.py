"""What a join leaves and takes in a backend's own memory, shared buffers apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from benchmarks.bench import Bench
from benchmarks.generators import Graph
from benchmarks.results import Bound, Section
from benchmarks.server import Connection, caller
from benchmarks.suite.calls import CAP, JOIN, NEVER_CUTS, WALK
from benchmarks.suite.first_call import NOTHING

MOST = 30.0
ROUNDS = 4
DEFAULT_BUDGET = 500
PAGE = 4096
MEGABYTE = 1024 * 1024


def run(bench: Bench) -> Section:
    """Read /proc of fresh backends after a call, and while it runs."""
    section = Section("memory", "a backend's own memory over one that has run a no-op (MB)")
    section.columns = ["call", "budget", "after", "peak"]
    graph = bench.main_graph()
    dsn = bench.database(graph)
    with caller(dsn) as probe:
        if not _is_here(probe):
            section.note("The server is on another machine: its memory cannot be read.")
            return section
    calls = list(_calls(bench, graph))
    with bench.progress("memory", len(calls)) as advance:
        for name, budget, text, given in calls:
            after, peak = _grown(dsn, text, given)
            section.rows.append(
                {"call": name, "budget": budget, "after": round(after, 1), "peak": round(peak, 1)}
            )
            if budget == DEFAULT_BUDGET:
                bound = f"{name}, budget {budget}, {ROUNDS} rounds from the hub: "
                section.bounds.append(Bound(bound + "after the call", after, MOST, "MB"))
                section.bounds.append(Bound(bound + "at its peak", peak, MOST, "MB"))
            advance()
    section.note(
        "Resident memory that is neither a file's nor shared: 'after' the call, and at its 'peak',"
        " looked at every two milliseconds."
    )
    return section


def _calls(bench: Bench, graph: Graph) -> Iterator[tuple[str, int, str, dict[str, object]]]:
    handle = graph.handle(graph.largest_hub())
    for links in (["edge"], ["edge", "shared_key"]):
        for budget in bench.profile.budgets:
            given = {
                "handle": handle, "target": "grail", "rounds": ROUNDS, "links": links,
                "budget": budget, "cap": CAP, "limit": 100,
            }  # fmt: skip
            yield "join " + "+".join(links), budget, JOIN, given
    for limit in (100, NEVER_CUTS):
        walked = {"handle": handle, "depth": 3, "cap": CAP, "limit": limit}
        yield f"walk, depth 3, limit {limit:,}", 0, WALK, walked


def _is_here(connection: Connection) -> bool:
    return (Path("/proc") / str(connection.info.backend_pid) / "statm").exists()


def _grown(dsn: str, text: str, given: dict[str, object]) -> tuple[float, float]:
    """Give how much a fresh backend that has run a no-op grows by a call: after it, and at most."""
    with caller(dsn, "600s") as connection:
        connection.execute(NOTHING)
        process = Path("/proc") / str(connection.info.backend_pid)
        before = _own(process)
        with _watched(process) as seen:
            connection.execute(text, given).fetchall()
        return _own(process) - before, max(seen) - before


def _own(process: Path) -> float:
    """Give the resident memory that is neither a file's nor shared.

    "Private" would not do: a page of the shared buffers that only this process has touched yet is
    private to the kernel.
    """
    fields = (process / "statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * PAGE / MEGABYTE


@contextmanager
def _watched(process: Path) -> Iterator[list[float]]:
    seen = [_own(process)]
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.append(_own(process))
            sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()
