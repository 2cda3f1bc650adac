"""The JSON of A2A 1.0 objects: how the values of the vocabulary look in it. Pure.

Official clients read it by the rules of protocol buffers: no JSON may be nested deeper than a hundred of their
messages, and every number is a double. What is too deep becomes JSON text here; ``to_json`` writes integers that a
double would round as strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ... import events as ev
from ...request import Message
from .._json import to_json
from .wire import AGENT, USER

__all__ = ("DEPTH", "agent_message", "data", "error_info", "part", "timestamp", "to_json", "user_message")

Payload = dict[str, Any]

DEPTH = 30
"""How many arrays and objects a value may have inside each other: an object takes three protocol buffer messages."""

JSON = "application/json"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INLINE = re.compile(r"data:([^,]*?);base64,((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)")


def timestamp(at_ms: int) -> str:
    """Unix time in milliseconds as ISO 8601 in UTC, with milliseconds."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def part(content: ev.Part) -> Payload:
    """A ``Part`` of 1.0. A file at a provider, which has no address, is data: its handle."""
    if content.kind == "text":
        said: Payload = {"text": content.text}
    elif content.kind == "json" or not content.url:
        said = data(content.data)
    elif inline := _INLINE.fullmatch(content.url):
        said = {"raw": inline[2], "mediaType": inline[1]}
    else:
        said = {"url": content.url}
    named = {"mediaType": said.get("mediaType") or content.mime_type, "filename": content.name}
    return said | {field: value for field, value in named.items() if value}


def data(value: Any) -> Payload:
    """A ``Part`` that holds ``value``."""
    if _is_deep(value):
        return {"text": msgspec.json.encode(value).decode(), "mediaType": JSON}
    return {"data": value}


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list | tuple):
                inner += item
        if not inner:
            return False
        level = inner
    return any(isinstance(item, dict | list | tuple) for item in level)


def user_message(message: Message, task_id: str, context_id: str) -> Payload:
    """A ``Message`` of the user in its task."""
    parts = [{"text": message.content}] if message.content or not message.parts else []
    return _message(message.id, USER, [*parts, *map(part, message.parts)], task_id, context_id)


def agent_message(id: str, parts: Iterable[Payload], task_id: str, context_id: str) -> Payload:
    """A ``Message`` of the agent, for a status: what it asks, or why it failed."""
    return _message(id, AGENT, [*parts], task_id, context_id)


def _message(id: str, role: str, parts: list[Payload], task_id: str, context_id: str) -> Payload:
    return {"messageId": id, "role": role, "taskId": task_id, "contextId": context_id, "parts": parts}


def error_info(reason: str, **metadata: str) -> Payload:
    """An item of the ``data`` (JSON-RPC) or ``details`` (REST) of an error: ``google.rpc.ErrorInfo``."""
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    return {"@type": kind, "reason": reason, "domain": "a2a-protocol.org", "metadata": metadata}
