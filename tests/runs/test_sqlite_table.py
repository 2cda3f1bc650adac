"""The table of runs in a SQLite file: the contract, and what a file has to keep."""

import asyncio
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from anabranch.log._base import Bounds
from anabranch.runs.machine import FINAL, Status
from anabranch.storage import Storage, open_storage

from .conformance import (
    END,
    GIVEN,
    OUTCOME,
    START,
    TEXT,
    WAIT_S,
    TableConformance,
    entries,
    keys,
    over,
    record,
    running,
)
from .finishing import THREADS


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Storage]:
    """The storage in the file ``path``."""
    storage = open_storage(f"sqlite:///{path}")
    try:
        yield storage
    finally:
        async with asyncio.timeout(WAIT_S):
            await storage.aclose()


class TestSqliteTable(TableConformance):
    @asynccontextmanager
    async def driver(self) -> AsyncIterator[Storage]:
        with tempfile.TemporaryDirectory() as folder:
            async with opened(Path(folder, "a.db")) as storage:
                yield storage


async def test_everything_is_there_after_the_file_was_closed(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as storage:
        table = storage.table
        for key in ("k1", "k2"):
            await over(table, key, "other", at_ms=50, size=30)
        await table.create(record("k3", "r3", on_disconnect=1.5, branch="k1"), GIVEN)
        await table.move("k3", Status.RUNNING, 2)
        await table.finish("k3", entries(1, START, END), Status.INTERRUPTED, 9, OUTCOME, 4)
        await running(table, "k4")
        await storage.log.append("k4", entries(1, START, TEXT))
        await table.forget("k1")
        seen = [await table.turns("ann", "other"), await table.turns("ann", "t"), await table.list("ann")]
    async with opened(tmp_path / "a.db") as storage:
        table = storage.table
        assert [await table.turns("ann", "other"), await table.turns("ann", "t"), await table.list("ann")] == seen
        assert keys(await table.ended()) == ["k2", "k3"]
        assert keys(await table.active()) == ["k4"]
        taken = await table.take("k4")
        assert taken and taken.epoch == 2
        assert await table.finish("k4", entries(3, END, epoch=2), Status.FAILED, 10, OUTCOME, 1)
        assert keys(await table.ended()) == ["k2", "k3", "k4"]
        assert await storage.log.read("k4") == [*entries(1, START, TEXT), *entries(3, END, epoch=2)]


async def test_what_a_process_did_not_get_to_remove_is_removed_by_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as storage:
        for key, thread_id in (("gone", "t1"), ("forgotten", "t2"), ("kept", "t2")):
            await over(storage.table, key, thread_id)
        await storage.table.delete_thread("ann", "t1")
        await storage.table.forget("forgotten")
    async with opened(tmp_path / "a.db") as storage:
        await running(storage.table, "new", thread_id="t3")
        for key in ("gone", "forgotten"):
            assert await storage.log.bounds(key) == Bounds(0, 0, False)
        assert await storage.log.bounds("kept") == Bounds(1, 2, True)


def killed(path: Path, after: int) -> list[str]:
    """Let a process use the file, and kill it when it has finished ``after`` runs; their keys."""
    command = [sys.executable, str(Path(__file__).with_name("finishing.py")), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            return [process.stdout.readline().strip() for _ in range(after)]
        finally:
            process.kill()


@pytest.mark.process
async def test_a_killed_process_leaves_each_run_over_in_both_table_and_log_or_in_neither(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    said: list[str] = []
    for attempt in range(5):
        said += killed(path, 5 + 7 * attempt)
        async with opened(path) as storage:
            runs = {turn.record.key: turn for thread in THREADS for turn in await storage.table.turns("ann", thread)}
            for key, turn in runs.items():
                bounds = await storage.log.bounds(key)
                done = turn.record.status is Status.SUCCEEDED
                assert (bounds.ended, bounds.last == 3, turn.outcome is not None) == (done, done, done)
            assert all(runs[key].record.status is Status.SUCCEEDED for key in said)
            assert len(await storage.table.active()) <= len(THREADS)
            assert {run.status for run in await storage.table.ended(10_000)} <= FINAL


async def test_a_file_of_the_first_version_learns_what_tasks_are(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as storage:
        await over(storage.table, "k1", task_id="x", at_ms=50)
    with closing(sqlite3.connect(path)) as file:
        file.executescript(
            "DROP INDEX task; DROP INDEX changed; PRAGMA user_version = 1;"
            "ALTER TABLE runs DROP COLUMN task_id; ALTER TABLE runs DROP COLUMN changed_ms;"
        )
    for _ in range(2):
        async with opened(path) as storage:
            assert keys(await storage.table.task("ann", "x")) == ["k1"]
            assert [run.changed_ms for run in (await storage.table.tasks("ann")).runs] == [50]
