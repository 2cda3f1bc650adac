"""What every driver of the table of runs must do. A driver's test module has a subclass whose name starts with Test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from anabranch.errors import Conflict
from anabranch.runs._base import RunRecord, RunTable
from anabranch.runs.machine import FINAL, Status


def record(key: str, run_id: str = "r", principal: str = "ann", thread_id: str = "t", **more: Any) -> RunRecord:
    fields = {"task_id": f"task of {key}", "agent": "a", "status": Status.QUEUED, "digest": "d", "created_ms": 1}
    return RunRecord(key=key, run_id=run_id, principal=principal, thread_id=thread_id, **fields | more)


class TableConformance:
    def driver(self) -> AbstractAsyncContextManager[RunTable]:
        """An empty table."""
        raise NotImplementedError

    @pytest.fixture
    async def table(self) -> AsyncIterator[RunTable]:
        async with self.driver() as table:
            yield table

    async def test_a_created_run_is_found_by_its_owner_only(self, table: RunTable) -> None:
        made = await table.create(record("k1"))
        assert made == record("k1")
        assert await table.find("ann", "r") == made
        assert await table.find("bob", "r") is None
        assert await table.find("ann", "other") is None

    async def test_of_two_creators_one_creates_and_the_other_gets_the_same_run(self, table: RunTable) -> None:
        async with asyncio.timeout(10):
            made = await asyncio.gather(*(table.create(record(f"k{n}", digest=str(n))) for n in range(20)))
        assert len({run.key for run in made}) == 1
        assert await table.find("ann", "r") == made[0]

    async def test_an_existing_run_is_returned_whatever_its_state(self, table: RunTable) -> None:
        await table.create(record("k1"))
        await table.move("k1", Status.RUNNING, 2)
        assert (await table.create(record("k2"))).status is Status.RUNNING
        await table.move("k1", Status.SUCCEEDED, 3)
        again = await table.create(record("k2"))
        assert (again.key, again.status, again.ended_ms) == ("k1", Status.SUCCEEDED, 3)

    async def test_two_principals_may_use_one_run_id_and_one_thread_id(self, table: RunTable) -> None:
        await table.create(record("k1", principal="ann"))
        await table.create(record("k2", principal="bob"))
        found = [await table.find(who, "r") for who in ("ann", "bob")]
        assert [run and run.key for run in found] == ["k1", "k2"]

    @pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING])
    async def test_a_thread_has_one_active_run(self, table: RunTable, status: Status) -> None:
        await table.create(record("k1", "r1"))
        if status is Status.RUNNING:
            await table.move("k1", Status.RUNNING, 2)
        with pytest.raises(Conflict, match="'r1'") as raised:
            await table.create(record("k2", "r2"))
        assert (raised.value.code, raised.value.status) == ("thread_busy", 409)
        assert await table.find("ann", "r2") is None
        await table.create(record("k3", "r3", thread_id="other"))

    async def test_of_two_new_runs_on_one_thread_one_starts(self, table: RunTable) -> None:
        async with asyncio.timeout(10):
            made = await asyncio.gather(
                *(table.create(record(f"k{n}", f"r{n}")) for n in range(20)), return_exceptions=True
            )
        assert sum(isinstance(each, RunRecord) for each in made) == 1
        assert sum(isinstance(each, Conflict) for each in made) == 19

    @pytest.mark.parametrize("final", sorted(FINAL - {Status.QUEUED}))
    async def test_a_thread_is_free_once_its_run_is_over(self, table: RunTable, final: Status) -> None:
        await table.create(record("k1", "r1"))
        await table.move("k1", Status.RUNNING, 2)
        assert await table.move("k1", final, 3)
        assert (await table.create(record("k2", "r2"))).key == "k2"

    async def test_moves_follow_the_table_and_the_first_end_wins(self, table: RunTable) -> None:
        await table.create(record("k1"))
        assert not await table.move("k1", Status.SUCCEEDED, 2)
        assert await table.move("k1", Status.RUNNING, 2)
        assert not await table.move("k1", Status.RUNNING, 3)
        async with asyncio.timeout(10):
            won = await asyncio.gather(*(table.move("k1", final, 4) for final in sorted(FINAL)))
        assert sum(won) == 1
        assert not any([await table.move("k1", status, 5) for status in Status])

    async def test_only_an_end_has_a_time(self, table: RunTable) -> None:
        await table.create(record("k1"))
        await table.move("k1", Status.RUNNING, 2)
        running = await table.find("ann", "r")
        await table.move("k1", Status.FAILED, 9)
        failed = await table.find("ann", "r")
        assert running and running.ended_ms is None
        assert failed and failed.ended_ms == 9

    async def test_an_unknown_run_cannot_move(self, table: RunTable) -> None:
        assert not await table.move("nobody", Status.RUNNING, 1)

    async def test_ended_lists_the_runs_that_are_over_in_the_order_they_ended(self, table: RunTable) -> None:
        for n in range(4):
            await table.create(record(f"k{n}", f"r{n}", thread_id=f"t{n}"))
            await table.move(f"k{n}", Status.RUNNING, 10 + n)
        for at, n in enumerate((2, 0, 3)):
            await table.move(f"k{n}", Status.SUCCEEDED, 100 + at)
        assert [run.key for run in await table.ended()] == ["k2", "k0", "k3"]

    async def test_a_deleted_run_is_unknown_and_its_id_and_thread_are_free(self, table: RunTable) -> None:
        await table.create(record("k1"))
        await table.delete("k1")
        await table.delete("k1")
        assert await table.find("ann", "r") is None
        assert (await table.create(record("k2"))).key == "k2"
        assert await table.ended() == []

    async def test_deleting_an_old_run_frees_nothing_of_a_newer_one(self, table: RunTable) -> None:
        await table.create(record("k1", "r1"))
        await table.move("k1", Status.CANCELLED, 2)
        await table.create(record("k2", "r2"))
        await table.delete("k1")
        with pytest.raises(Conflict):
            await table.create(record("k3", "r3"))
