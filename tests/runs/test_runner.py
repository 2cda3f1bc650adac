"""One run: whatever its source does, it has exactly one end, the last, and its partial text stays."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from anabranch import current
from anabranch.errors import ServerError, SourceError
from anabranch.events import (
    ActivityDelta,
    AgentStarted,
    Event,
    MessageFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    StateSnapshot,
    Terminal,
    TextDelta,
)
from anabranch.identity import LOCAL
from anabranch.request import RunRequest
from anabranch.runs import runner
from anabranch.runs.machine import Status, status_of
from anabranch.runs.runs import Runs
from anabranch.sources.python import PythonSource, PythonTranslator

from .staging import WAIT_S, Agent, BreakingLog, Own, SlowLog, Stage, asked, begun, ended, followed, outcome, said

SECRET = "sk-live-0123456789abcdef"
Items = AsyncGenerator[Any, None]


# --- ends of a source ----------------------------------------------------------------------------------------------


async def returns(request: RunRequest) -> Items:
    yield "hello"
    yield " "
    yield request.last_user_text()


async def says_nothing(request: RunRequest) -> Items:
    return
    yield


async def raises(request: RunRequest) -> Items:
    yield "hello"
    raise ValueError(f"the key {SECRET} is wrong")


async def raises_at_once(request: RunRequest) -> Items:
    raise KeyError(SECRET)
    yield


async def fails_by_name(request: RunRequest) -> Items:
    yield "hello"
    raise SourceError("The model is overloaded.", code="model_busy", retryable=True)


async def yields_rubbish(request: RunRequest) -> Items:
    yield "hello"
    yield 42


async def yields_an_unlawful_event(request: RunRequest) -> Items:
    yield "hello"
    yield ActivityDelta(activity_id="plan", kind="plan", patch=[])


async def yields_its_failure(request: RunRequest) -> Items:
    yield "hello"
    yield RunFailed(code="quota", message="No more today.")
    yield "never read"


async def yields_its_end(request: RunRequest) -> Items:
    yield "hello"
    yield RunFinished(result={"answer": 42})
    raise ValueError("after the end")


async def raises_in_its_cleanup(request: RunRequest) -> Items:
    try:
        yield "hello"
        yield RunFinished()
        yield "never read"
    finally:
        raise ValueError("in the cleanup")


async def cancels_itself(request: RunRequest) -> Items:
    yield "hello"
    raise asyncio.CancelledError


async def exits(request: RunRequest) -> Items:
    yield "hello"
    raise SystemExit(3)


def is_no_generator(request: RunRequest) -> Any:
    return 42


ENDS: list[tuple[Any, str, Terminal]] = [
    (returns, "hello hello", RunFinished()),
    (says_nothing, "", RunFinished()),
    (raises, "hello", RunFailed(code="agent_failed", message="The agent failed with ValueError.")),
    (raises_at_once, "", RunFailed(code="agent_failed", message="The agent failed with KeyError.")),
    (fails_by_name, "hello", RunFailed(code="model_busy", message="The model is overloaded.", retryable=True)),
    (yields_rubbish, "hello", RunFailed(code="agent_protocol", message="The agent yielded int")),
    (yields_an_unlawful_event, "hello", RunFailed(code="unlawful", message="The agent sent ActivityDelta")),
    (yields_its_failure, "hello", RunFailed(code="quota", message="No more today.")),
    (yields_its_end, "hello", RunFinished(result={"answer": 42})),
    (raises_in_its_cleanup, "hello", RunFinished()),
    (cancels_itself, "hello", RunFailed(code="agent_cancelled", message="The agent stopped itself")),
    (exits, "hello", RunFailed(code="agent_failed", message="The agent tried to exit the process.")),
    (is_no_generator, "", RunFailed(code="agent_failed", message="The agent failed with TypeError.")),
]


@pytest.mark.parametrize(("agent", "text", "expected"), ENDS, ids=lambda value: getattr(value, "__name__", ""))
async def test_however_a_source_ends_its_run_has_one_end(
    agent: Agent, text: str, expected: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs()
    got, end = await outcome(runs, agent)
    assert got == text
    assert_like(end, expected)
    record = await runs.get("r1", LOCAL)
    assert record.status is status_of(expected)
    assert record.ended_ms is not None and record.ended_ms >= record.created_ms


def assert_like(end: Terminal, expected: Terminal) -> None:
    assert type(end) is type(expected)
    if isinstance(end, RunFailed) and isinstance(expected, RunFailed):
        assert (end.code, end.side, end.retryable) == (expected.code, expected.side, expected.retryable)
        assert end.message.startswith(expected.message)
        assert SECRET not in end.message
    elif isinstance(end, RunFinished) and isinstance(expected, RunFinished):
        assert (end.outcome, end.result) == (expected.outcome, expected.result)


async def test_what_an_agent_raised_is_told_to_the_operator_only(caplog: pytest.LogCaptureFixture) -> None:
    _, end = await outcome(Runs(), raises)
    assert SECRET not in repr(end)
    assert SECRET in caplog.text


# --- translators ---------------------------------------------------------------------------------------------------


class Endless(PythonTranslator):
    def close(self, error: BaseException | None) -> Iterable[Event]:
        return ()


class FailsToFeed(PythonTranslator):
    def feed(self, item: Any) -> Iterable[Event]:
        if item == " ":
            raise LookupError("no translation")
        return super().feed(item)


class FailsToClose(PythonTranslator):
    def close(self, error: BaseException | None) -> Iterable[Event]:
        yield MessageFinished(message_id="text 1")
        raise LookupError("no end")


class FailsToBegin(PythonTranslator):
    def __init__(self) -> None:
        raise LookupError("no beginning")


@pytest.mark.parametrize(
    ("translator", "text", "code", "message"),
    [
        (Endless, "hello hello", "no_end", "The agent's stream stopped without an end."),
        (FailsToFeed, "hello", "agent_failed", "The agent failed with LookupError."),
        (FailsToClose, "hello hello", "agent_failed", "The agent failed with LookupError."),
        (FailsToBegin, "", "agent_failed", "The agent failed with LookupError."),
    ],
)
async def test_a_translator_that_fails_ends_the_run(
    translator: type[PythonTranslator], text: str, code: str, message: str
) -> None:
    runs = Runs()
    record = await runs.start(Own(returns, translator), asked(), LOCAL, agent="a")
    got, end = ended(await followed(runs, record))
    assert isinstance(end, RunFailed)
    assert (got, end.code, end.message) == (text, code, message)


async def test_a_cancelled_run_is_cancelled_though_its_translator_fails_to_close() -> None:
    runs, stage = Runs(), Stage()
    record = await runs.start(Own(stage, FailsToClose), asked(), LOCAL, agent="a")
    await stage.waiting.wait()
    await runs.cancel("r1", LOCAL)
    text, end = ended(await followed(runs, record))
    assert (text, end) == ("hello", RunFinished(outcome="cancelled"))


# --- cancelling ----------------------------------------------------------------------------------------------------


async def test_cancelled_before_its_first_step_the_agent_is_not_called() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage)
    await runs.cancel("r1", LOCAL)
    entries = await followed(runs, record)
    assert [type(entry.event) for entry in entries] == [RunStarted, RunFinished]
    assert ended(entries)[1] == RunFinished(outcome="cancelled")
    assert not stage.waiting.is_set()
    assert (await runs.get("r1", LOCAL)).status is Status.CANCELLED


async def test_cancelled_in_the_middle_the_text_stays_and_the_agent_has_cleaned_up() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage)
    await stage.waiting.wait()
    await runs.cancel("r1", LOCAL)
    assert ended(await followed(runs, record)) == ("hello", RunFinished(outcome="cancelled"))
    assert stage.left.is_set()


async def test_cancelled_twice_the_cleanup_is_not_disturbed() -> None:
    cleaning, may_end, undisturbed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def cleanup() -> None:
        cleaning.set()
        await may_end.wait()
        undisturbed.set()

    runs, stage = Runs(), Stage(cleanup=cleanup)
    record = await begun(runs, stage)
    await stage.waiting.wait()
    await runs.cancel("r1", LOCAL)
    await cleaning.wait()
    await runs.cancel("r1", LOCAL)
    may_end.set()
    assert ended(await followed(runs, record)) == ("hello", RunFinished(outcome="cancelled"))
    assert undisturbed.is_set()


async def test_a_cleanup_that_raises_does_not_change_that_the_run_was_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def cleanup() -> None:
        raise ValueError("cannot close")

    runs, stage = Runs(), Stage(cleanup=cleanup)
    record = await begun(runs, stage)
    await stage.waiting.wait()
    await runs.cancel("r1", LOCAL)
    assert ended(await followed(runs, record)) == ("hello", RunFinished(outcome="cancelled"))
    assert "cannot close" in caplog.text


@pytest.mark.parametrize("cancel_first", [True, False])
@pytest.mark.parametrize("turns", range(6))
async def test_a_cancel_that_races_the_end_gives_one_end_and_a_status_that_agrees(
    cancel_first: bool, turns: int
) -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage)
    await stage.waiting.wait()
    if not cancel_first:
        stage.go.set()
    for _ in range(turns):
        await asyncio.sleep(0)  # noqa: TID251  one turn of the loop, to cancel at each step of the end
    await runs.cancel("r1", LOCAL)
    stage.go.set()
    _, end = ended(await followed(runs, record))
    assert (await runs.get("r1", LOCAL)).status is status_of(end)
    assert isinstance(end, RunFinished)


async def test_cancelling_a_run_that_is_over_changes_nothing() -> None:
    runs = Runs()
    first = await outcome(runs, returns)
    record = await runs.cancel("r1", LOCAL)
    assert record.status is Status.SUCCEEDED
    assert ended(await followed(runs, record)) == first


async def test_an_agent_that_swallows_its_cancellation_is_closed_at_its_next_item() -> None:
    waiting, left = asyncio.Event(), asyncio.Event()

    async def stubborn(request: RunRequest) -> Items:
        try:
            yield "hello"
            try:
                waiting.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield " and on"
                yield " and on"
        finally:
            left.set()

    runs = Runs()
    record = await begun(runs, stubborn)
    await waiting.wait()
    await runs.cancel("r1", LOCAL)
    text, end = ended(await followed(runs, record))
    assert (text, end) == ("hello and on", RunFinished(outcome="cancelled"))
    assert left.is_set()


@pytest.mark.parametrize("says_end", [True, False])
async def test_an_agent_that_does_not_stop_is_left_behind(
    says_end: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runner, "CLEANUP_S", 0.05)
    waiting, stop, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def never_stops(request: RunRequest) -> Items:
        try:
            yield "hello"
            if says_end:
                yield RunFinished(outcome="cancelled")
            waiting.set()
            await asyncio.Event().wait()
        finally:
            waiting.set()
            while not stop.is_set():
                try:
                    await stop.wait()
                except asyncio.CancelledError:
                    continue
            stopped.set()

    runs = Runs()
    record = await begun(runs, never_stops)
    await waiting.wait()
    await runs.cancel("r1", LOCAL)
    assert ended(await followed(runs, record)) == ("hello", RunFinished(outcome="cancelled"))
    async with asyncio.timeout(WAIT_S):
        await runs.stop(0)
        assert not stopped.is_set()
        stop.set()
        await stopped.wait()
    assert "does not stop" in caplog.text


# --- emitting ------------------------------------------------------------------------------------------------------


async def test_what_an_agent_emits_keeps_its_place_among_what_it_yields() -> None:
    async def agent(request: RunRequest) -> Items:
        yield "one "
        current().emit(StateSnapshot(value={"step": 1}))
        yield "two"

    runs = Runs()
    entries = await followed(runs, await begun(runs, agent))
    kinds = [type(entry.event) for entry in entries if isinstance(entry.event, TextDelta | StateSnapshot)]
    assert kinds == [TextDelta, StateSnapshot, TextDelta]


async def test_threads_and_tasks_of_an_agent_emit_in_its_run() -> None:
    def tool(name: str) -> None:
        lane = current().lane(name)
        lane.emit(TextDelta(message_id="m", delta=name))
        lane.finish()

    async def agent(request: RunRequest) -> Items:
        await asyncio.to_thread(tool, "thread")
        async with asyncio.TaskGroup() as group:
            for name in ("task", "other"):
                group.create_task(asyncio.to_thread(tool, name))
        yield "done"

    runs = Runs()
    entries = await followed(runs, await begun(runs, agent))
    text, end = ended(entries)
    lanes = [entry.event.name for entry in entries if isinstance(entry.event, AgentStarted)]
    assert sorted(lanes) == ["other", "task", "thread"]
    assert (text[-4:], len(text), type(end)) == ("done", len("threadtaskotherdone"), RunFinished)


async def test_an_unlawful_emit_ends_the_run_and_stops_the_agent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CLEANUP_S", 3600)
    left = asyncio.Event()

    async def agent(request: RunRequest) -> Items:
        try:
            yield "hello"
            current().emit(ActivityDelta(activity_id="plan", kind="plan", patch=[]))
            await asyncio.Event().wait()
        finally:
            left.set()

    text, end = await outcome(Runs(), agent)
    assert isinstance(end, RunFailed)
    assert (text, end.code) == ("hello", "unlawful")
    async with asyncio.timeout(WAIT_S):
        await left.wait()


async def test_an_emit_in_the_cleanup_of_a_cancelled_run_comes_before_its_end() -> None:
    async def cleanup() -> None:
        current().emit(StateSnapshot(value="cleaned"))

    runs, stage = Runs(), Stage(cleanup=cleanup)
    record = await begun(runs, stage)
    await stage.waiting.wait()
    await runs.cancel("r1", LOCAL)
    entries = await followed(runs, record)
    assert ended(entries) == ("hello", RunFinished(outcome="cancelled"))
    assert StateSnapshot(value="cleaned") in [entry.event for entry in entries]


async def test_an_emit_after_the_end_is_ignored() -> None:
    scopes = []

    async def agent(request: RunRequest) -> Items:
        scopes.append(current())
        yield "hello"

    runs = Runs()
    record = await begun(runs, agent)
    entries = await followed(runs, record)
    scopes[0].emit(TextDelta(message_id="late", delta="late"))
    assert await followed(runs, record) == entries


async def test_there_is_no_scope_outside_a_run() -> None:
    await outcome(Runs(), returns)
    with pytest.raises(LookupError):
        current()


# --- the log -------------------------------------------------------------------------------------------------------


async def test_the_status_is_final_before_anybody_reads_the_end() -> None:
    runs = Runs()
    record = await begun(runs, returns)
    async with asyncio.timeout(WAIT_S), runs.watch(record) as batches:
        async for batch in batches:
            if isinstance(batch[-1].event, RunFinished):
                assert (await runs.get("r1", LOCAL)).status is Status.SUCCEEDED
                await begun(runs, returns, asked("r2", record.thread_id))


async def test_a_source_is_paused_while_the_log_is_slow_and_loses_nothing() -> None:
    made = 0

    async def eager(request: RunRequest) -> Items:
        nonlocal made
        for made in range(1, 5001):
            yield f"{made} "

    log = SlowLog()
    runs = Runs(log)
    record = await begun(runs, eager)
    for _ in range(50):
        await asyncio.sleep(0)  # noqa: TID251  turns of the loop, in which the agent would go on if it could
    assert 0 < made < 1000
    log.open.set()
    text, end = ended(await followed(runs, record))
    assert text == "".join(f"{n} " for n in range(1, 5001))
    assert isinstance(end, RunFinished)
    assert max(log.sizes) > 100, "what came while an append ran goes into the next one"


async def test_time_never_goes_back_in_a_run() -> None:
    runs = Runs()
    times = [entry.at_ms for entry in await followed(runs, await begun(runs, returns))]
    assert times == sorted(times)


BREAKS = {
    "at the start": lambda event: isinstance(event, RunStarted),
    "in the text": lambda event: isinstance(event, TextDelta),
    "at the end": lambda event: isinstance(event, RunFinished),
}


@pytest.mark.parametrize("where", BREAKS)
async def test_watchers_of_a_run_whose_log_fails_end_with_an_error(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs, stage = Runs(BreakingLog(BREAKS[where])), Stage()
    record = await begun(runs, stage)
    early = [asyncio.create_task(followed(runs, record)) for _ in range(3)]
    if where == "at the end":
        await stage.waiting.wait()
        stage.go.set()
    for watcher in [*early, asyncio.create_task(followed(runs, record, 1))]:
        with pytest.raises(ServerError) as raised:
            await watcher
        assert (raised.value.code, str(raised.value)) == ("log_failed", "The log of this run cannot be written.")
    async with asyncio.timeout(WAIT_S):
        await runs.stop(WAIT_S)
    assert stage.left.is_set() or where == "at the start"
    assert "the disk is full" in caplog.text
    if where != "at the end":
        assert (await runs.get("r1", LOCAL)).status is Status.FAILED


async def test_a_run_that_cannot_be_logged_frees_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    log = BreakingLog(BREAKS["in the text"])
    runs = Runs(log)
    with pytest.raises(ServerError):
        await followed(runs, await begun(runs, returns, asked("r1", "t")))
    log.broken, log._breaks = False, lambda event: False
    assert ended(await followed(runs, await begun(runs, returns, asked("r2", "t"))))[0] == "hello hello"


# --- the output limit ----------------------------------------------------------------------------------------------


async def test_a_run_that_writes_too_much_fails_and_its_agent_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OUTPUT_LIMIT", 10_000)
    left = asyncio.Event()

    async def endless(request: RunRequest) -> Items:
        try:
            while True:
                yield "x" * 100
        finally:
            left.set()

    text, end = await outcome(Runs(), endless)
    assert isinstance(end, RunFailed)
    assert (end.code, end.partial) == ("output_limit", True)
    assert 4000 < len(text) < 10_000
    assert left.is_set()


@pytest.mark.parametrize("event", [TextDelta(message_id="m", delta="x" * 500), StateSnapshot(value={"x": "y" * 500})])
async def test_the_limit_counts_all_that_is_emitted_too(event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OUTPUT_LIMIT", 10_000)

    async def emits(request: RunRequest) -> Items:
        yield "hello"
        for _ in range(50):
            current().emit(event)
        await asyncio.Event().wait()

    runs = Runs()
    entries = await followed(runs, await begun(runs, emits))
    _, end = ended(entries)
    assert isinstance(end, RunFailed) and end.code == "output_limit"
    assert len(entries) < 30


# --- several runs of one source ------------------------------------------------------------------------------------


async def test_runs_of_one_source_do_not_mix() -> None:
    async def echo(request: RunRequest) -> Items:
        for piece in request.last_user_text():
            await asyncio.sleep(0)  # noqa: TID251  lets the other runs in
            yield piece

    runs, source = Runs(), PythonSource(echo)
    records = [await runs.start(source, asked(f"r{n}", text=f"{n} " * 20), LOCAL, agent="a") for n in range(50)]
    for n, entries in enumerate(await asyncio.gather(*(followed(runs, record) for record in records))):
        assert said(entries) == f"{n} " * 20
        assert ended(entries)[1].__class__ is RunFinished
