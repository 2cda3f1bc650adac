"""What a run said so far, in fewer entries: for a reader who was not there. Pure.

All fragments of one text become one, in the place of the first; so do the pieces of text that a tool reported. A value
of an activity that was overwritten at once is only the last one. Whoever applies the result shows what the whole would
have shown: a fragment belongs to its part wherever it comes. Everything else stays as and where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from .. import events as ev
from ..log._base import Entry

JOINED = 2**20
"""Characters that one joined text may have; a longer one is several. Clients do not read a frame of any length."""

_PIECES: dict[type[Any], tuple[str, str]] = {
    ev.TextDelta: ("message_id", "delta"),
    ev.ReasoningDelta: ("reasoning_id", "delta"),
    ev.ToolArgsDelta: ("call_id", "delta"),
    ev.ToolOutputDelta: ("call_id", "content"),
    ev.ActivityDelta: ("activity_id", "patch"),
}
"""What is joined: the field of the part's id, and the field of what is new."""

Patch = list[dict[str, Any]]


class Compactor:
    """Takes the entries of a run in order; what they come to may be asked when all are there."""

    def __init__(self) -> None:
        self._said: list[Entry | _Joined] = []
        self._open: dict[tuple[type[Any], str], _Joined] = {}

    def feed(self, entries: Iterable[Entry]) -> None:
        """Take the next entries."""
        for entry in entries:
            fact = entry.event
            fields = _PIECES.get(type(fact))
            if fields is None:
                if isinstance(fact, ev.ActivitySnapshot):  # what changes from here on is another value
                    self._open.pop((ev.ActivityDelta, fact.activity_id), None)
                self._said.append(entry)
                continue
            key, piece = (type(fact), getattr(fact, fields[0])), getattr(fact, fields[1])
            joined = self._open.get(key)
            if joined is None or not joined.takes(fact, piece):
                joined = self._open[key] = _Joined(entry, fields[1])
                self._said.append(joined)
            joined.pieces.append(piece)
            joined.size += len(piece) if isinstance(piece, str) else 0

    def entries(self) -> Iterator[Entry]:
        """What there is, in order. A joined entry has the seq and the time of its first piece."""
        for said in self._said:
            yield said.entry() if isinstance(said, _Joined) else said


class _Joined:
    __slots__ = ("_field", "_first", "pieces", "size")

    def __init__(self, first: Entry, field: str) -> None:
        self._first, self._field = first, field
        self.pieces: list[Any] = []
        self.size = 0

    def takes(self, fact: ev.Event, piece: Any) -> bool:
        """Whether ``piece`` goes on here: text does, and a value in the place of the last one written."""
        if fact.agent != self._first.event.agent:
            return False
        if isinstance(piece, str):
            return isinstance(self.pieces[0], str) and self.size < JOINED
        return isinstance(fact, ev.ActivityDelta) and _overwrites(piece, self.pieces[0])

    def entry(self) -> Entry:
        """All of it in the place of the first."""
        if len(self.pieces) == 1:
            return self._first
        first, last = self.pieces[0], self.pieces[-1]
        whole: Any = "".join(self.pieces) if isinstance(first, str) else [*first]
        if not isinstance(first, str):
            whole[-1] = first[-1] | {"value": last[0]["value"]}
        return replace(self._first, event=replace(self._first.event, **{self._field: whole}))


def _overwrites(patch: Patch, before: Patch) -> bool:
    """Whether ``patch`` does nothing but replace what the last change of ``before`` has put somewhere."""
    if len(patch) != 1 or not before:
        return False
    then, now = before[-1], patch[0]
    path = now.get("path")
    same = path is not None and path == then.get("path") and not str(path).endswith("/-")
    return same and now.get("op") == "replace" and then.get("op") in ("add", "replace") and "value" in now
