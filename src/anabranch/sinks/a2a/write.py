"""What each event of the vocabulary is in A2A 1.0: see the table of ``encode``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ... import events as ev
from ...transcript import result_parts, result_text
from .payload import Payload, agent_message, data, part, timestamp
from .profile import EXTENSION, NAMESPACE
from .told import Told
from .wire import AUTH_REQUIRED, CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING

NOTHING: Payload = {"text": ""}
"""The part of an artifact that holds nothing: every artifact must have one."""

_OTHERS = frozenset({"developer", "system", "user"})


class Writer:
    """Writes events as ``StreamResponse`` objects without their cursors, and keeps what it told."""

    def __init__(self, attributed: bool, told: Told) -> None:
        self.told = told
        self._attributed = attributed

    def write(self, fact: ev.Event, at_ms: int) -> list[Payload]:
        """What is said of ``fact``, which happened at ``at_ms``; nothing when A2A has no word for it.

        Raises whatever an event raises that is none of ours.
        """
        if isinstance(fact, ev.RunStarted):
            return self._run_started(fact, at_ms)
        if isinstance(fact, ev.Terminal):
            return self._terminal(fact, at_ms)
        write = _WRITERS[type(fact)]
        return write(self, fact) if write else []

    def fragment(self, fact: Any, id: str) -> Payload | None:
        """What is said of a piece of the text ``id``; None when the client is not told of that text."""
        return self._more(id, {"text": fact.delta})

    # --- artifacts ---------------------------------------------------------------------------------------------

    def _artifact(self, agent: str, id: str, kind: str, name: str = "", **said: Any) -> Payload:
        """How the artifact of something that ``agent`` made begins, without its parts."""
        author = self.told.agents.get(agent)
        name = name or (author["name"] if author else "")
        out: Payload = {"artifactId": id} | ({"name": name} if name else {})
        if self._attributed:
            told = {"kind": kind, "agent": author, **said}
            out["metadata"] = {EXTENSION: {field: value for field, value in told.items() if value}}
            out["extensions"] = [EXTENSION]
        return out

    def _update(self, artifact: Payload, *parts: Payload, **fields: bool) -> Payload:
        artifact = artifact | {"parts": parts or (NOTHING,)}
        return {"artifactUpdate": self._where() | {"artifact": artifact} | fields}

    def _begin(self, artifact: Payload, *parts: Payload, last: bool = False) -> Payload:
        self.told.begun[artifact["artifactId"]] = None
        return self._update(artifact, *parts, **({"lastChunk": True} if last else {}))

    def _more(self, id: str, part: Payload) -> Payload | None:
        """``part`` as what an artifact begins with, or as what is added to it."""
        if id in self.told.begun:
            return self._update({"artifactId": id}, part, append=True)
        artifact = self.told.waiting.pop(id, None)
        return self._begin(artifact, part) if artifact else None

    def _last(self, id: str, **said: Any) -> list[Payload]:
        """The end of an artifact. Clients replace what they know about it by what is ``said``."""
        self.told.waiting.pop(id, None)
        if id not in self.told.begun:
            return []
        return [self._update({"artifactId": id} | _ours(**said), append=True, lastChunk=True)]

    def _void(self, id: str, **said: Any) -> list[Payload]:
        """What an artifact held counts no more: one that holds nothing takes its place."""
        if id not in self.told.begun:
            return []
        del self.told.begun[id]
        return [self._update({"artifactId": id} | _ours(void=True, **said), lastChunk=True)]

    # --- the run -----------------------------------------------------------------------------------------------

    def _run_started(self, fact: ev.RunStarted, at_ms: int) -> list[Payload]:
        told = self.told
        told.run_id, told.task_id, told.context_id = fact.run_id, fact.task_id or fact.run_id, fact.thread_id
        told.since_ms = at_ms
        before = WORKING if fact.continues else SUBMITTED  # a task that went on is not new
        status = {"state": before, "timestamp": timestamp(at_ms)}
        return [{"task": {"id": told.task_id, "contextId": told.context_id, "status": status}}, self._working()]

    def _where(self) -> Payload:
        return {"taskId": self.told.task_id, "contextId": self.told.context_id}

    def _working(self, metadata: Payload | None = None) -> Payload:
        return self._in_state(WORKING, self.told.since_ms, metadata=metadata)

    def _in_state(self, state: str, at_ms: int, message: Any = None, metadata: Any = None) -> Payload:
        said = {"message": message} if message else {}
        update = self._where() | {"status": {"state": state} | said | {"timestamp": timestamp(at_ms)}}
        return {"statusUpdate": update | ({"metadata": metadata} if metadata else {})}

    def _fact(self, **said: Any) -> list[Payload]:
        """Something that is no artifact, for clients that asked: beside the status, which has not changed."""
        return [self._working({EXTENSION: said})] if self._attributed else []

    def _run_resumed(self, fact: ev.RunResumed) -> list[Payload]:
        calls = [call + of for call in fact.voided_call_ids for of in ("", OUTPUT, RESULT)]
        return [said for id in (*fact.voided_message_ids, *calls) for said in self._void(id)]

    def _terminal(self, fact: ev.Terminal, at_ms: int) -> list[Payload]:
        if isinstance(fact, ev.RunFailed):
            about = {"side": fact.side, "retryable": fact.retryable, "partial": fact.partial}
            return [self._failed(at_ms, fact.message, code=fact.code, **about)]
        if fact.outcome == "cancelled":
            return [self._in_state(CANCELED, at_ms)]
        metadata = _answer(fact.answer)
        if fact.outcome == "interrupted":
            return [self._interrupted_by(fact, at_ms, metadata)]
        result = self._artifact(ev.ROOT, self.told.run_id + RESULT, "result", "result")
        made = [] if fact.result is None else [self._begin(result, data(fact.result), last=True)]
        return [*made, self._in_state(COMPLETED, at_ms, metadata=metadata)]

    def _interrupted_by(self, fact: ev.RunFinished, at_ms: int, metadata: Payload) -> Payload:
        asked = [self.told.asked[id] for id in fact.interrupt_ids if id in self.told.asked]
        if not asked:
            return self._failed(at_ms, "The run stopped to ask something and did not say what.", code="no_question")
        by_login = any(question.reason.startswith("auth") for question in asked)
        parts = [part for question in asked for part in _question(question, self.told.agents.get(question.agent))]
        return self._in_state(AUTH_REQUIRED if by_login else INPUT_REQUIRED, at_ms, self._said(parts), metadata)

    def _failed(self, at_ms: int, text: str, **said: Any) -> Payload:
        return self._in_state(FAILED, at_ms, self._said([{"text": text}]) | _ours(**said))

    def _said(self, parts: Iterable[Payload]) -> Payload:
        return agent_message(f"{self.told.run_id}:end", parts, self.told.task_id, self.told.context_id)

    # --- messages and reasoning --------------------------------------------------------------------------------

    def _message_started(self, fact: ev.MessageStarted) -> list[Payload]:
        role = fact.role if fact.role in _OTHERS else ""
        is_answer = not role and (not fact.agent or self._answers(fact.agent))
        if self._attributed or is_answer:
            artifact = self._artifact(fact.agent, fact.message_id, "message", fact.name or "", role=role)
            if fact.phase != "undetermined":
                artifact["metadata"] = artifact.get("metadata", {}) | {NAMESPACE: {"phase": fact.phase}}
            self.told.waiting[fact.message_id] = artifact
        return []

    def _message_finished(self, fact: ev.MessageFinished) -> list[Payload]:
        phase = None if fact.phase == "undetermined" else fact.phase
        return self._last(fact.message_id, phase=phase, finishReason=fact.finish_reason)

    def _message_reset(self, fact: ev.MessageReset) -> list[Payload]:
        return self._void(fact.message_id, supersededBy=fact.superseded_by or None, reason=fact.reason or None)

    def _part_added(self, fact: ev.PartAdded) -> list[Payload]:
        added = part(fact.part)
        said = self._more(fact.message_id, added) if added != NOTHING else None
        return [said] if said else []

    def _annotated(self, fact: ev.Annotated) -> list[Payload]:
        note = data(fact.annotation) | {"metadata": {EXTENSION: {"kind": "annotation"}}}
        said = self._more(fact.message_id, note) if self._attributed else None
        return [said] if said else []

    def _reasoning_started(self, fact: ev.ReasoningStarted) -> list[Payload]:
        if self._attributed:
            self.told.waiting[fact.reasoning_id] = self._artifact(fact.agent, fact.reasoning_id, "reasoning")
        return []

    def _reasoning_finished(self, fact: ev.ReasoningFinished) -> list[Payload]:
        return self._last(fact.reasoning_id)

    # --- tool calls --------------------------------------------------------------------------------------------

    def _tool_call_started(self, fact: ev.ToolCallStarted) -> list[Payload]:
        if not self._attributed:
            return []
        said = {"tool": fact.name, "messageId": fact.message_id}
        return [self._begin(self._artifact(fact.agent, fact.call_id, "tool_call", fact.name, **said))]

    def _tool_call_finished(self, fact: ev.ToolCallFinished) -> list[Payload]:
        return self._last(fact.call_id)

    def _tool_output_delta(self, fact: ev.ToolOutputDelta) -> list[Payload]:
        if not self._attributed:
            return []
        id = fact.call_id + OUTPUT
        if id not in self.told.begun:
            self.told.waiting[id] = self._artifact(fact.agent, id, "tool_output", callId=fact.call_id)
        said = self._more(id, {"text": fact.content} if isinstance(fact.content, str) else data(fact.content))
        return [said] if said else []

    def _tool_returned(self, fact: ev.ToolReturned) -> list[Payload]:
        if not self._attributed:
            return []
        flaw: Payload = {"isError": True, "error": fact.error} if fact.is_error else {}
        artifact = self._artifact(fact.agent, fact.call_id + RESULT, "tool_result", callId=fact.call_id, **flaw)
        return [self._begin(artifact, {"text": result_text(fact)}, *map(part, result_parts(fact)), last=True)]

    # --- agents and the rest -----------------------------------------------------------------------------------

    def _agent_started(self, fact: ev.AgentStarted) -> list[Payload]:
        said = {"id": fact.agent, "name": fact.name, "parent": fact.parent, "callId": fact.call_id or ""}
        said |= {"continues": fact.continues or ""}
        answers = {"answers": True} if fact.answers and self._answers(fact.parent) else {}
        agent = self.told.agents[fact.agent] = {field: value for field, value in said.items() if value} | answers
        return self._fact(agent=agent)

    def _answers(self, agent: str) -> bool:
        """Whether what ``agent`` says may be the task's answer, and is for every client."""
        return not agent or bool(self.told.agents.get(agent, {}).get("answers"))

    def _agent_finished(self, fact: ev.AgentFinished) -> list[Payload]:
        return self._fact(agent={"id": fact.agent, "outcome": fact.outcome})

    def _agent_failed(self, fact: ev.AgentFailed) -> list[Payload]:
        return self._fact(agent={"id": fact.agent, "outcome": "failed", "code": fact.code, "message": fact.message})

    def _routed(self, fact: ev.Routed) -> list[Payload]:
        said = {"route": fact.route, "agents": fact.agents, "reason": fact.reason, "fallbackFrom": fact.fallback_from}
        return self._fact(routed={field: value for field, value in said.items() if value is not None})

    def _interrupted(self, fact: ev.Interrupted) -> list[Payload]:
        self.told.asked[fact.interrupt_id] = fact
        return []

    def _interrupt_resolved(self, fact: ev.InterruptResolved) -> list[Payload]:
        self.told.asked.pop(fact.interrupt_id, None)
        return []


