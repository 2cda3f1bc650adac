"""The contracts of the middle: the table of runs, and what executes them.

**RunTable.** The sole authority on a run's owner and status. ``create`` is atomic: of two callers with one
``(principal, run_id)`` one creates and the other gets the existing record; a second active run on one
``(principal, thread)`` is refused. ``move`` changes the status by the table of ``machine`` and says whether it did, so
that of two racing ends one wins.

**Executor.** Runs one coroutine per run, outside any request: connections come and go, the run stays. A run is never
cancelled from outside, for it writes its own end: it is *asked* to stop, by a future. ``stop`` ends what is live: it
waits ``grace_s`` for them to end by themselves, then asks each to stop because of ``ServerStopping``, and returns when
every run has written its terminal event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol

import msgspec

from ..errors import AnabranchError
from .machine import Status

OnDisconnect = Literal["continue", "cancel"]
"""What happens to a run when its last watcher has left."""

Stop = asyncio.Future[AnabranchError]
"""Resolved, with the reason, when a run has to stop."""

Work = Callable[[Stop], Coroutine[Any, Any, None]]
"""Executes one run."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the table knows it. ``key`` is ours and unique; ``run_id`` is unique for its ``principal``."""

    key: str
    run_id: str
    principal: str
    thread_id: str
    task_id: str
    agent: str
    status: Status
    digest: str
    """Of the input: the same run id with another input is a conflict."""
    created_ms: int
    ended_ms: int | None = None
    epoch: int = 1
    continues: str | None = None
    on_disconnect: OnDisconnect = "continue"


class RunTable(Protocol):
    """See the module's contract."""

    async def create(self, record: RunRecord) -> RunRecord:
        """Add ``record`` and return it, or the one that has its ``(principal, run_id)``.

        Raises ``Conflict`` on a busy thread.
        """

    async def find(self, principal: str, run_id: str) -> RunRecord | None:
        """The caller's run of that id."""

    async def move(self, key: str, to: Status, at_ms: int) -> bool:
        """Change the status if the table of moves allows it; whether it did."""

    async def ended(self) -> Sequence[RunRecord]:
        """Runs in a final state, oldest first."""

    async def delete(self, key: str) -> None:
        """Forget a run."""


class Executor(Protocol):
    """See the module's contract."""

    def start(self, key: str, work: Work) -> None:
        """Execute ``work`` for the run ``key``."""

    def cancel(self, key: str, reason: AnabranchError) -> bool:
        """Ask a live run to stop because of ``reason``; whether there was one. The first reason counts."""

    async def stop(self, grace_s: float) -> None:
        """End all runs, as the contract says."""
