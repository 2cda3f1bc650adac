"""The newest entries of a live run, so that who follows it need not ask the database. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ._base import Entry


class Ring:
    """A run of consecutive entries, the oldest of which go when it has more than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._entries: list[Entry] = []
        self._batches: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entries: Sequence[Entry], size: int) -> None:
        """Take the next ``entries``, ``size`` bytes together."""
        self._entries += entries
        self._batches.append((len(entries), size))
        self._size += size
        if self._size > self._limit:
            self._shorten()

    def after(self, seq: int, limit: int) -> list[Entry]:
        """At most ``limit`` entries that follow ``seq``; none when the next one is not here."""
        entries = self._entries
        at = seq + 1 - entries[0].seq if entries else -1
        return entries[at : at + limit] if at >= 0 else []

    def _shorten(self) -> None:
        """Make room for a while: each shortening moves all that stays. The newest batch always stays."""
        gone = 0
        while self._size > self._limit * 3 // 4 and len(self._batches) > 1:
            count, size = self._batches.popleft()
            gone += count
            self._size -= size
        del self._entries[:gone]
