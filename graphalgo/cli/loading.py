"""The command ``load``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from graphalgo.cli.console import messages, output
from graphalgo.cli.options import DsnOption
from graphalgo.cli.sources import required_dsn

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def _file(what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="FILE", help=what, show_default=False)
    return option


def load(
    dsn: DsnOption = None,
    types: Annotated[
        Path | None, _file("Entity types: name, handle_prefix; description, indexed.")
    ] = None,
    relations: Annotated[
        Path | None, _file("Relations: src_type, relation, dst_type; inverse_label, description.")
    ] = None,
    nodes: Annotated[
        Path | None,
        _file(
            "Nodes: ref; entity_type, or claimed_kind and name for a soft node; summary,"
            " handle_number, org_id, visibility, owner_id."
        ),
    ] = None,
    keys: Annotated[
        Path | None, _file("Keys: ref, key; kind (canonical, short or alias), is_name.")
    ] = None,
    edges: Annotated[
        Path | None,
        _file(
            "Edges: src, relation, dst, weight; valid_from, valid_to, memory, org_id, visibility,"
            " owner_id. An end is a ref, a handle, a soft node's kind/name, or a key."
        ),
    ] = None,
    source: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the files are of. A ref names the same node whenever files of the same"
            " name are loaded, so that loading again updates.",
        ),
    ] = "files",
    written: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|jsonl",
            help="How the files are written (default: as the extension says)",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Load entity types, relations, nodes, keys and edges from CSV or JSON Lines.

    CSV files begin with a header line that names the columns; JSON Lines have one
    object a line. If any line is wrong, it is told with its file and number, and
    nothing at all is loaded.
    """
    from graphalgo.loading import LoadFiles
    from graphalgo.loading import load as load_files

    files = LoadFiles(types=types, relations=relations, nodes=nodes, keys=keys, edges=edges)
    where = required_dsn(dsn)
    with _Bars(files.given()) as bars:
        report = load_files(where, files, source=source, written=written, progress=bars.advance)
    table = Table("", "read", "new", "changed")
    for column in table.columns[1:]:
        column.justify = "right"
    for kind, count in report.counts.items():
        table.add_row(kind, str(count.read), str(count.added), str(count.changed))
    output().print(table)


class _Bars:
    """A progress bar for each file, by the bytes that are read of it."""

    def __init__(self, files: list[tuple[str, Path]]) -> None:
        self.files = files
        self.tasks: dict[str, TaskID] = {}
        self.progress: Progress | None = None

    def __enter__(self) -> _Bars:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

        console = messages()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        for kind, path in self.files:
            size = path.stat().st_size if path.is_file() else None
            self.tasks[kind] = self.progress.add_task(f"reading {kind}", total=size)
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.progress is not None
        self.progress.stop()

    def advance(self, kind: str, count: int) -> None:
        """Move a file's bar; with 0 its rows are being stored."""
        assert self.progress is not None
        if count:
            self.progress.advance(self.tasks[kind], count)
        else:
            self.progress.update(self.tasks[kind], description=f"storing {kind}")
