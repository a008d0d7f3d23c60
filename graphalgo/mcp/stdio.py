"""The transport over standard input and output: one message a line.

Reading blocks, and a thread that reads cannot be stopped; so it is one that the
program does not wait for when it ends. A line that is no message is answered, where
the SDK's own transport leaves whoever sent it waiting.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from graphalgo.mcp.callers import Caller
from graphalgo.mcp.database import Database
from graphalgo.mcp.logs import tell
from graphalgo.mcp.service import Service
from graphalgo.mcp.settings import Settings

_PART = 65_536
_ID = re.compile(rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{0,200}")')


async def serve(settings: Settings, who: Caller) -> None:
    """Serve the process's standard streams until the input ends or a signal comes.

    Parameters
    ----------
    settings : Settings
        Of the server.
    who : Caller
        Whose the session is.
    """
    database = Database(settings)
    server = Service(settings, database, lambda _ctx: who).server()
    await database.open()
    tell("started", transport="stdio")
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_stop_on_signal, group.cancel_scope)
            async with _streams(settings) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await database.close()
        tell("stopped", transport="stdio")


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()
            return


class _Lines:
    """Reads lines from a descriptor in a thread of its own.

    A line longer than the limit is dropped as it comes; its beginning stands for it.
    """

    def __init__(self, descriptor: int, longest: int) -> None:
        self.descriptor = descriptor
        self.longest = longest
        self.loop = asyncio.get_running_loop()
        # The thread waits until a line is taken: memory holds few.
        self.send, self.lines = anyio.create_memory_object_stream[tuple[bytes, bool]](0)

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def _read(self) -> None:
        line, cut = bytearray(), False
        while part := self._part():
            *whole, rest = part.split(b"\n")
            for end in whole:
                line, cut = self._grown(line, end, cut)
                if not self._give(bytes(line), cut):
                    return
                line, cut = bytearray(), False
            line, cut = self._grown(line, rest, cut)
        if line:
            self._give(bytes(line), cut)
        self._close()

    def _part(self) -> bytes:
        try:
            return os.read(self.descriptor, _PART)
        except OSError:
            return b""

    def _grown(self, line: bytearray, more: bytes, cut: bool) -> tuple[bytearray, bool]:
        room = self.longest - len(line)
        line.extend(more[:room])
        return line, cut or len(more) > room

    def _give(self, line: bytes, cut: bool) -> bool:
        if not line.strip():
            return True
        try:
            asyncio.run_coroutine_threadsafe(self.send.send((line, cut)), self.loop).result()
        except Exception:  # the server has ended, and its loop perhaps with it
            return False
        return True

    def _close(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self.send.close)
        except RuntimeError:
            return


class _Unanswered:
    """Counts the requests that have no answer yet."""

    def __init__(self) -> None:
        self.ids: set[str | int] = set()
        self.none = anyio.Event()
        self.none.set()

    def add(self, request: str | int) -> None:
        """A request came."""
        if not self.ids:
            self.none = anyio.Event()
        self.ids.add(request)

    def remove(self, request: Any) -> None:
        """It was answered."""
        self.ids.discard(request)
        if not self.ids:
            self.none.set()


@asynccontextmanager
async def _streams(
    settings: Settings,
) -> AsyncIterator[
    tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]
]:
    """Give the streams of messages that the SDK's server takes."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    unanswered = _Unanswered()
    lines = _Lines(_own(0, os.devnull), settings.request_bytes)
    output = _own(1, None)
    replies = outgoing.clone()

    async def read() -> None:
        async with to_server, replies:
            async for line, cut in lines.lines:
                message = _message(line, cut, settings.request_bytes)
                if isinstance(message, JSONRPCError):
                    await replies.send(SessionMessage(message))
                    continue
                if isinstance(message.message, JSONRPCRequest):
                    unanswered.add(message.message.id)
                await to_server.send(message)
            # What was asked before the input ended is still answered.
            with anyio.move_on_after(settings.shutdown):
                await unanswered.none.wait()

    async def write() -> None:
        async with from_server:
            async for message in from_server:
                written = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                line = written.encode() + b"\n"
                try:
                    await anyio.to_thread.run_sync(_write_all, output, line, abandon_on_cancel=True)
                except OSError:
                    return  # nobody reads any more
                if isinstance(message.message, (JSONRPCResponse, JSONRPCError)):
                    unanswered.remove(message.message.id)

    lines.start()
    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        yield incoming, outgoing
        group.cancel_scope.cancel()


def _message(line: bytes, cut: bool, longest: int) -> SessionMessage | JSONRPCError:
    """Read a line; what is no message becomes the answer that says so."""
    if cut:
        error = ErrorData(
            code=INVALID_REQUEST, message=f"the message has more than {longest} bytes"
        )
        return _refusal(_id_at_head(line), error)
    try:
        text = line.decode()
    except UnicodeDecodeError as bad:
        error = ErrorData(
            code=PARSE_ERROR,
            message=f"the message is not UTF-8: byte {bad.start + 1} is 0x{line[bad.start]:02x}",
        )
        return _refusal(_id_of(line.decode(errors="replace")), error)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except (ValidationError, ValueError):
        pass
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return _refusal(None, ErrorData(code=PARSE_ERROR, message="the message is not JSON"))
    return _refusal(
        _id_of(text),
        ErrorData(code=INVALID_REQUEST, message="the message is no request of JSON-RPC 2.0"),
    )


def _refusal(request: str | int | None, error: ErrorData) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=error)


def _id_at_head(line: bytes) -> str | int | None:
    """Find the id of a message of which only the beginning is known."""
    found = _ID.search(line[:_PART].partition(b'"params"')[0])
    return None if found is None else _id_of(f'{{"id": {found[1].decode(errors="replace")}}}')


def _id_of(text: str) -> str | int | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    request = document.get("id") if isinstance(document, dict) else None
    if isinstance(request, (str, int)) and not isinstance(request, bool):
        return request
    return None


def _own(descriptor: int, instead: str | None) -> int:
    """Take a standard stream: whatever else in the process uses it gets something else.

    Output goes to the standard error stream then, and input is empty.
    """
    ours = os.dup(descriptor)
    if instead is None:
        sys.stdout.flush()
        os.dup2(2, descriptor)
    else:
        empty = os.open(instead, os.O_RDONLY)
        os.dup2(empty, descriptor)
        os.close(empty)
    return ours


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
