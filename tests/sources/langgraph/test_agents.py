"""Sub-agents of real graphs: whose text it is, and who fails. [F3, F9, F10, AG-11]"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware, wrap_tool_call
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

from anabranch import events as ev
from anabranch.errors import SourceError
from anabranch.sources.langgraph import LangGraphSource, scope_of

from .graphs import TOKENS, Scripted, ask, asks_for, deep, model, says, stops, stream_into, sub_agent, text_of, to_both
from .seen import asks, read, run, translated


async def test_parallel_sub_agents_keep_their_text_calls_and_remote_lanes_apart() -> None:
    together = asyncio.Barrier(2)

    @tool
    async def ask_with_the_other(agent: str, runtime: ToolRuntime) -> str:
        """Ask a remote agent when the other sub-agent does too."""
        await together.wait()
        return await stream_into(scope_of(runtime).lane(agent), *TOKENS)

    def script(name: str) -> tuple[Any, Any]:
        call = asks_for(("inner", "ask_with_the_other", json.dumps({"agent": "remote"})))
        return [*says(name, " here. "), *call], says(name, " done")

    tasks = to_both()
    subs = (
        sub_agent("komodor", *script("komodor"), tools=[ask_with_the_other]),
        sub_agent("argocd", *script("argocd"), tools=[ask_with_the_other]),
    )
    seen = await run(deep(*subs, script=([*says("I ask."), *tasks], says("Summary."))))
    assert {path: (a.name, a.parent, a.call, a.end) for path, a in seen.agents.items()} == {
        "c1": ("komodor", "", "c1", "success"),
        "c2": ("argocd", "", "c2", "success"),
        "c1/inner/remote": ("remote", "c1", "inner", "success"),
        "c2/inner/remote": ("remote", "c2", "inner", "success"),
    }
    for path, name in (("c1", "komodor"), ("c2", "argocd")):
        assert seen.said(path) == [(f"{name} here. ", "narration"), (f"{name} done", "answer")]
        assert seen.text(f"{path}/inner/remote") == "".join(TOKENS) == seen.call("inner", path).result
        assert seen.call(path).result == f"{name} done"
    assert seen.said() == [("I ask.", "narration"), ("Summary.", "answer")]
    remote = [event.agent for event in seen.of(ev.TextDelta) if event.delta in TOKENS]
    assert len(set(remote[: len(TOKENS)])) == 2  # they interleave
    assert seen.repairs == {}


async def test_nesting_to_any_depth_is_a_path_of_calls() -> None:
    leaf = create_agent(
        model([*says("leaf. "), *asks_for(("c3", "ask", '{"agent": "remote"}'))], says("leaf done")),
        [ask],
        name="leaf",
    )
    to_leaf = asks_for(("c2", "task", '{"description": "x", "subagent_type": "leaf"}'))
    mid = create_deep_agent(
        model([*says("mid. "), *to_leaf], says("mid done")),
        subagents=[{"name": "leaf", "description": "l", "runnable": leaf}],
        name="mid",
    )
    to_mid = asks_for(("c1", "task", '{"description": "x", "subagent_type": "mid"}'))
    seen = await run(deep({"name": "mid", "description": "m", "runnable": mid}, script=(to_mid, says("end"))))
    assert {path: (a.name, a.parent, a.call) for path, a in seen.agents.items()} == {
        "c1": ("mid", "", "c1"),
        "c1/c2": ("leaf", "c1", "c2"),
        "c1/c2/c3/remote": ("remote", "c1/c2", "c3"),
    }
    assert seen.text("c1") == "mid. mid done" and seen.text("c1/c2") == "leaf. leaf done"
    assert seen.call("c2", "c1").result == "leaf done" and seen.call("c1").result == "mid done"
    assert seen.repairs == {}


async def test_a_graph_that_is_a_node_is_a_sub_agent_without_a_call() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("work", create_agent(model(says("from ", "inside")), [], name="research"))
    builder.add_node("sign", lambda state: {"messages": [AIMessage("signed")]})
    builder.add_edge(START, "work")
    builder.add_edge("work", "sign")
    seen = await run(builder.compile())
    [(path, agent)] = seen.agents.items()
    assert (agent.name, agent.parent, agent.call, agent.end) == ("research", "", None, "success")
    assert seen.text(path) == "from inside"
    assert seen.said() == [("signed", "answer")]  # [F4] and the inner message is not told again
    assert seen.repairs == {}


async def test_two_calls_of_one_remote_agent_have_different_lanes() -> None:
    twice = asks_for(("c1", "ask", '{"agent": "komodor"}'), ("c2", "ask", '{"agent": "komodor"}'))
    seen = await run(create_agent(model(twice, says("done")), [ask]))
    assert set(seen.agents) == {"c1/komodor", "c2/komodor"}
    assert all(seen.text(path) == "".join(TOKENS) for path in seen.agents)
    assert seen.repairs == {}


async def test_a_failing_sub_agent_keeps_its_error_in_its_lane_when_the_graph_handles_it() -> None:
    """[F9] deepagents#694"""

    @wrap_tool_call
    async def to_results(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except SourceError as error:
            call_id = request.tool_call["id"]
            return ToolMessage(f"it failed: {error}", tool_call_id=call_id, status="error")

    tasks = to_both()
    broken = sub_agent("komodor", [*says("half a sen"), SourceError("no more tokens", code="model_error")])
    good = sub_agent("argocd", says("fine"))
    seen = await run(deep(broken, good, script=(tasks, says("one failed")), middleware=[to_results]))
    assert seen.agents["c1"].end == "model_error" and seen.agents["c2"].end == "success"
    assert seen.text("c1") == "half a sen" and seen.text("c2") == "fine"
    assert seen.call("c1").is_error and seen.call("c1").result == "it failed: no more tokens"
    assert seen.said() == [("one failed", "answer")]
    assert isinstance(seen.terminal, ev.RunFinished) and seen.repairs == {}


async def test_a_failing_sub_agent_that_nobody_handles_ends_the_run_and_its_siblings() -> None:
    never = asyncio.Event()
    tasks = to_both()
    started = asyncio.Event()
    broken = sub_agent("komodor", [*says("half"), started, RuntimeError("internal host 10.0.0.1")])
    slow = sub_agent("argocd", [*says("still"), never])
    source, request = LangGraphSource(deep(broken, slow, script=(tasks, says("never")))), asks()
    parts, error = await read(source, request, lambda part: started.set() if text_of(part) == "still" else None)
    seen = translated(source.translator(request), parts, error)
    assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.partial
    assert seen.agents["c1"].end == "agent_failed" and seen.agents["c2"].end == "no_end"
    assert seen.text("c1") == "half" and seen.text("c2") == "still"
    assert "10.0.0.1" not in repr(seen.events)
    assert seen.call("c1").is_error and seen.call("c2").is_error
    assert seen.repairs == {}


async def test_a_sub_agent_that_is_tried_again_is_a_second_lane_and_the_first_one_failed() -> None:
    class Flaky(Scripted):
        def _turn(self, messages: list[Any]) -> Any:
            self.calls += 1
            return (
                [*says("half"), SourceError("cut", code="model_error")]
                if self.calls == 1
                else [*says("whole"), *stops()]
            )

    komodor = {**sub_agent("komodor", says()), "model": Flaky(turns=[])}
    task = asks_for(("c1", "task", '{"description": "x", "subagent_type": "komodor"}'))
    retry = ToolRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False)
    seen = await run(deep(komodor, script=(task, says("done")), middleware=[retry]))
    assert {path: (agent.name, agent.end) for path, agent in seen.agents.items()} == {
        "c1": ("komodor", "model_error"),
        "c1/1": ("komodor", "success"),
    }
    assert (seen.text("c1"), seen.text("c1/1"), seen.call("c1").result) == ("half", "whole", "whole")
    assert isinstance(seen.terminal, ev.RunFinished) and seen.repairs == {}
