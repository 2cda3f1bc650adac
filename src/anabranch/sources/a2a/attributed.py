"""A2A results of an agent of our own kind, asked for ``EXTENSION``, become the events they were made of. Pure.

Such an agent tells who made what: sub-agents, tool calls, reasoning. That is told here as it was; the rest, and all
that another agent says, is for the plain translator. What the agent notes for every client counts as well:

| the agent notes | what becomes of it |
|---|---|
| the phase of a root message | the phase of the message |
| the questions of ``INPUT_REQUIRED``, with schemas | an ``Interrupted`` each, of the root agent |
| the code of a failure | the code of ``RunFailed`` |
| which artifacts are the answer, its length and hash | ``agent_protocol`` when what was read is something else |

Not on the wire: state, activities, usage, who runs a tool, annotations of root messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ... import events as ev
from ...errors import SourceError
from . import _wire as wire
from .translate import A2ATranslator, content

_PHASES = frozenset(get_args(ev.Phase))
_OUTCOMES = frozenset({"success", "suspended", "cancelled"})
_SIDES = frozenset({"source", "client", "server"})


class _Made:
    """An artifact that is no message of the root agent: what it is, whose, and how much of its text was told."""

    __slots__ = ("agent", "call_id", "kind", "length")

    def __init__(self, kind: str, agent: str, call_id: str) -> None:
        self.kind, self.agent, self.call_id, self.length = kind, agent, call_id, 0


class AttributedTranslator:
    """Translates the items of one request, as ``A2ATranslator`` does."""

    def __init__(self, name: str = "") -> None:
        self._plain = A2ATranslator(name)
        self._agents: dict[str, str] = {}  # what each is called here: what continues another one has the other's id
        self._made: dict[str, _Made] = {}
        self._phases: dict[str, str] = {}  # of the root's messages, as their artifacts began
        self._texts: dict[str, list[str]] = {}  # what was told of each of them
        self._result: Any = None

    @property
    def remote(self) -> ev.Remote:
        """The remote task and context, as soon as they are known."""
        return self._plain.remote

    def go_on(self) -> None:
        """See ``A2ATranslator.go_on``."""
        self._plain.go_on()
        self._agents.clear()
        self._result = None

    def feed(self, item: bytes) -> Iterable[ev.Event]:
        """The events of one JSON-RPC response."""
        try:
            response = wire.decode(item)
        except SourceError:
            return self._plain.feed(item)  # it says what is wrong
        result, look = response.result or wire.Result(), response.look
        if result.artifact_update is not None:
            return self._artifact(result.artifact_update, item)
        if result.status_update is not None:
            update = result.status_update
            return [*self._told(wire.noted(update.metadata, wire.EXTENSION)), *self._status(update, item)]
        task = look.result if look is not None else result.task
        return self._plain.feed(item) if task is None else self._task(task, item)

    def close(self, error: BaseException | None) -> Iterable[ev.Event]:
        """The end of the stream."""
        return self._plain.close(error)

    # --- artifacts ---------------------------------------------------------------------------------------------

    def _artifact(self, update: wire.ArtifactUpdate, item: bytes) -> list[ev.Event]:
        artifact = update.artifact or wire.Artifact()
        id = artifact.artifact_id or ""
        out = self._begun(artifact, id) if not update.append else []
        made = self._made.get(id)
        if made is None:
            return out + self._root(artifact, id, item)
        if wire.is_void(artifact):
            del self._made[id]
            void = ev.MessageReset(agent=made.agent, message_id=id, superseded_by="")
            return [void] if made.kind == "message" else []
        out += self._piece(made, artifact, id)
        return out + (self._finished(made, artifact, id) if update.last_chunk else [])

    def _begun(self, artifact: wire.Artifact, id: str) -> list[ev.Event]:
        """What it means that an artifact begins. One that no author is told of is the plain translator's."""
        said = wire.noted(artifact.metadata, wire.EXTENSION)
        if id in self._made:
            return []
        if not said:
            if phase := wire.noted(artifact.metadata).get("phase"):
                self._phases.setdefault(id, phase)
            return []
        kind, role, author = _text(said, "kind"), _text(said, "role"), wire.noted(said, "agent")
        phase = _phase(artifact)
        if kind == "message" and not (author or role):
            self._phases.setdefault(id, phase)
            return []
        out = self._announced(author)
        agent = self._agents.get(_text(author, "id"), ev.ROOT)
        self._made[id] = _Made(kind, agent, _text(said, "callId"))
        if kind == "message":
            name = artifact.name if artifact.name != author.get("name") else None
            role = role or "assistant"
            out.append(ev.MessageStarted(agent=agent, message_id=id, role=role, name=name, phase=phase))
        elif kind == "reasoning":
            out.append(ev.ReasoningStarted(agent=agent, reasoning_id=id))
        elif kind == "tool_call":
            name, turn = _text(said, "tool") or artifact.name or "a tool", _text(said, "messageId")
            # A call of its own that has no result gets one at the end: what has none is for the client.
            out.append(ev.ToolCallStarted(agent=agent, call_id=id, name=name, message_id=turn, executor="client"))
        elif kind == "tool_result":
            out.append(_returned(agent, said, artifact))
        return out

    def _piece(self, made: _Made, artifact: wire.Artifact, id: str) -> list[ev.Event]:
        """What an artifact that has an author has got more."""
        out: list[ev.Event] = []
        agent = made.agent
        for part in artifact.parts or ():
            text, others = content([part])
            made.length += len(text)
            value = others[0].data if others else text
            if made.kind == "tool_output" and value != "":
                out.append(ev.ToolOutputDelta(agent=agent, call_id=made.call_id, content=value))
            elif made.kind == "result" and others:
                self._result = value
            elif made.kind == "reasoning" and text:
                out.append(ev.ReasoningDelta(agent=agent, reasoning_id=id, delta=text))
            elif made.kind == "tool_call" and text:
                out.append(ev.ToolArgsDelta(agent=agent, call_id=id, delta=text))
            elif made.kind == "message" and text:
                out.append(ev.TextDelta(agent=agent, message_id=id, delta=text))
            elif made.kind == "message" and _is_note(part):
                out.append(ev.Annotated(agent=agent, message_id=id, annotation=value))
            elif made.kind == "message" and others:
                out.append(ev.PartAdded(agent=agent, message_id=id, part=others[0]))
        return out

    def _finished(self, made: _Made, artifact: wire.Artifact, id: str) -> list[ev.Event]:
        match made.kind:
            case "message":
                return [_message_finished(made.agent, artifact, id)]
            case "reasoning":
                return [ev.ReasoningFinished(agent=made.agent, reasoning_id=id)]
            case "tool_call":
                return [ev.ToolCallFinished(agent=made.agent, call_id=id)]
        return []

    def _root(self, artifact: wire.Artifact, id: str, item: bytes) -> list[ev.Event]:
        """A message of the root agent, or whatever another agent sends as an artifact."""
        if artifact.parts and all(map(_is_note, artifact.parts)):
            return []
        out: list[ev.Event] = []
        for event in self._plain.feed(item):
            if isinstance(event, ev.MessageStarted) and id in self._phases:
                event = replace(event, phase=self._phases[id])
            elif isinstance(event, ev.MessageFinished) and (id in self._phases or wire.noted(artifact.metadata)):
                event = replace(_message_finished(ev.ROOT, artifact, id), message_id=event.message_id)
            self._note(event)
            out.append(event)
        return out

    def _note(self, event: ev.Event) -> None:
        """Remember the text of the root's messages."""
        if isinstance(event, ev.TextDelta):
            self._texts.setdefault(event.message_id, []).append(event.delta)
        elif isinstance(event, ev.MessageReset):
            self._texts.pop(event.message_id, None)

    # --- what is told beside the status ------------------------------------------------------------------------

    def _told(self, said: dict[str, Any]) -> list[ev.Event]:
        agent, routed = wire.noted(said, "agent"), wire.noted(said, "routed")
        if isinstance(agent.get("outcome"), str):
            return self._left(agent)
        out = self._announced(agent)
        if routed:
            out += _routed(routed)
        return out

    def _announced(self, agent: dict[str, Any]) -> list[ev.Event]:
        """A sub-agent that starts, or that was missed when it did. One that goes on needs no word: it just does."""
        id, continues = _text(agent, "id"), _text(agent, "continues")
        if not id or id in self._agents:
            return []
        self._agents[id] = self._agents.get(continues, id)
        if continues in self._agents:
            return []
        parent = self._agents.get(_text(agent, "parent"), ev.ROOT)
        call_id, name = _text(agent, "callId") or None, _text(agent, "name") or "agent"
        return [ev.AgentStarted(agent=id, name=name, parent=parent, call_id=call_id)]

    def _left(self, agent: dict[str, Any]) -> list[ev.Event]:
        id, outcome = self._agents.get(_text(agent, "id")), agent["outcome"]
        if id is None:
            return []
        if outcome in _OUTCOMES:
            return [ev.AgentFinished(agent=id, outcome=outcome)]
        return [ev.AgentFailed(agent=id, code=_text(agent, "code") or "agent_failed", message=_text(agent, "message"))]

    # --- the task ----------------------------------------------------------------------------------------------

    def _task(self, task: wire.Task, item: bytes) -> list[ev.Event]:
        """A snapshot: what it has of artifacts with authors beyond what was told, then the plain rest."""
        out: list[ev.Event] = []
        for artifact in task.artifacts or ():
            id = artifact.artifact_id or ""
            made = self._made.get(id)
            if made is not None:
                text = content(artifact.parts)[0]
                more = wire.Artifact(id, parts=[wire.Part(text=text[made.length :])])
                out += [] if made.kind == "tool_result" else self._piece(made, more, id)
            else:
                out += self._begun(artifact, id)
                made = self._made.get(id)
                out += self._piece(made, artifact, id) if made else []
        if any((artifact.artifact_id or "") in self._made for artifact in task.artifacts or ()):
            item = self._bare(item)
        for event in self._ended(self._plain.feed(item), task.status, None):
            self._note(event)
            out.append(event)
        return out

    def _bare(self, item: bytes) -> bytes:
        """The item of a task without what has an author."""
        said = wire.careless(item, dict)
        task = said["look"]["result"] if "look" in said else said["result"]["task"]
        task["artifacts"] = [each for each in task["artifacts"] if (each.get("artifactId") or "") not in self._made]
        return json.dumps(said).encode()  # also half of a surrogate pair

    def _status(self, update: wire.StatusUpdate, item: bytes) -> Iterator[ev.Event]:
        return self._ended(self._plain.feed(item), update.status, update.metadata)

    def _ended(self, events: Iterable[ev.Event], status: wire.Status | None, metadata: Any) -> Iterator[ev.Event]:
        """``events`` with what the agent notes about how it ended."""
        message = (status.message if status else None) or wire.Message()
        asked = list(_questions(message, self.remote))
        for event in events:
            if isinstance(event, ev.RunFailed) and (said := wire.noted(message.metadata)):
                yield _failed(event, said)
            elif isinstance(event, ev.Interrupted) and asked:
                yield from asked
            elif isinstance(event, ev.RunFinished):
                flaw = self._flaw(wire.noted(wire.noted(metadata), "answer"))
                yield ev.RunFailed(code="agent_protocol", message=flaw) if flaw else replace(event, result=self._result)
            else:
                yield event

    def _flaw(self, promised: dict[str, Any]) -> str:
        """What is wrong with the text that was read, if the agent says what its answer is."""
        ids = promised.get("messageIds")
        if not isinstance(ids, list):
            return ""
        text = "".join("".join(self._texts.get(str(id), ())) for id in ids)
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        if (len(text), digest) == (promised.get("length"), promised.get("sha256")):
            return ""
        return (
            f"the answer that was read has {len(text)} characters and is not the one of {promised.get('length')} sent"
        )


