"""The log in this process's memory: the default of an ``App``, and the test double. Gone when the process is."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence

from ..errors import AnabranchError, NotFound
from ._base import Bounds, Checkpoint, Entry
from ._head import Head, head_of
from ._notes import MOST, spare

_BATCH = 256  # entries a tail gives at once: a long replay must not hold the loop or build one huge write


class _Run:
    __slots__ = ("entries", "error", "head", "notes", "readers")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.head = Head()
        self.error: AnabranchError | None = None
        self.readers: set[asyncio.Event] = set()
        self.notes: dict[str, list[Checkpoint]] = {}

    def wake(self) -> None:
        for reader in self.readers:
            reader.set()


class MemoryLog:
    """``RunLog`` in memory. Appends never wait, so what was appended is at once readable."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    async def append(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Add ``entries``; see the contract."""
        if not entries:
            return
        run = self._runs.get(run_id) or _Run()
        if unseen := run.head.unseen(entries, lambda seq: run.entries[seq - 1].epoch):
            run.entries.extend(unseen)
            run.head = head_of(unseen[-1])
            self._runs[run_id] = run
            run.wake()

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """At most ``limit`` entries after ``after``."""
        run = self._runs.get(run_id)
        return run.entries[after : after + limit] if run else []

    async def tail(self, run_id: str, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Batches of entries after ``after`` until the run is over."""
        run = self._runs.setdefault(run_id, _Run())
        changed = asyncio.Event()
        run.readers.add(changed)
        try:
            while True:
                changed.clear()
                if batch := run.entries[after : after + _BATCH]:
                    after = batch[-1].seq
                    yield batch
                elif run.head.ended:
                    return
                elif run.error:
                    raise run.error.with_traceback(None)  # one error for all readers
                else:
                    await changed.wait()
        finally:
            run.readers.discard(changed)
            idle = not (run.entries or run.readers or run.error)
            if idle and self._runs.get(run_id) is run:
                del self._runs[run_id]  # nobody wrote it, nobody waits for it

    async def bounds(self, run_id: str) -> Bounds:
        """What there is of the run."""
        run = self._runs.get(run_id)
        head = run.head if run else Head()
        return Bounds(min(head.last, 1), head.last, head.ended)

    async def delete(self, run_id: str) -> None:
        """Forget the run."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            run.entries, run.head = [], Head()
            run.error = NotFound("this run is no longer kept")
            run.wake()

    def abandon(self, run_id: str, error: AnabranchError) -> None:
        """End the run's tails with ``error``."""
        run = self._runs.setdefault(run_id, _Run())
        run.error = error
        run.wake()

    async def checkpoint(self, run_id: str, reader: str, upto: int) -> Checkpoint | None:
        """The newest note that is not beyond ``upto``."""
        run = self._runs.get(run_id)
        notes = run.notes.get(reader, []) if run else []
        at = bisect_right(notes, upto, key=lambda note: note.seq)
        return notes[at - 1] if at else None

    def keep_checkpoint(self, run_id: str, reader: str, checkpoint: Checkpoint) -> None:
        """Take a note, unless there is one for its place."""
        run = self._runs.get(run_id)
        if run is None or not run.entries:
            return
        notes = run.notes.setdefault(reader, [])
        at = bisect_right(notes, checkpoint.seq, key=lambda note: note.seq)
        if not at or notes[at - 1].seq != checkpoint.seq:
            notes.insert(at, checkpoint)
        if len(notes) > MOST:
            del notes[spare([note.seq for note in notes])]
