"""What A2A says on the wire, 1.0 and before it (0.2, 0.3), as far as this source reads and writes it. Pure.

One JSON-RPC response is read leniently: fields that are not here are ignored and everything is optional, so a newer or
careless agent is understood as far as it goes. What an older version says in other words is put into those of 1.0 when
it is read (``_legacy``); states and roles stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from ... import events as ev
from ...errors import SourceError

VERSION = "1.0"
"""The newest protocol version this source speaks, as the header ``A2A-Version`` says it."""

LEGACY = "0.3"
"""What is spoken with every agent that does not speak 1.0."""


NAMESPACE = "anabranch"
"""The key, in ``metadata``, of what agents of our own kind note for every client."""

EXTENSION = "https://anabranch.dev/extensions/attribution/v1"
"""The extension by which an agent of our own kind tells what has an author: sub-agents, tools, reasoning, routing."""

CYCLE = "cycle"
"""The code of a request that agents of our own kind would send round in a circle."""


class Methods(NamedTuple):
    """The JSON-RPC methods of one version."""

    stream: str
    send: str
    get: str
    cancel: str
    subscribe: str


METHODS = {
    VERSION: Methods("SendStreamingMessage", "SendMessage", "GetTask", "CancelTask", "SubscribeToTask"),
    LEGACY: Methods("message/stream", "message/send", "tasks/get", "tasks/cancel", "tasks/resubscribe"),
}
"""By version."""

STATES = {
    word: state
    for state in ("completed", "failed", "rejected", "canceled", "input_required", "auth_required")
    for word in (f"TASK_STATE_{state.upper()}", state, state.replace("_", "-"))
}
"""The states in which a task is over, or waits for somebody else (specification 4.1.3), as they are on the wire."""

ASKING = frozenset({"input_required", "auth_required"})
"""Those of the states in which a task waits for somebody."""


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Something on the wire."""


class File(Wire, frozen=True, gc=False):
    """A file before 1.0: ``uri`` or ``bytes`` (base64)."""

    uri: str | None = None
    bytes: str | None = None
    name: str | None = None
    mime_type: str | None = None


class Part(Wire, frozen=True, gc=False):
    """Exactly one of ``text``, ``raw`` (base64), ``url`` and ``data`` is there; before 1.0 ``file`` or one of those."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    file: File | None = None
    filename: str | None = None
    media_type: str | None = None
    metadata: Any = None


class Message(Wire, frozen=True, gc=False):
    """What the user (``ROLE_USER``, ``user``) or the agent said."""

    message_id: str | None = None
    context_id: str | None = None
    task_id: str | None = None
    role: str | int | None = None
    parts: list[Part] | None = None
    metadata: Any = None


class Status(Wire, frozen=True, gc=False):
    """The state of a task, and what the agent says about it."""

    state: str | int | None = None
    message: Message | None = None


class Artifact(Wire, frozen=True, gc=False):
    """One result of a task."""

    artifact_id: str | None = None
    name: str | None = None
    parts: list[Part] | None = None
    metadata: Any = None


class Task(Wire, frozen=True, gc=False):
    """A task as it is now. Its history is what was said before, the status messages that were replaced among it."""

    id: str | None = None
    context_id: str | None = None
    status: Status | None = None
    artifacts: list[Artifact] | None = None
    history: list[Message] | None = None
    metadata: Any = None


class StatusUpdate(Wire, frozen=True, gc=False):
    """The task has another state, or the agent has something to say about it."""

    task_id: str | None = None
    context_id: str | None = None
    status: Status | None = None
    metadata: Any = None


class ArtifactUpdate(Wire, frozen=True, gc=False):
    """A piece of an artifact."""

    task_id: str | None = None
    context_id: str | None = None
    artifact: Artifact | None = None
    append: bool | None = None
    last_chunk: bool | None = None


class Result(Wire, frozen=True, gc=False):
    """A ``StreamResponse`` or ``SendMessageResponse``: one of four."""

    task: Task | None = None
    message: Message | None = None
    status_update: StatusUpdate | None = None
    artifact_update: ArtifactUpdate | None = None


class Error(Wire, frozen=True, gc=False):
    """A JSON-RPC error. ``data`` may hold ``google.rpc.ErrorInfo``, which says more of it."""

    code: int | None = None
    message: str | None = None
    data: Any = None

    @property
    def retryable(self) -> bool:
        """Whether an agent of our own kind says that the same request may succeed later."""
        infos = self.data if isinstance(self.data, list) else []
        return any(noted(info, "metadata").get("retryable") == "true" for info in infos)


class Look(Wire, frozen=True, gc=False):
    """The JSON-RPC response to a question after the task."""

    result: Task | None = None
    error: Error | None = None


class Response(Wire, frozen=True, gc=False):
    """A JSON-RPC response, or what we looked up (``look``) because a stream ended too early."""

    result: Result | None = None
    error: Error | None = None
    look: Look | None = None


_R = TypeVar("_R")
_decode = msgspec.json.Decoder(Response).decode


def decode(data: bytes) -> Response:
    """The JSON-RPC response of 1.0 in ``data``. Raises ``SourceError`` (``agent_protocol``) when it is none.

    A result that is of an older version comes out empty (``is_legacy``).
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError):
        return careless(data, Response)


