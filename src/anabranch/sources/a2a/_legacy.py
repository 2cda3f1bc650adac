"""What agents say that are older than A2A 1.0, in the words of 1.0. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from . import _wire as wire


class _Flat(wire.Wire, frozen=True, gc=False):
    """A result before 1.0: a task, a message or an update, told apart by ``kind``, which some agents leave out."""

    kind: str | None = None
    id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    status: wire.Status | None = None
    artifacts: list[wire.Artifact] | None = None
    history: list[wire.Message] | None = None
    artifact: wire.Artifact | None = None
    append: bool | None = None
    last_chunk: bool | None = None
    message_id: str | None = None
    role: str | int | None = None
    parts: list[wire.Part] | None = None
    metadata: Any = None


class _FlatResponse(wire.Wire, frozen=True, gc=False):
    result: _Flat | None = None
    error: wire.Error | None = None
    look: wire.Look | None = None


_decode = msgspec.json.Decoder(_FlatResponse).decode


def decode(data: bytes) -> wire.Response:
    """The JSON-RPC response of an older version in ``data``. Raises as ``_wire.decode`` does."""
    try:
        response = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        response = wire.careless(data, _FlatResponse)
    return wire.Response(_told(response.result) if response.result is not None else None, response.error, response.look)


def _told(flat: _Flat) -> wire.Result:
    """``flat`` in the words of 1.0."""
    kind = flat.kind
    if kind == "artifact-update" or flat.artifact is not None:
        return wire.Result(
            artifact_update=wire.ArtifactUpdate(
                flat.task_id, flat.context_id, flat.artifact, flat.append, flat.last_chunk
            )
        )
    if kind == "message" or flat.parts is not None:
        return wire.Result(message=wire.Message(flat.message_id, flat.context_id, flat.task_id, flat.role, flat.parts))
    if kind == "status-update" or (flat.status is not None and flat.id is None):
        return wire.Result(status_update=wire.StatusUpdate(flat.task_id, flat.context_id, flat.status, flat.metadata))
    if kind == "task" or flat.id is not None:
        return wire.Result(task=wire.Task(flat.id, flat.context_id, flat.status, flat.artifacts, flat.history))
    return wire.Result()
