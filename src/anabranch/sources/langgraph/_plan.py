"""The plan of an agent (deepagents' todo list), shown while the model still writes it. Pure.

While the arguments of ``write_todos`` stream, what can be read of them already is an *activity*: items are added and
replaced, never removed, because a shorter list may only be an unfinished one. The executed list is the truth: the
activity is made equal to it, and a call that failed puts back the list before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...events import ActivityDelta, ActivitySnapshot, Event
from .._foreign import listed, plain

TOOL = "write_todos"
"""The tool whose arguments are a plan."""

_ID = KIND = "plan"
_STATUSES = frozenset({"pending", "in_progress", "completed"})

Todos = list[dict[str, Any]]


class Plan:
    """The plan of one agent, whose local id is ``agent``."""

    __slots__ = ("_agent", "_committed", "_shown", "_text", "_writer")

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._shown: Todos | None = None
        self._committed: Todos = []
        self._writer = ""
        self._text = ""

    def write(self, call_id: str, fragment: str) -> Iterator[Event]:
        """The next fragment of a call's arguments. While one call writes, fragments of a parallel one are ignored."""
        if self._writer not in ("", call_id):
            return
        self._writer = call_id
        self._text += fragment
        for position, todo in enumerate(_readable(self._text)):
            yield from self._put(position, todo)

    def _put(self, position: int, todo: dict[str, Any]) -> Iterator[Event]:
        if self._shown is None:
            yield self._show([todo])
        elif position >= len(self._shown):
            self._shown.append(todo)
            yield self._patch([{"op": "add", "path": f"/todos/{position}", "value": dict(todo)}])
        else:
            shown = self._shown[position]
            changes = [(key, value) for key, value in todo.items() if _is_news(shown.get(key), value)]
            patch = [
                {
                    "op": "replace" if key in shown else "add",
                    "path": f"/todos/{position}/{_escaped(key)}",
                    "value": value,
                }
                for key, value in changes
            ]
            shown.update(changes)
            if patch:
                yield self._patch(patch)

    def commit(self, todos: Any) -> Iterator[Event]:
        """``todos`` was executed: it is what the activity shows from now on."""
        self._committed = [plain(todo) for todo in listed(todos) if isinstance(todo, dict)]
        yield from self._settle()

    def revert(self, call_id: str) -> Iterator[Event]:
        """The call failed: show the plan as it was before."""
        if self._writer == call_id:
            yield from self._settle()

    def _settle(self) -> Iterator[Event]:
        self._writer = self._text = ""
        todos = [dict(todo) for todo in self._committed]
        if self._shown is None:
            if todos:
                yield self._show(todos)
        elif self._shown != todos:
            self._shown = todos
            yield self._patch([{"op": "replace", "path": "/todos", "value": [dict(todo) for todo in todos]}])

    def _show(self, todos: Todos) -> Event:
        self._shown = todos
        content = {"todos": [dict(todo) for todo in todos]}
        return ActivitySnapshot(agent=self._agent, activity_id=_ID, kind=KIND, content=content)

    def _patch(self, patch: list[dict[str, Any]]) -> Event:
        return ActivityDelta(agent=self._agent, activity_id=_ID, kind=KIND, patch=patch)


def _readable(text: str) -> Todos:
    """What can be read of unfinished arguments: every todo that has something, without half-written states."""
    from pydantic_core import from_json  # comes with langchain

    try:
        todos = from_json(text, allow_partial="trailing-strings")["todos"]
    except (ValueError, TypeError, KeyError):
        return []
    if not isinstance(todos, list):
        return []
    found: Todos = []
    for todo in todos:
        kept = {k: v for k, v in todo.items() if k != "status" or _is_status(v)} if isinstance(todo, dict) else {}
        if not kept:
            break
        found.append(kept)
    return found


def _is_status(value: Any) -> bool:
    return isinstance(value, str) and value in _STATUSES


def _is_news(old: Any, new: Any) -> bool:
    # A text that only begins like the one shown is that text being written again: showing it would make it flicker.
    return new != old and not (isinstance(old, str) and isinstance(new, str) and old.startswith(new))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