def is_legacy(response: Response) -> bool:
    """Whether ``decode`` found a result that 1.0 does not know."""
    return response.result == Result()


def careless(data: bytes, kind: type[_R]) -> _R:
    """``data`` as ``kind``, with what msgspec refuses: half of a surrogate pair, broken UTF-8. Raises as ``decode``."""
    try:
        return msgspec.convert(json.loads(data.decode(errors="replace")), kind)
    except (ValueError, msgspec.ValidationError, RecursionError):
        raise SourceError("The agent sent something that is not a JSON-RPC response.", code="agent_protocol") from None


def place(result: Result) -> tuple[str, str]:
    """The ids of the task and of the context that ``result`` is about, as far as it says so."""
    if result.task is not None:
        return result.task.id or "", result.task.context_id or ""
    said = result.artifact_update or result.status_update or result.message
    return (said.task_id or "", said.context_id or "") if said is not None else ("", "")


def end(status: Status | None) -> str | None:
    """How a task ended for now, one of the values of ``STATES``; None while it goes on."""
    return STATES.get(status.state) if status is not None and isinstance(status.state, str) else None


def is_users(message: Message) -> bool:
    """Whether the user said it."""
    return message.role in ("ROLE_USER", "user")


def noted(metadata: Any, key: str = NAMESPACE) -> dict[str, Any]:
    """What an agent of our own kind notes under ``key``; nothing when it is none."""
    found = metadata.get(key) if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def in_circle(error: Error) -> bool:
    """Whether an agent of our own kind refuses because the request has been there, or came too long a way."""
    return isinstance(error.data, list) and any(noted(each, "metadata").get("code") == CYCLE for each in error.data)


def is_void(artifact: Artifact) -> bool:
    """Whether an agent of our own kind takes back what it had said in ``artifact``."""
    return noted(artifact.metadata).get("void") is True


def request(method: str, params: dict[str, Any]) -> bytes:
    """A JSON-RPC request. One is in flight on a connection, so its id never varies."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "method": method, "params": params})


def user_message(
    text: str,
    message_id: str,
    *,
    version: str = VERSION,
    context_id: str = "",
    task_id: str = "",
    data: Any = msgspec.UNSET,
    more: Iterable[ev.Part] = (),
) -> dict[str, Any]:
    """A message of the user, in a task or context that exists when they are named.

    ``data`` is what it says as JSON, ``more`` what it has besides.
    """
    parts: list[dict[str, Any]] = [{"text": text}, *([] if data is msgspec.UNSET else [{"data": data}])]
    parts += [_sent(part) for part in more]
    if len(parts) > 1 and not text:
        del parts[0]
    message: dict[str, Any] = {"messageId": message_id, "role": "ROLE_USER", "parts": parts}
    if version == LEGACY:
        message |= {"kind": "message", "role": "user", "parts": [_older(part) for part in parts]}
    known = {"contextId": context_id, "taskId": task_id}
    return message | {key: value for key, value in known.items() if value}


def _sent(part: ev.Part) -> dict[str, Any]:
    """A part of the user's message, as 1.0 has it."""
    if part.kind == "json":
        return {"data": part.data}
    if part.kind == "text":
        return {"text": part.text}
    head, is_data, raw = part.url.partition(";base64,")
    inline = bool(is_data) and head.startswith("data:")
    said = {"raw": raw} if inline else {"url": part.url}
    about = {"mediaType": part.mime_type or (head.removeprefix("data:") if inline else ""), "filename": part.name}
    return said | {name: value for name, value in about.items() if value}


def _older(part: dict[str, Any]) -> dict[str, Any]:
    """The same as 0.3 has it."""
    if "text" in part or "data" in part:
        return {"kind": next(iter(part))} | part
    names = {"raw": "bytes", "url": "uri", "mediaType": "mimeType", "filename": "name"}
    return {"kind": "file", "file": {names[name]: value for name, value in part.items()}}


_BEFORE = b'{"before":'


def before(body: bytes) -> bytes:
    """The item of a response to ``Methods.get`` for a task that is to go on: all of it was told in an earlier run."""
    return b"%b%b}" % (_BEFORE, body)


def told_before(item: bytes) -> bytes:
    """The response in an item of ``before``; nothing for any other item."""
    return item[len(_BEFORE) : -1] if item.startswith(_BEFORE) else b""


def looked_up(body: bytes) -> bytes:
    """The item of a response to ``Methods.get``: what the task is by now, which a broken stream did not tell."""
    return b'{"look":%b}' % body


def piece(update: ArtifactUpdate, text: str) -> bytes:
    """The item of ``text``, which is what is new in ``update``."""
    assert update.artifact is not None
    artifact = {"artifactId": update.artifact.artifact_id, "parts": [{"text": text}]}
    told = {"taskId": update.task_id, "contextId": update.context_id, "artifact": artifact, "append": True}
    return msgspec.json.encode({"result": {"artifactUpdate": told | {"lastChunk": bool(update.last_chunk)}}})
