"""A conversation as chat messages that every OpenAI-compatible endpoint accepts. Pure.

The strictest of them want one system message, first; user and assistant in turns; each tool call directly followed by
its result; ids of 40 characters at most that no other call has; arguments that are a JSON object.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from ...events import Part
from ...request import Message, ToolCall, ToolSpec
from ._wire import is_object

Json = dict[str, Any]

_NO_RESULT = "Error: this tool reported no result."
_ID_LIMIT = 40
_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def conversation(messages: Iterable[Message], instructions: str = "") -> list[Json]:
    """``messages`` as the model of the root agent may read them, after ``instructions``.

    What sub-agents wrote is left out: the root agent knows it from the result of its tool call. A result without its
    call is dropped, a call without a result gets one that says so, and results stand where their call does.
    """
    own = [message for message in messages if not message.agent]
    rules = [instructions, *(_text(message) for message in own if message.role in ("system", "developer"))]
    results: defaultdict[str, deque[Message]] = defaultdict(deque)
    for message in own:
        if message.role == "tool" and message.tool_call_id:
            results[message.tool_call_id].append(message)
    out: list[Json] = []
    ids: set[str] = set()
    if any(rules):
        out.append({"role": "system", "content": "\n\n".join(filter(None, rules))})
    for message in own:
        if message.role == "user":
            _say(out, "user", _content(message))
        elif message.role == "assistant" and message.tool_calls:
            named = [(call, _id(call, ids)) for call in message.tool_calls]
            calls = [_call(call, id) for call, id in named]
            out.append({"role": "assistant", "content": _text(message) or None, "tool_calls": calls})
            out += [_result(id, results[call.id]) for call, id in named]
        elif message.role == "assistant":
            _say(out, "assistant", _text(message))
    return out


def tools(specs: Iterable[ToolSpec]) -> list[Json]:
    """What the client offers, as functions."""
    return [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.parameters or {"type": "object", "properties": {}},
            },
        }
        for spec in specs
    ]


def _say(out: list[Json], role: str, content: str | list[Json]) -> None:
    """Add what ``role`` says; after its own words, to them: a question that had no answer is followed by another."""
    last = out[-1] if out else {}
    if not content:
        return
    if last.get("role") != role:
        out.append({"role": role, "content": content})
    elif isinstance(content, str) and isinstance(last["content"], str):
        last["content"] += "\n\n" + content
    else:
        last["content"] = _blocks(last["content"]) + _blocks(content)


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _id(call: ToolCall, taken: set[str]) -> str:
    """The id that the model gave to ``call``, or else one of nine letters and digits, which no endpoint refuses."""
    known = call.origin_id or (call.id if _SAFE_ID.fullmatch(call.id) else "")
    number = len(taken)
    while not known or len(known) > _ID_LIMIT or known in taken:
        known = f"call{number:05d}"
        number += 1
    taken.add(known)
    return known


def _call(call: ToolCall, id: str) -> Json:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "unknown"
    return {"id": id, "type": "function", "function": {"name": name, "arguments": _arguments(call.arguments)}}


def _arguments(text: str) -> str:
    return text if is_object(text) else "{}"  # cut off by a failure; its result says so


def _result(id: str, results: deque[Message]) -> Json:
    message = results.popleft() if results else None
    text = _NO_RESULT if message is None else _text(message) or message.error or ""
    return {"role": "tool", "tool_call_id": id, "content": text}


def _content(message: Message) -> str | list[Json]:
    """Text, or content blocks when there are images."""
    if not any(map(_is_image, message.parts)):
        return _text(message)
    blocks = _blocks(message.content) if message.content else []
    for part in message.parts:
        if _is_image(part):
            blocks.append({"type": "image_url", "image_url": {"url": part.url}})
        elif note := _note(part):
            blocks.append({"type": "text", "text": note})
    return blocks


def _is_image(part: Part) -> bool:
    return part.kind == "file" and part.mime_type.startswith("image/") and bool(part.url)


def _text(message: Message) -> str:
    """The text of a message, and a note of everything in it that is none."""
    notes = [note for part in message.parts if (note := _note(part))]
    if all(part.kind == "text" for part in message.parts):
        return message.content or "".join(notes)
    return "\n".join(filter(None, [message.content, *notes]))


def _note(part: Part) -> str:
    if part.kind == "text":
        return part.text
    if part.kind == "json":
        return json.dumps(part.data, ensure_ascii=False)
    where = "" if part.url.startswith("data:") else part.url
    return f"[{' '.join(filter(None, ['file', part.name, part.mime_type, where]))}]"
