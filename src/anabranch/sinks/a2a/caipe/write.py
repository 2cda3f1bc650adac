"""What each event of the vocabulary is in the artifacts of the Platform Engineer. Pure.

| event | written as |
|---|---|
| text that is known to be the answer (``speech``) | ``streaming_result``, ``is_final_answer``, one artifact a run |
| text of the root agent that may yet be narration | ``streaming_result`` without a mark |
| other text, and that of sub-agents | ``streaming_result``, ``is_narration``, with ``sourceAgent`` and ``agentType`` |
| tool call, its result | ``tool_notification_start``, ``tool_notification_end`` |
| plan of the root agent | ``execution_plan_update``, then ``execution_plan_status_update``: data, the whole of it |
| questions | ``UserInputMetaData``: data, then INPUT_REQUIRED |
| end of a run that succeeded | ``final_result`` with the whole answer, then COMPLETED |
| any other end | ``partial_result`` with what there is of the answer, then the status |

What an artifact says of itself never changes, so that each piece and the artifact in a Task read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .... import events as ev
from ..payload import Payload, data, part
from ..wire import AUTH_REQUIRED, INPUT_REQUIRED
from ..write import NOTHING, Writer
from . import plan
from .form import form
from .speech import Speech
from .told import CaipeTold, Said, Stream

_SUPERVISOR = "supervisor"
_NOT_THE_AGENT = frozenset({"developer", "system", "user"})
_MARKS: dict[Stream, Payload] = {"answer": {"is_final_answer": True}, "narration": {"is_narration": True}}
_DELEGATE = "ask_"
"""How the supervisor's tools that call an agent begin."""


