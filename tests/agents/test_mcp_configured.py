"""MCP servers of the configuration: with their secrets, and connected when the supervisor is first asked."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from anabranch.config import parse
from anabranch.configured import made, secrets
from anabranch.errors import ConfigError
from anabranch.request import Message, RunRequest

ROOT = Path(__file__).parents[2]
ABOVE = """
model: {name: m, base_url: "http://127.0.0.1:1/v1"}
agents: {k: {a2a: "http://127.0.0.1:1"}}
storage: memory://
supervisor: {}
"""


@pytest.mark.process
async def test_the_servers_of_the_configuration_are_connected_by_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ONE", "TWO", "THREE"):
        monkeypatch.setenv(variable, f"value of {variable}")
    path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    config = parse(f"""{ABOVE}
mcp:
  servers:
    files:
      command: {sys.executable}
      args: ["-m", tests.agents.mcp_server, --stdio]
      env: {{PYTHONPATH: "{path}"}}
      secrets_env: {{MCP_TEST: ONE}}
    web: {{url: "http://127.0.0.1:1/mcp", bearer_env: TWO, headers_env: {{x-key: THREE}}}}
""")
    assert {"value of ONE", "value of TWO", "value of THREE"} <= set(secrets(config))
    source: Any = made(config).sources["supervisor"]
    [mcp] = [close.__self__ for close in source._closes]
    files, web = mcp.servers
    assert files.connection["env"]["MCP_TEST"] == "value of ONE"
    assert web.connection["headers"] == {"authorization": "Bearer value of TWO", "x-key": "value of THREE"}
    assert [each["state"] for each in mcp.states()] == ["unknown", "unknown"]
    request = RunRequest(run_id="r", thread_id="t", messages=(Message(id="m", role="user", content="x"),))
    try:
        async with asyncio.timeout(20):
            with pytest.raises(Exception, match="Connection"):  # that of the model, behind the servers
                async for _ in source.open(request):
                    pass
        assert [each["state"] for each in mcp.states()] == ["up", "down"]
    finally:
        await source.aclose()


@pytest.mark.parametrize(
    ("servers", "flaw"),
    [
        ("{a: {}}", "`mcp.servers.a`: give it one of"),
        ("{a: {url: 'http://a', command: a}}", "`mcp.servers.a`: give it one of"),
        ("{a: {url: 'a'}}", "`mcp.servers.a.url`: 'a' is not an http"),
        ("{a: {url: 'http://a', args: [x]}}", "`mcp.servers.a.args`: it is for a server with a `command`"),
        ("{a: {command: a, bearer_env: S}}", "`mcp.servers.a.bearer_env`: it is for a server with a `url`"),
        ("{'a b': {command: a}}", "rename it"),
    ],
)
def test_a_server_that_cannot_be_is_refused(servers: str, flaw: str) -> None:
    with pytest.raises(ConfigError, match=flaw):
        parse(f"{ABOVE}mcp: {{servers: {servers}}}")


def test_without_a_supervisor_nobody_has_the_tools() -> None:
    with pytest.raises(ConfigError, match="add a `supervisor` section"):
        parse("agents: {k: {a2a: 'http://a'}}\nmcp: {servers: {a: {url: 'http://a'}}}")
