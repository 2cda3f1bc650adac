"""The one door to runs: starting, watching, leaving, and who sees what."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from anabranch.errors import Conflict, NotFound
from anabranch.events import RunFailed, RunFinished, RunStarted, TextDelta
from anabranch.identity import LOCAL, Principal, may, require
from anabranch.request import RunRequest
from anabranch.runs._base import Work
from anabranch.runs.executors.local import LocalExecutor
from anabranch.runs.machine import Status
from anabranch.runs.runs import Runs
from anabranch.sources.python import PythonSource

from .staging import ANN, BOB, WAIT_S, Signal, Stage, asked, begun, ended, followed, said

Items = AsyncGenerator[Any, None]


async def echo(request: RunRequest) -> Items:
    for piece in request.last_user_text():
        yield piece


async def status(runs: Runs, run_id: str = "r1") -> Status:
    return (await runs.get(run_id, LOCAL)).status


# --- starting --------------------------------------------------------------------------------------------------------


class HeldExecutor(LocalExecutor):
    """Starts nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[str, Work]] = []

    def start(self, key: str, work: Work) -> None:
        self.held.append((key, work))

    def let(self) -> None:
        for key, work in self.held:
            super().start(key, work)


async def test_a_run_is_queued_then_running_then_over_and_can_be_watched_from_the_start() -> None:
    executor = HeldExecutor()
    runs, stage = Runs(executor=executor), Stage()
    record = await begun(runs, stage)
    seen = [await status(runs)]
    watcher = asyncio.create_task(followed(runs, record))
    executor.let()
    await stage.waiting.wait()
    seen.append(await status(runs))
    stage.go.set()
    assert ended(await watcher) == ("hello world", ended(await followed(runs, record))[1])
    assert [*seen, await status(runs)] == [Status.QUEUED, Status.RUNNING, Status.SUCCEEDED]


async def test_the_first_event_says_whose_run_it_is() -> None:
    runs = Runs()
    record = await begun(runs, echo, asked("r1", "t1"))
    start = (await followed(runs, record))[0].event
    assert isinstance(start, RunStarted)
    assert (start.run_id, start.thread_id, start.agent_name) == ("r1", "t1", "agent")
    assert start.task_id == record.task_id != ""


async def test_the_same_request_twice_is_one_run_and_both_see_all_of_it() -> None:
    runs, stage = Runs(), Stage()
    first = await begun(runs, stage)
    await stage.waiting.wait()
    second = await begun(runs, stage)
    watchers = [asyncio.create_task(followed(runs, record)) for record in (first, second)]
    stage.go.set()
    one, two = await asyncio.gather(*watchers)
    third = await followed(runs, await begun(runs, stage))
    assert one == two == third
    assert said(one) == "hello world"


async def test_the_order_of_keys_makes_no_other_request() -> None:
    runs = Runs()
    made = [
        await runs.start(PythonSource(echo), RunRequest(run_id="r", thread_id="t", state=state), LOCAL, agent="a")
        for state in ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1})
    ]
    assert made[0].key == made[1].key


@pytest.mark.parametrize("other", [asked(text="bye"), asked(thread_id="other")])
async def test_a_known_run_id_with_another_input_is_a_conflict(other: RunRequest) -> None:
    runs = Runs()
    await followed(runs, await begun(runs, echo))
    with pytest.raises(Conflict, match="another input") as raised:
        await begun(runs, echo, other)
    assert raised.value.code == "run_id_taken"


async def test_a_known_run_id_for_another_agent_is_a_conflict() -> None:
    runs = Runs()
    await followed(runs, await begun(runs, echo))
    with pytest.raises(Conflict):
        await runs.start(PythonSource(echo), asked(), LOCAL, agent="other")


async def test_a_second_run_on_a_busy_thread_is_a_conflict_until_the_first_is_over() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, asked("r1", "t"))
    await stage.waiting.wait()
    with pytest.raises(Conflict, match="'r1'") as raised:
        await begun(runs, echo, asked("r2", "t"))
    assert raised.value.code == "thread_busy"
    stage.go.set()
    await followed(runs, record)
    assert said(await followed(runs, await begun(runs, echo, asked("r2", "t")))) == "hello"


async def test_who_has_no_writable_name_blocks_no_thread() -> None:
    runs = Runs()
    nobody = Principal("\ud800")
    for _ in range(2):
        with pytest.raises(UnicodeEncodeError):
            await begun(runs, echo, who=nobody)
        with pytest.raises(NotFound):
            await runs.get("r1", nobody)


class FullExecutor(LocalExecutor):
    """Takes no work."""

    def start(self, key: str, work: Work) -> None:
        raise RuntimeError("there is no room")


async def test_a_run_that_cannot_be_started_is_over() -> None:
    runs = Runs(executor=FullExecutor())
    for run_id in ("r1", "r2"):
        with pytest.raises(RuntimeError, match="no room"):
            await begun(runs, echo, asked(run_id, "t"))
        assert await status(runs, run_id) is Status.FAILED
        text, end = ended(await followed(runs, await runs.get(run_id, LOCAL)))
        assert isinstance(end, RunFailed)
        assert (text, end.side, end.message) == ("", "server", "This run could not be started.")


# --- watching --------------------------------------------------------------------------------------------------------


