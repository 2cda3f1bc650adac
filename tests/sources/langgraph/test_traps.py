"""Every trap of LangGraph's streaming, with real graphs of the installed version.

The numbers are those of the list of traps that the source was built from; ids in brackets are public bug reports.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import threading
import time
from contextlib import aclosing
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from anabranch import current
from anabranch import events as ev
from anabranch.request import Resume
from anabranch.sources.langgraph import LangGraphSource, scope_of
from anabranch.sources.relay import relay

from .graphs import (
    TOKENS,
    add,
    asks_for,
    deep,
    graph_of_tool,
    model,
    says,
    stream_into,
    sub_agent,
    text_of,
    thinks,
    to_both,
    two_asks,
)
from .seen import Seen, asks, read, run, translated


async def test_1_the_first_output_of_a_tool_arrives_while_the_tool_is_still_running() -> None:
    seen = asyncio.Event()

    @tool
    async def slow(runtime: ToolRuntime) -> str:
        """Wait until its output has been read."""
        runtime.emit_output_delta("early")
        async with asyncio.timeout(5):
            await seen.wait()
        return "late"

    source, request = LangGraphSource(graph_of_tool(slow)), asks()
    translator = source.translator(request)
    async with asyncio.timeout(20), aclosing(source.open(request)) as parts:
        async for part in parts:
            if any(isinstance(event, ev.ToolOutputDelta) for event in translator.feed(part)):
                seen.set()
    assert seen.is_set()


class TestTrap2WhereATokenMayBeEmittedFrom:
    """[F2] A writer finds its place by a context variable, at the time of the call."""

    @staticmethod
    async def emitted(how: Any) -> Seen:
        @tool
        async def work(runtime: ToolRuntime) -> str:
            """Emit somehow."""
            return str(await how(runtime) or "ok")

        return await run(graph_of_tool(work))

    @pytest.mark.parametrize("of", ["current", "runtime"])
    @pytest.mark.parametrize("where", ["inline", "task", "thread of the tool", "copied context"])
    async def test_in_the_context_of_the_tool_it_gets_through(self, of: str, where: str) -> None:
        async def work(runtime: ToolRuntime) -> None:
            def emit() -> None:
                scope = current() if of == "current" else scope_of(runtime)
                scope.emit(ev.Custom(name="mine", value=where))

            async def later() -> None:
                emit()

            if where == "inline":
                emit()
            elif where == "task":
                await asyncio.create_task(later())
            elif where == "thread of the tool":
                await asyncio.to_thread(emit)
            else:
                thread = threading.Thread(target=contextvars.copy_context().run, args=(emit,))
                thread.start()
                await asyncio.to_thread(thread.join, 5)

        seen = await self.emitted(work)
        assert [(event.name, event.value) for event in seen.of(ev.Custom)] == [("mine", where)]
        assert seen.repairs == {}

    @pytest.mark.parametrize("where", ["raw thread", "task from before the run"])
    async def test_a_scope_of_the_runtime_may_be_handed_to_any_thread_or_task(self, where: str) -> None:
        inbox: asyncio.Queue[Any] = asyncio.Queue()

        async def reader() -> None:
            emit, done = await inbox.get()
            emit()
            done.set()

        task = asyncio.create_task(reader())

        async def work(runtime: ToolRuntime) -> None:
            scope = scope_of(runtime)

            def emit() -> None:
                scope.emit(ev.Custom(name="mine"))

            if where == "raw thread":
                thread = threading.Thread(target=emit)
                thread.start()
                await asyncio.to_thread(thread.join, 5)
            else:
                done = asyncio.Event()
                inbox.put_nowait((emit, done))
                await done.wait()

        seen = await self.emitted(work)
        task.cancel()
        assert len(seen.of(ev.Custom)) == 1 and seen.call("c1").result == "ok"

    @pytest.mark.parametrize("of", ["current", "runtime"])
    async def test_a_lane_that_a_tool_opens_belongs_to_the_call(self, of: str) -> None:
        async def work(runtime: ToolRuntime) -> str:
            scope = current() if of == "current" else scope_of(runtime)
            return await stream_into(scope.lane("remote"), *TOKENS)

        seen = await self.emitted(work)
        assert {path: (agent.name, agent.call) for path, agent in seen.agents.items()} == {
            "c1/remote": ("remote", "c1")
        }
        assert seen.text("c1/remote") == "".join(TOKENS) == seen.call("c1").result
        assert seen.repairs == {}

    async def test_current_says_so_where_no_run_is_to_be_found_and_the_run_goes_on(self) -> None:
        async def work(runtime: ToolRuntime) -> str:
            caught: list[str] = []

            def foreign() -> None:
                try:
                    current()
                except LookupError as error:
                    caught.append(str(error))

            thread = threading.Thread(target=foreign)
            thread.start()
            await asyncio.to_thread(thread.join, 5)
            return caught[0]

        seen = await self.emitted(work)
        assert "no run" in (seen.call("c1").result or "")
        assert isinstance(seen.terminal, ev.RunFinished)

    async def test_a_synchronous_tool_emits_from_its_thread_live(self) -> None:
        read = threading.Event()

        @tool
        def work(runtime: ToolRuntime) -> str:
            """Emit and wait until that was read."""
            runtime.emit_output_delta("early")
            current().emit(ev.Custom(name="mine"))
            return "seen" if read.wait(5) else "not seen"

        source, request = LangGraphSource(graph_of_tool(work)), asks()
        translator, events = source.translator(request), []
        async with asyncio.timeout(20), aclosing(source.open(request)) as parts:
            async for part in parts:
                events += translator.feed(part)
                if any(isinstance(event, ev.Custom) for event in events):
                    read.set()
        assert [event.content for event in events if isinstance(event, ev.ToolReturned)] == ["seen"]

    async def test_a_task_that_emits_after_its_tool_returned_loses_no_text(self) -> None:
        go, gone = asyncio.Event(), asyncio.Event()

        @tool
        async def work(runtime: ToolRuntime) -> str:
            """Leave a task behind."""
            scope = scope_of(runtime)
            lane = scope.lane("late")

            async def later() -> None:
                await go.wait()
                lane.emit(ev.TextDelta(message_id="m", delta="too late"))
                runtime.emit_output_delta("too late")
                gone.set()

            tasks.append(asyncio.create_task(later()))
            return "ok"

        tasks: list[Any] = []
        graph = graph_of_tool(work, script=(asks_for(("c1", "work", "{}")), [*says("a"), gone, *says("b")]))
        source, request = LangGraphSource(graph), asks()
        parts, _ = await read(source, request, lambda part: go.set() if text_of(part) == "a" else None)
        seen = translated(source.translator(request), parts)
        assert seen.text("c1/late") == "too late"
        # What the grammar had to mend: a continuation of the lane, and output after the result.
        assert seen.repairs == {
            "renew:TextDelta": 1,
            "open:TextDelta": 1,
            "drop:ToolOutputDelta": 1,
            "close:RunFinished": 2,
        }
        assert isinstance(seen.terminal, ev.RunFinished)


async def test_3_a_graphs_own_custom_data_is_passed_on_and_its_events_take_their_place() -> None:
    async def node(state: MessagesState) -> dict[str, Any]:
        get_stream_writer()({"progress": 1})
        current().emit(ev.StepStarted(name="search"))
        current().emit(ev.StepFinished(name="search"))
        return {"messages": [AIMessage("ok")]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    seen = await run(builder.compile())
    assert [(event.name, event.value) for event in seen.of(ev.Custom)] == [("langgraph", {"progress": 1})]
    assert len(seen.of(ev.StepStarted)) == len(seen.of(ev.StepFinished)) == 1
    assert seen.said() == [("ok", "answer")] and seen.repairs == {}


class TestTrap4ModelsInsideToolBodies:
    """[F6] Their text has the graph's namespace, but it is not the graph's."""

    async def test_each_parallel_call_gets_a_lane_of_its_own(self) -> None:
        @tool
        async def think(agent: str) -> str:
            """Ask a model."""
            return (await model(says(agent, " says hi")).ainvoke("hi")).text

        graph = create_agent(model(two_asks("think"), says("Both answered.")), [think], name="supervisor")
        seen = await run(graph)
        assert seen.said() == [("Both answered.", "answer")]
        assert {path: (agent.name, agent.call) for path, agent in seen.agents.items()} == {
            "c1": ("think", "c1"),
            "c2": ("think", "c2"),
        }
        assert seen.text("c1") == "komodor says hi" and seen.text("c2") == "argocd says hi"
        assert seen.repairs == {}

    async def test_several_agents_in_one_call_get_a_lane_each(self) -> None:
        inner = create_agent(model(says("inner")), [], name="inner")

        @tool
        async def twice() -> str:
            """Run an agent twice."""
            for _ in range(2):
                state = await inner.ainvoke({"messages": [("user", "hi")]})
            return str(state["messages"][-1].text)

        seen = await run(graph_of_tool(twice))
        assert {path: (agent.name, agent.call) for path, agent in seen.agents.items()} == {
            "c1": ("inner", "c1"),
            "c1/1": ("inner", "c1"),
        }
        assert (seen.text("c1"), seen.text("c1/1"), seen.text()) == ("inner", "inner", "done")
        assert seen.repairs == {}

    async def test_in_a_node_that_runs_several_calls_at_once_it_is_still_not_the_roots_text(self) -> None:
        @tool
        async def think(agent: str) -> str:
            """Ask a model."""
            return (await model(says(agent)).ainvoke("hi")).text

        llm = model(two_asks("think"), says("done"))

        async def agent(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await llm.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        builder.add_node("agent", agent)
        builder.add_node("tools", ToolNode([think]))
        builder.add_edge(START, "agent")
        builder.add_conditional_edges("agent", tools_condition)
        builder.add_edge("tools", "agent")
        seen = await run(builder.compile())
        [(path, lane)] = seen.agents.items()
        assert (lane.name, lane.call) == ("tools", None)
        assert sorted(seen.text(path)) == sorted("komodorargocd")
        assert seen.said() == [("done", "answer")]
        assert [seen.call(id).result for id in ("c1", "c2")] == ["komodor", "argocd"]
        assert seen.repairs == {}

    async def test_a_whole_anabranch_agent_inside_a_tool_is_told_once(self) -> None:

        inner = LangGraphSource(create_agent(model(says("in", "ner")), [], name="inner"))

        @tool
        async def delegate(runtime: ToolRuntime) -> str:
            """Stream a graph of ours."""
            return (await relay(inner, asks(thread="another"), scope_of(runtime).lane("inner"))).text

        seen = await run(graph_of_tool(delegate))
        assert seen.text("c1/inner") == "inner" == seen.call("c1").result
        assert seen.text() == "done" and list(seen.agents) == ["c1/inner"]
        assert seen.repairs == {}


class TestTrap5Stopping:
    """Tools are stopped with the run, at once."""

    @pytest.mark.parametrize("how", ["aclose", "cancel"])
    async def test_both_parallel_tools_are_cancelled_before_the_source_has_closed(self, how: str) -> None:
        running, stopped = asyncio.Semaphore(0), []

        @tool
        async def wait(agent: str) -> str:
            """Wait forever."""
            running.release()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(agent)
                raise
            return "never"

        graph = create_agent(model(two_asks("wait"), says("never")), [wait])
        stream = LangGraphSource(graph).open(asks())

        async def read() -> None:
            async for _ in stream:
                pass

        async with asyncio.timeout(20):
            reader = asyncio.create_task(read())
            await running.acquire()
            await running.acquire()
            started = time.perf_counter()
            if how == "cancel":
                reader.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reader
            else:
                reader.cancel()
                await asyncio.wait([reader])
            await stream.aclose()
        assert sorted(stopped) == ["argocd", "komodor"]
        assert time.perf_counter() - started < 1

    async def test_closing_a_stream_in_the_middle_stops_the_tool_and_leaves_nothing_behind(self) -> None:
        stopped = asyncio.Event()

        @tool
        async def wait(runtime: ToolRuntime) -> str:
            """Emit, then wait forever."""
            runtime.emit_output_delta("here")
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return "never"

        async with asyncio.timeout(20), aclosing(LangGraphSource(graph_of_tool(wait)).open(asks())) as stream:
            async for part in stream:
                if part["type"] == "tools" and part["data"]["event"] == "tool-output-delta":
                    break
        assert stopped.is_set()
        gc.collect()  # an abandoned generator would warn here
        with pytest.raises(LookupError):
            current()


async def test_7_reasoning_is_kept_and_apart_from_the_text() -> None:
    turn = [*thinks("let me ", "see"), *says("Hello"), *thinks("hm"), *says(" there")]
    seen = await run(create_agent(model(turn), []))
    assert seen.thought() == ["let me see", "hm"]
    assert seen.said() == [("Hello there", "answer")]
    assert seen.repairs == {}


class TestTraps8To10Interrupts:
    """[F11, F12, F13, AG-57]"""

    @staticmethod
    def supervisor() -> tuple[Any, list[str]]:
        ran: list[str] = []

        @tool
        async def danger(target: str) -> str:
            """Do something dangerous."""
            answer = interrupt({"message": f"really {target}?"})
            return f"did {target}: {answer}"

        @tool
        async def safe(target: str) -> str:
            """Do something safe."""
            ran.append(target)
            return "safe"

        def asking(name: str, use: Any) -> Any:
            script = (asks_for(("inner", use.name, '{"target": "prod"}')), says(name, " done"))
            return sub_agent(name, *script, tools=[use])

        subs = (asking("komodor", danger), asking("argocd", safe))
        return deep(*subs, script=(to_both(), says("all done")), checkpointer=InMemorySaver()), ran

    async def test_8_and_10_a_question_of_a_sub_agent_is_asked_once_and_the_sibling_still_finishes(self) -> None:
        graph, ran = self.supervisor()
        seen = await run(graph)
        [question] = seen.of(ev.Interrupted)
        assert (question.reason, question.message) == ("langgraph:interrupt", "really prod?")
        assert question.metadata == {"value": {"message": "really prod?"}}
        assert seen.agents["c1"].end == "suspended" and seen.agents["c2"].end == "success"
        assert seen.call("c2").result == "argocd done" and seen.call("c1").result is None
        assert ran == ["prod"]
        assert isinstance(seen.terminal, ev.RunFinished) and seen.terminal.outcome == "interrupted"
        assert seen.terminal.interrupt_ids == (question.interrupt_id,)
        assert seen.repairs == {}

    async def test_9_a_resumed_run_announces_its_lanes_again_and_does_not_repeat_what_was_done(self) -> None:
        graph, ran = self.supervisor()
        [question] = (await run(graph)).of(ev.Interrupted)
        seen = await run(graph, asks(resume=[Resume(interrupt_id=question.origin_id, payload="yes")]))
        assert ran == ["prod"]
        assert {path: (agent.name, agent.call, agent.end) for path, agent in seen.agents.items()} == {
            "c1": ("komodor", "c1", "success")
        }
        assert seen.call("inner", "c1").result == "did prod: yes"
        assert json.loads(seen.call("c1").arguments)["subagent_type"] == "komodor"
        assert seen.call("c1").result == "komodor done"
        assert ("", "c2") not in seen.calls  # the run before has told it
        assert seen.said() == [("all done", "answer")]
        assert isinstance(seen.terminal, ev.RunFinished) and seen.terminal.outcome == "success"
        assert seen.repairs == {}

    async def test_two_questions_at_once_are_answered_by_their_ids(self) -> None:
        @tool
        async def confirm(agent: str) -> str:
            """Ask first."""
            return f"{agent}: {interrupt('sure?')}"

        graph = create_agent(model(two_asks("confirm"), says("done")), [confirm], checkpointer=InMemorySaver())
        seen = await run(graph)
        questions = {seen.calls["", call].name: None for call in ("c1", "c2")}
        assert len(seen.of(ev.Interrupted)) == 2 and questions == {"confirm": None}
        locals_ = {event.call_id: event.origin_id for event in seen.of(ev.Interrupted)}
        answers = [Resume(interrupt_id=id, payload=f"yes {n}") for n, id in enumerate(locals_.values())]
        seen = await run(graph, asks(resume=answers))
        assert sorted(seen.call(id).result or "" for id in ("c1", "c2")) == ["argocd: yes 1", "komodor: yes 0"]
        assert seen.said() == [("done", "answer")] and seen.repairs == {}

    async def test_approval_of_a_tool_call_asks_about_that_call_and_its_rejection_is_its_result(self) -> None:
        """[F15]"""
        graph = create_deep_agent(
            model(asks_for(("c1", "add", '{"a": 1, "b": 2}')), says("rejected then")),
            tools=[add],
            interrupt_on={"add": True},
            checkpointer=InMemorySaver(),
        )
        seen = await run(graph)
        [question] = seen.of(ev.Interrupted)
        [started] = seen.of(ev.ToolCallStarted)
        assert question.reason == "tool_call" and question.call_id == started.call_id
        assert "add" in (question.message or "")
        rejection = {"decisions": [{"type": "reject", "message": "no"}]}
        seen = await run(graph, asks(resume=[Resume(interrupt_id=question.origin_id, payload=rejection)]))
        assert seen.call("c1").is_error and "rejected" in (seen.call("c1").result or "")
        assert seen.said() == [("rejected then", "answer")] and seen.repairs == {}

    async def test_a_breakpoint_is_an_interruption_and_is_answered_by_going_on(self) -> None:
        graph = create_agent(
            model(asks_for(("c1", "add", '{"a": 1, "b": 2}')), says("three")),
            [add],
            checkpointer=InMemorySaver(),
            interrupt_before=["tools"],
        )
        seen = await run(graph)
        [question] = seen.of(ev.Interrupted)
        assert question.reason == "langgraph:breakpoint"
        assert isinstance(seen.terminal, ev.RunFinished) and seen.terminal.outcome == "interrupted"
        seen = await run(graph, asks(resume=[Resume(interrupt_id=question.origin_id)]))
        assert seen.call("c1").result == "3" and seen.said() == [("three", "answer")]

    async def test_a_graph_without_checkpoints_says_that_it_cannot_go_on(self) -> None:
        seen = await run(create_agent(model(says("x")), []), asks(resume=[Resume(interrupt_id="i")]))
        assert isinstance(seen.terminal, ev.RunFailed)
        assert seen.terminal.code == "not_resumable" and "checkpointer" in seen.terminal.message
