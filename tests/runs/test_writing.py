"""What one run writes: in order, in time, within limits, and what follows when it cannot."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from anabranch import current
from anabranch.errors import ServerError
from anabranch.events import (
    ActivityDelta,
    AgentStarted,
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    StateSnapshot,
    TextDelta,
)
from anabranch.identity import LOCAL
from anabranch.request import RunRequest
from anabranch.runs import runner
from anabranch.runs.machine import Status
from anabranch.runs.runs import Runs

from .staging import WAIT_S, BreakingLog, Signal, SlowLog, Stage, asked, begun, ended, followed, outcome

Items = AsyncGenerator[Any, None]


async def returns(request: RunRequest) -> Items:
    yield "hello"
    yield " "
    yield request.last_user_text()


# --- emitting --------------------------------------------------------------------------------------------------------


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
    left = Signal()

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


# --- the log ---------------------------------------------------------------------------------------------------------


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


# --- the output limit ------------------------------------------------------------------------------------------------


async def test_a_run_that_writes_too_much_fails_and_its_agent_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OUTPUT_LIMIT", 10_000)
    left = Signal()

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
