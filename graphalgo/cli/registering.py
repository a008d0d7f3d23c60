"""The command ``register``."""

from __future__ import annotations

from typing import Annotated

import typer

from graphalgo.cli.console import output, print_json
from graphalgo.cli.options import DsnOption, JsonOption
from graphalgo.cli.sources import required_dsn
from graphalgo.rendering.text import visible

_REGISTER = """
select source_table, nodes_inserted, nodes_updated, nodes_retired, keys_written, keys_removed
from aiq.register_entity_table(
    p_entity_type => %(entity_type)s::text, p_source_table => %(table)s::regclass,
    p_key_expr => %(key)s::text, p_summary_expr => %(summary)s::text,
    p_org_expr => %(org)s::text, p_include_where => %(where)s::text,
    p_canonical_exprs => %(canonical)s::text[], p_short_exprs => %(short)s::text[],
    p_alias_exprs => %(alias)s::text[], p_code_exprs => %(code)s::text[],
    p_visibility_expr => %(visibility)s::text, p_owner_expr => %(owner)s::text,
    p_number_expr => %(number)s::text
)
"""


def _expression(name: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name, metavar="SQL", help=what, show_default=False
    )
    return option


def register(
    entity_type: Annotated[str, typer.Argument(help="A declared entity type.")],
    table: Annotated[str, typer.Argument(help="The table, with its schema where it needs one.")],
    key: Annotated[str, _expression("--key", "A row's canonical key.")],
    dsn: DsnOption = None,
    summary: Annotated[str | None, _expression("--summary", "What is shown of a row.")] = None,
    org: Annotated[
        str | None, _expression("--org", "The organisation whose row it is; null is everyone's.")
    ] = None,
    where: Annotated[
        str | None, _expression("--where", "Which rows are nodes (default: all).")
    ] = None,
    canonical: Annotated[
        list[str] | None,
        _expression("--canonical", "A further canonical key; may be given several times."),
    ] = None,
    short: Annotated[
        list[str] | None, _expression("--short", "A short key; may be given several times.")
    ] = None,
    alias: Annotated[
        list[str] | None, _expression("--alias", "An alias; may be given several times.")
    ] = None,
    code: Annotated[
        list[str] | None,
        _expression(
            "--code",
            "Which of the keys are codes or numbers, found exactly and never by similarity:"
            " the same expression again; may be given several times.",
        ),
    ] = None,
    visibility: Annotated[
        str | None, _expression("--visibility", "public, org or private (default: org).")
    ] = None,
    owner: Annotated[str | None, _expression("--owner", "Whose a private row is.")] = None,
    number: Annotated[
        str | None, _expression("--number", "The number of a handle (default: the node's id).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read TABLE's rows as nodes of ENTITY_TYPE, now and whenever they change.

    Every option is an SQL expression over the table's columns. Registering again
    replaces the whole registration: what is left out goes back to its default. The
    table's owner or a superuser may.
    """
    from psycopg.rows import dict_row
    from rich.table import Table
    from rich.text import Text

    from graphalgo.install.connection import open_connection
    from graphalgo.loading.connecting import require_schema

    arguments = {
        "entity_type": entity_type,
        "table": table,
        "key": key,
        "summary": summary,
        "org": org,
        "where": where,
        "canonical": canonical or [],
        "short": short or [],
        "alias": alias or [],
        "code": code or [],
        "visibility": visibility,
        "owner": owner,
        "number": number,
    }
    with open_connection(required_dsn(dsn)) as connection:
        require_schema(connection)
        with connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_REGISTER, arguments).fetchall()
    if as_json:
        print_json({"rows": rows})
        return
    names = ("nodes_inserted", "nodes_updated", "nodes_retired", "keys_written", "keys_removed")
    shown = Table("table", *(name.replace("_", " ") for name in names))
    for column in shown.columns[1:]:
        column.justify = "right"
    for row in rows:
        shown.add_row(Text(visible(str(row["source_table"]))), *(str(row[name]) for name in names))
    output().print(shown)
