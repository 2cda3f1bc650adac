"""A remote agent as a tool of somebody's own LangGraph graph: live, exact, once, without a server of ours."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from serving import ask as post
from serving import body, served

import anabranch
from anabranch.app import App
from anabranch.config import Server
from anabranch.demo._process import started
from anabranch.errors import ConfigError
from anabranch.events import TextDelta
from anabranch.langchain import RemoteA2ATool
from tests import environments
from tests.agents import asking, remote
from tests.agents.test_old import MODES, SCRIPT
from tests.agents.wire import pause
from tests.sources.langgraph.graphs import Turn, Whole, asks_for, model, says

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

TEXT = "".join(remote.TOKENS)


class Plain(Whole):
    """A scripted model for `invoke` and `ainvoke`."""

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        return asyncio.run(self._agenerate(messages))


@pytest.fixture(scope="module")
async def agent() -> AsyncIterator[str]:
    async with started("tests.agents.remote", "--rate", "0") as url:
        yield url


@pytest.fixture
async def asks() -> AsyncIterator[str]:
    async with started("tests.agents.asking") as url:
        yield url


@asynccontextmanager
async def tool_for(url: str, **options: Any) -> AsyncIterator[RemoteA2ATool]:
    """A tool called ``ask_remote``, closed on exit, and 20 s for everything."""
    tool = RemoteA2ATool(url, **{"name": "ask_remote", "idle_s": 1.0} | options)
    async with asyncio.timeout(20):
        try:
            yield tool
        finally:
            await tool.aclose()


def call(question: str, id: str = "c1") -> tuple[str, str, str]:
    return id, "ask_remote", json.dumps({"question": question})


def graph_of(tool: RemoteA2ATool, *questions: str, **options: Any) -> Any:
    """An agent that asks its tool all questions at once, and then says that it is done."""
    calls = [call(question, f"c{number}") for number, question in enumerate(questions, 1)]
    return scripted([tool], asks_for(*calls), says("done"), **options)


def scripted(tools: list[Any], *turns: Turn, **options: Any) -> Any:
    return create_agent(Plain(turns=model(*turns).turns), tools, **options)


def results(state: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


async def result(tool: RemoteA2ATool, question: str) -> ToolMessage:
    [message] = results(await graph_of(tool, question).ainvoke({"messages": "go"}))
    return message


async def sent(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/sent") as answer:
        found: dict[str, Any] = await answer.json()
        return found


async def until(url: str, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    while not true(found := await sent(url)):
        await pause(0.01)
    return found


def text_of(items: list[dict[str, Any]]) -> str:
    """What a reader shows: all text, without messages that were told to be progress or are void."""
    texts: dict[str, str] = {}
    for event in (item["event"] for item in items):
        if event["type"] == "text_delta":
            texts[event["message_id"]] = texts.get(event["message_id"], "") + event["delta"]
        elif event["type"] == "message_reset" or event.get("phase") == "progress":
            texts.pop(event["message_id"], None)
    return "".join(texts.values())


# --- live ----------------------------------------------------------------------------------------------------------


async def test_tokens_come_while_the_agent_still_writes_and_leaving_the_stream_cancels_its_task(agent: str) -> None:
    before = len((await sent(agent))["cancels"])
    async with tool_for(agent, idle_s=20) as tool:
        heard = ""
        stream = graph_of(tool, "mode=hang").astream({"messages": "go"}, stream_mode=["messages", "custom", "updates"])
        async with aclosing(stream) as items:
            async for mode, item in items:
                if mode == "custom" and item["event"]["type"] == "text_delta":
                    heard += item["event"]["delta"]
                if heard == TEXT[: len(heard)] and heard == "".join(remote.pieces("hang")):
                    break  # it says no more until it is cancelled
        await until(agent, lambda found: len(found["cancels"]) == before + 1)


@pytest.mark.parametrize("mode", [mode for mode in remote.WHOLE if mode not in ("killed_end", "no_terminal")])
async def test_the_items_and_the_result_have_the_same_exact_text(agent: str, mode: str) -> None:
    async with tool_for(agent) as tool:
        stream = graph_of(tool, f"mode={mode}").astream({"messages": "go"}, stream_mode=["custom", "updates"])
        items, told = [], []
        async for kind, item in stream:
            if kind == "custom":
                items.append(item)
            elif "tools" in item:
                told += item["tools"]["messages"]
    assert [message.content for message in told] == [TEXT]
    assert text_of(items) == TEXT
    assert {item["type"] for item in items} == {"a2a"} and {item["callId"] for item in items} == {"c1"}
    assert {item["agent"] for item in items} == {"remote"}
    kinds = [item["event"]["type"] for item in items]
    assert kinds[0] == "agent_started" and kinds[-1] == "agent_finished"
    assert kinds.count("message_started") == kinds.count("message_finished")
    json.dumps(items)


@pytest.mark.parametrize("mode", ["ok", "status_text", "caipe", "message_only", "no_streaming"])
async def test_agents_of_the_sdk_of_0_3_are_read_as_exactly(mode: str) -> None:
    more = ["--whole"] if mode == "no_streaming" else []
    options = ("--rate", "0", *more)
    async with environments.started(environments.python("a2a-0.3"), SCRIPT, *options) as url, tool_for(url) as tool:
        name = "ok" if mode == "no_streaming" else mode
        stream = graph_of(tool, f"mode={name}").astream({"messages": "go"}, stream_mode=["custom", "values"])
        items, state = [], {}
        async for kind, item in stream:
            if kind == "custom":
                items.append(item)
            else:
                state = item
    [message] = results(state)
    assert message.content == text_of(items) == MODES[name].text


async def test_the_tools_mode_has_the_text_as_the_calls_output(agent: str) -> None:
    async with tool_for(agent) as tool:
        stream = graph_of(tool, "mode=caipe").astream({"messages": "go"}, stream_mode=["tools"], subgraphs=True)
        parts = [part async for _, _, part in stream]
    deltas = [part["delta"] for part in parts if part["event"] == "tool-output-delta"]
    assert "".join(deltas) == TEXT and len(deltas) > 1
    assert {part["tool_call_id"] for part in parts} == {"c1"}


async def test_two_calls_at_once_are_told_apart(agent: str) -> None:
    async with tool_for(agent) as tool:
        stream = graph_of(tool, "mode=ok", "mode=pause_between").astream({"messages": "go"}, stream_mode="custom")
        items = [item async for item in stream]
    for id in ("c1", "c2"):
        assert text_of([item for item in items if item["callId"] == id]) == TEXT
    ids = [
        (item["callId"], item["event"]["message_id"]) for item in items if item["event"]["type"] == "message_started"
    ]
    assert len({id for _, id in ids}) == len(ids), "no message id is used by both"


async def test_agents_inside_the_remote_agent_are_named() -> None:
    async def outer(request: Any) -> AsyncIterator[Any]:
        yield "first "
        lane = anabranch.current().lane("prometheus")
        lane.emit(TextDelta(message_id="m", delta="up"))
        lane.finish()
        yield TextDelta(message_id="last", delta="then")

    async with served(App({"outer": outer}, server=Server(stop_grace=0))) as url, tool_for(url) as tool:
        stream = graph_of(tool, "hi").astream({"messages": "go"}, stream_mode=["custom", "updates"])
        items, told = [], []
        async for kind, item in stream:
            (items if kind == "custom" else told).append(item)
    spoken = {item["agent"]: text_of([each for each in items if each["agent"] == item["agent"]]) for item in items}
    assert spoken == {"remote": "first then", "prometheus": "up"}
    [[message]] = [update["tools"]["messages"] for update in told if "tools" in update]
    assert message.content == "first then"


# --- without a stream ----------------------------------------------------------------------------------------------


async def test_ainvoke_gives_the_whole_text_and_where_the_agent_worked(agent: str) -> None:
    async with tool_for(agent) as tool:
        message = await result(tool, "mode=ok")
        assert (message.content, message.status) == (TEXT, "success")
        assert message.artifact["task_id"] and message.artifact["context_id"] and message.artifact["url"] == agent
        assert await tool.ainvoke({"question": "mode=ok"}) == TEXT


async def test_what_is_not_text_is_in_the_artifact(agent: str) -> None:
    async with tool_for(agent) as tool:
        message = await result(tool, "mode=data_part")
    data = {"clusters": [{"name": "prod-eu-1", "nodes": 42}]}
    assert json.loads(str(message.content)) == data and message.artifact["parts"] == [{"kind": "json", "data": data}]


async def test_invoke_works_in_a_program_without_a_loop_and_streams_there(agent: str) -> None:
    def program() -> tuple[str, Any, list[dict[str, Any]]]:
        tool = RemoteA2ATool(agent, name="ask_remote")
        [message] = results(graph_of(tool, "mode=ok").invoke({"messages": "go"}))
        items = list(graph_of(tool, "mode=ok").stream({"messages": "go"}, stream_mode="custom"))
        return tool.invoke({"question": "mode=ok"}), message.content, items

    async with asyncio.timeout(20):
        alone, content, items = await asyncio.to_thread(program)
    assert (alone, content, text_of(items)) == (TEXT, TEXT, TEXT)


async def test_invoke_works_where_a_loop_runs_already(agent: str) -> None:
    assert RemoteA2ATool(agent).invoke({"question": "mode=ok"}) == TEXT


def test_one_tool_works_in_one_loop_after_the_other() -> None:
    tool: list[RemoteA2ATool] = []

    async def main() -> str:
        async with started("tests.agents.remote", "--rate", "0") as url:
            tool[:] = tool or [RemoteA2ATool(url)]
            tool[0] = tool[0].model_copy(update={"url": url})
            try:
                return str(await tool[0].ainvoke({"question": "mode=ok"}))
            finally:
                await tool[0].aclose()

    assert [asyncio.run(main()), asyncio.run(main())] == [TEXT, TEXT]


async def test_twenty_runs_share_a_tool(agent: str) -> None:
    async with tool_for(agent) as tool:
        graph = graph_of(tool, "mode=ok", "mode=caipe")
        states = await asyncio.gather(*(graph.ainvoke({"messages": "go"}) for _ in range(20)))
    assert [[message.content for message in results(state)] for state in states] == [[TEXT, TEXT]] * 20


# --- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("failed", "the cluster does not answer"),
        ("rejected", "not my business"),
        ("canceled", "cancelled"),
        ("error_completed", "no access to the cluster"),
        ("http_500", "500"),
        ("html", "agent_protocol"),
        ("rpc_error", "the agent refuses"),
        ("rpc_error_mid", "the agent broke down"),
        ("no_terminal", "before its task did"),
        ("hang", "agent_timeout_idle"),
        ("killed_before", "agent_disconnected"),
        ("killed_mid", "agent_disconnected"),
    ],
)
async def test_a_failing_agent_is_an_error_result_that_names_it_and_why_and_is_asked_once(mode: str, why: str) -> None:
    async with started("tests.agents.remote", "--rate", "0") as url, tool_for(url) as tool:
        message = await result(tool, f"mode={mode}")
        assert message.status == "error"
        assert str(message.content).startswith("Error: the agent remote failed") and why in str(message.content)
        said = "" if mode in remote.HTTP_MODES else "".join(remote.pieces(mode))
        assert str(message.content).endswith(said)
        if "killed" not in mode:
            assert (await sent(url))["requests"] == 1


async def test_an_empty_answer_is_empty_and_the_agent_is_asked_once() -> None:
    async with started("tests.agents.remote", "--rate", "0") as url, tool_for(url) as tool:
        message = await result(tool, "mode=empty")
        assert (message.content, message.status) == ("", "success")
        assert (await sent(url))["requests"] == 1


async def test_an_agent_that_is_not_there_is_an_error_result_and_the_sibling_answers(agent: str) -> None:
    async with tool_for(agent) as tool, tool_for("http://127.0.0.1:1", name="ask_nobody") as nobody:
        calls = asks_for(call("mode=ok"), ("c2", "ask_nobody", '{"question": "?"}'))
        graph = scripted([tool, nobody], calls, says("done"))
        there, missing = results(await graph.ainvoke({"messages": "go"}))
    assert there.content == TEXT
    assert missing.status == "error" and "the agent nobody failed (agent_unreachable)" in str(missing.content)


async def test_a_program_may_have_the_failure_raised(agent: str) -> None:
    async with tool_for(agent, handle_tool_error=False) as tool:
        with pytest.raises(ToolException, match="the agent remote failed"):
            await tool.ainvoke({"question": "mode=failed"})


# --- questions -----------------------------------------------------------------------------------------------------

CONFIG: Any = {"configurable": {"thread_id": "t"}}
ANSWERED = f"{asking.LOOKING}In %s: 3 pods."


async def test_the_answer_to_a_question_goes_to_the_same_task_also_in_another_process(asks: str) -> None:
    saver = InMemorySaver()
    async with tool_for(asks) as tool:
        state = await graph_of(tool, "pods?", checkpointer=saver).ainvoke({"messages": "go"}, CONFIG)
        [interrupt] = state["__interrupt__"]
    assert (interrupt.value["agent"], interrupt.value["message"]) == ("remote", asking.QUESTION)
    async with tool_for(asks) as tool:  # it remembers nothing: what it needs is in the checkpoint
        graph = graph_of(tool, "pods?", checkpointer=saver)
        [message] = results(await graph.ainvoke(Command(resume="prod"), CONFIG))
    assert (message.content, message.status) == (ANSWERED % "prod", "success")
    first, second = (await sent(asks))["messages"]
    assert first["text"] == "pods?" and second["text"] == "prod"
    assert second["taskId"] == interrupt.value["anabranch_remote"]["task_id"] == message.artifact["task_id"]


async def test_an_agent_may_ask_twice(asks: str) -> None:
    async with tool_for(asks) as tool:
        graph = graph_of(tool, "pods?", checkpointer=InMemorySaver())
        await graph.ainvoke({"messages": "go"}, CONFIG)
        state = await graph.ainvoke(Command(resume="twice"), CONFIG)
        assert state["__interrupt__"][0].value["message"] == asking.SECOND
        [message] = results(await graph.ainvoke(Command(resume="yes"), CONFIG))
    assert message.content == ANSWERED % "yes"
    assert [each["text"] for each in (await sent(asks))["messages"]] == ["pods?", "twice", "yes"]


async def test_two_agents_that_ask_at_once_are_answered_one_after_the_other_and_asked_once(asks: str) -> None:
    async with tool_for(asks) as tool:
        graph = graph_of(tool, "pods?", "nodes?", checkpointer=InMemorySaver())
        state = await graph.ainvoke({"messages": "go"}, CONFIG)
        first, second = state["__interrupt__"]
        state = await graph.ainvoke(Command(resume={first.id: "one"}), CONFIG)
        assert [each.id for each in state["__interrupt__"]] == [second.id]
        state = await graph.ainvoke(Command(resume={second.id: "two"}), CONFIG)
    by_call = {message.tool_call_id: message.content for message in results(state)}
    assert by_call == {first.value["callId"]: ANSWERED % "one", second.value["callId"]: ANSWERED % "two"}
    said = (await sent(asks))["messages"]
    assert sorted(each["text"] for each in said) == ["nodes?", "one", "pods?", "two"]
    assert len({each["taskId"] for each in said[2:]}) == 2


async def test_an_answer_that_is_data_is_sent_as_data(asks: str) -> None:
    async with tool_for(asks) as tool:
        graph = graph_of(tool, "pods?", checkpointer=InMemorySaver())
        await graph.ainvoke({"messages": "go"}, CONFIG)
        await graph.ainvoke(Command(resume={"cluster": "prod"}), CONFIG)
    assert (await sent(asks))["messages"][1]["data"] == [{"cluster": "prod"}]


async def test_a_question_is_answered_in_invoke_too(asks: str) -> None:
    def program() -> Any:
        graph = graph_of(RemoteA2ATool(asks, name="ask_remote"), "pods?", checkpointer=InMemorySaver())
        graph.invoke({"messages": "go"}, CONFIG)
        return results(graph.invoke(Command(resume="prod"), CONFIG))[0].content

    async with asyncio.timeout(20):
        assert await asyncio.to_thread(program) == ANSWERED % "prod"


async def test_without_a_checkpointer_a_question_is_an_error_result_and_its_task_is_cancelled(asks: str) -> None:
    async with tool_for(asks) as tool:
        message = await result(tool, "pods?")
        assert message.status == "error"
        assert asking.QUESTION in str(message.content) and "keeps no checkpoints" in str(message.content)
        found = await until(asks, lambda found: bool(found["cancels"]))
    assert len(found["messages"]) == len(found["cancels"]) == 1


# --- contexts ------------------------------------------------------------------------------------------------------


async def contexts(url: str) -> list[str]:
    return [message.get("contextId", "") for message in (await sent(url))["messages"]]


@pytest.mark.parametrize("kept", [True, False], ids=["checkpointer", "thread id alone"])
async def test_a_thread_has_a_context_of_its_own(kept: bool) -> None:
    async with started("tests.agents.remote", "--rate", "0") as url, tool_for(url) as tool:
        graph = graph_of(tool, "mode=ok", checkpointer=InMemorySaver() if kept else None)
        for thread in ("a", "b", "a"):
            await graph.ainvoke({"messages": "go"}, {"configurable": {"thread_id": thread}})
        assert await contexts(url) == ["", "", "context-1"]


async def test_a_branch_of_a_thread_has_the_context_that_it_had_there() -> None:
    async with started("tests.agents.remote", "--rate", "0") as url, tool_for(url) as tool:
        graph = graph_of(tool, "mode=ok", checkpointer=InMemorySaver())
        await graph.ainvoke({"messages": "go"}, CONFIG)
        start = [state async for state in graph.aget_state_history(CONFIG)][-1].config
        await graph.ainvoke({"messages": "other"}, start)
        assert await contexts(url) == ["", ""]


async def test_two_calls_at_once_have_two_contexts_and_the_next_run_goes_on_in_one() -> None:
    async with started("tests.agents.remote", "--rate", "0") as url, tool_for(url) as tool:
        graph = graph_of(tool, "mode=ok", "mode=ok", checkpointer=InMemorySaver())
        for _ in range(2):
            await graph.ainvoke({"messages": "go"}, CONFIG)
        first, second, *later = await contexts(url)
    assert (first, second) == ("", "") and sorted(later) == ["", "context-2"]


async def test_without_a_thread_nothing_is_shared() -> None:
    async with started("tests.agents.remote", "--rate", "0") as url, tool_for(url) as tool:
        for _ in range(2):
            await result(tool, "mode=ok")
        assert await contexts(url) == ["", ""]


# --- inside a server of ours ---------------------------------------------------------------------------------------


async def test_in_a_run_of_ours_the_agent_is_a_lane_of_the_call(agent: str) -> None:
    async with tool_for(agent) as tool:
        graph = create_agent(model(asks_for(call("mode=ok")), says("done")), [tool])
        async with served(App({"a": graph}, server=Server(stop_grace=0))) as url:
            events = (await post(url, "POST", "/agui", body())).events
    lane = [event for event in events if event.get("subagentRunId") and event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert "".join(event["delta"] for event in lane) == TEXT
    assert [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == [TEXT]
    assert events[-1]["type"] == "RUN_FINISHED" and not [each for each in events if each["type"] == "CUSTOM"]


async def test_in_a_run_of_ours_a_question_ends_the_run_and_the_next_one_answers_it(asks: str) -> None:
    async with tool_for(asks) as tool:
        graph = create_agent(model(asks_for(call("pods?")), says("done")), [tool], checkpointer=InMemorySaver())
        async with served(App({"a": graph}, server=Server(stop_grace=0))) as url:
            events = (await post(url, "POST", "/agui", body("r1", "t"))).events
            [asked] = events[-1]["outcome"]["interrupts"]
            assert asked["message"] == asking.QUESTION
            resume = [{"interruptId": asked["id"], "status": "resolved", "payload": "prod"}]
            events = (await post(url, "POST", "/agui", body("r2", "t") | {"messages": [], "resume": resume})).events
    assert [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == [ANSWERED % "prod"]
    assert len((await sent(asks))["messages"]) == 2


# --- the tool itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://komodor:8001", "ask_komodor"),
        ("https://www.example.com/", "ask_example_com"),
        ("https://gateway.example.com/agents/argo-cd/", "ask_argo-cd"),
        ("https://gateway.example.com/argo/.well-known/agent-card.json", "ask_argo"),
        ("http://127.0.0.1:8001", "ask_agent_8001"),
        ("http://[::1]:8001", "ask_agent_8001"),
    ],
)
def test_a_tool_without_a_name_is_called_as_its_address(url: str, name: str) -> None:
    tool = RemoteA2ATool(url)
    assert tool.name == name and tool.agent in tool.description


async def test_the_card_gives_the_name_and_the_description(agent: str) -> None:
    tool = await RemoteA2ATool.from_card(agent)
    assert (tool.name, tool.agent, tool.description) == ("ask_remote", "remote", "The test agent remote.")
    tool = await RemoteA2ATool.from_card(agent, name="mine", description="Mine.")
    assert (tool.name, tool.description) == ("mine", "Mine.")


def test_the_model_is_offered_a_question_and_nothing_else() -> None:
    schema: Any = RemoteA2ATool("http://komodor").tool_call_schema
    assert list(schema.model_json_schema()["properties"]) == ["question"]


async def test_copies_work_on_their_own_and_no_header_is_shown(agent: str) -> None:
    async with tool_for(agent, headers={"authorization": "Bearer s3cret-s3cret"}) as tool:
        assert await tool.ainvoke({"question": "mode=ok"}) == TEXT
        assert "s3cret" not in repr(tool) + str(tool) + str(tool.model_dump())
        for copied in (pickle.loads(pickle.dumps(tool)), copy.copy(tool), copy.deepcopy(tool), tool.model_copy()):
            assert copied.headers == tool.headers
            assert await copied.ainvoke({"question": "mode=ok"}) == TEXT
            await copied.aclose()


@pytest.mark.parametrize(
    ("url", "options", "flaw"),
    [
        ("komodor:8001", {}, "http:// or https://"),
        ("http://komodor", {"name": "ask komodor"}, "no name for a tool"),
        ("http://komodor", {"headers": {"x": "a\nb"}}, "cannot be sent"),
    ],
)
def test_what_cannot_work_is_refused_at_once(url: str, options: Any, flaw: str) -> None:
    with pytest.raises(ConfigError, match=flaw):
        RemoteA2ATool(url, **options)


@pytest.mark.parametrize(
    ("missing", "extra"), [("langgraph", "langgraph"), ("langchain_core", "langgraph"), ("aiohttp", "a2a")]
)
def test_what_is_not_installed_is_named_with_its_extra(missing: str, extra: str) -> None:
    code = f"""
import importlib.abc, importlib.util, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == {missing!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == {missing!r} else find(name)
import anabranch.langchain
assert "langchain_core" not in sys.modules
try:
    anabranch.langchain.RemoteA2ATool("http://komodor")
except anabranch.errors.MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert missing in done.stdout and f".[{extra}]" in done.stdout


async def test_the_example_streams_asks_and_is_answered() -> None:
    names: dict[str, Any] = {"__name__": "example"}
    program = Path(__file__).parents[2] / "examples" / "remote_tool.py"
    exec(compile(program.read_text(encoding="utf-8"), program.name, "exec"), names)
    async with served(names["app"]) as url, asyncio.timeout(20):
        *heard, told = await names["talk"](url)
    assert heard == ["Looking for clusters. ", "Which one, prod or test?", "All ", "pods ", "of ", "prod ", "run."]
    assert told == "Looking for clusters. All pods of prod run."
