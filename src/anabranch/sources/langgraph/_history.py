"""A conversation as LangChain messages that every provider accepts: each tool call directly followed by its result."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from ...encodable import whole
from ...events import Part
from ...request import Message, ToolCall
from .._foreign import json_text

NO_RESULT = "Error: this tool reported no result."

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What every provider takes as the id of a call: OpenAI no more than 40 characters, Anthropic no others."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LIMIT = 64
_AGAIN = re.compile(r"#\d+$")
"""What the translator adds to the id of a call that its provider had used before."""


def conversation(messages: Iterable[Message], after: Sequence[BaseMessage] = ()) -> list[BaseMessage]:
    """``messages`` as the root agent's model may read them, behind those that it has (``after``).

    What sub-agents wrote is left out: the root agent knows it from the result of its tool call. A result without its
    call is dropped, a call without a result gets one that says so, and results stand where their call does. Messages
    that say nothing are dropped, which Anthropic refuses, but not the user's if it is the last one. Ids are unique.
    """
    own = [message for message in messages if not message.agent]
    results, ids = _joined(own), _Ids(after)
    out: list[BaseMessage] = []
    for place, message in enumerate(own):
        if message.role in ("system", "developer"):
            out.append(SystemMessage(_text(message), id=ids.of_message(message)))
        elif message.role == "user":
            content = _content(message)
            if place == len(own) - 1 or not isinstance(content, str) or content.strip():
                out.append(HumanMessage(content, id=ids.of_message(message)))
        elif message.role == "assistant" and (message.tool_calls or _text(message).strip()):
            named = [(ids.of_call(call), call) for call in message.tool_calls]
            asked = [{"id": id, "name": _name(call), "args": _arguments(call)} for id, call in named]
            out.append(AIMessage(_text(message), id=ids.of_message(message), tool_calls=asked))
            for number, (id, call) in enumerate(named):
                result = results.get((place, number))
                out.append(_result(id, _name(call), result, ids.of_message(result) if result else None))
    return out


def unseen(messages: Sequence[Message], stored: Sequence[BaseMessage], news: int | None) -> list[Message]:
    """The end of the conversation ``messages`` that a graph which has ``stored`` has not seen.

    Those are the ``news`` last messages (None: the user's at the end), and before them what the graph lost: a run that
    never reached it, the half of an answer that was cancelled, the steps that its last checkpoint lacks.
    """
    begin = _lost(messages, stored)
    if begin is None:
        begin = len(messages) - (_last_questions(messages, stored) if news is None else news)
    return [message for message in messages[begin:] if message.role not in ("system", "developer")]


def mended(
    stored: Sequence[BaseMessage], messages: Iterable[Message] = (), otherwise: str = NO_RESULT
) -> list[BaseMessage]:
    """What has to be written to a graph's memory that holds ``stored``, so that a model may read it.

    A cancelled or failed run, or a question that nobody answered, leaves calls open. They get the result that they have
    in ``messages``, or ``otherwise``: behind what is stored or, where that is not the place, with all of it anew.
    """
    owners: dict[str, int] = {}
    answers: defaultdict[int, list[BaseMessage]] = defaultdict(list)
    for place, message in enumerate(stored):
        owners |= {call["id"]: place for call in _calls(message)}
        if isinstance(message, ToolMessage) and message.tool_call_id in owners:
            answers[owners.pop(message.tool_call_id)].append(message)
    results = _known_results(messages) if owners else {}
    out: list[BaseMessage] = []
    for place, message in enumerate(stored):
        if isinstance(message, ToolMessage):
            continue
        done = {answer.tool_call_id for answer in answers[place] if isinstance(answer, ToolMessage)}
        owed = [call for call in _calls(message) if call["id"] not in done]
        out += [message, *answers[place]]
        out += [_result(call["id"], call["name"] or "", results.get(call["id"]), None, otherwise) for call in owed]
    if len(out) >= len(stored) and all(old is new for old, new in zip(stored, out, strict=False)):
        return out[len(stored) :]
    return [RemoveMessage(REMOVE_ALL_MESSAGES), *out]


def restated(messages: Iterable[Message], stored: Iterable[BaseMessage]) -> list[BaseMessage]:
    """The system messages that read otherwise than they are stored, each in the place of its older form."""
    known = {message.id: message.text for message in stored if message.type == "system"}
    said = [message for message in messages if message.id in known and message.role in ("system", "developer")]
    return [SystemMessage(_text(each), id=each.id) for each in said if _text(each) != known[each.id]]


# --- which result, which place -------------------------------------------------------------------------------------


def _joined(own: Sequence[Message]) -> dict[tuple[int, int], Message]:
    """The newest result of each call, by the place of its message and its number there."""
    results: dict[tuple[int, int], Message] = {}
    callers: dict[str, tuple[int, int]] = {}
    early: dict[str, Message] = {}
    for place, message in enumerate(own):
        if message.role == "assistant":
            for number, call in enumerate(message.tool_calls):
                callers[call.id] = place, number
                if call.id in early:
                    results[place, number] = early.pop(call.id)
        elif message.role == "tool" and message.tool_call_id:
            if caller := callers.get(message.tool_call_id):
                results[caller] = message
            else:
                early[message.tool_call_id] = message
    return results


def _known_results(messages: Iterable[Message]) -> dict[str, Message]:
    """The newest results, by all that a graph may call their call."""
    own = [message for message in messages if not message.agent]
    joined = sorted(_joined(own).items(), key=lambda item: item[0])
    return {name: result for (at, number), result in joined for name in _names(own[at].tool_calls[number])}


def _lost(messages: Sequence[Message], stored: Sequence[BaseMessage]) -> int | None:
    """From where on a graph that has ``stored`` cannot know ``messages``; None when the two have nothing in common."""
    last, heard = stored[-1], {message.id for message in stored if message.type == "human"}
    calls = {last.tool_call_id} if isinstance(last, ToolMessage) else {call["id"] for call in _calls(last)}
    begin, end = 0, len(messages)
    for place, message in enumerate(messages):
        if message.role == "user" and (message.id in heard or (begin and _was_taken(messages, place))):
            begin, end = place + 1, len(messages)
        elif message.role == "user" and begin and end == len(messages):
            end = place
    if begin and messages[begin - 1].id == last.id:
        return begin
    for place in range(end, begin, -1):
        message = messages[place - 1]
        if not message.agent and any(calls & _names(call) for call in message.tool_calls):
            return place
    return end if begin else None


def _was_taken(messages: Sequence[Message], place: int) -> bool:
    """Whether the graph went on with this answer to its question, which it does not keep as a message."""
    return messages[place].is_answer and place + 1 < len(messages) and messages[place + 1].role != "user"


def _last_questions(messages: Sequence[Message], stored: Sequence[BaseMessage]) -> int:
    """How many user messages at the end are not stored."""
    known = {message.id for message in stored}
    number = 0
    while number < len(messages) and messages[-number - 1].role == "user" and messages[-number - 1].id not in known:
        number += 1
    return number


def _calls(message: BaseMessage) -> list[Any]:
    return [call for call in message.tool_calls if call["id"]] if isinstance(message, AIMessage) else []


# --- ids and names -------------------------------------------------------------------------------------------------


class _Ids:
    """Names for the calls and messages of one conversation: each once, and the same ones whenever it is read."""

    def __init__(self, after: Iterable[BaseMessage]) -> None:
        self._messages = {message.id or "" for message in after} | {""}
        self._calls = {call["id"] for message in after for call in _calls(message)}

    def of_message(self, message: Message) -> str | None:
        """None when the message has no id of its own: the graph gives it one. An id twice would replace the first."""
        if message.id in self._messages:
            return None
        self._messages.add(message.id)
        return message.id

    def of_call(self, call: ToolCall) -> str:
        name = next(name for name in _forms(call.origin_id or call.id) if name not in self._calls)
        self._calls.add(name)
        return name


def _forms(id: str) -> Iterator[str]:
    """The id as a provider takes it, then others for when that is taken."""
    if _ID.fullmatch(id):
        yield id
    for number in count():
        yield "call_" + hashlib.sha256(f"{number}:{whole(id)}".encode()).hexdigest()[:24]


def _names(call: ToolCall) -> set[str]:
    """What a graph may know a call by: the provider's id, with what the translator added or without; or our form."""
    return {call.origin_id, _AGAIN.sub("", call.origin_id), next(_forms(call.origin_id or call.id))} - {""}


def _name(call: ToolCall) -> str:
    return _NOT_IN_A_NAME.sub("_", call.name)[:_NAME_LIMIT] or "unknown"


# --- contents ------------------------------------------------------------------------------------------------------


def _result(
    call_id: str, name: str, message: Message | None, id: str | None, otherwise: str = NO_RESULT
) -> ToolMessage:
    if message is None:
        return ToolMessage(otherwise, tool_call_id=call_id, name=name, status="error")
    text = _text(message) or whole(message.error or "")
    status = "success" if message.error is None else "error"
    return ToolMessage(text, id=id, tool_call_id=call_id, name=name, status=status)


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = msgspec.json.decode(whole(call.arguments) or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {}  # cut off by a failure; its result says so
    return arguments if isinstance(arguments, dict) else {}


def _text(message: Message) -> str:
    return whole(message.content or "".join(map(_shown, message.parts)))


def _shown(part: Part) -> str:
    return part.text if part.kind == "text" else json_text(part.data) if part.kind == "json" else ""


def _content(message: Message) -> str | list[str | dict[Any, Any]]:
    """Text, or content blocks when there is more than text."""
    if all(part.kind == "text" for part in message.parts):
        return _text(message)
    blocks = [{"type": "text", "text": whole(message.content)}] if message.content else []
    return [*blocks, *map(_block, message.parts)]


def _block(part: Part) -> dict[str, Any]:
    if part.kind == "file":
        kind = "image" if part.mime_type.startswith("image/") else "file"
        return {"type": kind, "url": part.url, "mime_type": part.mime_type}
    return {"type": "text", "text": whole(_shown(part))}
