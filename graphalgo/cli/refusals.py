"""How refusals and errors are told: what is wrong, what to write instead, the SQLSTATE."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from graphalgo.cli.console import messages
from graphalgo.engine.errors import GraphAlgoError, InvalidValue
from graphalgo.rendering.text import visible

EXIT_REFUSED = 2

_CONNECTION_LOST = "08006"
_NOT_ALLOWED = "42501"
_INTERNAL = "XX000"


class RefusingGroup(TyperGroup):
    """The group of all commands: tells errors of the project and of the server as one kind."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; on an error tell it and exit with 2."""
        try:
            return super().invoke(ctx)
        except GraphAlgoError as error:
            refuse(error)
        except UnicodeEncodeError:
            refuse(
                InvalidValue(
                    "an argument holds bytes that are no text",
                    "Write it in UTF-8, or in the encoding of the terminal.",
                )
            )
        except OSError as error:
            refuse(_of_system(error))
            _give_up_output()
        except Exception as error:
            # psycopg is there if it was used; it is not imported just to ask.
            psycopg = sys.modules.get("psycopg")
            if psycopg is None or not isinstance(error, psycopg.Error):
                raise
            refuse(from_server(error))
        raise typer.Exit(EXIT_REFUSED)


def _give_up_output() -> None:
    """Drop what cannot be written, or Python tries again on its way out and exits with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_system(error: OSError) -> GraphAlgoError:
    """Turn an error of a file or a stream into one of ours; a pipe may just be closed."""
    if isinstance(error, BrokenPipeError):
        raise error
    what = f'"{error.filename}": ' if error.filename else ""
    return InvalidValue(f"{what}{error.strerror or error}", "Look at the file and its disk.")


def refuse(error: GraphAlgoError) -> None:
    """Print an error to the standard error stream."""
    console = messages()
    console.print(Text.assemble(("error: ", "bold red"), _lines(error.message)))
    if error.hint:
        console.print(Text.assemble(("hint: ", "bold"), _lines(error.hint)))
    if error.sqlstate != _INTERNAL:
        console.print(Text(f"SQLSTATE {error.sqlstate}", style="dim"))


def from_server(error: Any) -> GraphAlgoError:
    """Turn an error of psycopg into one of ours, with the server's own words.

    Parameters
    ----------
    error : psycopg.Error
        Raised by a statement or a connection.
    """
    message = error.diag.message_primary or " ".join(str(error).split())
    hint = error.diag.message_hint
    if hint is None and error.sqlstate == _NOT_ALLOWED:
        hint = "Connect as a user who may do this, such as a superuser."
    told = GraphAlgoError(message, hint)
    told.sqlstate = error.sqlstate or _CONNECTION_LOST
    return told


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))
