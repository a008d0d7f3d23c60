"""What a user would write instead: the SQL and the networkx code beside which we measure.

The SQL peers answer a walk's columns in a walk's order under the same limit, and are written as
well as we can: the limit is taken before the details of the nodes are fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

# Where the peers read edges: `BARE` is a table of its own with nothing but the
# four columns and an index on each end, the best case for them; `VIEW` is the
# view that a caller of graphalgo reads, with its periods.
BARE, VIEW = "benchmark.edges", "aiq.edges_current"

_BOTH_WAYS = """
        select e.dst_id as neighbour, e.relation, e.weight
        from {edges} as e where e.src_id = r.node_id
        union all
        select e.src_id, e.relation, e.weight
        from {edges} as e where e.dst_id = r.node_id"""

_WALK = """
with recursive start as (
    select n.id from aiq.nodes_api as n where n.id = %(node)s
),
reached (node_id, depth, path, weight, capped) as (
    select s.id, 0, '{{}}'::text[] collate "C", 1::float8, false from start as s
    union all
    select l.neighbour, r.depth + 1, r.path || l.relation, r.weight * l.weight, {capped}
    from reached as r
    cross join lateral ({links}
    ) as l
    where r.depth < %(depth)s
),
best as (
    select distinct on (r.node_id) r.*
    from reached as r
    where r.node_id <> %(node)s
    order by r.node_id, r.depth, r.weight desc, r.path
),
first as (
    select b.* from best as b order by b.depth, b.weight desc, b.path, b.node_id limit %(limit)s
)
select
    f.depth, f.node_id, n.handle, n.key, n.entity_type, n.summary, f.path, f.weight, f.capped
from first as f
join aiq.nodes_api as n on n.id = f.node_id
order by f.depth, f.weight desc, f.path, f.node_id
"""


def plain(edges: str) -> str:
    """The plain recursive query: every edge of every node on the way."""
    return _WALK.format(links=_BOTH_WAYS.format(edges=edges), capped="false")


def capped(edges: str) -> str:
    """The same with a cap that keeps an arbitrary hundred edges a node.

    It does not find out whether it left any out: its `capped` is false.
    """
    links = f"""
        select * from ({_BOTH_WAYS.format(edges=edges)}
        ) as u limit %(cap)s"""
    return _WALK.format(links=links, capped="false")


def capped_and_told(edges: str) -> str:
    """The capped query that also answers what `capped` says."""
    links = f"""
        select u.*, count(*) over () > %(cap)s as more from (
            select * from ({_BOTH_WAYS.format(edges=edges)}
            ) as v limit %(cap)s + 1
        ) as u limit %(cap)s"""
    return _WALK.format(links=links, capped="r.capped or l.more")


def capped_strongest() -> str:
    """The capped query of someone who knows the indexes of graphalgo and keeps the strongest."""
    halves = "\n            union all".join(
        f"""
            (
                select e.{there} as neighbour, e.relation, e.weight
                from aiq.edges_current as e where e.{here} = r.node_id and e.ends_at is null
                order by e.weight desc, e.{there}, e.relation, e.id limit %(cap)s
            )"""
        for here, there in (("src_id", "dst_id"), ("dst_id", "src_id"))
    )
    links = f"""
        select * from ({halves}
        ) as u
        order by u.weight desc, u.neighbour, u.relation limit %(cap)s"""
    return _WALK.format(links=links, capped="false")


_SHARED = """
        union all
        select h.node_id, 'shared_key', (1::float8 / (c.holders - 1))::real
        from aiq.node_keys_api as k
        join aiq.node_keys_api as h on h.key = k.key and h.node_id <> k.node_id
        cross join lateral (
            select count(*) as holders from aiq.node_keys_api as a where a.key = k.key
        ) as c
        where k.node_id = r.node_id"""

_JOIN = """
with recursive reached (node_id, hops, path, score) as (
    select n.id, 0, '{{}}'::text[] collate "C", 1::float8
    from aiq.nodes_api as n where n.id = %(node)s
    union all
    select l.neighbour, r.hops + 1, r.path || l.relation, r.score * l.weight
    from reached as r
    cross join lateral ({links}
    ) as l
    where r.hops < %(rounds)s
),
best as (
    select distinct on (r.node_id) r.*
    from reached as r
    join aiq.nodes_api as t on t.id = r.node_id and t.entity_type = %(target)s
    where r.node_id <> %(node)s
    order by r.node_id, r.hops, r.score desc, r.path
),
first as (
    select b.* from best as b
    where b.hops = (select min(m.hops) from best as m)
    order by b.score desc, b.node_id limit %(limit)s
)
select f.hops, f.node_id, n.handle, n.key, n.entity_type, n.summary, f.score, to_jsonb(f.path)
from first as f
join aiq.nodes_api as n on n.id = f.node_id
order by f.score desc, f.node_id
"""


def join(edges: str, *, shared_key: bool, cap: bool) -> str:
    """The recursive query for a join: all the rounds, then the nearest of the target type.

    It has no budget and cannot stop when a round has found something.
    """
    links = _BOTH_WAYS.format(edges=edges) + (_SHARED if shared_key else "")
    if cap:
        links = f"""
        select * from ({links}
        ) as u limit %(cap)s"""
    return _JOIN.format(links=links)


# The names similar to one, by pg_trgm's operator and index alone.
SIMILAR_NAMES = """
select k.node_id, k.key from aiq.node_keys as k
where k.key %% %s::text and k.is_name and k.retired_at is null
"""


def bounded_search(
    graph: networkx.MultiDiGraph[int], start: int, depth: int, cap: int
) -> dict[int, tuple[int, float]]:
    """Search breadth-first in networkx, at most the `cap` strongest edges of each node.

    Returns
    -------
    dict
        Depth and weight of each node reached.
    """
    reached: dict[int, tuple[int, float]] = {start: (0, 1.0)}
    level = {start: 1.0}
    for hop in range(1, depth + 1):
        following: dict[int, float] = {}
        for node, weight in level.items():
            for other, step in _strongest(graph, node, cap):
                if other not in reached and weight * step > following.get(other, 0.0):
                    following[other] = weight * step
        reached.update((node, (hop, weight)) for node, weight in following.items())
        level = following
    return reached


def _strongest(graph: networkx.MultiDiGraph[int], node: int, cap: int) -> list[tuple[int, float]]:
    def links() -> Iterator[tuple[float, int]]:
        for _, other, step in graph.out_edges(node, data="weight"):
            yield -step, other
        for other, _, step in graph.in_edges(node, data="weight"):
            if other != node:
                yield -step, other

    return [(other, -negative) for negative, other in sorted(links())[:cap]]


def whole_neighbourhood(
    graph: networkx.MultiGraph[int], start: int, depth: int
) -> networkx.MultiGraph[int]:
    """Give everything within `depth` hops, as networkx itself does: uncapped, without weights.

    The graph is an undirected one: to make it of a directed one at each call, as networkx offers
    to, would cost more than the search.
    """
    import networkx  # noqa: PLC0415 - only where it is needed

    result: Any = networkx.ego_graph(graph, start, radius=depth)
    return result
