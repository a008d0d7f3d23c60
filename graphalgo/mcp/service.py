"""The protocol's side of the server: initialize, tools and resources."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from graphalgo import __version__
from graphalgo.engine.errors import GraphAlgoError, InvalidValue, NotFound
from graphalgo.mcp.arguments import Text, read_arguments, shown, told
from graphalgo.mcp.callers import Caller
from graphalgo.mcp.database import Database
from graphalgo.mcp.errors import Busy, ConnectionLost, TooSlow, Unreachable
from graphalgo.mcp.guide import instructions, instructions_without_map
from graphalgo.mcp.logs import tell
from graphalgo.mcp.settings import Settings
from graphalgo.mcp.tools import TOOLS, document, sized

Context = ServerRequestContext[Any, Any]
WhoAsks = Callable[[Context], Caller]

JSON = "application/json"

_ONTOLOGY = sized("select aiq.ontology() as answer")
_ENTITY = sized("select aiq.entity(p_handle => %(handle)s::text) as answer")
_HANDLE = Text(name="handle", about="", required=True, longest=200, example="DSC-104")
_NOBODY = Caller(None, "")

# The database's doing and not the caller's.
_FAILURES = (Unreachable, ConnectionLost, Busy, TooSlow)


@dataclass(slots=True)
class _Note:
    """What a request's line in the log says beside its time."""

    request: str
    outcome: str = "ok"
    sqlstate: str | None = None


_NOTE: ContextVar[_Note | None] = ContextVar("graphalgo_mcp_note", default=None)


