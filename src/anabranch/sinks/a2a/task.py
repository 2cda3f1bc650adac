"""Log entries to the Task that they come to. Pure.

A task is what a client holds that read every stream of it from the start: the updates are written as they are for
such a client, and applied as clients apply them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import events as ev
from ...log._base import Entry
from ...request import Message
from . import legacy
from .payload import Payload, user_message
from .profile import EXTENSION, NAMESPACE, Profile
from .told import Told
from .wire import SUBMITTED
from .write import NOTHING, Writer

_FRAGMENTS = {ev.TextDelta: "message_id", ev.ToolArgsDelta: "call_id", ev.ReasoningDelta: "reasoning_id"}
_ROOTS = frozenset({"message", "result"})


class TaskFold:
    """Feed it the entries of each run of a task, one run after another; ``task`` may be asked at any time.

    Its ids are those of the runs; before the first entry they are those given here. Of a run whose first entries are
    gone, it tells what is left.
    """

    def __init__(self, task_id: str = "", context_id: str = "") -> None:
        self._id, self._context_id = task_id, context_id
        self._writer = Writer(True, Told.nothing())
        self._status: Payload = {"state": SUBMITTED}
        self._at_ms = 0
        self._history: list[Message | Payload] = []
        self._artifacts: dict[str, _Artifact] = {}
        self._agents: dict[str, Payload] = {}
        self._routed: list[Payload] = []
        self._said: Payload = {}

    @property
    def state(self) -> str:
        """The task's state, one of ``wire.STATES``; SUBMITTED before the first entry."""
        state: str = self._status["state"]
        return state

    @property
    def at_ms(self) -> int:
        """When it got into that state, Unix time in milliseconds; 0 before the first entry."""
        return self._at_ms

    def given(self, messages: Sequence[Message]) -> None:
        """The user's messages that the next run answers: call it before that run's first entry."""
        self._answer()
        self._history += messages

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        fact = entry.event
        if isinstance(fact, ev.RunStarted):
            self._answer()
            self._said = {}
        if field := _FRAGMENTS.get(type(fact)):
            id = getattr(fact, field)
            if artifact := self._artifacts.get(id):
                artifact.say(fact.delta)  # type: ignore[union-attr]  # a fragment, as the table says
            elif said := self._writer.fragment(fact, id):
                self._apply(said, entry.at_ms)
            return
        for said in self._writer.write(fact, entry.at_ms):
            self._apply(said, entry.at_ms)

    def task(self, profile: Profile, history_length: int | None = None, artifacts: bool = True) -> Payload:
        """The Task as ``profile`` reads it over JSON-RPC (one of 0.3 has its ``kind``).

        ``history_length`` None is the whole history, 0 none, n the newest n messages.
        """
        asked = self._history if history_length is None else self._history[-history_length:] if history_length else []
        history = [
            user_message(said, self._id, self._context_id) if isinstance(said, Message) else said for said in asked
        ]
        made = [artifact.told(profile.attributed) for artifact in self._artifacts.values()] if artifacts else []
        shown: Payload = {
            "artifacts": [artifact for artifact in made if artifact],
            "history": history,
            "metadata": self._metadata(profile.attributed),
        }
        said: Payload = {"id": self._id, "contextId": self._context_id, "status": self._status}
        said |= {name: value for name, value in shown.items() if value}
        return said if profile.version == "1.0" else legacy.task(said)

    # --- as a client does --------------------------------------------------------------------------------------

    def _answer(self) -> None:
        """What the agent asked is history once it is answered."""
        if asked := self._status.get("message"):
            self._history.append(asked)
            self._status = {name: value for name, value in self._status.items() if name != "message"}

    def _apply(self, said: Payload, at_ms: int) -> None:
        [(kind, body)] = said.items()
        if kind == "artifactUpdate":
            self._take(body)
            return
        if kind == "task":
            self._id, self._context_id = body["id"], body["contextId"]
        if body["status"]["state"] != self.state or kind == "task":
            self._at_ms = at_ms
        self._status = body["status"]
        metadata = body.get("metadata", {})
        self._said |= metadata.get(NAMESPACE, {})
        told = metadata.get(EXTENSION, {})
        if agent := told.get("agent"):
            self._agents[agent["id"]] = self._agents.get(agent["id"], {}) | agent
        if routed := told.get("routed"):
            self._routed.append(routed)

    def _take(self, update: Payload) -> None:
        artifact = update["artifact"]
        id = artifact["artifactId"]
        if not update.get("append"):
            self._artifacts[id] = _Artifact(artifact)
        elif id in self._artifacts:
            self._artifacts[id].add(artifact)
        if update.get("lastChunk") and id in self._artifacts:
            self._artifacts[id].join()

    def _metadata(self, attributed: bool) -> Payload:
        told = {"agents": [*self._agents.values()], "routed": self._routed} if attributed else {}
        told = {name: value for name, value in told.items() if value}
        return ({NAMESPACE: self._said} if self._said else {}) | ({EXTENSION: told} if told else {})


class _Artifact:
    """An artifact, as the pieces of it that have come."""

    __slots__ = ("_head", "_parts")

    def __init__(self, first: Payload) -> None:
        self._head = {field: value for field, value in first.items() if field != "parts"}
        self._parts: list[Payload | list[str]] = []  # text that follows text is in pieces
        self._add(first["parts"])

    def say(self, text: str) -> None:
        """More text."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, list):
            last.append(text)
        elif text:
            self._parts.append([text])

    def add(self, more: Payload) -> None:
        """What is appended. Its metadata replaces what it names."""
        if metadata := more.get("metadata"):
            self._head["metadata"] = self._head.get("metadata", {}) | metadata
        self._add(more["parts"])

    def join(self) -> None:
        """One string instead of many: a run may go on for long after this."""
        for part in self._parts:
            if isinstance(part, list):
                part[:] = ["".join(part)]

    def told(self, attributed: bool) -> Payload | None:
        """The ``Artifact``; None when there is none for such a client."""
        metadata = self._head.get("metadata", {})
        if metadata.get(NAMESPACE, {}).get("void"):
            return None
        parts = [{"text": "".join(part)} if isinstance(part, list) else part for part in self._parts]
        if attributed:
            return self._head | {"parts": parts or [NOTHING]}
        about = metadata.get(EXTENSION, {})
        own = [part for part in parts if EXTENSION not in part.get("metadata", {})]
        is_root = about.get("agent", {"answers": True}).get("answers")
        if about.get("kind") not in _ROOTS or not is_root or "role" in about or not own:
            return None
        hidden = {"metadata": {NAMESPACE: metadata[NAMESPACE]} if NAMESPACE in metadata else None, "extensions": None}
        head = self._head | hidden | {"parts": own}
        return {field: value for field, value in head.items() if value is not None}

    def _add(self, parts: Sequence[Payload]) -> None:
        for part in parts:
            if part.keys() == {"text"}:
                self.say(part["text"])
            else:
                self._parts.append(part)
