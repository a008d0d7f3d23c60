"""The command that asks again and again: ``repl``, with history and completion."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graphalgo.cli.console import messages, print_json
from graphalgo.cli.options import AsOrgOption, AsSubOption, DsnOption, GraphOption, WhereOption
from graphalgo.cli.querying import EmbeddingOption, read_embedding, show
from graphalgo.cli.refusals import from_server, refuse
from graphalgo.cli.sources import opened
from graphalgo.engine.errors import GraphAlgoError, InvalidValue, MissingSetting
from graphalgo.engine.folding import fold_key
from graphalgo.p8ql.errors import QuerySyntaxError
from graphalgo.p8ql.lexer import END, STRING, Lexer, first_word
from graphalgo.p8ql.parser import FACETS, MODES, MODIFIERS, SQL_OPENERS

if TYPE_CHECKING:
    from graphalgo.cli.sources import Source
    from graphalgo.p8ql.protocol import QueryStore

HISTORY_VARIABLE = "GRAPHALGO_HISTORY"
PROMPT = "p8ql> "
HELP = r"""A query of P8QL answers it; SCHEMA "p8ql" tells the language.
\embedding FILE   the vector of SEMANTIC and SEARCH from now on; without FILE none
\json             answers as JSON, or as tables again
\help  \quit, or \q"""
COMMANDS = ("\\embedding", "\\help", "\\json", "\\quit")
QUITS = ("\\quit", "\\q")
KEYS_SHOWN = 20

HistoryOption = Annotated[
    Path | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help=f"Where queries are remembered (default: ${HISTORY_VARIABLE}, or a file of the"
        " user's own)",
        show_default=False,
    ),
]


def repl(
    dsn: DsnOption = None,
    graph: GraphOption = None,
    where: WhereOption = "auto",
    as_sub: AsSubOption = None,
    as_org: AsOrgOption = None,
    embedding: EmbeddingOption = None,
    history: HistoryOption = None,
) -> None:
    r"""Ask queries of P8QL one after the other. The tab key completes; \help tells the rest.

    Queries that come through a pipe are answered line by line.
    """
    with opened(dsn, graph, where, as_sub, as_org) as source:
        session = Session(source, read_embedding(embedding))
        for line in _typed(source, history) if sys.stdin.isatty() else sys.stdin:
            if not session.answer(line.strip()):
                break
    if session.refused and not sys.stdin.isatty():
        raise typer.Exit(2)


class Session:
    """What is remembered from one line to the next.

    Parameters
    ----------
    source : Source
        Whom the lines ask.
    embedding : str, optional
        The vector for SEMANTIC and SEARCH.

    Attributes
    ----------
    refused : bool
        Whether any line was refused.
    """

    def __init__(self, source: Source, embedding: str | None = None) -> None:
        self.source = source
        self.embedding = embedding
        self.as_json = False
        self.refused = False

    def answer(self, line: str) -> bool:
        """Answer a line; say whether to go on."""
        if not line:
            return True
        command, _, argument = line.partition(" ")
        if command in QUITS:
            return False
        try:
            if line.startswith("\\"):
                self._obey(command, argument.strip())
            else:
                found = self.source.query(line, self.embedding)
                (print_json if self.as_json else show)(found)
        except GraphAlgoError as error:
            self._tell(error)
        except Exception as error:
            psycopg = sys.modules.get("psycopg")
            if psycopg is None or not isinstance(error, psycopg.Error):
                raise
            self._tell(from_server(error))
            if self.source.store.connection.closed:  # type: ignore[attr-defined]
                raise
        return True

    def _obey(self, command: str, argument: str) -> None:
        if command == "\\help":
            messages().print(Text(HELP))
        elif command == "\\json":
            self.as_json = not self.as_json
        elif command == "\\embedding":
            self.embedding = read_embedding(argument or None)
        else:
            raise InvalidValue(f'"{command}" is no command', f"There are {', '.join(COMMANDS)}.")

    def _tell(self, error: GraphAlgoError) -> None:
        self.refused = True
        refuse(error)


def history_file() -> Path:
    """Return where queries are remembered."""
    if named := os.environ.get(HISTORY_VARIABLE):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "graphalgo" / "history"


def _typed(source: Source, history: Path | None) -> Iterator[str]:
    """Yield the lines that are typed until the end of the input."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.shortcuts import CompleteStyle
    except ImportError as error:
        raise MissingSetting(
            "the package prompt_toolkit is not installed, which lines are typed with",
            "Install it with: pip install prompt_toolkit; or send the lines through a pipe.",
        ) from error

    store: Any = source.store

    class Completions(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterable[Completion]:
            start, words = completions(store, document.text_before_cursor)
            for word in words:
                yield Completion(word, start_position=start)

    path = history or history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        remembered: Any = FileHistory(str(path))
    except OSError:
        remembered = InMemoryHistory()
    # This style completes before the next key is looked at: Enter runs what is shown.
    session: PromptSession[str] = PromptSession(
        history=remembered,
        completer=Completions(),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
    )
    while True:
        try:
            yield session.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def completions(store: QueryStore, text: str) -> tuple[int, list[str]]:
    """Return what may stand in the place of the last word, and where that begins.

    Parameters
    ----------
    store : QueryStore
        Whose keys, relations, sources and models are offered.
    text : str
        The query up to the cursor.

    Returns
    -------
    tuple
        The begin, counted back from the end of the text (0 or negative), and the words.
    """
    mode, _, end = first_word(text)
    begun = text.lstrip()
    if end == len(text) or (begun.startswith("\\") and " " not in begun):
        words = [*MODES, "FUZZY LOOKUP", *SQL_OPENERS, *COMMANDS]
        return -len(begun), _begun_by(begun, words)
    if mode not in (*MODES, "FUZZY"):
        return 0, []
    before, begun, quote = _last(text, end)
    if mode == "FUZZY":
        if not before:
            return -len(begun), _begun_by(begun, ["LOOKUP"])
        mode = "LOOKUP"
    offered = _offered(store, mode, before, begun, quote)
    return -len(begun) - len(quote), offered


def _last(text: str, start: int) -> tuple[list[str], str, str]:
    """Return the words before the last, the last as far as it is written, and its quote."""
    lexer = Lexer(text, start)
    before: list[str] = []
    while True:
        at = lexer.at
        try:
            token = lexer.next()
        except QuerySyntaxError:
            opened_at = next(place for place in range(at, len(text)) if text[place] in "\"'")
            return before, text[opened_at + 1 :], text[opened_at]
        if token.kind == END:
            return before, "", ""
        if lexer.at == len(text) and token.kind != STRING and not text[-1].isspace():
            return before, token.value, ""
        before.append(token.keyword if token.kind != STRING else '"')


def _offered(store: QueryStore, mode: str, before: list[str], begun: str, quote: str) -> list[str]:
    last = before[-1] if before else ""
    if mode in ("LOOKUP", "GRAPH") and (quote or last in ("", "LOOKUP")):
        with store.reading():
            keys = store.keys_with_prefix(fold_key(begun), KEYS_SHOWN) if begun else []
        mark = quote or '"'
        return [f"{mark}{key.replace(mark, mark * 2)}{mark}" for key in keys]
    if last in ("FROM", "USING", "TYPE"):
        with store.reading():
            names = _names(store, mode, last)
        return [f'"{name}"' if quote else name for name in names if name.startswith(begun)]
    if quote:
        return []
    words = [name for name, modes in MODIFIERS.items() if mode in modes and name not in before]
    if mode == "SCHEMA" and not before:
        words = [*FACETS, *words]
    return _begun_by(begun, words)


def _begun_by(begun: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.upper().startswith(begun.upper())]


def _names(store: QueryStore, mode: str, modifier: str) -> list[str]:
    if modifier == "TYPE":
        return store.relation_names()
    if modifier == "USING":
        return [model.name for model in store.embedding_models()]
    if mode == "SCHEMA":
        return [f"{one['schema']}.{one['name']}" for one in store.readable_relations()]
    return [source.name for source in store.text_sources()]
