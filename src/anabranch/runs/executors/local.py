"""Runs as asyncio tasks of this process."""

from __future__ import annotations

import asyncio
import logging

from ...errors import AnabranchError, ServerStopping
from .._base import Stop, Work

logger = logging.getLogger("anabranch")


class LocalExecutor:
    """``Executor`` on the running loop."""

    def __init__(self) -> None:
        self._live: dict[str, tuple[asyncio.Task[None], Stop]] = {}
        self._stopped = False

    def start(self, key: str, work: Work) -> None:
        """Execute ``work`` as a task of its own."""
        stop: Stop = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(work(stop), name=f"run {key}")
        self._live[key] = (task, stop)
        task.add_done_callback(lambda _: self._ended(key, task))
        if self._stopped:
            self.cancel(key, _stopping())

    def cancel(self, key: str, reason: AnabranchError) -> bool:
        """Stop a live run; see the contract."""
        if key not in self._live:
            return False
        _, stop = self._live[key]
        if not stop.done():
            stop.set_result(reason)
        return True

    async def stop(self, grace_s: float) -> None:
        """End all runs; see the contract."""
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=grace_s)
        self._stopped = True
        while tasks := self._tasks():
            for key in list(self._live):
                self.cancel(key, _stopping())
            await asyncio.wait(tasks)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for task, _ in self._live.values() if not task.done()]

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._live[key]
        if not task.cancelled() and (error := task.exception()):
            logger.error("run %s could not be executed", key, exc_info=error)


def _stopping() -> ServerStopping:
    return ServerStopping("The server is stopping; ask again.")
