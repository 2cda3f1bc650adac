"""The last watcher has left: what becomes of the run, by its policy."""

import asyncio

import pytest

from anabranch.errors import Conflict
from anabranch.events import RunFinished
from anabranch.identity import LOCAL
from anabranch.runs.machine import Status
from anabranch.runs.runs import Runs

from .staging import WAIT_S, Stage, begun, ended, followed

LONG_S = 60.0  # nobody waits for it here


async def test_nobody_came_back_in_time_and_the_run_is_cancelled() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, on_disconnect=0.01)
    async with runs.watch(record) as batches:
        await anext(batches)
    async with asyncio.timeout(WAIT_S):
        await stage.left.wait()
    assert ended(await followed(runs, record)) == ("hello", RunFinished(outcome="cancelled"))


async def test_who_comes_back_in_time_keeps_the_run() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, on_disconnect=LONG_S)
    for _ in range(3):
        async with runs.watch(record) as batches:
            await anext(batches)
    assert runs.leaving == {record.key}
    async with runs.watch(record) as batches:
        await anext(batches)
        assert runs.leaving == set()
        stage.go.set()
        assert ended(await followed(runs, record))[0] == "hello world"


async def test_the_time_counts_from_the_last_of_all_watchers() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, on_disconnect=LONG_S)
    async with runs.watch(record):
        async with runs.watch(record):
            pass
        assert runs.leaving == set()
    assert runs.leaving == {record.key}
    await runs.stop(0)


async def test_a_run_that_is_over_is_not_waited_for() -> None:
    runs, stage = Runs(), Stage()
    stage.go.set()
    record = await begun(runs, stage, on_disconnect=LONG_S)
    await followed(runs, record)
    assert runs.leaving == set()
    assert (await runs.get("r1", LOCAL)).status is Status.SUCCEEDED


async def test_a_run_that_ends_alone_is_not_waited_for_either() -> None:
    runs, stage = Runs(), Stage()
    record = await begun(runs, stage, on_disconnect=LONG_S)
    async with runs.watch(record) as batches:
        await anext(batches)
    stage.go.set()
    await stage.left.wait()
    await runs.stop(WAIT_S)
    assert runs.leaving == set()
    with pytest.raises(Conflict, match="nothing to cancel"):
        await runs.cancel("r1", LOCAL)
