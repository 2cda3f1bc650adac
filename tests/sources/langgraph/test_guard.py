"""The guard, with the real ChatOpenAI at an endpoint that misbehaves: no tool runs with half of its arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import SecretStr

from anabranch import events as ev
from anabranch.demo._process import started
from anabranch.sources.langgraph.guard import ModelGuard, ModelTruncated, truncation
from anabranch.sources.langgraph.reasoning import chat_model

from .graphs import Scripted, asks_for, model, says, stops
from .seen import Seen, asks, run

QUESTION = "show me komodor and argocd clusters 🚀 fault={}"
CODES = {
    "cut_first": "model_truncated",
    "cut_text": "model_truncated",
    "cut_args": "model_truncated",
    "length_args": "model_truncated",
    "drop_text": "model_disconnected",
    "drop_args": "model_disconnected",
    "error_first": "model_error",
    "error_text": "model_error",
    "error_args": "model_error",
    "garbage": "model_error",
    "http_500": "model_error",
    "http_401": "model_error",
}
DIALECTS = (
    *("id_name_every_delta", "no_index", "whole_calls", "empty_choices", "null_content"),
    *("reasoning", "crlf", "utf8_split", "comments"),
)


@pytest.fixture(scope="module")
async def endpoint() -> AsyncIterator[str]:
    async with started("tests.agents.model") as url:
        yield f"{url}/v1"


class Tools:
    """``ask_komodor`` and ``ask_argocd``, and the questions that they were really asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def of(self) -> list[Any]:
        @tool
        async def ask_komodor(question: str) -> str:
            """Ask komodor."""
            self.asked.append(("komodor", question))
            return "three clusters"

        @tool
        async def ask_argocd(question: str) -> str:
            """Ask argocd."""
            self.asked.append(("argocd", question))
            return "four apps"

        return [ask_komodor, ask_argocd]


def plain(endpoint: str) -> ChatOpenAI:
    """LangChain's own class, as a graph that somebody brings along has it."""
    return ChatOpenAI(
        model="scripted",
        base_url=endpoint,
        api_key=SecretStr("x"),
        use_responses_api=False,
        stream_usage=True,
        max_retries=0,
    )


def agent(llm: Any, tools: list[Any]) -> Any:
    return create_agent(llm, tools)


def deep(llm: Any, tools: list[Any]) -> Any:
    return create_deep_agent(llm, tools=tools)


def sub_agent(llm: Any, tools: list[Any]) -> Any:
    """The model that misbehaves is a sub-agent's: the task's description is its question."""

    class Delegates(Scripted):
        def _turn(self, messages: list[Any]) -> Any:
            call = json.dumps({"description": messages[-1].text, "subagent_type": "sub"}, ensure_ascii=False)
            return (
                [*asks_for(("c1", "task", call)), *stops("tool_calls")]
                if messages[-1].type == "human"
                else [*says("end"), *stops()]
            )

    sub: Any = {"name": "sub", "description": "s", "system_prompt": "s", "tools": tools, "model": llm}
    return create_deep_agent(Delegates(turns=[]), subagents=[sub])


@pytest.mark.process
class TestFaults:
    @pytest.mark.parametrize("fault", CODES)
    @pytest.mark.parametrize("build", [agent, deep, sub_agent])
    async def test_no_tool_runs_with_half_of_its_arguments_and_the_run_fails_with_a_type(
        self, endpoint: str, build: Any, fault: str
    ) -> None:
        tools, question = Tools(), QUESTION.format(fault)
        seen = await run(build(plain(endpoint), tools.of()), asks(question))
        assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.code == CODES[fault]
        assert set(tools.asked) <= {("komodor", question), ("argocd", question)}
        if fault.endswith(("_args", "_first")) or fault.startswith("http"):
            assert tools.asked == []
        if build is sub_agent:
            assert seen.agents["c1"].end == CODES[fault]
        if fault.endswith("_text"):  # what was said before stays
            said = seen.text("c1") if build is sub_agent else seen.text()
            assert said.startswith("Here is what came back.") and not said.endswith("✅")
        assert seen.repairs == {}

    async def test_without_the_guard_the_tool_would_have_run(self, endpoint: str) -> None:
        """The reason for all this; when it fails, LangChain has learned it and the guard may go."""
        tools, question = Tools(), QUESTION.format("cut_args")
        graph = agent(plain(endpoint), tools.of())
        async with asyncio.timeout(20):
            async for _ in graph.astream({"messages": [("user", question)]}, stream_mode="messages"):
                pass
        assert tools.asked and not set(tools.asked) <= {("komodor", question), ("argocd", question)}

    async def test_a_truncated_answer_keeps_its_text(self, endpoint: str) -> None:
        seen = await run(create_agent(plain(endpoint), []), asks("hello fault=cut_text"))
        assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.partial
        assert seen.text() and "This is the scripted model.".startswith(seen.text()[:10])


