"""What is on screen while agents write: lines that are finished, lines that grow, and the plan. Pure.

A line belongs to a lane, the root's or a sub-agent's. Lines of several lanes finish in any order and each says whose it
is; the open ones grow side by side. A tool call is one line, with its arguments. Not shown are the result of a tool
that called an agent, which is what the lane of that agent said, and the call that writes the plan, which is the plan.

No control character of an agent reaches the screen: it is shown as ``\\x1b``, so no text can move the cursor, change
the title or answer for the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from .answer import ours, voided

Event = dict[str, Any]
Kind = Literal["text", "reasoning", "tool", "note", "route", "error", "plan"]

PREVIEW = 200
"""Characters of a tool's result that are shown."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MARKS = {"completed": "x", "in_progress": ">"}
_TEXTS: dict[str, Kind] = {"TEXT_MESSAGE": "text", "REASONING_MESSAGE": "reasoning", "TOOL_CALL": "tool"}


class Line(msgspec.Struct, frozen=True):
    """A line: ``head`` stays as it is while ``text`` grows. ``lane`` is ``""`` for the root, else the agent's name."""

    text: str
    lane: str = ""
    depth: int = 0
    kind: Kind = "text"
    head: str = ""


class _Lane(msgspec.Struct, frozen=True):
    name: str = ""
    depth: int = 0


class _Part:
    """Something that grows: whose it is, and the pieces of its unfinished line."""

    __slots__ = ("head", "kind", "lane", "pieces", "tail")

    def __init__(self, lane: _Lane, kind: Kind, head: str = "", tail: str = "") -> None:
        self.lane, self.kind, self.head, self.tail = lane, kind, head, tail
        self.pieces: list[str] = []

    def add(self, delta: str) -> list[Line]:
        """The lines that ``delta`` finishes."""
        if self.kind == "tool" or "\n" not in delta:
            self.pieces.append(delta)
            return []
        # The piece before may have ended between CR and LF.
        *lines, rest = ("".join(self.pieces) + delta).replace("\r\n", "\n").split("\n")
        self.pieces = [rest]
        return [self._line(line) for line in lines]

    def open(self) -> Line:
        """The line that grows."""
        return self._line("".join(self.pieces).removesuffix("\r"))

    def end(self) -> list[Line]:
        """The last line, unless it is empty."""
        text = "".join(self.pieces)
        self.pieces = []
        return [self._line(text + self.tail)] if text or self.head else []

    def _line(self, text: str) -> Line:
        if self.kind == "tool":
            text = " ".join(text.split("\n"))
        return Line(visible(text), self.lane.name, self.lane.depth, self.kind, self.head)


