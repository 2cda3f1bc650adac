"""What a run adds to its conversation, folded from its events. Pure.

An AG-UI client that applied the same run holds the same messages: same ids, same text, tool calls in the message of
their turn, results right behind the message that called. Clients send them back, and the middle recognises them by
these ids. What clients hold beyond that is *void*: what was shown and then replaced (``MessageReset``, ``RunResumed``),
with its tool calls and their results, and a message that opened and got nothing, which no provider would take back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

import msgspec

from . import events as ev
from .request import Asked, Message, ToolCall

_ROLES = frozenset({"developer", "system", "user"})
_encode = msgspec.json.Encoder().encode


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run left behind: its messages in order, ids of messages that are void, open questions.

    ``stand_ins`` are the ids of those tool messages that say, in the client's place, that a call left to it has failed.
    If the client has a result after all, that one counts. ``contexts`` are those of remote agents, by name.
    """

    messages: tuple[Message, ...] = ()
    void: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    stand_ins: tuple[str, ...] = ()
    contexts: dict[str, str] = {}


class Transcript:
    """Feed it a run's legal events, in order; ``outcome`` may be asked at any time and says what there is so far."""

    def __init__(self) -> None:
        self._messages: dict[str, _Written] = {}
        self._pieces: dict[str, list[str]] = {}
        """The text of each message, the arguments of each call."""
        self._callers: dict[str, _Written] = {}
        """Who made a call, by the call's id."""
        self._void: list[str] = []
        self._asked: dict[str, Asked] = {}
        self._agents: dict[str, ev.AgentStarted] = {}
        self._contexts: dict[str, str] = {}

    def feed(self, event: ev.Event) -> None:
        """Take the next event."""
        if type(event) is ev.TextDelta:
            self._pieces[event.message_id].append(event.delta)
        elif type(event) is ev.ToolArgsDelta:
            self._pieces[event.call_id].append(event.delta)
        elif take := _TAKES.get(type(event)):
            take(self, event)

    def outcome(self) -> Outcome:
        """What the run has left behind up to now, open messages and unanswered calls included."""
        messages: list[Message] = []
        void = [*self._void]
        stand_ins: list[str] = []
        for written in self._messages.values():
            message = written.message(self._pieces)
            if not (message.content or message.tool_calls or message.parts):
                void.append(message.id)
                continue
            messages += [message, *written.results.values()]
            stand_ins += written.stand_ins()
        return Outcome(
            messages=tuple(messages),
            void=tuple(void),
            asked=tuple(self._asked.values()),
            stand_ins=tuple(stand_ins),
            contexts=dict(self._contexts),
        )

    # --- messages ----------------------------------------------------------------------------------------------

    def _message_started(self, event: ev.MessageStarted) -> None:
        if event.message_id not in self._messages:  # else a call has opened it
            role = event.role if event.role in _ROLES else "assistant"
            self._open(_Written(event.message_id, role, event.agent, event.name))

    def _open(self, written: _Written) -> _Written:
        self._messages[written.id] = written
        self._pieces[written.id] = []
        return written

    def _message_finished(self, event: ev.MessageFinished) -> None:
        self._join(event.message_id)

    def _join(self, id: str) -> None:
        """One string instead of many: a run may go on for long after this."""
        pieces = self._pieces[id]
        pieces[:] = ["".join(pieces)]

    def _message_reset(self, event: ev.MessageReset) -> None:
        self._empty(self._messages[event.message_id])

    def _part_added(self, event: ev.PartAdded) -> None:
        self._messages[event.message_id].parts.append(event.part)

    def _run_resumed(self, event: ev.RunResumed) -> None:
        for id in event.voided_message_ids:
            if written := self._messages.get(id):  # not a message: reasoning, which is in no transcript
                self._empty(written)
        self._drop(event.voided_call_ids)

    def _empty(self, written: _Written) -> None:
        self._pieces[written.id].clear()
        written.parts.clear()
        self._drop([*written.calls])

    # --- tool calls --------------------------------------------------------------------------------------------

    def _tool_call_started(self, event: ev.ToolCallStarted) -> None:
        id = event.message_id
        caller = self._messages.get(id)
        if caller is None or caller.role != "assistant":
            caller = self._open(_Written(event.call_id if caller else id, "assistant", event.agent))
        caller.calls[event.call_id] = event
        self._callers[event.call_id] = caller
        self._pieces[event.call_id] = []

    def _tool_call_finished(self, event: ev.ToolCallFinished) -> None:
        self._join(event.call_id)

    def _tool_returned(self, event: ev.ToolReturned) -> None:
        caller = self._callers.get(event.call_id)
        if caller is None:
            self._void.append(event.message_id)  # its call is void
            return
        text = result_text(event)
        caller.results[event.call_id] = Message(
            id=event.message_id,
            role="tool",
            content=text,
            parts=tuple(result_parts(event)),
            tool_call_id=event.call_id,
            error=(text if event.error is None else event.error) if event.is_error else None,
            agent=event.agent,
        )

    def _drop(self, call_ids: Iterable[str]) -> None:
        for id in call_ids:
            if caller := self._callers.pop(id, None):
                del caller.calls[id]
                if result := caller.results.pop(id, None):
                    self._void.append(result.id)

    # --- agents and questions ----------------------------------------------------------------------------------

    def _agent_started(self, event: ev.AgentStarted) -> None:
        self._agents[event.agent] = event

    def _remote_known(self, event: ev.RemoteKnown) -> None:
        if event.remote.context_id:
            # The first one goes on from the run before; an agent that was asked twice at once has another beside it.
            self._contexts.setdefault(self._name(event.agent), event.remote.context_id)

    def _interrupted(self, event: ev.Interrupted) -> None:
        id = event.interrupt_id
        self._asked[id] = Asked(
            interrupt_id=id,
            origin_id=event.origin_id,
            agent=event.agent,
            name=str((event.metadata or {}).get("agent") or self._name(event.agent)),
            call_id=self._root_call(event),
            reason=event.reason,
            message=event.message or "",
            schema=event.schema,
            remote=event.remote,
        )

    def _name(self, agent: str) -> str:
        started = self._agents.get(agent)
        return started.name if started else ""

    def _root_call(self, event: ev.Interrupted) -> str:
        """What the root's source calls the call of it that the question came up in."""
        agent, call_id = event.agent, event.call_id
        while lane := self._agents.get(agent):
            agent, call_id = lane.parent, lane.call_id
        caller = self._callers.get(call_id or "")
        return caller.calls[call_id].origin_id if caller and call_id else ""

    def _interrupt_resolved(self, event: ev.InterruptResolved) -> None:
        self._asked.pop(event.interrupt_id, None)  # or it is an earlier run's

    def _run_finished(self, event: ev.RunFinished) -> None:
        if event.outcome != "interrupted":
            self._asked.clear()

    def _run_failed(self, event: ev.RunFailed) -> None:
        self._asked.clear()  # nobody was told of them, and what asked is gone


