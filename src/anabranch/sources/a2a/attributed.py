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
from typing import Any

from msgspec.structs import replace

from ... import events as ev
from ...errors import SourceError
from . import _notes as notes
from . import _wire as wire
from .translate import A2ATranslator, content

_OUTCOMES = frozenset({"success", "suspended", "cancelled"})


class _Made:
    """An artifact that is no message of the root agent: what it is, whose, and how much of its text was told."""

    __slots__ = ("agent", "call_id", "kind", "length", "open")

    def __init__(self, kind: str, agent: str, call_id: str) -> None:
        self.kind, self.agent, self.call_id, self.length, self.open = kind, agent, call_id, 0, True


class AttributedTranslator:
    """Translates the items of one request, as ``A2ATranslator`` does."""

    def __init__(self, name: str = "") -> None:
        self._plain = A2ATranslator(name)
        self._agents: dict[str, str] = {}  # what each is called here: what continues another one has the other's id
        self._earlier: set[str] = set()  # those that were told before the task went on
        self._made: dict[str, _Made] = {}
        self._phases: dict[str, Any] = {}  # of the root's messages, as far as it was told
        self._texts: dict[str, list[str]] = {}  # what was told of each message
        self._result: Any = None

    @property
    def remote(self) -> ev.Remote:
        """The remote task and context, as soon as they are known."""
        return self._plain.remote

    def go_on(self) -> None:
        """See ``A2ATranslator.go_on``."""
        self._plain.go_on()
        self._earlier |= self._agents.keys()
        self._agents.clear()
        self._result = None

    def feed(self, item: bytes) -> Iterable[ev.Event]:
        """The events of one JSON-RPC response."""
        if earlier := wire.told_before(item):
            known = [event for event in self.feed(earlier) if isinstance(event, ev.RemoteKnown)]
            self.go_on()
            return known
        if self._plain.is_legacy:
            return self._plain.feed(item)
        try:
            response = wire.decode(item)
        except SourceError:
            return self._plain.feed(item)  # it says what is wrong
        result, look = response.result or wire.Result(), response.look
        if result.artifact_update is not None:
            return self._artifact(result.artifact_update, response)
        if result.status_update is not None:
            update = result.status_update
            return [*self._told(wire.noted(update.metadata, wire.EXTENSION)), *self._status(update, response)]
        task = look.result if look is not None else result.task
        return self._plain.read(response, item) if task is None else self._task(task, response, item)

    def close(self, error: BaseException | None) -> Iterable[ev.Event]:
        """The end of the stream."""
        return self._plain.close(error)

    # --- artifacts ---------------------------------------------------------------------------------------------

    def _artifact(self, update: wire.ArtifactUpdate, response: wire.Response) -> list[ev.Event]:
        artifact = update.artifact or wire.Artifact()
        id = artifact.artifact_id or ""
        out = self._begun(artifact, id) if not update.append else []
        made = self._made.get(id)
        if made is None:
            return out + self._root(artifact, id, response)
        if wire.is_void(artifact):
            del self._made[id]
            self._texts.pop(id, None)
            void = ev.MessageReset(agent=made.agent, message_id=id, superseded_by="")
            return [void] if made.kind == "message" else []
        out += self._piece(made, artifact, id)
        return out + (self._finished(made, artifact, id) if update.last_chunk else [])

    def _begun(self, artifact: wire.Artifact, id: str) -> list[ev.Event]:
        """What it means that an artifact begins. One that no author is told of is the plain translator's."""
        if id in self._made:
            return []
        said = wire.noted(artifact.metadata, wire.EXTENSION)
        kind, role, author = notes.text_of(said, "kind"), notes.text_of(said, "role"), wire.noted(said, "agent")
        phase = notes.phase_of(artifact)
        if not said or (kind == "message" and not (author or role)):
            if said or phase != "undetermined":
                self._phases[id] = phase
            return []
        out = self._announced(author)
        agent = self._agents.get(notes.text_of(author, "id"), ev.ROOT)
        self._made[id] = _Made(kind, agent, notes.text_of(said, "callId"))
        if kind == "message":
            name = artifact.name if artifact.name != author.get("name") else None
            role = role or "assistant"
            out.append(ev.MessageStarted(agent=agent, message_id=id, role=role, name=name, phase=phase))
        elif kind == "reasoning":
            out.append(ev.ReasoningStarted(agent=agent, reasoning_id=id))
        elif kind == "tool_call":
            name, turn = notes.text_of(said, "tool") or artifact.name or "a tool", notes.text_of(said, "messageId")
            # A call of its own that has no result gets one at the end: what has none is for the client.
            out.append(ev.ToolCallStarted(agent=agent, call_id=id, name=name, message_id=turn, executor="client"))
        elif kind == "tool_result":
            out.append(notes.returned(agent, said, artifact))
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
                self._texts.setdefault(id, []).append(text)
                out.append(ev.TextDelta(agent=agent, message_id=id, delta=text))
            elif made.kind == "message" and notes.is_note(part):
                out.append(ev.Annotated(agent=agent, message_id=id, annotation=value))
            elif made.kind == "message" and others:
                out.append(ev.PartAdded(agent=agent, message_id=id, part=others[0]))
        return out

    def _finished(self, made: _Made, artifact: wire.Artifact, id: str) -> list[ev.Event]:
        made.open = False
        match made.kind:
            case "message":
                reason = notes.text_of(wire.noted(artifact.metadata), "finishReason") or None
                phase = notes.phase_of(artifact)
                return [ev.MessageFinished(agent=made.agent, message_id=id, phase=phase, finish_reason=reason)]
            case "reasoning":
                return [ev.ReasoningFinished(agent=made.agent, reasoning_id=id)]
            case "tool_call":
                return [ev.ToolCallFinished(agent=made.agent, call_id=id)]
        return []

    def _root(self, artifact: wire.Artifact, id: str, response: wire.Response) -> list[ev.Event]:
        """A message of the root agent, or whatever another agent sends as an artifact."""
        if artifact.parts and all(map(notes.is_note, artifact.parts)):
            return []
        if (phase := notes.phase_of(artifact)) != "undetermined":
            self._phases[id] = phase
        return [self._known(event, artifact) for event in self._plain.read(response, b"")]

    def _known(self, event: ev.Event, artifact: wire.Artifact | None = None) -> ev.Event:
        """``event`` of the plain translator with the phase that was told. Its text is remembered."""
        if isinstance(event, ev.TextDelta):
            self._texts.setdefault(event.message_id, []).append(event.delta)
        elif isinstance(event, ev.MessageReset):
            self._texts.pop(event.message_id, None)
        elif isinstance(event, ev.MessageStarted):
            return replace(event, phase=self._phases.get(event.message_id, event.phase))
        elif isinstance(event, ev.MessageFinished):
            reason = notes.text_of(wire.noted(artifact.metadata), "finishReason") if artifact else ""
            phase = self._phases.get(event.message_id, event.phase)
            return replace(event, phase=phase, finish_reason=reason or None)
        return event

    # --- what is told beside the status ------------------------------------------------------------------------

    def _told(self, said: dict[str, Any]) -> list[ev.Event]:
        agent, routed = wire.noted(said, "agent"), wire.noted(said, "routed")
        if isinstance(agent.get("outcome"), str):
            return self._left(agent)
        out = self._announced(agent)
        if routed:
            out += notes.routed(routed)
        return out

    def _announced(self, agent: dict[str, Any]) -> list[ev.Event]:
        """A sub-agent that starts, or that was missed when it did. One that goes on needs no word: it just does."""
        id, continues = notes.text_of(agent, "id"), notes.text_of(agent, "continues")
        if not id or id in self._agents or id in self._earlier:
            return []
        self._agents[id] = self._agents.get(continues, id)
        if continues in self._agents:
            return []
        parent = self._agents.get(notes.text_of(agent, "parent"), ev.ROOT)
        call_id, name = notes.text_of(agent, "callId") or None, notes.text_of(agent, "name") or "agent"
        answers = agent.get("answers") is True
        return [ev.AgentStarted(agent=id, name=name, parent=parent, call_id=call_id, answers=answers)]

    def _left(self, agent: dict[str, Any]) -> list[ev.Event]:
        id, outcome = self._agents.get(notes.text_of(agent, "id")), agent["outcome"]
        if id is None:
            return []
        if outcome in _OUTCOMES:
            return [ev.AgentFinished(agent=id, outcome=outcome)]
        return [
            ev.AgentFailed(
                agent=id, code=notes.text_of(agent, "code") or "agent_failed", message=notes.text_of(agent, "message")
            )
        ]

    # --- the task ----------------------------------------------------------------------------------------------

    def _task(self, task: wire.Task, response: wire.Response, item: bytes) -> list[ev.Event]:
        """A snapshot: what it has of artifacts with authors beyond what was told, then the plain rest."""
        out: list[ev.Event] = []
        said = wire.noted(task.metadata, wire.EXTENSION)
        told = said.get("agents")
        agents = [agent for agent in told if isinstance(agent, dict)] if isinstance(told, list) else []
        for agent in agents:
            out += self._announced(agent)
        for artifact in task.artifacts or ():
            out += self._caught_up(artifact, artifact.artifact_id or "", over=wire.end(task.status) is not None)
        for agent in reversed(agents):
            out += self._left(agent) if isinstance(agent.get("outcome"), str) else []
        if any((artifact.artifact_id or "") in self._made for artifact in task.artifacts or ()):
            response = wire.decode(self._bare(item))
        return [*out, *self._ended(self._plain.read(response, item), task.status, task.metadata)]

    def _caught_up(self, artifact: wire.Artifact, id: str, over: bool) -> list[ev.Event]:
        out = self._begun(artifact, id) if id not in self._made else []
        made = self._made.get(id)
        if made is None:
            return out
        if not out:
            text = content(artifact.parts)[0]
            artifact = wire.Artifact(id, parts=[wire.Part(text=text[made.length :])], metadata=artifact.metadata)
        out += self._piece(made, artifact, id)
        return out + (self._finished(made, artifact, id) if over and made.open else [])

    def _bare(self, item: bytes) -> bytes:
        """The item of a task without what has an author."""
        said = json.loads(item.decode(errors="replace"))  # which reads whatever was read of it before
        task = said["look"]["result"] if "look" in said else said["result"]["task"]
        task["artifacts"] = [each for each in task["artifacts"] if (each.get("artifactId") or "") not in self._made]
        return json.dumps(said).encode()

    def _status(self, update: wire.StatusUpdate, response: wire.Response) -> Iterator[ev.Event]:
        return self._ended(self._plain.read(response, b""), update.status, update.metadata)

    def _ended(self, events: Iterable[ev.Event], status: wire.Status | None, metadata: Any) -> Iterator[ev.Event]:
        """``events`` with what the agent notes about how it ended."""
        message = (status.message if status else None) or wire.Message()
        asked = list(notes.questions(message, self.remote))
        for event in events:
            if isinstance(event, ev.RunFailed) and (said := wire.noted(message.metadata)):
                yield notes.failed(event, said)
            elif isinstance(event, ev.Interrupted) and asked:
                yield from asked
            elif isinstance(event, ev.RunFinished):
                flaw = self._flaw(wire.noted(wire.noted(metadata), "answer"))
                yield ev.RunFailed(code="agent_protocol", message=flaw) if flaw else replace(event, result=self._result)
            else:
                yield self._known(event)

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
