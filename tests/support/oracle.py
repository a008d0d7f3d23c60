"""The iterated join and the walk, written a second time straight from their rules.

Plain lists and whole sorts; nothing is cut short, nothing is shared with the
engine but the similarity of two texts. Slow and simple, for small graphs in the
plain form, whose keys are folded already.
"""

from __future__ import annotations

from datetime import UTC, datetime
from struct import pack, unpack
from typing import Any, NamedTuple

from graphalgo.engine.trigram import similarity as trigram_similarity

LINK_ORDER = ("edge", "shared_key", "similar", "judged")
KIND_ORDER = ("canonical", "short", "alias")


def as_real(value: float) -> float:
    """The nearest real, as a double."""
    nearest: float = unpack("<f", pack("<f", value))[0]
    return nearest


def product(weights: list[float]) -> float:
    """The weights multiplied as doubles, in their order."""
    result = 1.0
    for weight in weights:
        result = result * weight
    return result


class Link(NamedTuple):
    """One hop. `relation`, `direction` (0 out, 1 in) and `edge_id` are an edge's."""

    kind: str
    start: int
    end: int
    weight: float
    relation: str = ""
    direction: int = 0
    edge_id: int = 0
    told: Any = None

    def strength(self) -> tuple[Any, ...]:
        """The stronger link is the smaller."""
        return (-self.weight, self.end, self.relation, self.direction, self.edge_id)

    def shown(self) -> dict[str, Any]:
        """The hop as a path tells it."""
        hop = {"link": self.kind, "from": self.start, "to": self.end, "weight": self.weight}
        if self.kind == "edge":
            return {**hop, "relation": self.relation, "direction": ("out", "in")[self.direction]}
        if self.kind == "similar":
            return {**hop, "names": list(self.told)}
        return {**hop, ("key" if self.kind == "shared_key" else "reason"): self.told}


