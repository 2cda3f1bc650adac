"""AG-UI's abbreviated events, written out: a ``*_CHUNK`` as the START, CONTENT or ARGS, and END it stands for. Pure.

Our server never sends them; others do. One such stream may be open in each lane. It ends with the next event of its
lane that is content of another kind or id, and with the run.
"""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]

_KINDS = {
    "TEXT_MESSAGE_CHUNK": ("TEXT_MESSAGE", "CONTENT", "messageId"),
    "TOOL_CALL_CHUNK": ("TOOL_CALL", "ARGS", "toolCallId"),
    "REASONING_MESSAGE_CHUNK": ("REASONING_MESSAGE", "CONTENT", "messageId"),
}
_BESIDE = frozenset(
    {"RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE", "SUBAGENT_STARTED", "CUSTOM"}
)
_TERMINAL = frozenset({"RUN_FINISHED", "RUN_ERROR"})


class Chunks:
    """Feed it events as they are received; what comes out has no chunks."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, str]] = {}  # by lane: the kind and id of its stream

    def feed(self, event: Event) -> list[Event]:
        """What ``event`` stands for, itself included when it is no chunk."""
        kind, lane = event["type"], event.get("subagentRunId") or ""
        if kind in _KINDS:
            return self._expanded(event, lane, *_KINDS[kind])
        if kind in _TERMINAL:
            return [*(end for lane in list(self._open) for end in self._end(lane)), event]
        return [event] if kind in _BESIDE or not self._open else [*self._end(lane), event]

    def _expanded(self, event: Event, lane: str, kind: str, piece: str, field: str) -> list[Event]:
        shown, out = self._open.get(lane), []
        id = event.get(field) or (shown[1] if shown and shown[0] == kind else "")
        if not id:
            return []
        owner = {"subagentRunId": lane} if lane else {}
        if shown != (kind, id):
            out = self._end(lane)
            self._open[lane] = (kind, id)
            about = {
                name: value for name, value in event.items() if name not in ("delta", "type") and value is not None
            }
            out.append(about | {"type": f"{kind}_START", field: id})
        if event.get("delta"):
            out.append({"type": f"{kind}_{piece}", field: id, "delta": event["delta"]} | owner)
        return out

    def _end(self, lane: str) -> list[Event]:
        if lane not in self._open:
            return []
        kind, id = self._open.pop(lane)
        field = "toolCallId" if kind == "TOOL_CALL" else "messageId"
        return [{"type": f"{kind}_END", field: id} | ({"subagentRunId": lane} if lane else {})]
