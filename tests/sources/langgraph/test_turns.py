"""Model turns and tool results of real graphs: everything once, with the text that counts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
    wrap_tool_call,
)
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from anabranch import events as ev
from anabranch.errors import SourceError
from anabranch.request import Message, RunRequest

from .graphs import (
    TOKENS,
    Scripted,
    Whole,
    add,
    ask,
    asks_for,
    explode,
    graph_of_tool,
    model,
    says,
    stops,
    thinks,
    two_asks,
)
from .seen import run

"""[AG-1, AG-2, AG-22, AG-41, F4]"""


async def test_interleaved_arguments_of_parallel_calls_stay_apart() -> None:
    calls = asks_for(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 30, "b": 4}'), size=3)
    seen = await run(create_agent(model(calls, says("ok")), [add]))
    assert [(c.arguments, c.result) for c in seen.calls.values()] == [
        ('{"a": 1, "b": 2}', "3"),
        ('{"a": 30, "b": 4}', "34"),
    ]
    assert len({call.turn for call in seen.calls.values()}) == 1 and seen.repairs == {}


async def test_each_model_turn_has_a_message_of_its_own_and_a_repeated_call_id_is_a_new_call() -> None:
    turn = asks_for(("same", "add", '{"a": 1, "b": 2}'))
    again = asks_for(("same", "add", '{"a": 3, "b": 4}'))
    seen = await run(create_agent(model([*says("first "), *turn], again, says("ok")), [add]))
    assert {id: (c.arguments, c.result) for (_, id), c in seen.calls.items()} == {
        "same": ('{"a": 1, "b": 2}', "3"),
        "same#2": ('{"a": 3, "b": 4}', "7"),
    }
    assert len({call.turn for call in seen.calls.values()}) == 2 and seen.repairs == {}


async def test_a_model_that_does_not_stream_is_told_whole_and_once() -> None:
    turn = [
        *thinks("hm"),
        *says("Let me add. "),
        *asks_for(("c1", "add", '{"a": 1, "b": 2}')),
        *stops("tool_calls"),
    ]
    llm = Whole(turns=[turn, [*says("It is 3."), *stops()]])
    seen = await run(create_agent(llm, [add]))
    assert seen.said() == [("Let me add. ", "narration"), ("It is 3.", "answer")]
    assert seen.thought() == ["hm"]
    assert json.loads(seen.call("c1").arguments) == {"a": 1, "b": 2} and seen.call("c1").result == "3"
    assert seen.repairs == {}


@pytest.mark.parametrize("message", [{"role": "assistant", "content": "written"}, ("ai", "written")])
async def test_an_answer_that_a_node_writes_in_a_short_form_is_shown(message: Any) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("node", lambda state: {"messages": [message]})
    builder.add_edge(START, "node")
    seen = await run(builder.compile())
    assert seen.said() == [("written", "answer")] and seen.repairs == {}


async def test_usage_is_reported_once_a_model_call_under_the_models_name() -> None:
    turn = [*asks_for(("c1", "add", '{"a": 1, "b": 2}')), *stops("tool_calls", 5)]
    seen = await run(create_agent(model(turn, [*says("3"), *stops(tokens=2)]), [add]))
    assert len(seen.of(ev.UsageReported)) == 2
    assert isinstance(seen.terminal, ev.RunFinished)
    assert seen.terminal.usage == (ev.Usage(model="scripted-1", input=20, output=7),)


async def test_a_summary_that_middleware_makes_for_itself_is_not_shown() -> None:
    summarise = SummarizationMiddleware(
        model=model(says("TOP SECRET SUMMARY")), trigger=("messages", 2), keep=("messages", 1)
    )
    graph = create_agent(model(says("hello")), [], middleware=[summarise])
    history = (
        Message(id="u1", role="user", content="one"),
        Message(id="a1", role="assistant", content="two"),
        Message(id="u2", role="user", content="three"),
    )
    seen = await run(graph, RunRequest(run_id="r", thread_id="t", messages=history))
    assert seen.said() == [("hello", "answer")]
    assert "SECRET" not in repr(seen.events)


async def test_a_model_that_is_asked_again_after_it_broke_off_supersedes_what_it_said() -> None:
    class Flaky(Scripted):
        def _turn(self, messages: list[Any]) -> Any:
            self.calls += 1
            return self.turns[self.calls - 1]

    llm = Flaky(turns=[[*says("Hel"), SourceError("cut")], [*says("Hello again"), *stops()]])
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False)
    seen = await run(create_agent(llm, [], middleware=[retry]))
    assert seen.said() == [("Hel", "narration"), ("Hello again", "answer")]
    [reset] = seen.of(ev.MessageReset)
    assert [reset.message_id, reset.superseded_by] == list(seen.messages)
    assert isinstance(seen.terminal, ev.RunFinished) and seen.repairs == {}
    assert seen.terminal.answer is not None and seen.terminal.answer.length == len("Hello again")


async def test_a_model_in_a_node_that_swallows_its_error_makes_the_run_a_failure() -> None:
    llm = model([*says("half"), SourceError("cut")])

    async def node(state: MessagesState) -> dict[str, Any]:
        try:
            return {"messages": [await llm.ainvoke(state["messages"])]}
        except SourceError:
            return {}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    seen = await run(builder.compile())
    assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.code == "model_truncated"
    assert seen.text() == "half"


async def test_a_model_in_a_tool_that_swallows_its_error_is_the_tools_business() -> None:
    llm = model([*says("half"), SourceError("cut")])

    @tool
    async def brave() -> str:
        """Survive."""
        try:
            return (await llm.ainvoke("hi")).text
        except SourceError:
            return "survived"

    seen = await run(graph_of_tool(brave))
    assert seen.text("c1") == "half" and seen.call("c1").result == "survived"
    assert isinstance(seen.terminal, ev.RunFinished) and seen.repairs == {}


async def test_a_graph_that_never_ends_is_stopped_with_a_typed_error() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("loop", lambda state: {"messages": []})
    builder.add_edge(START, "loop")
    builder.add_edge("loop", "loop")
    seen = await run(builder.compile().with_config(recursion_limit=5))
    assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.code == "recursion_limit"


async def test_two_runs_of_one_source_at_once_do_not_mix() -> None:
    """[AG-63]"""
    seen = await asyncio.gather(*(run(create_agent(model(two_asks(), says("end")), [ask])) for _ in range(2)))
    assert all(s.repairs == {} and s.text("c1/komodor") == "".join(TOKENS) for s in seen)


"""[F15, F16, AG-18, AG-19, AG-21] One result a call, with the text that the model reads."""


async def test_a_tool_that_does_not_exist_has_an_error_result() -> None:
    seen = await run(create_agent(model(asks_for(("c1", "nothing", "{}")), says("sorry")), [add]))
    assert seen.call("c1").is_error and "not a valid tool" in (seen.call("c1").result or "")
    assert len(seen.of(ev.ToolReturned)) == 1 and seen.repairs == {}


async def test_middleware_that_turns_an_exception_into_a_message_decides_the_text() -> None:
    @wrap_tool_call
    async def to_results(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except ValueError:
            return ToolMessage("please try again", tool_call_id=request.tool_call["id"], status="error")

    seen = await run(
        graph_of_tool(
            explode, script=(asks_for(("c1", "explode", '{"why": "x"}')), says("ok")), middleware=[to_results]
        )
    )
    assert (seen.call("c1").result, seen.call("c1").is_error) == ("please try again", True)
    assert "secret" not in repr(seen.events) and seen.repairs == {}


async def test_middleware_that_shortens_a_result_decides_the_text() -> None:
    @wrap_tool_call
    async def shorten(request: Any, handler: Any) -> Any:
        result = await handler(request)
        return result.model_copy(update={"content": result.content[:2]})

    @tool
    async def long() -> str:
        """Say much."""
        return "much too long"

    seen = await run(graph_of_tool(long, middleware=[shorten]))
    assert seen.call("c1").result == "mu" and seen.repairs == {}


async def test_a_tool_that_is_tried_again_has_the_last_result() -> None:
    tries: list[int] = []

    @tool
    async def flaky() -> str:
        """Work the second time."""
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "at last"

    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    seen = await run(graph_of_tool(flaky, middleware=[retry]))
    assert (seen.call("c1").result, seen.call("c1").is_error) == ("at last", False)
    assert len(tries) == 2 and seen.repairs == {}


async def test_an_exception_that_ends_the_run_is_the_tools_result_and_keeps_its_secret() -> None:
    seen = await run(graph_of_tool(explode, script=(asks_for(("c1", "explode", '{"why": "x"}')), says("never"))))
    assert isinstance(seen.terminal, ev.RunFailed)
    assert (seen.terminal.code, seen.terminal.message) == (
        "tool_failed",
        "The tool explode failed with ValueError.",
    )
    assert seen.call("c1").is_error and seen.call("c1").closed
    assert "secret" not in repr(seen.events) and seen.repairs == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([1, 2], "[1, 2]"),
    ],
)
async def test_whatever_a_tool_returns_becomes_one_string(value: Any, text: str) -> None:
    @tool
    async def give() -> Any:
        """Return it."""
        return value

    seen = await run(graph_of_tool(give))
    result = seen.call("c1").result
    assert result == text or json.loads(result or "") == value
    assert seen.repairs == {}


async def test_a_command_gives_the_results_it_carries() -> None:
    @tool
    async def move(runtime: ToolRuntime) -> Command[Any]:
        """Return a Command."""
        own = ToolMessage("moved", tool_call_id=runtime.tool_call_id)
        return Command(update={"messages": [own]})

    seen = await run(graph_of_tool(move))
    assert seen.call("c1").result == "moved" and len(seen.of(ev.ToolReturned)) == 1
    assert seen.repairs == {}


async def test_arguments_that_were_the_answer_leave_no_open_call() -> None:
    llm = model(asks_for(("c1", "route", '{"to": "komodor"}')))

    async def route(state: MessagesState) -> dict[str, Any]:
        chosen = await llm.ainvoke(state["messages"])
        return {"messages": [AIMessage(f"routed to {chosen.tool_calls[0]['args']['to']}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("route", route)
    builder.add_edge(START, "route")
    seen = await run(builder.compile())
    assert (seen.call("c1").result, seen.call("c1").is_error) == ("", False)
    assert seen.said() == [("routed to komodor", "answer")] and seen.repairs == {}
