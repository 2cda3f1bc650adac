"""The table of runs in this process's memory."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..errors import Conflict
from ._base import RunRecord
from .machine import FINAL, Status, can_move


class MemoryTable:
    """``RunTable`` in memory. No call waits, so each is atomic on its loop."""

    def __init__(self) -> None:
        self._by_key: dict[str, RunRecord] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._active: dict[tuple[str, str], str] = {}
        self._ended: dict[str, None] = {}

    async def create(self, record: RunRecord) -> RunRecord:
        """Add ``record`` or return the existing one; see the contract."""
        key = self._keys.get((record.principal, record.run_id))
        if key is not None:
            return self._by_key[key]
        thread = (record.principal, record.thread_id)
        if thread in self._active:
            busy = self._by_key[self._active[thread]].run_id
            raise Conflict(
                f"thread {record.thread_id!r} has an active run, {busy!r}: wait for its end or use another thread",
                code="thread_busy",
            )
        self._by_key[record.key] = record
        self._keys[record.principal, record.run_id] = record.key
        self._active[thread] = record.key
        return record

    async def find(self, principal: str, run_id: str) -> RunRecord | None:
        """The caller's run of that id."""
        key = self._keys.get((principal, run_id))
        return self._by_key[key] if key is not None else None

    async def move(self, key: str, to: Status, at_ms: int) -> bool:
        """Change the status if it may be changed."""
        record = self._by_key.get(key)
        if record is None or not can_move(record.status, to):
            return False
        ended = at_ms if to in FINAL else None
        self._by_key[key] = replace(record, status=to, ended_ms=ended)
        if to in FINAL:
            self._active.pop((record.principal, record.thread_id), None)
            self._ended[key] = None
        return True

    async def ended(self) -> Sequence[RunRecord]:
        """Runs in a final state, oldest first."""
        return [self._by_key[key] for key in self._ended]

    async def delete(self, key: str) -> None:
        """Forget a run."""
        record = self._by_key.pop(key, None)
        if record is not None:
            self._keys.pop((record.principal, record.run_id), None)
            self._ended.pop(key, None)
            if self._active.get((record.principal, record.thread_id)) == key:
                del self._active[record.principal, record.thread_id]
