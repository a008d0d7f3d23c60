"""The commands that ask: ``join``, ``walk`` and ``lookup``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graphalgo.cli.console import output, print_json, say
from graphalgo.cli.options import (
    AsOfOption,
    AsOrgOption,
    AsSubOption,
    DegreeCapOption,
    DotOption,
    DsnOption,
    GraphOption,
    JsonOption,
    SvgOption,
    WhereOption,
)
from graphalgo.cli.sources import Row, Source, opened, written_to
from graphalgo.engine.errors import InvalidValue
from graphalgo.rendering.text import visible

if TYPE_CHECKING:
    from graphalgo.rendering.picture import Picture

_DEFAULT_LINKS = ["edge", "shared_key", "similar"]


def join(
    seed: Annotated[str, typer.Argument(help="A handle, a soft node's kind/name, or a key.")],
    target: Annotated[str, typer.Argument(help="The entity type that is looked for.")],
    dsn: DsnOption = None,
    graph: GraphOption = None,
    where: WhereOption = "auto",
    as_sub: AsSubOption = None,
    as_org: AsOrgOption = None,
    max_rounds: Annotated[int, typer.Option(help="The most rounds (1 to 5).")] = 3,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="A link kind to walk: edge, shared_key, similar or judged; may be given several"
            " times (default: edge, shared_key, similar)",
            show_default=False,
        ),
    ] = None,
    similarity: Annotated[
        float, typer.Option(help="The least similarity of a similar link (above 0, at most 1).")
    ] = 0.6,
    budget: Annotated[
        int, typer.Option(help="The most nodes that one round examines (1 to 100000).")
    ] = 500,
    degree_cap: DegreeCapOption = 100,
    relation: Annotated[
        list[str] | None,
        typer.Option(
            help="Walk only edges of this relation; may be given several times.",
            show_default=False,
        ),
    ] = None,
    as_of: AsOfOption = None,
    limit: Annotated[int, typer.Option(help="The most answers.")] = 100,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the account of the rounds, too.")
    ] = False,
    as_json: JsonOption = False,
    svg: SvgOption = None,
    dot: DotOption = None,
) -> None:
    """Walk out from SEED, a round at a time, until nodes of type TARGET are reached.

    A join that reaches none says why, and is no error: the exit code is 0.
    """
    moment = _moment(as_of)
    arguments = {
        "seed": seed,
        "target_type": target,
        "max_rounds": max_rounds,
        "links": link or _DEFAULT_LINKS,
        "similarity": similarity,
        "budget": budget,
        "degree_cap": degree_cap,
        "relations": relation or None,
        "as_of": moment,
        "limit": limit,
    }
    with opened(dsn, graph, where, as_sub, as_org) as source:
        rows = source.join(arguments)
        trace = source.trace(arguments) if explain else None

        def picture() -> Picture:
            from graphalgo.rendering.picture import picture_of_join

            return picture_of_join(source.store, seed, target, rows, moment)

        _draw(picture, svg, dot)
        if as_json:
            print_json({"rows": rows} | ({} if trace is None else {"trace": trace}))
        else:
            _print_join(source, rows, trace)


def walk(
    key: Annotated[str, typer.Argument(help="A handle, a soft node's kind/name, or a key.")],
    dsn: DsnOption = None,
    graph: GraphOption = None,
    where: WhereOption = "auto",
    as_sub: AsSubOption = None,
    as_org: AsOrgOption = None,
    depth: Annotated[int, typer.Option(help="The most hops (1 to 5).")] = 1,
    relation: Annotated[
        str | None, typer.Option(help="Walk only edges of this relation.", show_default=False)
    ] = None,
    degree_cap: DegreeCapOption = 100,
    as_of: AsOfOption = None,
    limit: Annotated[int, typer.Option(help="The most nodes.")] = 100,
    as_json: JsonOption = False,
    svg: SvgOption = None,
    dot: DotOption = None,
) -> None:
    """Show everything within a few hops of KEY, edges walked both ways."""
    moment = _moment(as_of)
    arguments = {
        "key": key,
        "depth": depth,
        "relation": relation,
        "degree_cap": degree_cap,
        "limit": limit,
        "as_of": moment,
    }
    with opened(dsn, graph, where, as_sub, as_org) as source:
        rows = source.walk(arguments)

        def picture() -> Picture:
            from graphalgo.rendering.picture import picture_of_walk

            return picture_of_walk(
                source.store,
                key,
                depth,
                rows,
                relation=relation,
                degree_cap=degree_cap,
                as_of=moment,
            )

        _draw(picture, svg, dot)
    if as_json:
        print_json({"rows": rows})
        return
    from graphalgo.rendering.tables import walk_table

    if rows:
        output().print(walk_table(rows))
    else:
        output().print(Text(f"Nothing is within {depth} {'hop' if depth == 1 else 'hops'}."))


def lookup(
    keys: Annotated[list[str], typer.Argument(help="What to look up.")],
    dsn: DsnOption = None,
    graph: GraphOption = None,
    where: WhereOption = "auto",
    as_sub: AsSubOption = None,
    as_org: AsOrgOption = None,
    fuzzy: Annotated[
        bool, typer.Option("--fuzzy", help="Where nothing matches exactly, take similar names.")
    ] = False,
    limit: Annotated[int, typer.Option(help="The most nodes for each key.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Find nodes by KEYS: canonical, then short and alias, then soft names, then similar ones."""
    with opened(dsn, graph, where, as_sub, as_org) as source:
        rows = source.lookup({"keys": keys, "fuzzy": fuzzy, "limit": limit})
    found = {row["input_key"] for row in rows}
    unresolved = [key for key in dict.fromkeys(keys) if key not in found]
    if as_json:
        print_json({"rows": rows, "unresolved": unresolved})
        return
    from graphalgo.rendering.tables import lookup_table

    console = output()
    if rows:
        console.print(lookup_table(rows))
    if unresolved:
        console.print(Text(f"Nothing found by: {', '.join(map(visible, unresolved))}"))


def _print_join(source: Source, rows: list[Row], trace: Row | None) -> None:
    from graphalgo.rendering.tables import join_table, trace_table, unresolved_text

    console = output()
    if trace is not None:
        console.print(trace_table(trace))
    if not rows[0]["resolved"]:
        console.print(Text(unresolved_text(rows[0])))
        return
    console.print(join_table(rows, handles(source, rows)))


def handles(source: Source, rows: list[Row]) -> dict[int, str]:
    """Give the handle of each node on the rows' paths, by its id."""
    ids = {hop[end] for row in rows for hop in row["path"] or () for end in ("from", "to")}
    with source.store.reading():
        infos = source.store.describe(sorted(ids))
    return {node: info[0] for node, info in infos.items()}


def _draw(picture: Callable[[], Any], svg: Path | None, dot: Path | None) -> None:
    """Write the pictures that are asked for."""
    if svg is None and dot is None:
        return
    from graphalgo.rendering.dot import dot as as_dot
    from graphalgo.rendering.svg import svg as as_svg

    drawn = picture()
    for path, written in ((svg, as_svg), (dot, as_dot)):
        if path is None:
            continue
        written_to(path, written(drawn))
        say(f"The picture is in {path}")


def _moment(written: str | None) -> datetime | None:
    if written is None:
        return None
    from graphalgo.loading.formats import BadValue, moment

    try:
        return moment(written)
    except BadValue as bad:
        raise InvalidValue(
            f'--as-of is "{written}", but must be {bad.expected}',
            "Write for example --as-of 2024-01-31.",
        ) from None
