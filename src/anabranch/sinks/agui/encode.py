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

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ... import events as ev
from ...errors import describe
from ...log._base import Entry
from ...transports.sse import frame
from .payload import NAMESPACE, event, interrupt, notes, part, result_parts, result_text, to_json, usages
from .profile import PROTOCOL_VERSION, Profile

Payload = dict[str, Any]

_ROLES = frozenset({"developer", "system", "assistant", "user"})
_FRAGMENTS = {
    ev.TextDelta: ("TEXT_MESSAGE_CONTENT", "messageId"),
    ev.ToolArgsDelta: ("TOOL_CALL_ARGS", "toolCallId"),
    ev.ReasoningDelta: ("REASONING_MESSAGE_CONTENT", "messageId"),
}
_to_text = msgspec.json.Encoder().encode


class AguiEncoder:
    """See ``sinks._base.Encoder``. Its state: the run's ids, open lanes, steps and questions, how open texts begin."""

    def __init__(self, profile: Profile) -> None:
        self.ended = False
        self._modern = profile.modern
        self._native = profile.subagents == "native"
        self._run_id = self._thread_id = ""
        self._cursor = b""
        self._heads: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self._steps: dict[tuple[str, str | None], str] = {}
        self._asked: dict[str, ev.Interrupted] = {}

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

    # --- frames ------------------------------------------------------------------------------------------------

    def _frames(self, fact: ev.Event, entry: Entry) -> Sequence[bytes]:
        if self.ended:
            return ()
        return [self._frame(payload, entry, number) for number, payload in enumerate(_WRITERS[type(fact)](self, fact))]

    def _frame(self, payload: Payload, entry: Entry, number: int) -> bytes:
        data = to_json(payload | {"timestamp": entry.at_ms})
        return frame(data, f"{self._run_id}:{entry.seq}.{number}") if self._cursor else b"data: %b\n\n" % data

    def _give_up(self, entry: Entry) -> Sequence[bytes]:
        if self.ended:
            return ()
        self._end()
        text = f"Event {entry.seq} of this run ({type(entry.event).__name__}) cannot be written as AG-UI."
        return (self._frame(event("RUN_ERROR", message=text, code="ENCODING_ERROR"), entry, 0),)

    def _end(self) -> None:
        self.ended = True
        self._heads.clear()

    def _head(self, fact: Any, id: str) -> bytes:
        """How each frame of an open text begins, up to its delta."""
        if self.ended:
            return b""
        if not self._cursor:
            raise ValueError("the run has not started")
        kind, field = _FRAGMENTS[type(fact)]
        payload = event(kind, **{field: id}, subagentRunId=self._owner(fact.agent))
        head = self._heads[id] = _to_text(payload)[:-1] + b',"delta":'
        return head

    # --- whose it is -------------------------------------------------------------------------------------------

    def _owner(self, agent: str) -> str | None:
        return agent or None if self._native else None

    def _of(self, fact: Any, kind: str, said: Payload | None = None, /, **fields: Any) -> Payload:
        """An event of some agent. ``said`` is for its metadata; without sub-agents, the agent is named there."""
        said = said or {}
        if fact.agent and not self._native:
            said = {"agent": fact.agent, "agentName": self._names.get(fact.agent)} | said
        return event(kind, **fields, subagentRunId=self._owner(fact.agent), metadata=notes(**said))

    def _ours(self, fact: Any, name: str, /, **value: Any) -> list[Payload]:
        value = {field: item for field, item in value.items() if item is not None}
        return [self._of(fact, "CUSTOM", name=f"{NAMESPACE}.{name}", value=value)]

    def _open_step(self, agent: str, name: str | None) -> str:
        """What to call a step that opens. Clients that know no owner of a step need a name that no open step has."""
        label = name or ""
        if not self._native:
            label = ": ".join(filter(None, (self._names.get(agent, ""), label)))
            taken, plain, number = set(self._steps.values()), label, 1
            while label in taken:
                number += 1
                label = f"{plain} #{number}"
        self._steps[agent, name] = label
        return label

    # --- run and agents ----------------------------------------------------------------------------------------

    def _run_started(self, fact: ev.RunStarted) -> list[Payload]:
        if not fact.run_id.isprintable():
            raise ValueError("a run id with a line break would break the frames")
        self._run_id, self._thread_id = fact.run_id, fact.thread_id
        self._cursor = f"id: {fact.run_id}:".encode()
        said = {"agentName": fact.agent_name or None, "taskId": fact.task_id or None, "continues": fact.continues}
        ids = {"threadId": fact.thread_id, "runId": fact.run_id, "parentRunId": fact.parent_run_id}
        return [event("RUN_STARTED", **ids, protocolVersion=PROTOCOL_VERSION, metadata=notes(**said))]

    def _run_finished(self, fact: ev.RunFinished) -> list[Payload]:
        self._end()
        questions = [self._asked[id] for id in fact.interrupt_ids if id in self._asked]
        if fact.outcome == "cancelled" and not self._modern:
            # An older client refuses this outcome, and would take its absence for success.
            return [self._error(fact, "cancelled", "The run was cancelled.")]
        if fact.outcome == "interrupted" and not questions:
            return [self._error(fact, "no_question", "The run stopped to ask something and did not say what.")]
        answer = fact.answer
        said = answer and {"messageIds": answer.message_ids, "length": answer.length, "sha256": answer.sha256}
        fields = {
            "outcome": self._outcome(fact, questions),
            "result": fact.result if fact.outcome == "success" else None,
            "usage": usages(fact.usage),
            "metadata": notes(answer=said),
        }
        return [event("RUN_FINISHED", threadId=self._thread_id, runId=self._run_id, **fields)]

    def _outcome(self, fact: ev.RunFinished, questions: list[ev.Interrupted]) -> Payload | None:
        if fact.outcome == "interrupted":
            return {
                "type": "interrupt",
                "interrupts": [interrupt(asked, self._owner(asked.agent)) for asked in questions],
            }
        if not self._modern:
            return None  # success; an older client refuses a list of pending calls
        pending = {"pendingToolCallIds": fact.pending_call_ids} if fact.pending_call_ids else {}
        return {"type": fact.outcome} | pending

    def _run_failed(self, fact: ev.RunFailed) -> list[Payload]:
        self._end()
        return [
            self._error(fact, fact.code, fact.message, side=fact.side, retryable=fact.retryable, partial=fact.partial)
        ]

    def _error(self, fact: ev.Terminal, code: str, message: str, **said: Any) -> Payload:
        return event("RUN_ERROR", message=message, code=code, usage=usages(fact.usage), metadata=notes(**said))

    def _run_resumed(self, fact: ev.RunResumed) -> list[Payload]:
        voided = {"voidedMessageIds": fact.voided_message_ids, "voidedToolCallIds": fact.voided_call_ids}
        return self._ours(fact, "run_resumed", epoch=fact.epoch, **voided)

    def _usage_reported(self, fact: ev.UsageReported) -> list[Payload]:
        return []  # summed in the terminal event

    def _agent_started(self, fact: ev.AgentStarted) -> list[Payload]:
        self._names[fact.agent] = fact.name
        parents = {"parentSubagentRunId": fact.parent or None, "parentToolCallId": fact.call_id}
        if self._native:
            return [self._of(fact, "SUBAGENT_STARTED", {"continues": fact.continues}, name=fact.name, **parents)]
        parents |= {"continues": fact.continues}
        return [self._of(fact, "STEP_STARTED", parents, stepName=self._open_step(fact.agent, None))]

    def _agent_finished(self, fact: ev.AgentFinished) -> list[Payload]:
        if not self._native:
            return [self._lane_closed(fact, outcome=fact.outcome)]
        if fact.outcome == "cancelled":
            return [self._of(fact, "SUBAGENT_ERROR", message="The agent was cancelled.", code="cancelled")]
        outcome: Payload = {"type": fact.outcome}
        if fact.outcome == "suspended":
            outcome["interruptIds"] = [id for id, asked in self._asked.items() if asked.agent == fact.agent]
        return [self._of(fact, "SUBAGENT_FINISHED", outcome=outcome)]

    def _agent_failed(self, fact: ev.AgentFailed) -> list[Payload]:
        if not self._native:
            return [self._lane_closed(fact, outcome="failed", code=fact.code, message=fact.message)]
        return [self._of(fact, "SUBAGENT_ERROR", message=fact.message, code=fact.code)]

    def _lane_closed(self, fact: Any, **said: Any) -> Payload:
        return self._of(fact, "STEP_FINISHED", said, stepName=self._steps.pop((fact.agent, None)))

    # --- messages and reasoning --------------------------------------------------------------------------------

    def _message_started(self, fact: ev.MessageStarted) -> list[Payload]:
        role = fact.role if fact.role in _ROLES else "assistant"
        name = fact.name or (None if self._native else self._names.get(fact.agent))
        return [self._of(fact, "TEXT_MESSAGE_START", _phase(fact), messageId=fact.message_id, role=role, name=name)]

    def _message_finished(self, fact: ev.MessageFinished) -> list[Payload]:
        self._heads.pop(fact.message_id, None)
        said = _phase(fact) | {"finishReason": fact.finish_reason}
        return [self._of(fact, "TEXT_MESSAGE_END", said, messageId=fact.message_id)]

    def _message_reset(self, fact: ev.MessageReset) -> list[Payload]:
        said = {"supersededBy": fact.superseded_by or None, "reason": fact.reason or None}
        return self._ours(fact, "message_reset", messageId=fact.message_id, **said)

    def _part_added(self, fact: ev.PartAdded) -> list[Payload]:
        return self._ours(fact, "part", messageId=fact.message_id, part=part(fact.part))

    def _annotated(self, fact: ev.Annotated) -> list[Payload]:
        return self._ours(fact, "annotation", messageId=fact.message_id, annotation=fact.annotation)

    def _reasoning_started(self, fact: ev.ReasoningStarted) -> list[Payload]:
        id = fact.reasoning_id
        opened = self._of(fact, "REASONING_MESSAGE_START", messageId=id, role="reasoning")
        return [self._of(fact, "REASONING_START", messageId=id), opened]

    def _reasoning_finished(self, fact: ev.ReasoningFinished) -> list[Payload]:
        id = fact.reasoning_id
        self._heads.pop(id, None)
        out = [self._of(fact, "REASONING_MESSAGE_END", messageId=id), self._of(fact, "REASONING_END", messageId=id)]
        if fact.encrypted is not None:
            kept = {"subtype": "message", "entityId": id, "encryptedValue": fact.encrypted}
            out.insert(1, self._of(fact, "REASONING_ENCRYPTED_VALUE", **kept))
        return out

    # --- tool calls --------------------------------------------------------------------------------------------

    def _tool_call_started(self, fact: ev.ToolCallStarted) -> list[Payload]:
        ids = {"toolCallId": fact.call_id, "parentMessageId": fact.message_id or None}
        return [self._of(fact, "TOOL_CALL_START", toolCallName=fact.name, **ids)]

    def _tool_call_finished(self, fact: ev.ToolCallFinished) -> list[Payload]:
        self._heads.pop(fact.call_id, None)
        return [self._of(fact, "TOOL_CALL_END", toolCallId=fact.call_id)]

    def _tool_output_delta(self, fact: ev.ToolOutputDelta) -> list[Payload]:
        return self._ours(fact, "tool_output", toolCallId=fact.call_id, content=fact.content)

    def _tool_returned(self, fact: ev.ToolReturned) -> list[Payload]:
        said = {"isError": True, "error": fact.error} if fact.is_error else None
        ids = {"messageId": fact.message_id, "toolCallId": fact.call_id}
        out = [self._of(fact, "TOOL_CALL_RESULT", said, **ids, content=result_text(fact), role="tool")]
        for item in result_parts(fact):
            out += self._ours(fact, "part", messageId=fact.message_id, part=part(item))
        return out

    # --- state, steps and the rest -----------------------------------------------------------------------------

    def _state_snapshot(self, fact: ev.StateSnapshot) -> list[Payload]:
        if fact.agent:
            return self._ours(fact, "state_snapshot", snapshot=fact.value)
        return [{"type": "STATE_SNAPSHOT", "snapshot": fact.value}]

    def _state_delta(self, fact: ev.StateDelta) -> list[Payload]:
        if fact.agent:
            return self._ours(fact, "state_delta", delta=fact.patch)
        return [event("STATE_DELTA", delta=fact.patch)]

    def _activity_snapshot(self, fact: ev.ActivitySnapshot) -> list[Payload]:
        ids = {"messageId": fact.activity_id, "activityType": fact.kind}
        return [self._of(fact, "ACTIVITY_SNAPSHOT", **ids, content=fact.content)]

    def _activity_delta(self, fact: ev.ActivityDelta) -> list[Payload]:
        # The snapshot said whose it is. Its agent may have been continued since, and clients refuse another owner.
        return [event("ACTIVITY_DELTA", messageId=fact.activity_id, activityType=fact.kind, patch=fact.patch)]

    def _interrupted(self, fact: ev.Interrupted) -> list[Payload]:
        self._asked[fact.interrupt_id] = fact
        return []

    def _interrupt_resolved(self, fact: ev.InterruptResolved) -> list[Payload]:
        self._asked.pop(fact.interrupt_id, None)
        return self._ours(fact, "interrupt_resolved", interruptId=fact.interrupt_id)

    def _routed(self, fact: ev.Routed) -> list[Payload]:
        said = {"route": fact.route, "agents": fact.agents, "reason": fact.reason, "fallbackFrom": fact.fallback_from}
        return self._ours(fact, "routed", **said)

    def _step_started(self, fact: ev.StepStarted) -> list[Payload]:
        return [self._of(fact, "STEP_STARTED", stepName=self._open_step(fact.agent, fact.name))]

    def _step_finished(self, fact: ev.StepFinished) -> list[Payload]:
        return [self._of(fact, "STEP_FINISHED", stepName=self._steps.pop((fact.agent, fact.name)))]

    def _custom(self, fact: ev.Custom) -> list[Payload]:
        return [self._of(fact, "CUSTOM", name=fact.name) | {"value": fact.value}]

    def _unknown(self, fact: ev.Unknown) -> list[Payload]:
        return self._ours(fact, "unknown", type=fact.name, value=fact.value)


def _phase(fact: ev.MessageStarted | ev.MessageFinished) -> Payload:
    return {} if fact.phase == "undetermined" else {"phase": fact.phase}


_WRITERS: dict[type[Any], Callable[[AguiEncoder, Any], list[Payload]]] = {
    kind: getattr(AguiEncoder, f"_{kind.__struct_config__.tag}") for kind in ev.EVENT_TYPES if kind not in _FRAGMENTS
}
"""How each event is written: by the method with its tag."""
