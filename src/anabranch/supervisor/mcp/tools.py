"""The tools of MCP servers in a graph that is built once: they come and go with their servers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ...errors import SourceError
from ...events import Custom
from ...scope import current
from .server import Server

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from mcp.types import CallToolResult, Tool

DOWN = "mcp_server_down"
"""The ``Custom`` event at the start of a run, one for each server that cannot be used: ``server`` and ``reason``."""

_LONGEST = 64


class McpTools:
    """The tools of all ``servers``. Give ``middleware()`` to a graph, and ``aclose`` it at the end.

    They connect when the graph is first run. A tool has the name that its server gives it, or ``{server}_{name}`` when
    another tool has that already, and keeps it. One whose server is down stays, and says so.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = tuple(servers)
        self._names: dict[tuple[str, str], str] = {}
        self._made: dict[str, tuple[Any, BaseTool]] = {}  # by name, with what it was made of

    async def open(self) -> None:
        """Start to connect, and wait until each server is up or known to be down. Never fails."""
        await asyncio.gather(*(server.open() for server in self.servers))

    async def aclose(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(server.aclose() for server in self.servers))

    def states(self) -> list[dict[str, Any]]:
        """How the servers are: ``name``, ``state``, ``reason``, ``tools``."""
        return [
            {"name": each.name, "state": each.state, "reason": each.reason, "tools": [tool.name for tool in each.tools]}
            for each in self.servers
        ]

    def tools(self, taken: Collection[str]) -> list[BaseTool]:
        """Those there are by now, beside tools whose names are ``taken``."""
        for server in self.servers:
            for tool in server.tools:
                self._named(server, tool, taken)
        return [
            self._tool(self._names[server.name, tool.name], server, tool)
            for server in self.servers
            for tool in server.tools
        ]

    def middleware(self) -> Any:
        """For ``create_agent`` and ``create_deep_agent``, behind what makes results of errors."""
        from langchain.agents.middleware import AgentMiddleware

        mcp = self

        class McpMiddleware(AgentMiddleware[Any, Any]):
            async def abefore_agent(self, state: Any, runtime: Any) -> None:
                await mcp.open()
                for server in mcp.servers:
                    if server.state == "down":
                        with suppress(LookupError):
                            value = {"server": server.name, "reason": server.reason}
                            current().emit(Custom(name=DOWN, value=value))

            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                await mcp.open()
                mine = mcp.tools(_names(request.tools))
                return await handler(request.override(tools=[*request.tools, *mine]))

            async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
                if request.tool is None:
                    await mcp.open()
                    called = request.tool_call["name"]
                    known = {tool.name: tool for tool in mcp.tools(_names(request.runtime.tools))}
                    request = request.override(tool=known.get(called))
                return await handler(request)

        return McpMiddleware()

    def _named(self, server: Server, tool: Tool, taken: Collection[str]) -> None:
        key = (server.name, tool.name)
        if key in self._names:
            return
        used = {*taken, *self._names.values()}
        own, whole = _clean(tool.name), _clean(f"{server.name}_{tool.name}")
        name, number = own if own not in used else whole, 2
        while name in used:
            name, number = f"{whole[: _LONGEST - 4]}_{number}", number + 1
        self._names[key] = name

    def _tool(self, name: str, server: Server, tool: Tool) -> BaseTool:
        from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool

        of = (tool, server.reason if server.state == "down" else "")
        made = self._made.get(name)
        if made is None or made[0] != of:
            connection: Any = server.connection
            new = convert_mcp_tool_to_langchain_tool(
                None, tool, connection=connection, tool_interceptors=[_calls(server)], server_name=server.name
            )
            new.name = name
            if server.state == "down":
                new.description = f"{new.description}\n(Not available now: {server.who} {server.reason}.)"
            made = self._made[name] = (of, new)
        return made[1]


def _calls(server: Server) -> Callable[..., Any]:
    """What makes a call, in the place of the adapter, which would start a session for each and mix their progress."""

    async def call(request: Any, _handler: Any) -> CallToolResult:
        runtime, context = request.runtime, copy_context()

        def report(told: dict[str, Any]) -> None:
            if runtime is not None:
                context.run(runtime.emit_output_delta, told)  # LangGraph finds the call by its context

        try:
            return _shown(await server.call(request.name, request.args, report))
        except SourceError as error:
            return _failed(f"Error: {error}")

    return call


def _failed(text: str) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(isError=True, content=[TextContent(type="text", text=text)])


def _shown(result: CallToolResult) -> CallToolResult:
    """``result`` with what the adapter would lose or refuse: data without text, and sound, which becomes a file."""
    from mcp.types import AudioContent, BlobResourceContents, EmbeddedResource, TextContent

    content: list[Any] = []
    for number, block in enumerate(result.content):
        if isinstance(block, AudioContent):
            uri: Any = f"audio://{number}"
            blob = BlobResourceContents(uri=uri, blob=block.data, mimeType=block.mimeType)
            block = EmbeddedResource(type="resource", resource=blob)
        content.append(block)
    if not content and result.structuredContent is not None:
        content.append(TextContent(type="text", text=json.dumps(result.structuredContent, ensure_ascii=False)))
    return result.model_copy(update={"content": content})


def _names(tools: Iterable[Any]) -> set[str]:
    return {str(tool.get("name") if isinstance(tool, dict) else tool.name) for tool in tools}


def _clean(name: str) -> str:
    """What providers allow: letters, digits, ``_`` and ``-``, 64 at most."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST]
