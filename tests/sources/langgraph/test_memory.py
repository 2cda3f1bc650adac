"""A graph with a memory: what it is told of a conversation, and what becomes of calls and questions left open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.tools import tool
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt

from anabranch import events as ev
from anabranch.errors import Conflict
from anabranch.request import Message, Resume, RunRequest, ToolCall
from anabranch.sources.langgraph import LangGraphSource

from .graphs import Turn, asks_for, model, says, sub_agent
from .strict import Strict, Thread, told

STOPPED = "Error: the agent was cancelled before this tool returned."
NOTHING = "Error: this tool reported no result."
DURABILITIES = ("sync", "async", "exit")


@tool
async def works(x: int) -> str:
    """Work."""
    return f"worked {x}"


@tool
async def waits(x: int) -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


@tool
async def asks(x: int) -> str:
    """Ask."""
    answer = interrupt({"message": f"sure {x}?"})
    ANSWERS.append(answer)
    return f"the answer is {answer!r}"


ANSWERS: list[Any] = []


@pytest.fixture(autouse=True)
def _no_answers() -> None:
    ANSWERS.clear()


def agent(*turns: Turn, make: Any = create_agent, **more: Any) -> tuple[Strict, Any]:
    """A strict model with this script, and an agent with a memory that has it."""
    strict = Strict(turns=list(model(*turns).turns))
    return strict, make(strict, [works, waits, asks], checkpointer=InMemorySaver(), **more)


def goes_on(strict: Strict, *turns: Turn) -> None:
    """From now on the model has this script."""
    strict.turns = list(model(*turns).turns)


def done(name: str) -> Any:
    """Whether a tool has just returned."""
    return lambda part: part["type"] == "tools" and part["data"]["event"] == "tool-finished"


def results(events: list[ev.Event]) -> list[tuple[str, bool]]:
    return [(event.content, event.is_error) for event in events if isinstance(event, ev.ToolReturned)]


# --- news ----------------------------------------------------------------------------------------------------------


async def test_a_graph_is_told_the_news_only_and_a_new_branch_everything() -> None:
    strict, graph = agent(says("first"))
    thread = Thread(graph)
    await thread.says("one", "two")
    goes_on(strict, says("second"))
    await thread.says("three")
    talk = [("human", "one"), ("human", "two"), ("ai", "first"), ("human", "three")]
    assert told(strict.heard[-1]) == talk
    state = await graph.aget_state({"configurable": {"thread_id": "k"}})
    assert told(state.values["messages"]) == [*talk, ("ai", "second")]
    thread.messages = thread.messages[:3]
    thread.memory_key = "branch"
    await thread.says("other")
    assert told(strict.heard[-1]) == [*talk[:3], ("human", "other")]


async def test_nothing_new_asks_the_model_again() -> None:
    strict, graph = agent([*says("half a "), RuntimeError("cut")])
    thread = Thread(graph)
    assert isinstance((await thread.says("go"))[-1], ev.RunFailed)
    goes_on(strict, says("whole"))
    assert isinstance((await thread.adds())[-1], ev.RunFinished)
    assert told(strict.heard[-1]) == [("human", "go")]
    assert [message.content for message in thread.messages] == ["go", "half a ", "whole"]


@pytest.mark.parametrize("news", [None, 0], ids=["given as it is", "nothing new"])
async def test_a_graph_without_a_memory_asked_for_nothing_new_is_not_asked_to_write_on(news: int | None) -> None:
    strict = Strict(turns=list(model(says("whole")).turns))
    asked = (Message(id="u", role="user", content="go"), Message(id="a", role="assistant", content="half a "))
    async for _ in LangGraphSource(create_agent(strict, [])).open(
        RunRequest(run_id="r", thread_id="t", messages=asked, news=news)
    ):
        pass
    assert told(strict.heard[-1]) == [("human", "go"), ("ai", "half a ")][: 1 if news == 0 else 2]


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_what_the_user_saw_of_a_cancelled_answer_is_what_the_model_hears(durability: str) -> None:
    """[F5]"""
    strict, graph = agent(says("half ", "of ", "it"))
    thread = Thread(graph)
    thread.durability = durability
    await thread.says("go", until=lambda part: part["type"] == "messages" and part["data"][0].content == "of ")
    goes_on(strict, says("yes"))
    await thread.says("next")
    assert told(strict.heard[-1]) == [("human", "go"), ("ai", "half of "), ("human", "next")]


async def test_a_question_that_never_reached_the_graph_is_heard_with_the_next_one() -> None:
    strict, graph = agent(says("fine"))
    thread = Thread(graph)
    await thread.says("one")
    thread.messages.append(Message(id="lost", role="user", content="two"))  # its run ended before the graph began
    await thread.says("three")
    assert told(strict.heard[-1]) == [("human", "one"), ("ai", "fine"), ("human", "two"), ("human", "three")]


async def test_system_messages_stay_in_front_and_are_kept_up_to_date() -> None:
    strict, graph = agent(says("fine"))
    thread = Thread(graph)
    thread.messages.append(Message(id="s", role="system", content="be brief"))
    await thread.says("one")
    thread.messages[0] = Message(id="s", role="system", content="be long")
    await thread.says("two")
    assert told(strict.heard[-1])[:2] == [("system", "be long"), ("human", "one")]
    thread.messages[0] = Message(id="another", role="system", content="be quiet")
    await thread.says("three")
    assert [kind for kind, _ in told(strict.heard[-1])] == ["system", *["human", "ai"] * 2, "human"]


async def test_a_memory_that_has_forgotten_its_beginning_is_told_the_news() -> None:
    strict, graph = agent(says("fine"))
    thread = Thread(graph)
    await thread.says("one")
    config = {"configurable": {"thread_id": "k"}}
    summary = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("in short: one"), AIMessage("fine")]
    await graph.aupdate_state(config, {"messages": summary})
    await thread.says("two")
    assert told(strict.heard[-1]) == [("human", "in short: one"), ("ai", "fine"), ("human", "two")]


async def test_a_thread_that_is_forgotten_begins_anew() -> None:
    strict, graph = agent(says("fine"))
    thread = Thread(graph)
    await thread.says("one")
    await thread.source.forget("k")
    thread.messages.clear()
    await thread.says("two")
    assert told(strict.heard[-1]) == [("human", "two")]


async def test_a_tool_result_of_the_client_answers_the_call_that_the_graph_knows() -> None:
    strict = Strict(turns=list(model(asks_for(("call_abc", "on_the_client", "{}"))).turns))

    async def think(state: Any) -> Any:
        return {"messages": [await strict.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", think)
    builder.add_edge(START, "model")
    thread = Thread(builder.compile(checkpointer=InMemorySaver()))
    [*_, end] = await thread.says("what do you see?")
    [call] = [call for message in thread.messages for call in message.tool_calls]
    assert isinstance(end, ev.RunFinished) and call.id != call.origin_id == "call_abc"
    goes_on(strict, says("a cat"))
    await thread.adds(Message(id="seen", role="tool", content="cat.png", tool_call_id=call.id))
    assert told(strict.heard[-1]) == [
        ("human", "what do you see?"),
        ("calls", ["call_abc"]),
        ("tool", ("call_abc", "cat.png")),
    ]


# --- calls left open -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [create_agent, create_deep_agent], ids=["agent", "deep agent"])
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_parallel_calls_of_a_cancelled_run_have_the_results_that_were_shown(make: Any, durability: str) -> None:
    """[AG-55, B-24]"""
    strict, graph = agent(asks_for(("c1", "works", '{"x": 1}'), ("c2", "waits", '{"x": 2}')), make=make)
    thread = Thread(graph)
    thread.durability = durability
    await thread.says("go", until=done("works"))
    goes_on(strict, says("fine"))
    assert isinstance((await thread.says("next"))[-1], ev.RunFinished)
    assert [item for item in told(strict.heard[-1]) if item[0] != "system"] == [
        ("human", "go"),
        ("calls", ["c1", "c2"]),
        ("tool", ("c1", "worked 1")),
        ("tool", ("c2", STOPPED)),
        ("human", "next"),
    ]


async def test_an_id_that_was_answered_in_an_earlier_turn_does_not_hide_the_open_call() -> None:
    strict, graph = agent(asks_for(("c1", "works", '{"x": 1}')), says("fine"))
    strict.repeats = True
    thread = Thread(graph)
    await thread.says("one")
    goes_on(strict, asks_for(("c1", "waits", '{"x": 2}')))
    await thread.says("two", until=lambda part: part["type"] == "tools" and part["data"]["event"] == "tool-started")
    goes_on(strict, says("fine"))
    await thread.says("three")
    assert told(strict.heard[-1])[4:] == [
        ("human", "two"),
        ("calls", ["c1"]),
        ("tool", ("c1", STOPPED)),
        ("human", "three"),
    ]


async def test_a_memory_that_is_broken_already_is_written_anew() -> None:
    strict, graph = agent(says("fine"))
    broken = [
        HumanMessage("one", id="u0"),
        AIMessage("", tool_calls=[{"id": "c1", "name": "works", "args": {"x": 1}}]),
        HumanMessage("two", id="u00"),
    ]
    await graph.aupdate_state({"configurable": {"thread_id": "k"}}, {"messages": broken})
    await Thread(graph).says("three")
    heard = [("human", "one"), ("calls", ["c1"]), ("tool", ("c1", NOTHING)), ("human", "two"), ("human", "three")]
    assert told(strict.heard[-1]) == heard


# --- questions -----------------------------------------------------------------------------------------------------


def two_questions() -> Turn:
    return asks_for(("c1", "asks", '{"x": 1}'), ("c2", "asks", '{"x": 2}'), ("c3", "works", '{"x": 3}'))


async def test_two_questions_are_answered_at_once_each_with_its_own_answer() -> None:
    """[AG-57, AG-58]"""
    strict, graph = agent(two_questions(), says("done"))
    thread = Thread(graph)
    await thread.says("go")
    one, two = thread.asked
    await thread.answers(Resume(interrupt_id=two, payload="second"), Resume(interrupt_id=one, payload="first"))
    assert len(strict.heard) == 2  # the turn that asked is not made again
    assert told(strict.heard[-1])[2:] == [
        ("tool", ("c1", "the answer is 'first'")),
        ("tool", ("c2", "the answer is 'second'")),
        ("tool", ("c3", "worked 3")),
    ]


async def test_a_question_that_was_not_answered_with_the_other_one_is_asked_again() -> None:
    strict, graph = agent(two_questions(), says("done"))
    thread = Thread(graph)
    await thread.says("go")
    one, two = thread.asked
    [*_, end] = await thread.answers(Resume(interrupt_id=one, payload="first"))
    assert isinstance(end, ev.RunFinished) and end.outcome == "interrupted" and list(thread.asked) == [two]
    [*_, end] = await thread.answers(Resume(interrupt_id=two, payload="second"))
    assert isinstance(end, ev.RunFinished) and end.outcome == "success" and ANSWERS == ["first", "second"]


async def test_a_question_that_is_cancelled_is_withdrawn_and_the_model_is_told() -> None:
    strict, graph = agent(two_questions(), says("done"))
    thread = Thread(graph)
    await thread.says("go")
    events = await thread.answers(*[Resume(interrupt_id=id, status="cancelled", payload="yes") for id in thread.asked])
    [(first, _), (second, _)] = results(events)
    assert first == second and "cancelled the question" in first
    assert ANSWERS == [] and isinstance(events[-1], ev.RunFinished) and events[-1].outcome == "success"
    heard = told(strict.heard[-1])[2:]
    assert sorted(heard) == [("tool", ("c1", first)), ("tool", ("c2", first)), ("tool", ("c3", "worked 3"))]


async def test_a_question_that_is_cancelled_beside_an_answered_one_has_none_for_an_answer() -> None:
    strict, graph = agent(two_questions(), says("done"))
    thread = Thread(graph)
    await thread.says("go")
    one, two = thread.asked
    await thread.answers(
        Resume(interrupt_id=one, payload="yes"), Resume(interrupt_id=two, status="cancelled", payload=1)
    )
    assert sorted(ANSWERS, key=str) == [None, "yes"]
    assert len(strict.heard) == 2


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_a_cancelled_approval_is_a_rejection(mode: Any) -> None:
    approval = HumanInTheLoopMiddleware(interrupt_on={"works": True}, interrupt_mode=mode)
    calls = asks_for(("c1", "works", '{"x": 1}'), ("c2", "works", '{"x": 2}'))
    strict, graph = agent(calls, says("done"), middleware=[approval])
    thread = Thread(graph)
    await thread.says("go")
    assert len(thread.asked) == (1 if mode == "batched" else 2)
    events = await thread.answers(*[Resume(interrupt_id=id, status="cancelled") for id in thread.asked])
    assert isinstance(events[-1], ev.RunFinished) and events[-1].outcome == "success"
    said = [text for kind, (_, text) in told(strict.heard[-1])[2:] if kind == "tool"]
    assert len(said) == 2 and all("The user cancelled the question." in text for text in said)


@pytest.mark.parametrize("twice", [False, True], ids=["never asked", "answered already"])
async def test_an_answer_to_what_is_not_asked_is_refused_and_changes_nothing(twice: bool) -> None:
    """[F36]"""
    strict, graph = agent(asks_for(("c1", "asks", '{"x": 1}')), says("done"))
    thread = Thread(graph)
    await thread.says("go")
    [id] = thread.asked
    if twice:
        await thread.answers(Resume(interrupt_id=id, payload="yes"))
    before = len(strict.heard)
    request = RunRequest(run_id="r", thread_id="t", memory_key="k", resume=(Resume(interrupt_id=id if twice else "x"),))
    with pytest.raises(Conflict, match="There is no open question") as refused:
        await anext(thread.source.open(request))
    assert refused.value.code == "unknown_interrupt" and len(strict.heard) == before
    if not twice:
        [*_, end] = await thread.answers(Resume(interrupt_id=id, payload="yes"))
        assert isinstance(end, ev.RunFinished) and ANSWERS == ["yes"]


async def test_a_question_that_nobody_answers_does_not_block_the_thread() -> None:
    strict, graph = agent(two_questions())
    thread = Thread(graph)
    await thread.says("go")
    goes_on(strict, says("fine"))
    await thread.says("never mind")
    assert ANSWERS == []
    assert told(strict.heard[-1])[2:] == [
        ("tool", ("c3", "worked 3")),
        ("tool", ("c1", NOTHING)),
        ("tool", ("c2", NOTHING)),
        ("human", "never mind"),
    ]


async def test_a_question_inside_a_sub_agent_is_answered_cancelled_or_left_like_any_other() -> None:
    """[F12, B-25]"""
    task = asks_for(("t1", "task", '{"description": "x", "subagent_type": "komodor"}'))

    def supervisor() -> tuple[Strict, Any]:
        inner = sub_agent("komodor", asks_for(("c1", "asks", '{"x": 1}')), says("komodor is done"), tools=[asks])
        strict = Strict(turns=list(model(task, says("done")).turns))
        return strict, create_deep_agent(strict, subagents=[inner], checkpointer=InMemorySaver())

    strict, graph = supervisor()
    thread = Thread(graph)
    await thread.says("go")
    [id] = thread.asked
    await thread.answers(Resume(interrupt_id=id, payload="yes"))
    assert told(strict.heard[-1])[-1] == ("tool", ("t1", "komodor is done")) and ANSWERS == ["yes"]

    strict, graph = supervisor()
    thread = Thread(graph)
    await thread.says("go")
    await thread.answers(*[Resume(interrupt_id=id, status="cancelled") for id in thread.asked])
    [kind, (call, text)] = told(strict.heard[-1])[-1]
    assert (kind, call) == ("tool", "t1") and "cancelled the question" in text and ANSWERS == ["yes"]

    strict, graph = supervisor()
    thread = Thread(graph)
    await thread.says("go")
    goes_on(strict, says("fine"))
    await thread.says("never mind")
    assert told(strict.heard[-1])[-2:] == [("tool", ("t1", NOTHING)), ("human", "never mind")]


async def test_a_cancelled_question_without_a_call_ends_the_run_and_the_thread_goes_on() -> None:
    async def name(state: Any) -> Any:
        return {"messages": [AIMessage(f"hello {interrupt('your name?')}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("name", name)
    builder.add_edge(START, "name")
    builder.add_edge("name", END)
    thread = Thread(builder.compile(checkpointer=InMemorySaver()))
    await thread.says("hi")
    [id] = thread.asked
    events = await thread.answers(Resume(interrupt_id=id, status="cancelled"))
    assert isinstance(events[-1], ev.RunFinished) and events[-1].outcome == "success" and not thread.asked
    await thread.says("hi again")
    [id] = thread.asked
    await thread.answers(Resume(interrupt_id=id, payload="Ann"))
    assert thread.messages[-1].content == "hello Ann"


async def test_a_breakpoint_goes_on_when_it_is_answered_and_ends_when_it_is_cancelled() -> None:
    strict, graph = agent(asks_for(("c1", "works", '{"x": 1}')), says("done"), interrupt_before=["tools"])
    thread = Thread(graph)
    await thread.says("go")
    assert list(thread.asked) == ["breakpoint"]
    await thread.answers(Resume(interrupt_id="breakpoint"))
    assert told(strict.heard[-1])[-1] == ("tool", ("c1", "worked 1"))
    goes_on(strict, asks_for(("c2", "works", '{"x": 2}')), says("done"))
    await thread.says("again")
    assert list(thread.asked) == ["breakpoint"]
    await thread.answers(Resume(interrupt_id="breakpoint", status="cancelled"))
    kind, (_, text) = told(strict.heard[-1])[-1]
    assert kind == "tool" and "cancelled the question" in text


# --- ids -----------------------------------------------------------------------------------------------------------


async def test_calls_are_named_as_their_model_named_them_and_each_once() -> None:
    strict = Strict(turns=list(model(says("fine")).turns))
    calls = [
        ToolCall(id="run-1:1", name="a", origin_id="call_1"),
        ToolCall(id="run-1:2", name="b", origin_id="call_1#2"),
        ToolCall(id="run-1:3", name="c", origin_id="call_1"),
        ToolCall(id="0e6f1c1f-0b9a-4a0e-9a0c-2e0f6d0c9d1e:12", name="d"),
        ToolCall(id="plain", name="e"),
    ]
    messages = [
        Message(id="u", role="user", content="go"),
        *[Message(id=f"a{n}", role="assistant", tool_calls=(call,)) for n, call in enumerate(calls)],
        *[Message(id=f"t{n}", role="tool", tool_call_id=call.id, content=call.name) for n, call in enumerate(calls)],
    ]
    request = RunRequest(run_id="r", thread_id="t", messages=tuple(messages))
    for _ in range(2):
        async for _part in LangGraphSource(create_agent(strict, [])).open(request):
            pass
    first, second = (told(heard) for heard in strict.heard)
    assert first == second
    named = [ids[0] for kind, ids in first if kind == "calls"]
    assert (named[0], named[4], len(set(named))) == ("call_1", "plain", 5)
    assert [item for item in first if item[0] == "tool"] == [
        ("tool", (id, call.name)) for id, call in zip(named, calls, strict=True)
    ]


async def test_two_messages_with_one_id_are_two_messages() -> None:
    strict = Strict(turns=list(model(says("fine")).turns))
    messages = tuple(
        Message(id=id, role="user", content=text) for id, text in [("", "a"), ("", "b"), ("x", "c"), ("x", "d")]
    )
    async for _ in LangGraphSource(create_agent(strict, [])).open(
        RunRequest(run_id="r", thread_id="t", messages=messages)
    ):
        pass
    assert [text for _, text in told(strict.heard[-1])] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "broken",
    [
        [AIMessage("", tool_calls=[{"id": "c1", "name": "works", "args": {}}])],
        [
            AIMessage("", tool_calls=[{"id": "c" * 41, "name": "works", "args": {}}]),
            ToolMessage("", tool_call_id="c" * 41),
        ],
        [HumanMessage("x"), AIMessage(" "), HumanMessage("y")],
    ],
)
def test_the_model_that_reads_strictly_does_refuse(broken: list[Any]) -> None:
    with pytest.raises(AssertionError):
        Strict(turns=[[]])._turn(broken)
