"""The table of runs in this process's memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from ..log._base import Entry, RunLog
from ..request import Message
from ..transcript import Outcome
from ._base import Kept, RunRecord, Tasks
from ._refusals import refuse_if_busy, refuse_if_fenced
from .machine import FINAL, Status, can_move, failure_of
from .threads import Turn


class MemoryTable:
    """``RunTable`` in memory, beside a ``log`` that never waits: so each call is atomic on its loop."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._turns: dict[str, Turn] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._threads: dict[tuple[str, str], list[str]] = {}
        self._tasks: dict[tuple[str, str], list[str]] = {}
        self._ended: dict[str, None] = {}

    async def create(
        self, record: RunRecord, given: tuple[Message, ...] = (), before: str | None = None
    ) -> RunRecord | None:
        """Add ``record`` or return the existing one; see the contract."""
        if (key := self._keys.get((record.principal, record.run_id))) is not None:
            return self._turns[key].record
        thread = self._threads.get((record.principal, record.thread_id), [])
        refuse_if_busy(record.thread_id, (self._turns[key].record for key in thread))
        if before != (thread[-1] if thread else None):
            return None
        self._turns[record.key] = Turn(record=record, given=given)
        self._keys[record.principal, record.run_id] = record.key
        self._threads.setdefault((record.principal, record.thread_id), []).append(record.key)
        self._tasks.setdefault((record.principal, record.task_id), []).append(record.key)
        return record

    async def find(self, principal: str, run_id: str) -> RunRecord | None:
        """The caller's run of that id."""
        key = self._keys.get((principal, run_id))
        return self._turns[key].record if key is not None else None

    async def move(self, key: str, to: Status, at_ms: int) -> bool:
        """Change the status if it may be changed."""
        if not self._may_become(key, to):
            return False
        if to in FINAL:
            self._end(key, status=to, ended_ms=at_ms)
        else:
            self._change(key, status=to)
        return True

    async def finish(
        self, key: str, entries: Sequence[Entry], to: Status, at_ms: int, outcome: Outcome, size: int
    ) -> bool:
        """Append the last entries and end the run."""
        if not self._may_become(key, to):
            return False
        refuse_if_fenced(entries, self._turns[key].record.epoch)
        await self._log.append(key, entries)
        self._turns[key] = replace(self._turns[key], outcome=outcome)
        self._end(key, status=to, ended_ms=at_ms, size=size, **failure_of(entries[-1].event))
        return True

    async def take(self, key: str) -> RunRecord | None:
        """Own a run that is not over."""
        turn = self._turns.get(key)
        if turn is None or turn.record.status in FINAL:
            return None
        return self._change(key, epoch=turn.record.epoch + 1)

    async def active(self) -> Sequence[RunRecord]:
        """Runs that are not over, oldest first."""
        return [turn.record for turn in self._turns.values() if turn.record.status not in FINAL]

    async def turns(self, principal: str, thread_id: str) -> Sequence[Turn]:
        """The runs of a thread with their messages."""
        return [self._turns[key] for key in self._threads.get((principal, thread_id), ())]

    async def turn(self, key: str) -> Turn | None:
        """One run with its messages."""
        return self._turns.get(key)

    async def list(
        self, principal: str, *, thread_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """The caller's runs, newest first."""
        own = [turn.record for turn in self._turns.values() if turn.record.principal == principal]
        if before is not None:
            at = next((n for n, record in enumerate(own) if record.run_id == before), 0)
            own = own[:at]
        shown = [r for r in reversed(own) if not r.forgotten and thread_id in (None, r.thread_id)]
        return shown[:limit]

    async def task(self, principal: str, task_id: str) -> Sequence[RunRecord]:
        """The runs of a task."""
        runs = [self._turns[key].record for key in self._tasks.get((principal, task_id), ())]
        return [record for record in runs if not record.forgotten]

    async def tasks(
        self,
        principal: str,
        *,
        agent: str | None = None,
        thread_id: str | None = None,
        statuses: Collection[Status] | None = None,
        since_ms: int = 0,
        before: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> Tasks:
        """The caller's tasks, those that changed last first."""
        newest = [runs[-1] for who, id in self._tasks if who == principal and (runs := await self.task(who, id))]
        found = [
            record
            for record in newest
            if agent in (None, record.agent)
            and thread_id in (None, record.thread_id)
            and (statuses is None or record.status in statuses)
            and record.changed_ms >= since_ms
        ]
        found.sort(key=_changed, reverse=True)
        return Tasks([record for record in found if before is None or _changed(record) < before][:limit], len(found))

    async def ended(self, limit: int = 100) -> Sequence[RunRecord]:
        """Finished runs that are not forgotten, in the order they ended."""
        return [self._turns[key].record for key in islice(self._ended, limit)]

    async def kept(self) -> Kept:
        """What those come to."""
        return Kept(len(self._ended), sum(self._turns[key].record.size for key in self._ended))

    async def forget(self, key: str) -> Sequence[RunRecord]:
        """Mark a finished run as forgotten."""
        if key not in self._ended:
            return []
        del self._ended[key]
        record = self._change(key, forgotten=True)
        thread = self._threads[record.principal, record.thread_id]
        is_over = all(self._turns[key].record.forgotten for key in thread)
        return self._remove(record.principal, record.thread_id) if is_over else []

    async def delete_thread(self, principal: str, thread_id: str) -> Sequence[RunRecord]:
        """Forget a thread wholly."""
        refuse_if_busy(thread_id, (self._turns[key].record for key in self._threads.get((principal, thread_id), ())))
        return self._remove(principal, thread_id)

    def _may_become(self, key: str, to: Status) -> bool:
        turn = self._turns.get(key)
        return turn is not None and can_move(turn.record.status, to)

    def _change(self, key: str, **changes: Any) -> RunRecord:
        record = replace(self._turns[key].record, **changes)
        self._turns[key] = replace(self._turns[key], record=record)
        return record

    def _end(self, key: str, **changes: Any) -> None:
        self._change(key, **changes)
        self._ended[key] = None

    def _remove(self, principal: str, thread_id: str) -> Sequence[RunRecord]:
        records = [self._turns.pop(key).record for key in self._threads.pop((principal, thread_id), ())]
        for record in records:
            self._keys.pop((principal, record.run_id))
            self._tasks.pop((principal, record.task_id), None)  # no task is in two threads
            self._ended.pop(record.key, None)
        return records


def _changed(record: RunRecord) -> tuple[int, str]:
    return record.changed_ms, record.task_id
