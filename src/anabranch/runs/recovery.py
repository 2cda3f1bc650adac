"""The end of a run whose process is gone: what was shown stays, what was open is closed, one event says why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import chain, repeat

from ..errors import ServerError
from ..events import Event
from ..grammar import Grammar
from ..log._base import Entry, RunLog
from ..transcript import Transcript
from ._base import RunRecord, RunTable
from .machine import Status
from .runner import length, now_ms, started

logger = logging.getLogger("anabranch")

_BATCH = 1000
_PAUSES_S = (0.0, 1.0, 5.0, 30.0)  # before each attempt; the last one again and again


def lost() -> ServerError:
    """Why a run ends whose process is gone."""
    message = "The server that ran this stopped in the middle. What it had written is kept; ask again."
    return ServerError(message, code="replica_lost", retryable=True)


class Burials:
    """Ends runs that this process could not end, as soon as the storage lets it; calls ``done`` after each.

    Where a log takes nothing more, only the table learns that its run is over, and its thread is free.
    """

    def __init__(self, log: RunLog, table: RunTable, done: Callable[[], None]) -> None:
        self._log, self._table, self._done = log, table, done
        self._tasks: set[asyncio.Task[None]] = set()

    async def attempt(self, record: RunRecord, reason: ServerError) -> None:
        """Once now, and in the background for as long as that fails."""
        if not await buried(self._log, self._table, record, reason):
            self.begin(record, reason)

    def begin(self, record: RunRecord, reason: ServerError) -> asyncio.Task[None]:
        """In the background."""
        burying = asyncio.create_task(self._bury(record, reason))
        self._tasks.add(burying)
        burying.add_done_callback(self._tasks.discard)
        burying.add_done_callback(lambda _: self._done())
        return burying

    def stop(self) -> None:
        """The next process does it."""
        for burying in self._tasks:
            burying.cancel()

    async def _bury(self, record: RunRecord, reason: ServerError) -> None:
        for pause in chain(_PAUSES_S, repeat(_PAUSES_S[-1])):
            await asyncio.sleep(pause)  # nothing tells when a disk has room again
            if await buried(self._log, self._table, record, reason):
                return


async def buried(log: RunLog, table: RunTable, record: RunRecord, reason: ServerError) -> bool:
    """Whether one attempt to do so was enough."""
    try:
        owned = await table.take(record.key)
        if owned is None or await _buried(log, table, owned, reason):
            return True
        return await table.move(record.key, Status.FAILED, now_ms())
    except Exception as error:
        logger.error("run %s: its end cannot be written: %r", record.run_id, error)
        return False


async def _buried(log: RunLog, table: RunTable, record: RunRecord, reason: ServerError) -> bool:
    try:
        await bury(log, table, record, reason)
    except Exception as error:
        logger.error("run %s: its log cannot be ended: %r", record.run_id, error)
        return False
    return True


async def bury(log: RunLog, table: RunTable, record: RunRecord, reason: ServerError) -> None:
    """End the run ``record``, which its caller has taken, as failed because of ``reason``."""
    shown = await _events(log, record.key)
    grammar = Grammar.from_log(shown) if shown else Grammar()
    owed: list[Event] = [] if shown else grammar.feed(started(record))
    owed += grammar.close(reason)
    transcript = Transcript()
    for event in [*shown, *owed]:
        transcript.feed(event)
    at_ms = now_ms()
    entries = [Entry(seq, record.epoch, at_ms, event) for seq, event in enumerate(owed, len(shown) + 1)]
    size = record.size + sum(map(length, [*shown, *owed]))
    await table.finish(record.key, entries, Status.FAILED, at_ms, transcript.outcome(), size)


async def _events(log: RunLog, key: str) -> list[Event]:
    events: list[Event] = []
    while batch := await log.read(key, len(events), _BATCH):
        events += [entry.event for entry in batch]
    return events
