"""The log in a SQLite file: the contract, and what only a file has to do."""

import asyncio
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from anabranch.errors import ConfigError, Fenced, ServerError, ServerStopping
from anabranch.events import RunFinished, TextDelta, Unknown
from anabranch.log._base import Bounds, Checkpoint, Entry, RunLog
from anabranch.log._sqlite_file import SqliteFile
from anabranch.log._transaction import Transaction
from anabranch.log.sqlite import SqliteLog

from .appending import RUNS, entry
from .conformance import RUN, WAIT_S, LogConformance, entries, rest, some, turn


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[SqliteLog]:
    """The log in the file ``path``."""
    log = SqliteLog(SqliteFile(path), **options)
    try:
        yield log
    finally:
        async with asyncio.timeout(WAIT_S):
            await log.aclose()


class TestSqliteLog(LogConformance):
    @asynccontextmanager
    async def driver(self) -> AsyncIterator[RunLog]:
        with tempfile.TemporaryDirectory() as folder:
            async with opened(Path(folder, "a.db")) as log:
                yield log


class TestSqliteLogWithHardlyAnythingInMemory(LogConformance):
    """Nearly all that a tail gives is read from the file, while it is written."""

    @asynccontextmanager
    async def driver(self) -> AsyncIterator[RunLog]:
        with tempfile.TemporaryDirectory() as folder:
            async with opened(Path(folder, "a.db"), ring_bytes=500) as log:
                yield log


# --- the file again --------------------------------------------------------------------------------------------------


async def test_what_was_appended_is_there_after_the_file_was_closed(tmp_path: Path) -> None:
    ended = entries(1, 700, end=RunFinished())
    async with opened(tmp_path / "a.db") as log:
        await log.append("ended", ended[:400])
        await log.append("ended", ended[400:])
        await log.append("cut off", entries(1, 5))
        log.keep_checkpoint("ended", "reader", Checkpoint(256, b"\0state"))
    async with opened(tmp_path / "a.db") as log:
        assert await rest(log.tail("ended")) == ended
        assert await rest(log.tail("ended", 699)) == ended[699:]
        assert await log.bounds("ended") == Bounds(1, 700, True)
        assert await log.bounds("cut off") == Bounds(1, 5, False)
        assert await log.checkpoint("ended", "reader", 300) == Checkpoint(256, b"\0state")


