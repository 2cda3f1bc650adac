"""What each event of the vocabulary is in AG-UI: see the table of ``encode``. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import events as ev
from ...transcript import result_parts, result_text
from .payload import NAMESPACE, event, interrupt, notes, part, usages
from .profile import PROTOCOL_VERSION, Profile
from .told import Told

Payload = dict[str, Any]

FRAGMENTS = {
    ev.TextDelta: ("TEXT_MESSAGE_CONTENT", "messageId"),
    ev.ToolArgsDelta: ("TOOL_CALL_ARGS", "toolCallId"),
    ev.ReasoningDelta: ("REASONING_MESSAGE_CONTENT", "messageId"),
}
"""Events that the encoder writes itself: the type, and the field of the id."""

_ROLES = frozenset({"developer", "system", "assistant", "user"})


class Writer:
    """Writes events for one kind of client, and keeps what it told."""

    def __init__(self, profile: Profile, told: Told) -> None:
        self.told = told
        self._modern = profile.modern
        self._native = profile.subagents == "native"

    def write(self, fact: ev.Event) -> list[Payload]:
        """The AG-UI events of ``fact``, without their time. Raises whatever an event raises that is none of ours."""
        return _WRITERS[type(fact)](self, fact)

    def fragment(self, fact: Any, id: str) -> Payload:
        """The AG-UI event of a fragment, without its delta and its time."""
        kind, field = FRAGMENTS[type(fact)]
        return event(kind, **{field: id}, subagentRunId=self._owner(fact.agent))

    # --- whose it is -------------------------------------------------------------------------------------------

    def _owner(self, agent: str) -> str | None:
        return agent or None if self._native else None

    def _of(self, fact: Any, kind: str, said: Payload | None = None, /, **fields: Any) -> Payload:
        """An event of some agent. ``said`` is for its metadata; without sub-agents, the agent is named there."""
        said = said or {}
        if fact.agent and not self._native:
            said = {"agent": fact.agent, "agentName": self.told.names.get(fact.agent)} | said
        return event(kind, **fields, subagentRunId=self._owner(fact.agent), metadata=notes(**said))

    def _ours(self, fact: Any, name: str, /, **value: Any) -> list[Payload]:
        value = {field: item for field, item in value.items() if item is not None}
        return [self._of(fact, "CUSTOM", name=f"{NAMESPACE}.{name}", value=value)]

    def _label(self, agent: str, name: str) -> str:
        """What to call a step that opens. Clients that know no owner of a step need a name that no open step has."""
        return name if self._native else self.told.free(self.told.names.get(agent, ""), name)

    # --- run and agents ----------------------------------------------------------------------------------------

    def _run_started(self, fact: ev.RunStarted) -> list[Payload]:
        self.told.run_id, self.told.thread_id = fact.run_id, fact.thread_id
        said = {"agentName": fact.agent_name or None, "taskId": fact.task_id or None, "continues": fact.continues}
        ids = {"threadId": fact.thread_id, "runId": fact.run_id, "parentRunId": fact.parent_run_id}
        return [event("RUN_STARTED", **ids, protocolVersion=PROTOCOL_VERSION, metadata=notes(**said))]

    def _run_finished(self, fact: ev.RunFinished) -> list[Payload]:
        questions = [self.told.asked[id] for id in fact.interrupt_ids if id in self.told.asked]
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
        return [event("RUN_FINISHED", threadId=self.told.thread_id, runId=self.told.run_id, **fields)]

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
        self.told.names[fact.agent] = fact.name
        parents = {"parentSubagentRunId": fact.parent or None, "parentToolCallId": fact.call_id}
        ours = {"continues": fact.continues, "answers": fact.answers or None}
        if self._native:
            return [self._of(fact, "SUBAGENT_STARTED", ours, name=fact.name, **parents)]
        label = self.told.lanes[fact.agent] = self._label(fact.agent, "")
        return [self._of(fact, "STEP_STARTED", parents | ours, stepName=label)]

    def _remote_known(self, fact: ev.RemoteKnown) -> list[Payload]:
        return []  # where agents work is no client's concern

    def _agent_finished(self, fact: ev.AgentFinished) -> list[Payload]:
        if not self._native:
            return [self._lane_closed(fact, outcome=fact.outcome)]
        if fact.outcome == "cancelled":
            return [self._of(fact, "SUBAGENT_ERROR", message="The agent was cancelled.", code="cancelled")]
        outcome: Payload = {"type": fact.outcome}
        if fact.outcome == "suspended":
            outcome["interruptIds"] = [id for id, asked in self.told.asked.items() if asked.agent == fact.agent]
        return [self._of(fact, "SUBAGENT_FINISHED", outcome=outcome)]

    def _agent_failed(self, fact: ev.AgentFailed) -> list[Payload]:
        if not self._native:
            return [self._lane_closed(fact, outcome="failed", code=fact.code, message=fact.message)]
        return [self._of(fact, "SUBAGENT_ERROR", message=fact.message, code=fact.code)]

    def _lane_closed(self, fact: Any, **said: Any) -> Payload:
        return self._of(fact, "STEP_FINISHED", said, stepName=self.told.lanes.pop(fact.agent))

    # --- messages and reasoning --------------------------------------------------------------------------------

    def _message_started(self, fact: ev.MessageStarted) -> list[Payload]:
        role = fact.role if fact.role in _ROLES else "assistant"
        name = fact.name or (None if self._native else self.told.names.get(fact.agent))
        return [self._of(fact, "TEXT_MESSAGE_START", _phase(fact), messageId=fact.message_id, role=role, name=name)]

    def _message_finished(self, fact: ev.MessageFinished) -> list[Payload]:
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
        self.told.asked[fact.interrupt_id] = fact
        return []

    def _interrupt_resolved(self, fact: ev.InterruptResolved) -> list[Payload]:
        self.told.asked.pop(fact.interrupt_id, None)
        return self._ours(fact, "interrupt_resolved", interruptId=fact.interrupt_id)

    def _routed(self, fact: ev.Routed) -> list[Payload]:
        said = {"route": fact.route, "agents": fact.agents, "reason": fact.reason, "fallbackFrom": fact.fallback_from}
        return self._ours(fact, "routed", **said)

    def _step_started(self, fact: ev.StepStarted) -> list[Payload]:
        label = self._label(fact.agent, fact.name)
        self.told.steps.setdefault(fact.agent, {})[fact.name] = label
        return [self._of(fact, "STEP_STARTED", stepName=label)]

    def _step_finished(self, fact: ev.StepFinished) -> list[Payload]:
        return [self._of(fact, "STEP_FINISHED", stepName=self.told.steps[fact.agent].pop(fact.name))]

    def _custom(self, fact: ev.Custom) -> list[Payload]:
        return [self._of(fact, "CUSTOM", name=fact.name) | {"value": fact.value}]

    def _unknown(self, fact: ev.Unknown) -> list[Payload]:
        return self._ours(fact, "unknown", type=fact.name, value=fact.value)


def _phase(fact: ev.MessageStarted | ev.MessageFinished) -> Payload:
    return {} if fact.phase == "undetermined" else {"phase": fact.phase}


_WRITERS: dict[type[Any], Callable[[Writer, Any], list[Payload]]] = {
    kind: getattr(Writer, f"_{kind.__struct_config__.tag}") for kind in ev.EVENT_TYPES if kind not in FRAGMENTS
}
"""How each event is written: by the method with its tag."""
