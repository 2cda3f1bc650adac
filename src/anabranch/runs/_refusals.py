"""What every table of runs refuses, in the same words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import Conflict, Fenced
from ..log._base import Entry
from ._base import RunRecord
from .machine import FINAL


def refuse_if_busy(thread_id: str, runs: Iterable[RunRecord]) -> None:
    """Raise ``Conflict`` when one of a thread's ``runs`` is active."""
    for busy in runs:
        if busy.status not in FINAL:
            remedy = "cancel it, wait for its end, or use another thread"
            text = f"thread {thread_id!r} has an active run, {busy.run_id!r}: {remedy}"
            raise Conflict(text, code="thread_busy")


def refuse_if_fenced(entries: Sequence[Entry], epoch: int) -> None:
    """Raise ``Fenced`` for the entries of a writer that no longer owns its run; the log may not know that yet."""
    if entries and entries[0].epoch < epoch:
        raise Fenced(f"epoch {entries[0].epoch} is over: the run is owned by epoch {epoch}")
