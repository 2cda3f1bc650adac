"""A replay of a recording gives what the log of the live run has: every way to end, and real graphs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import TodoListMiddleware
from langchain.tools import tool
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from sources.a2a._cases import DONE, TASK, tokens
from sources.a2a._cases import thinks as remote_thinks
from sources.a2a._raw import Request, card, raw
from sources.langgraph.graphs import (
    TOKENS,
    ask,
    asks_for,
    deep,
    explode,
    graph_of_tool,
    model,
    says,
    stops,
    sub_agent,
    thinks,
    to_both,
    two_asks,
)

from anabranch import current
from anabranch import events as ev
from anabranch.errors import Cancelled, SourceError
from anabranch.request import Resume, RunRequest
from anabranch.sources.a2a import A2ASource
from anabranch.sources.langgraph import LangGraphSource
from anabranch.sources.python import PythonSource
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.graph import supervisor_graph
from anabranch.tapes.record import Recorder

from .taping import agent, asked, file_in, opened, recorded


async def same(source: Any, directory: Path, request: RunRequest | None = None, **how: Any) -> list[ev.Event]:
    """What the log of a run has, after a check that a replay of its recording gives the same."""
    entries = await recorded(source, Recorder(directory), request, **how)
    events = [entry.event for entry in entries]
    replay = opened(file_in(directory))
    assert [entry.event for entry in replay.entries()] == events and not replay.cut
    return events


# --- every way to end ------------------------------------------------------------------------------------------------


async def raises(request: RunRequest) -> Any:
    yield "hello"
    raise ValueError("no")


async def fails(request: RunRequest) -> Any:
    yield "hello"
    raise SourceError("The model is overloaded.", code="model_busy", retryable=True)


async def raises_a_group(request: RunRequest) -> Any:
    yield "hello"
    raise ExceptionGroup("g", [KeyError("x"), SourceError("Inner.", code="inner")])


async def exits(request: RunRequest) -> Any:
    yield "hello"
    raise SystemExit(3)


async def cancels_itself(request: RunRequest) -> Any:
    yield "hello"
    raise asyncio.CancelledError


async def waits(request: RunRequest) -> Any:
    yield "hello"
    await asyncio.Event().wait()


async def emits(request: RunRequest) -> Any:
    yield "a"
    lane = current().lane("helper")
    lane.emit(ev.MessageStarted(message_id="m"))
    lane.emit(ev.TextDelta(message_id="m", delta="inner"))
    yield "b"
    lane.emit(ev.MessageFinished(message_id="m"))
    await asyncio.to_thread(lane.finish)
    yield "c"


async def emits_the_end(request: RunRequest) -> Any:
    yield "a"
    current().emit(ev.RunFailed(code="own", message="Enough."))
    yield "never"


async def emits_rubbish(request: RunRequest) -> Any:
    yield "a"
    current().emit("text")  # type: ignore[arg-type]
    yield "never"


WAYS = [
    (agent("Hel", "lo"), "success"),
    (agent(), "success"),
    (agent("x", ev.RunFinished(result={"a": 1}), "never"), "success"),
    (agent("x", ev.Interrupted(interrupt_id="i", reason="r")), "interrupted"),
    (agent("x", 42), "agent_protocol"),
    (agent("x", ev.ActivityDelta(activity_id="p", kind="p", patch=[])), "unlawful"),
    (agent("x", ev.TextDelta(message_id=None, delta="x")), "unlawful"),  # type: ignore[arg-type]
    (agent("half \ud83d", "\ude80 whole \ud83d"), "success"),
    *((PythonSource(way), code) for way, code in ((raises, "agent_failed"), (fails, "model_busy"))),
    *((PythonSource(way), code) for way, code in ((raises_a_group, "inner"), (exits, "agent_failed"))),
    *((PythonSource(way), code) for way, code in ((cancels_itself, "agent_cancelled"), (emits, "success"))),
    *((PythonSource(way), code) for way, code in ((emits_the_end, "own"), (emits_rubbish, "unlawful"))),
]


@pytest.mark.parametrize(("source", "end"), WAYS, ids=[str(number) for number in range(len(WAYS))])
async def test_a_replay_is_what_was_logged_however_the_run_ended(source: Any, end: str, tmp_path: Path) -> None:
    [*_, last] = await same(source, tmp_path)
    assert (last.code if isinstance(last, ev.RunFailed) else last.outcome) == end


async def test_a_cancelled_run_is_replayed_as_cancelled(tmp_path: Path) -> None:
    [*_, last] = await same(PythonSource(waits), tmp_path, stop=Cancelled("The run was cancelled."))
    assert isinstance(last, ev.RunFinished) and last.outcome == "cancelled"


async def test_a_translator_that_fails_fails_again(tmp_path: Path) -> None:
    class Broken(LangGraphSource):
        async def open(self, request: RunRequest) -> Any:
            yield {"type": "custom", "ns": (), "data": "x"}
            yield {"type": "tasks", "ns": (), "data": {"id": "t"}}

    [*_, last] = await same(Broken(None), tmp_path)
    assert last.message == "The agent failed with KeyError."


# --- real graphs -----------------------------------------------------------------------------------------------------


async def test_a_deep_agent_with_sub_agents_reasoning_tools_and_a_plan(tmp_path: Path) -> None:
    todos = '{"todos": [{"content": "ask", "status": "in_progress"}, {"content": "sum up", "status": "pending"}]}'
    script = (
        [*thinks("let me ", "plan"), *says("First "), *asks_for(("p", "write_todos", todos))],
        [*says("now I ask."), *to_both()],
        says("Summary 🚀."),
    )
    asks_remote = [*thinks("hm"), *asks_for(("i", "ask", '{"agent": "remote"}'))]
    subs = [sub_agent(name, asks_remote, says(f"{name} done"), tools=[ask]) for name in ("komodor", "argocd")]
    graph = deep(*subs, script=script, middleware=[TodoListMiddleware()])
    events = await same(LangGraphSource(graph), tmp_path)
    assert {event.name for event in events if isinstance(event, ev.AgentStarted)} == {"komodor", "argocd", "remote"}
    kinds = {type(event) for event in events}
    assert kinds >= {ev.ReasoningDelta, ev.StateSnapshot, ev.ActivitySnapshot, ev.ToolReturned, ev.RunFinished}
    text = "".join(event.delta for event in events if isinstance(event, ev.TextDelta))
    assert all(text.count(token) >= 2 for token in TOKENS)


async def test_the_supervisor_with_remote_agents_one_of_which_fails(tmp_path: Path) -> None:
    async def breaks(request: RunRequest) -> Any:
        yield "half "
        raise SourceError("It broke.", code="agent_disconnected")

    tools = [delegate("komodor", agent("clus", "ters")), delegate("argocd", PythonSource(breaks), url="http://a")]
    calls = asks_for(("c1", "ask_komodor", '{"question": "?"}'), ("c2", "ask_argocd", '{"question": "?"}'))
    graph = supervisor_graph(model([*says("I ask."), *calls], says("One failed.")), tools)
    events = await same(LangGraphSource(graph, name="supervisor"), tmp_path)
    assert [event.code for event in events if isinstance(event, ev.AgentFailed)] == ["agent_disconnected"]
    assert isinstance(events[-1], ev.RunFinished)


async def test_a_question_and_the_run_that_answers_it(tmp_path: Path) -> None:
    @tool
    async def sure(n: int) -> str:
        """Ask."""
        return str(interrupt({"message": "sure?", "schema": {"$ref": "#/x", "type": "string"}}))

    call = asks_for(("c1", "sure", '{"n": 1}'))
    source = LangGraphSource(graph_of_tool(sure, script=(call, says("done")), checkpointer=InMemorySaver()))
    asking = await same(source, tmp_path / "a")
    [question] = [event for event in asking if isinstance(event, ev.Interrupted)]
    assert question.schema == {"$ref": "#/x", "type": "string"}
    answer = RunRequest(run_id="r2", thread_id="t1", resume=(Resume(interrupt_id=question.origin_id, payload="yes"),))
    events = await same(source, tmp_path / "b", answer)
    assert [event.content for event in events if isinstance(event, ev.ToolReturned)] == ["yes"]
    assert isinstance(events[-1], ev.RunFinished) and events[-1].outcome == "success"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ((asks_for(("c1", "explode", '{"why": "x"}')), says("done")), "tool_failed"),
        (([AIMessageChunk(content="half"), ConnectionError("lost")],), "agent_failed"),
    ],
)
async def test_a_graph_that_fails(script: Any, code: str, tmp_path: Path) -> None:
    events = await same(LangGraphSource(graph_of_tool(explode, script=script)), tmp_path)
    assert isinstance(events[-1], ev.RunFailed) and events[-1].code == code


async def test_a_graph_that_is_cancelled_while_it_streams(tmp_path: Path) -> None:
    script = [*says("I ask."), *two_asks()], [*says("half"), asyncio.Event(), *stops()]
    source = LangGraphSource(graph_of_tool(ask, script=script))
    [*_, last] = await same(source, tmp_path, stop=Cancelled("The run was cancelled."))
    assert isinstance(last, ev.RunFinished) and last.outcome == "cancelled"


# --- remote agents ---------------------------------------------------------------------------------------------------


async def test_a_remote_agent_that_streams(tmp_path: Path) -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        for item in [TASK, *remote_thinks("Hm ", "🚀"), *tokens("clus", "ters"), DONE]:
            await request.event(item)
        await request.end()

    async with raw(answer, card()) as server:
        source = A2ASource(server.url)
        events = await same(source, tmp_path, asked())
        await source.aclose()
    assert "clusters" in "".join(event.delta for event in events if isinstance(event, ev.TextDelta))


async def test_a_remote_agent_whose_connection_breaks(tmp_path: Path) -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        for item in (TASK, *tokens("clus")):
            await request.event(item)
        request.reset()

    async with raw(answer, card()) as server:
        source = A2ASource(server.url, name="komodor")
        [*_, last] = await same(source, tmp_path)
        await source.aclose()
    assert isinstance(last, ev.RunFailed) and last.code == "agent_disconnected" and "komodor" in last.message
