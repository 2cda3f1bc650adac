"""The log in a SQLite file. The newest entries of live runs are in memory too: who follows one reads no file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Sequence

from ..errors import AnabranchError, NotFound, ServerStopping
from . import _rows
from ._base import Bounds, Checkpoint, Entry
from ._head import Head, head_of
from ._ring import Ring
from ._sqlite_file import SqliteFile
from ._transaction import Transaction

_BATCH = 256  # entries a tail gives at once


class _Run:
    """What this process knows of a run that is being written or read. ``head`` is None until somebody looked."""

    __slots__ = ("error", "head", "readers", "ring")

    def __init__(self, ring: Ring) -> None:
        self.head: Head | None = None
        self.ring = ring
        self.error: AnabranchError | None = None
        self.readers: set[asyncio.Event] = set()

    @property
    def idle(self) -> bool:
        """Whether nobody needs it: the file has the rest."""
        over = self.head is not None and self.head.ended
        return not self.readers and (over or not (len(self.ring) or self.error))

    def fail(self, error: AnabranchError) -> None:
        self.error = error
        self.wake()

    def wake(self) -> None:
        for reader in self.readers:
            reader.set()


class Appending:
    """One append. Called, it writes and returns what is new, which is for ``shown`` once it is durable."""

    def __init__(self, log: SqliteLog, run_id: str, entries: Sequence[Entry]) -> None:
        self._log, self._run_id = log, run_id
        self._entries = tuple(entries)
        self._body = _rows.packed(self._entries)

    def __call__(self, transaction: Transaction) -> Sequence[Entry]:
        """Write. Raises ``Fenced`` and has then changed nothing."""
        return _rows.append(transaction, self._run_id, self._entries, self._body)

    def shown(self, entries: Sequence[Entry]) -> None:
        """Let readers know."""
        if entries:
            self._log.publish(self._run_id, entries, len(self._body))


class SqliteLog:
    """``RunLog`` in ``file``. ``ring_bytes`` of the newest entries of a live run, about, are in memory too."""

    def __init__(self, file: SqliteFile, *, ring_bytes: int = 2 * 2**20) -> None:
        self.file = file
        self._ring_bytes = ring_bytes
        self._runs: dict[str, _Run] = {}

    async def append(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Add ``entries``; see the contract. Raises ``ServerError`` too, when the file cannot be written."""
        if entries:
            appending = Appending(self, run_id, entries)
            await self.file.write(appending, appending.shown)

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """At most ``limit`` entries after ``after``, from memory if they are there."""
        run = self._runs.get(run_id)
        there = run.ring.after(after, limit) if run else []
        return there or await self._stored(run_id, after, limit)

    async def tail(self, run_id: str, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Batches of entries after ``after`` until the run is over."""
        run = self._known(run_id)
        changed = asyncio.Event()
        run.readers.add(changed)
        try:
            while True:
                changed.clear()
                if run.head is None:
                    head = await self.file.read(lambda file: _rows.head(file, _rows.number(file, run_id)))
                    run.head = run.head or head
                elif after < run.head.last:
                    if batch := run.ring.after(after, _BATCH) or await self._stored(run_id, after, _BATCH):
                        after = batch[-1].seq
                        yield batch
                    else:
                        await changed.wait()  # it was deleted, which will be said in a moment
                elif run.head.ended:
                    return
                elif run.error:
                    raise run.error.with_traceback(None)  # one error for all readers
                else:
                    await changed.wait()
        finally:
            run.readers.discard(changed)
            self._let_go(run_id, run)

    async def bounds(self, run_id: str) -> Bounds:
        """What there is of the run."""
        run = self._runs.get(run_id)
        head = run.head if run else None
        if head is None:
            head = await self.file.read(lambda file: _rows.head(file, _rows.number(file, run_id)))
        return Bounds(min(head.last, 1), head.last, head.ended)

    async def delete(self, run_id: str) -> None:
        """Forget the run."""

        def gone(_: None) -> None:
            if run := self._runs.pop(run_id, None):
                run.head, run.ring = Head(), Ring(0)
                run.fail(NotFound("this run is no longer kept"))

        await self.file.write(lambda transaction: _rows.disown(transaction, run_id), gone)
        while await self.file.write(_rows.clear):
            pass

    def abandon(self, run_id: str, error: AnabranchError) -> None:
        """End the run's tails with ``error``, after what is still being written."""
        self.file.write_soon(lambda _: None, lambda _: self._known(run_id).fail(error))

    async def checkpoint(self, run_id: str, reader: str, upto: int) -> Checkpoint | None:
        """The newest note that is not beyond ``upto``."""
        return await self.file.read(lambda file: _rows.note(file, run_id, reader, upto))

    def keep_checkpoint(self, run_id: str, reader: str, checkpoint: Checkpoint) -> None:
        """Take a note."""
        self.file.write_soon(lambda transaction: _rows.keep_note(transaction, run_id, reader, checkpoint))

    def publish(self, run_id: str, entries: Sequence[Entry], size: int) -> None:
        """Give readers what was written, ``size`` bytes of it."""
        run = self._known(run_id)
        run.head = head_of(entries[-1])
        run.ring.add(entries, size)
        run.wake()
        self._let_go(run_id, run)

    async def aclose(self) -> None:
        """Close the file. What still tails ends with ``ServerStopping``."""
        await self.file.aclose()
        for run in self._runs.values():
            run.fail(ServerStopping("The server's storage is closed."))

    async def _stored(self, run_id: str, after: int, limit: int) -> list[Entry]:
        def query(file: sqlite3.Connection) -> list[Entry]:
            no = _rows.number(file, run_id)
            return _rows.entries(file, no, after, limit) if no else []

        return await self.file.read(query)

    def _known(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = _Run(Ring(self._ring_bytes))
        return run

    def _let_go(self, run_id: str, run: _Run) -> None:
        if run.idle and self._runs.get(run_id) is run:
            del self._runs[run_id]
