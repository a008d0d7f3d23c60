"""The iterated join: out from one node, a round at a time, to a wanted type.

A breadth-first search (Moore 1959) whose rounds examine at most a budget of
candidates, the best first; what the budget puts off waits its turn and is never
dropped. Each path's score is the product of its links' weights.
"""

from __future__ import annotations

from time import perf_counter

from graphalgo.engine import arguments
from graphalgo.engine.judging import judged_links
from graphalgo.engine.ordering import smallest
from graphalgo.engine.rows import JoinRow
from graphalgo.engine.seed import resolve_seed

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    from graphalgo.engine.protocol import Moment, Store

    # A way to reach a node, so made that the better of two is the smaller:
    # -score, hops, place of the link kind, node, node it comes from, weight,
    # reason. Parallel edges of one weight stay one candidate; which of them the
    # path names is settled when the path is told.
    Candidate: TypeAlias = tuple[float, int, int, int, int, float, str]

EDGE, SHARED_KEY, SIMILAR, JUDGED = range(4)

# Beyond twice what can still be examined, and this many, new candidates are cut
# back. The slack keeps the cutting to well under a tenth of the round's work.
PRUNE_SLACK = 20_000
BLOCK_ROWS = 2_000
NAMED_CAPPED = 10


def iterated_join(
    store: Store,
    seed: str,
    target_type: str,
    max_rounds: int = 3,
    links: Sequence[str] = arguments.DEFAULT_LINKS,
    similarity: float = 0.6,
    budget: int = 500,
    degree_cap: int = 100,
    relations: Sequence[str] | None = None,
    as_of: Moment | None = None,
    limit: int = 100,
) -> list[JoinRow]:
    """Walk out from one node until a round reaches nodes of the target type.

    Parameters
    ----------
    store : Store
        What the caller sees.
    seed : str
        A handle, a soft node's `kind/name`, or a key that names exactly one node.
    target_type : str
        A registered entity type.
    max_rounds : int
        From 1 to 5.
    links : list of str
        Some of `edge`, `shared_key`, `similar`, `judged`.
    similarity : float
        The least trigram similarity of a `similar` link, above 0 and at most 1;
        compared as a real.
    budget : int
        The most candidates that one round examines, from 1 to 100,000. The rest
        are put off to the next round.
    degree_cap : int
        The most links of one kind out of one node, the strongest, from 1 to
        100,000.
    relations : list of str, optional
        Walk only edges of these relations.
    as_of : moment, optional
        Walk the edges that held then. Keys and names have no past.
    limit : int
        The most rows, at least 1.

    Returns
    -------
    list of JoinRow
        The nodes of the target type that the first successful round examined, the
        best score first; or one row with `resolved` false and the reason.

    Raises
    ------
    InvalidValue
        An argument is null or out of its range (22023).
    UnknownName
        The target type or a relation is not declared (42704).
    NotFound, Ambiguous
        The seed names no node (P0002), or several (21000).
    MissingSetting, InvalidJudge
        `judged` is asked for and no judge is set (55000), or it cannot be called
        (42883).

    Notes
    -----
    A round with a frontier of f nodes and k link kinds takes at most f * k *
    degree_cap links; at most budget * (rounds left) candidates are kept with
    their paths, of the others only their ids.
    """
    with store.reading():
        search = Search(
            store, seed, target_type, max_rounds, links, similarity, budget, degree_cap,
            relations, as_of, limit,
        )  # fmt: skip
        search.run()
        return search.rows()


