"""Log entries to AG-UI 1.0 server-sent events. Pure.

The grammar has already ordered the run, closed what was open and minted the ids, so each event is written by itself:

| event | written as |
|---|---|
| run | RUN_STARTED; RUN_FINISHED (the answer's ids, length and hash in ``metadata``) or RUN_ERROR |
| sub-agent | SUBAGENT_STARTED, SUBAGENT_FINISHED or SUBAGENT_ERROR (also when cancelled: AG-UI has no such outcome) |
| message, reasoning, tool call | START, CONTENT or ARGS, END; a turn without text has a ``parentMessageId`` too |
| tool result | TOOL_CALL_RESULT with text; AG-UI has no error field: the text says it and ``metadata`` marks it |
| state, activity, step | their own events; a *sub-agent's* state is CUSTOM: clients would take it for the root's |
| interrupt | in the outcome of RUN_FINISHED |
| usage | in the terminal event |
| the rest | CUSTOM, ``anabranch.*`` |

What AG-UI has no field for is under ``metadata.anabranch``. Clients replace that object whole with each event about
a message, so each event says all of it. *CHUNK, RAW and ``rawEvent`` are never written, nor is any null.

Integers that JavaScript would round (beyond 2**53 - 1) are written as strings: a client then shows the right digits.
Token counts are capped there instead, since a string would end the run.

The steps profile is for clients that do not know sub-agents: a lane is a step with a name of its own, its messages have
the agent's name, and ``metadata.anabranch.agent`` says which invocation. Every profile has as many frames for an entry
as the others, so a cursor outlives a change of client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ... import events as ev
from ...errors import describe
from ...log._base import Entry
from ...transports.sse import frame
from .._json import to_json
from .payload import event
from .profile import Profile
from .told import Told
from .write import Payload, Writer

VERSION = 1
"""Of the frames: a state of another version is none."""

_HEADED = {ev.MessageFinished: "message_id", ev.ReasoningFinished: "reasoning_id", ev.ToolCallFinished: "call_id"}
_to_text = msgspec.json.Encoder().encode
_told = msgspec.json.Decoder(Told).decode


def reader(profile: Profile) -> str:
    """The kind of reader that an encoder for ``profile`` is; its states are kept under this name."""
    return f"agui/{VERSION}:{'modern' if profile.modern else 'older'}:{profile.subagents}"


class AguiEncoder:
    """See ``sinks._base.Encoder``. Its state is what was told, and how open texts begin, which follows from that."""

    def __init__(self, profile: Profile, told: Told | None = None) -> None:
        self._told = told or Told.nothing()
        self._writer = Writer(profile, self._told)
        self._heads: dict[str, bytes] = {}
        self._cursor = b""
        if told and told.run_id:
            self._begin(told.run_id)

    @classmethod
    def restored(cls, profile: Profile, state: bytes) -> AguiEncoder | None:
        """The encoder that gave ``state``, for a profile with the same ``reader``; None when that is no state."""
        try:
            return cls(profile, _told(state))
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None

    @property
    def ended(self) -> bool:
        """Whether the last frame has been written."""
        return self._told.ended

    def state(self) -> bytes:
        """What ``restored`` goes on from; the same for whoever was fed the same entries."""
        return _to_text(self._told)

    def feed(self, entry: Entry) -> Sequence[bytes]:
        """The SSE frames of ``entry``: LF only, ``id: {run_id}:{seq}.{part}``, the entry's time in milliseconds."""
        fact = entry.event
        try:
            if type(fact) is ev.TextDelta:
                id = fact.message_id
            elif type(fact) is ev.ToolArgsDelta:
                id = fact.call_id
            elif type(fact) is ev.ReasoningDelta:
                id = fact.reasoning_id
            else:
                return self._frames(fact, entry)
            head = self._heads.get(id) or self._head(fact, id)
            # Built in one step: a token is most of what a run is.
            data = b'%b%d.0\ndata: %b%b,"timestamp":%d}\n\n'
            return (data % (self._cursor, entry.seq, head, _to_text(fact.delta), entry.at_ms),) if head else ()
        except Exception:
            return self._give_up(entry)

    def close(self, error: BaseException | None = None) -> Sequence[bytes]:
        """RUN_ERROR without a cursor, for a client that would take a cut stream for a success."""
        if self.ended:
            return ()
        self._end()
        flaw = describe(error) if error else None
        code, text = (flaw.code, str(flaw)) if flaw else ("no_end", "The record of this run stops before its end.")
        return (b"data: %b\n\n" % to_json(event("RUN_ERROR", message=text, code=code)),)

    def _frames(self, fact: ev.Event, entry: Entry) -> Sequence[bytes]:
        if self.ended:
            return ()
        if isinstance(fact, ev.RunStarted):
            self._begin(fact.run_id)
        frames = [self._frame(payload, entry, number) for number, payload in enumerate(self._writer.write(fact))]
        if isinstance(fact, ev.Terminal):
            self._end()
        elif field := _HEADED.get(type(fact)):
            self._heads.pop(getattr(fact, field), None)
        return frames

    def _frame(self, payload: Payload, entry: Entry, number: int) -> bytes:
        data = to_json(payload | {"timestamp": entry.at_ms})
        return frame(data, f"{self._told.run_id}:{entry.seq}.{number}") if self._cursor else b"data: %b\n\n" % data

    def _give_up(self, entry: Entry) -> Sequence[bytes]:
        if self.ended:
            return ()
        self._end()
        text = f"Event {entry.seq} of this run ({type(entry.event).__name__}) cannot be written as AG-UI."
        return (self._frame(event("RUN_ERROR", message=text, code="ENCODING_ERROR"), entry, 0),)

    def _begin(self, run_id: str) -> None:
        if not run_id.isprintable():
            raise ValueError("a run id with a line break would break the frames")
        self._cursor = f"id: {run_id}:".encode()

    def _end(self) -> None:
        self._told.ended = True
        self._heads.clear()

    def _head(self, fact: Any, id: str) -> bytes:
        """How each frame of an open text begins, up to its delta."""
        if self.ended:
            return b""
        if not self._cursor:
            raise ValueError("the run has not started")
        head = self._heads[id] = _to_text(self._writer.fragment(fact, id))[:-1] + b',"delta":'
        return head
