"""The server as a process, and clients of the SDK that connect to it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import jwt
import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

SECRET = "a secret of more than thirty-two bytes, for tests"
AUDIENCE = "graphalgo-test"
HTTP = {"GRAPHALGO_MCP_JWT_SECRET": SECRET, "GRAPHALGO_MCP_JWT_AUDIENCE": AUDIENCE}
ACCEPT = {"accept": "application/json, text/event-stream"}


def environment(**settings: str) -> dict[str, str]:
    """The process's environment, with these settings of the server and no others."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GRAPHALGO_MCP_")}
    return kept | {f"GRAPHALGO_MCP_{name.upper()}": value for name, value in settings.items()}


def token(sub: str | None, **claims: Any) -> str:
    """A token of a user that holds for an hour, or as the claims say; None leaves one out."""
    given = {"sub": sub, "aud": AUDIENCE, "exp": int(time.time()) + 3600} | claims
    secret = given.pop("secret", SECRET)
    return jwt.encode(
        {key: value for key, value in given.items() if value is not None}, secret, "HS256"
    )


@dataclass
class Server:
    """A server over HTTP that runs."""

    process: subprocess.Popen[str]
    url: str
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def root(self) -> str:
        return self.url.removesuffix("/mcp")

    def resident(self) -> int:
        """Its memory in KiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def stop(self, kind: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(kind)
        return self.process.wait(timeout=30)


@contextmanager
def http_server(dsn: str, **settings: str) -> Iterator[Server]:
    """Run `graphalgo mcp --transport http` on a free port."""
    given = {"jwt_secret": SECRET, "jwt_audience": AUDIENCE} | settings
    given = {name: value for name, value in given.items() if value}
    process = subprocess.Popen(
        [sys.executable, "-m", "graphalgo.cli", "mcp", "--dsn", dsn, "--transport", "http",
         "--port", "0"],
        env=environment(**given), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    server = Server(process, "")
    started: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def follow() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"event": "no JSON", "line": line}
            server.log.append(entry)
            if entry["event"] == "started":
                started.put(entry)
        started.put(None)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        entry = started.get(timeout=30)
        assert entry is not None, server.log
        server.url = f"http://127.0.0.1:{entry['port']}/mcp"
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        follower.join(timeout=10)


@asynccontextmanager
async def over_http(url: str, bearer: str, mode: str = "legacy") -> AsyncIterator[mcp.Client]:
    """A client of the SDK over streamable HTTP."""
    headers = {"authorization": f"Bearer {bearer}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(
    dsn: str, *options: str, mode: str = "legacy", **settings: str
) -> AsyncIterator[mcp.Client]:
    """A client of the SDK over a server's standard streams."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "graphalgo.cli", "mcp", "--dsn", dsn, *options],
        env=environment(**settings),
    )
    with open(os.devnull, "w") as nowhere:
        async with mcp.Client(stdio_client(parameters, errlog=nowhere), mode=mode) as client:
            yield client


def refusal(result: Any) -> str:
    """The text of a refused call."""
    assert result.is_error, result
    text: str = result.content[0].text
    return text