def iterated_join_trace(
    store: Store,
    seed: str,
    target_type: str,
    max_rounds: int = 3,
    links: Sequence[str] = arguments.DEFAULT_LINKS,
    similarity: float = 0.6,
    budget: int = 500,
    degree_cap: int = 100,
    relations: Sequence[str] | None = None,
    as_of: Moment | None = None,
    limit: int = 100,
) -> dict[str, Any]:
    """Return the account of the walk that `iterated_join` makes of the same arguments.

    Returns
    -------
    dict
        `seed` (node_id, handle, key), `target_type`, `links`, `rounds`, and how it
        ended: `resolved`, `reason`, `examined`, `deferred`, `answers`. Each round
        tells its `frontier` (a number of nodes), `candidates` by link kind (links
        within the cap that lead to nodes not yet examined), `examined`,
        `deferred`, `capped` (the frontier nodes that the cap cut; the handles of
        the first ten by id in `capped_nodes`) and `milliseconds`.

    Raises
    ------
    GraphAlgoError
        As `iterated_join` does.
    """
    with store.reading():
        search = Search(
            store, seed, target_type, max_rounds, links, similarity, budget, degree_cap,
            relations, as_of, limit,
        )  # fmt: skip
        search.run()
        return search.account()


class Search:
    """One iterated join: its arguments, checked, and what it has reached so far.

    The parameters are those of :func:`iterated_join`.
    """

    def __init__(
        self,
        store: Store,
        seed: str,
        target_type: str,
        max_rounds: int,
        links: Sequence[str],
        similarity: float,
        budget: int,
        degree_cap: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
        limit: int,
    ) -> None:
        whole = arguments.whole_number
        self.store = store
        self.max_rounds = whole("p_max_rounds", max_rounds, 1, arguments.MAX_ROUNDS, 3)
        self.budget = whole("p_budget", budget, 1, arguments.MAX_BUDGET, 500)
        self.degree_cap = whole("p_degree_cap", degree_cap, 1, arguments.MAX_DEGREE_CAP, 100)
        self.limit = whole("p_limit", limit, 1, arguments.MAX_INTEGER, 100)
        self.similarity = arguments.threshold("p_similarity", similarity)
        self.links = arguments.link_kinds(links)
        self.target_type = arguments.declared_type(target_type, store.entity_types())
        self.relations = (
            None
            if relations is None
            else arguments.declared_relations(relations, store.relation_names())
        )
        self.as_of = as_of
        if "judged" in self.links:
            store.check_judge()
        self.seed = resolve_seed(store, "p_seed", seed, as_of)

        self.frontier: list[int] = [self.seed]
        # How each examined node was reached; the seed by nothing.
        self.reached: dict[int, Candidate | None] = {self.seed: None}
        # Deferred nodes in the order they will be examined, and their best paths.
        self.waiting: list[int] = []
        self.waiting_paths: dict[int, Candidate] = {}
        # Deferred nodes whose turn lies past the last round: only counted.
        self.out_of_reach: set[int] = set()
        self.round = 0
        self.examined = 0
        self.answers: list[Candidate] = []
        self.rounds: list[dict[str, Any]] = []

    @property
    def deferred(self) -> int:
        """How many nodes wait to be examined."""
        return len(self.waiting) + len(self.out_of_reach)

    def run(self) -> None:
        """Run rounds until one reaches the target type, nothing is left, or the last is done."""
        while self.round < self.max_rounds and not self.answers:
            self.round += 1
            started = perf_counter()
            expansion = Expansion(self)
            expansion.run()
            taken = self._examine(expansion)
            self.rounds.append(
                {
                    "round": self.round,
                    "frontier": expansion.size,
                    "candidates": expansion.counts,
                    "examined": taken,
                    "deferred": self.deferred,
                    "capped": len(expansion.capped),
                    "capped_nodes": sorted(expansion.capped)[:NAMED_CAPPED],
                    "milliseconds": round((perf_counter() - started) * 1000, 3),
                }
            )
            if not taken:
                return

    def _examine(self, expansion: Expansion) -> int:
        """Take the next budget of candidates, the deferred first; return how many."""
        for candidate in expansion.ordered():
            self.waiting.append(candidate[3])
            self.waiting_paths[candidate[3]] = candidate
        self.out_of_reach |= expansion.overflow
        self.frontier = self.waiting[: self.budget]
        del self.waiting[: self.budget]
        for node in self.frontier:
            self.reached[node] = self.waiting_paths.pop(node)
        self.examined += len(self.frontier)
        hits = self.store.of_type(self.frontier, self.target_type)
        self.answers = smallest(
            (path for node in hits if (path := self.reached[node]) is not None),
            self.limit,
            self.store.check_interrupts,
        )
        return len(self.frontier)

    def rows(self) -> list[JoinRow]:
        """Return the answer's rows."""
        if not self.answers:
            return [
                JoinRow(
                    False, self.round, None, None, None, None, None, None, None, None,
                    self.deferred, self.examined, self.reason(),
                )
            ]  # fmt: skip
        rows: list[JoinRow] = []
        for start in range(0, len(self.answers), BLOCK_ROWS):
            self.store.check_interrupts()
            rows += self._answer_rows(self.answers[start : start + BLOCK_ROWS])
        return rows

    def reason(self) -> str | None:
        """Return why nothing was reached, or None where something was."""
        if self.answers:
            return None
        if not self.frontier:
            return "exhausted"
        return f"max_rounds ({self.deferred} candidates still deferred)"

    def account(self) -> dict[str, Any]:
        """Return the trace."""
        named = {node for entry in self.rounds for node in entry["capped_nodes"]}
        infos = self.store.describe(sorted(named | {self.seed}))
        rounds = [
            {**entry, "capped_nodes": [infos[node][0] for node in entry["capped_nodes"]]}
            for entry in self.rounds
        ]
        handle, key, _, _ = infos[self.seed]
        return {
            "seed": {"node_id": self.seed, "handle": handle, "key": key},
            "target_type": self.target_type,
            "links": list(self.links),
            "rounds": rounds,
            "resolved": bool(self.answers),
            "reason": self.reason(),
            "examined": self.examined,
            "deferred": self.deferred,
            "answers": len(self.answers),
        }

    def _answer_rows(self, answers: Sequence[Candidate]) -> Iterator[JoinRow]:
        infos = self.store.describe_answers([candidate[3] for candidate in answers])
        paths = [self._path(candidate) for candidate in answers]
        details = self._details({hop for path in paths for hop in path})
        for candidate, path in zip(answers, paths, strict=True):
            handle, key, entity_type, summary = infos[candidate[3]]
            yield JoinRow(
                True, self.round, candidate[1], candidate[3], handle, key, entity_type, summary,
                -candidate[0], [details[hop] for hop in path], self.deferred, self.examined, None,
            )  # fmt: skip

    def _path(self, candidate: Candidate) -> list[Candidate]:
        path: list[Candidate] = []
        hop: Candidate | None = candidate
        while hop is not None:
            path.append(hop)
            hop = self.reached[hop[4]]
        return path[::-1]

    def _details(self, hops: Iterable[Candidate]) -> dict[Candidate, dict[str, Any]]:
        """Return what a path tells of each hop, asking the store once a link kind."""
        kinds: dict[int, list[Candidate]] = {EDGE: [], SHARED_KEY: [], SIMILAR: [], JUDGED: []}
        for hop in hops:
            kinds[hop[2]].append(hop)
        told: dict[Candidate, dict[str, Any]] = {}
        edges = kinds[EDGE]
        found = self.store.edge_details(
            [(hop[4], hop[3], hop[5]) for hop in edges], self.relations, self.as_of
        )
        for hop, (relation, direction) in zip(edges, found, strict=True):
            told[hop] = {**_hop("edge", hop), "relation": relation, "direction": direction}
        shared = kinds[SHARED_KEY]
        keys = self.store.shared_key_details([(hop[4], hop[3]) for hop in shared])
        for hop, key in zip(shared, keys, strict=True):
            told[hop] = {**_hop("shared_key", hop), "key": key}
        similar = kinds[SIMILAR]
        names = self.store.similar_details([(hop[4], hop[3]) for hop in similar])
        for hop, pair in zip(similar, names, strict=True):
            told[hop] = {**_hop("similar", hop), "names": list(pair)}
        for hop in kinds[JUDGED]:
            told[hop] = {**_hop("judged", hop), "reason": hop[6]}
        return told


