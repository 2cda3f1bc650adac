"""A process that is gone left runs behind: each gets its end, once, and what was shown stays as it was."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import Conflict, ServerError
from anabranch.events import Event, RunFailed, RunFinished, TextDelta, ToolCallFinished, ToolCallStarted, ToolReturned
from anabranch.identity import LOCAL
from anabranch.log._base import Entry
from anabranch.log.sqlite import SqliteLog
from anabranch.request import Message, RunRequest
from anabranch.runs._base import RunRecord
from anabranch.runs.machine import Status
from anabranch.runs.runs import Runs
from anabranch.runs.sqlite import SqliteTable
from anabranch.runs.threads import conversation
from anabranch.storage import Storage, open_storage

from .staging import WAIT_S, Stage, asked, begun, ended, followed, said

Items = AsyncGenerator[Any, None]
Opened = Callable[[], Storage]


async def echo(request: RunRequest) -> Items:
    yield f"{len(request.messages)}: {request.last_user_text()}"


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens the same storage again and again, as one process after another does."""
    url, storages = f"sqlite:///{tmp_path / 'runs.db'}", list[Storage]()

    def opened() -> Storage:
        storages.append(open_storage(url))
        return storages[-1]

    yield opened
    for storage in storages:
        await storage.aclose()


async def died(storage: Storage, agent: Any, *, shows: type[Event] = TextDelta) -> list[Entry]:
    """Run ``agent`` until it has shown an event of a type, and lose its process then: what was shown."""
    runs = Runs(storage.log, storage.table)
    record = await begun(runs, agent, asked("r1", "t"))
    shown: list[Entry] = []
    async with asyncio.timeout(WAIT_S), runs.watch(record) as batches:
        while not any(isinstance(entry.event, shows) for entry in shown):
            shown += await anext(batches)
    await storage.aclose()  # as a killed process does, before the run could end
    await runs.stop(0)
    return shown


async def test_what_was_shown_stays_and_the_run_ends_once_because_its_server_stopped(opened: Opened) -> None:
    stage = Stage()
    shown = await died(opened(), stage)
    for process in range(3):
        storage = opened()
        runs = Runs(storage.log, storage.table)
        assert await runs.recover() == (1 if process == 0 else 0)
        record = await runs.get("r1", LOCAL)
        entries = await followed(runs, record)
        text, end = ended(entries)
        assert entries[: len(shown)] == shown and text == "hello"
        assert isinstance(end, RunFailed)
        assert (end.code, end.side, end.retryable, end.partial) == ("replica_lost", "server", True, True)
        assert (record.status, record.epoch) == (Status.FAILED, 2)
        assert [entry.epoch for entry in entries] == [1] * len(shown) + [2] * (len(entries) - len(shown))
        await storage.aclose()


async def test_the_thread_goes_on_with_what_the_lost_run_had_written(opened: Opened) -> None:
    stage = Stage()
    await died(opened(), stage)
    storage = opened()
    runs = Runs(storage.log, storage.table)
    with pytest.raises(Conflict, match="thread"):
        await begun(runs, echo, asked("r2", "t"))
    await runs.recover()
    news = Message(id="m2", role="user", content="and now?")
    record = await begun(runs, echo, RunRequest(run_id="r2", thread_id="t", messages=(news,)))
    assert said(await followed(runs, record)) == "3: and now?"
    told = [(each.role, each.content) for each in conversation(await runs.thread("t", LOCAL))]
    expected = [("user", "hello"), ("assistant", "hello"), ("user", "and now?"), ("assistant", "3: and now?")]
    assert told == expected


async def test_a_call_that_never_returned_is_answered(opened: Opened) -> None:
    async def caller(request: RunRequest) -> Items:
        yield ToolCallStarted(call_id="c", name="look", message_id="m")
        yield ToolCallFinished(call_id="c")
        await asyncio.Event().wait()

    await died(opened(), caller, shows=ToolCallFinished)
    storage = opened()
    runs = Runs(storage.log, storage.table)
    await runs.recover()
    entries = await followed(runs, await runs.get("r1", LOCAL))
    assert [entry.event.is_error for entry in entries if isinstance(entry.event, ToolReturned)] == [True]
    roles = [each.role for each in conversation(await runs.thread("t", LOCAL))]
    assert roles == ["user", "assistant", "tool"]


