"""A conversation as AG-UI messages. Pure.

They are what a client holds that followed the runs, and may send back: ``parse`` reads of them what is given here.
What a message has no place for (data and files beside a text) is ``unshown``; of a live run it is in CUSTOM events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ...events import Part
from ...request import Message
from .payload import NAMESPACE
from .profile import Profile

_MEDIA = frozenset({"image", "audio", "video"})
_NATIVE = Profile(modern=True, subagents="native")


def written(messages: Iterable[Message], profile: Profile = _NATIVE) -> list[dict[str, Any]]:
    """``messages`` as a client reads them. No field is null."""
    return [_message(message, profile) for message in messages]


def unshown(messages: Iterable[Message], profile: Profile) -> Iterator[tuple[Message, Part]]:
    """The parts that ``written`` leaves out, with their messages."""
    for message in messages:
        if not _in_parts(message, profile):
            yield from ((message, part) for part in message.parts if message.content or part.kind == "file")


def _message(message: Message, profile: Profile) -> dict[str, Any]:
    native = profile.subagents == "native"
    agent = message.agent or None
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    fields = {
        "id": message.id,
        "role": message.role,
        "content": _content(message, profile) or (None if calls else ""),
        "name": message.name if message.role != "tool" else None,
        "toolCalls": calls or None,
        "toolCallId": message.tool_call_id,
        "error": message.error,
        "subagentRunId": agent if native else None,
        "metadata": {NAMESPACE: {"agent": agent}} if agent and not native else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _content(message: Message, profile: Profile) -> str | list[dict[str, Any]]:
    if _in_parts(message, profile):
        text = [Part(kind="text", text=message.content)] if message.content else []
        return [_part(part, profile) for part in (*text, *message.parts)]
    return message.content or "\n".join(_text(part) for part in message.parts if part.kind != "file")


def _in_parts(message: Message, profile: Profile) -> bool:
    """Whether its content is a list. A tool's result is one only if a client of 1.0 gave it so."""
    given = message.role == "tool" and profile.modern and not message.content
    return bool(message.parts) and (message.role == "user" or given)


def _text(part: Part) -> str:
    return part.text if part.kind == "text" else msgspec.json.encode(part.data).decode()


def _part(part: Part, profile: Profile) -> dict[str, Any]:
    if part.kind != "file":
        return {"type": "text", "text": _text(part)}
    handle = part.data if isinstance(part.data, dict) and "file" in part.data else None
    filename = {"filename": part.name} if part.name else {}
    if handle and not profile.modern:  # which knows one kind of part that has a handle
        return {"type": "binary", "id": handle["file"], "mimeType": part.mime_type} | filename
    # A type that is only known by its kind is in the kind of the part.
    mime = {} if part.mime_type.endswith("/*") or not part.mime_type else {"mimeType": part.mime_type}
    inline = f"data:{part.mime_type};base64,"
    source: dict[str, Any]
    if handle:
        source = {"type": "file", "value": handle["file"]} | mime
        source |= {"provider": handle["provider"]} if handle.get("provider") else {}
    elif mime and part.url.startswith(inline):
        source = {"type": "data", "value": part.url.removeprefix(inline)} | mime
    else:
        source = {"type": "url", "value": part.url} | mime
    kind = part.mime_type.partition("/")[0]
    metadata = {"metadata": filename} if filename else {}
    return {"type": kind if kind in _MEDIA else "document", "source": source} | metadata
