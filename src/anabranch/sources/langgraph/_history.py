"""A conversation as LangChain messages that every provider accepts: each tool call directly followed by its result."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from ...events import Part
from ...request import Message, ToolCall

_NO_RESULT = "Error: this tool reported no result."


def conversation(messages: Iterable[Message]) -> list[BaseMessage]:
    """``messages`` as the root agent's model may read them.

    What sub-agents wrote is left out: the root agent knows it from the result of its tool call. A result without its
    call is dropped, a call without a result gets one that says so, and results stand where their call does.
    """
    own = [message for message in messages if not message.agent]
    results: defaultdict[str, deque[Message]] = defaultdict(deque)
    for message in own:
        if message.role == "tool" and message.tool_call_id:
            results[message.tool_call_id].append(message)
    out: list[BaseMessage] = []
    for message in own:
        if message.role in ("system", "developer"):
            out.append(SystemMessage(_text(message), id=message.id))
        elif message.role == "user":
            out.append(HumanMessage(_content(message), id=message.id))
        elif message.role == "assistant" and (message.tool_calls or _text(message)):
            out.append(
                AIMessage(_text(message), id=message.id, tool_calls=[_call(call) for call in message.tool_calls])
            )
            out.extend(_result(call, results[call.id]) for call in message.tool_calls)
    return out


def unanswered(messages: Sequence[Any]) -> list[BaseMessage]:
    """Results for the calls that the end of a stored conversation leaves open, as a cancelled run does."""
    answered = {message.tool_call_id for message in messages if message.type == "tool"}
    last = next((message for message in reversed(messages) if message.type == "ai"), None)
    calls = [call["id"] for call in last.tool_calls] if last is not None else []
    return [ToolMessage(_NO_RESULT, tool_call_id=call, status="error") for call in calls if call not in answered]


def _result(call: ToolCall, results: deque[Message]) -> ToolMessage:
    if not results:
        return ToolMessage(_NO_RESULT, tool_call_id=call.id, name=call.name, status="error")
    message = results.popleft()
    text = _text(message) or message.error or ""
    status = "success" if message.error is None else "error"
    return ToolMessage(text, id=message.id, tool_call_id=call.id, name=call.name, status=status)


def _call(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = {}  # cut off by a failure; its result says so
    return {"id": call.id, "name": call.name, "args": arguments if isinstance(arguments, dict) else {}}


def _text(message: Message) -> str:
    return message.content or "".join(part.text for part in message.parts)


def _content(message: Message) -> str | list[str | dict[Any, Any]]:
    """Text, or content blocks when there is more than text."""
    if all(part.kind == "text" for part in message.parts):
        return _text(message)
    blocks = [{"type": "text", "text": message.content}] if message.content else []
    return [*blocks, *map(_block, message.parts)]


def _block(part: Part) -> dict[str, Any]:
    if part.kind == "file":
        kind = "image" if part.mime_type.startswith("image/") else "file"
        return {"type": kind, "url": part.url, "mime_type": part.mime_type}
    return {"type": "text", "text": part.text if part.kind == "text" else json.dumps(part.data, ensure_ascii=False)}
