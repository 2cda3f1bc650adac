"""The log in this process's memory: the default, and the test double. Gone when the process is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from ..errors import AnabranchError, Fenced, NotFound
from ..events import RunFailed, RunFinished
from ._base import Bounds, Entry

_BATCH = 256  # entries a tail gives at once: a long replay must not hold the loop or build one huge write
_TERMINAL = (RunFinished, RunFailed)


class _Run:
    __slots__ = ("ended", "entries", "epoch", "error", "readers")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epoch = 0
        self.ended = False
        self.error: AnabranchError | None = None
        self.readers: set[asyncio.Event] = set()

    def unseen(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """What of ``entries`` is new here. Raises ``Fenced``, before anything is changed, if they may not follow."""
        first, epoch, last = entries[0].seq, entries[0].epoch, len(self.entries)
        if epoch < self.epoch:
            raise Fenced(f"epoch {epoch} is over: the run is owned by epoch {self.epoch}")
        if entries[-1].seq != first + len(entries) - 1:
            raise Fenced(f"the {len(entries)} entries from seq {first} to {entries[-1].seq} have a gap")
        if any(isinstance(entry.event, _TERMINAL) for entry in entries[:-1]):
            raise Fenced("an entry follows a terminal one")
        if 1 <= first <= last and epoch == self.entries[first - 1].epoch:
            entries = entries[last - first + 1 :]  # acknowledged before, and sent again
        elif first != last + 1:
            raise Fenced(f"seq {first} does not follow seq {last}")
        if entries and self.ended:
            raise Fenced("the run is over")
        return entries

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
        if unseen := run.unseen(entries):
            run.entries.extend(unseen)
            run.epoch = unseen[-1].epoch
            run.ended = isinstance(unseen[-1].event, _TERMINAL)
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
                elif run.ended:
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
        if run is None or not run.entries:
            return Bounds(0, 0, False)
        return Bounds(1, len(run.entries), run.ended)

    async def delete(self, run_id: str) -> None:
        """Forget the run."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            run.entries, run.ended = [], False
            run.error = NotFound("this run is no longer kept")
            run.wake()

    def abandon(self, run_id: str, error: AnabranchError) -> None:
        """End the run's tails with ``error``."""
        run = self._runs.setdefault(run_id, _Run())
        run.error = error
        run.wake()
