"""What the source relies on in LangGraph: the shape of each v2 part, and one variable that is not public.

These fail when a release changes a shape; then `translate` has to learn it before the version is allowed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel._tools import _tool_call_writer
from langgraph.types import Command, Interrupt, interrupt

from anabranch.sources.langgraph.translate import MODES

from .graphs import asks_for, model, says

Part = dict[str, Any]


@tool
async def work(n: int, runtime: ToolRuntime) -> str:
    """Emit, and call an agent."""
    assert callable(_tool_call_writer.get())
    runtime.emit_output_delta("delta")
    runtime.stream_writer("custom")
    inner = create_agent(model(says("inner")), [], name="inner")
    await inner.ainvoke({"messages": [("user", "hi")]})
    return "result"


@tool
async def fail(n: int) -> str:
    """Fail."""
    raise ValueError("no")


@tool
async def ask(n: int) -> str:
    """Ask."""
    return str(interrupt("sure?"))


async def parts_of(graph: Any, given: Any = None) -> list[Part]:
    config = {"configurable": {"thread_id": "t"}}
    given = {"messages": [("user", "go")]} if given is None else given
    async with asyncio.timeout(20):
        stream = graph.astream(given, config, stream_mode=list(MODES), subgraphs=True, version="v2")
        return [part async for part in stream]


def calls(name: str, **options: Any) -> Any:
    graph = create_agent(
        model(asks_for(("c1", name, '{"n": 1}')), says("ok")), [work, fail, ask], name="outer", **options
    )
    return graph


def of(parts: list[Part], kind: str, depth: int = 0) -> list[Any]:
    return [part["data"] for part in parts if part["type"] == kind and len(part["ns"]) == depth]


async def test_every_part_is_a_type_a_namespace_and_data() -> None:
    parts = await parts_of(calls("work"))
    assert all(part.keys() == {"type", "ns", "data"} and isinstance(part["ns"], tuple) for part in parts)
    assert {part["type"] for part in parts} == set(MODES)


async def test_tasks_join_a_namespace_to_the_tool_call_that_runs_there() -> None:
    parts = await parts_of(calls("work"))
    started = [data for data in of(parts, "tasks") if "result" not in data]
    ended = [data for data in of(parts, "tasks") if "result" in data]
    assert all(data.keys() == {"id", "name", "input", "triggers", "metadata"} for data in started)
    assert all(data.keys() == {"id", "name", "error", "result", "interrupts"} for data in ended)
    assert [data["id"] for data in started] == [data["id"] for data in ended]
    [task] = [data for data in started if data["name"] == "tools"]
    assert task["input"] == [{"name": "work", "args": {"n": 1}, "id": "c1", "type": "tool_call"}]
    inner = {part["ns"] for part in parts if part["ns"]}
    assert inner == {(f"tools:{task['id']}",)}
    assert task["metadata"]["lc_agent_name"] == "outer"
    [first, _] = of(parts, "tasks", 1)
    assert first["metadata"]["lc_agent_name"] == "inner"


async def test_a_models_chunks_say_who_speaks_and_when_they_end() -> None:
    parts = await parts_of(calls("work"))
    chunks = [(message, meta) for message, meta in of(parts, "messages") if message.type == "AIMessageChunk"]
    assert len({message.id for message, _ in chunks}) == 2  # one id a model call
    assert [message.chunk_position for message, _ in chunks].count("last") == 2
    fields = {
        "additional_kwargs",
        "content",
        "tool_call_chunks",
        "usage_metadata",
        "response_metadata",
        "chunk_position",
    }
    assert all(hasattr(message, field) for message, _ in chunks for field in fields)
    pieces = [piece for message, _ in chunks for piece in message.tool_call_chunks]
    assert all({"index", "id", "name", "args"} <= piece.keys() for piece in pieces)
    [task] = [data for data in of(parts, "tasks") if data["name"] == "tools"][:1]
    for message, meta in of(parts, "messages", 1):
        assert meta["lc_agent_name"] == "inner" and meta["langgraph_node"] == "model"
        assert meta["langgraph_checkpoint_ns"].startswith(f"tools:{task['id']}|model:")
        assert message.type == "AIMessageChunk"


async def test_a_tools_life_is_four_events_and_its_message_follows() -> None:
    parts = await parts_of(calls("work"))
    started, delta, finished = of(parts, "tools")
    assert started == {"event": "tool-started", "tool_call_id": "c1", "tool_name": "work", "input": {"n": 1}}
    assert delta == {"event": "tool-output-delta", "tool_call_id": "c1", "delta": "delta"}
    assert finished.keys() == {"event", "tool_call_id", "output"} and finished["event"] == "tool-finished"
    assert (finished["output"].type, finished["output"].tool_call_id) == ("tool", "c1")
    [message] = [message for message, _ in of(parts, "messages") if message.type == "tool"]
    [update] = [data["tools"] for data in of(parts, "updates") if "tools" in data]
    assert update["messages"][0].id == message.id and message.status == "success"
    assert of(parts, "custom") == ["custom"]


async def test_a_tool_that_raises_reports_only_text_and_its_task_the_exception() -> None:
    # The exception ends the stream, so the parts are read as they come.
    parts: list[Part] = []
    stream = calls("fail").astream(
        {"messages": [("user", "go")]}, stream_mode=list(MODES), subgraphs=True, version="v2"
    )
    error = None
    try:
        async with asyncio.timeout(20):
            async for part in stream:
                parts.append(part)  # noqa: PERF401 - those before the error are needed
    except ValueError as failure:
        error = failure
    assert of(parts, "tools")[-1] == {"event": "tool-error", "tool_call_id": "c1", "message": "no"}
    assert of(parts, "tasks")[-1]["error"] is error


async def test_a_question_is_in_updates_and_in_the_result_of_its_task() -> None:
    graph = calls("ask", checkpointer=InMemorySaver())
    parts = await parts_of(graph)
    [asked] = [data for data in of(parts, "updates") if "__interrupt__" in data]
    [question] = asked["__interrupt__"]
    assert isinstance(question, Interrupt) and question.value == "sure?"
    [reported] = of(parts, "tasks")[-1]["interrupts"]
    assert {"id", "value", "response_schema"} <= reported.keys() and reported["id"] == question.id
    resumed = await parts_of(graph, Command(resume={question.id: "yes"}))
    assert of(resumed, "tools")[0]["event"] == "tool-started"  # again, for the same call
    assert of(resumed, "tools")[-1]["output"].content == "yes"


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def test_importing_the_source_loads_neither_langgraph_nor_langchain() -> None:
    loaded = "import sys, anabranch.sources.langgraph; print(*sys.modules)"
    assert not {"langgraph", "langchain_core", "langchain_openai", "pydantic_core"} & set(python(loaded).split())


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        ("langgraph", "asyncio.run(anext(LangGraphSource(object()).open(RunRequest(run_id='r', thread_id='t'))))"),
        ("langchain_openai", "from anabranch.sources.langgraph.reasoning import chat_model"),
        ("langchain_core", "from anabranch.sources.langgraph.guard import ModelGuard"),
    ],
)
def test_without_the_extra_the_error_says_what_to_install(missing: str, code: str) -> None:
    lines = [
        "import asyncio, sys",
        f"sys.modules['{missing}'] = None",
        "from anabranch.errors import MissingExtra",
        "from anabranch.request import RunRequest",
        "from anabranch.sources.langgraph import LangGraphSource",
        "try:",
        f"    {code}",
        "except MissingExtra as error: print(error)",
    ]
    assert "pip install '.[langgraph]'" in python("\n".join(lines))
