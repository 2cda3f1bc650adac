"""An MCP server on the official SDK, over streamable HTTP, or over stdin and stdout with ``--stdio``.

``count`` reports its progress, ``fail`` says that it failed, ``crash`` ends the process, ``hang`` waits for its
cancellation. Each call is noted as a line in the file ``--notes``.

    python -m tests.agents.mcp_server --port 0 [--name tools] [--notes FILE]
    python -m tests.agents.mcp_server --stdio
"""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.utilities.types import Image
from mcp.types import AudioContent, CallToolResult, TextContent
from starlette.applications import Starlette

from anabranch.demo._process import command_line, serve
from tests.agents.wire import pause

PIXEL = bytes.fromhex("89504e470d0a1a0a")


def build(name: str, notes: str) -> FastMCP:
    """The server and its tools."""
    mcp = FastMCP(name, log_level="CRITICAL")

    def note(what: str) -> None:
        if notes:
            with Path(notes).open("a", encoding="utf-8") as file:
                file.write(f"{what}\n")

    work(mcp, note)
    results(mcp)

    @mcp.tool(name="ask_komodor")
    async def same_name() -> str:
        """A name that something else has."""
        return f"from {name}"

    return mcp


def work(mcp: FastMCP, note: Callable[[str], None]) -> None:
    """Tools that do something."""

    @mcp.tool()
    async def count(to: int, name: str, ctx: Context[Any, Any, Any]) -> str:
        """Count up to a number, reporting each step."""
        note(f"count {name}")
        for number in range(1, to + 1):
            await ctx.report_progress(number, to, f"{name} {number}")
            await pause(0.01)
        return f"{name} counted to {to}"

    @mcp.tool()
    async def crash() -> str:
        """End this process."""
        note("crash")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    @mcp.tool()
    async def hang() -> str:
        """Wait until it is cancelled."""
        note("hang")
        try:
            await asyncio.Event().wait()
        finally:
            note("cancelled")
        return "never"

    @mcp.tool()
    async def grow(ctx: Context[Any, Any, Any]) -> CallToolResult:
        """Get another tool."""
        mcp.add_tool(grown, name="grown")
        await ctx.session.send_tool_list_changed()
        return CallToolResult(content=[TextContent(type="text", text="done")])


def results(mcp: FastMCP) -> None:
    """Tools with results of every kind."""

    @mcp.tool()
    async def knows() -> str:
        """What it knows of its environment."""
        return os.environ.get("MCP_TEST", "nothing")

    @mcp.tool()
    async def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    @mcp.tool(structured_output=False)
    async def picture() -> list[Any]:
        """A text and a picture."""
        return ["one pixel", Image(data=PIXEL, format="png")]

    @mcp.tool()
    async def data() -> CallToolResult:
        """Structured content, and no text."""
        return CallToolResult(content=[], structuredContent={"nodes": 42})

    @mcp.tool()
    async def sound() -> CallToolResult:
        """Sound."""
        return CallToolResult(content=[AudioContent(type="audio", data="UklGRg==", mimeType="audio/wav")])


async def grown() -> str:
    """It was not there before."""
    return "new"


def main() -> None:
    """Parse the command line and serve."""
    parser = command_line("An MCP server.")
    parser.add_argument("--name", default="tools")
    parser.add_argument("--notes", default="", help="a file for a line for each call")
    parser.add_argument("--stdio", action="store_true", help="speak on stdin and stdout")
    options = parser.parse_args()
    if options.stdio:
        build(options.name, options.notes).run("stdio")
        return

    def app(_url: str) -> Starlette:
        return build(options.name, options.notes).streamable_http_app()

    serve(app, options)


if __name__ == "__main__":
    main()
