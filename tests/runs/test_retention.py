"""What is kept and what is forgotten, whoever reads meanwhile and however many runs end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from anabranch.errors import NotFound, ServerError
from anabranch.identity import LOCAL
from anabranch.log.memory import MemoryLog
from anabranch.request import Message, RunRequest
from anabranch.runs._base import Kept, RunRecord
from anabranch.runs.memory import MemoryTable
from anabranch.runs.runs import Runs
from anabranch.storage import Storage, open_storage

from .staging import WAIT_S, Signal, asked, begun, followed, said

Items = AsyncGenerator[str, None]


async def echo(request: RunRequest) -> Items:
    yield request.last_user_text()


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    storage = open_storage("memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'a.db'}")
    yield storage
    await storage.aclose()


async def until(seen: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what happens beside the runs and is told to nobody."""
    async with asyncio.timeout(WAIT_S):
        while not await seen():  # noqa: ASYNC110
            await asyncio.sleep(0.001)  # noqa: TID251


async def kept_are(runs: Runs, number: int) -> bool:
    return (await runs.table.kept()).runs == number


class Heard:
    """Is told of the threads that are gone."""

    def __init__(self) -> None:
        self.threads: list[list[str]] = []

    async def __call__(self, thread: Sequence[RunRecord]) -> None:
        self.threads.append([record.run_id for record in thread])


async def test_a_reader_that_begins_after_its_thread_was_deleted_is_told_so(storage: Storage) -> None:
    runs = Runs(storage.log, storage.table)
    record = await begun(runs, echo)
    await followed(runs, record)
    async with asyncio.timeout(WAIT_S), runs.watch(record) as batches, runs.watch(record) as others:
        await runs.delete_thread(record.thread_id, LOCAL)
        for each in (batches, others):
            with pytest.raises(NotFound):
                await anext(each)
    again = await begun(runs, echo, asked(text="again"))
    assert said(await followed(runs, again)) == "again"
    await runs.stop(WAIT_S)


async def test_runs_that_are_watched_do_not_keep_the_others(storage: Storage) -> None:
    runs = Runs(storage.log, storage.table, keeps=Kept(3, 2**30))
    async with AsyncExitStack() as watchers:
        for n in range(110):
            record = await begun(runs, echo, asked(f"watched {n}"))
            await watchers.enter_async_context(runs.watch(record))
        for n in range(20):
            await followed(runs, await begun(runs, echo, asked(f"r{n}")))
        await until(lambda: kept_are(runs, 110))
        assert await runs.table.find(LOCAL.id, "r19") is None
    await followed(runs, await begun(runs, echo, asked("last")))
    await until(lambda: kept_are(runs, 3))
    await runs.stop(WAIT_S)


async def test_neither_a_runs_end_nor_a_stop_waits_until_others_are_forgotten() -> None:
    forgetting = Signal()

    class Held(MemoryTable):
        async def forget(self, key: str) -> Sequence[RunRecord]:
            forgetting.set()
            return await asyncio.Event().wait() and []

    log = MemoryLog()
    runs = Runs(log, Held(log), keeps=Kept(0, 2**30), live=1)
    for n in range(3):
        assert said(await followed(runs, await begun(runs, echo, asked(f"r{n}")))) == "hello"
    await forgetting.wait()
    async with asyncio.timeout(WAIT_S):
        await runs.stop(WAIT_S)


async def test_a_storage_that_failed_while_it_forgot_is_tried_again_after_the_next_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(MemoryTable):
        fails = True

        async def forget(self, key: str) -> Sequence[RunRecord]:
            if self.fails:
                raise ServerError("The disk is full.", code="storage_failed")
            return await super().forget(key)

    log = MemoryLog()
    table = Failing(log)
    runs = Runs(log, table, keeps=Kept(1, 2**30))
    for n in range(3):
        await followed(runs, await begun(runs, echo, asked(f"r{n}")))

    async def told() -> bool:
        return "cannot be forgotten" in caplog.text

    await until(told)
    table.fails = False
    await followed(runs, await begun(runs, echo, asked("r3")))
    await until(lambda: kept_are(runs, 1))
    assert await table.find(LOCAL.id, "r3")


async def test_each_thread_that_is_gone_is_told_once_with_all_its_runs(storage: Storage) -> None:
    def turn(run_id: str, thread_id: str, *texts: str) -> RunRequest:
        messages = tuple(Message(id=f"m{n}", role="user", content=text) for n, text in enumerate(texts))
        return RunRequest(run_id=run_id, thread_id=thread_id, messages=messages)

    heard = Heard()
    runs = Runs(storage.log, storage.table, keeps=Kept(3, 2**30), forgotten=heard)
    for request in (turn("r1", "t", "one"), turn("r2", "t", "edited"), turn("r3", "t", "edited", "two")):
        await followed(runs, await begun(runs, echo, request))
    for n in range(2):
        await followed(runs, await begun(runs, echo, asked(f"other {n}")))
    await until(lambda: kept_are(runs, 3))
    assert heard.threads == []  # one of its runs is kept
    await followed(runs, await begun(runs, echo, asked("other 2")))

    async def told() -> bool:
        return bool(heard.threads)

    await until(told)
    async with asyncio.timeout(WAIT_S):
        await runs.delete_thread("thread of other 0", LOCAL)
    assert heard.threads == [["r1", "r2", "r3"], ["other 0"]]
    await runs.stop(WAIT_S)
