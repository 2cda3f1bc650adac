"""Starting, finding, watching and cancelling runs: the one door to the middle.

A run is executed once, by its owner, and outlives its connections. Any number of watchers, of any protocol, follow it
from any point.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from ..errors import Cancelled, Conflict, NotFound, ServerError, ServerStopping
from ..events import RunFailed, Terminal
from ..identity import Principal, require
from ..log._base import Entry, RunLog
from ..log.memory import MemoryLog
from ..request import RunRequest
from ..sources._base import Source
from ._base import Executor, OnDisconnect, RunRecord, RunTable, Stop
from .executors.local import LocalExecutor
from .machine import Status, status_of
from .memory import MemoryTable
from .runner import Runner, Writer, now_ms

logger = logging.getLogger("anabranch")

KEPT = 1000
KEPT_BYTES = 256 * 2**20
LIVE = 1000


class Runs:
    """All runs of one server.

    The newest ``kept`` finished runs stay readable as far as they fit into ``kept_bytes``; none goes while it is
    watched. No more than ``live`` run at once.
    """

    def __init__(
        self,
        log: RunLog | None = None,
        table: RunTable | None = None,
        executor: Executor | None = None,
        *,
        kept: int = KEPT,
        kept_bytes: int = KEPT_BYTES,
        live: int = LIVE,
    ) -> None:
        self._log = log or MemoryLog()
        self._table = table or MemoryTable()
        self._executor = executor or LocalExecutor()
        self._kept, self._kept_bytes, self._most_live = kept, kept_bytes, live
        self._live: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._kept_size = 0
        self._watchers: dict[str, int] = {}
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called: no new run starts."""
        return self._stopping

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
        when the run id has another input or the thread is busy.
        """
        full = len(self._live) >= self._most_live
        if (self._stopping or full) and await self._table.find(principal.id, request.run_id) is None:
            if self._stopping:
                raise ServerStopping("The server is stopping; ask again.")
            text = f"The server has {self._most_live} live runs, as many as it may; ask again."
            raise ServerError(text, code="too_many_runs", retryable=True)
        fresh = RunRecord(
            key=uuid.uuid4().hex,
            run_id=request.run_id,
            principal=principal.id,
            thread_id=request.thread_id,
            task_id=uuid.uuid4().hex,
            agent=agent,
            status=Status.QUEUED,
            digest=_digest(agent, request),
            created_ms=now_ms(),
            on_disconnect=on_disconnect,
        )
        named = replace(request, memory_key=f"{quote(principal.id, safe='')}:{request.thread_id}")
        record = await self._table.create(fresh)
        if record.key == fresh.key:
            try:
                self._executor.start(record.key, partial(self._execute, source, named, record))
            except BaseException:
                await self._abandon(record, ServerError("This run could not be started."))
                raise
        elif record.digest != fresh.digest:
            raise Conflict(f"run {request.run_id!r} exists with another input: use a new run id", code="run_id_taken")
        return record

    async def get(self, run_id: str, principal: Principal) -> RunRecord:
        """The caller's run. Raises ``NotFound``, also for somebody else's."""
        record = await self._table.find(principal.id, run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id!r}")
        require(principal, "read", record.principal, f"run {run_id!r}")
        return record

    @asynccontextmanager
    async def watch(self, record: RunRecord, after: int = 0) -> AsyncGenerator[AsyncIterator[Sequence[Entry]], None]:
        """Follow a run from the entry after ``after`` to its end, in batches as they come.

        Leaving before the end is a disconnect; the run's policy says what it means once the last watcher has left.
        Raises ``NotFound`` for a run that is no longer kept; the batches of one whose log failed end with an error.
        """
        key = record.key
        self._watchers[key] = self._watchers.get(key, 0) + 1
        try:
            kept = await self._table.find(record.principal, record.run_id)
            if kept is None or kept.key != key:
                raise NotFound(f"there is no run {record.run_id!r}")
            async with aclosing(self._log.tail(key, after)) as batches:
                yield batches
        finally:
            self._watchers[key] -= 1
            if not self._watchers[key]:
                del self._watchers[key]
                if record.on_disconnect == "cancel":
                    self._executor.cancel(key, Cancelled("The last watcher left."))

    async def cancel(self, run_id: str, principal: Principal) -> RunRecord:
        """Cancel the caller's run; returns at once, the run ends with ``cancelled``. No effect on one that is over."""
        record = await self.get(run_id, principal)
        require(principal, "cancel", record.principal, f"run {run_id!r}")
        self._executor.cancel(record.key, Cancelled("The run was cancelled."))
        return record

    async def stop(self, grace_s: float) -> None:
        """No new runs; live ones get ``grace_s`` seconds, then end with ``server_stopping``."""
        self._stopping = True
        await self._executor.stop(grace_s)

    async def _execute(self, source: Source, request: RunRequest, record: RunRecord, stop: Stop) -> None:
        async def finish(terminal: Terminal) -> None:
            if isinstance(terminal, RunFailed):
                logger.warning("run %s of %r: %s: %s", record.run_id, record.agent, terminal.code, terminal.message)
            self._live.discard(record.key)
            await self._table.move(record.key, status_of(terminal), now_ms())

        self._live.add(record.key)
        writer = Writer(self._log, record, finish)
        try:
            await self._table.move(record.key, Status.RUNNING, now_ms())
            await Runner(source, request, record, writer).run(stop)
        except Exception:
            logger.exception("run %s: its log could not be written", record.run_id)
            await self._abandon(record, ServerError("The log of this run cannot be written.", code="log_failed"))
        finally:
            self._live.discard(record.key)
        self._sizes[record.key] = writer.size
        self._kept_size += writer.size
        await self._forget_old()

    async def _abandon(self, record: RunRecord, reason: ServerError) -> None:
        """End a run that cannot write its own end."""
        self._log.abandon(record.key, reason)
        await self._table.move(record.key, Status.FAILED, now_ms())

    async def _forget_old(self) -> None:
        for record in await self._table.ended() if self._keeps_too_much() else ():
            if record.key not in self._watchers:
                self._kept_size -= self._sizes.pop(record.key, 0)
                await self._table.delete(record.key)
                await self._log.delete(record.key)
                if not self._keeps_too_much():
                    return

    def _keeps_too_much(self) -> bool:
        return len(self._sizes) > self._kept or self._kept_size > self._kept_bytes


def _digest(agent: str, request: RunRequest) -> str:
    """Of what is asked of whom; the order of keys in a JSON object is no difference."""
    return hashlib.sha256(agent.encode() + b"\0" + msgspec.json.encode(request, order="sorted")).hexdigest()
