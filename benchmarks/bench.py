"""What every benchmark is given: sizes, graphs, databases, and how to show progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from benchmarks.generators import Graph
from benchmarks.server import Server, generated


@dataclass(frozen=True)
class Profile:
    """How much is measured.

    Attributes
    ----------
    nodes, edges : int
        The power-law graph's sizes.
    seeds, few_seeds : int
        From how many random nodes; `few_seeds` where one call may take seconds.
    repeats : int
        How often what is called from one node only is measured.
    growth : tuple of int
        Sizes of the graphs whose latencies make the curves (edges are four times as many).
    names : tuple of int
        Numbers of names for `similar`.
    probes : int
        How many names are looked for.
    twin_nodes : int
        The size of the graph for the twin and networkx.
    history_nodes, history_periods : int
        The graph with a past, and how much past an edge has.
    fresh : int
        How many fresh backends.
    timeouts : tuple of int
        In milliseconds.
    timeout_repeats : int
        How often each.
    phases : int
        At how many moments of its whole time a call is cut off.
    shape_nodes : int
        The size of the other shapes.
    budgets : tuple of int
        For which the backend's memory is told.
    judged_at_full_size : bool
        Whether the promises made for a million nodes are judged.
    """

    nodes: int
    edges: int
    seeds: int
    few_seeds: int
    repeats: int
    growth: tuple[int, ...]
    names: tuple[int, ...]
    probes: int
    twin_nodes: int
    history_nodes: int
    history_periods: int
    fresh: int
    timeouts: tuple[int, ...]
    timeout_repeats: int
    phases: int
    shape_nodes: int
    budgets: tuple[int, ...]
    judged_at_full_size: bool


PROFILES = {
    "small": Profile(
        nodes=20_000, edges=80_000, seeds=12, few_seeds=5, repeats=20,
        growth=(2_000, 6_000, 20_000), names=(2_000, 10_000, 20_000), probes=10,
        twin_nodes=5_000, history_nodes=1_000, history_periods=100, fresh=20,
        timeouts=(50, 200, 500), timeout_repeats=2, phases=8, shape_nodes=10_000,
        budgets=(100, 500, 5_000, 100_000), judged_at_full_size=False,
    ),
    "medium": Profile(
        nodes=100_000, edges=400_000, seeds=100, few_seeds=20, repeats=100,
        growth=(5_000, 20_000, 100_000), names=(10_000, 100_000), probes=20,
        twin_nodes=20_000, history_nodes=5_000, history_periods=100, fresh=30,
        timeouts=(50, 100, 200, 500, 1_000), timeout_repeats=5, phases=12, shape_nodes=50_000,
        budgets=(100, 500, 1_000, 5_000, 20_000, 100_000), judged_at_full_size=False,
    ),
    "large": Profile(
        nodes=1_000_000, edges=4_000_000, seeds=100, few_seeds=20, repeats=100,
        growth=(10_000, 100_000, 1_000_000), names=(10_000, 100_000, 1_000_000), probes=20,
        twin_nodes=100_000, history_nodes=10_000, history_periods=100, fresh=30,
        timeouts=(50, 100, 200, 500, 1_000, 2_000, 5_000), timeout_repeats=5, phases=12,
        shape_nodes=100_000,
        budgets=(100, 500, 1_000, 5_000, 20_000, 100_000), judged_at_full_size=True,
    ),
}  # fmt: skip


class Bench:
    """One run's graphs and databases, made when first asked for.

    Parameters
    ----------
    profile : Profile
        How much is measured.
    seed : int
        Of every generator and every choice.
    server : Server
        Where.
    console : rich.console.Console
        For progress.
    """

    def __init__(self, profile: Profile, seed: int, server: Server, console: Console) -> None:
        self.profile = profile
        self.seed = seed
        self.server = server
        self.console = console
        self._graphs: dict[tuple[Any, ...], Graph] = {}
        self._databases: dict[tuple[Any, ...], str] = {}

    def graph(self, kind: str, *sizes: int, history: int = 0, organisations: int = 0) -> Graph:
        """Give a graph by its generator's name and its sizes."""
        key = (kind, sizes, history, organisations)
        if key not in self._graphs:
            with self.progress(f"generating {kind} {sizes}", None):
                graph = generated(kind, *sizes, seed=self.seed)
            graph.history = history
            graph.organisations = organisations
            self._graphs[key] = graph
        return self._graphs[key]

    def main_graph(self) -> Graph:
        """Give the power-law graph of the profile's size."""
        return self.graph("power_law", self.profile.nodes, self.profile.edges)

    def database(self, graph: Graph) -> str:
        """Give the DSN of a database that holds the graph."""
        key = (
            graph.kind, graph.node_count, graph.edge_count, graph.history, graph.organisations,
        )  # fmt: skip
        if key not in self._databases:
            with self._bar() as bar:
                task = bar.add_task(f"loading {graph.kind} {graph.node_count:,}", total=1)

                def report(what: str, done: int, total: int) -> None:
                    text = f"loading {graph.kind} {graph.node_count:,}: {what}"
                    bar.update(task, description=text, completed=done, total=total)

                self._databases[key] = self.server.database(graph, report)
        return self._databases[key]

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Callable[[], None]]:
        """Show a bar; what is handed over moves it on by one."""
        with self._bar() as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)

    def _bar(self) -> Progress:
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