_TAKES: dict[type[Any], Callable[[Transcript, Any], None]] = {
    kind: take
    for kind in ev.EVENT_TYPES
    if (take := getattr(Transcript, f"_{kind.__struct_config__.tag}", None)) is not None
}
"""How each event is taken: by the method with its tag. Those that have none say nothing of the conversation."""


class _Written:
    """A message on its way, with its calls and their results, by the id of the call."""

    __slots__ = ("agent", "calls", "id", "name", "parts", "results", "role")

    def __init__(self, id: str, role: str, agent: str, name: str | None = None) -> None:
        self.id, self.role, self.agent, self.name = id, role, agent, name
        self.parts: list[ev.Part] = []
        self.calls: dict[str, ev.ToolCallStarted] = {}
        self.results: dict[str, Message] = {}

    def message(self, pieces: dict[str, list[str]]) -> Message:
        """The message so far."""
        return Message(
            id=self.id,
            role=cast(Literal["assistant"], self.role),
            content="".join(pieces[self.id]),
            parts=tuple(self.parts),
            name=self.name,
            tool_calls=tuple(
                ToolCall(id=id, name=call.name, arguments="".join(pieces[id]), origin_id=call.origin_id)
                for id, call in self.calls.items()
            ),
            agent=self.agent,
        )

    def stand_ins(self) -> list[str]:
        """Ids of the results that only the client could have had."""
        failed = {id: result for id, result in self.results.items() if result.error is not None}
        return [result.id for id, result in failed.items() if self.calls[id].executor == "client"]


def result_text(returned: ev.ToolReturned) -> str:
    """A tool's result as one string, which is what clients are shown. An error's text is in it."""
    text = returned.content or "\n".join(
        item.text if item.kind == "text" else _encode(item.data).decode()
        for item in returned.parts
        if item.kind != "file"
    )
    error = returned.error or ""
    return text if error in text else f"{text}\n{error}".lstrip("\n")


def result_parts(returned: ev.ToolReturned) -> list[ev.Part]:
    """The parts of a tool's result that ``result_text`` does not show."""
    shown = ("text",) if returned.content else ("text", "json")
    return [item for item in returned.parts if item.kind not in shown]
