"""How a server's runs end with it, and how finished ones are forgotten."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from anabranch.errors import NotFound, ServerError, ServerStopping, SourceError
from anabranch.events import RunFailed
from anabranch.identity import LOCAL
from anabranch.request import RunRequest
from anabranch.runs._base import Kept, RunRecord
from anabranch.runs.executors.local import LocalExecutor
from anabranch.runs.machine import FINAL, Status
from anabranch.runs.runs import Runs

from .staging import WAIT_S, Stage, asked, begun, ended, followed, said

Items = AsyncGenerator[Any, None]


async def echo(request: RunRequest) -> Items:
    for piece in request.last_user_text():
        yield piece


async def status(runs: Runs, run_id: str = "r1") -> Status:
    return (await runs.get(run_id, LOCAL)).status


# --- stopping --------------------------------------------------------------------------------------------------------


async def test_a_stop_refuses_new_runs_and_lets_live_ones_finish_and_be_found() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage)
    await stage.waiting.wait()
    stopping = asyncio.create_task(runs.stop(WAIT_S))
    await asyncio.sleep(0)  # noqa: TID251  the stop takes its first step
    assert runs.stopping
    with pytest.raises(ServerStopping):
        await begun(runs, echo, asked("r2"))
    again = await begun(runs, stage)
    stage.go.set()
    assert said(await followed(runs, again)) == "hello world"
    async with asyncio.timeout(WAIT_S):
        await stopping
    assert await status(runs) is Status.SUCCEEDED
    assert again.key == record.key


async def test_after_its_grace_a_live_run_gets_a_typed_end() -> None:
    runs, stages = Runs(), [Stage() for _ in range(5)]
    records = [await begun(runs, stage, asked(f"r{n}")) for n, stage in enumerate(stages)]
    watchers = [asyncio.create_task(followed(runs, record)) for record in records]
    for stage in stages:
        await stage.waiting.wait()
    async with asyncio.timeout(WAIT_S):
        await runs.stop(0.05)
    for n, watcher in enumerate(watchers):
        text, end = ended(await watcher)
        assert isinstance(end, RunFailed)
        assert (text, end.code, end.side, end.retryable, end.partial) == (
            "hello",
            "server_stopping",
            "server",
            True,
            True,
        )
        assert await status(runs, f"r{n}") is Status.FAILED
        assert stages[n].left.is_set()


async def test_a_stop_returns_when_every_run_has_written_its_end() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage)
    async with asyncio.timeout(WAIT_S):
        await runs.stop(0)
        assert await status(runs) in FINAL
        assert isinstance(ended(await followed(runs, record))[1], RunFailed)


async def test_a_second_stop_hurries_the_first() -> None:
    runs, stage = Runs(), Stage()
    await begun(runs, stage)
    await stage.waiting.wait()
    patient = asyncio.create_task(runs.stop(3600))
    async with asyncio.timeout(WAIT_S):
        await runs.stop(0)
        await patient
        await runs.stop(0)
    assert await status(runs) is Status.FAILED


async def test_a_run_cancelled_before_the_stop_stays_cancelled() -> None:
    runs, stage = Runs(), Stage()
    await begun(runs, stage)
    await stage.waiting.wait()
    await runs.cancel("r1", LOCAL)
    async with asyncio.timeout(WAIT_S):
        await runs.stop(0)
    assert await status(runs) is Status.CANCELLED


async def test_work_that_comes_after_the_stop_is_asked_to_stop_at_once() -> None:
    executor = LocalExecutor()
    reasons: asyncio.Queue[Any] = asyncio.Queue()

    async def work(stop: asyncio.Future[Any]) -> None:
        reasons.put_nowait(await stop)

    async with asyncio.timeout(WAIT_S):
        await executor.stop(0)
        executor.start("k", work)
        assert isinstance(await reasons.get(), ServerStopping)


async def test_work_that_raises_is_told_to_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    async def work(stop: asyncio.Future[Any]) -> None:
        raise ValueError("the table is gone")

    executor = LocalExecutor()
    executor.start("k", work)
    async with asyncio.timeout(WAIT_S):
        await executor.stop(WAIT_S)
    assert "the table is gone" in caplog.text
    assert not executor.cancel("k", ServerStopping("late"))


# --- forgetting ------------------------------------------------------------------------------------------------------


async def run(runs: Runs, run_id: str) -> RunRecord:
    record = await begun(runs, echo, asked(run_id))
    await followed(runs, record)
    return record


async def known(runs: Runs, *run_ids: str) -> list[str]:
    found = []
    for run_id in run_ids:
        try:
            found.append((await runs.get(run_id, LOCAL)).run_id)
        except NotFound:
            continue
    return found


async def test_the_oldest_finished_runs_are_forgotten() -> None:
    runs = Runs(keeps=Kept(2, 2**30))
    records = [await run(runs, f"r{n}") for n in range(5)]
    await runs.stop(WAIT_S)  # forgetting comes after the end
    assert await known(runs, *(f"r{n}" for n in range(5))) == ["r3", "r4"]
    with pytest.raises(NotFound):
        await followed(runs, records[0])
    assert said(await followed(runs, records[4])) == "hello"


async def test_finished_runs_are_forgotten_when_they_are_too_large_together() -> None:
    async def long(request: RunRequest) -> Items:
        yield "x" * 10_000

    runs = Runs(keeps=Kept(1000, 25_000))
    for n in range(4):
        await followed(runs, await begun(runs, long, asked(f"r{n}")))
    await runs.stop(WAIT_S)
    assert await known(runs, *(f"r{n}" for n in range(4))) == ["r2", "r3"]


async def test_more_live_runs_than_allowed_are_refused_and_the_live_ones_can_be_joined() -> None:
    runs, stage = Runs(live=1), Stage()
    record = await begun(runs, stage)
    await stage.waiting.wait()
    with pytest.raises(ServerError) as refused:
        await begun(runs, echo, asked("another"))
    assert (refused.value.code, refused.value.retryable) == ("too_many_runs", True)
    assert (await begun(runs, stage)).key == record.key
    stage.go.set()
    assert said(await followed(runs, record)) == "hello world"
    assert said(await followed(runs, await begun(runs, echo, asked("another")))) == "hello"


async def test_a_failed_run_is_told_to_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    async def failing(request: RunRequest) -> Items:
        yield "so far"
        raise SourceError("The disk is full.", code="agent_failed") from OSError("no space at /secret/path")

    runs = Runs()
    text, end = ended(await followed(runs, await begun(runs, failing)))
    assert text == "so far" and isinstance(end, RunFailed)
    assert "agent_failed" in caplog.text and "no space at /secret/path" in caplog.text
    assert "secret" not in end.message


async def test_a_forgotten_run_id_may_be_used_again() -> None:
    runs = Runs(keeps=Kept(0, 2**30))
    first = await begun(runs, echo)
    assert said(await followed(runs, first)) == "hello"
    while await known(runs, "r1"):
        await run(runs, "other")
    again = await begun(runs, echo, asked(text="bye"))
    assert said(await followed(runs, again)) == "bye"
    with pytest.raises(NotFound):
        await followed(runs, first)


async def test_a_watched_run_is_not_forgotten() -> None:
    runs = Runs(keeps=Kept(1, 2**30))
    watched = await begun(runs, echo, asked("watched"))
    async with runs.watch(watched) as batches:
        first = await anext(batches)
        for n in range(3):
            await run(runs, f"r{n}")
        assert await known(runs, "watched") == ["watched"]
        rest = [entry async for batch in batches for entry in batch]
        assert ended([*first, *rest])[0] == "hello"
    for n in range(3, 5):
        await run(runs, f"r{n}")
    await runs.stop(WAIT_S)
    assert await known(runs, "watched", "r4") == ["r4"]


async def test_a_live_run_is_not_forgotten() -> None:
    runs, stage = Runs(keeps=Kept(0, 2**30)), Stage()
    record = await begun(runs, stage, asked("live"))
    await stage.waiting.wait()
    for n in range(3):
        await run(runs, f"r{n}")
    assert await known(runs, "live") == ["live"]
    watcher = asyncio.create_task(followed(runs, record))
    stage.go.set()
    assert said(await watcher) == "hello world"
