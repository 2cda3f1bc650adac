"""One agent inside another: its events stay in its lane, its text comes back, its end is always told."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

import pytest
from runs.staging import Signal

from anabranch.errors import SourceError
from anabranch.events import (
    AgentFailed,
    AgentFinished,
    AgentStarted,
    Custom,
    Event,
    Interrupted,
    MessageFinished,
    MessageReset,
    MessageStarted,
    Part,
    PartAdded,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
)
from anabranch.request import RunRequest
from anabranch.scope import Scope
from anabranch.sources.python import PythonSource, PythonTranslator
from anabranch.sources.relay import Relayed, relay

REQUEST = RunRequest(run_id="r", thread_id="t")
Items = AsyncGenerator[Any, None]


class Own(PythonSource):
    def __init__(self, agent: Any, translator: Callable[[], PythonTranslator]) -> None:
        super().__init__(agent)
        self._made = translator

    def translator(self, request: RunRequest) -> PythonTranslator:
        return self._made()


async def relayed(
    agent: Any, translator: Callable[[], PythonTranslator] = PythonTranslator
) -> tuple[Relayed, list[Event]]:
    """What the caller gets, and what the lane got."""
    events: list[Event] = []
    async with asyncio.timeout(10):
        answer = await relay(Own(agent, translator), REQUEST, Scope(events.append).lane("inner", call_id="c"))
    assert events[0] == AgentStarted(agent="inner", name="inner", call_id="c")
    assert all(event.agent == "inner" or event.agent.startswith("inner/") for event in events)
    assert sum(isinstance(event, AgentFinished | AgentFailed) and event.agent == "inner" for event in events) == 1
    return answer, events


async def test_the_text_comes_back_and_the_events_stay_in_the_lane() -> None:
    async def agent(request: RunRequest) -> Items:
        yield RunStarted(run_id="its own", thread_id="its own")
        yield "hel"
        yield "lo"

    answer, events = await relayed(agent)
    assert answer == Relayed("hello")
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["hel", "lo"]
    assert not any(isinstance(event, RunStarted | RunFinished) for event in events)
    assert events[-1] == AgentFinished(agent="inner")


async def test_only_the_agents_own_text_comes_back() -> None:
    async def agent(request: RunRequest) -> Items:
        yield AgentStarted(agent="deeper", name="deeper")
        yield TextDelta(agent="deeper", message_id="m", delta="not this")
        yield AgentFinished(agent="deeper")
        yield "this"

    answer, events = await relayed(agent)
    assert answer.text == "this"
    assert TextDelta(agent="inner/deeper", message_id="m", delta="not this") in events


async def test_what_was_voided_or_told_of_progress_does_not_come_back() -> None:
    async def agent(request: RunRequest) -> Items:
        for id, text, phase in (("a", "wrong", "answer"), ("b", "searching...", "progress"), ("c", "right", "answer")):
            yield MessageStarted(message_id=id)
            yield TextDelta(message_id=id, delta=text)
            yield MessageFinished(message_id=id, phase=phase)  # type: ignore[arg-type]  # one of the phases
        yield MessageReset(message_id="a", superseded_by="c", reason="retry")

    answer, _ = await relayed(agent)
    assert answer.text == "right"


async def test_an_answer_of_data_only_comes_back_as_json_whatever_it_holds() -> None:
    async def agent(request: RunRequest) -> Items:
        yield PartAdded(message_id="m", part=Part(kind="json", data={"clusters": ["a\ud83d", 2]}))

    answer, _ = await relayed(agent)
    assert answer == Relayed('{"clusters":["a\ufffd",2]}')


async def raises(request: RunRequest) -> Items:
    yield "so far"
    raise ValueError("sk-live-0123456789abcdef")


async def fails_by_name(request: RunRequest) -> Items:
    yield "so far"
    raise SourceError("Too busy, token=abcdef.", code="busy", retryable=True)


async def exits(request: RunRequest) -> Items:
    yield "so far"
    raise SystemExit(3)


async def interrupts(request: RunRequest) -> Items:
    yield "so far"
    raise KeyboardInterrupt


async def cancels_itself(request: RunRequest) -> Items:
    yield "so far"
    raise asyncio.CancelledError


async def awaits_what_was_cancelled(request: RunRequest) -> Items:
    yield "so far"
    inner = asyncio.create_task(asyncio.Event().wait())
    inner.cancel()
    await inner


async def says_it_failed(request: RunRequest) -> Items:
    yield "so far"
    yield RunFailed(code="quota", message="No more.")
    raise ValueError("after its end")


class Endless(PythonTranslator):
    def close(self, error: BaseException | None) -> Iterable[Event]:
        return ()


class FailsToClose(PythonTranslator):
    def close(self, error: BaseException | None) -> Iterable[Event]:
        raise LookupError("no end")


class FailsToFeed(PythonTranslator):
    def feed(self, item: Any) -> Iterable[Event]:
        if item == "!":
            raise LookupError("no word")
        return super().feed(item)


class FailsToBegin(PythonTranslator):
    def __init__(self) -> None:
        raise LookupError("no beginning")


async def returns(request: RunRequest) -> Items:
    yield "so far"
    yield "!"


STOPPED = RunFailed(code="agent_cancelled", message="The agent stopped itself with a cancellation.")


def failed_with(error: str) -> RunFailed:
    return RunFailed(code="agent_failed", message=f"The agent failed with {error}.")


LOOKUP = failed_with("LookupError")


@pytest.mark.parametrize(
    ("agent", "translator", "failed", "text"),
    [
        (raises, PythonTranslator, failed_with("ValueError"), "so far"),
        (
            fails_by_name,
            PythonTranslator,
            RunFailed(code="busy", message="Too busy, token=***", retryable=True),
            "so far",
        ),
        (exits, PythonTranslator, failed_with("SystemExit"), "so far"),
        (interrupts, PythonTranslator, failed_with("KeyboardInterrupt"), "so far"),
        (cancels_itself, PythonTranslator, STOPPED, "so far"),
        (awaits_what_was_cancelled, PythonTranslator, STOPPED, "so far"),
        (says_it_failed, PythonTranslator, RunFailed(code="quota", message="No more."), "so far"),
        (returns, Endless, RunFailed(code="no_end", message="The agent's stream stopped without an end."), "so far!"),
        (returns, FailsToClose, LOOKUP, "so far!"),
        (returns, FailsToFeed, LOOKUP, "so far"),
        (returns, FailsToBegin, LOOKUP, ""),
    ],
)
async def test_a_failure_is_returned_and_ends_the_lane(
    agent: Any, translator: type[PythonTranslator], failed: RunFailed, text: str
) -> None:
    answer, events = await relayed(agent, translator)
    assert answer == Relayed(text, failed)
    assert events[-1] == AgentFailed(agent="inner", code=failed.code, message=failed.message)


QUESTION = Interrupted(interrupt_id="q", reason="input", message="Which?")


@pytest.mark.parametrize(("outcome", "lane"), [("interrupted", "suspended"), ("cancelled", "cancelled")])
async def test_another_end_is_told_as_what_it_is(outcome: Any, lane: str) -> None:
    async def agent(request: RunRequest) -> Items:
        yield "hello"
        if outcome == "interrupted":
            yield QUESTION
        yield RunFinished(outcome=outcome)

    answer, events = await relayed(agent)
    assert answer.text == "hello"
    if outcome == "interrupted":  # it is the caller's to ask
        assert answer == Relayed("hello", asked=(QUESTION,)) and QUESTION not in events
    else:
        assert answer.failed is not None and answer.failed.code == "agent_cancelled"
    assert events[-1] == AgentFinished(agent="inner", outcome=lane)  # type: ignore[arg-type]  # one of the outcomes


@pytest.mark.parametrize("gone", [False, True])
async def test_a_cancellation_stops_the_agent_ends_the_lane_and_passes_through(gone: bool) -> None:
    waiting, left = Signal(), Signal()
    events: list[Event] = []

    def emit(event: Event) -> None:
        if gone and isinstance(event, AgentFinished):
            raise RuntimeError("the caller's stream is closed")
        events.append(event)

    async def agent(request: RunRequest) -> Items:
        try:
            yield "hello"
            waiting.set()
            await asyncio.Event().wait()
        finally:
            left.set()

    task = asyncio.create_task(relay(PythonSource(agent), REQUEST, Scope(emit).lane("inner")))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left.is_set()
    assert (AgentFinished(agent="inner", outcome="cancelled") in events) is not gone


async def test_that_an_agent_says_nothing_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.sources.relay.SILENCE_S", 0.01)
    told = Signal()

    async def agent(request: RunRequest) -> Items:
        yield "hello"
        await told.wait()
        yield " again"

    events: list[Event] = []

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, Custom) and event.value["seconds"] > 0.015:
            told.set()

    lane = Scope(emit).lane("inner")
    assert (await relay(PythonSource(agent), REQUEST, lane)).text == "hello again"
    silences = [event for event in events if isinstance(event, Custom)]
    assert [event.agent for event in silences] == ["inner"] * len(silences)
    assert [event.name for event in silences] == ["anabranch.silent"] * len(silences)


async def test_narration_is_no_part_of_what_comes_back_unless_the_agent_fails() -> None:
    def narrating(*, fails: bool) -> Any:
        async def agent(request: RunRequest) -> Items:
            yield MessageStarted(message_id="n")
            yield TextDelta(message_id="n", delta="Let me see. ")
            yield MessageFinished(message_id="n", phase="narration")
            yield TextDelta(message_id="m", delta="42")
            if fails:
                raise SourceError("gone", code="agent_failed")

        return agent

    assert (await relayed(narrating(fails=False)))[0] == Relayed("42")
    assert (await relayed(narrating(fails=True)))[0].text == "Let me see. 42"
