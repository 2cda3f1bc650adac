"""Frames as the official types read them, and what a client holds that read them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3.conversions import to_core_stream_response
from a2a.compat.v0_3.proto_utils import FromProto
from a2a.compat.v0_3.types import SendStreamingMessageSuccessResponse
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import StreamResponse, Task, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict

from anabranch.log._base import Entry
from anabranch.request import Message
from anabranch.sinks.a2a.encode import A2aEncoder, Envelope
from anabranch.sinks.a2a.profile import EXTENSION, NAMESPACE, Profile
from anabranch.transports.sse import Parser

PLAIN, ATTRIBUTED = Profile("1.0", False), Profile("1.0", True)
BARE, RPC = Envelope.rest(), Envelope.rpc("q")
PROFILES = (PLAIN, ATTRIBUTED, Profile("0.3", False), Profile("0.3", True))
DIALECTS = [(profile, envelope) for profile in PROFILES for envelope in (BARE, RPC)]
"""Every way to write a stream."""

GIVEN = (Message(id="u1", role="user", content="How many clusters?"),)
ENDS = frozenset({"COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "AUTH_REQUIRED"})


class Frame(NamedTuple):
    """One server-sent event: its cursor, its type (``""``: not named) and its data."""

    id: str
    event: str
    said: Any


def encoder(profile: Profile = PLAIN, envelope: Envelope = BARE) -> A2aEncoder:
    """One for a run that the user's message ``GIVEN`` started."""
    return A2aEncoder(profile, envelope, GIVEN)


def written(entries: Iterable[Entry], profile: Profile = PLAIN, envelope: Envelope = BARE) -> list[bytes]:
    """The frames of a run from its start."""
    one = encoder(profile, envelope)
    return [frame for entry in entries for frame in one.feed(entry)]


def read(stream: Iterable[bytes]) -> list[Frame]:
    """Frames, each with its own id."""
    heard = []
    for frame in stream:
        [event] = Parser().feed(frame)
        heard.append(Frame(event.id, event.event, msgspec.json.decode(event.data)))
    return heard


def official(frame: Frame, profile: Profile, envelope: Envelope) -> StreamResponse:
    """The event of a frame as the official types of its dialect read it; they know every field of it."""
    said = frame.said
    if envelope.id is not None:
        assert said.keys() == {"jsonrpc", "id", "result"} and said["id"] == msgspec.json.decode(envelope.id)
        said = said["result"]
    if profile.version == "1.0":
        return ParseDict(said, StreamResponse())
    if envelope.id is None:
        result: Any = FromProto.stream_response(ParseDict(said, a2a_v0_3_pb2.StreamResponse()))
    else:
        result = SendStreamingMessageSuccessResponse.model_validate(frame.said).result
        assert result.model_dump(mode="json", exclude_none=True) == said
    assert getattr(result, "final", None) == (said_state(result) in ENDS if hasattr(result, "final") else None)
    return to_core_stream_response(SendStreamingMessageSuccessResponse(id="q", result=result))


def said_state(update: Any) -> str:
    """The state of a status update of 0.3, by its name in 1.0."""
    state: str = update.status.state.value
    return state.upper().replace("-", "_")


def responses(stream: Iterable[bytes], profile: Profile = PLAIN, envelope: Envelope = BARE) -> list[StreamResponse]:
    """The events of a whole stream."""
    return [official(frame, profile, envelope) for frame in read(stream)]


class Client:
    """Applies what it reads, as the official server does to its own tasks: that refuses to add to an unknown artifact.

    ``ended`` lists the states by which it was told that the stream is over.
    """

    def __init__(self) -> None:
        self.task = Task()
        self.ended: list[str] = []
        self._agents: dict[str, Any] = {}
        self._routed: list[Any] = []
        self._said: dict[str, Any] = {}

    def take(self, response: StreamResponse) -> None:
        """Apply one event."""
        assert not self.ended, "nothing follows the end"
        kind = response.WhichOneof("payload")
        assert (kind == "task") is (not self.task.id), "a stream is a Task, then updates of it"
        if kind == "artifact_update":
            append_artifact_to_task(self.task, response.artifact_update)
            return
        update = response.task if kind == "task" else response.status_update
        told = MessageToDict(update.metadata)
        if kind == "task":
            self.task.CopyFrom(response.task)
            begun = told.get(EXTENSION, {})
            self._agents = {agent["id"]: agent for agent in begun.get("agents", ())}
            self._routed = begun.get("routed", [])
        else:
            self.task.status.CopyFrom(update.status)
            self._note(told.get(EXTENSION, {}))
        self._said |= {name: value for name, value in told[NAMESPACE].items() if name != "cursor"}
        self.ended += {ended(update.status.state)} & ENDS

    def _note(self, told: dict[str, Any]) -> None:
        if agent := told.get("agent"):
            self._agents[agent["id"]] = self._agents.get(agent["id"], {}) | agent
        if routed := told.get("routed"):
            self._routed = [*self._routed, routed]

    def holds(self) -> dict[str, Any]:
        """The task as this client would show it."""
        known = {"agents": [*self._agents.values()], "routed": self._routed}
        told = {name: value for name, value in known.items() if value}
        metadata = ({NAMESPACE: self._said} if self._said else {}) | ({EXTENSION: told} if told else {})
        return shown(self.task) | {"metadata": metadata}


def ended(state: int) -> str:
    """The name of a state."""
    return TaskState.Name(state).removeprefix("TASK_STATE_")


def holding(task: dict[str, Any]) -> dict[str, Any]:
    """A Task in the JSON of 1.0, as a client would show it."""
    return {"metadata": {}} | shown(ParseDict(msgspec.json.decode(msgspec.json.encode(task)), Task()))


def shown(task: Task) -> dict[str, Any]:
    said = MessageToDict(task)
    valid = [artifact for artifact in said.get("artifacts", ()) if not is_void(artifact)]
    return said | {"artifacts": {artifact["artifactId"]: artifact | {"parts": joined(artifact)} for artifact in valid}}


def is_void(artifact: dict[str, Any]) -> bool:
    return bool(artifact.get("metadata", {}).get(NAMESPACE, {}).get("void"))


def joined(artifact: dict[str, Any]) -> list[Any]:
    """Parts, with text that follows text as one."""
    out: list[Any] = []
    for part in artifact["parts"]:
        if part.keys() != {"text"}:
            out.append(part)
        elif out and isinstance(out[-1], str):
            out[-1] += part["text"]
        elif part["text"]:
            out.append(part["text"])
    return out


def reading(stream: Sequence[bytes], profile: Profile = PLAIN, envelope: Envelope = BARE) -> Client:
    """A client that has read ``stream``."""
    client = Client()
    for response in responses(stream, profile, envelope):
        client.take(response)
    return client
