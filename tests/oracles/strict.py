"""Faults that the official clients let through: the stream is in order and the screen is wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]


def unanswered(events: Sequence[Event]) -> frozenset[str]:
    """The tool calls whose arguments a failure may have cut: nobody ran them.

    A call is one when its result is an error, or when it has no result and the run failed or was cancelled.
    """
    results = {e["toolCallId"]: e for e in events if e["type"] == "TOOL_CALL_RESULT"}
    last = events[-1] if events else {}
    failed = last.get("type") == "RUN_ERROR" or (last.get("outcome") or {}).get("type") == "cancelled"
    calls = {e["toolCallId"] for e in events if e["type"] == "TOOL_CALL_START"}
    return frozenset(call for call in calls if (_is_error(results[call]) if call in results else failed))


def _is_error(result: Event) -> bool:
    return bool(((result.get("metadata") or {}).get("anabranch") or {}).get("isError"))


def faults(events: Sequence[Event], messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with what a client shows (``messages``) after it read ``events``."""
    yield from _ids(events, messages)
    yield from _tools(messages, unanswered(events))
    yield from _attribution(events)
    yield from _text(events, messages)
    terminals = [e["type"] for e in events if e["type"] in ("RUN_FINISHED", "RUN_ERROR")]
    starts = sum(e["type"] == "RUN_STARTED" for e in events)
    if starts and len(terminals) != starts:
        yield f"{starts} runs started and these terminal events: {terminals}"


def _ids(events: Sequence[Event], messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from (f"two messages with the id {id}" for id in _twice(message["id"] for message in messages))
    opened = [("text", e["messageId"]) for e in events if e["type"] == "TEXT_MESSAGE_START"]
    opened += [("tool call", e["toolCallId"]) for e in events if e["type"] == "TOOL_CALL_START"]
    yield from (f"{kind} {id} is opened twice" for kind, id in _twice(opened))
    texts = {id for kind, id in opened if kind == "text"}
    others = ("REASONING_MESSAGE_START", "ACTIVITY_SNAPSHOT", "TOOL_CALL_RESULT")
    for event in events:
        if event["type"] in others and event["messageId"] in texts:
            yield f"{event['type']} has the id of a text message: {event['messageId']}"


def _tools(messages: Sequence[Mapping[str, Any]], cut: frozenset[str]) -> Iterator[str]:
    callers: dict[str, int] = {}
    for place, message in enumerate(messages):
        for call in message.get("toolCalls") or ():
            callers[call["id"]] = place
            arguments = call["function"]["arguments"]
            if arguments and call["id"] not in cut and not _is_json(arguments):
                yield f"the arguments of {call['id']} are not one JSON document: {arguments}"
    results = [(place, message) for place, message in enumerate(messages) if message["role"] == "tool"]
    yield from (f"two results for {id}" for id in _twice(message["toolCallId"] for _, message in results))
    for place, message in results:
        caller = callers.get(message["toolCallId"])
        if caller is None:
            yield f"the result {message['id']} is for an unknown call: {message['toolCallId']}"
        elif any(between["role"] != "tool" for between in messages[caller + 1 : place]):
            # A provider refuses such a history on the next turn.
            yield f"the result {message['id']} does not directly follow the message that called"


def _attribution(events: Sequence[Event]) -> Iterator[str]:
    started: set[str] = set()
    for event in events:
        agent = event.get("subagentRunId")
        if event["type"] == "SUBAGENT_STARTED":
            started.add(event["subagentRunId"])
        elif agent and agent not in started:
            yield f"{event['type']} belongs to {agent}, which never started"


def _text(events: Sequence[Event], messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    streamed: dict[str, str] = {}
    for event in events:
        if event["type"] in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            streamed[event["messageId"]] = streamed.get(event["messageId"], "") + event["delta"]
    shown = {message["id"]: message.get("content") for message in messages}
    for id, text in streamed.items():
        if id not in shown:
            yield f"the streamed message {id} is not shown"
        elif shown[id] != text:
            yield f"{id} shows {shown[id]!r}, streamed was {text!r}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _twice(items: Iterable[Any]) -> list[Any]:
    return [item for item, times in Counter(items).items() if times > 1]
