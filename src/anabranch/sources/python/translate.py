"""Text and events of an async generator, as events. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import SourceError
from ...events import (
    EVENT_TYPES,
    ROOT,
    Event,
    Interrupted,
    InterruptResolved,
    MessageFinished,
    MessageStarted,
    RunFailed,
    RunFinished,
    TextDelta,
    ToolCallStarted,
)


class PythonTranslator:
    """``Translator`` for ``str | Event``.

    Text is the agent's answer; what comes after a tool call of the root agent is a message of its own, and then what
    came before it was narration. A generator that returns has succeeded, or waits for answers if it asked for some.
    """

    def __init__(self) -> None:
        self._messages = 0
        self._open = False
        self._ended = False
        self._asked: list[tuple[str, str]] = []

    def feed(self, item: Any) -> Iterable[Event]:
        """One item; anything but text and events raises ``SourceError``."""
        if isinstance(item, str):
            if self._open:
                return (TextDelta(message_id=self._id, delta=item),)
            self._open = True
            self._messages += 1
            return (MessageStarted(message_id=self._id), TextDelta(message_id=self._id, delta=item))
        if not isinstance(item, EVENT_TYPES):
            raise SourceError(
                f"The agent yielded {type(item).__name__}; it may yield str or an event of anabranch.events.",
                code="agent_protocol",
            )
        if isinstance(item, Interrupted):
            self._asked.append((item.agent, item.interrupt_id))
        elif isinstance(item, InterruptResolved):
            self._asked = [asked for asked in self._asked if asked != (item.agent, item.interrupt_id)]
        self._ended = self._ended or isinstance(item, RunFinished | RunFailed)
        if self._open and ((isinstance(item, ToolCallStarted) and item.agent == ROOT) or self._ended):
            return (self._finished("answer" if self._ended else "narration"), item)
        return (item,)

    def close(self, error: BaseException | None) -> Iterable[Event]:
        """The generator returned (``None``) or raised."""
        if error is not None or self._ended:
            return ()
        done = RunFinished(outcome="interrupted" if self._asked else "success")
        return (self._finished("answer"), done) if self._open else (done,)

    @property
    def _id(self) -> str:
        return f"text {self._messages}"

    def _finished(self, phase: Any) -> Event:
        self._open = False
        return MessageFinished(message_id=self._id, phase=phase)
