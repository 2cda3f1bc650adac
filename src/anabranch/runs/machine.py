"""The states of a run, as a table. Pure.

QUEUED --> RUNNING --> SUCCEEDED | INTERRUPTED | CANCELLED | FAILED
   \\----------------------------------^-----------^
"""

from __future__ import annotations

from enum import StrEnum

from ..events import Event, RunFailed, RunFinished, Terminal


class Status(StrEnum):
    """Where a run is. The last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"


FINAL = frozenset({Status.SUCCEEDED, Status.INTERRUPTED, Status.CANCELLED, Status.FAILED})

MOVES: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED, Status.FAILED}),
    Status.RUNNING: FINAL,
    **dict.fromkeys(FINAL, frozenset()),
}
"""Which state may follow which. What is not here does not happen: the first final state stays."""

_OUTCOMES = {"success": Status.SUCCEEDED, "interrupted": Status.INTERRUPTED, "cancelled": Status.CANCELLED}


def can_move(status: Status, to: Status) -> bool:
    """Whether a run in ``status`` may become ``to``."""
    return to in MOVES[status]


def failure_of(end: Event) -> dict[str, str]:
    """What a record keeps of a terminal event that is a failure: its ``code`` and ``message``."""
    return {"code": end.code, "message": end.message} if isinstance(end, RunFailed) else {}


def status_of(terminal: Terminal) -> Status:
    """The final state that a terminal event means."""
    return _OUTCOMES[terminal.outcome] if isinstance(terminal, RunFinished) else Status.FAILED