class CaipeWriter(Writer):
    """See ``Writer``."""

    told: CaipeTold

    def __init__(self, told: CaipeTold) -> None:
        super().__init__(False, told)
        self._speech = Speech(told)

    def write(self, fact: ev.Event, at_ms: int) -> list[Payload]:
        """See ``Writer.write``."""
        owed = self._plan() if self.told.stale and not isinstance(fact, ev.ActivityDelta) else []
        if isinstance(fact, ev.RunStarted):
            self.told.agent_name = fact.agent_name
            return self._run_started(fact, at_ms)
        if isinstance(fact, ev.Terminal):
            return [*owed, *self._end(fact), self._status(fact, at_ms)]
        write = _WRITERS[type(fact)]
        return [*owed, *write(self, fact)] if write else owed

    def fragment(self, fact: Any, id: str) -> Payload | None:
        """See ``Writer.fragment``."""
        said = self.told.said.get(id)
        if said is None:
            return None
        self.hear(id, fact.delta)
        return self._say(id, said, {"text": fact.delta})

    def hear(self, id: str, delta: str) -> None:
        """Keep a piece of a message that may be the answer."""
        said = self.told.said.get(id)
        if said is not None and said.place is not None and delta:
            said.pieces.append(delta)

    # --- artifacts ---------------------------------------------------------------------------------------------

    def _say(self, id: str, said: Said, *parts: Payload) -> Payload | None:
        if not said.stream:
            said.stream = self._speech.stream(id, said)
        return None if said.stream == "held" else self._piece(said.agent, said.stream, *parts)

    def _piece(self, agent: str, stream: Stream, *parts: Payload, whole: bool = False, last: bool = False) -> Payload:
        """A piece of a stream of an agent; of the answer there is one stream, whoever speaks in it."""
        owner = agent if agent and stream != "answer" else self.told.run_id
        id = f"{owner}:{stream}"
        artifact = {"artifactId": id, "name": "streaming_result", "metadata": self._by(agent) | _MARKS.get(stream, {})}
        fields = {"append": True} if id in self.told.begun and not whole else {}
        self.told.begun[id] = None
        return self._update(artifact, *parts, **fields, **({"lastChunk": True} if last else {}))

    def _by(self, agent: str) -> Payload:
        """Whose something is."""
        if author := self.told.agents.get(agent):
            return {"sourceAgent": author["name"], "agentType": "sub-agent"}
        return {"sourceAgent": self.told.agent_name or _SUPERVISOR}

    def _result(self, name: str, *parts: Payload) -> Payload:
        artifact = {"artifactId": f"{self.told.run_id}:{name}", "name": name, "metadata": self._by(ev.ROOT)}
        return self._update(artifact, *parts, lastChunk=True)

    # --- the run -----------------------------------------------------------------------------------------------

    def _run_resumed(self, fact: ev.RunResumed) -> list[Payload]:
        ended = [said for id in fact.voided_call_ids for said in self._tool_ended(id, "interrupted")]
        return [*ended, *self._forget(*fact.voided_message_ids)]

    def _end(self, fact: ev.Terminal) -> Iterator[Payload]:
        """The rest of the answer, then all of it."""
        ids = self._speech.answer(fact)
        shown = self.told.shown
        if ids[: len(shown)] == shown:
            for id in ids[len(shown) :] if self.told.how == "live" else ():
                yield self._piece(self.told.said[id].agent, "answer", *self._content(id))
        else:  # an agent failed after it had answered
            yield self._piece(ev.ROOT, "answer", *(piece for id in ids for piece in self._content(id)), whole=True)
        text = "".join(piece for id in ids for piece in self.told.said[id].pieces)
        parts = [part for id in ids for part in self.told.said[id].parts]
        success = isinstance(fact, ev.RunFinished) and fact.outcome == "success"
        result = [data(fact.result)] if isinstance(fact, ev.RunFinished) and fact.result is not None else []
        content = [*([{"text": text}] if text or not parts + result else []), *parts, *result]
        if success or content != [NOTHING]:
            yield self._result("final_result" if success else "partial_result", *content)
        ids = list(fact.interrupt_ids) if isinstance(fact, ev.RunFinished) else []
        if asked := [self.told.asked[id] for id in ids if id in self.told.asked]:
            yield self._result("UserInputMetaData", data(form(asked)))

    def _status(self, fact: ev.Terminal, at_ms: int) -> Payload:
        """The same as without this profile, without what it says about artifacts; these clients know no other wait."""
        said = self._terminal(fact, at_ms)[-1]
        said["statusUpdate"].pop("metadata", None)
        status = said["statusUpdate"]["status"]
        status["state"] = INPUT_REQUIRED if status["state"] == AUTH_REQUIRED else status["state"]
        return said

    # --- messages ----------------------------------------------------------------------------------------------

    def _message_started(self, fact: ev.MessageStarted) -> list[Payload]:
        if fact.role not in _NOT_THE_AGENT:
            self._speech.message(fact)
        return []

    def _message_finished(self, fact: ev.MessageFinished) -> list[Payload]:
        said = self._speech.settle(fact)
        if said and said.stream == "held" and said.is_answer is False:
            return [self._piece(said.agent, "narration", {"text": "".join(said.pieces)}, *said.parts), *self._due()]
        return self._due()

    def _message_reset(self, fact: ev.MessageReset) -> list[Payload]:
        return self._forget(fact.message_id)

    def _forget(self, *ids: str) -> list[Payload]:
        """These say nothing any more: the answer without them takes its place."""
        if not [id for id in ids if self._speech.forget(id)]:
            return []
        left = [piece for id in self.told.shown for piece in self._content(id)]
        return [self._piece(ev.ROOT, "answer", *left, whole=True)]

    def _due(self) -> list[Payload]:
        out = []
        while id := self._speech.due():
            out.append(self._piece(self.told.said[id].agent, "answer", *self._content(id)))
        return out

    def _content(self, id: str) -> list[Payload]:
        said = self.told.said[id]
        return [*([{"text": "".join(said.pieces)}] if said.pieces else []), *said.parts]

    def _part_added(self, fact: ev.PartAdded) -> list[Payload]:
        said, added = self.told.said.get(fact.message_id), part(fact.part)
        if said is None or added == NOTHING:
            return []
        if added.keys() == {"text"}:
            self.hear(fact.message_id, added["text"])
        elif said.place is not None:
            said.parts.append(added)
        told = self._say(fact.message_id, said, added)
        return [told] if told else []

    # --- tools, agents, the plan -------------------------------------------------------------------------------

    def _tool_call_started(self, fact: ev.ToolCallStarted) -> list[Payload]:
        self.told.calls[fact.call_id] = [fact.name, fact.agent]
        text = f"Calling Agent {name}..." if (name := self._delegate(fact.name, fact.agent)) else ""
        return [self._notified(fact.call_id, "start", text or f"Calling tool: {_title(fact.name)}")]

    def _tool_returned(self, fact: ev.ToolReturned) -> list[Payload]:
        # One of these clients looks for the word error to know that a tool has failed.
        return self._tool_ended(fact.call_id, f"failed: error: {fact.error or ''}" if fact.is_error else "completed")

    def _tool_ended(self, id: str, how: str) -> list[Payload]:
        if id not in self.told.calls:
            return []
        name, agent = self.told.calls[id]
        delegate = self._delegate(name, agent)
        told = self._notified(id, "end", f"Agent task {delegate} {how}" if delegate else f"Tool {_title(name)} {how}")
        del self.told.calls[id]
        return [told]

    def _delegate(self, name: str, agent: str) -> str:
        """The agent that a tool of the root agent calls, or ``""``."""
        return "" if agent or not name.startswith(_DELEGATE) else _title(name.removeprefix(_DELEGATE))

    def _notified(self, id: str, when: str, text: str) -> Payload:
        name, agent = self.told.calls[id]
        about = {"agentType": "notification", "tool_name": name, "tool_call_id": id}
        if step := plan.current(self.told.steps):
            about["plan_step_id"] = step
        by = self._by(agent)["sourceAgent"]
        artifact = {
            "artifactId": f"{id}:{when}",
            "name": f"tool_notification_{when}",
            "description": f"Tool call {'started' if when == 'start' else 'completed'}: {name}",
            "metadata": {"sourceAgent": by} | about,
        }
        return self._update(artifact, {"text": f"{_title(by)}: {text}\n"})

    def _agent_started(self, fact: ev.AgentStarted) -> list[Payload]:
        super()._agent_started(fact)
        self._speech.agent(fact)
        return []

    def _agent_finished(self, fact: ev.AgentFinished | ev.AgentFailed) -> list[Payload]:
        self.told.answering.pop(fact.agent, None)
        streams: tuple[Stream, ...] = ("text", "narration")
        begun = [stream for stream in streams if f"{fact.agent}:{stream}" in self.told.begun]
        return [*(self._piece(fact.agent, stream, last=True) for stream in begun), *self._due()]

    _agent_failed = _agent_finished

    def _routed(self, fact: ev.Routed) -> list[Payload]:
        self._speech.routed(fact)
        return []

    def _activity_snapshot(self, fact: ev.ActivitySnapshot) -> list[Payload]:
        if fact.agent or fact.kind != "plan":
            return []
        self.told.plan = fact.content
        return self._planned()

    def _activity_delta(self, fact: ev.ActivityDelta) -> list[Payload]:
        if fact.agent or fact.kind != "plan":
            return []
        try:
            self.told.plan = plan.patched(_copied(self.told.plan), fact.patch)
        except (ValueError, LookupError, TypeError):
            return []  # nobody's plan that these clients could read
        committed = any(operation.get("path") in ("", "/todos") for operation in fact.patch)
        return self._planned(committed)

    def _planned(self, committed: bool = True) -> list[Payload]:
        """The plan at once when it is whole, else with the next event that is not about it: it is being written."""
        self.told.stale = True
        return self._plan() if committed and plan.is_whole(self.told.plan) else []

    def _plan(self) -> list[Payload]:
        self.told.stale = False
        before, now = self.told.steps, plan.steps(self.told.plan, self.told.agent_name or _SUPERVISOR)
        if now == before:
            return []
        self.told.steps = now
        same = before and [step["title"] for step in now] == [step["title"] for step in before]
        name = "execution_plan_status_update" if same else "execution_plan_update"
        artifact = {"artifactId": f"{self.told.run_id}:plan", "name": name, "metadata": self._by(ev.ROOT)}
        return [self._update(artifact, data({"steps": now}))]


def _title(name: str) -> str:
    return name.title()


def _copied(value: Any) -> Any:
    """What events hold belongs to the log."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


_TOLD = frozenset(
    {"run_resumed", "message_started", "message_finished", "message_reset", "part_added", "tool_call_started"}
    | {"tool_returned", "agent_started", "agent_finished", "agent_failed", "activity_snapshot", "activity_delta"}
    | {"interrupted", "interrupt_resolved", "routed"}
)
_WRITERS: dict[type[Any], Callable[[CaipeWriter, Any], list[Payload]] | None] = {
    kind: getattr(CaipeWriter, f"_{tag}") if (tag := kind.__struct_config__.tag) in _TOLD else None
    for kind in ev.EVENT_TYPES
}
"""How each event is written; these clients have no word for the others."""
