"""The services of the compose file, started as it says: database and MCP server together."""

from __future__ import annotations

import os
import re
import time

import anyio
import httpx2
import pytest
import yaml
from testcontainers.core.image import DockerImage
from testcontainers.core.network import Network

from tests.container.conftest import ROOT, Prepared, ServerContainer
from tests.mcp import serving

COMPOSE = yaml.safe_load((ROOT / "docker/compose.yml").read_text())["services"]


def environment(service: str) -> dict[str, str]:
    """A service's environment, with the compose file's defaults."""
    return {
        name: re.sub(r"\$\{[A-Z_]+:?-([^}]*)\}", r"\1", value)
        for name, value in COMPOSE[service]["environment"].items()
    }


@pytest.fixture(scope="module")
def mcp_image(engine) -> str:
    """The MCP server's image."""
    build = COMPOSE["mcp"]["build"]
    name = "graphalgo-mcp:test"
    DockerImage(
        path=(ROOT / "docker" / build["context"]).resolve(),
        tag=name,
        clean_up=False,
        dockerfile_path=build["dockerfile"],
        buildargs={"PIP_INDEX_URL": os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")},
        rm=True,
    ).build()
    return name


@pytest.mark.slow
def test_an_agent_connects_with_the_token_that_the_container_prints(image, mcp_image):
    settings = environment("postgres")
    with Network() as network, ServerContainer(image(17), ready=False, **settings) as database:
        database.get_wrapped_container().reload()
        network.connect(database.get_wrapped_container().id, ["postgres"])
        Prepared().wait_until_ready(database)
        server = ServerContainer(mcp_image, ready=False, **environment("mcp"))
        server.ports = {}
        server.with_exposed_ports(8765).with_network(network)
        with server:
            Prepared().wait_until_ready(server)
            url = f"http://127.0.0.1:{server.get_exposed_port(8765)}"
            assert httpx2.get(f"{url}/readyz").status_code == 200
            assert httpx2.post(f"{url}/mcp").status_code == 401
            sub = "e0000000-0000-0000-0000-00000000000a"
            printed = server.get_wrapped_container().exec_run(
                ["graphalgo-mcp", "token", "--sub", sub]
            )
            assert printed.exit_code == 0
            anyio.run(_hand_off, f"{url}/mcp", printed.output.decode().strip())
            begun = time.monotonic()
            server.get_wrapped_container().stop(timeout=20)
            assert time.monotonic() - begun < 10
            server.get_wrapped_container().reload()
            assert server.get_wrapped_container().attrs["State"]["ExitCode"] == 0


async def _hand_off(url: str, token: str) -> None:
    async with serving.over_http(url, token) as client:
        assert "discovery -references->" in client.instructions
        found = await client.call_tool("search_entities", {"query": "optimization candidates"})
        assert "DSC-104" in [row["handle"] for row in found.structured_content["rows"]]
        hop = await client.call_tool("get_neighbors", {"handle": "DSC-104"})
        assert len(hop.structured_content["rows"]) == 3
        read = await client.read_resource("aiq://ontology/entities/INS-208")
        assert "saved scan seconds" in read.contents[0].text
