"""Stopping one run: its text stays, its agent cleans up, and it has one end."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from anabranch.errors import Cancelled, Conflict
from anabranch.events import Event, RunFinished, RunStarted
from anabranch.identity import LOCAL
from anabranch.request import RunRequest
from anabranch.runs import runner
from anabranch.runs._base import Work
from anabranch.runs.executors.local import LocalExecutor
from anabranch.runs.machine import Status, status_of
from anabranch.runs.runs import Runs
from anabranch.sources.python import PythonTranslator

from .staging import WAIT_S, Own, Signal, Stage, asked, begun, ended, followed, outcome

Items = AsyncGenerator[Any, None]


async def returns(request: RunRequest) -> Items:
    yield "hello"
    yield " "
    yield request.last_user_text()


class Cancelling(LocalExecutor):
    """Asks each run to stop before it has begun."""

    def start(self, key: str, work: Work) -> None:
        super().start(key, work)
        self.cancel(key, Cancelled("The run was cancelled."))


async def test_cancelled_before_its_first_step_the_agent_is_not_called() -> None:
    runs, stage = Runs(executor=Cancelling()), Stage()
    record = await begun(runs, stage)
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
    cleaning, may_end, undisturbed = Signal(), asyncio.Event(), asyncio.Event()

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
    with contextlib.suppress(Conflict):  # it is over
        await runs.cancel("r1", LOCAL)
    stage.go.set()
    _, end = ended(await followed(runs, record))
    assert (await runs.get("r1", LOCAL)).status is status_of(end)
    assert isinstance(end, RunFinished)


async def test_a_run_that_is_over_cannot_be_cancelled_and_stays_as_it_is() -> None:
    runs = Runs()
    first = await outcome(runs, returns)
    with pytest.raises(Conflict, match="nothing to cancel") as raised:
        await runs.cancel("r1", LOCAL)
    assert (raised.value.code, raised.value.status) == ("run_over", 409)
    record = await runs.get("r1", LOCAL)
    assert record.status is Status.SUCCEEDED
    assert ended(await followed(runs, record)) == first


async def test_an_agent_that_swallows_its_cancellation_is_closed_at_its_next_item() -> None:
    waiting, left = Signal(), Signal()

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
    waiting, stop, stopped = Signal(), asyncio.Event(), Signal()

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


async def test_a_translator_is_not_fed_after_its_close_by_an_agent_that_was_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runner, "CLEANUP_S", 0.05)
    waiting, wake, left = Signal(), asyncio.Event(), Signal()
    calls: list[str] = []

    class Noted(PythonTranslator):
        def feed(self, item: Any) -> Iterable[Event]:
            calls.append(item)
            return super().feed(item)

        def close(self, error: BaseException | None) -> Iterable[Event]:
            calls.append("close")
            return super().close(error)

    async def deaf(request: RunRequest) -> Items:
        try:
            yield "hello"
            waiting.set()
            while not wake.is_set():
                try:
                    await wake.wait()
                except asyncio.CancelledError:
                    continue
            yield "late"
        finally:
            left.set()

    runs = Runs()
    record = await runs.start(Own(deaf, Noted), asked(), LOCAL, agent="a")
    await waiting.wait()
    await runs.cancel("r1", LOCAL)
    assert ended(await followed(runs, record)) == ("hello", RunFinished(outcome="cancelled"))
    wake.set()
    await left.wait()
    assert calls == ["hello", "close"]
