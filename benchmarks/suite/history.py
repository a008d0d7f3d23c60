"""History does not slow a walk: a hundred closed periods an edge beside none."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.measuring import interleaved
from benchmarks.results import Bound, Section
from benchmarks.suite.calls import CAP, JOIN, WALK, statement

MOST = 1.5


def run(bench: Bench) -> Section:
    """Measure the same calls on the same graph with a past and without."""
    profile = bench.profile
    sizes = (profile.history_nodes, 4 * profile.history_nodes)
    with_past = bench.graph("power_law", *sizes, history=profile.history_periods)
    without = bench.graph("power_law", *sizes)
    section = Section(
        "history", f"{profile.history_periods} closed periods an edge ({sizes[1]:,} edges) and none"
    )
    databases = {
        "with a past": bench.database(with_past),
        "without": bench.database(without),
    }
    hub = without.largest_hub()
    starts = {
        "random": without.random_nodes(profile.seeds, bench.seed + 3),
        "hub": [hub] * profile.repeats,
    }
    joined = {
        "target": "grail", "rounds": 3, "links": ["edge"], "budget": 500, "cap": CAP, "limit": 100,
    }  # fmt: skip
    calls = {
        "aiq.walk, depth 1": (WALK, {"depth": 1, "cap": CAP, "limit": 100}),
        "aiq.walk, depth 3": (WALK, {"depth": 3, "cap": CAP, "limit": 10_000}),
        "aiq.iterated_join, edges": (JOIN, joined),
    }
    for name, (text, given) in calls.items():
        for start, nodes in starts.items():
            cases = {
                past: statement(dsn, text, without, **given) for past, dsn in databases.items()
            }
            with bench.progress(f"history: {name}, {start}", len(nodes)) as advance:
                found = interleaved(cases, nodes, rounds=3, advance=advance)
            for past, timings in found.items():
                section.add(timings, found["without"], call=name, start=start, past=past)
            section.bounds.append(
                Bound(
                    f"{name}, {start}: with a past over without (medians)",
                    found["with a past"].p50 / found["without"].p50,
                    MOST,
                )
            )
    return section
