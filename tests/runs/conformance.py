"""What every driver of the table of runs must do, beside the log whose runs it has.

A driver's test module has a subclass whose name starts with ``Test`` and whose ``driver`` opens an empty storage.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from anabranch.errors import Conflict, Fenced
from anabranch.events import Event, Part, RunFailed, RunFinished, RunStarted, TextDelta
from anabranch.log._base import Bounds, Entry, RunLog
from anabranch.request import Message, ToolCall
from anabranch.runs._base import Kept, RunRecord, RunTable, Tasks
from anabranch.runs.machine import FINAL, Status
from anabranch.runs.threads import Turn
from anabranch.storage import Storage
from anabranch.transcript import Asked, Outcome

WAIT_S = 10
ENDED = sorted(FINAL)
GIVEN = (
    Message(id="m1", role="user", content='hello \0 "wörld" \U0001f30a'),
    Message(id="m2", role="user", parts=(Part(kind="json", data={"a": [1, None]}), Part(kind="file", url="u:v"))),
)
OUTCOME = Outcome(
    messages=(
        Message(id="r:1", role="assistant", tool_calls=(ToolCall(id="r:2", name="f", arguments="{}", origin_id="c"),)),
        Message(id="r:3", role="tool", content="done", tool_call_id="r:2", error="no"),
    ),
    void=("r:0",),
    asked=(Asked(interrupt_id="r:4", origin_id="i", agent="lane"),),
)


def record(key: str, run_id: str = "r", principal: str = "ann", thread_id: str = "t", **more: Any) -> RunRecord:
    """A run that was created just now."""
    fields: dict[str, Any] = {
        "task_id": f"task of {key}",
        "agent": "a",
        "status": Status.QUEUED,
        "digest": "d",
        "created_ms": 1,
    }
    return RunRecord(key=key, run_id=run_id, principal=principal, thread_id=thread_id, **fields | more)


def entries(first: int, *events: Event, epoch: int = 1) -> list[Entry]:
    """``events`` in their places."""
    return [Entry(seq, epoch, 1000 + seq, event) for seq, event in enumerate(events, first)]


START, TEXT, END = RunStarted(run_id="r", thread_id="t"), TextDelta(message_id="m", delta="x"), RunFinished()


async def running(table: RunTable, key: str, run_id: str = "", thread_id: str = "t", **more: Any) -> RunRecord:
    """A run that is live, the thread's next one."""
    turns = await table.turns(more.get("principal", "ann"), thread_id)
    before = turns[-1].record.key if turns else None
    made = await table.create(record(key, run_id or f"run {key}", thread_id=thread_id, **more), before=before)
    assert made and made.key == key
    assert await table.move(key, Status.RUNNING, 2)
    return made


async def over(table: RunTable, key: str, thread_id: str = "t", *, at_ms: int = 9, size: int = 10, **more: Any) -> None:
    """A run that is over."""
    await running(table, key, thread_id=thread_id, **more)
    assert await table.finish(key, entries(1, START, END), Status.SUCCEEDED, at_ms, Outcome(), size)


def keys(runs: Sequence[RunRecord]) -> list[str]:
    """The keys of ``runs``, in their order."""
    return [run.key for run in runs]


