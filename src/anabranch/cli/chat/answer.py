"""The answer's text, verbatim and in the order of its messages, and whether it is what the server promised. Pure.

It is the root agent's text, and that of sub-agents which our own servers say answer for it.

A message's phase says what it is: ``answer``, or ``narration`` and ``progress`` beside it. What is known to be beside
the answer is left out. Most models do not say before the end whether a text is the answer or comes before a tool call;
such a text (*undetermined*) is given out as it comes, so what is written may hold narration that only its end told of.
``text`` is the answer alone.

Of two messages that are open at once, the second one waits for the end of the first.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from typing import Any

Event = dict[str, Any]

_BESIDE = frozenset({"narration", "progress"})


class _Message:
    """One text: whose it is, its pieces, how many of them were given out, and what is known of it."""

    __slots__ = ("lane", "open", "phase", "pieces", "void", "waits", "written")

    def __init__(self, lane: str, phase: str) -> None:
        self.lane, self.phase, self.pieces, self.written = lane, phase, [""], 0
        self.open, self.void, self.waits = True, False, False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def rest(self) -> str:
        """What was not given out yet."""
        text = "".join(self.pieces[self.written :])
        self.written = len(self.pieces)
        return text


class Answer:
    """Feed it events; each gives the text that may be written now."""

    def __init__(self) -> None:
        self._answering = {""}  # the lanes whose text is the answer
        self._messages: dict[str, _Message] = {}
        self._waiting: deque[_Message] = deque()

    def feed(self, event: Event) -> str:
        """Take the next event."""
        kind = event["type"]
        if kind == "TEXT_MESSAGE_CONTENT":
            message = self._messages.get(event["messageId"])
            if message is None:
                return ""
            message.pieces.append(event["delta"])
        elif kind == "TEXT_MESSAGE_START":
            self._start(event)
        elif kind == "TEXT_MESSAGE_END" and event["messageId"] in self._messages:
            message = self._messages[event["messageId"]]
            message.open, message.phase = False, _phase(event) or message.phase
        elif kind in ("SUBAGENT_STARTED", "SUBAGENT_ERROR"):
            self._agent(event)
        elif kind == "CUSTOM":
            for id in voided(event):
                if id in self._messages:
                    self._messages[id].void, self._messages[id].open = True, False
        else:
            return ""
        return self._ready()

    def close(self) -> str:
        """What still waits: the stream has ended, lawfully or not."""
        for message in self._waiting:
            message.open = False
        return self._ready()

    @property
    def text(self) -> str:
        """The answer: every text that is not known to be something else."""
        kept = (message for message in self._messages.values() if message.phase not in _BESIDE and not message.void)
        return "".join(message.text for message in kept)

    @property
    def spoiled(self) -> bool:
        """Whether some of what was given out is void: the agent began again."""
        return any(message.void and "".join(message.pieces[: message.written]) for message in self._messages.values())

    def flaw(self, finished: Event) -> str | None:
        """What is wrong with the text that was read, by the promise of our own servers in RUN_FINISHED."""
        promised = ours(finished).get("answer")
        if not isinstance(promised, dict):
            return None
        text = "".join(self._messages[id].text for id in promised["messageIds"] if id in self._messages)
        if len(text) == promised["length"] and hashlib.sha256(text.encode()).hexdigest() == promised["sha256"]:
            return None
        return f"the answer that was read has {len(text)} characters and is not the one of {promised['length']} sent"

    def _agent(self, event: Event) -> None:
        lane = event["subagentRunId"]
        if event["type"] == "SUBAGENT_STARTED":
            if ours(event).get("answers") and (event.get("parentSubagentRunId") or "") in self._answering:
                self._answering.add(lane)
            return
        for message in self._messages.values():
            if message.lane == lane:  # one that fails has not answered
                message.open, message.phase = False, "progress"

    def _start(self, event: Event) -> None:
        id = event["messageId"]
        lane = event.get("subagentRunId") or ""
        if lane not in self._answering or event.get("role", "assistant") != "assistant":
            return
        known = self._messages.get(id)
        if known is not None:  # other servers open a message again to go on with it
            known.open = True
        else:
            known = self._messages[id] = _Message(lane, _phase(event))
        if not known.waits:
            known.waits = True
            self._waiting.append(known)

    def _ready(self) -> str:
        out: list[str] = []
        while self._waiting:
            first = self._waiting[0]
            if not first.void and (first.phase not in _BESIDE or first.written):
                out.append(first.rest())
            if first.open and first.phase not in _BESIDE:
                break
            self._waiting.popleft().waits = False
        return "".join(out)


def ours(event: Event) -> dict[str, Any]:
    """What our own servers note on an event."""
    noted = (event.get("metadata") or {}).get("anabranch")
    return noted if isinstance(noted, dict) else {}


def voided(event: Event) -> Iterable[str]:
    """The messages and calls that a CUSTOM event of our own servers declares void."""
    value = event.get("value")
    if not isinstance(value, dict):
        return ()
    if event.get("name") == "anabranch.message_reset":
        return (str(value.get("messageId")),)
    if event.get("name") == "anabranch.run_resumed":
        return (*value.get("voidedMessageIds", ()), *value.get("voidedToolCallIds", ()))
    return ()


def _phase(event: Event) -> str:
    return str(ours(event).get("phase", ""))
