"""Waiting for the run that answers a question: somebody has to start it, and nobody need."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ..errors import AnabranchError, NotFound, ServerStopping
from ._base import RunRecord, RunTable
from .threads import Turn

_Word = asyncio.Future[RunRecord | AnabranchError]


def next_run(turns: Sequence[Turn], record: RunRecord) -> RunRecord | None:
    """The run that came after ``record`` among the ``turns`` of its thread; None when it is the newest.

    Only the newest can be answered, so this is the run that continues it, or nothing will. Raises ``NotFound`` when
    the thread is gone.
    """
    keys = [turn.record.key for turn in turns]
    if record.key not in keys:
        raise NotFound(f"there is no run {record.run_id!r}")
    after = turns[keys.index(record.key) + 1 :]
    return after[0].record if after else None


class Continuations:
    """Who waits for which thread to go on, in this process, which is the one that starts its runs."""

    def __init__(self, table: RunTable) -> None:
        self._table = table
        self._waiting: dict[tuple[str, str], set[_Word]] = {}
        self._stopped = False

    async def after(self, record: RunRecord) -> RunRecord | None:
        """The run that continues ``record``, once there is one; None once its thread has gone another way.

        Raises ``NotFound`` once the thread is gone, ``ServerStopping`` during a stop.
        """
        thread = record.principal, record.thread_id
        word: _Word = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(thread, set())
        waiting.add(word)
        try:
            found: RunRecord | AnabranchError | None = next_run(await self._table.turns(*thread), record)
            if found is None:
                found = _stopping() if self._stopped else await word
        finally:
            waiting.discard(word)
            if not waiting and self._waiting.get(thread) is waiting:
                del self._waiting[thread]
        if isinstance(found, AnabranchError):
            raise found
        return found if found.continues == record.run_id else None

    def begun(self, run: RunRecord) -> None:
        """``run`` exists now."""
        for word in self._told(run.principal, run.thread_id):
            word.set_result(run)

    def gone(self, thread: Iterable[RunRecord]) -> None:
        """A thread is gone: the runs it had."""
        for run in thread:
            for word in self._told(run.principal, run.thread_id):
                word.set_result(NotFound("this run is no longer kept"))

    def stop(self) -> None:
        """Nobody waits any longer."""
        self._stopped = True
        for thread in list(self._waiting):
            for word in self._told(*thread):
                word.set_result(_stopping())

    def _told(self, principal: str, thread_id: str) -> list[_Word]:
        """Those who have waited for this thread."""
        return [word for word in self._waiting.pop((principal, thread_id), ()) if not word.done()]


def _stopping() -> ServerStopping:
    return ServerStopping("The server is stopping; ask again.")
