"""The command ``demo``: the harbour sample in a real PostgreSQL, held against the twin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from graphalgo.cli.console import output, say
from graphalgo.cli.options import DirectoryOption, VersionOption
from graphalgo.engine.errors import GraphAlgoError
from graphalgo.rendering.text import visible

if TYPE_CHECKING:
    import psycopg

    from graphalgo.engine.protocol import Store

Row = dict[str, Any]

EXIT_DIFFERS = 1


@dataclass(frozen=True, slots=True)
class Scene:
    """One question of the demonstration.

    Attributes
    ----------
    title, story : str
        What is asked, and what to look for in the answer.
    statement : str
        The SQL that is run.
    ask : callable
        The same question to the twin.
    """

    title: str
    story: str
    statement: str
    ask: Callable[[Store], list[Row]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question: rows, or a refusal."""

    rows: list[Row]
    refusal: tuple[str, str | None, str] | None = None


def demo(directory: DirectoryOption = None, version: VersionOption = None) -> None:
    """Show iterated joins and a walk on the harbour sample, answered inside PostgreSQL.

    And the same question under two tenants, each of whom sees what is theirs or shared.

    Uses the private PostgreSQL, starting it first where it does not run; a
    container where this machine can have none; and where that cannot be, either,
    the twin. Each answer of the database is compared with the twin's, row by row.
    Exits with 1 if any differs.
    """
    from graphalgo.cli.serving import serve
    from graphalgo.cluster import ClusterError
    from graphalgo.samples import harbour_json
    from graphalgo.stores.memory import MemoryStore

    console = output()
    twin = MemoryStore.from_json(harbour_json())
    try:
        serving = serve(directory, version, None, say)
    except ClusterError as error:
        console.print(Text(f"No PostgreSQL can be had here: {visible(error.message)}"))
        if error.hint:
            console.print(Text(f"What would help: {visible(error.hint)}"))
        console.print(Text("So the twin answers alone: the same algorithms, in memory."))
        show_scenes(console, twin, None)
        show_tenants(console, None)
        return
    console.print(Text(f"PostgreSQL {serving.version} answers, {serving.place}."))
    with _demo_database(serving.dsn) as connection:
        same = show_scenes(console, twin, connection)
        same = show_tenants(console, connection) and same
    if not same:
        raise typer.Exit(EXIT_DIFFERS)
    console.print()
    console.print(Text("Ask it yourself:", style="bold"))
    console.print(Text("  export GRAPHALGO_DSN=$(graphalgo up)"))
    console.print(Text("  graphalgo join NL-2231 operator --explain --svg path.svg"))
    console.print(Text("  graphalgo walk 'Bulk Harmony' --depth 2"))
    console.print(Text("  graphalgo history 'Meridian Line' --svg history.svg"))


