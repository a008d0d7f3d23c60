"""The command ``mcp``: the server that agents connect to."""

from __future__ import annotations

import os
import threading
from typing import Annotated

import typer

from graphalgo.cli.options import DsnOption
from graphalgo.cli.sources import required_dsn
from graphalgo.engine.errors import InvalidValue, MissingSetting

app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")

_TRANSPORTS = ("stdio", "http")
_LONGEST_TOKEN = 366 * 24 * 3600

SubOption = Annotated[
    str | None,
    typer.Option(
        "--sub",
        metavar="UUID",
        help="On stdio: the user whose session it is (default: nobody, who sees what is shared)",
        show_default=False,
    ),
]
OrgsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--orgs",
        metavar="UUID",
        help="With --sub: only as a member of this organisation; may be given several times,"
        " or once with commas (default: of every one that the user belongs to)",
        show_default=False,
    ),
]


@app.callback()
def mcp(
    context: typer.Context,
    dsn: DsnOption = None,
    transport: Annotated[
        str, typer.Option("--transport", metavar="stdio|http", help="How agents connect.")
    ] = "stdio",
    host: Annotated[str, typer.Option("--host", help="With http: where it listens.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="With http: 0 takes a free one.")
    ] = 8765,
    sub: SubOption = None,
    orgs: OrgsOption = None,
) -> None:
    """Serve the graph to agents over MCP: ontology, search, one hop, read.

    On stdio the session is that of the user of --sub. Over http each request needs
    a bearer token, a JWT signed with HS256 or RS256 whose sub is the user: set
    GRAPHALGO_MCP_JWT_AUDIENCE, and GRAPHALGO_MCP_JWT_SECRET, …_JWT_PUBLIC_KEY or
    …_JWKS_FILE. `graphalgo mcp settings` lists every setting.
    """
    if context.invoked_subcommand is not None:
        return
    if transport not in _TRANSPORTS:
        raise InvalidValue(
            f'--transport is "{transport}", but must be stdio or http', "Write --transport http."
        )
    if transport == "http" and (sub or orgs):
        raise InvalidValue(
            "--sub and --orgs are for stdio: over http the token of each request says who asks",
            "Leave them out; `graphalgo mcp token --sub UUID` makes a token to try with.",
        )
    _require_extra()
    import anyio

    from graphalgo.mcp.callers import caller
    from graphalgo.mcp.logs import to_standard_error
    from graphalgo.mcp.settings import Settings

    settings = Settings.read(required_dsn(dsn))
    who = caller(sub, _split(orgs), ("--sub", "--orgs"))
    log = to_standard_error()
    if transport == "http":
        from graphalgo.mcp.http import serve as serve_http

        anyio.run(serve_http, settings, host, port)
    else:
        from graphalgo.mcp.stdio import serve as serve_stdio

        anyio.run(serve_stdio, settings, who)
    log.finish()
    _leave_threads()


@app.command()
def token(
    sub: Annotated[str, typer.Option("--sub", metavar="UUID", help="The user.")],
    orgs: OrgsOption = None,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=_LONGEST_TOKEN, help="How long it holds.")
    ] = 3600,
) -> None:
    """Print a token signed with GRAPHALGO_MCP_JWT_SECRET, to try the server with."""
    _require_extra()
    from graphalgo.mcp.settings import Settings
    from graphalgo.mcp.tokens import sign

    print(sign(Settings.read(""), sub, _split(orgs), seconds))


@app.command()
def settings() -> None:
    """List the settings, which are variables of the environment."""
    from graphalgo.cli.console import output
    from graphalgo.mcp.settings import Settings

    for name, about in Settings(dsn="").describe():
        output().print(f"{name}\n    {about}")


def _split(orgs: list[str] | None) -> list[str] | None:
    if orgs is None:
        return None
    return [org.strip() for given in orgs for org in given.split(",") if org.strip()]


def _require_extra() -> None:
    try:
        import jwt
        import mcp as sdk
        import psycopg_pool
        import uvicorn
    except ImportError as error:
        raise MissingSetting(
            f"the MCP server needs the package {error.name}, which is not installed",
            "Install it with: pip install 'graphalgo[mcp]'",
        ) from None
    del jwt, sdk, psycopg_pool, uvicorn


def _leave_threads() -> None:
    """End now, if a thread hangs in writing to whoever does not read: it would never end."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if any(not thread.daemon for thread in others):
        os._exit(0)
