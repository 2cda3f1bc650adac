"""An async generator of text and events as an agent."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import pytest
from referee import judged

from anabranch.errors import SourceError
from anabranch.events import (
    Event,
    Interrupted,
    InterruptResolved,
    MessageFinished,
    MessageStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    StateSnapshot,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolReturned,
)
from anabranch.grammar import Grammar
from anabranch.request import RunRequest
from anabranch.sources.python import PythonSource, PythonTranslator

REQUEST = RunRequest(run_id="r", thread_id="t")
CALL = [
    ToolCallStarted(call_id="c", name="search"),
    ToolCallFinished(call_id="c"),
    ToolReturned(call_id="c", content="found"),
]


def translated(*items: Any, error: BaseException | None = None) -> list[Event]:
    translator = PythonTranslator()
    events = [event for item in items for event in translator.feed(item)]
    return [*events, *translator.close(error)]


def lawful(events: Iterable[Event], error: BaseException | None = None) -> list[Event]:
    """``events`` as they leave the grammar, which had nothing to repair."""
    grammar = Grammar()
    out = [legal for event in (RunStarted(run_id="r", thread_id="t"), *events) for legal in grammar.feed(event)]
    out += grammar.close(error)
    judged(out)
    assert not grammar.repairs
    return out


def test_text_is_the_answer() -> None:
    events = translated("hel", "", "lo")
    lawful(events)
    assert events == [
        MessageStarted(message_id="text 1"),
        TextDelta(message_id="text 1", delta="hel"),
        TextDelta(message_id="text 1", delta=""),
        TextDelta(message_id="text 1", delta="lo"),
        MessageFinished(message_id="text 1", phase="answer"),
        RunFinished(),
    ]


def test_nothing_is_a_success_without_an_answer() -> None:
    assert translated() == [RunFinished()]


def test_text_before_a_tool_call_was_narration_and_text_after_it_is_a_message_of_its_own() -> None:
    events = translated("I look.", *CALL, "It is ", "there.")
    lawful(events)
    ends = [event for event in events if isinstance(event, MessageFinished)]
    assert [(end.message_id, end.phase) for end in ends] == [("text 1", "narration"), ("text 2", "answer")]


def test_a_tool_call_of_a_sub_agent_does_not_end_the_text() -> None:
    events = translated("one ", ToolCallStarted(agent="sub", call_id="c", name="n"), "two")
    assert [event.message_id for event in events if isinstance(event, TextDelta)] == ["text 1", "text 1"]


def test_other_events_pass_as_they_are() -> None:
    assert StateSnapshot(value=1) in translated("one ", StateSnapshot(value=1), "two")


@pytest.mark.parametrize("end", [RunFinished(outcome="cancelled"), RunFailed(code="c", message="m")])
def test_an_agent_may_say_how_it_ended(end: Event) -> None:
    events = translated("so far", end)
    lawful(events)
    assert events[-2:] == [MessageFinished(message_id="text 1", phase="answer"), end]


ASKS = Interrupted(interrupt_id="q", reason="approval")


def test_an_agent_that_asked_and_returns_waits_for_the_answer() -> None:
    events = translated("May I?", ASKS)
    lawful(events)
    assert events[-1] == RunFinished(outcome="interrupted")


def test_an_agent_whose_question_was_withdrawn_has_succeeded() -> None:
    events = translated("May I?", ASKS, InterruptResolved(interrupt_id="q"), "I need not ask.")
    lawful(events)
    assert events[-1] == RunFinished()


def test_an_error_leaves_the_end_to_the_grammar() -> None:
    error = ValueError()
    events = translated("so far", error=error)
    assert events[-1] == TextDelta(message_id="text 1", delta="so far")
    assert isinstance(lawful(events, error)[-1], RunFailed)


@pytest.mark.parametrize("item", [42, None, b"bytes", ["list"], TextDelta])
def test_anything_else_is_the_agents_fault(item: Any) -> None:
    with pytest.raises(SourceError, match=f"yielded {type(item).__name__}; it may yield str or an event") as raised:
        translated(item)
    assert raised.value.code == "agent_protocol"


async def test_closing_the_stream_closes_the_agent() -> None:
    closed = []

    async def agent(request: RunRequest) -> AsyncGenerator[str, None]:
        try:
            yield request.run_id
            yield "more"
        finally:
            closed.append(True)

    async with aclosing(PythonSource(agent).open(REQUEST)) as items:
        assert await anext(items) == "r"
        assert not closed
    assert closed == [True]


async def test_any_async_iterator_is_an_agent() -> None:
    class Countdown:
        def __init__(self, request: RunRequest) -> None:
            self.left = 3

        def __aiter__(self) -> "Countdown":
            return self

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return str(self.left)

    assert [item async for item in PythonSource(Countdown).open(REQUEST)] == ["2", "1", "0"]
