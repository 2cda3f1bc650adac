"""What A2A 1.0 says on the wire, as far as this source reads and writes it. Pure.

One JSON-RPC response is read leniently: fields that are not here are ignored and everything is optional, so a newer or
careless agent is understood as far as it goes.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ...errors import SourceError

VERSION = "1.0"
"""The protocol version this source speaks, as the header ``A2A-Version`` says it."""

STATES = {
    f"TASK_STATE_{state.upper()}": state
    for state in ("completed", "failed", "rejected", "canceled", "input_required", "auth_required")
}
"""The states in which a task is over, or waits for somebody else (specification 4.1.3), as they are on the wire."""


class _Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pass


class Part(_Wire, frozen=True, gc=False):
    """Exactly one of ``text``, ``raw`` (base64), ``url`` and ``data`` is there."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    filename: str | None = None
    media_type: str | None = None


class Message(_Wire, frozen=True, gc=False):
    """What the user (``ROLE_USER``) or the agent said."""

    message_id: str | None = None
    context_id: str | None = None
    task_id: str | None = None
    role: str | int | None = None
    parts: list[Part] | None = None


class Status(_Wire, frozen=True, gc=False):
    """The state of a task, and what the agent says about it."""

    state: str | int | None = None
    message: Message | None = None


class Artifact(_Wire, frozen=True, gc=False):
    """One result of a task."""

    artifact_id: str | None = None
    name: str | None = None
    parts: list[Part] | None = None


class Task(_Wire, frozen=True, gc=False):
    """A task as it is now. Its history is not read: it tells what was said before."""

    id: str | None = None
    context_id: str | None = None
    status: Status | None = None
    artifacts: list[Artifact] | None = None


class StatusUpdate(_Wire, frozen=True, gc=False):
    """The task has another state, or the agent has something to say about it."""

    task_id: str | None = None
    context_id: str | None = None
    status: Status | None = None
    metadata: Any = None


class ArtifactUpdate(_Wire, frozen=True, gc=False):
    """A piece of an artifact."""

    task_id: str | None = None
    context_id: str | None = None
    artifact: Artifact | None = None
    append: bool | None = None
    last_chunk: bool | None = None


class Result(_Wire, frozen=True, gc=False):
    """A ``StreamResponse`` or ``SendMessageResponse``: one of four."""

    task: Task | None = None
    message: Message | None = None
    status_update: StatusUpdate | None = None
    artifact_update: ArtifactUpdate | None = None


class Error(_Wire, frozen=True, gc=False):
    """A JSON-RPC error."""

    code: int | None = None
    message: str | None = None


class Response(_Wire, frozen=True, gc=False):
    """A JSON-RPC response."""

    result: Result | None = None
    error: Error | None = None


_decode = msgspec.json.Decoder(Response).decode


def decode(data: bytes) -> Response:
    """The JSON-RPC response in ``data``. Raises ``SourceError`` (``agent_protocol``) when it is none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        # Half of a surrogate pair and broken UTF-8 are what msgspec refuses and a careless agent sends.
        return msgspec.convert(json.loads(data.decode(errors="replace")), Response)
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


class Watch:
    """What the reader of a stream has to know of the items it only passes on: the task's id, and whether it is over.

    Once the task is known this costs a search for a few bytes an item.
    """

    def __init__(self) -> None:
        self.task_id = ""
        self.over = False

    def see(self, data: bytes) -> None:
        """Take note of one item."""
        if self.task_id and b"TASK_STATE_" not in data and b'"error"' not in data:
            return
        try:
            response = decode(data)
        except SourceError:
            return  # the translator says what is wrong with it
        result = response.result or Result()
        self.task_id = self.task_id or place(result)[0]
        holder = result.task or result.status_update
        self.over = response.error is not None or (holder is not None and end(holder.status) is not None)


def request(method: str, params: dict[str, Any]) -> bytes:
    """A JSON-RPC request. One is in flight on a connection, so its id never varies."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "method": method, "params": params})


def user_message(text: str, message_id: str, *, context_id: str = "", task_id: str = "") -> dict[str, Any]:
    """A message of the user, in a task or context that exists when they are named."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
    known = {"contextId": context_id, "taskId": task_id}
    return message | {key: value for key, value in known.items() if value}