def _text(said: dict[str, Any], field: str) -> str:
    found = said.get(field)
    return found if isinstance(found, str) else ""


def _phase(artifact: wire.Artifact) -> Any:
    found = wire.noted(artifact.metadata).get("phase")
    return found if isinstance(found, str) and found in _PHASES else "undetermined"


def _is_note(part: wire.Part) -> bool:
    """Whether it is an annotation of the message it stands in."""
    return wire.noted(part.metadata, wire.EXTENSION).get("kind") == "annotation"


def _message_finished(agent: str, artifact: wire.Artifact, id: str) -> ev.MessageFinished:
    reason = _text(wire.noted(artifact.metadata), "finishReason") or None
    return ev.MessageFinished(agent=agent, message_id=id, phase=_phase(artifact), finish_reason=reason)


def _returned(agent: str, said: dict[str, Any], artifact: wire.Artifact) -> ev.ToolReturned:
    text, parts = content(artifact.parts)
    return ev.ToolReturned(
        agent=agent,
        call_id=_text(said, "callId"),
        content=text,
        parts=tuple(parts),
        is_error=said.get("isError") is True,
        error=_text(said, "error") or None,
    )


def _routed(said: dict[str, Any]) -> list[ev.Event]:
    try:
        told = {"route": said["route"], "agents": said["agents"], "reason": said["reason"]}
        return [msgspec.convert({"type": "routed", **told, "fallback_from": said.get("fallbackFrom")}, ev.Routed)]
    except (KeyError, msgspec.ValidationError, UnicodeEncodeError):
        return []


def _failed(event: ev.RunFailed, said: dict[str, Any]) -> ev.RunFailed:
    side = said["side"] if _text(said, "side") in _SIDES else "source"
    flags = {field: said.get(field) is True for field in ("retryable", "partial")}
    return replace(event, code=_text(said, "code") or event.code, side=side, **flags)


def _questions(message: wire.Message, remote: ev.Remote) -> Iterator[ev.Interrupted]:
    """The questions of an agent of our own kind: for each a text, then data that say how it is to be answered."""
    text = ""
    for part in message.parts or ():
        said = part.data if part.data is not UNSET and isinstance(part.data, dict) else {}
        if part.text is not None:
            text = part.text
        elif id := _text(said, "interruptId"):
            reason, metadata = _text(said, "reason"), said.get("metadata")
            yield ev.Interrupted(
                interrupt_id=id,
                reason=reason,
                message=text if text != reason else None,
                schema=said.get("schema"),
                expires_at=_text(said, "expiresAt") or None,
                remote=remote,
                metadata=metadata if isinstance(metadata, dict) else None,
            )
