"""The command ``history``: the periods of a node's edges, past and present."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graphalgo.cli.console import output, print_json, say
from graphalgo.cli.options import AsOrgOption, AsSubOption, DsnOption, JsonOption, SvgOption
from graphalgo.cli.sources import opened, written_to
from graphalgo.engine.errors import InvalidValue

if TYPE_CHECKING:
    import psycopg

    from graphalgo.engine.protocol import Store

Row = dict[str, Any]

# Moments as ISO text in UTC: Python has no infinity, nor years before 1.
_PERIODS = """
select
    p.id, case when p.src_id = %(node)s then 'out' else 'in' end as direction, p.relation,
    o.id as other_id, o.handle as other_handle, o.key as other_key,
    o.entity_type as other_type, o.summary as other_summary, p.weight::float8 as weight,
    pg_catalog.to_json(p.valid_from at time zone 'UTC') #>> '{}' as valid_from,
    pg_catalog.to_json(p.valid_to at time zone 'UTC') #>> '{}' as valid_to,
    pg_catalog.to_json(p.ends_at at time zone 'UTC') #>> '{}' as ends_at,
    p.valid_from <= pg_catalog.now()
    and (p.ends_at is null or p.ends_at > pg_catalog.now()) as holds_now,
    p.memory, p.provenance, p.closed_by, p.org_id::text as org_id, p.visibility
from aiq.edge_periods as p
join aiq.nodes_ever as o
    on o.id = case when p.src_id = %(node)s then p.dst_id else p.src_id end
where
    (p.src_id = %(node)s or p.dst_id = %(node)s)
    and (%(relation)s::text is null or p.relation = %(relation)s::text)
order by p.relation, direction desc, o.handle, p.valid_from, p.id
limit %(limit)s
"""
_NOW = "select pg_catalog.to_json(pg_catalog.now() at time zone 'UTC') #>> '{}'"


def history(
    key: Annotated[str, typer.Argument(help="A handle, a soft node's kind/name, or a key.")],
    dsn: DsnOption = None,
    as_sub: AsSubOption = None,
    as_org: AsOrgOption = None,
    relation: Annotated[
        str | None, typer.Option(help="Show only edges of this relation.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="The most periods.")] = 500,
    as_json: JsonOption = False,
    svg: SvgOption = None,
) -> None:
    """Show when each edge of KEY held: its periods, who stated them and who ended them.

    A handle also finds a node that has been retired since.
    """
    if limit < 1:
        raise InvalidValue(f"--limit is {limit}, but must be at least 1", "Write --limit 500.")
    with opened(dsn, None, "client", as_sub, as_org) as source:
        store: Any = source.store
        node = _node(store, key, relation)
        found = _periods(store.connection, node["node_id"], relation, limit + 1)
        (now,) = store.connection.execute(_NOW).fetchone()
    periods, more = found[:limit], len(found) > limit
    if svg is not None:
        _draw(svg, node, periods, now)
    if as_json:
        print_json({"node": node, "periods": periods, "cut": more})
        return
    _print(node, periods)
    if more:
        output().print(Text(f"There are more than {limit} periods; see --limit and --relation."))


def _node(store: Store, key: str, relation: str | None) -> Row:
    """Find the one node; refuse a relation that is not declared."""
    from graphalgo.engine.arguments import declared_relation
    from graphalgo.engine.seed import resolve_seed

    with store.reading():
        if relation is not None:
            declared_relation("--relation", relation, store.relation_names())
        # Before every retirement, so that a retired node is found, too.
        node = resolve_seed(store, "KEY", key, datetime.min.replace(tzinfo=UTC))
        handle, own_key, entity_type, summary = store.describe([node])[node]
    return {
        "node_id": node,
        "handle": handle,
        "key": own_key,
        "entity_type": entity_type,
        "summary": summary,
    }


def _periods(
    connection: psycopg.Connection[Any], node: int, relation: str | None, limit: int
) -> list[Row]:
    from psycopg.rows import dict_row

    arguments = {"node": node, "relation": relation, "limit": limit}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_PERIODS, arguments).fetchall()


def _print(node: Row, periods: Sequence[Row]) -> None:
    from graphalgo.rendering.tables import history_table
    from graphalgo.rendering.text import visible

    console = output()
    named = node["summary"] or node["key"] or ""
    console.print(Text(f"{node['handle']} {visible(named)}".rstrip()))
    if periods:
        console.print(history_table(periods))
    else:
        console.print(Text("No edge of it is known, past or present."))


def _draw(path: Path, node: Row, periods: Sequence[Row], now: str) -> None:
    from graphalgo.rendering.timeline import timeline

    drawn = timeline(node, periods, datetime.fromisoformat(now))
    written_to(path, drawn)
    say(f"The picture is in {path}")
