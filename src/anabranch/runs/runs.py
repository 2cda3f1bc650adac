"""Starting, finding, watching and cancelling runs: the one door to the middle.

A run is executed once, by its owner, and outlives its connections. Any number of watchers, of any protocol, follow it
from any point.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial

from ..errors import Cancelled, Conflict, NotFound, ServerError, ServerStopping
from ..events import RunFailed, RunFinished, RunStarted
from ..identity import Principal, require
from ..log._base import Entry, RunLog
from ..log.memory import MemoryLog
from ..request import Resume, RunRequest
from ..sources._base import Source, Tape
from ._base import IN_MEMORY, Executor, Kept, OnDisconnect, RunRecord, RunTable, Stop
from .asking import Asking
from .continuing import Continuations
from .executors.local import LocalExecutor
from .machine import FINAL, Status, status_of
from .memory import MemoryTable
from .recovery import Burials, lost
from .retention import Farewell, Retention
from .runner import Runner, Writer, now_ms, started
from .threads import Turn
from .watchers import Watchers

logger = logging.getLogger("anabranch")

LIVE = 1000

_PATIENCE_S = 1.0  # for a first attempt to write the end of a run whose log failed
_LOOKS = 20  # at a thread that moves on while it is looked at

Record = Callable[[Source, RunRequest, RunStarted], Tape | None]
"""Gives a run of a source, which begins so, the tape that keeps its items (``sources._base.Recorder.tape``)."""


async def _nothing(thread: Sequence[RunRecord]) -> None:
    """Nobody is told."""


class Runs:
    """All runs of one server.

    The newest finished runs stay readable, as many as ``keeps`` says; none goes while it is watched. No more than
    ``live`` run at once. ``record`` may keep what sources give, ``forgotten`` is told of each thread that is gone.
    """

    def __init__(
        self,
        log: RunLog | None = None,
        table: RunTable | None = None,
        executor: Executor | None = None,
        *,
        keeps: Kept = IN_MEMORY,
        live: int = LIVE,
        record: Record | None = None,
        forgotten: Farewell = _nothing,
    ) -> None:
        self.log = log or MemoryLog()
        self.table = table or MemoryTable(self.log)
        self._executor = executor or LocalExecutor()
        self._most_live = live
        self._record = record
        self._live: set[str] = set()
        self._watchers = Watchers(self._live, self._unwatched)
        self._forgotten = forgotten
        self._retention = Retention(self.table, keeps, self._watchers, self._delete, self._forget)
        self._burials = Burials(self.log, self.table, self._retention.recount)
        self._continuations = Continuations(self.table)
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called: no new run starts."""
        return self._stopping

    @property
    def leaving(self) -> set[str]:
        """The keys of the runs that nobody watches and that are cancelled if nobody comes back."""
        return self._watchers.awaited

    async def recover(self) -> int:
        """End the runs that a process before this one left behind; how many. Before any run is started."""
        left = await self.table.active()
        for record in left:
            logger.warning("run %s of %r was cut off when its server stopped", record.run_id, record.agent)
            await self._burials.attempt(record, lost())
        return len(left)

    async def start(
        self,
        source: Source,
        request: RunRequest,
        principal: Principal,
        *,
        agent: str,
        on_disconnect: OnDisconnect = "continue",
    ) -> RunRecord:
        """Start a run, or find the one that this very request started before.

        Raises ``ServerStopping`` for a new run during a stop, ``ServerError`` when there are too many, ``Conflict``
        when the run id has another input, the thread is busy, or a question is answered that nobody asked.
        """
        asking = Asking(request, principal.id, agent, on_disconnect)
        record = await self.table.find(principal.id, request.run_id)
        if record is None:
            record = await self._begun(source, asking)
        if record.digest != asking.digest or record.forgotten:
            gone = "is over and no longer kept" if record.forgotten else "exists with another input"
            raise Conflict(f"run {request.run_id!r} {gone}: use a new run id", code="run_id_taken")
        return record

    async def get(self, run_id: str, principal: Principal) -> RunRecord:
        """The caller's run. Raises ``NotFound``, also for somebody else's and for one that is no longer kept."""
        record = await self.table.find(principal.id, run_id)
        if record is None or record.forgotten:
            raise NotFound(f"there is no run {run_id!r}")
        require(principal, "read", record.principal, f"run {run_id!r}")
        return record

    async def task(self, task_id: str, principal: Principal) -> Sequence[RunRecord]:
        """The runs of the caller's task, oldest first. Raises ``NotFound``, also when none of them is kept."""
        runs = await self.table.task(principal.id, task_id)
        if not runs:
            raise NotFound(f"there is no task {task_id[:80]!r}")
        return runs

    async def thread(self, thread_id: str, principal: Principal) -> Sequence[Turn]:
        """The caller's thread. Raises ``NotFound``."""
        turns = await self.table.turns(principal.id, thread_id)
        if not turns:
            raise NotFound(f"there is no thread {thread_id!r}")
        return turns

    async def delete_thread(self, thread_id: str, principal: Principal) -> None:
        """Forget the caller's thread. Raises ``NotFound``, and ``Conflict`` while a run of it is live."""
        await self.thread(thread_id, principal)
        await self._retention.delete_thread(principal.id, thread_id)

    @asynccontextmanager
    async def watch(self, record: RunRecord, after: int = 0) -> AsyncGenerator[AsyncIterator[Sequence[Entry]], None]:
        """Follow a run from the entry after ``after`` to its end, in batches as they come.

        Leaving before the end is a disconnect; the run's policy says what it means once the last watcher has left.
        Raises ``NotFound`` for a run that is no longer kept; the batches of one whose log failed end with an error.
        """
        key = record.key
        with self._watchers.one(record):
            if key not in self._live:
                kept = await self.table.find(record.principal, record.run_id)
                if kept is None or kept.key != key or kept.forgotten:
                    raise NotFound(f"there is no run {record.run_id!r}")
                if kept.status in FINAL and not (await self.log.bounds(key)).ended:
                    self.log.abandon(key, _unwritten())  # its end could not be written when it came
            async with aclosing(self._tail(key, after)) as batches:
                yield batches

    async def _tail(self, key: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        if self._watchers.misses(key):  # the log, which does not know it any more, would wait for it
            raise NotFound("this run is no longer kept")
        async with aclosing(self.log.tail(key, after)) as batches:
            async for batch in batches:
                yield batch

    async def cancel(self, run_id: str, principal: Principal) -> RunRecord:
        """Cancel the caller's run; returns at once, the run ends with ``cancelled``.

        Again while it stops changes nothing. Raises ``Conflict`` ``run_over`` for one that is over.
        """
        record = await self.get(run_id, principal)
        require(principal, "cancel", record.principal, f"run {run_id!r}")
        if record.status in FINAL or not self._executor.cancel(record.key, Cancelled("The run was cancelled.")):
            raise Conflict(f"run {run_id!r} is over: there is nothing to cancel", code="run_over")
        return record

    async def withdraw(self, source: Source, run_id: str, principal: Principal) -> RunRecord:
        """Cancel what the caller's run asked: the run that continues it, of ``source``, which it never calls.

        Raises ``Conflict`` when the run has asked nothing, or nobody can answer it any more.
        """
        record = await self.get(run_id, principal)
        require(principal, "cancel", record.principal, f"run {run_id!r}")
        turns = await self.thread(record.thread_id, principal)
        outcome = next(turn.outcome for turn in turns if turn.record.key == record.key)
        if outcome is None or not outcome.asked:
            raise Conflict(f"run {run_id!r} is over: there is nothing to cancel", code="run_over")
        resume = tuple(Resume(interrupt_id=each.interrupt_id, status="cancelled") for each in outcome.asked)
        request = RunRequest(run_id=f"{run_id}:withdrawn", thread_id=record.thread_id, resume=resume)
        asking = Asking(request, principal.id, record.agent, record.on_disconnect)
        withdrawn = await self._begun(source, asking, Cancelled("The run was cancelled."))
        if withdraw := getattr(source, "withdraw", None):
            withdraw(outcome.asked)
        return withdrawn

    async def continuation(self, record: RunRecord) -> RunRecord | None:
        """The run that continues an interrupted one, once there is one; None once that cannot be any more.

        Raises ``NotFound`` once its thread is gone, ``ServerStopping`` during a stop.
        """
        return await self._continuations.after(record)

    async def stop(self, grace_s: float) -> None:
        """No new runs; live ones get ``grace_s`` seconds, then end with ``server_stopping``."""
        self._stopping = True
        self._continuations.stop()
        await self._executor.stop(grace_s)
        await self._retention.stop()
        self._burials.stop()

    # --- starting ----------------------------------------------------------------------------------------------

    def _refuse(self) -> None:
        if self._stopping:
            raise ServerStopping("The server is stopping; ask again.")
        if len(self._live) >= self._most_live:
            text = f"The server has {self._most_live} live runs, as many as it may; ask again."
            raise ServerError(text, code="too_many_runs", retryable=True)

    async def _begun(self, source: Source, asking: Asking, cancelled: Cancelled | None = None) -> RunRecord:
        """``_begin``, if new runs may begin. A run that was created is executed, whatever happens to its caller."""
        self._refuse()
        beginning = asyncio.create_task(self._begin(source, asking, cancelled), name=f"begin {asking.request.run_id!r}")
        beginning.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(beginning)

    async def _begin(self, source: Source, asking: Asking, cancelled: Cancelled | None = None) -> RunRecord:
        """Create the run and execute it, or find the one that somebody else created just now.

        One that is ``cancelled`` from the start never calls its source.
        """
        for _ in range(_LOOKS):
            turns = await self.table.turns(asking.principal, asking.request.thread_id)
            try:
                plan = asking.after(turns, now_ms())
            except Conflict:  # the question may have been answered by this very request just now
                same = await self.table.find(asking.principal, asking.request.run_id)
                if same is None:
                    raise
                return same
            made = await self.table.create(plan.record, plan.place.given, plan.place.before)
            if made is not None:
                break
        else:
            text = f"thread {asking.request.thread_id!r} does not come to rest: ask again"
            raise Conflict(text, code="thread_busy")
        if made.key == plan.record.key:
            self._live.add(made.key)
            try:
                self._executor.start(made.key, partial(self._execute, source, plan.request, made))
                if cancelled:
                    self._executor.cancel(made.key, cancelled)
            except BaseException:
                self._live.discard(made.key)
                await self._abandon(made, ServerError("This run could not be started."))
                raise
            self._continuations.begun(made)
        return made

    # --- executing ---------------------------------------------------------------------------------------------

    async def _execute(self, source: Source, request: RunRequest, record: RunRecord, stop: Stop) -> None:
        key = record.key

        async def finish(entries: list[Entry]) -> None:
            end = entries[-1].event
            assert isinstance(end, RunFinished | RunFailed)
            if isinstance(end, RunFailed):
                logger.warning("run %s of %r: %s: %s", record.run_id, record.agent, end.code, end.message)
            size, outcome = record.size + writer.size, writer.transcript.outcome()
            self._live.discard(key)
            if not await self.table.finish(key, entries, status_of(end), now_ms(), outcome, size):
                raise ServerError("This run is not in the table of runs.")
            self._retention.add(size)

        writer = Writer(self.log, record, finish)
        try:
            await self.table.move(key, Status.RUNNING, now_ms())
            tape = self._record(source, request, started(record)) if self._record else None
            await Runner(source, request, record, writer, tape).run(stop)
        except Exception:
            logger.exception("run %s: its log could not be written", record.run_id)
            await self._abandon(record, _unwritten())
        finally:
            self._live.discard(key)
            self._watchers.over(key)
        self._retention.start()

    async def _abandon(self, record: RunRecord, reason: ServerError) -> None:
        """End a run that cannot write its own end: for its watchers soon, in the table as soon as that is possible.

        Until then its thread is busy.
        """
        await asyncio.wait((self._burials.begin(record, reason),), timeout=_PATIENCE_S)
        self.log.abandon(record.key, reason)

    def _unwatched(self, key: str) -> None:
        self._executor.cancel(key, Cancelled("The last watcher left."))

    async def _delete(self, key: str) -> None:
        """Remove the log of a run that is forgotten, maybe while somebody is about to read it."""
        self._watchers.forget(key)
        await self.log.delete(key)

    async def _forget(self, thread: Sequence[RunRecord]) -> None:
        """Tell whoever has to know that a thread is gone."""
        self._continuations.gone(thread)
        await self._forgotten(thread)


def _unwritten() -> ServerError:
    return ServerError("The log of this run cannot be written.", code="log_failed")
