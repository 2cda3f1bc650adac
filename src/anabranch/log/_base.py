"""The contract of a run's log: what was shown, in order, for ever the same.

One log holds the entries of many runs. Each run has one writer at a time and any number of readers.

1.  ``seq`` of a run starts at 1, strictly increases and has no gaps.
2.  An append is all or nothing, and what it acknowledged is kept. Entries reach readers only after that.
3.  Appending entries again that the log already has, under the same epoch, changes nothing: a writer may repeat an
    append whose acknowledgement it lost.
4.  A writer of an older ``epoch`` than the newest one appended is refused with ``Fenced`` and leaves no trace; so is an
    append that would leave a gap, or follow a terminal event.
5.  ``tail`` gives every entry after a cursor exactly once, in order, those already there and those to come; replay
    and live join without a gap or a repeat however appends run beside it. It ends by the run's status (once the
    terminal entry was given), never by a number of entries, and waits for a run that has no entry yet.
6.  Readers pull. A slow reader costs no memory, delays nobody, and loses nothing.
7.  A deleted run is unknown: its readers end with ``NotFound``.
8.  An abandoned run, whose writer failed before its terminal entry, gets no more: its readers in this process, those
    there and those to come, get every entry that was kept and then the error, instead of waiting for ever.

9.  A checkpoint is a reader's note about a run: what it knew after an entry. Notes are hints. One may be lost or come
    late, none is ever wrong: whoever writes one for a place writes the same, so the first counts. They go with the run.

Drivers are tested by one conformance suite. ``anabranch.log.memory`` is the test double, ``anabranch.log.sqlite`` what
a server uses that is told nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import msgspec

from ..errors import AnabranchError
from ..events import VERSION, Event


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event in its place. ``at_ms`` is Unix time in milliseconds, stamped once, by the runner."""

    seq: int
    epoch: int
    at_ms: int
    event: Event
    v: int = VERSION


class Bounds(msgspec.Struct, frozen=True):
    """Which entries of a run the log has: ``first`` and ``last`` seq (both 0 when none), and whether it is over."""

    first: int
    last: int
    ended: bool


class Checkpoint(msgspec.Struct, frozen=True):
    """What a reader knew after the entry ``seq``, in its own words."""

    seq: int
    state: bytes


class RunLog(Protocol):
    """See the module's contract."""

    async def append(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Add ``entries`` (consecutive, of one epoch, at most the last one terminal). Raises ``Fenced``.

        Durable when it returns.
        """

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """At most ``limit`` entries with ``seq > after``, oldest first; empty when there are none (yet)."""

    def tail(self, run_id: str, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Batches of entries with ``seq > after``, as they come, until the run is over. Batches are never empty."""

    async def bounds(self, run_id: str) -> Bounds:
        """What the log has of the run; zeros when it knows nothing of it."""

    async def delete(self, run_id: str) -> None:
        """Forget the run. Its open tails end with ``NotFound``."""

    def abandon(self, run_id: str, error: AnabranchError) -> None:
        """No more entries will come: tails end with ``error`` after what is there. No effect on a run that is over."""

    async def checkpoint(self, run_id: str, reader: str, upto: int) -> Checkpoint | None:
        """The note of the kind of reader ``reader`` with the highest seq not beyond ``upto``."""

    def keep_checkpoint(self, run_id: str, reader: str, checkpoint: Checkpoint) -> None:
        """Take a note, soon. Never waits, never raises."""