async def test_a_writer_is_fenced_by_what_an_earlier_process_wrote(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as log:
        await log.append(RUN, entries(1, 3))
        await log.append(RUN, entries(4, 2, epoch=2))
        await log.append("over", entries(1, 2, end=RunFinished()))
    for run, late in (
        (RUN, entries(6, epoch=1)),
        (RUN, entries(7, epoch=2)),
        (RUN, entries(3, 3, epoch=2)),
        ("over", entries(3)),
    ):
        async with opened(tmp_path / "a.db") as log:
            with pytest.raises(Fenced):
                await log.append(run, late)
    async with opened(tmp_path / "a.db") as log:
        await log.append(RUN, entries(4, 3, epoch=2))
        assert await log.read(RUN) == [*entries(1, 3), *entries(4, 3, epoch=2)]


async def test_a_tail_of_a_run_that_was_cut_off_waits_for_its_next_owner(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as log:
        await log.append(RUN, entries(1, 3))
    async with opened(tmp_path / "a.db") as log, aclosing(log.tail(RUN, 1)) as tail:
        assert await some(tail, 2) == entries(2, 2)
        await log.append(RUN, entries(4, 1, epoch=2, end=RunFinished()))
        assert await rest(tail) == entries(4, epoch=2, end=RunFinished())


async def test_a_removed_run_takes_nothing_of_a_later_one_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as log:
        for n in range(3):
            await log.append("large", entries(1, 300))
            for seq in range(301, 400):
                await log.append("large", entries(seq))
            removing = asyncio.create_task(log.delete("large"))
            await turn()
            await log.append("large", entries(1, 2))
            await log.append(f"other {n}", entries(1, 5))
            await removing
            assert await log.read("large") == entries(1, 2)
            await log.delete("large")
        assert [await log.read(f"other {n}") for n in range(3)] == [entries(1, 5)] * 3


async def test_an_event_of_a_newer_version_is_read_as_unknown(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as log:
        await log.append(RUN, entries(1, 3, end=RunFinished()))
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute("UPDATE entries SET body = CAST(replace(body, 'text_delta', 'hologram') AS BLOB)")
    file.close()
    async with opened(tmp_path / "a.db") as log:
        got = await rest(log.tail(RUN))
    assert [each.event for each in got[:2]] == [
        Unknown(name="hologram", value={"message_id": "m", "delta": str(seq)}) for seq in (1, 2)
    ]
    assert got[2] == entries(3, end=RunFinished())[0]


# --- memory and file -------------------------------------------------------------------------------------------------


class Counting(SqliteFile):
    """Counts what is read from it."""

    reads = 0

    async def read(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        self.reads += 1
        return await super().read(query)


async def test_who_follows_a_live_run_reads_no_file(tmp_path: Path) -> None:
    file = Counting(tmp_path / "a.db")
    log = SqliteLog(file)
    given = entries(1, 2000, end=RunFinished())
    await log.append(RUN, given[:1])
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        tails = [group.create_task(rest(log.tail(RUN, after))) for after in range(100)]
        for at in range(1, 2000, 10):
            await log.append(RUN, given[at : at + 10])
    assert file.reads == 0
    assert all(tail.result() == given[after:] for after, tail in enumerate(tails))
    assert await rest(log.tail(RUN, 1990)) == given[1990:]
    assert file.reads, "nobody followed it any more, so it is no longer in memory"
    await log.aclose()


async def test_a_reader_too_slow_for_memory_reads_the_file_and_then_catches_up(tmp_path: Path) -> None:
    def long(seq: int) -> Entry:
        return Entry(seq, 1, 1, TextDelta(message_id="m", delta=f"{seq} {'x' * 1000}"))

    file = Counting(tmp_path / "a.db")
    log = SqliteLog(file)
    given = [*map(long, range(1, 5000)), *entries(5000, end=RunFinished())]
    await log.append(RUN, given[:1])
    async with aclosing(log.tail(RUN)) as slow:
        got = await some(slow, 1)
        for at in range(1, 4900, 50):
            await log.append(RUN, given[at : at + 50])
        async with asyncio.timeout(WAIT_S):
            while len(got) < 3500:
                got += await anext(slow)
        beyond = file.reads
        assert 0 < beyond < 60
        await log.append(RUN, given[4901:])
        got += await rest(slow)
    assert got == given
    await log.aclose()


async def test_what_is_read_at_once_from_the_file_is_bounded_in_bytes_too(tmp_path: Path) -> None:
    def large(seq: int) -> Entry:
        return Entry(seq, 1, 1, TextDelta(message_id="m", delta=str(seq) * 300_000))

    given = [*map(large, range(1, 9)), *entries(9, 3, end=RunFinished())]
    async with opened(tmp_path / "a.db") as log:
        for each in given:
            await log.append(RUN, [each])
        assert [len(batch) async for batch in log.tail(RUN)] == [3, 3, 5]
        assert await rest(log.tail(RUN)) == given
        huge = [Entry(1, 1, 1, TextDelta(message_id="m", delta="x" * 2**21)), *entries(2, end=RunFinished())]
        for each in huge:
            await log.append("other", [each])
        assert [len(batch) async for batch in log.tail("other")] == [1, 1]


# --- commits ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def held(file: SqliteFile) -> AsyncIterator[None]:
    """Keep the writer busy, so that what is written in the block waits for it together."""
    busy, go = threading.Event(), threading.Event()

    def wait(transaction: Transaction) -> None:
        busy.set()
        assert go.wait(WAIT_S)

    file.write_soon(wait)
    assert await asyncio.to_thread(busy.wait, WAIT_S)
    try:
        yield
        await turn()
    finally:
        go.set()


async def test_what_waits_together_is_committed_together(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as log, asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        for first in (1, 2, 3):
            before = log.file.commits
            async with held(log.file):
                appends = [group.create_task(log.append(f"run {n}", entries(first))) for n in range(200)]
            await asyncio.wait(appends)
            assert log.file.commits - before == 1
            assert [(await log.bounds(f"run {n}")).last for n in range(200)] == [first] * 200


async def test_appends_of_many_runs_need_far_fewer_commits(tmp_path: Path) -> None:
    async def write(log: RunLog, run: str) -> None:
        for seq in range(1, 11):
            await log.append(run, entries(seq))

    async with opened(tmp_path / "a.db") as log, asyncio.timeout(WAIT_S):
        await asyncio.gather(*(write(log, f"run {n}") for n in range(100)))
        assert log.file.commits < 300


def breaks(transaction: Transaction) -> None:
    """An operation that fails in the middle."""
    transaction.execute("INSERT INTO logs (run) VALUES ('half')")
    transaction.execute("INSERT INTO nowhere VALUES (1)")


async def test_an_operation_that_fails_fails_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path / "a.db") as log, asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        await log.append("b", entries(1))
        async with held(log.file):
            good = [group.create_task(log.append(run, entries(first, 2))) for run, first in (("a", 1), ("b", 2))]
            bad = [asyncio.create_task(log.append("b", late)) for late in (entries(9), entries(4, epoch=0))]
            broken = asyncio.create_task(log.file.write(breaks))
            good += [group.create_task(log.append(run, entries(first, 2))) for run, first in (("a", 3), ("b", 4))]
        await asyncio.wait([*good, *bad, broken])
        for task in bad:
            assert isinstance(task.exception(), Fenced)
        failure = broken.exception()
        assert isinstance(failure, ServerError) and failure.code == "storage_failed"
        assert "nowhere" not in str(failure) and "nowhere" in caplog.text
        assert await log.read("a") == entries(1, 4)
        assert await log.read("b") == entries(1, 5)
        assert await log.bounds("half") == Bounds(0, 0, False)


@pytest.mark.parametrize(("synchronous", "level"), [("normal", 1), ("full", 2)])
async def test_how_safe_a_commit_is_can_be_chosen(
    tmp_path: Path, synchronous: Literal["normal", "full"], level: int
) -> None:
    file = SqliteFile(tmp_path / "a.db", synchronous=synchronous)
    asked = await file.write(lambda transaction: transaction.execute("PRAGMA synchronous").fetchall())
    assert asked == [(level,)]
    await file.aclose()


# --- closing ---------------------------------------------------------------------------------------------------------


async def test_closing_writes_what_waits_and_ends_who_follows(tmp_path: Path) -> None:
    log = SqliteLog(SqliteFile(tmp_path / "a.db"))
    following = asyncio.create_task(rest(log.tail("nobody writes it")))
    await turn()
    async with asyncio.timeout(WAIT_S):
        async with held(log.file):
            appends = [asyncio.create_task(log.append(f"run {n}", entries(1, 3))) for n in range(20)]
            await turn()
            closing = [asyncio.create_task(log.aclose()) for _ in range(2)]
        await asyncio.gather(*appends, *closing)
        with pytest.raises(ServerStopping):
            await following
        with pytest.raises(ServerStopping):
            await log.append("late", entries(1))
        with pytest.raises(ServerStopping):
            await rest(log.tail("late"))
    log.keep_checkpoint("run 1", "reader", Checkpoint(1, b""))
    async with opened(tmp_path / "a.db") as log:
        assert [await log.read(f"run {n}") for n in range(20)] == [entries(1, 3)] * 20


def test_a_file_may_be_used_by_one_loop_after_another(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "a.db")
    log = SqliteLog(file)

    async def use(first: int) -> None:
        await log.append(RUN, entries(first))
        assert await log.read(RUN) == entries(1, first)

    for first in (1, 2, 3):
        asyncio.run(use(first))
    asyncio.run(log.aclose())


# --- files that cannot be used ---------------------------------------------------------------------------------------


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE mine (a)")
    file.close()


def newer(path: Path) -> None:
    asyncio.run(SqliteFile(path).aclose())
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()


UNUSABLE = {
    "no database": (lambda path: path.write_bytes(b"no database at all " * 100), "not a database"),
    "a directory": (lambda path: path.mkdir(), "cannot be opened"),
    "another program's": (foreign, "another program"),
    "of a newer version": (newer, "upgrade"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_file_that_cannot_be_used_is_named_with_the_reason_and_let_go(tmp_path: Path, what: str) -> None:
    make, reason = UNUSABLE[what]
    path = tmp_path / "a.db"
    make(path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=reason) as raised:
            SqliteFile(path)
        assert str(path) in str(raised.value)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make it") as raised:
        SqliteFile(tmp_path / "no" / "a.db")
    assert str(tmp_path / "no") in str(raised.value)
    assert not (tmp_path / "no").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_what_users_wrote_is_for_nobody_else_to_read(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "a.db")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    asyncio.run(file.aclose())
    assert set(modes) >= {"a.db", "a.db-wal"} and set(modes.values()) == {0o600}


FULL = """
import asyncio, resource, sys
from anabranch.errors import ServerError
from anabranch.events import TextDelta
from anabranch.log._base import Entry
from anabranch.log._sqlite_file import SqliteFile
from anabranch.log.sqlite import SqliteLog

def entry(seq):
    return Entry(seq, 1, 1, TextDelta(message_id="m", delta="x" * 1000))

async def main():
    log = SqliteLog(SqliteFile(sys.argv[1]))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, most))
    last = 0
    try:
        while True:
            await log.append("run", [entry(last + 1)])
            last += 1
    except ServerError as error:
        assert error.code == "storage_failed", error
    assert 0 < last < 500, last
    assert (await log.bounds("run")).last == last
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await log.append("run", [entry(last + 1)])
    assert await log.read("run") == [entry(seq) for seq in range(1, last + 2)]
    await log.aclose()
    sys.stdout.write("fine")

asyncio.run(asyncio.wait_for(main(), 20))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of a file")
def test_an_append_that_finds_no_room_fails_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "a.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.returncode) == ("fine", 0), done.stderr


# --- processes -------------------------------------------------------------------------------------------------------


@contextmanager
def appending(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the file, and writes to it."""
    command = [sys.executable, str(Path(__file__).with_name("appending.py")), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.process
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    acknowledged = dict.fromkeys(RUNS, 0)
    for attempt in range(10):
        with appending(path) as process:
            assert process.stdout
            for _ in range(40 + 17 * attempt):
                run, last = process.stdout.readline().split()
                acknowledged[run] = int(last)
            process.kill()
            for line in process.stdout.read().splitlines(keepends=True):
                if line.endswith("\n"):
                    run, last = line.split()
                    acknowledged[run] = int(last)
        async with opened(path) as log:
            for run in RUNS:
                kept = await log.bounds(run)
                assert kept.last >= acknowledged[run] > 0
                assert await log.read(run, 0, kept.last + 1) == [entry(run, seq) for seq in range(1, kept.last + 1)]


@pytest.mark.process
def test_a_file_is_refused_while_another_process_has_it_and_free_once_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with appending(path) as process:
        with pytest.raises(ConfigError, match=f"process {process.pid} is using it: stop") as raised:
            SqliteFile(path)
        assert str(path) in str(raised.value)
        process.kill()
        process.wait(WAIT_S)
        file = SqliteFile(path)
    with pytest.raises(ConfigError, match="is using it"):
        SqliteFile(path)
    asyncio.run(file.aclose())
    asyncio.run(SqliteFile(path).aclose())
