"""Dialects of the OpenAI protocol: a chunk in its right form, and the tool call that a fragment belongs to. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._foreign import amount, entry, json_text, label, listed, prose, thought

_DIGITS = 20  # of an index; Python refuses to read very long numbers


class Router:
    """Routes the tool call fragments of one model turn to positions 0, 1, 2, ... in the order the calls appeared.

    A call is known by its index. Some servers repeat id and name on every fragment, some rewrite the id later (without
    a name), some use an index again for a new call (a new id with a name), and some send no index at all: then a known
    id names its call, an unknown one begins a call, and a fragment without an id belongs to the last call that had one.
    Others send whole calls one by one, all under one index and without ids: after a call that is ``whole`` (which is
    asked by its position), a name without an id begins another.

    With ``mint`` every call is told under an id that no other call of the turn has: one that begins without an id, or
    with one that is taken, gets a minted one.
    """

    __slots__ = ("_by_id", "_by_index", "_ids", "_last", "_mint", "_told", "_whole")

    def __init__(
        self, mint: Callable[[], str] | None = None, whole: Callable[[int], bool] = lambda position: False
    ) -> None:
        self._mint, self._whole = mint, whole
        self._by_index: dict[Any, int] = {}
        self._by_id: dict[str, int] = {}
        self._ids: list[str | None] = []  # as the server has them
        self._told: set[str] = set()
        self._last = -1

    def route(self, index: Any, call_id: str | None, name: str | None) -> tuple[int, bool, str | None]:
        """``(position, whether a call begins here, the id that the call gets here)`` for a fragment."""
        if index is not None:
            known = self._by_index.get(index)
            if known is None or (call_id and name and self._ids[known] not in (None, call_id)):
                return self._begin(index, call_id), True, self._tell(call_id)
        elif call_id:
            known = self._by_id.get(call_id)
            if known is None:
                return self._begin(None, call_id), True, self._tell(call_id)
        else:
            known = self._last
        if known < 0 or (name and not call_id and self._whole(known)):
            return self._begin(index, None), True, self._tell(None)
        late = call_id if self._ids[known] is None and self._mint is None else None
        if call_id:
            self._last = known
            if self._ids[known] is None:
                self._ids[known] = call_id
                self._by_id.setdefault(call_id, known)
        return known, False, late

    def _begin(self, index: Any, call_id: str | None) -> int:
        self._ids.append(call_id or None)
        position = self._last = len(self._ids) - 1
        if call_id:
            self._by_id.setdefault(call_id, position)
        if index is not None:
            self._by_index[index] = position
        return position

    def _tell(self, call_id: str | None) -> str | None:
        if self._mint is None:
            return call_id
        told = call_id if call_id and call_id not in self._told else self._mint()
        self._told.add(told)
        return told


def in_form(chunk: dict[str, Any]) -> dict[str, Any]:
    """A chat completion chunk with the types that the protocol gives its fields, so that LangChain can read it.

    Text is one string, also a refusal; reasoning of every dialect is ``reasoning_content``.
    """
    form = {**chunk, "model": label(chunk.get("model")) or None, "usage": _counted(chunk.get("usage"))}
    if choices := [choice for choice in listed(chunk.get("choices")) if isinstance(choice, dict)]:
        finish = label(choices[0].get("finish_reason") or None) or None
        form["choices"] = [{**choices[0], "delta": _delta(choices[0].get("delta")), "finish_reason": finish}]
    return form


def _counted(usage: Any) -> Any:
    if not isinstance(usage, dict):
        return None
    counted = {key: _counted(value) if isinstance(value, dict) else amount(value) for key, value in usage.items()}
    return {key: value for key, value in counted.items() if usage[key] is not None}


def _delta(delta: Any) -> dict[str, Any]:
    if not isinstance(delta, dict):
        return {}
    content = delta.get("content")
    blocks = [content] if isinstance(content, str) else listed(content)
    thoughts = [prose(delta.get("reasoning_content")) or prose(delta.get("reasoning")), *map(thought, blocks)]
    text = "".join(prose(block) for block in blocks if not thought(block)) + prose(delta.get("refusal"))
    form = {**delta, "role": "assistant", "content": text, "reasoning_content": "".join(thoughts)}
    if calls := listed(delta.get("tool_calls")):
        form["tool_calls"] = [fragment(call) for call in calls if isinstance(call, dict)]
    return form


def fragment(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call, or a piece of one, with the types that the protocol gives its fields."""
    function, index = call.get("function"), call.get("index")
    if isinstance(index, str) and index.isdecimal() and len(index) < _DIGITS:
        index = int(index)
    arguments = entry(function, "arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json_text(arguments)
    named = {"name": label(entry(function, "name")) or None, "arguments": arguments}
    index = index if isinstance(index, int) else None
    return {"index": index, "id": label(call.get("id")) or None, "function": named}
