"""The transport over streamable HTTP: who may ask, how much and how often; health; shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from graphalgo.mcp.callers import Caller
from graphalgo.mcp.database import Database
from graphalgo.mcp.limits import Rate, Sessions
from graphalgo.mcp.logs import tell
from graphalgo.mcp.service import Context, Service
from graphalgo.mcp.settings import Settings
from graphalgo.mcp.tokens import InvalidToken, Verifier

PATH = "/mcp"

# JSON-RPC leaves these numbers to servers.
_UNAUTHORIZED = -32001
_TOO_OFTEN = -32003
_TOO_MANY = -32004

_CALLER = "graphalgo.caller"
_REQUEST = "graphalgo.request"

# A body that comes slower than this is given up.
_BODY_SECONDS = 30.0
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


class Guard:
    """What a request passes before the protocol: token, rate, size, encoding.

    Parameters
    ----------
    settings : Settings
        With the limits.
    verifier : Verifier
        Of tokens.
    manager : StreamableHTTPSessionManager
        Where it goes on. A session there is its opener's: the token of anybody
        else does not find it.
    """

    def __init__(
        self, settings: Settings, verifier: Verifier, manager: StreamableHTTPSessionManager
    ) -> None:
        self.settings = settings
        self.verifier = verifier
        self.manager = manager
        self.rate = Rate(settings.rate)
        self.sessions = Sessions(settings.sessions_each, settings.session_idle)
        self.in_flight: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        name = scope[_REQUEST] = uuid.uuid4().hex
        send = _named(send, name)
        refusal = self._admit(scope)
        asked = None
        if refusal is None and scope["method"] == "POST":
            body = await _body(receive, self.settings.request_bytes)
            if isinstance(body, bytes):
                refusal, receive = _fault(body), _replay(body, receive)
            else:
                refusal = body
            if refusal is None and isinstance(body, bytes):
                asked, refusal = self._begin(scope, body)
        if refusal is None:
            try:
                refusal = await self._serve(scope, receive, send)
            finally:
                if asked is not None:
                    self.in_flight.discard(asked)
        if refusal is None:
            return
        tell("refused", request=name, status=refusal.status_code)
        await refusal(scope, receive, send)

    def _begin(self, scope: Scope, body: bytes) -> tuple[tuple[str, str] | None, Response | None]:
        """Note a session's request until it is answered; refuse one whose id is not its own.

        The protocol's library finds the request that an answer is of by session and id as
        text: a second one of the same id would take the answer of the first.
        """
        session = Request(scope).headers.get(MCP_SESSION_ID_HEADER)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return None, None
        if not isinstance(message, dict) or "id" not in message or "method" not in message:
            return None, None
        given = message["id"]
        if isinstance(given, bool) or not isinstance(given, str | int):
            return None, _refusal(
                400, INVALID_REQUEST, "the id of a request must be a text or an integer"
            )
        if session is None:
            return None, None
        asked = session, str(given)
        if asked in self.in_flight:
            return None, _refusal(
                409,
                INVALID_REQUEST,
                f"a request with the id {json.dumps(given)[:100]} is not yet answered",
            )
        self.in_flight.add(asked)
        return asked, None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Hand a request on, and keep count of its user's sessions."""
        user: str = scope[_CALLER].subject
        headers = Request(scope).headers
        session = headers.get(MCP_SESSION_ID_HEADER)
        if session is None and _needs_session(headers.get("mcp-protocol-version")):
            self.sessions.sweep()
            if self.sessions.full(user):
                return _refusal(
                    429,
                    _TOO_MANY,
                    f"the user has {self.settings.sessions_each} sessions; end one first",
                    {"retry-after": str(int(self.settings.session_idle) + 1)},
                )
        watched = _Watched(send)
        if session is not None:
            self.sessions.use(user, session, 1)
        try:
            await self.manager.handle_request(scope, receive, watched)
        finally:
            if session is not None:
                self.sessions.use(user, session, -1)
                if watched.status == 404 or (scope["method"] == "DELETE" and watched.status == 200):
                    self.sessions.end(user, session)
            elif watched.session is not None and watched.status == 200:
                self.sessions.begin(user, watched.session)
        return None

    def _admit(self, scope: Scope) -> Response | None:
        """Find out who asks, and whether they may already."""
        written = Request(scope).headers.getlist("authorization")
        kind, _, token = written[0].partition(" ") if len(written) == 1 else ("", "", "")
        if kind.lower() != "bearer" or not token.strip():
            return _unauthorized("a bearer token is needed", None)
        try:
            who, claims = self.verifier.verify(token.strip())
        except InvalidToken as error:
            return _unauthorized(error.message, "invalid_token")
        subject = who.subject
        assert subject is not None
        wait = self.rate.take(subject) if scope["method"] == "POST" else 0.0
        if wait:
            return _refusal(
                429,
                _TOO_OFTEN,
                f"more than {self.settings.rate} requests a minute; wait {wait:.1f} s",
                {"retry-after": str(int(wait) + 1)},
            )
        scope[_CALLER] = who
        # By this the session manager knows whose a session is. It keeps no token.
        access = AccessToken(
            token="",
            client_id=subject,
            scopes=[],
            subject=subject,
            claims={"iss": claims.get("iss")},
        )
        scope["user"] = AuthenticatedUser(access)
        return None


