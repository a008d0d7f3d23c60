"""How soon a time-out stops the most expensive calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter

import psycopg

from benchmarks.bench import Bench
from benchmarks.generators import Graph
from benchmarks.measuring import Timings
from benchmarks.results import Bound, Section
from benchmarks.server import Connection, caller
from benchmarks.suite.calls import JOIN, NEVER_CUTS, WALK

GREATEST = 100_000
OVERSHOOT = 250.0
LINK_SETS: tuple[tuple[str, ...], ...] = (
    ("edge",),
    ("shared_key",),
    ("similar",),
    ("edge", "shared_key"),
    ("edge", "shared_key", "similar"),
    ("edge", "shared_key", "similar", "judged"),
)
JUDGE = "aiq.stored_link_judge"
# The calls that are cut off in every phase; one that takes longer than this many
# milliseconds is cut off in its beginning only.
SPREAD = ("join edge", "join edge+shared_key", "walk, depth 5")
LONGEST = 120_000


def run(bench: Bench) -> Section:
    """Let time-outs strike calls with the greatest budget and cap out of the largest hub."""
    section = Section(
        "cancelling", "milliseconds past statement_timeout (greatest budget and cap, largest hub)"
    )
    graph = bench.main_graph()
    connection = caller(bench.database(graph))
    connection.execute(f"set percolate.link_judge = '{JUDGE}'")
    worst_at_200 = worst = 0.0
    profile = bench.profile
    total = len(profile.timeouts) * (len(LINK_SETS) + 1)
    with bench.progress("time-outs", total) as advance:
        for timeout in profile.timeouts:
            for name, (text, given) in _calls(graph).items():
                late, finished = _overshoots(
                    connection, text, given, timeout, profile.timeout_repeats
                )
                section.add(late, call=name, timeout=timeout)
                section.rows[-1]["finished in time"] = finished
                if late.values:
                    worst = max(worst, late.maximum)
                    if timeout == 200:
                        worst_at_200 = max(worst_at_200, late.maximum)
                advance()
    spread = [name for name in _calls(graph) if name in SPREAD]
    with bench.progress("time-outs in every phase", len(spread) * profile.phases) as advance:
        for name in spread:
            text, given = _calls(graph)[name]
            late, whole = _in_every_phase(connection, text, given, profile.phases, advance)
            section.add(late, call=f"{name}, spread over all its time", timeout=whole)
            worst = max([worst, *late.values])
    section.columns.append("finished in time")
    section.bounds += [
        Bound(
            "statement_timeout = '200ms': until the error returns", 200 + worst_at_200, 450, "ms"
        ),
        Bound("any time-out: past its time, at worst", worst, OVERSHOOT, "ms"),
    ]
    section.note(
        "Different time-outs strike in different phases of the call. 'Spread over all its time':"
        " the call is let run to its end once, and then cut off at evenly spread moments of that"
        " time, told in the column timeout."
    )
    return section


def _calls(graph: Graph) -> dict[str, tuple[str, dict[str, object]]]:
    handle = graph.handle(graph.largest_hub())
    calls: dict[str, tuple[str, dict[str, object]]] = {}
    for links in LINK_SETS:
        given = {
            "handle": handle, "target": "grail", "rounds": 5, "links": list(links),
            "budget": GREATEST, "cap": GREATEST, "limit": NEVER_CUTS,
        }  # fmt: skip
        calls["join " + "+".join(links)] = (JOIN, given)
    walked = {"handle": handle, "depth": 5, "cap": GREATEST, "limit": NEVER_CUTS}
    calls["walk, depth 5"] = (WALK, walked)
    return calls


def _in_every_phase(
    connection: Connection,
    text: str,
    given: dict[str, object],
    phases: int,
    advance: Callable[[], None],
) -> tuple[Timings, int]:
    """Cut a call off at evenly spread moments of the time that the whole of it takes."""
    connection.execute(f"set statement_timeout = {LONGEST}")
    began = perf_counter()
    with suppress(psycopg.errors.QueryCanceled):
        connection.execute(text, given).fetchall()
    whole = (perf_counter() - began) * 1000
    late = Timings()
    for phase in range(phases):
        moment = max(1, int(whole * (phase + 0.5) / phases))
        late.values += _overshoots(connection, text, given, moment, 1)[0].values
        advance()
    return late, int(whole)


def _overshoots(
    connection: Connection, text: str, given: dict[str, object], timeout: int, repeats: int
) -> tuple[Timings, int]:
    late, finished = Timings(), 0
    for number in range(repeats):
        # A little more each time, so that the cut does not always fall on one spot.
        milliseconds = timeout + number * max(1, timeout // 20)
        # 200 ms is a promise of its own.
        milliseconds = timeout if timeout == 200 else milliseconds
        connection.execute(f"set statement_timeout = '{milliseconds}ms'")
        began = perf_counter()
        try:
            connection.execute(text, given).fetchall()
            finished += 1
        except psycopg.errors.QueryCanceled:
            late.add((perf_counter() - began) * 1000 - milliseconds)
    connection.execute("set statement_timeout = 0")
    return late, finished