async def test_a_run_that_had_not_begun_ends_too(opened: Opened) -> None:
    storage = opened()
    runs = Runs(storage.log, storage.table, _Never())  # type: ignore[arg-type]  # what it needs of one
    await begun(runs, echo)
    await storage.aclose()
    storage = opened()
    runs = Runs(storage.log, storage.table)
    assert await runs.recover() == 1
    text, end = ended(await followed(runs, await runs.get("r1", LOCAL)))
    assert isinstance(end, RunFailed)
    assert (text, end.code, end.partial) == ("", "replica_lost", False)


async def test_a_finished_run_is_read_by_the_next_process_from_any_place(opened: Opened) -> None:
    storage = opened()
    runs = Runs(storage.log, storage.table)
    entries = await followed(runs, await begun(runs, echo))
    await storage.aclose()
    storage = opened()
    runs = Runs(storage.log, storage.table)
    assert await runs.recover() == 0
    again = await begun(runs, echo)  # the same request finds it
    for after in range(len(entries) + 1):
        assert await followed(runs, again, after) == entries[after:]
    assert isinstance(ended(entries)[1], RunFinished)


class _Never:
    """Never comes to executing anything."""

    def start(self, key: str, work: object) -> None:
        pass


async def test_a_run_whose_end_could_not_be_written_does_not_hang_later_readers(opened: Opened) -> None:
    storage = opened()
    stage = Stage()
    runs = Runs(storage.log, storage.table)
    record = await begun(runs, stage)
    await stage.waiting.wait()
    await storage.table.move(record.key, Status.FAILED, 1)  # all that could be done
    await storage.aclose()
    await runs.stop(0)
    storage = opened()
    runs = Runs(storage.log, storage.table)
    assert await runs.recover() == 0
    with pytest.raises(ServerError) as raised:
        await followed(runs, await runs.get("r1", LOCAL))
    assert raised.value.code == "log_failed"


async def test_a_run_whose_record_is_damaged_does_not_keep_the_others_from_their_end(
    opened: Opened, tmp_path: Path
) -> None:
    storage, stages = opened(), [Stage(), Stage()]
    runs = Runs(storage.log, storage.table)
    records = [await begun(runs, stage, asked(f"r{n}", f"t{n}")) for n, stage in enumerate(stages)]
    for record in records:
        async with asyncio.timeout(WAIT_S), runs.watch(record) as batches:
            while not any(isinstance(entry.event, TextDelta) for entry in await anext(batches)):
                pass
    await storage.aclose()
    await runs.stop(0)
    file = sqlite3.connect(tmp_path / "runs.db")
    file.execute(
        "UPDATE entries SET body = x'7b22' WHERE id >> 32 = (SELECT no FROM logs WHERE run = ?)", (records[0].key,)
    )
    file.commit()
    file.close()
    storage = opened()
    runs = Runs(storage.log, storage.table)
    assert await runs.recover() == 2
    with pytest.raises(ServerError) as raised:
        await followed(runs, await runs.get("r0", LOCAL))
    assert raised.value.code == "storage_failed"
    text, end = ended(await followed(runs, await runs.get("r1", LOCAL)))
    assert isinstance(end, RunFailed) and (text, end.code) == ("hello", "replica_lost")
    for n in range(2):
        assert said(await followed(runs, await begun(runs, echo, asked(f"next {n}", f"t{n}")))).endswith("hello")


async def test_a_run_that_cannot_be_ended_at_once_is_ended_later(opened: Opened) -> None:
    class Full(SqliteTable):
        full = True

        async def take(self, key: str) -> RunRecord | None:
            if self.full:
                self.full = False
                raise ServerError("The disk is full.", code="storage_failed")
            return await super().take(key)

    await died(opened(), Stage())
    storage = opened()
    assert isinstance(storage.log, SqliteLog)
    runs = Runs(storage.log, Full(storage.log))
    assert await runs.recover() == 1
    text, end = ended(await followed(runs, await runs.get("r1", LOCAL)))
    assert isinstance(end, RunFailed) and (text, end.code) == ("hello", "replica_lost")
