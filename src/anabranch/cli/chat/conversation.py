"""The messages of a thread as a client holds them, to be sent with its next turn. Pure.

A server that keeps histories recognises each message by its id; any other reads the whole conversation here. Reasoning
and activities are shown, not sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .answer import voided

Event = dict[str, Any]
Message = dict[str, Any]

_UNSENT = frozenset({"activity", "reasoning"})


class Conversation:
    """Feed it the events of each run, without chunks; ``say`` what the user says between them."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._texts: dict[str, list[str]] = {}  # the streamed pieces of a message's text, or of a call's arguments
        self._calls: dict[str, dict[str, Any]] = {}

    @property
    def messages(self) -> list[Message]:
        """The conversation as AG-UI messages. A message that says nothing and calls nothing is left out."""
        return [self._written(message) for message in self._messages if self._says(message)]

    def say(self, id: str, text: str) -> None:
        """The user says ``text``."""
        self._messages.append({"id": id, "role": "user", "content": text})

    def forget(self, id: str) -> None:
        """A message that was never sent, or is void."""
        self._messages = [message for message in self._messages if message["id"] != id]

    def feed(self, event: Event) -> None:
        """Take the next event of a run."""
        match event["type"]:
            case "TEXT_MESSAGE_START":
                self._message(event["messageId"], event.get("role", "assistant"), event)
            case "TEXT_MESSAGE_CONTENT":
                self._texts.setdefault(event["messageId"], []).append(event["delta"])
            case "TOOL_CALL_START":
                self._call(event)
            case "TOOL_CALL_ARGS":
                self._texts.setdefault(event["toolCallId"], []).append(event["delta"])
            case "TOOL_CALL_RESULT":
                self._returned(event)
            case "MESSAGES_SNAPSHOT":
                self._replace(event["messages"])
                _ = self.messages  # what is no conversation raises here, and not at the next turn
            case "CUSTOM":
                for id in voided(event):
                    self.forget(id)
                    self._drop_calls({id})

    def settle(self) -> None:
        """The run did not end well: calls that nothing answers would make the next turn's history invalid."""
        answered = {message.get("toolCallId") for message in self._messages if message["role"] == "tool"}
        self._drop_calls(self._calls.keys() - answered)

    def _message(self, id: str, role: str, event: Event) -> Message:
        for message in reversed(self._messages):
            if message["id"] == id:
                return message
        kept = {name: event[name] for name in ("name", "subagentRunId") if event.get(name)}
        self._messages.append({"id": id, "role": role} | kept)
        return self._messages[-1]

    def _call(self, event: Event) -> None:
        id = event["toolCallId"]
        owner = {name: event[name] for name in ("subagentRunId",) if event.get(name)}
        message = self._message(event.get("parentMessageId") or id, "assistant", owner)
        if id not in self._calls:
            function = {"name": event["toolCallName"], "arguments": ""}
            self._calls[id] = {"id": id, "type": "function", "function": function}
            message.setdefault("toolCalls", []).append(self._calls[id])

    def _returned(self, event: Event) -> None:
        call_id = event["toolCallId"]
        kept = {name: event[name] for name in ("subagentRunId", "metadata") if event.get(name)}
        result = {"id": event["messageId"], "role": "tool", "toolCallId": call_id, "content": event["content"]} | kept
        at = len(self._messages)
        for place, message in enumerate(self._messages):
            if any(call["id"] == call_id for call in message.get("toolCalls", ())):
                at = place + 1
                while at < len(self._messages) and self._messages[at]["role"] == "tool":
                    at += 1
        self._messages.insert(at, result)

    def _replace(self, messages: Iterable[Message]) -> None:
        self._messages = [dict(message) for message in messages if message.get("role") not in _UNSENT]
        calls = [call for message in self._messages for call in message.get("toolCalls") or ()]
        self._calls = {call["id"]: call for call in calls}
        for id in [*self._calls, *(message["id"] for message in self._messages)]:
            self._texts.pop(id, None)

    def _drop_calls(self, ids: Iterable[str]) -> None:
        gone = set(ids)
        for message in self._messages:
            if "toolCalls" in message:
                message["toolCalls"] = [call for call in message["toolCalls"] if call["id"] not in gone]

    def _says(self, message: Message) -> bool:
        streamed = any(self._texts.get(message["id"], ()))
        return message["role"] != "assistant" or bool(message.get("content") or streamed or message.get("toolCalls"))

    def _written(self, message: Message) -> Message:
        out = dict(message)
        if message["role"] == "assistant" or "content" not in message:
            streamed = "".join(self._texts.get(message["id"], ()))
            content = message.get("content") or ""
            out["content"] = content + streamed if isinstance(content, str) else content
        if message.get("toolCalls"):
            out["toolCalls"] = [self._called(call) for call in message["toolCalls"]]
        else:
            out.pop("toolCalls", None)
        return out

    def _called(self, call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        arguments = function.get("arguments", "") + "".join(self._texts.get(call["id"], ()))
        return call | {"function": function | {"arguments": arguments}}
