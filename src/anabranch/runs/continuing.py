"""Waiting for the run that continues another one: somebody has to answer what that has asked."""

from __future__ import annotations

import asyncio

from ..errors import ServerStopping
from ._base import RunRecord, RunTable

_Begun = asyncio.Future[RunRecord | None]


class Continuations:
    """Who waits for which task to go on, in this process, which is the one that starts its runs."""

    def __init__(self, table: RunTable) -> None:
        self._table = table
        self._waiting: dict[tuple[str, str], set[_Begun]] = {}
        self._stopped = False

    async def after(self, record: RunRecord) -> RunRecord:
        """The run that continues ``record``, once there is one. Raises ``ServerStopping`` during a stop."""
        task = record.principal, record.task_id
        begun: _Begun = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(task, set())
        waiting.add(begun)
        try:
            runs = await self._table.task(*task)
            found = next((run for run in runs if run.continues == record.run_id), None)
            if found is None and not self._stopped:
                found = await begun
        finally:
            waiting.discard(begun)
            if not waiting and self._waiting.get(task) is waiting:
                del self._waiting[task]
        if found is None:
            raise ServerStopping("The server is stopping; ask again.")
        return found

    def begun(self, run: RunRecord) -> None:
        """``run`` exists now."""
        self._tell((run.principal, run.task_id), run)

    def stop(self) -> None:
        """Nobody waits any longer."""
        self._stopped = True
        for task in list(self._waiting):
            self._tell(task, None)

    def _tell(self, task: tuple[str, str], run: RunRecord | None) -> None:
        for begun in self._waiting.pop(task, ()):
            if not begun.done():
                begun.set_result(run)
