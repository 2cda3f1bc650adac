"""The contracts of the middle: the table of runs, and what executes them.

**RunTable.** The sole authority on a run's owner and status, and the memory of its threads. ``create`` is atomic: of
two callers with one ``(principal, run_id)`` one creates and the other gets the existing record; a second active run on
one ``(principal, thread)`` is refused. ``move`` and ``finish`` change the status by the table of ``machine`` and say
whether they did, so that of two racing ends one wins. ``finish`` is one transaction with the log: a run is over in the
table when its terminal event is in the log (and else only where the log could not take one). Whoever has read the end
may start the thread's next run. What it acknowledged is kept as the log keeps what it acknowledged.

**Executor.** Runs one coroutine per run, outside any request: connections come and go, the run stays. A run is never
cancelled from outside, for it writes its own end: it is *asked* to stop, by a future. ``stop`` ends what is live: it
waits ``grace_s`` for them to end by themselves, then asks each to stop because of ``ServerStopping``, and returns when
every run has written its terminal event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ..errors import AnabranchError
from ..log._base import Entry
from ..request import Message
from ..transcript import Outcome
from .machine import Status

if TYPE_CHECKING:
    from .threads import Turn

OnDisconnect = Literal["continue", "cancel"] | float
"""What happens to a run when its last watcher has left; a number of seconds: cancel if nobody comes back so long."""

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
    code: str | None = None
    """Of the failure that ended it, with its message."""
    message: str | None = None
    epoch: int = 1
    continues: str | None = None
    on_disconnect: OnDisconnect = "continue"
    parent: str | None = None
    """The key of the run that this one follows in its thread, up to and with the message ``upto`` (``""``: whole)."""
    upto: str = ""
    branch: str = ""
    """The line of runs it belongs to: ``""``, or the key of the run that began it."""
    parent_run_id: str | None = None
    """What the caller said."""
    dialect: str = ""
    """``RunRequest.dialect``."""
    size: int = 0
    """Bytes, about, of its entries and messages once it is over."""
    forgotten: bool = False
    """Whether its entries are gone; its messages stay as long as a run of its thread has entries."""

    @property
    def changed_ms(self) -> int:
        """Since when it is what it is: over, or live."""
        return self.created_ms if self.ended_ms is None else self.ended_ms


class Tasks(msgspec.Struct, frozen=True):
    """A page of tasks, each as the newest of its runs, and how many there are on all pages."""

    runs: Sequence[RunRecord]
    total: int


class Kept(msgspec.Struct, frozen=True):
    """How many finished runs have entries, and their sizes together in bytes."""

    runs: int
    size: int


IN_MEMORY = Kept(1000, 256 * 2**20)
"""What is kept in memory, if nobody says otherwise."""
ON_DISK = Kept(100_000, 8 * 2**30)
"""The same on a disk."""


class RunTable(Protocol):
    """See the module's contract."""

    async def create(
        self, record: RunRecord, given: tuple[Message, ...] = (), before: str | None = None
    ) -> RunRecord | None:
        """Add ``record`` with the messages it was given and return it, or the run that has its ``(principal, run_id)``.

        None, and nothing is added, when the newest run of the thread is not the one with the key ``before`` (None: it
        has none): look at the thread again. Raises ``Conflict`` on a busy thread, which comes before that.
        """

    async def find(self, principal: str, run_id: str) -> RunRecord | None:
        """The caller's run of that id, also one that is ``forgotten``."""

    async def move(self, key: str, to: Status, at_ms: int) -> bool:
        """Change the status if the table of moves allows it; whether it did."""

    async def finish(
        self, key: str, entries: Sequence[Entry], to: Status, at_ms: int, outcome: Outcome, size: int
    ) -> bool:
        """As one: append the last ``entries`` to the run's log, and change its status to the final ``to``.

        Keeps ``outcome`` and ``size``. Whether it did: not when the run is over or unknown. Raises ``Fenced`` as
        ``RunLog.append`` does, also for an epoch before that of the record, and then changes nothing.
        """

    async def take(self, key: str) -> RunRecord | None:
        """Become the owner of a run that is not over: its epoch is one more than before. None when it is over."""

    async def active(self) -> Sequence[RunRecord]:
        """Runs that are not over, oldest first."""

    async def turns(self, principal: str, thread_id: str) -> Sequence[Turn]:
        """The runs of a thread with their messages, in the order they were created; none when it is unknown."""

    async def turn(self, key: str) -> Turn | None:
        """One run with its messages."""

    async def list(
        self, principal: str, *, thread_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """The caller's runs, newest first, of one thread or of all, from the one before the run id ``before`` on.

        Not those that are forgotten. Empty for an unknown ``before``.
        """

    async def task(self, principal: str, task_id: str) -> Sequence[RunRecord]:
        """The caller's runs of that task which are not forgotten, oldest first; none when it is unknown."""

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
        """The caller's tasks as ``task`` has them, those that changed last first: of one agent, thread, or all.

        Of each the newest run counts: it has one of ``statuses`` and changed at ``since_ms`` or later. A page begins
        after the task with the time and id ``before``.
        """

    async def ended(self, limit: int = 100) -> Sequence[RunRecord]:
        """Finished runs that are not forgotten, in the order they ended."""

    async def kept(self) -> Kept:
        """What the finished runs that are not forgotten come to."""

    async def forget(self, key: str) -> Sequence[RunRecord]:
        """Mark a finished run as forgotten. A thread all of whose runs are forgotten is deleted: these are its runs."""

    async def delete_thread(self, principal: str, thread_id: str) -> Sequence[RunRecord]:
        """Forget a thread wholly: these were its runs. Raises ``Conflict`` ``thread_busy`` while one is active."""


class Executor(Protocol):
    """See the module's contract."""

    def start(self, key: str, work: Work) -> None:
        """Execute ``work`` for the run ``key``."""

    def cancel(self, key: str, reason: AnabranchError) -> bool:
        """Ask a live run to stop because of ``reason``; whether there was one. The first reason counts."""

    async def stop(self, grace_s: float) -> None:
        """End all runs, as the contract says."""