class Screen:
    """Feed it events without chunks; each gives the lines that are finished with it."""

    def __init__(self, *, reasoning: bool = True) -> None:
        self._reasoning = reasoning
        self._lanes: dict[str, _Lane] = {"": _Lane()}
        self._labels: dict[str, int] = {}  # of lanes, and how many lanes have that name
        self._parts: dict[tuple[str, str], _Part] = {}
        self._tools: dict[str, str] = {}
        self._quiet: set[str] = set()  # calls whose result is on screen in another form
        self._arguing = ""  # the call whose arguments came last
        self._todos: dict[str, list[dict[str, Any]]] = {}
        self._told: list[str] = []

    @property
    def open(self) -> list[Line]:
        """The lines that grow, in the order they began."""
        return [part.open() for part in self._parts.values() if any(part.pieces) or part.head]

    @property
    def plan(self) -> list[Line]:
        """The root agent's plan, a line an item."""
        return [Line(text, kind="plan") for todos in self._todos.values() for text in map(_item, todos)]

    def feed(self, event: Event) -> list[Line]:
        """Take one event."""
        kind = event["type"]
        prefix, _, step = kind.rpartition("_")
        if prefix in _TEXTS and step != "RESULT":
            return self._text(event, prefix, step)
        return list(self._other(event, kind))

    def close(self) -> list[Line]:
        """Finish every line: no more events come."""
        parts, self._parts = self._parts, {}
        return [line for part in parts.values() for line in part.end()]

    # --- what grows --------------------------------------------------------------------------------------------

    def _text(self, event: Event, prefix: str, step: str) -> list[Line]:
        id = event["toolCallId"] if prefix == "TOOL_CALL" else event["messageId"]
        key, shown = (prefix, id), _TEXTS[prefix]
        if step == "START":
            if shown == "tool":
                name = self._tools[id] = visible(event["toolCallName"])
                self._parts[key] = _Part(self._lane(event), shown, head=f"{name}(", tail=")")
            elif event.get("role", "assistant") in ("assistant", "reasoning") and (shown == "text" or self._reasoning):
                self._parts[key] = _Part(self._lane(event), shown)
            return []
        part = self._parts.get(key)
        if part is None:
            return []
        if step == "END":
            return self._parts.pop(key).end()
        if shown == "tool":
            self._arguing = id
        return part.add(event["delta"])

    def _lane(self, event: Event) -> _Lane:
        return self._lanes.get(event.get("subagentRunId") or "", self._lanes[""])

    # --- what is told once -------------------------------------------------------------------------------------

    def _other(self, event: Event, kind: str) -> Iterator[Line]:
        match kind:
            case "SUBAGENT_STARTED":
                self._started(event)
            case "SUBAGENT_ERROR":
                yield self._note(event, "error", f"failed: {event['message']}")
            case "TOOL_CALL_RESULT":
                yield from self._returned(event)
            case "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA":
                self._plan(event)
            case "STATE_SNAPSHOT" | "STATE_DELTA" | "RUN_FINISHED":
                yield from self._tell_plan()
            case "CUSTOM":
                yield from self._custom(event)

    def _note(self, event: Event, kind: Kind, text: str, head: str = "") -> Line:
        lane = self._lane(event)
        return Line(visible(" ".join(text.split("\n"))), lane.name, lane.depth, kind, head)

    def _started(self, event: Event) -> None:
        name, above = visible(event["name"]), self._lanes.get(event.get("parentSubagentRunId") or "", self._lanes[""])
        label = name
        while label in self._labels:
            self._labels[name] += 1
            label = f"{name} #{self._labels[name]}"
        self._labels[label] = 1
        self._lanes[event["subagentRunId"]] = _Lane(label, above.depth + 1)
        self._quiet.add(event.get("parentToolCallId") or "")

    def _returned(self, event: Event) -> Iterator[Line]:
        id, name = event["toolCallId"], self._tools.get(event["toolCallId"], "a tool")
        if part := self._parts.pop(("OUTPUT", id), None):
            yield from part.end()
        content = event["content"] if isinstance(event["content"], str) else "(content that is not text)"
        shown = content if len(content) <= PREVIEW else content[:PREVIEW] + "..."
        if ours(event).get("isError"):
            yield self._note(event, "error", shown, f"{name} failed: ")
        elif id not in self._quiet and content:
            yield self._note(event, "note", shown, f"{name}: ")

    def _custom(self, event: Event) -> Iterator[Line]:
        value = event.get("value")
        if event["name"] == "anabranch.tool_output" and isinstance(value, dict):
            id = value["toolCallId"]
            key = ("OUTPUT", id)
            if key not in self._parts:
                self._parts[key] = _Part(self._lane(event), "note", head=f"{self._tools.get(id, 'a tool')}: ")
            yield from self._parts[key].add(str(value.get("content") or ""))
        elif event["name"] == "anabranch.routed" and isinstance(value, dict):
            yield self._note(event, "route", _routed(value))
        gone = list(voided(event))
        for id in gone:
            self._parts.pop(("TOOL_CALL", id), None)
            self._parts.pop(("TEXT_MESSAGE", id), None)
        if gone:
            yield self._note(event, "note", "(void: what was said last is said again)")

    # --- the plan ----------------------------------------------------------------------------------------------

    def _plan(self, event: Event) -> None:
        if event.get("activityType") != "plan" or event.get("subagentRunId"):
            return
        if self._parts.pop(("TOOL_CALL", self._arguing), None):
            self._quiet.add(self._arguing)
        id = event["messageId"]
        try:
            if event["type"] == "ACTIVITY_SNAPSHOT":
                self._todos[id] = [dict(todo) for todo in event["content"]["todos"]]
            elif id in self._todos:
                for operation in event["patch"]:
                    _change(self._todos[id], operation)
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError):
            self._todos.pop(id, None)  # somebody else's plan, which looks otherwise

    def _tell_plan(self) -> Iterator[Line]:
        """The items that are new or have changed since they were told."""
        now = [line.text for line in self.plan]
        yield from (Line(text, kind="plan") for text in now if text not in self._told)
        self._told = now


def visible(text: str) -> str:
    """``text`` without control characters but tab and line feed: each is shown as an escape."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _routed(value: dict[str, Any]) -> str:
    """Who answers, and why."""
    route, names = value.get("route"), ", ".join(map(str, value.get("agents") or ()))
    who = f"{names} ({route})" if names else f"the {route}"
    return f"To {who}: {value.get('reason')}"


def _item(todo: dict[str, Any]) -> str:
    mark = _MARKS.get(str(todo.get("status")), " ")
    return visible(f"[{mark}] {todo.get('content', '')}".replace("\n", " "))


def _change(todos: list[dict[str, Any]], operation: dict[str, Any]) -> None:
    """One operation of a JSON patch on ``{"todos": todos}``."""
    _, root, *path = operation["path"].split("/")
    if root != "todos":
        return
    if not path:
        todos[:] = [dict(todo) for todo in operation["value"]]
    elif len(path) == 2:
        todos[int(path[0])][path[1]] = operation.get("value", "")
    elif operation["op"] == "add":
        todos.insert(len(todos) if path[0] == "-" else int(path[0]), dict(operation["value"]))
    elif operation["op"] == "remove":
        del todos[int(path[0])]
    else:
        todos[int(path[0])] = dict(operation["value"])