class TableConformance:
    def driver(self) -> AbstractAsyncContextManager[Storage]:
        """An empty storage."""
        raise NotImplementedError

    @pytest.fixture
    async def storage(self) -> AsyncIterator[Storage]:
        async with self.driver() as storage:
            yield storage

    @pytest.fixture
    def table(self, storage: Storage) -> RunTable:
        return storage.table

    @pytest.fixture
    def log(self, storage: Storage) -> RunLog:
        return storage.log

    # --- create and find ---------------------------------------------------------------------------------------

    async def test_a_created_run_is_found_by_its_owner_only(self, table: RunTable) -> None:
        made = await table.create(record("k1"))
        assert made == record("k1")
        assert await table.find("ann", "r") == made
        assert await table.find("bob", "r") is None
        assert await table.find("ann", "other") is None

    @pytest.mark.parametrize("policy", ["continue", "cancel", 30.0, 0.5])
    async def test_a_record_is_kept_as_it_is(self, table: RunTable, policy: Any) -> None:
        made = record(
            "k1",
            "r\0 '\"; 1",
            "ann \U0001f30a",
            "t\n",
            epoch=7,
            continues="k0",
            on_disconnect=policy,
            parent="k0",
            upto="m9",
            branch="k0",
            parent_run_id="r0",
            size=123,
        )
        assert await table.create(made) == made
        assert await table.find(made.principal, made.run_id) == made
        assert await table.active() == [made]

    async def test_of_two_creators_one_creates_and_the_other_gets_the_same_run(self, table: RunTable) -> None:
        async with asyncio.timeout(WAIT_S):
            made = await asyncio.gather(*(table.create(record(f"k{n}", digest=str(n))) for n in range(20)))
        assert len({run.key for run in made if run}) == 1
        assert None not in made
        assert await table.find("ann", "r") == made[0]

    async def test_an_existing_run_is_returned_whatever_its_state(self, table: RunTable) -> None:
        await running(table, "k1", "r")
        again = await table.create(record("k2"))
        assert again and (again.key, again.status) == ("k1", Status.RUNNING)
        await table.move("k1", Status.SUCCEEDED, 3)
        await running(table, "k3")
        again = await table.create(record("k2"), before="k3")
        assert again and (again.key, again.status, again.ended_ms) == ("k1", Status.SUCCEEDED, 3)
        await table.forget("k1")
        again = await table.create(record("k2"))
        assert again and (again.key, again.forgotten) == ("k1", True)

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
        for before in ("k1", None, "k9"):
            with pytest.raises(Conflict, match="'r1'") as raised:
                await table.create(record("k2", "r2"), before=before)
            assert (raised.value.code, raised.value.status) == ("thread_busy", 409)
        assert await table.find("ann", "r2") is None
        assert await table.create(record("k3", "r3", thread_id="other"))

    async def test_of_two_new_runs_on_one_thread_one_starts(self, table: RunTable) -> None:
        async with asyncio.timeout(WAIT_S):
            made = await asyncio.gather(
                *(table.create(record(f"k{n}", f"r{n}")) for n in range(20)), return_exceptions=True
            )
        assert sum(isinstance(each, RunRecord) for each in made) == 1
        assert sum(isinstance(each, Conflict) for each in made) == 19

    async def test_nothing_is_added_to_a_thread_that_has_moved_on(self, table: RunTable) -> None:
        assert await table.create(record("k1", "r1"), before="k0") is None
        assert await table.turns("ann", "t") == []
        await over(table, "k1")
        await over(table, "k2")
        for stale in (None, "k1", "k9"):
            assert await table.create(record("k3", "r3"), GIVEN, before=stale) is None
        assert await table.find("ann", "r3") is None
        made = await table.create(record("k3", "r3"), GIVEN, before="k2")
        assert made == record("k3", "r3")

    async def test_a_forgotten_run_is_still_the_newest_of_its_thread(self, table: RunTable) -> None:
        await over(table, "k1")
        await over(table, "k2")
        await table.forget("k2")
        assert await table.create(record("k3", "r3"), before="k1") is None
        assert await table.create(record("k3", "r3"), before="k2")

    # --- move --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("final", ENDED)
    async def test_a_thread_is_free_once_its_run_is_over(self, table: RunTable, final: Status) -> None:
        await running(table, "k1")
        assert await table.move("k1", final, 3)
        made = await table.create(record("k2", "r2"), before="k1")
        assert made and made.key == "k2"

    async def test_moves_follow_the_table_and_the_first_end_wins(self, table: RunTable) -> None:
        await table.create(record("k1"))
        assert not await table.move("k1", Status.SUCCEEDED, 2)
        assert await table.move("k1", Status.RUNNING, 2)
        assert not await table.move("k1", Status.RUNNING, 3)
        async with asyncio.timeout(WAIT_S):
            won = await asyncio.gather(*(table.move("k1", final, 4) for final in ENDED))
        assert sum(won) == 1
        assert not any([await table.move("k1", status, 5) for status in Status])

    async def test_only_an_end_has_a_time(self, table: RunTable) -> None:
        await running(table, "k1", "r")
        live = await table.find("ann", "r")
        await table.move("k1", Status.FAILED, 9)
        failed = await table.find("ann", "r")
        assert live and live.ended_ms is None
        assert failed and failed.ended_ms == 9

    async def test_an_unknown_run_cannot_move(self, table: RunTable) -> None:
        assert not await table.move("nobody", Status.RUNNING, 1)

    # --- finish ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("final", ENDED)
    async def test_finish_ends_the_run_in_the_table_and_in_the_log(
        self, table: RunTable, log: RunLog, final: Status
    ) -> None:
        made = await running(table, "k1", "r")
        await log.append("k1", entries(1, START, TEXT))
        assert await table.finish("k1", entries(3, TEXT, END), final, 9, OUTCOME, 77)
        assert await table.find("ann", "r") == replace(made, status=final, ended_ms=9, size=77)
        assert await log.read("k1") == entries(1, START, TEXT, TEXT, END)
        assert await log.bounds("k1") == Bounds(1, 4, True)
        assert [turn.outcome for turn in await table.turns("ann", "t")] == [OUTCOME]
        assert await table.active() == []
        assert await table.create(record("k2", "r2"), before="k1")

    async def test_whoever_has_read_the_end_may_start_the_next_run(self, table: RunTable, log: RunLog) -> None:
        async def follow(key: str) -> RunRecord | None:
            async with aclosing(log.tail(key)) as tail:
                async for batch in tail:
                    if isinstance(batch[-1].event, RunFinished):
                        break
            return await table.create(record(f"{key}+", f"next {key}", thread_id=key), before=key)

        async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
            for n in range(20):
                await running(table, f"k{n}", thread_id=f"k{n}")
            following = [group.create_task(follow(f"k{n}")) for n in range(20)]
            for n in range(20):
                await log.append(f"k{n}", entries(1, START))
                await table.finish(f"k{n}", entries(2, END), Status.SUCCEEDED, 9, OUTCOME, 1)
        assert all(task.result() for task in following)

    @pytest.mark.parametrize("first", [1, 4])
    async def test_a_fenced_finish_leaves_no_trace(self, table: RunTable, log: RunLog, first: int) -> None:
        made = await running(table, "k1", "r")
        await log.append("k1", [*entries(1, START), *entries(2, TEXT, epoch=3)])
        with pytest.raises(Fenced):
            await table.finish("k1", entries(first, END, epoch=2), Status.SUCCEEDED, 9, OUTCOME, 77)
        assert await table.find("ann", "r") == replace(made, status=Status.RUNNING)
        assert [turn.outcome for turn in await table.turns("ann", "t")] == [None]
        assert await table.kept() == Kept(0, 0)
        assert await log.bounds("k1") == Bounds(1, 2, False)
        assert await table.finish("k1", entries(3, END, epoch=3), Status.SUCCEEDED, 9, OUTCOME, 77)

    async def test_who_lost_the_run_cannot_finish_it(self, table: RunTable, log: RunLog) -> None:
        await running(table, "k1", "r")
        await log.append("k1", entries(1, START))
        taken = await table.take("k1")
        assert taken and taken.epoch == 2
        with pytest.raises(Fenced):
            await table.finish("k1", entries(2, END), Status.SUCCEEDED, 9, OUTCOME, 77)
        assert await log.bounds("k1") == Bounds(1, 1, False)
        assert await table.finish("k1", entries(2, END, epoch=2), Status.FAILED, 9, OUTCOME, 77)

    async def test_a_run_that_is_over_or_unknown_is_not_finished(self, table: RunTable, log: RunLog) -> None:
        await over(table, "k1", size=5)
        for key in ("k1", "k9"):
            assert not await table.finish(key, entries(3, TEXT, END), Status.FAILED, 10, OUTCOME, 77)
            assert not await table.finish(key, entries(1, START, END), Status.SUCCEEDED, 10, OUTCOME, 77)
        assert await log.read("k1") == entries(1, START, END)
        assert await log.read("k9") == []
        assert await table.kept() == Kept(1, 5)

    async def test_of_racing_ends_one_wins_and_the_log_has_that_one(self, table: RunTable, log: RunLog) -> None:
        ends = {Status.FAILED: RunFailed(code="c", message="m"), Status.CANCELLED: RunFinished(outcome="cancelled")}
        async with asyncio.timeout(WAIT_S):
            for n in range(10):
                await running(table, f"k{n}", "r", thread_id=f"t{n}", principal=f"p{n}")
                won = await asyncio.gather(
                    *(table.finish(f"k{n}", entries(1, end), to, 9, OUTCOME, 1) for to, end in ends.items()),
                    *(table.move(f"k{n}", to, 9) for to in ends if n % 2),
                )
                assert sum(won) == 1
                run = await table.find(f"p{n}", "r")
                there = [entry.event for entry in await log.read(f"k{n}")]
                assert run and there == ([ends[run.status]] if True in won[:2] else [])

    # --- take and active ---------------------------------------------------------------------------------------

    async def test_to_take_a_run_is_a_new_epoch(self, table: RunTable) -> None:
        await table.create(record("k1"))
        for epoch, status in ((2, Status.QUEUED), (3, Status.RUNNING)):
            if status is Status.RUNNING:
                await table.move("k1", Status.RUNNING, 2)
            taken = await table.take("k1")
            assert taken == record("k1", epoch=epoch, status=status)
            assert await table.find("ann", "r") == taken

    async def test_a_run_that_is_over_or_unknown_is_not_taken(self, table: RunTable) -> None:
        await over(table, "k1")
        before = await table.find("ann", "run k1")
        assert await table.take("k1") is None
        assert await table.take("k9") is None
        assert await table.find("ann", "run k1") == before

    async def test_active_runs_come_oldest_first(self, table: RunTable) -> None:
        for key in ("b", "c", "a", "d"):
            await running(table, key, thread_id=f"thread of {key}", principal=f"owner of {key}")
        await table.move("c", Status.FAILED, 3)
        await table.create(record("e", thread_id="thread of e"))
        assert keys(await table.active()) == ["b", "a", "d", "e"]

    # --- threads -----------------------------------------------------------------------------------------------

    async def test_a_threads_turns_come_in_the_order_they_were_created(self, table: RunTable) -> None:
        assert await table.turns("ann", "t") == []
        first = await table.create(record("z", "r1", created_ms=5), GIVEN)
        await over(table, "other", "other thread")
        await over(table, "bob's", principal="bob")
        assert await table.turns("ann", "t") == [Turn(record=record("z", "r1", created_ms=5), given=GIVEN)]
        await table.move("z", Status.RUNNING, 6)
        await table.finish("z", entries(1, START, END), Status.INTERRUPTED, 9, OUTCOME, 1)
        await table.create(record("a", "r2", created_ms=4, parent="z"), GIVEN[:1], before="z")
        assert first
        ended = replace(first, status=Status.INTERRUPTED, ended_ms=9, size=1)
        assert await table.turns("ann", "t") == [
            Turn(record=ended, given=GIVEN, outcome=OUTCOME),
            Turn(record=record("a", "r2", created_ms=4, parent="z"), given=GIVEN[:1]),
        ]
        assert [await table.turn(key) for key in ("z", "a")] == await table.turns("ann", "t")
        assert await table.turn("nobody's") is None

    async def test_a_deleted_thread_is_unknown_and_its_ids_are_free(self, table: RunTable) -> None:
        for key in ("k1", "k2", "k3"):
            await over(table, key)
        await table.forget("k2")
        await over(table, "other", "other thread")
        await over(table, "bob's", principal="bob")
        gone = await table.delete_thread("ann", "t")
        assert [(each.key, each.forgotten) for each in gone] == [("k1", False), ("k2", True), ("k3", False)]
        assert await table.delete_thread("ann", "t") == []
        assert await table.turns("ann", "t") == []
        assert await table.find("ann", "run k1") is None
        assert keys(await table.ended()) == ["other", "bob's"]
        assert await table.kept() == Kept(2, 20)
        assert keys(await table.list("ann")) == ["other"]
        await running(table, "k1")

    async def test_a_busy_thread_is_not_deleted(self, table: RunTable) -> None:
        await over(table, "k1")
        await running(table, "k2")
        with pytest.raises(Conflict, match="'run k2'") as raised:
            await table.delete_thread("ann", "t")
        assert raised.value.code == "thread_busy"
        assert [turn.record.key for turn in await table.turns("ann", "t")] == ["k1", "k2"]

    # --- lists -------------------------------------------------------------------------------------------------

    async def test_runs_are_listed_newest_first_page_by_page(self, table: RunTable) -> None:
        for n in range(7):
            await over(table, f"k{n}", f"t{n % 2}")
        await over(table, "bob's", "t0", principal="bob")
        assert keys(await table.list("ann")) == ["k6", "k5", "k4", "k3", "k2", "k1", "k0"]
        assert keys(await table.list("ann", limit=3)) == ["k6", "k5", "k4"]
        assert keys(await table.list("ann", before="run k4", limit=3)) == ["k3", "k2", "k1"]
        assert keys(await table.list("ann", thread_id="t0")) == ["k6", "k4", "k2", "k0"]
        assert keys(await table.list("ann", thread_id="t0", before="run k5", limit=2)) == ["k4", "k2"]
        assert keys(await table.list("ann", before="run k0")) == []
        assert keys(await table.list("ann", before="run bob's")) == []
        assert keys(await table.list("ann", before="unknown")) == []
        assert keys(await table.list("ann", thread_id="unknown")) == []
        assert keys(await table.list("eve")) == []

    async def test_a_forgotten_run_is_not_listed_but_may_be_where_a_page_begins(self, table: RunTable) -> None:
        for n in range(4):
            await over(table, f"k{n}")
        await table.forget("k1")
        await table.forget("k2")
        assert keys(await table.list("ann")) == ["k3", "k0"]
        assert keys(await table.list("ann", before="run k2")) == ["k0"]

    async def test_ended_lists_the_runs_that_are_over_in_the_order_they_ended(self, table: RunTable) -> None:
        for n in range(5):
            await running(table, f"k{n}", thread_id=f"t{n}")
        for n in (2, 0, 3):
            await table.finish(f"k{n}", entries(1, END), Status.SUCCEEDED, 100 - n, OUTCOME, 1)
        await table.move("k4", Status.FAILED, 50)
        assert keys(await table.ended()) == ["k2", "k0", "k3", "k4"]
        assert keys(await table.ended(2)) == ["k2", "k0"]

    # --- tasks -------------------------------------------------------------------------------------------------

    async def test_the_runs_of_a_task_come_oldest_first_to_their_owner_only(self, table: RunTable) -> None:
        for n in (2, 1, 3):
            await over(table, f"k{n}", task_id="x")
        await running(table, "k4", task_id="x")
        await over(table, "bob's", principal="bob", task_id="x")
        await over(table, "other", "other thread", task_id="y")
        assert keys(await table.task("ann", "x")) == ["k2", "k1", "k3", "k4"]
        assert [run.status for run in await table.task("ann", "x")][-1] is Status.RUNNING
        assert keys(await table.task("bob", "x")) == ["bob's"]
        assert await table.task("ann", "unknown") == await table.task("eve", "x") == []
        await table.forget("k1")
        assert keys(await table.task("ann", "x")) == ["k2", "k3", "k4"]
        await table.delete_thread("ann", "other thread")
        assert await table.task("ann", "y") == []

    async def test_tasks_come_with_their_newest_run_the_one_that_changed_last_first(self, table: RunTable) -> None:
        await over(table, "k1", "t1", task_id="a", at_ms=50)
        await over(table, "k2", "t2", task_id="b", at_ms=40)
        await over(table, "k3", "t1", task_id="a", at_ms=60)
        await running(table, "k4", thread_id="t3", task_id="c", created_ms=45)
        await over(table, "k5", "t4", task_id="d", at_ms=40)
        await over(table, "bob's", principal="bob", at_ms=70)
        found = await table.tasks("ann")
        assert (keys(found.runs), found.total) == (["k3", "k4", "k5", "k2"], 4)
        assert [run.changed_ms for run in found.runs] == [60, 45, 40, 40]
        await table.forget("k3")
        assert keys((await table.tasks("ann")).runs) == ["k1", "k4", "k5", "k2"]
        assert await table.tasks("eve") == Tasks([], 0)

    async def test_tasks_are_paged_and_counted_on_all_pages(self, table: RunTable) -> None:
        for n in range(7):
            await over(table, f"k{n}", f"t{n}", task_id=f"x{n}", at_ms=10 + n // 2)
        seen, before = [], None
        while True:
            page = await table.tasks("ann", before=before, limit=3)
            assert page.total == 7
            seen += keys(page.runs)
            if len(page.runs) < 3:
                break
            before = page.runs[-1].changed_ms, page.runs[-1].task_id
        assert seen == ["k6", "k5", "k4", "k3", "k2", "k1", "k0"]

    async def test_tasks_may_be_of_one_agent_thread_status_and_time(self, table: RunTable) -> None:
        await over(table, "k1", "t1", task_id="a", at_ms=10)
        await over(table, "k2", "t2", task_id="b", at_ms=20, agent="other \"'; agent")
        await running(table, "k3", thread_id="t1", task_id="c", created_ms=30)
        for asked, expected in (
            ({"agent": "a"}, ["k3", "k1"]),
            ({"agent": "other \"'; agent"}, ["k2"]),
            ({"thread_id": "t1"}, ["k3", "k1"]),
            ({"statuses": [Status.SUCCEEDED]}, ["k2", "k1"]),
            ({"statuses": [Status.SUCCEEDED, Status.RUNNING]}, ["k3", "k2", "k1"]),
            ({"statuses": []}, []),
            ({"since_ms": 20}, ["k3", "k2"]),
            ({"since_ms": 31}, []),
            ({"agent": "a", "thread_id": "t1", "statuses": [Status.RUNNING], "since_ms": 30}, ["k3"]),
        ):
            found = await table.tasks("ann", **asked)
            assert (keys(found.runs), found.total) == (expected, len(expected)), asked
            assert (await table.tasks("ann", limit=0, **asked)).total == len(expected)

    # --- what is kept ------------------------------------------------------------------------------------------

    async def test_kept_is_what_the_finished_runs_come_to(self, table: RunTable) -> None:
        assert await table.kept() == Kept(0, 0)
        await over(table, "k1", size=100)
        await over(table, "k2", size=20)
        await running(table, "k3", size=7)
        assert await table.kept() == Kept(2, 120)
        await table.move("k3", Status.FAILED, 9)
        assert await table.kept() == Kept(3, 127)
        await table.forget("k1")
        assert await table.kept() == Kept(2, 27)

    async def test_a_forgotten_run_leaves_its_messages_until_its_thread_is_gone(self, table: RunTable) -> None:
        await table.create(record("k1", "r1"), GIVEN)
        await table.move("k1", Status.RUNNING, 2)
        await table.finish("k1", entries(1, START, END), Status.SUCCEEDED, 9, OUTCOME, 1)
        await over(table, "k2")
        await over(table, "other", "other thread")
        for _ in range(2):
            assert await table.forget("k1") == []
            found = await table.find("ann", "r1")
            assert found and found.forgotten
            assert keys(await table.ended()) == ["k2", "other"]
        first, second = await table.turns("ann", "t")
        assert (first.given, first.outcome) == (GIVEN, OUTCOME)
        assert not second.record.forgotten
        assert keys(await table.forget("k2")) == ["k1", "k2"]
        assert await table.turns("ann", "t") == []
        assert await table.find("ann", "r1") is None
        assert keys(await table.ended()) == ["other"]
        assert await table.create(record("k1", "r1"))

    async def test_a_thread_with_a_live_run_is_kept_however_much_of_it_is_forgotten(self, table: RunTable) -> None:
        await over(table, "k1")
        await running(table, "k2")
        await table.forget("k1")
        assert [turn.record.forgotten for turn in await table.turns("ann", "t")] == [True, False]

    async def test_only_a_finished_run_is_forgotten(self, table: RunTable) -> None:
        await running(table, "k1", "r")
        await table.forget("k1")
        await table.forget("k9")
        live = await table.find("ann", "r")
        assert live and not live.forgotten
        assert await table.move("k1", Status.FAILED, 3)
        assert keys(await table.ended()) == ["k1"]
