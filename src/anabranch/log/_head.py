"""Which entries may follow what a log has of a run: the same for every driver. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..errors import Fenced
from ..events import RunFailed, RunFinished
from ._base import Entry

_TERMINAL = (RunFinished, RunFailed)


class Head(msgspec.Struct, frozen=True, gc=False):
    """The end of what there is: the last seq (0: nothing), its epoch, and whether it is the run's terminal entry."""

    last: int = 0
    epoch: int = 0
    ended: bool = False

    def unseen(self, entries: Sequence[Entry], epoch_of: Callable[[int], int]) -> Sequence[Entry]:
        """What of ``entries`` is new here. Raises ``Fenced`` when they may not follow.

        ``epoch_of`` gives the epoch of an entry that is there; it is only asked about a repeat.
        """
        first, epoch, last = entries[0].seq, entries[0].epoch, self.last
        if epoch < self.epoch:
            raise Fenced(f"epoch {epoch} is over: the run is owned by epoch {self.epoch}")
        if entries[-1].seq != first + len(entries) - 1:
            raise Fenced(f"the {len(entries)} entries from seq {first} to {entries[-1].seq} have a gap")
        if any(isinstance(entry.event, _TERMINAL) for entry in entries[:-1]):
            raise Fenced("an entry follows a terminal one")
        if 1 <= first <= last and epoch == epoch_of(first):
            entries = entries[last - first + 1 :]  # acknowledged before, and sent again
        elif first != last + 1:
            raise Fenced(f"seq {first} does not follow seq {last}")
        if entries and self.ended:
            raise Fenced("the run is over")
        return entries


def head_of(entry: Entry) -> Head:
    """The head of a log whose last entry is ``entry``."""
    return Head(entry.seq, entry.epoch, isinstance(entry.event, _TERMINAL))