class _Watched:
    """Sends an answer on, and remembers its status and the session that it opened."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.status = 0
        self.session: str | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message.get("headers", ()):
                if name.lower() == MCP_SESSION_ID_HEADER.encode():
                    self.session = value.decode("latin-1")
        await self.send(message)


def _needs_session(version: str | None) -> bool:
    """Whether a revision of the protocol is one with sessions."""
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def caller_of(ctx: Context) -> Caller:
    """Tell who asks: whom the token of this very request speaks for."""
    who: Caller = ctx.request.scope[_CALLER]  # type: ignore[union-attr]
    return who


def application(settings: Settings, database: Database) -> Starlette:
    """Make the ASGI application.

    Parameters
    ----------
    settings : Settings
        With the key of the tokens.
    database : Database
        Opened and closed with the application.

    Raises
    ------
    MissingSetting
        There is no key, or no audience (55000).
    """
    service = Service(settings, database, caller_of)
    manager = StreamableHTTPSessionManager(
        app=service.server(),
        json_response=True,
        security_settings=_security(settings),
        session_idle_timeout=settings.session_idle,
        max_request_body_size=settings.request_bytes,
        max_sessions=settings.sessions,
    )
    guard = Guard(settings, Verifier(settings), manager)

    async def alive(_request: Request) -> Response:
        return _plain(200, {"status": "ok"})

    async def ready(_request: Request) -> Response:
        answers = await database.ready()
        return _plain(200 if answers else 503, {"status": "ok" if answers else "no database"})

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await database.open()
        try:
            async with manager.run():
                yield
        finally:
            await database.close()

    return Starlette(
        routes=[
            Route("/healthz", alive, methods=["GET"]),
            Route("/readyz", ready, methods=["GET"]),
            Route(PATH, endpoint=guard),
        ],
        lifespan=lifespan,
    )


async def serve(settings: Settings, host: str, port: int) -> None:
    """Serve HTTP until a signal comes.

    Parameters
    ----------
    settings : Settings
        Of the server.
    host, port
        Where it listens; port 0 takes a free one, which the log tells.

    Raises
    ------
    MissingSetting
        There is no key to check tokens by, or no audience (55000).
    """
    if not settings.allowed_hosts and host in _THIS_MACHINE:
        names = [f"[{name}]" if ":" in name else name for name in _THIS_MACHINE]
        hosts = tuple(name for each in names for name in (each, f"{each}:*"))
        settings = replace(settings, allowed_hosts=hosts)
    app = application(settings, Database(settings))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(settings.shutdown)),
        # Each session may hold a stream and ask beside it.
        limit_concurrency=4 * settings.sessions + 100,
    )
    await _Server(config).serve()


class _Server(uvicorn.Server):
    """Ends with an exit code of 0 on a signal, after everything is closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        kinds = (signal.SIGTERM, signal.SIGINT)
        for kind in kinds:
            loop.add_signal_handler(kind, self.handle_exit, kind, None)
        try:
            yield
        finally:
            for kind in kinds:
                loop.remove_signal_handler(kind)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            address = self.servers[0].sockets[0].getsockname()
            tell("started", transport="http", host=address[0], port=address[1], path=PATH)

    async def shutdown(self, sockets: Any = None) -> None:
        tell("stopping", transport="http")
        await super().shutdown(sockets)
        tell("stopped", transport="http")


def _security(settings: Settings) -> TransportSecuritySettings:
    """Say which Host headers are answered: a page in a browser cannot choose another."""
    hosts = list(settings.allowed_hosts)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(hosts),
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )


def _named(send: Send, name: str) -> Send:
    """Add the request's name, by which its lines in the log are found, to its answer."""

    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"x-request-id", name.encode())]
            message = {**message, "headers": headers}
        await send(message)

    return named


async def _body(receive: Receive, most: int) -> bytes | Response:
    """Read a body; answer one that is too long or does not come."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return _refusal(400, INVALID_REQUEST, "the request broke off")
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    return _refusal(
                        413,
                        INVALID_REQUEST,
                        f"the request has more than {most} bytes",
                        {"connection": "close"},
                    )
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        return _refusal(
            408, INVALID_REQUEST, "the request did not come in time", {"connection": "close"}
        )


def _fault(body: bytes) -> Response | None:
    try:
        body.decode()
    except UnicodeDecodeError as bad:
        return _refusal(
            400,
            PARSE_ERROR,
            f"the request is not UTF-8: byte {bad.start + 1} is 0x{body[bad.start]:02x}",
        )
    return None


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _unauthorized(message: str, error: str | None) -> Response:
    challenge = 'Bearer realm="graphalgo"'
    if error is not None:
        challenge += f', error="{error}", error_description="{message}"'
    return _refusal(401, _UNAUTHORIZED, message, {"www-authenticate": challenge})


def _refusal(
    status: int, code: int, message: str, headers: dict[str, str] | None = None
) -> Response:
    """Answer as JSON-RPC does: a client hands the sentence on."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return Response(json.dumps(body), status, headers, "application/json")


def _plain(status: int, body: dict[str, str]) -> Response:
    return Response(json.dumps(body), status, {"cache-control": "no-store"}, "application/json")