OUTPUT, RESULT = ":output", ":result"
"""What the artifacts of a call are called besides: by its id and this."""


def _ours(**said: Any) -> Payload:
    """``metadata`` with what every client is told; nothing when there is nothing to say."""
    kept = {name: value for name, value in said.items() if value is not None}
    return {"metadata": {NAMESPACE: kept}} if kept else {}


def _answer(answer: ev.Answer | None) -> Payload:
    """``metadata`` that says which artifacts are the answer."""
    if answer is None:
        return {}
    return {NAMESPACE: {"answer": {"messageIds": answer.message_ids, "length": answer.length, "sha256": answer.sha256}}}


def _question(asked: ev.Interrupted, agent: Payload | None) -> list[Payload]:
    """What is asked and by whom, for people and for programs. Where a remote task runs stays on the server."""
    said = {
        "interruptId": asked.interrupt_id,
        "reason": asked.reason,
        "schema": asked.schema,
        "expiresAt": asked.expires_at,
        "metadata": asked.metadata,
        "agent": agent,
    }
    return [
        {"text": asked.message or asked.reason},
        data({field: value for field, value in said.items() if value is not None}),
    ]


_WRITERS: dict[type[Any], Callable[[Writer, Any], list[Payload]] | None] = {
    kind: getattr(Writer, f"_{kind.__struct_config__.tag}", None) for kind in ev.EVENT_TYPES
}
"""How each event is written: by the method with its tag. A2A has no word for those that have none."""