class Expansion:
    """One round's new candidates: the links out of the frontier, the best for each node.

    Only as many can still be examined as the budget allows in the rounds that
    are left. So where there are more, the best are kept and the others' ids go to
    `overflow`; a node comes back from there if a better path to it turns up in
    this round.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.size = len(search.frontier)
        self.counts = dict.fromkeys(search.links, 0)
        self.capped: set[int] = set()
        rounds_left = search.max_rounds - search.round + 1
        self.room = max(0, search.budget * rounds_left - len(search.waiting))
        self.fresh: dict[int, Candidate] = {}
        self.overflow: set[int] = set()

    def run(self) -> None:
        """Follow every asked link kind out of the frontier."""
        search = self.search
        store, frontier = search.store, search.frontier
        limit = search.degree_cap + 1
        if "edge" in search.links:
            for block in store.edge_links(frontier, limit, search.relations, search.as_of):
                self._take("edge", EDGE, *block)
        if "shared_key" in search.links:
            for block in store.shared_key_links(frontier, limit):
                self._take("shared_key", SHARED_KEY, *block)
        if "similar" in search.links:
            for block in store.similar_links(frontier, search.similarity, limit):
                self._take("similar", SIMILAR, *block)
        if "judged" in search.links:
            for judged in judged_links(store, frontier, limit, search.as_of):
                self._take("judged", JUDGED, *judged)

    def ordered(self) -> list[Candidate]:
        """Return the candidates that can still be examined, in order; the others overflow."""
        best = smallest(self.fresh.values(), self.room, self.search.store.check_interrupts)
        if len(best) < len(self.fresh) or self.overflow:
            kept = {candidate[3] for candidate in best}
            self.overflow.update(node for node in self.fresh if node not in kept)
            # A better path may have brought back what was cut earlier in the round.
            self.overflow -= kept
        return best

    def _take(
        self,
        kind: str,
        place: int,
        sources: Sequence[int],
        neighbours: Sequence[int],
        weights: Sequence[float],
        reasons: Sequence[str] | None = None,
    ) -> None:
        """Take one block of links."""
        search = self.search
        reached, out_of_reach, waiting = search.reached, search.out_of_reach, search.waiting_paths
        fresh, cap = self.fresh, search.degree_cap
        source = None
        left = hops = count = 0
        score = 1.0
        for index, (from_node, node, weight) in enumerate(
            zip(sources, neighbours, weights, strict=True)
        ):
            if from_node != source:
                source, left = from_node, cap
                before = reached[from_node]
                score, hops = (1.0, 1) if before is None else (-before[0], before[1] + 1)
            if not left:
                self.capped.add(from_node)
                continue
            left -= 1
            if node in reached:
                continue
            count += 1
            if node in out_of_reach:
                continue
            better_than = fresh.get(node) or waiting.get(node)
            negative = -(score * weight)
            if better_than is not None and negative > better_than[0]:
                continue
            reason = "" if reasons is None else reasons[index]
            candidate = (negative, hops, place, node, from_node, weight, reason)
            if better_than is None:
                fresh[node] = candidate
            elif candidate < better_than:
                (fresh if node in fresh else waiting)[node] = candidate
        self.counts[kind] += count
        if len(fresh) > 2 * self.room + PRUNE_SLACK:
            self._prune()

    def _prune(self) -> None:
        best = self.ordered()
        self.fresh = {candidate[3]: candidate for candidate in best}


def _hop(kind: str, hop: Candidate) -> dict[str, Any]:
    return {"link": kind, "from": hop[4], "to": hop[3], "weight": hop[5]}
