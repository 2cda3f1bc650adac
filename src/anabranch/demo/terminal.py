"""The demo's screen: a lane per agent, live on a terminal, line by line on a pipe."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

SUPERVISOR = "supervisor"
_MARKS = {"completed": "x", "in_progress": ">"}


class Screen:
    """Shows AG-UI events as they come. ``plan`` and ``lanes`` are what is on screen."""

    def __init__(self, out: TextIO) -> None:
        self._console = Console(file=out, highlight=False)
        self._live: Live | None = None
        self._names: dict[str, str] = {}
        self._unfinished: dict[str, str] = {}
        self.plan: list[dict[str, str]] = []
        self.lanes: dict[str, str] = {SUPERVISOR: ""}

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live = Live(self._picture(), console=self._console, refresh_per_second=12, vertical_overflow="crop")
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for lane, line in self._unfinished.items():
            self._print(lane, line)
        if self._live is not None:
            self._live.vertical_overflow = "visible"
            self._live.update(self._picture(), refresh=True)
            self._live.__exit__(None, None, None)

    def show(self, event: dict[str, Any]) -> None:
        """Take one event."""
        kind, lane = event["type"], self._names.get(event.get("subagentRunId", ""), SUPERVISOR)
        if kind == "SUBAGENT_STARTED":
            self._names[event["subagentRunId"]] = event["name"]
            self.lanes.setdefault(event["name"], "")
        elif kind in ("STATE_SNAPSHOT", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"):
            self._show_plan(event)
        elif text := _line(event):
            self._add(lane, text)
        if self._live is not None:
            self._live.update(self._picture())

    def _show_plan(self, event: dict[str, Any]) -> None:
        if event["type"] == "ACTIVITY_DELTA":
            for operation in event["patch"] if event["activityType"] == "plan" else ():
                self._change_plan(operation)
            return
        self.plan = (event.get("content") or event["snapshot"]).get("todos", self.plan)
        if event["type"] == "STATE_SNAPSHOT":
            for todo in self.plan:
                self._print("plan", f"[{_MARKS.get(todo['status'], ' ')}] {todo['content']}")

    def _change_plan(self, operation: dict[str, Any]) -> None:
        _, _, place, *field = operation["path"].split("/")
        if field:
            self.plan[int(place)][field[0]] = operation.get("value", "")
        elif operation["op"] == "add":
            self.plan.append(dict(operation["value"]))
        elif operation["op"] == "remove":
            del self.plan[int(place)]
        else:
            self.plan[int(place)] = dict(operation["value"])

    def _add(self, lane: str, text: str) -> None:
        self.lanes[lane] += text
        if self._live is None:
            *lines, rest = (self._unfinished.get(lane, "") + text).replace("\r\n", "\n").split("\n")
            for line in lines:
                self._print(lane, line)
            self._unfinished[lane] = rest

    def _print(self, lane: str, line: str) -> None:
        if self._live is None and line:
            self._console.print(Text(f"{lane:>10} | {line}"), soft_wrap=True)

    def _picture(self) -> Group:
        plan = "\n".join(f"[{_MARKS.get(todo.get('status', ''), ' ')}] {todo.get('content', '')}" for todo in self.plan)
        agents = Table.grid(expand=True)
        row = [
            Panel(Text(text), title=name, border_style="cyan")
            for name, text in self.lanes.items()
            if name != SUPERVISOR
        ]
        for _ in row:
            agents.add_column(ratio=1)
        if row:
            agents.add_row(*row)
        parts: list[Any] = [Panel(Text(plan), title="plan", border_style="yellow")] if plan else []
        return Group(*parts, agents, Panel(Text(self.lanes[SUPERVISOR]), title=SUPERVISOR, border_style="green"))


def _line(event: dict[str, Any]) -> str:
    """What an event adds to its lane."""
    match event["type"]:
        case "TEXT_MESSAGE_CONTENT":
            return str(event["delta"])
        case "TEXT_MESSAGE_END":
            return "" if "subagentRunId" in event else "\n"
        case "TOOL_CALL_START":
            return f"[calls {event['toolCallName']}]\n"
        case "SUBAGENT_ERROR" | "RUN_ERROR":
            return f"\n[failed: {event['message']}]\n"
    return ""
