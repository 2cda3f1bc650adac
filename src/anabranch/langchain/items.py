"""What a graph's reader sees of a remote agent while its tool runs. Pure.

Each event of the agent is one item of the stream mode ``custom``::

    {"type": "a2a", "agent": "komodor", "callId": "call_1", "event": {"type": "text_delta", ...}}

``event`` is one of ``anabranch.events``, as JSON, and lawful: whatever starts is finished, ids are never used twice.
``agent`` is what the agent that it is about is called, which may be one inside the agent that was asked.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..events import ROOT, AgentStarted, Event, MessageStarted, RunStarted, TextDelta
from ..grammar import Grammar

Item = dict[str, Any]


class Items:
    """Those of one call. ``run_id`` begins the ids in its events: one that no other call has."""

    def __init__(self, run_id: str, call_id: str) -> None:
        self._grammar, self._call_id = Grammar(), call_id
        self._grammar.feed(RunStarted(run_id=run_id, thread_id=run_id))
        self._names: dict[str, str] = {}
        self._asked = ""  # the agent that the tool asks
        self._aside: set[str] = set()  # its messages that are no part of the answer

    def feed(self, event: Event) -> list[tuple[Item, str]]:
        """The items that ``event`` becomes, each with what it adds to the answer's text."""
        return [self._item(legal) for legal in self._grammar.feed(event) if legal.agent != ROOT]

    def _item(self, event: Event) -> tuple[Item, str]:
        if isinstance(event, AgentStarted):
            self._names[event.agent] = event.name
            self._asked = self._asked or event.agent
        name = self._names.get(event.agent, "")
        item = {"type": "a2a", "agent": name, "callId": self._call_id, "event": msgspec.to_builtins(event)}
        return item, self._added(event) if event.agent == self._asked else ""

    def _added(self, event: Event) -> str:
        if isinstance(event, MessageStarted) and event.phase == "progress":
            self._aside.add(event.message_id)
        return event.delta if isinstance(event, TextDelta) and event.message_id not in self._aside else ""
