"""One run as it is read: its events written out, the answer, the conversation, and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from .answer import Answer, ours
from .chunks import Chunks
from .conversation import Conversation

Event = dict[str, Any]

Status = Literal["success", "interrupted", "cancelled", "failed"]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, for whoever reads it. ``code`` and ``message`` say what failed."""

    status: Status
    code: str = ""
    message: str = ""
    interrupts: tuple[dict[str, Any], ...] = ()
    usage: tuple[dict[str, Any], ...] = ()


class Unreadable(ValueError):
    """An event is not what AG-UI says it is."""


@contextmanager
def readable() -> Iterator[None]:
    """Raises ``Unreadable`` where an event lacks a field, or has one of another type than AG-UI gives it."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        flaw = f"without {error}" if isinstance(error, KeyError) else f"with a field of a wrong type ({error})"
        raise Unreadable(f"the server sent an event {flaw}; AG-UI requires it") from error


class Reading:
    """Feed it the events of one run as they are received."""

    def __init__(self, conversation: Conversation | None = None) -> None:
        self.answer = Answer()
        self.ending: Ending | None = None
        """None until the terminal event."""
        self.flaw: str | None = None
        """What is wrong with the answer that was read, if the server said what it is."""
        self._conversation = conversation or Conversation()
        self._chunks = Chunks()

    def feed(self, event: Event) -> tuple[list[Event], str]:
        """``event`` without chunks, and the root agent's text that may be written now. Raises ``Unreadable``."""
        with readable():
            if event["type"] != "STATE_DELTA" and not isinstance(event.get("delta", ""), str):
                raise TypeError("delta is no text")
            events = self._chunks.feed(event)
            return events, "".join([self._take(each) for each in events])

    def _take(self, event: Event) -> str:
        self._conversation.feed(event)
        text = self.answer.feed(event)
        if event["type"] == "RUN_FINISHED":
            self.flaw = self.answer.flaw(event)
            self.ending = _finished(event)
        elif event["type"] == "RUN_ERROR":
            self.ending = Ending(
                status="failed",
                code=str(event.get("code") or ""),
                message=str(event["message"]),
                usage=_usage(event),
            )
        if self.ending is None:
            return text
        if self.ending.status in ("failed", "cancelled"):
            self._conversation.settle()
        return text + self.answer.close()


def _finished(event: Event) -> Ending:
    outcome = event.get("outcome") or {"type": "success"}
    match outcome["type"]:
        case "success":
            return Ending(status="success", usage=_usage(event))
        case "cancelled":
            said = str(ours(event).get("reason") or "")
            return Ending(status="cancelled", code="cancelled", message=said, usage=_usage(event))
        case "interrupt":
            asked = {interrupt["id"]: interrupt for interrupt in outcome["interrupts"]}
            return Ending(status="interrupted", interrupts=tuple(asked.values()), usage=_usage(event))
    said = f"it ended with an outcome that this command does not know: {outcome['type']}"
    return Ending(status="failed", message=said, usage=_usage(event))


def _usage(event: Event) -> tuple[dict[str, Any], ...]:
    return tuple(event.get("usage") or ())