class Service:
    """Answers an agent.

    Parameters
    ----------
    settings : Settings
        Of the server.
    database : Database
        Who knows.
    who : callable
        Tells who asks, from the context of a request.
    """

    def __init__(self, settings: Settings, database: Database, who: WhoAsks) -> None:
        self.settings = settings
        self.database = database
        self.who = who
        self.ontology_uri = f"{settings.scheme}://ontology"
        self.entities_uri = f"{self.ontology_uri}/entities/"

    def server(self) -> Server[Any]:
        """Make the server of the SDK that calls this one."""
        server: Server[Any] = Server(
            "graphalgo",
            version=__version__,
            title="graphalgo: the agent's map",
            description="Search, one hop, read: a graph in PostgreSQL as its user may see it.",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_resource_templates,
            on_read_resource=self.read_resource,
            get_tool_input_schema=_input_schema,
        )
        server.add_request_handler("server/discover", RequestParams, self.discover)
        server.middleware.append(self.log)
        server.middleware.append(self.initialize)
        self._server = server
        return server

    async def log(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Log a request: which, how long, with what outcome."""
        if ctx.request_id is None:
            return await call_next(ctx)
        note = _Note(_request_name(ctx))
        _NOTE.set(note)
        begun = time.perf_counter()
        try:
            return await call_next(ctx)
        except MCPError as error:
            if note.outcome == "ok":
                note.outcome = "failed" if error.code == INTERNAL_ERROR else "refused"
            raise
        except Exception:
            if note.outcome == "ok":
                note.outcome = "refused"
            raise
        except BaseException:
            note.outcome = "cancelled"
            raise
        finally:
            tell(
                "request",
                logging.WARNING if note.outcome == "failed" else logging.INFO,
                request=note.request,
                method=ctx.method if ctx.method in _METHODS else "unknown",
                tool=_tool_name(ctx),
                milliseconds=round((time.perf_counter() - begun) * 1000, 1),
                outcome=note.outcome,
                sqlstate=note.sqlstate,
            )

    async def initialize(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Hand over the ontology with the answer to `initialize`, as it is now."""
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict):
            return {**result, "instructions": await self.instructions()}
        return result

    async def discover(self, ctx: Context, params: RequestParams) -> DiscoverResult:
        """Do as much for the revision of the protocol that has no `initialize`."""
        return DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=self._server.get_capabilities(protocol_version=ctx.protocol_version),
            instructions=await self.instructions(),
        )

    async def instructions(self) -> str:
        """Write the instructions, with the ontology if it can be read."""
        scheme = self.settings.scheme
        try:
            ontology = await self._document(_NOBODY, _ONTOLOGY, {})
        except GraphAlgoError as error:
            _take_note(error)
            return instructions_without_map(error.message, scheme)
        return instructions(ontology, scheme, self.settings.instructions)

    async def list_tools(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """List the tools."""
        return ListToolsResult(tools=[tool.definition() for tool in TOOLS.values()])

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        """Answer a tool's call; a refusal is an answer too, which the agent reads."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS,
                f"there is no tool {shown(params.name)}, but {', '.join(TOOLS)}",
            )
        try:
            arguments = read_arguments(tool.name, tool.arguments, params.arguments)
            arguments["answer_bytes"] = self.settings.answer_bytes
            rows = await self.database.ask(self.who(ctx), tool.statement, arguments)
            answer = tool.result(rows, arguments)
        except GraphAlgoError as error:
            _take_note(error)
            return CallToolResult(
                content=[TextContent(type="text", text=told(error))], is_error=True
            )
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=answer
        )

    async def list_resources(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """List the one resource that is not an entity."""
        return ListResourcesResult(
            resources=[
                Resource(
                    uri=self.ontology_uri,
                    name="ontology",
                    title="Ontology",
                    description="The entity types and the routes between them, as they are now.",
                    mime_type=JSON,
                )
            ]
        )

    async def list_resource_templates(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """List the template of the entities' resources."""
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=f"{self.entities_uri}{{HANDLE}}",
                    name="entity",
                    title="Entity",
                    description="A whole entity with its body, by its handle.",
                    mime_type=JSON,
                )
            ]
        )

    async def read_resource(
        self, ctx: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """Read the ontology or an entity, whole."""
        uri = str(params.uri)
        try:
            document = await self._read(self.who(ctx), uri)
        except GraphAlgoError as error:
            _take_note(error)
            code = INTERNAL_ERROR if isinstance(error, _FAILURES) else INVALID_PARAMS
            raise MCPError(code, told(error)) from None
        text = json.dumps(document, ensure_ascii=False, indent=2)
        return ReadResourceResult(
            contents=[TextResourceContents(uri=uri, mime_type=JSON, text=text)]
        )

    async def _read(self, who: Caller, uri: str) -> Any:
        if uri == self.ontology_uri:
            return await self._document(who, _ONTOLOGY, {})
        if uri.startswith(self.entities_uri):
            handle = _HANDLE.read(_unquoted(uri.removeprefix(self.entities_uri)))
            return await self._document(who, _ENTITY, {"handle": handle})
        raise NotFound(
            f"there is no resource {shown(uri)}",
            f"Read {self.ontology_uri} or {self.entities_uri}HANDLE.",
        )

    async def _document(self, who: Caller, statement: str, arguments: dict[str, Any]) -> Any:
        most = self.settings.answer_bytes
        rows = await self.database.ask(who, statement, {**arguments, "answer_bytes": most})
        return document(rows, most)


_METHODS = {
    "initialize", "server/discover", "ping", "tools/list", "tools/call", "resources/list",
    "resources/templates/list", "resources/read",
}  # fmt: skip


def _take_note(error: GraphAlgoError) -> None:
    note = _NOTE.get()
    if note is not None:
        internal = isinstance(error, _FAILURES) or error.sqlstate.startswith("XX")
        note.outcome = "failed" if internal else "refused"
        note.sqlstate = error.sqlstate


def _request_name(ctx: Context) -> str:
    """Give the name that the HTTP answer carries, too, or a new one."""
    scope = getattr(ctx.request, "scope", None) or {}
    name = scope.get("graphalgo.request")
    return name if isinstance(name, str) else uuid.uuid4().hex


def _tool_name(ctx: Context) -> str | None:
    """Name the tool that is called. What is none is not repeated."""
    if ctx.method != "tools/call":
        return None
    name = (ctx.params or {}).get("name")
    return name if isinstance(name, str) and name in TOOLS else "unknown"


def _input_schema(name: str) -> dict[str, Any] | None:
    tool = TOOLS.get(name)
    return None if tool is None else tool.definition().input_schema


def _unquoted(written: str) -> str:
    try:
        return unquote(written, errors="strict")
    except UnicodeDecodeError:
        raise InvalidValue(
            f"the handle {shown(written)} holds bytes that are no text", "Write it in UTF-8."
        ) from None