@pytest.mark.process
class TestDialects:
    """[F17, F32, F34] The model class that supervisors use."""

    @pytest.mark.parametrize("dialect", DIALECTS)
    async def test_every_dialect_is_understood_exactly(self, endpoint: str, dialect: str) -> None:
        tools, question = Tools(), QUESTION.format(dialect)
        llm = chat_model(name="scripted", base_url=endpoint, api_key="x", max_retries=0)
        seen = await run(create_agent(llm, tools.of()), asks(question))
        assert sorted(tools.asked) == [("argocd", question), ("komodor", question)]
        assert [json.loads(call.arguments) for call in seen.calls.values()] == [{"question": question}] * 2
        assert [call.name for call in seen.calls.values()] == ["ask_komodor", "ask_argocd"]
        assert "komodor answered with 14 characters" in seen.text()
        assert "".join(seen.thought()) == ("First things first… 🤔" * 2 if dialect == "reasoning" else "")
        assert isinstance(seen.terminal, ev.RunFinished) and seen.terminal.outcome == "success"
        assert [usage.model for usage in seen.terminal.usage] == ["scripted"]
        assert seen.repairs == {}

    async def test_what_plain_langchain_makes_of_them_is_still_shown_truthfully(self, endpoint: str) -> None:
        tools = Tools()
        seen = await run(create_agent(plain(endpoint), tools.of()), asks(QUESTION.format("id_name_every_delta")))
        assert tools.asked == []  # LangChain joins the repeated names
        assert [call.name for call in seen.calls.values()] == ["ask_komodor", "ask_argocd"]
        assert all(call.is_error for call in seen.calls.values()) and seen.repairs == {}


def ended(provider: str | None = "openai", *, calls: bool = False, **metadata: Any) -> AIMessage:
    call = {"id": "c", "name": "n", "args": {}, "type": "tool_call"}
    known = {} if provider is None else {"model_provider": provider}
    return AIMessage("x", response_metadata=known | metadata, tool_calls=[call] if calls else [])


@pytest.mark.parametrize(
    ("message", "is_whole"),
    [
        (ended(finish_reason="stop"), True),
        (ended(), False),
        (ended(id="resp_1"), False),
        (ended(status="completed"), True),
        (ended(status="incomplete", calls=True), False),
        (ended(finish_reason="length"), True),
        (ended(finish_reason="length", calls=True), False),
        (ended(finish_reason="content_filter", calls=True), False),
        (ended(finish_reason="tool_calls", calls=True), True),
        (ended(finish_reason=None), True),  # a whole answer of a gateway that gives no reason
        (ended("anthropic"), False),
        (ended("anthropic", stop_reason="max_tokens", calls=True), False),
        (ended("anthropic", stop_reason="tool_use", calls=True), True),
        (ended("google_genai"), False),
        (ended("google_genai", finish_reason="MAX_TOKENS", calls=True), False),
        (ended("somebody"), True),
        (ended(None), True),
    ],
)
def test_only_an_answer_that_is_known_to_be_cut_is_refused(message: AIMessage, is_whole: bool) -> None:
    assert (truncation(message) is None) is is_whole
    result = LLMResult(generations=[[ChatGeneration(message=message)]])
    if is_whole:
        ModelGuard().on_llm_end(result)
    else:
        with pytest.raises(ModelTruncated):
            ModelGuard().on_llm_end(result)


CUT = [AIMessageChunk(content="half", response_metadata={"model_provider": "openai"})]


class Cut(Scripted):
    """An OpenAI model whose stream ends without a reason."""

    turns: list[Any] = [CUT]


async def test_the_guard_also_stops_a_model_that_a_node_calls_synchronously() -> None:
    went_on: list[str] = []

    def node(state: MessagesState) -> dict[str, Any]:
        answer = Cut().invoke(state["messages"])
        went_on.append(answer.text)
        return {"messages": [answer]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    seen = await run(builder.compile())
    assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.code == "model_truncated"
    assert went_on == [] and seen.text() == "half"


async def test_the_guard_stops_a_model_that_is_streamed_by_hand() -> None:
    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("".join([str(chunk.text) async for chunk in Cut().astream("hi")]))]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    seen = await run(builder.compile())
    assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.code == "model_truncated"


async def test_a_guard_does_not_take_the_place_of_the_graphs_own_callbacks() -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    ends: list[Any] = []

    class Own(BaseCallbackHandler):
        def on_llm_end(self, response: Any, **_: Any) -> None:
            ends.append(response)

    seen: Seen = await run(create_agent(model(says("hi")), []).with_config(callbacks=[Own()]))
    assert len(ends) == 1 and seen.text() == "hi"


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
async def test_a_synchronous_tool_that_ends_the_process_fails_its_run_only(error: BaseException) -> None:
    @tool
    def leave() -> str:
        """Leave."""
        raise error

    seen = await run(create_agent(model(asks_for(("c1", "leave", "{}")), says("done")), [leave]))
    assert isinstance(seen.terminal, ev.RunFailed) and seen.terminal.code == "agent_failed"
    assert type(error).__name__ in seen.terminal.message
    assert seen.call("c1").is_error and seen.repairs == {}
