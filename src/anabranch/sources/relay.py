"""Streaming one agent inside another: a source's events in a lane of the run that called it.

The caller is a tool. It gets the agent's whole text back for its model, while every event reaches the client as it
comes. Thin: what items mean is the source's translator's, what is lawful is the grammar's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any

import msgspec

from ..encodable import checked, whole
from ..errors import SourceError, describe, scrub
from ..events import (
    ROOT,
    AgentFailed,
    AgentStarted,
    Custom,
    Event,
    Interrupted,
    MessageFinished,
    MessageReset,
    PartAdded,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
)
from ..request import RunRequest
from ..scope import Lane
from ._base import Source, Translator

logger = logging.getLogger("anabranch")

SILENCE_S = 10.0
"""How often it is told that an agent says nothing."""
SILENT = "anabranch.silent"
"""The custom event that tells it, with ``{"seconds": ...}`` for how long."""


class Relayed(msgspec.Struct, frozen=True):
    """How a relayed agent ended: its root text, exact, and the failure if there was one, or what it asks.

    The text is that of its messages in the order they began, without those that were voided or only told of progress.
    Of an agent that succeeded it is the answer, so its narration is not in it either. An agent that answered with data
    only has that as its text, as JSON. ``asked`` are its questions, which nobody was told yet: they are for the user,
    by way of who called it. ``unsent``: it failed before anything was sent to it.
    """

    text: str
    failed: RunFailed | None = None
    asked: tuple[Interrupted, ...] = ()
    unsent: bool = False


async def relay(source: Source, request: RunRequest, lane: Lane) -> Relayed:
    """Run ``source`` on ``request`` and emit its events into ``lane``, which has ended afterwards.

    A failure of the agent, whatever it raises, is returned, so that it stays in its lane; a cancellation of the caller
    passes through, after the agent was stopped.
    """
    taken = _Taken(lane)
    with _silences(taken, lane):
        error = await _read(source, request, taken, lane)
    if error is not None:
        logger.warning("agent %s: %r, because %r", lane.agent, error, error.__cause__)
    ended = taken.ended or _failure(error)
    if isinstance(ended, RunFailed):
        ended = RunFailed(code=ended.code, message=scrub(ended.message), retryable=ended.retryable)
        lane.fail(ended.code, ended.message)
        return Relayed(taken.text, ended, unsent=getattr(error, "unsent", False))
    suspended = ended.outcome == "interrupted"
    lane.finish("suspended" if suspended else ended.outcome)
    if ended.outcome == "cancelled":
        return Relayed(taken.text, RunFailed(code="agent_cancelled", message="The agent cancelled its task."))
    return Relayed(taken.answer, asked=tuple(taken.asked) if suspended else ())


async def _read(source: Source, request: RunRequest, taken: _Taken, lane: Lane) -> BaseException | None:
    """Read the agent to its end; what ended it, if it was no word of its own."""
    translator: Translator | None = None
    error: BaseException | None = None
    try:
        translator = source.translator(request)
        async with aclosing(source.open(request)) as items:
            async for item in items:
                taken.all(translator.feed(item))
                if taken.ended is not None:
                    break
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            with suppress(Exception):  # the caller may be gone already, and its framework refuse the event
                lane.finish("cancelled")
            raise
        error = SourceError("The agent stopped itself with a cancellation.", code="agent_cancelled")
    except BaseException as failure:  # whatever an agent raises, it is its own failure and not its caller's
        error = failure
    if translator and taken.ended is None:
        try:
            taken.all(translator.close(error))
        except Exception as failure:
            error = error or failure
    return error


@contextmanager
def _silences(taken: _Taken, lane: Lane) -> Iterator[None]:
    """Tell whoever watches, now and then, that the agent says nothing and is waited for."""
    loop, timers = asyncio.get_running_loop(), deque[asyncio.TimerHandle](maxlen=1)

    def look(silent_s: float) -> None:
        silent_s = 0.0 if taken.heard else silent_s + SILENCE_S
        taken.heard = False
        if silent_s:
            with suppress(Exception):  # a framework may refuse the event of a tool that it has given up
                lane.emit(Custom(name=SILENT, value={"seconds": silent_s}))
        timers.append(loop.call_later(SILENCE_S, look, silent_s))

    timers.append(loop.call_later(SILENCE_S, look, 0.0))
    try:
        yield
    finally:
        timers[0].cancel()


class _Taken:
    """What came of the agent so far."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._texts: dict[tuple[str, str], list[str]] = {}
        self._answering = {ROOT}  # the agents whose text is that of the agent
        self._narration: set[tuple[str, str]] = set()
        self._data: list[Any] = []
        self.asked: list[Interrupted] = []
        self.ended: RunFinished | RunFailed | None = None
        self.heard = False
        """Whether anything came, since somebody last set it to false."""

    def all(self, events: Iterable[Event]) -> None:
        self.heard = True
        for event in events:
            if isinstance(event, RunFinished | RunFailed):
                self.ended = self.ended or event
            elif isinstance(event, Interrupted):
                self.asked.append(event)
            elif not isinstance(event, RunStarted):
                if event.agent in self._answering or isinstance(event, AgentStarted):
                    self._note(event)
                self._lane.emit(event)

    def _note(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._texts.setdefault((event.agent, event.message_id), []).append(event.delta)
        elif isinstance(event, AgentStarted):
            if event.answers and event.parent in self._answering:
                self._answering.add(event.agent)
        elif isinstance(event, AgentFailed):
            self._answering.discard(event.agent)
            self._texts = {key: pieces for key, pieces in self._texts.items() if key[0] != event.agent}
        elif isinstance(event, PartAdded) and event.part.kind == "json":
            self._data.append(checked(event).part.data)
        elif isinstance(event, MessageReset) or (isinstance(event, MessageFinished) and event.phase == "progress"):
            self._texts.pop((event.agent, event.message_id), None)
        elif isinstance(event, MessageFinished) and event.phase == "narration":
            self._narration.add((event.agent, event.message_id))

    @property
    def text(self) -> str:
        """All that it said."""
        return self._joined(self._texts)

    @property
    def answer(self) -> str:
        """What it said that is no narration."""
        return self._joined(key for key in self._texts if key not in self._narration)

    def _joined(self, messages: Iterable[tuple[str, str]]) -> str:
        said = whole("".join(piece for key in messages for piece in self._texts[key]))
        return said or "\n".join(msgspec.json.encode(data).decode() for data in self._data)


def _failure(error: BaseException | None) -> RunFailed:
    if error is None:
        return RunFailed(code="no_end", message="The agent's stream stopped without an end.")
    known = describe(error)
    return RunFailed(code=known.code, message=str(known), retryable=known.retryable)
