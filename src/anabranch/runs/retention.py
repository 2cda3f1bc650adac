"""How much of what is over is kept: the newest finished runs, and no more than there is room for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from ._base import Kept, RunRecord, RunTable

logger = logging.getLogger("anabranch")

_AT_ONCE = 16
_PATIENCE_S = 1.0  # at a stop; the next process forgets the rest

Delete = Callable[[str], Awaitable[object]]
"""Removes the log of the run with this key."""
Farewell = Callable[[Sequence[RunRecord]], Awaitable[object]]
"""Is told of a thread that is gone: the runs it had."""


class Retention:
    """Forgets runs: the oldest ones that nobody watches, when there are more than ``most``, and threads, when asked to.

    The first happens beside the runs, in one task however many of them end. ``watched`` has the keys of those that are
    being read.
    """

    def __init__(
        self, table: RunTable, most: Kept, watched: Collection[str], delete: Delete, farewell: Farewell
    ) -> None:
        self._table, self._most, self._watched = table, most, watched
        self._delete, self._farewell = delete, farewell
        self._kept: Kept | None = None
        self._alone = asyncio.Lock()
        self._sweep: asyncio.Task[None] | None = None

    def add(self, size: int) -> None:
        """A run of ``size`` bytes is over."""
        if self._kept is not None:
            self._kept = Kept(self._kept.runs + 1, self._kept.size + size)

    def recount(self) -> None:
        """Something has changed that ``add`` was not told."""
        self._kept = None

    def start(self) -> None:
        """Forget what is too much, soon."""
        if self._sweep is None or self._sweep.done():
            self._sweep = asyncio.create_task(self._forget_old(), name="forget")

    async def stop(self) -> None:
        """Come to an end, soon."""
        if self._sweep is not None:
            await asyncio.wait((self._sweep,), timeout=_PATIENCE_S)
            self._sweep.cancel()

    async def delete_thread(self, principal: str, thread_id: str) -> None:
        """Forget a thread. Raises ``Conflict`` while a run of it is live."""
        async with self._alone:
            records = await self._table.delete_thread(principal, thread_id)
            self.recount()
            for record in records:
                await self._delete(record.key)
        await self._farewell(records)

    async def _forget_old(self) -> None:
        try:
            async with self._alone:
                while old := await self._surplus():
                    await asyncio.gather(*map(self._forget, old))
        except Exception as error:
            self.recount()
            logger.error("runs that are more than is kept cannot be forgotten: %r", error)

    async def _forget(self, record: RunRecord) -> None:
        thread = await self._table.forget(record.key)
        await self._delete(record.key)
        if self._kept is not None:
            self._kept = Kept(self._kept.runs - 1, self._kept.size - record.size)
        if thread:
            await self._farewell(thread)

    async def _surplus(self) -> Sequence[RunRecord]:
        """Some of the runs that are to be forgotten now."""
        kept = self._kept = self._kept or await self._table.kept()
        found: list[RunRecord] = []
        if not self._is_too_much(kept):
            return found
        for record in await self._table.ended(_AT_ONCE + len(self._watched)):
            if len(found) == _AT_ONCE or not self._is_too_much(kept):
                break
            if record.key not in self._watched:
                found.append(record)
                kept = Kept(kept.runs - 1, kept.size - record.size)
        return found

    def _is_too_much(self, kept: Kept) -> bool:
        return kept.runs > self._most.runs or kept.size > self._most.size