async def test_many_watchers_from_any_seq_see_the_same_run() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage)
    early = [asyncio.create_task(followed(runs, record, after)) for after in range(6)]
    await stage.waiting.wait()
    later = [asyncio.create_task(followed(runs, record, after)) for after in range(6)]
    stage.go.set()
    whole = await followed(runs, record)
    assert ended(whole)[0] == "hello world"
    for watchers in (early, later):
        for after, watcher in enumerate(watchers):
            assert await watcher == whole[after:]
    assert [await followed(runs, record, after) for after in range(len(whole) + 1)] == [
        whole[after:] for after in range(len(whole) + 1)
    ]


async def test_a_watcher_that_stops_reading_holds_up_nobody() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage)
    async with runs.watch(record) as batches:
        first = await anext(batches)
        stage.go.set()
        whole = await followed(runs, record)
        assert ended(whole)[0] == "hello world"
        assert [*first, *[entry async for batch in batches for entry in batch]] == whole


@pytest.mark.parametrize("watchers", [1, 3])
async def test_under_continue_a_run_goes_on_without_watchers(watchers: int) -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, on_disconnect="continue")
    for _ in range(watchers):
        async with runs.watch(record) as batches:
            await anext(batches)
    await stage.waiting.wait()
    stage.go.set()
    assert ended(await followed(runs, record)) == ("hello world", ended(await followed(runs, record))[1])
    assert await status(runs) is Status.SUCCEEDED


async def test_under_cancel_a_run_is_cancelled_when_the_last_watcher_leaves_and_not_before() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, on_disconnect="cancel")
    async with runs.watch(record) as one:
        async with runs.watch(record) as two:
            await anext(two)
        await stage.waiting.wait()
        assert await status(runs) is Status.RUNNING
        await anext(one)
    text, end = ended(await followed(runs, record))
    assert (text, end) == ("hello", RunFinished(outcome="cancelled"))
    assert stage.left.is_set()


async def test_under_cancel_a_run_that_nobody_watched_yet_goes_on() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, on_disconnect="cancel")
    await stage.waiting.wait()
    stage.go.set()
    assert said(await followed(runs, record)) == "hello world"


async def test_under_cancel_leaving_after_the_end_changes_nothing() -> None:
    runs = Runs()
    record = await begun(runs, echo, on_disconnect="cancel")
    for _ in range(2):
        assert isinstance(ended(await followed(runs, record))[1], RunFinished)
    assert await status(runs) is Status.SUCCEEDED


async def test_a_watcher_that_is_cancelled_has_left() -> None:
    runs, stage = Runs(), Stage()
    record, watching = await begun(runs, stage, on_disconnect="cancel"), Signal()

    async def watch() -> None:
        async with runs.watch(record) as batches:
            watching.set()
            async for _ in batches:
                pass

    watcher = asyncio.create_task(watch())
    await watching.wait()
    watcher.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watcher
    assert ended(await followed(runs, record))[1] == RunFinished(outcome="cancelled")


# --- principals ------------------------------------------------------------------------------------------------------


async def test_somebody_elses_run_does_not_exist() -> None:
    runs, stage = Runs(), Stage()
    await begun(runs, stage, who=ANN)
    await stage.waiting.wait()
    for forbidden in (runs.get, runs.cancel):
        with pytest.raises(NotFound) as raised:
            await forbidden("r1", BOB)
        with pytest.raises(NotFound) as never:
            await forbidden("r1x", BOB)
        assert str(raised.value).replace("r1", "r1x") == str(never.value)
    stage.go.set()
    async with asyncio.timeout(WAIT_S):
        await runs.stop(WAIT_S)
    assert (await runs.get("r1", ANN)).status is Status.SUCCEEDED


async def test_two_principals_use_one_run_id_and_one_thread_at_once() -> None:
    runs = Runs()
    records = [await begun(runs, echo, asked("r", "t", text=who.id), who) for who in (ANN, BOB)]
    assert [said(entries) for entries in await asyncio.gather(*(followed(runs, r) for r in records))] == ["ann", "bob"]
    assert (await runs.get("r", ANN)).key != (await runs.get("r", BOB)).key


async def test_a_hundred_runs_at_once_by_two_principals_do_not_mix() -> None:
    together = asyncio.Barrier(100)

    async def agent(request: RunRequest) -> Items:
        await together.wait()
        for _ in range(20):
            yield request.last_user_text()
            await asyncio.sleep(0)  # noqa: TID251  lets the other runs in

    runs = Runs()
    asks = [(who, f"r{n}", f"{who.id}-{n};") for n in range(50) for who in (ANN, BOB)]
    records = [await begun(runs, agent, asked(run_id, text=text), who) for who, run_id, text in asks]
    seen = await asyncio.gather(*(followed(runs, record) for record in records))
    for (who, run_id, text), entries in zip(asks, seen, strict=True):
        assert ended(entries)[0] == text * 20
        assert all(text == entry.event.delta for entry in entries if isinstance(entry.event, TextDelta))
        assert isinstance(entries[0].event, RunStarted) and entries[0].event.run_id == run_id
        assert (await runs.get(run_id, who)).principal == who.id


def test_only_the_owner_may() -> None:
    assert may(ANN, "read", "ann") and may(ANN, "cancel", "ann")
    assert not may(ANN, "read", "bob")
    require(ANN, "read", "ann", "run")
    with pytest.raises(NotFound, match="there is no run 'r'"):
        require(ANN, "read", "bob", "run 'r'")
