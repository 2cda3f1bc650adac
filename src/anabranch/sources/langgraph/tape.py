"""Stream parts of LangGraph as JSON values, and back. Pure.

Written is what ``translate`` reads: text, reasoning, tool calls and results, who speaks, questions, errors, the plan.
Of a graph's state only its messages and its plan are written, of the input of a task only the calls that it runs; so
a recording does not grow with the square of the conversation, and does not hold what no client would have seen.
"""

from __future__ import annotations

from typing import Any

from .._foreign import attribute, entry, label
from .._tape import Loader, dump_error, dump_event, escaped, is_event, named, stand_in, valued, walk
from .translate import LangGraphTranslator

_META = (
    "lc_agent_name",
    "lc_internal_call",
    "lc_source",
    "langgraph_checkpoint_ns",
    "langgraph_node",
    "ls_model_name",
)
_MODEL: dict[str, Any] = {
    "id": None,
    "content": "",
    "additional_kwargs": {},
    "response_metadata": {},
    "usage_metadata": None,
    "tool_calls": [],
}
_MESSAGES: dict[str, dict[str, Any]] = {
    "AIMessageChunk": {**_MODEL, "tool_call_chunks": [], "chunk_position": None},
    "ai": {**_MODEL, "invalid_tool_calls": []},
    "tool": {"id": None, "content": "", "name": None, "status": None, "tool_call_id": None},
}
"""What is written of a message, by its type, where it is not the default. Of others only the id."""
_OTHER = {"id": None}
_TOOL = ("event", "tool_call_id", "tool_name", "input")
_QUESTION = ("id", "value", "response_schema")


def dump(part: dict[str, Any]) -> dict[str, Any]:
    """A stream part as a JSON value."""
    try:
        return {"type": part["type"], "ns": list(part["ns"]), "data": _WRITERS.get(part["type"], named)(part["data"])}
    except Exception:  # it is not what LangGraph gives, which the translator has to see again
        return named(part)  # type: ignore[no-any-return]  # of a dict: a dict


def _message(data: Any) -> list[Any]:
    message, meta = data
    return [_flat(message), {key: named(meta[key]) for key in _META if key in meta}]


def _tool(data: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {key: named(data[key]) for key in _TOOL if key in data}
    if "output" in data:
        said["output"] = walk(data["output"], _shape)
    if "delta" in data:
        said["delta"] = _emitted(data["delta"])
    return said


def _emitted(data: Any) -> Any:
    return {"$event": dump_event(data)} if is_event(data) else valued(data)


def _task(data: dict[str, Any]) -> dict[str, Any]:
    said = {"id": data["id"], "name": data["name"]}
    if name := label(entry(data.get("metadata"), "lc_agent_name")):
        said["metadata"] = {"lc_agent_name": name}
    if "result" not in data:
        return {**said, "input": _calls(data.get("input"))}
    error = data.get("error")
    said |= {"result": None, "error": None if error is None else {"$error": dump_error(error)}}
    return {**said, "interrupts": [_question(asked) for asked in data.get("interrupts") or ()]}


def _calls(given: Any) -> Any:
    """What tells which calls a task runs; the forms that ``_lanes`` knows."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict) and "args" in given[0]:
        return named(given)
    if isinstance(given, dict) and isinstance(given.get("tool_call"), dict):
        return {"tool_call": named(given["tool_call"])}
    messages = given.get("messages") if isinstance(given, dict) else given
    if not isinstance(messages, list) or not (calls := attribute(messages[-1:] and messages[-1], "tool_calls")):
        return None
    return {"messages": [stand_in(messages[-1], tool_calls=named(calls))]}


def _update(data: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for node, update in data.items():
        if node == "__interrupt__":
            said[node] = [_question(asked) for asked in update or ()]
        elif isinstance(update, list | tuple):
            said[node] = [_change(change) for change in update]
        else:
            said[node] = named(update) if node == "__metadata__" else _change(update)
    return escaped(said)


def _change(change: Any) -> Any:
    if not isinstance(change, dict):
        return None
    said = {}
    if "messages" in change:
        said["messages"] = walk(change["messages"], _shape)
    if "todos" in change:
        said["todos"] = valued(change["todos"])
    return said


def _question(asked: Any) -> dict[str, Any]:
    if isinstance(asked, dict):
        return {field: valued(asked.get(field)) for field in _QUESTION}
    return stand_in(asked, **{field: valued(attribute(asked, field)) for field in _QUESTION})


def _shape(value: Any) -> dict[str, Any]:
    """A message, a Command, a channel's Overwrite; of any other object the name of its type."""
    has: dict[str, Any] = _flat(value).get("has", {})
    if (goto := attribute(value, "goto")) is not None:
        has |= {"goto": named(goto), "update": _change(attribute(value, "update"))}
    if (held := attribute(value, "value")) is not None:
        has["value"] = walk(held, _flat)
    return stand_in(value, **has)


def _flat(value: Any) -> dict[str, Any]:
    """A message; of any other object the name of its type."""
    kind = attribute(value, "type")
    if not isinstance(kind, str):
        return stand_in(value)
    has = {"type": str.__str__(kind)}
    for field, default in _MESSAGES.get(kind, _OTHER).items():
        held = attribute(value, field)
        if held is not default and held != default:
            has[field] = str.__str__(held) if isinstance(held, str) else named(held)
    return stand_in(value, **has)


_WRITERS = {"messages": _message, "tools": _tool, "custom": _emitted, "tasks": _task, "updates": _update}


class LangGraphLoader(Loader):
    """Reads the parts of one recording."""

    attributes = frozenset({"type", "goto", "update", "value", "response_schema", *_OTHER}).union(*_MESSAGES.values())

    def item(self, value: Any) -> Any:
        """What ``dump`` wrote."""
        part = self.value(value)
        if isinstance(part, dict) and isinstance(part.get("ns"), list):
            part["ns"] = tuple(part["ns"])
        return part

    def _object(self, name: Any, has: Any, json: Any) -> Any:
        if isinstance(has, dict) and isinstance(kind := has.get("type"), str):
            has = _MESSAGES.get(kind, _OTHER) | has
        return super()._object(name, has, json)


loader = LangGraphLoader


def translator(settings: dict[str, Any]) -> LangGraphTranslator:
    """A translator for a recording. ``resumed``: the run answered an interrupt."""
    return LangGraphTranslator(resumed=settings.get("resumed") is True)