class Oracle:
    """One graph, and what the two algorithms answer on it."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.nodes = {node["id"]: node for node in graph["nodes"]}
        self.prefixes = {t["name"]: t["handle_prefix"] for t in graph["entity_types"]}
        self.edges = graph["edges"]
        self.verdicts = graph.get("verdicts", [])
        self.distinct = {(pair["node_a"], pair["node_b"]) for pair in graph.get("distinct", [])}
        self.keys: dict[int, dict[str, tuple[str, bool]]] = {node: {} for node in self.nodes}
        for node in graph["nodes"]:
            if node["entity_type"] is None:
                self.keys[node["id"]][node["soft_name"]] = ("alias", True)
        for key in graph["keys"]:
            # A node holds each key once, the first that it was given.
            self.keys[key["node_id"]].setdefault(key["key"], (key["kind"], key["is_name"]))

    # Links.

    def retired(self, node: int) -> bool:
        return self.nodes[node].get("retired_at") is not None

    def held_keys(self, node: int) -> dict[str, bool]:
        """The keys that find a node now, and whether each is a name."""
        if self.retired(node):
            return {}
        return {key: is_name for key, (_, is_name) in self.keys[node].items()}

    def holds(self, edge: dict[str, Any], moment: datetime) -> bool:
        """Whether an edge held at a moment: within its period, before its ends retired."""
        starts, ends = edge.get("valid_from"), [edge.get("valid_to")]
        ends += [self.nodes[edge[end]].get("retired_at") for end in ("src_id", "dst_id")]
        return (starts is None or _moment(starts) <= moment) and all(
            end is None or _moment(end) > moment for end in ends
        )

    def edge_links(self, node: int, relations: list[str] | None, as_of: str | None) -> list[Link]:
        """The links of a node over its edges, a self-loop once, the strongest first."""
        moment = datetime.now(UTC) if as_of is None else _moment(as_of)
        links = []
        for edge in self.edges:
            if not self.holds(edge, moment):
                continue
            if relations is not None and edge["relation"] not in relations:
                continue
            src, dst, weight = edge["src_id"], edge["dst_id"], as_real(edge["weight"])
            if src == node:
                links.append(Link("edge", node, dst, weight, edge["relation"], 0, edge["id"]))
            elif dst == node:
                links.append(Link("edge", node, src, weight, edge["relation"], 1, edge["id"]))
        return sorted(links, key=Link.strength)

    def shared_key_links(self, node: int) -> list[Link]:
        """One link a neighbour: the key with the fewest holders, then the least."""
        links = []
        mine = self.held_keys(node)
        for other in self.nodes:
            common = [key for key in self.held_keys(other) if key in mine]
            if other == node or not common:
                continue
            holders = {
                key: sum(key in self.held_keys(each) for each in self.nodes) for key in common
            }
            key = min(common, key=lambda key: (holders[key], key))
            links.append(Link("shared_key", node, other, as_real(1 / (holders[key] - 1)), told=key))
        return sorted(links, key=Link.strength)

    def similar_links(self, node: int, threshold: float) -> list[Link]:
        """One link a neighbour: the most similar pair of different names, then the least names."""
        links = []
        for other in self.nodes:
            if other == node or self.known_distinct(node, other):
                continue
            pairs = []
            for mine, mine_is_name in self.held_keys(node).items():
                for theirs, theirs_is_name in self.held_keys(other).items():
                    if mine_is_name and theirs_is_name and mine != theirs:
                        pairs.append((-trigram_similarity(mine, theirs), theirs, mine))
            pairs = [pair for pair in pairs if -pair[0] >= as_real(threshold)]
            if pairs:
                negative, theirs, mine = min(pairs)
                links.append(Link("similar", node, other, -negative, told=(mine, theirs)))
        return sorted(links, key=Link.strength)

    def known_distinct(self, node: int, other: int) -> bool:
        """Whether the two are recorded not to be the same."""
        return (min(node, other), max(node, other)) in self.distinct

    def judged_links(self, node: int) -> list[Link]:
        """What stored verdicts link; a verdict is seen if both its nodes are."""
        links = []
        for verdict in self.verdicts:
            pair = (verdict["node_a"], verdict["node_b"])
            if node not in pair or pair[0] == pair[1] or any(map(self.retired, pair)):
                continue
            confidence = as_real(verdict["confidence"])
            if 0 < confidence <= 1:
                other = pair[1] if pair[0] == node else pair[0]
                if self.known_distinct(node, other):
                    continue
                reason = verdict["reason"] or ""
                links.append(Link("judged", node, other, confidence, told=reason))
        return sorted(links, key=lambda link: (*link.strength(), link.told))

    # The iterated join.

    def iterated_join(
        self,
        seed: int,
        target_type: str,
        max_rounds: int,
        links: list[str],
        similarity: float,
        budget: int,
        degree_cap: int,
        relations: list[str] | None,
        as_of: str | None,
        limit: int,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows, and for each round its account."""
        kinds = {
            "edge": lambda node: self.edge_links(node, relations, as_of),
            "shared_key": self.shared_key_links,
            "similar": lambda node: self.similar_links(node, similarity),
            "judged": self.judged_links,
        }
        paths: dict[int, list[Link]] = {seed: []}
        frontier = [seed]
        waiting: list[int] = []
        ways: dict[int, list[Link]] = {}
        account: list[dict[str, Any]] = []
        for number in range(1, max_rounds + 1):
            candidates = []
            counts = dict.fromkeys((kind for kind in LINK_ORDER if kind in links), 0)
            capped = set()
            for node in frontier:
                for kind in counts:
                    every = kinds[kind](node)
                    if len(every) > degree_cap:
                        capped.add(node)
                    for link in every[:degree_cap]:
                        if link.end not in paths:
                            counts[kind] += 1
                            candidates.append([*paths[node], link])
            new = []
            for way in sorted(candidates, key=_rank):
                node = way[-1].end
                if node not in ways:
                    new.append(node)
                    ways[node] = way
                elif _rank(way) < _rank(ways[node]):
                    ways[node] = way
            queue = waiting + new
            examined, waiting = queue[:budget], queue[budget:]
            for node in examined:
                paths[node] = ways.pop(node)
            account.append(
                {"round": number, "frontier": len(frontier), "candidates": counts,
                 "examined": len(examined), "deferred": len(waiting), "capped": len(capped)}
            )  # fmt: skip
            frontier = examined
            totals = {"round": number, "deferred": len(waiting), "examined": len(paths) - 1}
            hits = [n for n in examined if self.nodes[n]["entity_type"] == target_type]
            if hits:
                hits.sort(key=lambda node: _rank(paths[node]))
                rows = [self._join_row(node, paths[node], totals) for node in hits[:limit]]
                return rows, account
            if not examined:
                break
        reason = (
            f"max_rounds ({len(waiting)} candidates still deferred)" if frontier else "exhausted"
        )
        return [{"resolved": False, **totals, "reason": reason}], account

    def _join_row(self, node: int, way: list[Link], totals: dict[str, int]) -> dict[str, Any]:
        return {
            "resolved": True,
            "hops": len(way),
            **self.shown(node),
            "score": product([link.weight for link in way]),
            "path": [link.shown() for link in way],
            **totals,
        }

    def shown(self, node: int) -> dict[str, Any]:
        """What a row tells of its node."""
        row = self.nodes[node]
        if row["entity_type"] is None:
            key = f"{row['claimed_kind']}/{row['soft_name']}"
            return {"node_id": node, "handle": f"soft-{node}", "key": key, "entity_type": None}
        ordered = sorted((KIND_ORDER.index(k), key) for key, (k, _) in self.keys[node].items())
        return {
            "node_id": node,
            "handle": f"{self.prefixes[row['entity_type']]}-{node}",
            "key": ordered[0][1] if ordered else None,
            "entity_type": row["entity_type"],
        }

    # The walk.

    def walk(
        self,
        start: int,
        depth: int,
        relation: str | None,
        degree_cap: int,
        limit: int,
        as_of: str | None,
    ) -> list[tuple[dict[str, Any], set[bool]]]:
        """Return the rows, each with what `capped` may be.

        Several ways of one length, weight and list of relations may lead to a
        node; the rules do not say which of them is the row's, so `capped` may be
        that of any.
        """
        relations = None if relation is None else [relation]
        every = {node: self.edge_links(node, relations, as_of) for node in self.nodes}
        over = {node for node, links in every.items() if len(links) > degree_cap}
        ways: dict[int, list[list[Link]]] = {start: [[]]}
        level = [start]
        rows = []
        for distance in range(1, depth + 1):
            longer: dict[int, list[list[Link]]] = {}
            for node in level:
                for link in every[node][:degree_cap]:
                    if link.end not in ways:
                        longer.setdefault(link.end, []).extend([*way, link] for way in ways[node])
            for node, arriving in longer.items():
                best = min(map(_walk_rank, arriving))
                tied = [way for way in arriving if _walk_rank(way) == best]
                expanded = {node} if distance < depth else set()
                capped = {
                    not over.isdisjoint(expanded | {link.start for link in way}) for way in tied
                }
                row = {"depth": distance, **self.shown(node), "path": best[1], "weight": -best[0]}
                rows.append((row, capped))
            ways.update(longer)
            level = list(longer)
        rows.sort(key=lambda row: _row_rank(row[0]))
        return rows[:limit]


def _rank(way: list[Link]) -> tuple[Any, ...]:
    """The better of two ways to examine a node is the smaller."""
    last = way[-1]
    return (
        -product([link.weight for link in way]),
        len(way),
        LINK_ORDER.index(last.kind),
        last.end,
        last.start,
        last.relation,
        last.direction,
        last.edge_id,
        last.told if last.kind == "judged" else "",
    )


def _walk_rank(way: list[Link]) -> tuple[float, list[str]]:
    return -product([link.weight for link in way]), [link.relation for link in way]


def _row_rank(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["depth"], -row["weight"], row["path"], row["node_id"]


def _moment(value: str) -> datetime:
    return datetime.fromisoformat(value)
