"""Tools of MCP servers in a supervisor's graph: live, told apart, and no worse off than their servers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from langgraph.checkpoint.memory import InMemorySaver

from anabranch import events as ev
from anabranch.demo._process import started
from anabranch.errors import ConfigError
from anabranch.sources.python import PythonSource
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.graph import supervisor_graph
from anabranch.supervisor.mcp import McpTools, Server
from anabranch.supervisor.mcp.tools import DOWN
from tests.agents.mcp_server import PIXEL
from tests.agents.wire import pause
from tests.sources.langgraph.graphs import Turn, asks_for, says, stops
from tests.sources.langgraph.strict import Strict, Thread

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
MODULE = "tests.agents.mcp_server"


def stdio(name: str, *arguments: str, **options: Any) -> Server:
    """A server in a process of its own, over stdin and stdout."""
    env = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))} | options.pop("env", {})
    args = ["-m", MODULE, "--stdio", "--name", name, *arguments]
    return Server(name, command=sys.executable, args=args, env=env, **options)


@asynccontextmanager
async def server(kind: str, *arguments: str, **options: Any) -> AsyncIterator[Server]:
    """The server ``tools``, over ``stdio`` or ``http``."""
    if kind == "stdio":
        yield stdio("tools", *arguments, **options)
        return
    async with started(MODULE, "--name", "tools", *arguments) as url:
        yield Server("tools", url=f"{url}/mcp", **options)


@asynccontextmanager
async def graph_with(*servers: Server, script: list[Turn], tools: list[Any] | None = None) -> AsyncIterator[Any]:
    """A supervisor whose model follows ``script``; ``offered`` are the tools that it was given each time."""
    mcp = McpTools(servers)
    offered: list[list[str]] = []

    class Noting(Strict):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            offered.append([tool["name"] if isinstance(tool, dict) else tool.name for tool in tools])
            return self

    graph = supervisor_graph(
        Noting(turns=script), tools or [], middleware=[mcp.middleware()], checkpointer=InMemorySaver()
    )
    graph.offered, graph.mcp = offered, mcp
    async with asyncio.timeout(40):
        try:
            yield graph
        finally:
            await mcp.aclose()


def calls(*named: tuple[str, dict[str, Any]]) -> list[Turn]:
    """All these calls in one turn (``c1``, ``c2``...), then a word."""
    asked = [(f"c{n}", name, json.dumps(arguments)) for n, (name, arguments) in enumerate(named, 1)]
    return [asks_for(*asked) + stops("tool_calls"), says("done") + stops()]


def by_call(events: list[ev.Event], kind: type[Any]) -> dict[str, list[Any]]:
    """Events of one kind about tool calls, by what the model called the call."""
    names = {event.call_id: event.origin_id for event in events if isinstance(event, ev.ToolCallStarted)}
    found: dict[str, list[Any]] = {name: [] for name in names.values()}
    for event in events:
        if isinstance(event, kind):
            found[names[event.call_id]].append(event)
    return found


async def events_of(graph: Any) -> list[ev.Event]:
    """A run on a thread of its own."""
    thread = Thread(graph)
    thread.memory_key = uuid.uuid4().hex
    return await thread.says("go")


async def results(graph: Any) -> dict[str, ev.ToolReturned]:
    """What came of each call of a run on a thread of its own."""
    events = await events_of(graph)
    assert isinstance(events[-1], ev.RunFinished), events[-1]
    return {call: each for call, [each] in by_call(events, ev.ToolReturned).items()}


async def noted(file: Path, line: str) -> None:
    await until(lambda: line in (file.read_text().splitlines() if file.exists() else []))


KINDS = pytest.mark.parametrize("kind", ["stdio", "http"])


@KINDS
async def test_progress_comes_live_and_belongs_to_its_call_when_two_run_at_once(kind: str) -> None:
    script = calls(("count", {"to": 5, "name": "a"}), ("count", {"to": 4, "name": "b"}))
    async with server(kind) as tools, graph_with(tools, script=script) as graph:
        events = await events_of(graph)
    deltas = by_call(events, ev.ToolOutputDelta)
    for call, name, to in (("c1", "a", 5), ("c2", "b", 4)):
        want = [{"progress": n, "total": to, "message": f"{name} {n}"} for n in range(1, to + 1)]
        assert [delta.content for delta in deltas[call]] == want
    order = [type(event) for event in events if isinstance(event, ev.ToolOutputDelta | ev.ToolReturned)]
    assert order[-1] is ev.ToolReturned and order[:5].count(ev.ToolReturned) == 0, "before any result"
    texts = {call: each.content for call, [each] in by_call(events, ev.ToolReturned).items()}
    assert texts == {"c1": "a counted to 5", "c2": "b counted to 4"}


@KINDS
async def test_results_of_every_kind_are_shown_as_they_are(kind: str) -> None:
    script = calls(("picture", {}), ("data", {}), ("sound", {}), ("fail", {"why": "no disk"}), ("count", {"to": "x"}))
    async with server(kind) as tools, graph_with(tools, script=script) as graph:
        told = await results(graph)
    picture = json.loads(told["c1"].content)
    assert picture[0]["text"] == "one pixel"
    assert (picture[1]["type"], base64.b64decode(picture[1]["base64"])) == ("image", PIXEL)
    assert json.loads(told["c2"].content) == {"nodes": 42}
    [sound] = json.loads(told["c3"].content)
    assert (sound["type"], sound["mime_type"], sound["base64"]) == ("file", "audio/wav", "UklGRg==")
    assert [told[call].is_error for call in ("c1", "c2", "c3", "c4", "c5")] == [False, False, False, True, True]
    assert "no disk" in told["c4"].content and "name" in told["c5"].content


async def test_a_command_gets_the_environment_that_it_was_given() -> None:
    async with graph_with(stdio("tools", env={"MCP_TEST": "it"}), script=calls(("knows", {}))) as graph:
        assert (await results(graph))["c1"].content == "it"


@KINDS
async def test_a_server_that_crashes_fails_that_call_once_and_its_sibling_answers(kind: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with server(kind, "--notes", str(notes)) as tools:
        other = stdio("other")
        script = calls(("crash", {}), ("other_count", {"to": 2, "name": "b"}))
        async with graph_with(tools, other, script=script) as graph:
            told = await results(graph)
            assert told["c1"].is_error and "The MCP server tools broke off" in told["c1"].content
            assert told["c2"].content == "b counted to 2"
    assert notes.read_text().splitlines() == ["crash"]


async def test_a_command_that_crashed_is_started_again_for_the_next_call(tmp_path: Path) -> None:
    notes = str(tmp_path / "notes")
    crash, done = calls(("crash", {}))
    [again, _] = calls(("count", {"to": 1, "name": "a"}))
    again = asks_for(("c2", "count", '{"to": 1, "name": "a"}')) + again[-2:]
    async with graph_with(stdio("tools", "--notes", notes), script=[crash, again, done]) as graph:
        told = await results(graph)
    assert told["c1"].is_error and told["c2"].content == "a counted to 1"


async def test_a_server_that_is_down_stops_nothing_and_its_tools_come_with_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    web = Server("web", url=f"http://127.0.0.1:{port}/mcp")
    async with graph_with(web, script=calls(("count", {"to": 1, "name": "a"}))) as graph:
        events = await events_of(graph)
        [custom] = [event for event in events if isinstance(event, ev.Custom)]
        assert (custom.name, custom.value) == (DOWN, {"server": "web", "reason": "cannot be reached"})
        assert isinstance(events[-1], ev.RunFinished)
        [[refused]] = by_call(events, ev.ToolReturned).values()
        assert refused.is_error and "count" in refused.content
        assert "count" not in graph.offered[-1]
        assert graph.mcp.states() == [{"name": "web", "state": "down", "reason": "cannot be reached", "tools": []}]
        async with started(MODULE, port=port):
            await until(lambda: web.state == "up")
            assert (await results(graph))["c1"].content == "a counted to 1"
            assert "count" in graph.offered[-1]
        told = await results(graph)  # it is gone again
        assert told["c1"].is_error and "The MCP server web" in told["c1"].content
        assert "count" in graph.offered[-1], "what a conversation has used stays"


async def test_a_server_that_was_restarted_is_used_at_once() -> None:
    async with started(MODULE) as url:
        web = Server("web", url=f"{url}/mcp")
        async with graph_with(web, script=calls(("count", {"to": 1, "name": "a"}))) as graph:
            assert not (await results(graph))["c1"].is_error
            port = int(url.rpartition(":")[2])
            await web_restarted(url, port, graph)


async def web_restarted(url: str, port: int, graph: Any) -> None:
    for child in psutil.Process().children():
        if MODULE in child.cmdline():
            child.kill()
            await asyncio.to_thread(child.wait, 5)
    async with started(MODULE, port=port):
        assert (await results(graph))["c1"].content == "a counted to 1"


async def test_a_name_that_something_else_has_gets_that_of_its_server() -> None:
    async def komodor(request: Any) -> AsyncIterator[str]:
        yield "from komodor"

    agent = delegate("komodor", PythonSource(komodor))
    names = ("ask_komodor", "one_ask_komodor", "two_ask_komodor", "knows", "two_knows")
    script = calls(*((name, {"question": "?"} if name == "ask_komodor" else {}) for name in names))
    one, two = stdio("one", env={"MCP_TEST": "1"}), stdio("two", env={"MCP_TEST": "2"})
    async with graph_with(one, two, script=script, tools=[agent]) as graph:
        told = await results(graph)
        assert set(names) <= set(graph.offered[0]) and len(set(graph.offered[0])) == len(graph.offered[0])
    assert [told[f"c{n}"].content for n in range(1, 6)] == ["from komodor", "from one", "from two", "1", "2"]


@KINDS
async def test_cancelling_the_run_cancels_the_call_and_the_session_stays(kind: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with server(kind, "--notes", str(notes)) as tools, graph_with(tools, script=calls(("hang", {}))) as graph:
        stream = graph.astream({"messages": "go"}, {"configurable": {"thread_id": "t"}}, stream_mode=["messages"])
        async with aclosing(stream) as parts, asyncio.timeout(20):
            running = asyncio.create_task(read(parts))
            await noted(notes, "hang")
            running.cancel()
            await asyncio.wait((running,))
            await noted(notes, "cancelled")
        assert tools.state == "up"


async def read(parts: Any) -> None:
    async for _ in parts:
        pass


async def test_a_call_that_says_nothing_for_too_long_fails_and_is_cancelled(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    slow = stdio("tools", "--notes", str(notes), idle_s=0.3)
    script = calls(("hang", {}), ("count", {"to": 60, "name": "a"}))
    async with graph_with(slow, script=script) as graph:
        told = await results(graph)
        assert told["c1"].is_error and "said nothing for 0.3 s" in told["c1"].content
        assert told["c2"].content == "a counted to 60", "progress is a sign of life"
        await noted(notes, "cancelled")


@KINDS
async def test_a_tool_that_a_server_gets_later_is_offered(kind: str) -> None:
    grow, done = calls(("grow", {}))
    async with server(kind) as tools, graph_with(tools, script=[grow, done]) as graph:
        await results(graph)
        await until(lambda: "grown" in [tool.name for tool in tools.tools])
        await results(graph)
        assert "grown" in graph.offered[-1] and "grown" not in graph.offered[0]


async def test_a_command_that_does_not_exist_is_said_to_be_missing() -> None:
    tools = Server("files", command="no-such-command-here")
    async with graph_with(tools, script=[says("done")]) as graph:
        events = await events_of(graph)
    [custom] = [event for event in events if isinstance(event, ev.Custom)]
    assert custom.value == {"server": "files", "reason": "cannot be started: there is no such command"}


@pytest.mark.parametrize("given", [{}, {"url": "http://a/mcp", "command": "b"}])
def test_a_server_without_a_place_or_with_two_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="one of the two"):
        Server("files", **given)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await pause(0.01)
