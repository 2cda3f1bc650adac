"""Log entries to A2A server-sent events, for clients of 1.0 and 0.3. Pure.

A stream is a Task, then updates of it, the last of which says how it ends or what it waits for:

| event | written as |
|---|---|
| run | the Task (SUBMITTED) and a status WORKING; at the end COMPLETED, FAILED, CANCELED, INPUT_ or AUTH_REQUIRED |
| message of the root agent | an artifact with its id; ``append`` from the second piece on, then ``lastChunk`` |
| part of such a message | a part of its artifact |
| such a message that was replaced | its artifact again, empty (``append`` absent), with ``void`` in its metadata |
| interrupt | the message of the last status: a text, and data with the schema and who asks |
| result of the run | an artifact with one data part |

Only clients that asked for the attribution extension are told the rest, in the same forms, with ``metadata`` under the
extension's address that says what each is (``kind``) and whose (``agent``: id, name, parent, tool call):

| event | written as |
|---|---|
| message of a sub-agent, reasoning, tool call (its text: the arguments), tool output and result | an artifact |
| annotation | a data part of its message's artifact |
| start and end of a sub-agent, routing | ``metadata`` of a status update; the state stays |

A2A has no word for state, activities, steps, usage and custom events.

``metadata.anabranch`` is for every client: the cursor of each frame, the phase of a message, which artifacts are the
answer (its ids, length and hash), the code of a failure. A text is a frame for each piece, as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ... import events as ev
from ...errors import describe
from ...log._base import Entry
from ...request import Message
from . import legacy
from .payload import Payload, error_info, to_json, user_message
from .profile import NAMESPACE, Profile
from .told import Told
from .write import Writer

VERSION = 1
"""Of the frames: a state of another version is none."""

_ENDS = {ev.MessageFinished: "message_id", ev.ReasoningFinished: "reasoning_id", ev.ToolCallFinished: "call_id"}
_to_text = msgspec.json.Encoder().encode


def reader(profile: Profile) -> str:
    """The kind of reader that an encoder for ``profile`` is, whatever its envelope; its states are kept under this."""
    return f"a2a/{VERSION}:{'caipe' if profile.caipe else 'attributed' if profile.attributed else 'plain'}"


class Envelope(msgspec.Struct, frozen=True):
    """What is around each event in ``data``: the response to the JSON-RPC request ``id`` (its JSON), or nothing.

    It also tells the dialects of 0.3 apart: its REST binding has another JSON than its JSON-RPC binding.
    """

    id: bytes | None = None

    @classmethod
    def rpc(cls, id: str | int | float | None) -> Envelope:
        """The response to the JSON-RPC request ``id``."""
        return cls(_to_text(id))

    @classmethod
    def rest(cls) -> Envelope:
        """The bare event."""
        return cls()

    def around(self, said: bytes, member: str = "result") -> bytes:
        """``said``, which is JSON, with what is around it."""
        if self.id is None:
            return said
        return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (self.id, member.encode(), said)

    def error(self, text: str, **metadata: str) -> bytes:
        """An internal error (JSON-RPC code -32603) in the form of the binding."""
        info = [error_info("INTERNAL_ERROR", **metadata)]
        if self.id is None:
            return to_json({"error": {"code": 500, "status": "INTERNAL", "message": text, "details": info}})
        return self.around(to_json({"code": -32603, "message": text, "data": info}), "error")


def framed(said: Payload, cursor: str, profile: Profile, envelope: Envelope) -> bytes:
    """The frame of a ``StreamResponse`` of 1.0, for any client."""
    [(kind, body)] = said.items()
    metadata = body.get("metadata", {})
    ours = metadata.get(NAMESPACE, {}) | {"cursor": cursor}
    said = {kind: body | {"metadata": metadata | {NAMESPACE: ours}}}
    return b"id: %b\ndata: %b\n\n" % (cursor.encode(), envelope.around(to_json(_dialect(profile, envelope)(said))))


def _dialect(profile: Profile, envelope: Envelope) -> Callable[[Payload], Payload]:
    if profile.version == "1.0":
        return lambda said: said
    return legacy.rest_event if envelope.id is None else legacy.event


class A2aEncoder:
    """See ``sinks._base.Encoder``. Its state is what was told, and how open texts begin, which follows from that.

    ``given`` are the user's messages that started the run: the history in its Task. A task that goes on has one
    ``before`` this run, what ``TaskFold.task`` says of its earlier runs in 1.0, and then begins with that. Neither is
    part of the state.
    """

    _kind: type[Told] = Told

    def __init__(
        self,
        profile: Profile,
        envelope: Envelope,
        given: Sequence[Message] = (),
        before: Mapping[str, Any] | None = None,
        told: Told | None = None,
    ) -> None:
        self._profile, self._envelope, self._given, self._before = profile, envelope, given, before or {}
        self._told = told or self._kind.nothing()
        self._writer = self._writing()
        self._heads: dict[str, tuple[bytes, bytes, bytes] | tuple[()]] = {}
        self._cursor = b""
        if told and told.run_id:
            self._start(told.run_id)

    @classmethod
    def restored(cls, profile: Profile, envelope: Envelope, state: bytes) -> A2aEncoder | None:
        """The encoder that gave ``state``, for a profile with the same ``reader``; None when that is no state."""
        try:
            return cls(profile, envelope, told=msgspec.json.decode(state, type=cls._kind))
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
        """The SSE frames of ``entry``: LF only, ``id: {run_id}:{seq}.{part}``."""
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
            head = self._heads.get(id)
            if head is None:
                return self._first(fact, id, entry)
            if not head:
                return ()
            # Built in one step: a token is most of what a run is.
            before, between, after = head
            seq = entry.seq
            return (b"%b%d.0\n%b%b%b%d.0%b" % (self._cursor, seq, before, _to_text(fact.delta), between, seq, after),)
        except Exception:
            return self._give_up(entry)

    def close(self, error: BaseException | None = None) -> Sequence[bytes]:
        """``event: error`` with the binding's own error, for a client that would take a cut stream for an end.

        Not a FAILED status: the task may well go on, and the client may subscribe to it again. Every official client
        raises this.
        """
        if self.ended:
            return ()
        self._end()
        if error is None:
            return (self._error("The record of this task stops before its end.", "no_end"),)
        flaw = describe(error)
        return (self._error(str(flaw), flaw.code, retryable=flaw.retryable),)

    def _frames(self, fact: ev.Event, entry: Entry) -> Sequence[bytes]:
        if self.ended:
            return ()
        said = self._writer.write(fact, entry.at_ms)
        if isinstance(fact, ev.RunStarted):
            self._start(fact.run_id)
            said = [{"task": self._task(said[0]["task"])}, *said[1:]]
        frames = [self._frame(payload, entry, number) for number, payload in enumerate(said)]
        if isinstance(fact, ev.Terminal):
            self._end()
        elif field := _ENDS.get(type(fact)):
            self._heads.pop(getattr(fact, field), None)
        return frames

    def _writing(self) -> Writer:
        return Writer(self._profile.attributed, self._told)

    def _task(self, task: Payload) -> Payload:
        """The task as this run finds it."""
        asked = self._before.get("status", {}).get("message")
        given = [user_message(message, task["id"], task["contextId"]) for message in self._given]
        history = [*self._before.get("history", ()), *([asked] if asked else ()), *given]
        told = {key: value for key, value in self._before.get("metadata", {}).items() if key != NAMESPACE}
        kept = {"history": history, "artifacts": self._before.get("artifacts"), "metadata": told}
        return task | {field: value for field, value in kept.items() if value}

    def _first(self, fact: Any, id: str, entry: Entry) -> Sequence[bytes]:
        """The first piece of a text, as far as this encoder knows; it also decides how the others are written."""
        if self.ended:
            return ()
        if not self._cursor:
            raise ValueError("the run has not started")
        said = self._writer.fragment(fact, id)
        if said is None:
            self._heads[id] = ()
            return ()
        self._heads[id] = self._head(id)
        return (self._frame(said, entry, 0),)

    def _head(self, id: str) -> tuple[bytes, bytes, bytes]:
        """How each frame of an open text goes, around its delta and its seq."""
        said = self._writer.fragment(ev.TextDelta(message_id=id, delta=""), id)
        assert said is not None  # it has begun
        line = framed(said, "", self._profile, self._envelope).partition(b"\n")[2]
        # No string in the JSON can hold these: its quotation marks are escaped.
        before, text, rest = line.partition(b'"text":""')
        between, cursor, after = rest.partition(b'"cursor":""')
        run_id = _to_text(f"{self._told.run_id}:")[:-1]
        return before + text[:-2], between + cursor[:-2] + run_id, b'"' + after

    def _frame(self, said: Payload, entry: Entry, number: int) -> bytes:
        return framed(said, f"{self._told.run_id}:{entry.seq}.{number}", self._profile, self._envelope)

    def _error(self, text: str, code: str, retryable: bool = False) -> bytes:
        said = self._envelope.error(text, code=code, **({"retryable": "true"} if retryable else {}))
        return b"event: error\ndata: %b\n\n" % said

    def _give_up(self, entry: Entry) -> Sequence[bytes]:
        if self.ended:
            return ()
        self._end()
        text = f"Event {entry.seq} of this run ({type(entry.event).__name__}) cannot be written as A2A."
        place = b"%b%d.0\n" % (self._cursor, entry.seq) if self._cursor else b""
        return (place + self._error(text, "encoding_error"),)

    def _start(self, run_id: str) -> None:
        if not run_id.isprintable():
            raise ValueError("a run id with a line break would break the frames")
        self._cursor = f"id: {run_id}:".encode()

    def _end(self) -> None:
        self._told.ended = True
        self._heads.clear()
