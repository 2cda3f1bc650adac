"""What a client is told that joins a run in its middle: the conversation, and the run so far, in short. Pure.

::

    RUN_STARTED, MESSAGES_SNAPSHOT, [CUSTOM anabranch.gap,] the run's events, compacted

No frame has a cursor but the last, whose cursor is that of the last entry: a client that leaves before it has nothing
to go on from, and gets the whole again. A snapshot comes only here, where nothing is open: in clients it takes the
place of all messages. Without a conversation there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...events import RunStarted
from ...log._base import Entry
from ...request import Message
from .._base import Cursor, Encoder
from .._compact import Compactor
from .._json import to_json
from .messages import unshown, written
from .payload import NAMESPACE, event, part
from .profile import Profile


class Prelude:
    """See ``sinks._follow.Prelude``.

    ``encoder`` is fresh, ``history`` the conversation before what the run wrote. ``gone`` is the seq of the last entry
    that is lost (0: none is); ``started`` is then written in the place of the one that is lost with it.
    """

    def __init__(
        self,
        encoder: Encoder,
        profile: Profile,
        started: RunStarted,
        history: Sequence[Message],
        gone: int = 0,
    ) -> None:
        self._encoder, self._profile, self._history = encoder, profile, history
        self._started, self._gone = started, gone
        self._compactor = Compactor()
        self._last = 0

    def feed(self, entries: Sequence[Entry]) -> None:
        """Take the next entries."""
        if self._gone and not self._last and entries:
            self._compactor.feed([Entry(0, 1, entries[0].at_ms, self._started)])
        self._compactor.feed(entries)
        self._last = entries[-1].seq if entries else 0

    def frames(self) -> Iterator[bytes]:
        """What they come to."""
        held, last = b"", Cursor(self._last, 0)
        for place, entry in enumerate(self._compactor.entries()):
            frames = [*map(_bare, self._encoder.feed(entry))]
            # A fragment that was joined to an earlier one has one frame, as every fragment.
            last = Cursor(self._last, max(0, len(frames) - 1) if entry.seq == self._last else 0)
            if not place and not self._encoder.ended:
                frames += [b"data: %b\n\n" % to_json(said | {"timestamp": entry.at_ms}) for said in self._before()]
            for frame in frames:
                if held:
                    yield held
                held = frame
        if held:
            yield b"id: %b\n%b" % (last.text(self._started.run_id).encode(), held)

    def _before(self) -> Iterator[dict[str, Any]]:
        if self._history:
            yield event("MESSAGES_SNAPSHOT", messages=written(self._history, self._profile))
        for message, content in unshown(self._history, self._profile):
            yield _ours("part", messageId=message.id, part=part(content))
        if self._gone:
            yield _ours("gap", first=1, last=self._gone)


def _ours(name: str, /, **value: Any) -> dict[str, Any]:
    return event("CUSTOM", name=f"{NAMESPACE}.{name}", value=value)


def _bare(frame: bytes) -> bytes:
    """``frame`` without its cursor."""
    return frame.partition(b"\n")[2] if frame.startswith(b"id: ") else frame
