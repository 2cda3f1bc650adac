"""The JSON of A2A 1.0 requests, as far as it is read; requests of 0.3 are made into it (``legacy``). Pure.

Fields that clients send and we have no use for are not named, and so ignored. A null is an absent field.
"""

from __future__ import annotations

from typing import Any

import msgspec

SUBMITTED, WORKING = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"
COMPLETED, FAILED, CANCELED = "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"
INPUT_REQUIRED, AUTH_REQUIRED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"
REJECTED = "TASK_STATE_REJECTED"

TERMINAL = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
"""States that a task never leaves."""
INTERRUPTED = frozenset({INPUT_REQUIRED, AUTH_REQUIRED})
"""States in which a task waits for its client."""
STATES = TERMINAL | INTERRUPTED | {SUBMITTED, WORKING}
"""Every state that a client may name."""

USER, AGENT = "ROLE_USER", "ROLE_AGENT"


class _Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pass


class Part(_Wire, frozen=True, gc=False):
    """Exactly one of ``text``, ``raw`` (base64), ``url`` and ``data`` is there; ``parse`` checks that."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    filename: str | None = None
    media_type: str | None = None
    metadata: dict[str, Any] | None = None


class Message(_Wire, frozen=True, gc=False):
    """What the user says. Its ids are checked by ``parse``, which says more about them."""

    message_id: Any = None
    context_id: Any = None
    task_id: Any = None
    role: Any = None
    parts: list[Part] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None


class Configuration(_Wire, frozen=True, gc=False):
    """How the client wants to be answered."""

    accepted_output_modes: list[str] | None = None
    history_length: int | None = None
    return_immediately: bool | None = None
    task_push_notification_config: dict[str, Any] | None = None


class SendMessage(_Wire, frozen=True, gc=False):
    """Parameters of SendMessage and SendStreamingMessage."""

    message: Message | None = None
    configuration: Configuration | None = None
    metadata: dict[str, Any] | None = None
    tenant: str | None = None


class GetTask(_Wire, frozen=True, gc=False):
    """Parameters of GetTask."""

    id: Any = None
    history_length: int | None = None


class TaskId(_Wire, frozen=True, gc=False):
    """Parameters of CancelTask and SubscribeToTask."""

    id: Any = None
    metadata: dict[str, Any] | None = None


class ListTasks(_Wire, frozen=True, gc=False):
    """Parameters of ListTasks. ``status`` is checked by ``parse``: an unknown one is an error, not ignored."""

    context_id: str | None = None
    status: Any = None
    page_size: int | None = None
    page_token: str | None = None
    history_length: int | None = None
    status_timestamp_after: str | None = None
    include_artifacts: bool | None = None
