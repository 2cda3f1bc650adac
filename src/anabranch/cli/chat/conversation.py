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
        self._messages: dict[Any, Message] = {}  # by id, but results by the call that they answer, in a tuple
        self._texts: dict[str, list[str]] = {}  # the streamed pieces of a message's text, or of a call's arguments
        self._calls: dict[str, dict[str, Any]] = {}

    @property
    def messages(self) -> list[Message]:
        """The conversation as AG-UI messages. A message that says nothing and calls nothing is left out.

        Results follow the message that called.
        """
        out: list[Message] = []
        for message in self._messages.values():
            if message.get("toolCallId") in self._calls:
                continue
            if self._says(message):
                out.append(message)
            answered = [(call["id"],) for call in message.get("toolCalls") or ()]
            out += [self._messages[call] for call in answered if call in self._messages]
        return [self._written(message) for message in out]

    def say(self, id: str, text: str) -> None:
        """The user says ``text``."""
        self._messages[id] = {"id": id, "role": "user", "content": text}

    def forget(self, id: str) -> None:
        """A message that was never sent, or is void."""
        self._messages.pop(id, None)

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
                gone = set(voided(event))
                for id in gone:
                    self.forget(id)
                self._drop_calls(gone)

    def settle(self) -> None:
        """The run did not end well: calls that nothing answers would make the next turn's history invalid."""
        self._drop_calls({id for id in self._calls if (id,) not in self._messages})

    def _message(self, id: str, role: str, event: Event) -> Message:
        if id not in self._messages:
            kept = {name: event[name] for name in ("name", "subagentRunId") if event.get(name)}
            self._messages[id] = {"id": id, "role": role} | kept
        return self._messages[id]

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
        result = {"id": event["messageId"], "role": "tool", "toolCallId": call_id, "content": event["content"]}
        self._messages[(call_id,)] = result | kept

    def _replace(self, messages: Iterable[Message]) -> None:
        sent = [dict(message) for message in messages if message.get("role") not in _UNSENT]
        self._messages = {(m["toolCallId"],) if m["role"] == "tool" else m["id"]: m for m in sent}
        self._calls = {call["id"]: call for message in sent for call in message.get("toolCalls") or ()}
        for id in [*self._calls, *(message["id"] for message in sent)]:
            self._texts.pop(id, None)

    def _drop_calls(self, gone: set[str]) -> None:
        """Take calls back, with their results."""
        for message in self._messages.values():
            if "toolCalls" in message:
                message["toolCalls"] = [call for call in message["toolCalls"] if call["id"] not in gone]
        for id in gone & self._calls.keys():
            del self._calls[id]
            self._messages.pop((id,), None)

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
