"""What a run adds to its conversation, folded from its events. Pure.

An AG-UI client that applied the same run holds the same messages: same ids, same pieces, tool calls in the message of
their turn. Clients send them back, and the middle recognises them by these ids.
"""

from __future__ import annotations

import msgspec

from .events import Event
from .request import Message


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question that a run left open. ``origin_id`` is what its source calls it, ``agent`` who asks."""

    interrupt_id: str
    origin_id: str = ""
    agent: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run left behind: its messages in order, ids that are void (shown once, then replaced), open questions."""

    messages: tuple[Message, ...] = ()
    void: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()


class Transcript:
    """Feed it a run's legal events, in order; ``outcome`` may be asked at any time and says what there is so far."""

    def feed(self, event: Event) -> None:
        """Take the next event."""
        raise NotImplementedError

    def outcome(self) -> Outcome:
        """What the run has left behind up to now, open messages and unanswered calls included."""
        raise NotImplementedError
