"""The commands ``ontology show``, ``ontology diff`` and ``ontology apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from graphalgo.cli.console import output, print_json, say
from graphalgo.cli.options import DsnOption, JsonOption
from graphalgo.cli.sources import required_dsn
from graphalgo.rendering.text import visible

if TYPE_CHECKING:
    from graphalgo.ontology import Change, Ontology

app = typer.Typer(
    help="Declare the entity types and the routes between them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

EXIT_DIFFERS = 1

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Declarations in YAML or JSON, a Python file that defines `ontology`, or"
        " module:attribute.",
    ),
]
KeepOption = Annotated[
    bool,
    typer.Option("--keep-used", help="Keep what FILE leaves out and is in use."),
]


@app.command()
def show(dsn: DsnOption = None, as_json: JsonOption = False) -> None:
    """Show the ontology that is in the database, as a file that can be applied."""
    from graphalgo.ontology import current

    document = _document(current(required_dsn(dsn)))
    if as_json:
        print_json(document)
        return
    import yaml

    written = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=88)
    print(written, end="")


@app.command()
def diff(
    file: FileArgument,
    dsn: DsnOption = None,
    keep_used: KeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what `apply` would do. Exits with 1 if it would do anything."""
    from graphalgo.ontology import difference, read

    changes = difference(required_dsn(dsn), read(file), keep_used=keep_used)
    _print(changes, as_json)
    if any(not change.kept for change in changes):
        raise typer.Exit(EXIT_DIFFERS)


@app.command()
def apply(
    file: FileArgument,
    dsn: DsnOption = None,
    keep_used: KeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the database agree with FILE, in one transaction, and show what that changed.

    What FILE leaves out is dropped, unless it is in use: then nothing is changed
    and the command says what stands on it.
    """
    from graphalgo.ontology import apply as apply_ontology
    from graphalgo.ontology import difference, read

    where, wanted = required_dsn(dsn), read(file)
    if not as_json:
        _print(difference(where, wanted, keep_used=keep_used), as_json)
    changes = apply_ontology(where, wanted, keep_used=keep_used)
    if as_json:
        _print(changes, as_json)
    elif any(not change.kept for change in changes):
        say("Applied")


def _print(changes: list[Change], as_json: bool) -> None:
    if as_json:
        print_json({"changes": [_as_dict(change) for change in changes]})
        return
    if not changes:
        output().print(Text("The database agrees."))
    for change in changes:
        output().print(Text(visible(change.line())))


def _as_dict(change: Change) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "before": None if change.before is None else asdict(change.before),
        "after": None if change.after is None else asdict(change.after),
        "use": change.use,
        "kept": change.kept,
    }


def _document(ontology: Ontology) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "entity_types": [_filled(asdict(each)) for each in ontology.entity_types.values()],
        "routes": [
            _filled(
                {
                    "from": each.src_type,
                    "relation": each.relation,
                    "to": each.dst_type,
                    "inverse_label": each.inverse_label,
                    "description": each.description,
                }
            )
            for each in ontology.routes.values()
        ],
    }


def _filled(members: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}
