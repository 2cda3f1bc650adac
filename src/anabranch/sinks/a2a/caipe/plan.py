"""The plan of the root agent (deepagents' todo list) as steps. Pure."""

from __future__ import annotations

from typing import Any

Steps = list[dict[str, Any]]


def steps(content: Any, agent: str) -> Steps:
    """The steps that the plan activity ``content`` says in full: a todo without a status is still being written."""
    todos = content.get("todos") if isinstance(content, dict) else None
    found: Steps = []
    for order, todo in enumerate(todos if isinstance(todos, list) else ()):
        if not isinstance(todo, dict) or not isinstance(todo.get("status"), str):
            break
        step = {"step_id": f"step-{order + 1}", "title": str(todo.get("content", ""))}
        found.append(step | {"agent": str(todo.get("agent") or agent), "status": todo["status"], "order": order})
    return found


def current(found: Steps) -> str:
    """The id of the step that is worked on, or ``""``."""
    return next((str(step["step_id"]) for step in found if step["status"] == "in_progress"), "")


def is_whole(content: Any) -> bool:
    """Whether nothing of the plan is still being written."""
    todos = content.get("todos") if isinstance(content, dict) else None
    return isinstance(todos, list) and all(isinstance(todo, dict) and "status" in todo for todo in todos)


def patched(document: Any, patch: list[dict[str, Any]]) -> Any:
    """``document`` after a JSON patch (RFC 6902) of ``add``, ``replace`` and ``remove``, which is what plans are given.

    Raises ``ValueError``, ``LookupError`` or ``TypeError`` for any other patch.
    """
    for operation in patch:
        *above, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]] or [""]
        if operation["path"] == "":
            document = operation["value"]
            continue
        holder = document
        for step in above:
            holder = holder[int(step) if isinstance(holder, list) else step]
        _change(holder, last, operation)
    return document


def _change(holder: Any, key: str, operation: dict[str, Any]) -> None:
    kind = operation["op"]
    if kind not in ("add", "replace", "remove"):
        raise ValueError(kind)
    at: Any = (len(holder) if key == "-" else int(key)) if isinstance(holder, list) else key
    if kind == "remove":
        del holder[at]
    elif kind == "add" and isinstance(holder, list):
        holder.insert(at, operation["value"])
    else:
        holder[at] = operation["value"]
