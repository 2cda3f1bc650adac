"""A tool of the supervisor that raises gives its own call an error result, whatever it raises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool

from anabranch import events as ev
from anabranch.supervisor.graph import tool_errors
from tests.sources.langgraph.graphs import asks_for, model, says
from tests.sources.langgraph.seen import run

ENDS = [SystemExit(3), KeyboardInterrupt(), ValueError("secret")]


def graph(broken: Any) -> Any:
    @tool
    async def sibling(x: str) -> str:
        """Works."""
        return x

    calls = asks_for(("c1", "broken", '{"x": "1"}'), ("c2", "sibling", '{"x": "fine"}'))
    return create_agent(model(calls, says("done")), [broken, sibling], middleware=[tool_errors()])


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_tool_that_ends_the_process_or_fails_only_fails_its_own_call(kind: str, error: BaseException) -> None:
    def now(x: str) -> str:
        raise error

    async def later(x: str, runtime: ToolRuntime) -> str:
        raise error

    later.__annotations__ = {"x": str, "runtime": ToolRuntime, "return": str}
    how: dict[str, Any] = {"func": now} if kind == "sync" else {"coroutine": later}
    seen = await run(graph(StructuredTool.from_function(**how, name="broken", description="Breaks.")))
    failed = seen.call("c1")
    assert failed.is_error and type(error).__name__ in (failed.result or "") and "secret" not in (failed.result or "")
    assert seen.call("c2").result == "fine" and seen.text() == "done"
    assert isinstance(seen.terminal, ev.RunFinished) and seen.repairs == {}


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
async def test_a_graph_that_is_invoked_synchronously_has_the_same_errors(error: BaseException) -> None:
    @tool
    def broken(x: str) -> str:
        """Breaks."""
        raise error

    class Whole(FakeMessagesListChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    call = {"id": "c1", "name": "broken", "args": {"x": "1"}}
    agent = create_agent(
        Whole(responses=[AIMessage("", tool_calls=[call]), AIMessage("done")]), [broken], middleware=[tool_errors()]
    )
    async with asyncio.timeout(20):
        messages = (await asyncio.to_thread(agent.invoke, {"messages": [("user", "go")]}))["messages"]
    assert messages[-2].status == "error" and type(error).__name__ in messages[-2].content
    assert messages[-1].text == "done"
