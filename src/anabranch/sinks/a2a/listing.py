"""Which tasks a ListTasks asks for. Pure."""

from __future__ import annotations

import base64
import math
import re
from datetime import UTC, datetime

import msgspec

from . import wire
from .checks import bad, shown

PAGE, PAGE_LIMIT = 50, 100
"""Tasks on a page, unless the client asks for another number."""

_PAGE_TOKEN = re.compile(r"(\d{1,16})\.(.+)")


class Listing(msgspec.Struct, frozen=True):
    """Which tasks a client asks for, checked."""

    context_id: str | None
    state: str | None
    size: int
    before: tuple[int, str] | None
    since_ms: int
    history_length: int | None
    artifacts: bool


def listing(given: wire.ListTasks) -> Listing:
    """The page that a ListTasks asks for. Raises ``ClientError``."""
    size = PAGE if given.page_size is None else given.page_size
    if not 1 <= size <= PAGE_LIMIT:
        bad("pageSize", f"it is {size}; send 1 to {PAGE_LIMIT}")
    state = given.status or None
    if state == "TASK_STATE_UNSPECIFIED":
        state = None
    elif state is not None and (not isinstance(state, str) or state not in wire.STATES):
        bad("status", f"it is {shown(state)}; send one of {', '.join(sorted(wire.STATES))}")
    return Listing(
        context_id=given.context_id or None,
        state=state,
        size=size,
        before=_place(given.page_token) if given.page_token else None,
        since_ms=_since(given.status_timestamp_after) if given.status_timestamp_after else 0,
        history_length=given.history_length,
        artifacts=bool(given.include_artifacts),
    )


def page_token(changed_ms: int, task_id: str) -> str:
    """Says that a page goes on after this task."""
    return base64.urlsafe_b64encode(f"{changed_ms}.{task_id}".encode()).decode()


def _place(token: str) -> tuple[int, str]:
    try:
        found = _PAGE_TOKEN.fullmatch(base64.b64decode(token, altchars=b"-_", validate=True).decode())
    except ValueError:
        found = None
    if found is None:
        bad("pageToken", "it is none that was given out; begin without one")
    return int(found[1]), found[2]


def _since(said: str) -> int:
    try:
        at = datetime.fromisoformat(said)
        return max(0, math.ceil((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        bad("statusTimestampAfter", f"it is {shown(said)}; send a time like 2026-01-31T12:00:00Z")
