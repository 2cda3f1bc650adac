"""What of a conversation reaches the model."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from anabranch.request import Message, RunRequest, ToolCall
from anabranch.sources.langgraph import LangGraphSource

from .graphs import Scripted, asks_for, model, says, stops
from .seen import run


class Echo(Scripted):
    """Says what it was given."""

    def _turn(self, messages: list[Any]) -> Any:
        given = [
            (m.type, m.text, [c["id"] for c in getattr(m, "tool_calls", ())], getattr(m, "tool_call_id", None))
            for m in messages
        ]
        return [*says(json.dumps(given)), *stops()]


async def heard(*messages: Message, graph: Any = None) -> list[Any]:
    seen = await run(
        graph or create_agent(Echo(turns=[]), []), RunRequest(run_id="r", thread_id="t", messages=messages)
    )
    return list(json.loads(seen.text()))


async def test_sub_agents_messages_are_left_out_and_every_call_has_its_result_behind_it() -> None:
    call = ToolCall(id="c1", name="ask", arguments='{"q": 1')
    other = ToolCall(id="c2", name="ask", arguments="{}")
    assert await heard(
        Message(id="s", role="developer", content="be brief"),
        Message(id="u", role="user", content="q"),
        Message(id="a", role="assistant", tool_calls=(call, other)),
        Message(id="x", role="assistant", content="I am komodor", agent="run:1"),
        Message(id="t0", role="tool", content="whose?", tool_call_id="c0"),
        Message(id="u2", role="user", content="and?"),
        Message(id="t2", role="tool", content="two", tool_call_id="c2"),
    ) == [
        ["system", "be brief", [], None],
        ["human", "q", [], None],
        ["ai", "", ["c1", "c2"], None],
        ["tool", "Error: this tool reported no result.", [], "c1"],
        ["tool", "two", [], "c2"],
        ["human", "and?", [], None],
    ]


async def test_a_graph_with_checkpoints_gets_only_what_is_new() -> None:
    graph = create_agent(Echo(turns=[]), [], checkpointer=InMemorySaver())
    first = Message(id="u1", role="user", content="one")
    once = await heard(first, graph=graph)
    answer = Message(id="ours:1", role="assistant", content="as shown to the client")
    again = await heard(first, answer, Message(id="u2", role="user", content="two"), graph=graph)
    assert [text for _, text, *_ in again] == ["one", json.dumps(once), "two"]


async def test_a_call_that_a_cancelled_run_left_open_does_not_spoil_the_thread() -> None:
    running = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait forever."""
        running.set()
        await asyncio.Event().wait()
        return "never"

    saver = InMemorySaver()
    graph = create_agent(model(asks_for(("c1", "wait", "{}"))), [wait], checkpointer=saver)
    request = RunRequest(run_id="r", thread_id="t", messages=(Message(id="u1", role="user", content="go"),))

    async def read() -> None:
        async with aclosing(LangGraphSource(graph).open(request)) as stream:
            async for _ in stream:
                pass

    async with asyncio.timeout(20):
        reader = asyncio.create_task(read())
        await running.wait()
        reader.cancel()
        await asyncio.wait([reader])
    echo = create_agent(Echo(turns=[]), [wait], checkpointer=saver)
    given = await heard(Message(id="u2", role="user", content="next"), graph=echo)
    assert [(kind, call) for kind, _, _, call in given] == [
        ("human", None),
        ("ai", None),
        ("tool", "c1"),
        ("human", None),
    ]