@contextmanager
def _demo_database(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Make a database for this run alone: what others load beside it changes no answer."""
    from psycopg import sql
    from psycopg.conninfo import make_conninfo

    from graphalgo.install import install
    from graphalgo.install.connection import open_connection
    from graphalgo.loading import load_harbour

    name = f"graphalgo_demo_{os.getpid()}"
    drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
    with open_connection(dsn) as keeper:
        keeper.execute(drop)
        keeper.execute(
            sql.SQL("create database {} template template0").format(sql.Identifier(name))
        )
        try:
            own = make_conninfo(dsn, dbname=name)
            install(own)
            with open_connection(own) as connection:
                load_harbour(connection)
                yield connection
        finally:
            keeper.execute(drop)


def show_scenes(console: Console, twin: Store, connection: psycopg.Connection[Any] | None) -> bool:
    """Show each scene; tell whether every answer of the database was the twin's."""
    console.print(
        Text(
            "The harbour sample: ships, their operators, ports of call, entries in ship registers,"
            " and what a note wrote of a ship, misspelt."
        )
    )
    same = True
    for number, scene in enumerate(SCENES, start=1):
        _tell(console, number, scene)
        same = _show_answer(console, scene, twin, connection) and same
    return same


def show_tenants(console: Console, connection: psycopg.Connection[Any] | None) -> bool:
    """Ask one question as the members of two tenants; tell whether the twin agrees.

    The rows become the tenants' own. The twin holds, for each, what is theirs or
    shared, and nothing else: it filters first and walks after.
    """
    from graphalgo.samples import harbour_json
    from graphalgo.samples.harbour import graph_from_harbour, visible_to
    from graphalgo.stores.memory import MemoryStore

    sample = harbour_json()
    graph = graph_from_harbour(sample, scoped=True)
    _tell(console, len(SCENES) + 1, TENANT_SCENE)
    if connection is not None:
        from graphalgo.loading import load_harbour

        load_harbour(connection, scoped=True)
    same = True
    for org in sample["orgs"]:
        twin = MemoryStore.from_json(visible_to(graph, org["id"]))
        user = next(member["user"] for member in sample["members"] if member["org"] == org["id"])
        console.print(Text(f"As a member of {org['name']} ({org['slug']}):", style="bold"))
        if connection is None:
            _show_answer(console, TENANT_SCENE, twin, None)
            continue
        with _speaking_as(connection, user):
            same = _show_answer(console, TENANT_SCENE, twin, connection) and same
    return same


@contextmanager
def _speaking_as(connection: psycopg.Connection[Any], user: str) -> Iterator[None]:
    """Make the connection that of a caller with a user's claims, for a while."""
    from graphalgo.cli.callers import speak_as

    with connection.transaction():
        speak_as(connection, user, None, local=True)
        yield


def _tell(console: Console, number: int, scene: Scene) -> None:
    console.print()
    console.print(Text(f"{number}. {scene.title}", style="bold underline"))
    console.print(Text(scene.story))


def _show_answer(
    console: Console, scene: Scene, twin: Store, connection: psycopg.Connection[Any] | None
) -> bool:
    """Show a scene's answer; tell whether the database's is the twin's."""
    expected = _ask_twin(scene, twin)
    if connection is None:
        _show(console, expected, twin)
        console.print(Text("(answered by the twin)", style="dim"))
        return True
    console.print(Text(f"  {scene.statement}", style="cyan"))
    found = _ask_server(scene, connection)
    _show(console, found, twin)
    if found == expected:
        console.print(Text("same as the twin", style="green"))
        return True
    console.print(Text("NOT the same as the twin, which answers:", style="bold red"))
    _show(console, expected, twin)
    return False


def _ask_twin(scene: Scene, twin: Store) -> Answer:
    try:
        return Answer(scene.ask(twin))
    except GraphAlgoError as error:
        return Answer([], (error.message, error.hint, error.sqlstate))


def _ask_server(scene: Scene, connection: psycopg.Connection[Any]) -> Answer:
    import psycopg
    from psycopg.rows import dict_row

    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            # The text is a constant of this module.
            cursor.execute(scene.statement.encode())
            return Answer(cursor.fetchall())
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        return Answer([], (message, error.diag.message_hint, error.sqlstate or ""))


def _show(console: Console, answer: Answer, twin: Store) -> None:
    from graphalgo.rendering.tables import join_table, unresolved_text, walk_table

    if answer.refusal is not None:
        message, hint, sqlstate = answer.refusal
        console.print(Text(f"refused: {visible(message)}", style="yellow"))
        if hint:
            console.print(Text(f"hint: {visible(hint)}", style="yellow"))
        console.print(Text(f"SQLSTATE {sqlstate}", style="yellow"))
    elif not answer.rows:
        console.print(Text("no rows", style="yellow"))
    elif "depth" in answer.rows[0]:
        console.print(walk_table(answer.rows))
    elif answer.rows[0]["resolved"]:
        ids = {hop[end] for row in answer.rows for hop in row["path"] for end in ("from", "to")}
        with twin.reading():
            infos = twin.describe(sorted(ids))
        # A node that the twin does not have is shown by its id, not hidden by an error.
        handles = {node: infos[node][0] if node in infos else f"#{node}" for node in ids}
        console.print(join_table(answer.rows, handles))
    else:
        console.print(Text(unresolved_text(answer.rows[0]), style="yellow"))


def _join(seed: str, target: str, **arguments: Any) -> Callable[[Store], list[Row]]:
    def ask(twin: Store) -> list[Row]:
        from graphalgo.engine import iterated_join

        return [row.as_dict() for row in iterated_join(twin, seed, target, **arguments)]

    return ask


def _walk(key: str, **arguments: Any) -> Callable[[Store], list[Row]]:
    def ask(twin: Store) -> list[Row]:
        from graphalgo.engine import walk

        return [row.as_dict() for row in walk(twin, key, **arguments)]

    return ask


SCENES = (
    Scene(
        "Who operates the ship behind register entry NL-2231?",
        "The entry has no stored edge. It holds the IMO number of a ship, which is the first"
        " hop; who operates that ship is the second.",
        "select * from aiq.iterated_join('NL-2231', 'operator', p_links => '{edge,shared_key}')",
        _join("NL-2231", "operator", links=["edge", "shared_key"]),
    ),
    Scene(
        "Which ship does the note mean by 'Meridien Dawn'?",
        "No ship is spelt so. A ship's name is similar enough (0.6 or more), and the score says"
        " how similar.",
        "select * from aiq.iterated_join('vessel/meridien dawn', 'vessel', p_links => '{similar}')",
        _join("vessel/meridien dawn", "vessel", links=["similar"]),
    ),
    Scene(
        "And if only a similarity of 0.7 counts?",
        "Then none is meant: the best of a bad lot is not promoted.",
        "select * from aiq.iterated_join('vessel/meridien dawn', 'vessel',"
        " p_links => '{similar}', p_similarity => 0.7)",
        _join("vessel/meridien dawn", "vessel", links=["similar"], similarity=0.7),
    ),
    Scene(
        "What is around Bulk Harmony, two hops out?",
        "Edges are walked both ways; the weight is the product along the path.",
        "select * from aiq.walk('Bulk Harmony', p_depth => 2)",
        _walk("Bulk Harmony", depth=2),
    ),
    Scene(
        "NL-2231 again, but over stored edges alone",
        "The join does not resolve. One row says why.",
        "select * from aiq.iterated_join('NL-2231', 'operator', p_links => '{edge}')",
        _join("NL-2231", "operator", links=["edge"]),
    ),
    Scene(
        "Who operates 9331802?",
        "The number is held by a ship and by a register entry. The join starts from one node or"
        " from none: it does not take the first.",
        "select * from aiq.iterated_join('9331802', 'operator')",
        _join("9331802", "operator"),
    ),
)

TENANT_SCENE = Scene(
    "Who operates the ship behind register entry SE-0117, and who may know?",
    "The entry is shared; the ship with its IMO number and the ship's operator are one shipping"
    " line's. For the other line they are not there: not in a row, not in a count.",
    "select * from aiq.iterated_join('SE-0117', 'operator', p_links => '{edge,shared_key}')",
    _join("SE-0117", "operator", links=["edge", "shared_key"]),
)
