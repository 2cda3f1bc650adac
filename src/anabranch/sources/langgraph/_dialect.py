"""Which tool call a streamed fragment belongs to, in every dialect of the OpenAI protocol. Pure."""

from __future__ import annotations

from typing import Any


class Router:
    """Routes the tool call fragments of one model turn to positions 0, 1, 2, ... in the order the calls appeared.

    A call is known by its index. Some servers repeat id and name on every fragment, some rewrite the id later (without
    a name), some use an index again for a new call (a new id with a name), and some send no index at all: then a known
    id names its call, an unknown one begins a call, and a fragment without an id belongs to the last call that had one.
    """

    __slots__ = ("_by_index", "_ids", "_last")

    def __init__(self) -> None:
        self._by_index: dict[Any, int] = {}
        self._ids: list[str | None] = []
        self._last = -1

    def route(self, index: Any, call_id: str | None, name: str | None) -> tuple[int, bool, bool]:
        """``(position, whether a call begins here, whether it gets its id here)`` for a fragment."""
        if index is not None:
            known = self._by_index.get(index)
            if known is None or (call_id and name and self._ids[known] not in (None, call_id)):
                return self._begin(index, call_id), True, bool(call_id)
        elif call_id:
            known = next((n for n, seen in enumerate(self._ids) if seen == call_id), None)
            if known is None:
                return self._begin(None, call_id), True, True
        else:
            known = self._last
            if known < 0:
                return self._begin(None, None), True, False
        late = bool(call_id) and self._ids[known] is None
        if call_id:
            self._last = known
            self._ids[known] = self._ids[known] or call_id
        return known, False, late

    def _begin(self, index: Any, call_id: str | None) -> int:
        self._ids.append(call_id)
        position = self._last = len(self._ids) - 1
        if index is not None:
            self._by_index[index] = position
        return position
