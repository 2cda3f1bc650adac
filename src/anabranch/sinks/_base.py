"""What a sink is: one protocol's way to write a run down, and to read a request.

Each protocol has a room with the same doors:

``encode.py``   pure: an ``Encoder``, log entries in, frames out.
``parse.py``    pure: the protocol's request body in, a ``RunRequest`` out; raises ``ClientError``.
``routes.py``   thin: HTTP in, a run started or attached to, frames out as they come.

An encoder is a *fold*: what it writes for an entry depends on that entry and the ones before it, and on nothing else.
It has no clock, no chance and no I/O; an entry carries its own time. So every replica writes the same bytes for the
same log, and a client that comes back with the id of the last frame it saw gets the rest of the same stream: fold from
the start, leave out what comes before the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..log._base import Entry


class Encoder(Protocol):
    """One client's view of one run. Neither method raises: what cannot be written becomes the stream's last frame."""

    @property
    def ended(self) -> bool:
        """Whether the last frame has been written. Nothing follows it."""

    def feed(self, entry: Entry) -> Iterable[bytes]:
        """The complete frames that ``entry`` adds, each with its cursor; none when the protocol has no word for it.

        Entries come in order, from seq 1, without gaps.
        """

    def close(self, error: BaseException | None = None) -> Iterable[bytes]:
        """The frames owed to a client whose entries stop before the run's terminal one, because of ``error``.

        They are not part of the run's stream and carry no cursor. Nothing when the stream has ended.
        """
