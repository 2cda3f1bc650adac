"""What the answer of a run is made of: messages of the root agent, and of the agents that answer for it. Pure."""

from __future__ import annotations

import hashlib

from . import events as ev
from .law import CLOSED
from .parts import Part, Parts


class Answering:
    """Told of each part that opens and of agents that fail, it knows the answer once every message is finished."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._messages: list[Part] = []
        self._places: dict[Part, int] = {}  # of messages, and of agents that answer: the order in which they opened

    def agent(self, lane: Part) -> None:
        """An agent was started."""
        if lane.start.answers:
            self._places[lane] = len(self._places)

    def message(self, part: Part) -> None:
        """A message was started: collect its text if it may be the answer."""
        if all(lane.start.answers for lane in self._parts.lanes(part)):
            part.text = []
            self._messages.append(part)
            self._places[part] = len(self._places)

    def failed(self, lane: Part) -> None:
        """An agent failed: what it said is no answer."""
        for part in self._messages:
            if lane in self._parts.lanes(part):
                part.text = None

    def answer(self) -> ev.Answer | None:
        """The answer; None when there is none."""
        parts = [part for part in self._messages if part.text is not None and part.state == CLOSED]
        if not parts:
            return None
        parts.sort(key=self._place)
        text = "".join(piece for part in parts for piece in part.text or ())
        digest = hashlib.sha256(text.encode()).hexdigest()
        return ev.Answer(message_ids=tuple(part.public for part in parts), length=len(text), sha256=digest)

    def _place(self, part: Part) -> tuple[int, ...]:
        """Agents that speak at once do not mix their texts here."""
        return tuple(self._places[each] for each in [*reversed(self._parts.lanes(part)), part])
