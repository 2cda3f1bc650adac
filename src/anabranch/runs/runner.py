"""Executes one run: items of its source through translator and grammar into the log.

The only place that moves a run's items, and it decides nothing: what an item means is the translator's, what is lawful
is the grammar's. Appends are batched by nature: a flush takes whatever came while the last one ran, there is no timer.

Two tasks beside the run's own: one reads the source, one writes the log. The source's is cancelled when the run has to
stop, and gets ``CLEANUP_S`` for its cleanup; the run's own never is, so every run has its end.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from ..errors import AnabranchError, ServerError, SourceError
from ..events import AgentFailed, Event, RunFailed, RunFinished, RunStarted, encode
from ..grammar import Grammar
from ..log._base import Entry, RunLog
from ..request import RunRequest
from ..scope import Scope, entered
from ..sources._base import Source, Tape, Translator
from ..transcript import Transcript
from ._base import RunRecord, Stop

logger = logging.getLogger("anabranch")

_BATCH = 256  # events that may wait for a flush before the source is paused
OUTPUT_LIMIT = 256 * 2**20
"""Characters (bytes of what is no text, and 100 more an event) that one run may produce."""
CLEANUP_S = 10.0
"""Seconds that a source gets to close what it has open, once the run is over or has to stop. Then it is left behind."""

_left: set[asyncio.Task[None]] = set()  # sources that did not stop; a task that nobody holds may vanish


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def started(record: RunRecord) -> RunStarted:
    """The first event of a run."""
    return RunStarted(
        run_id=record.run_id,
        thread_id=record.thread_id,
        task_id=record.task_id,
        agent_name=record.agent,
        parent_run_id=record.parent_run_id,
        continues=record.continues,
    )


def length(event: Event) -> int:
    """What an event counts for, in bytes or so."""
    delta = getattr(event, "delta", None)
    return 100 + (len(delta) if isinstance(delta, str) else len(encode(event)))


class Writer:
    """One run's way into the log: stamps events and appends them in natural batches, until the terminal one.

    The batch with the terminal event goes to ``finish`` instead, which ends the run in the table too. ``transcript`` is
    what the run has said so far. ``task`` raises what the log or ``finish`` raised.
    """

    def __init__(self, log: RunLog, record: RunRecord, finish: Callable[[list[Entry]], Awaitable[object]]) -> None:
        self._log, self._finish = log, finish
        self.transcript = Transcript()
        self._key, self._epoch = record.key, record.epoch
        self._seq = 0
        self._waiting: list[Entry] = []
        self._wake = asyncio.Event()
        self._flushed = asyncio.Event()
        self.size = 0
        self.task = asyncio.create_task(self._flush(), name=f"log {record.key}")

    def put(self, events: list[Event]) -> None:
        """Take events; they are appended soon, in order."""
        at_ms = now_ms()
        for event in events:
            self._seq += 1
            self.size += length(event)
            self.transcript.feed(event)
            self._waiting.append(Entry(self._seq, self._epoch, at_ms, event))
        self._wake.set()

    @property
    def full(self) -> bool:
        """Whether the source should wait in ``room``."""
        return len(self._waiting) >= _BATCH

    async def room(self) -> None:
        """Wait until there is room, or the log has failed."""
        while self.full and not self.task.done():
            self._flushed.clear()
            await self._flushed.wait()

    async def _flush(self) -> None:
        try:
            over = False
            while not over:
                if not self._waiting:
                    self._wake.clear()
                    await self._wake.wait()
                batch, self._waiting = self._waiting, []
                if over := isinstance(batch[-1].event, RunFinished | RunFailed):
                    await self._finish(batch)
                else:
                    await self._log.append(self._key, batch)
                self._flushed.set()
        finally:
            self._flushed.set()


class Runner:
    """One run, executed once. How it ended is its terminal event. ``tape`` gets the source's items."""

    def __init__(
        self, source: Source, request: RunRequest, record: RunRecord, writer: Writer, tape: Tape | None = None
    ) -> None:
        self._source, self._request, self._record, self._writer = source, request, record, writer
        self._tape = tape
        self._names = (record.run_id, record.agent)
        self._grammar = Grammar()
        self._translator: Translator | None = None
        self._reading: asyncio.Task[None]
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    async def run(self, stop: Stop) -> None:
        """Execute the run until its terminal event is in the log. Raises only what the log raised."""
        record = self._record
        self._feed(started(record))
        self._reading = asyncio.create_task(self._read(), name=f"agent {record.agent!r} of run {record.run_id!r}")
        self._reading.add_done_callback(self._report)
        self._end(await self._until_over(stop))
        await self._writer.task

    def emit(self, event: Event) -> None:
        """Take an event from code inside the agent (``anabranch.current().emit``), on any thread."""
        if threading.get_ident() == self._thread:
            self._emitted(event)
        else:
            self._loop.call_soon_threadsafe(self._emitted, event)

    def _emitted(self, event: Event) -> None:
        if self._tape:
            self._tape.event(event)
        over = self._grammar.ended
        self._feed(event)
        if self._grammar.ended and not over:
            self._reading.cancel()  # the agent may not give another item for long

    async def _read(self) -> None:
        try:
            self._translator = translator = self._source.translator(self._request)
            with entered(Scope(self.emit)):
                async with aclosing(self._source.open(self._request)) as items:
                    async for item in items:
                        if self._tape:
                            self._tape.item(item)
                        for event in () if self._grammar.ended else translator.feed(item):
                            self._feed(event)
                        if self._grammar.ended or self._stopped:
                            return  # also an agent that swallowed its cancellation
                        if self._writer.full:
                            await self._writer.room()
        except (SystemExit, KeyboardInterrupt) as error:  # no signal: a server hears of those elsewhere
            raise SourceError(f"The agent tried to end the process ({type(error).__name__}).") from error

    async def _until_over(self, stop: Stop) -> BaseException | None:
        """Wait for the source to end, or stop it. Why the run has to end, if not by the source's own word."""
        reading, writing = self._reading, self._writer.task
        if not stop.done():  # else the source is not even called
            ends: tuple[asyncio.Future[Any], ...] = (reading, writing, stop)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reason = stop.result() if stop.done() else None
            if reason is None and writing.exception():
                reason = ServerError("The log of this run cannot be written.", code="log_failed")
            if reason:
                self._stopped = True
                reading.cancel()
            await self._cleanup()
            return reason
        if reading.cancelled():
            return SourceError("The agent stopped itself with a cancellation.", code="agent_cancelled")
        return reading.exception()

    async def _cleanup(self) -> None:
        await asyncio.wait({self._reading}, timeout=CLEANUP_S)
        if not self._reading.done():
            logger.warning("run %s: the agent %r does not stop", self._record.run_id, self._record.agent)
            _left.add(self._reading)
            self._reading.add_done_callback(_left.discard)
            self._reading.cancel()

    def _end(self, error: BaseException | None) -> None:
        if self._tape:
            self._tape.end(error)
        try:
            for event in self._translator.close(error) if self._translator and not self._grammar.ended else ():
                self._feed(event)
        except Exception as failure:
            logger.exception("run %s: the translator of %r failed", self._record.run_id, self._record.agent)
            error = error or failure
        self._let_out(self._grammar.close(error))
        if self._grammar.repairs:
            logger.debug("run %s: repaired %s", self._record.run_id, dict(self._grammar.repairs))

    def _report(self, reading: asyncio.Task[None]) -> None:
        """Tell the operator what the user is not told."""
        error = None if reading.cancelled() else reading.exception()
        if isinstance(error, AnabranchError):
            if cause := error.__cause__:
                why = " ".join(f"{type(cause).__name__}: {cause}".split()).removesuffix(":")
                logger.warning("run %s of %r: %s, because of %s", *self._names, error.code, why)
        elif error:
            logger.error("run %s of %r failed", *self._names, exc_info=error)

    def _feed(self, event: Event) -> None:
        self._let_out(self._grammar.feed(event))

    def _let_out(self, events: list[Event]) -> None:
        if events:
            self._writer.put(events)
            if isinstance(last := events[-1], AgentFailed):
                logger.warning("run %s of %r, sub-agent: %s: %s", *self._names, last.code, last.message)
        if self._writer.size > OUTPUT_LIMIT and not self._grammar.ended:
            limit = f"The agent wrote more than {OUTPUT_LIMIT} characters."
            self._writer.put(self._grammar.close(SourceError(limit, code="output_limit")))
