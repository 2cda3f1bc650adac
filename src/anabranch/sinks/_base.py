"""What a sink is: one protocol's way to write a run down, and to read a request.

Each protocol has a room with the same doors:

``encode.py``   pure: an ``Encoder``, log entries in, frames out.
``parse.py``    pure: the protocol's request body in, a ``RunRequest`` out; raises ``ClientError``.
``routes.py``   thin: HTTP in, a run started or attached to, frames out as they come.

An encoder is a *fold*: what it writes for an entry depends on that entry and the ones before it, and on nothing else.
It has no clock, no chance and no I/O; an entry carries its own time. So every replica writes the same bytes for the
same log, and a client that comes back with the id of the last frame it saw gets the rest of the same stream: fold from
the start, leave out what comes before the cursor. What an encoder knows is small and can be noted down (``state``), so
that a fold may begin at a note instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ..errors import ClientError
from ..log._base import Entry

NOTED = 256
"""Every so many entries an encoder's state is kept."""

_PLACE = re.compile(r"([1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,8})")


class CursorUnknown(ClientError):
    """A cursor that is none, or not of this run, or of something that the run does not have."""

    def __init__(self, cursor: str, flaw: str) -> None:
        remedy = "attach from the start, or with ?prelude=1"
        super().__init__(f"cursor {cursor[:80]!r} {flaw}: {remedy}", code="cursor_unknown", status=409)


class Cursor(NamedTuple):
    """Where a client is in a run: it has the frame ``part`` of the entry ``seq``, and all before it.

    Each entry has a part 0, also one that adds no frame. To clients a cursor is text without a meaning, the same in
    every protocol: ``{run_id}:{seq}.{part}``.
    """

    seq: int
    part: int

    @classmethod
    def parse(cls, text: str, run_id: str) -> Cursor:
        """The cursor of ``run_id`` that ``text`` is. Raises ``CursorUnknown``."""
        owner, _, place = text.rpartition(":")
        if owner != run_id:
            raise CursorUnknown(text, f"is not of run {run_id!r}")
        found = _PLACE.fullmatch(place)
        if found is None:
            raise CursorUnknown(text, "is not one that was given out")
        return cls(int(found[1]), int(found[2]))

    def text(self, run_id: str) -> str:
        """What ``parse`` reads."""
        return f"{run_id}:{self.seq}.{self.part}"


class Encoder(Protocol):
    """One client's view of one run. No method raises: what cannot be written becomes the stream's last frame."""

    @property
    def ended(self) -> bool:
        """Whether the last frame has been written. Nothing follows it."""

    def feed(self, entry: Entry) -> Sequence[bytes]:
        """The complete frames that ``entry`` adds, each with its cursor; none when the protocol has no word for it.

        Entries come in order, without gaps, from seq 1 or from the one after a state.
        """

    def state(self) -> bytes:
        """All it knows of the entries so far. Whoever was fed the same entries gives the same bytes."""

    def close(self, error: BaseException | None = None) -> Iterable[bytes]:
        """The frames owed to a client whose entries stop before the run's terminal one, because of ``error``.

        They are not part of the run's stream and carry no cursor. Nothing when the stream has ended.
        """
