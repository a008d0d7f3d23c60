"""What a picture shows: nodes in layers, and the links between them.

A picture knows nothing of how it is drawn: :mod:`graphalgo.rendering.svg` and
:mod:`graphalgo.rendering.dot` draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphalgo.engine.seed import resolve_seed
from graphalgo.rendering.text import number, visible

if TYPE_CHECKING:
    from graphalgo.engine.protocol import Moment, NodeInfo, Store

MOST_EDGES = 400

LINK_NAMES = {
    "edge": "edge",
    "shared_key": "shared key",
    "similar": "similar names",
    "judged": "judged",
}


@dataclass(slots=True)
class PictureNode:
    """A node of a picture.

    Attributes
    ----------
    id : int
        The node's id.
    layer : int
        How many links it is from the start.
    title, subtitle, tooltip : str
        What is written on it, below that, and where the pointer rests.
    role : str
        ``start``, ``answer``, ``between`` (on the way to an answer) or ``reached``.
    soft : bool
        Whether it is a soft node.
    """

    id: int
    layer: int
    title: str
    subtitle: str
    tooltip: str
    role: str = "between"
    soft: bool = False


@dataclass(slots=True)
class PictureLink:
    """A link of a picture.

    Attributes
    ----------
    source, target : int
        Ids of nodes of the picture; an edge points from source to target.
    kind : str
        ``edge``, ``shared_key``, ``similar`` or ``judged``; only an edge has a direction.
    label, tooltip : str
        What is written on it before its weight, and where the pointer rests.
    weight : float
        The link's weight.
    """

    source: int
    target: int
    kind: str
    label: str
    tooltip: str
    weight: float


@dataclass(slots=True)
class Picture:
    """Nodes and links, and what is written above and below them.

    Attributes
    ----------
    title : str
        What was asked, and what came of it.
    nodes : list of PictureNode
        In the order in which a layer shows them.
    links : list of PictureLink
        Between nodes of the list; none leads to itself.
    note : str or None
        What the picture leaves out.
    """

    title: str
    nodes: list[PictureNode] = field(default_factory=list)
    links: list[PictureLink] = field(default_factory=list)
    note: str | None = None


def picture_of_join(
    store: Store,
    seed: str,
    target_type: str,
    rows: Sequence[Mapping[str, Any]],
    as_of: Moment | None = None,
) -> Picture:
    """Show the paths of an iterated join's answer.

    Parameters
    ----------
    store : Store
        Where the nodes on the way are described.
    seed, target_type : str
        What was asked.
    rows : sequence of mappings
        The answer's rows.
    as_of : moment, optional
        As it was asked.

    Returns
    -------
    Picture
        The seed, the answers and what lies between; the seed alone where the join
        did not resolve.
    """
    with store.reading():
        start = resolve_seed(store, "p_seed", seed, as_of)
        layers = {start: 0}
        links: dict[tuple[Any, ...], PictureLink] = {}
        for row in rows:
            for layer, hop in enumerate(row["path"] or (), start=1):
                layers.setdefault(hop["to"], layer)
                link = _link_of_hop(hop)
                links.setdefault((link.source, link.target, link.kind, link.label), link)
        infos = store.describe(list(layers))
    nodes = {node: _node(node, layer, infos[node]) for node, layer in layers.items()}
    nodes[start].role = "start"
    for row in rows:
        if row["node_id"] is not None:
            answer = nodes[row["node_id"]]
            answer.role = "answer"
            answer.tooltip += f"\nscore {number(row['score'])}"
    first = rows[0]
    outcome = (
        f"resolved in round {first['round']}, {len(rows)} found"
        if first["resolved"]
        else f"not resolved: {first['reason']}"
    )
    title = visible(f"From {seed} to {target_type}: {outcome}")
    return Picture(title, list(nodes.values()), list(links.values()))


def picture_of_walk(
    store: Store,
    key: str,
    depth: int,
    rows: Sequence[Mapping[str, Any]],
    *,
    relation: str | None = None,
    degree_cap: int = 100,
    as_of: Moment | None = None,
) -> Picture:
    """Show the neighbourhood that a walk reached, with the edges between its nodes.

    Parameters
    ----------
    store : Store
        Where the edges are read.
    key, depth, relation, degree_cap, as_of
        What was asked.
    rows : sequence of mappings
        The answer's rows.

    Returns
    -------
    Picture
        The start and every node of the answer; of the edges between them at most
        the `degree_cap` strongest of each node, and :data:`MOST_EDGES` in all.
    """
    with store.reading():
        start = resolve_seed(store, "p_key", key, as_of)
        layers = {start: 0} | {row["node_id"]: row["depth"] for row in rows}
        relations = None if relation is None else [relation]
        edges = _edges_between(store, layers, degree_cap, relations, as_of)
        infos = store.describe(list(layers))
    nodes = [_node(node, layer, infos[node]) for node, layer in layers.items()]
    nodes[0].role = "start"
    by_id = {node.id: node for node in nodes}
    for row in rows:
        node = by_id[row["node_id"]]
        node.role = "reached"
        node.tooltip += f"\nweight {number(row['weight'])}"
        if row["capped"]:
            node.tooltip += "\nthe degree cap cut what lies around it"
    kept = _most_telling(edges, layers)
    left_out = len(edges) - len(kept)
    title = f"Around {key}, {depth} {'hop' if depth == 1 else 'hops'}: {len(rows)} reached"
    note = f"{left_out} weaker edges are not shown" if left_out else None
    return Picture(visible(title), nodes, kept, note)


def _node(node: int, layer: int, info: NodeInfo) -> PictureNode:
    handle, key, entity_type, summary = info
    soft = entity_type is None
    title = (key if soft else summary or key) or handle
    kind = "soft node" if soft else entity_type
    lines = [f"{handle} ({kind})", f"key {key}" if key else None, summary]
    return PictureNode(
        id=node,
        layer=layer,
        title=visible(title),
        subtitle=visible(f"{handle} · {kind}"),
        tooltip="\n".join(visible(line) for line in lines if line),
        soft=soft,
    )


def _link_of_hop(hop: Mapping[str, Any]) -> PictureLink:
    kind = hop["link"]
    source, target = hop["from"], hop["to"]
    weight = number(hop["weight"])
    match kind:
        case "edge":
            if hop["direction"] == "in":
                source, target = target, source
            return _edge_link(source, target, hop["relation"], hop["weight"])
        case "shared_key":
            label, told = f"key {hop['key']}", f"both hold the key {hop['key']}"
        case "similar":
            first, second = hop["names"]
            label, told = "similar", f"{first} ~ {second}"
        case _:
            label, told = "judged", hop["reason"] or "the judge gave no reason"
    return PictureLink(
        source,
        target,
        kind,
        visible(label),
        visible(f"{LINK_NAMES[kind]}: {told} (weight {weight})"),
        hop["weight"],
    )


def _edge_link(source: int, target: int, relation: str, weight: float) -> PictureLink:
    shown = number(weight)
    return PictureLink(
        source,
        target,
        "edge",
        visible(relation),
        visible(f"edge: {relation} (weight {shown})"),
        weight,
    )


def _edges_between(
    store: Store,
    nodes: Iterable[int],
    degree_cap: int,
    relations: Sequence[str] | None,
    as_of: Moment | None,
) -> list[PictureLink]:
    """Read the edges with both ends among the nodes, each once, whichever end finds it."""
    ids = list(nodes)
    among = set(ids)
    hops: dict[str, list[tuple[int, int, float]]] = {}
    for froms, tos, weights, names in store.relation_links(ids, degree_cap, relations, as_of):
        for before, after, weight, name in zip(froms, tos, weights, names, strict=True):
            if after in among and after != before:
                hops.setdefault(name, []).append((before, after, weight))
    edges: dict[tuple[int, int, str, float], PictureLink] = {}
    for name, between in hops.items():
        details = store.edge_details(between, [name], as_of)
        for (before, after, weight), (_, direction) in zip(between, details, strict=True):
            source, target = (before, after) if direction == "out" else (after, before)
            link = _edge_link(source, target, name, weight)
            edges.setdefault((source, target, name, weight), link)
    return list(edges.values())


def _most_telling(edges: list[PictureLink], layers: Mapping[int, int]) -> list[PictureLink]:
    """Cut the edges to what a picture can hold: first each node's best to the layer before."""
    if len(edges) <= MOST_EDGES:
        return edges
    strongest = sorted(edges, key=lambda link: -link.weight)
    reached: set[int] = set()
    first, rest = [], []
    for link in strongest:
        outer = max(link.source, link.target, key=lambda node: layers[node])
        if layers[link.source] != layers[link.target] and outer not in reached:
            reached.add(outer)
            first.append(link)
        else:
            rest.append(link)
    return first + rest[: max(0, MOST_EDGES - len(first))]
