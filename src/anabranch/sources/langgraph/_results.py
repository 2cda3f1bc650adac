"""Tool results: the three reports of one result become one, with the text that the model will read. Pure.

A call's end is reported by ``tools`` (at once), by ``messages`` and by ``updates`` (when its node committed it).
Middleware may still rewrite what ``tools`` reported. Where the commit follows at once, because the call has a task of
its own (agents do it so), the committed ToolMessage is the result, and so it is for every error. Otherwise the first
report is.
"""

from __future__ import annotations

from typing import Any

from ...events import Event, ToolCallFinished, ToolOutputDelta, ToolReturned
from .._foreign import as_it_is, attribute, entry, json_text, label, listed, plain
from ._failures import explain
from ._lanes import Call, Lane, Lanes, announce, end


class Results:
    """The tool calls of one run, from their start to their result.

    ``resumed``: the run continues an interrupted one, so a committed result may belong to a call of the run before.
    """

    def __init__(self, lanes: Lanes, resumed: bool) -> None:
        self._lanes = lanes
        self._resumed = resumed
        self._held: dict[Call, Lane] = {}

    def started(self, lane: Lane, call_id: str, data: dict[str, Any], out: list[Event]) -> None:
        """A tool began to run (again, after a retry)."""
        call = lane.calls.get(call_id)
        if call is None:
            given, name = data.get("input"), label(data.get("tool_name")) or "unknown"
            call = announce(lane, call_id, name, {} if given is None else given, out)
        call.running = True
        call.solo = self._lanes.solo(lane, call_id)
        self._close(lane, call, out)

    def call(self, lane: Lane, call_id: str, out: list[Event]) -> Call:
        """The newest call with this id; one that nobody announced is announced now."""
        return lane.calls.get(call_id) or announce(lane, call_id, "unknown", None, out)

    def output(self, lane: Lane, call_id: str, delta: Any, out: list[Event]) -> None:
        """A running tool reported output."""
        content = delta if isinstance(delta, str) else plain(delta, as_it_is)
        out.append(ToolOutputDelta(agent=lane.path, call_id=self.call(lane, call_id, out).id, content=content))

    def finished(self, lane: Lane, call_id: str, output: Any, out: list[Event]) -> None:
        """A tool returned ``output``: a ToolMessage, a Command with some, or any value when no model called it."""
        call = self.call(lane, call_id, out)
        call.running = False
        is_command = attribute(output, "goto") is not None
        messages = tool_messages(attribute(output, "update") if is_command else {"messages": output})
        if not messages and not is_command:
            self._return(lane, call, _text(output), False, "", out)
        for message in messages:
            if lane.calls.get(message.tool_call_id) is not call:
                other = message.tool_call_id
                owner = lane.calls.get(other) or announce(lane, other, label(message.name) or call.name, None, out)
                self._commit(lane, owner, message, out)
            elif call.solo:
                self._hold(lane, call, _text(message.content), _is_error(message))
            else:
                self._commit(lane, call, message, out)

    def failed(self, lane: Lane, call_id: str, out: list[Event]) -> None:
        """A tool raised. What it said may be rewritten before the model reads it, or may end the run."""
        call = self.call(lane, call_id, out)
        call.running = False
        text = f"Error: the tool {call.name} failed."
        if call.solo or call.asked:
            self._hold(lane, call, text, True)
        else:
            self._return(lane, call, text, True, "", out)

    def committed(self, lane: Lane, message: Any, out: list[Event]) -> None:
        """A ToolMessage is in the state now. One for a call of an earlier run matters only when that run is resumed."""
        call = lane.calls.get(message.tool_call_id)
        if call is None:
            if not self._resumed:
                return
            call = announce(lane, message.tool_call_id, label(message.name) or "unknown", None, out)
        self._commit(lane, call, message, out)

    def task_ended(self, lane: Lane, calls: list[Call], error: BaseException | None, out: list[Event]) -> None:
        """The task that ran ``calls`` ended: nothing will be committed any more."""
        for call in calls:
            if call.returned:
                continue
            if error is not None and (call.held or call.running):
                self._return(lane, call, f"Error: {explain(error, call.name)}", True, "", out)
            elif call.held:
                self._return(lane, call, *call.held, "", out)

    def flush(self, out: list[Event]) -> None:
        """The stream ended: results that were never committed are results all the same."""
        for call, lane in list(self._held.items()):
            if call.held:
                self._return(lane, call, *call.held, "", out)

    def _hold(self, lane: Lane, call: Call, text: str, is_error: bool) -> None:
        call.held = (text, is_error)
        self._held[call] = lane

    def _commit(self, lane: Lane, call: Call, message: Any, out: list[Event]) -> None:
        self._return(lane, call, _text(message.content), _is_error(message), label(message.id), out)

    def _return(self, lane: Lane, call: Call, text: str, is_error: bool, message_id: str, out: list[Event]) -> None:
        self._held.pop(call, None)
        if call.returned:
            return
        call.returned, call.running = True, False
        self._close(lane, call, out)
        end(call.lanes, is_error, out)
        error = text if is_error else None
        result = ToolReturned(
            agent=lane.path, call_id=call.id, content=text, message_id=message_id, is_error=is_error, error=error
        )
        out.append(result)
        if is_error:
            out.extend(lane.plan.revert(call.id))

    def _close(self, lane: Lane, call: Call, out: list[Event]) -> None:
        if not call.closed:
            call.closed = True
            out.append(ToolCallFinished(agent=lane.path, call_id=call.id))


def _is_tool_message(value: Any) -> bool:
    kind, call_id = attribute(value, "type"), attribute(value, "tool_call_id")
    return isinstance(kind, str) and kind == "tool" and isinstance(call_id, str)


def _is_error(message: Any) -> bool:
    return label(attribute(message, "status")) == "error"


def tool_messages(update: Any) -> list[Any]:
    """The ToolMessages in a state update: of a node, or of a Command."""
    messages = entry(update, "messages")
    overwrite = attribute(messages, "value")
    return [item for item in listed(messages if overwrite is None else overwrite) if _is_tool_message(item)]


def _text(content: Any) -> str:
    """A result as the one string that clients show: text blocks joined, everything else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(_is_text(block) for block in content):
        return "".join(block if isinstance(block, str) else block["text"] for block in content)
    return json_text(content)


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (
        isinstance(block, dict) and label(block.get("type")) == "text" and isinstance(block.get("text"), str)
    )
