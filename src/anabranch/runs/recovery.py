"""The end of a run whose process is gone: what was shown stays, what was open is closed, one event says why."""

from __future__ import annotations

from ..errors import ServerError
from ..events import Event
from ..grammar import Grammar
from ..log._base import Entry, RunLog
from ..transcript import Transcript
from ._base import RunRecord, RunTable
from .machine import Status
from .runner import length, started

_BATCH = 1000


async def bury(log: RunLog, table: RunTable, record: RunRecord, at_ms: int) -> None:
    """End the run ``record``, which this process has taken, as failed with ``replica_lost``."""
    shown = await _events(log, record.key)
    grammar = Grammar.from_log(shown) if shown else Grammar()
    owed: list[Event] = [] if shown else grammar.feed(started(record))
    message = "The server that ran this stopped in the middle. What it had written is kept; ask again."
    owed += grammar.close(ServerError(message, code="replica_lost", retryable=True))
    transcript = Transcript()
    for event in [*shown, *owed]:
        transcript.feed(event)
    entries = [Entry(seq, record.epoch, at_ms, event) for seq, event in enumerate(owed, len(shown) + 1)]
    size = record.size + sum(map(length, [*shown, *owed]))
    await table.finish(record.key, entries, Status.FAILED, at_ms, transcript.outcome(), size)


async def _events(log: RunLog, key: str) -> list[Event]:
    events: list[Event] = []
    while batch := await log.read(key, len(events), _BATCH):
        events += [entry.event for entry in batch]
    return events
