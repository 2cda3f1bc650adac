"""How far one run was followed: its frames over all connections, the cursor after the last, and how long to try again.

Reads the clock; sends nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec

from ...encodable import whole
from ...errors import AnabranchError, SourceError, scrub
from ...transports.sse import Parser, SseEvent

TERMINAL = frozenset({"RUN_FINISHED", "RUN_ERROR"})

_IDLE_S = 60.0  # without a byte, not even a comment: nobody is at the other end of the connection
_LASTING_S = 10.0  # a connection that still lives after this is one that was found again
_LONGEST_PAUSE_S = 2.0

_decode = msgspec.json.Decoder().decode


class ChatError(AnabranchError):
    """The run could not be started, or not be followed to its end. The message says what, and what to do."""

    code = ""


class NotAgui(ChatError):
    """What is at the address does not speak AG-UI."""


class Lost(Exception):
    """The connection broke, or the server is busy: it may be tried again."""

    def final(self, why: str) -> ChatError:
        """The error, when it is not tried again."""
        return ChatError(f"{self}; {why}", code="disconnected")


class Ended(Lost):
    """A stream ended in order, and the run had not."""

    def __init__(self) -> None:
        super().__init__("the stream ended without saying how the run ended")

    def final(self, why: str = "") -> ChatError:
        """``Lost.final``; there is nothing to add."""
        return ChatError(str(self), code="no_end")


class Frame(msgspec.Struct, frozen=True):
    """One event as it was received: its JSON text, what it says, and the cursor after it (``""``: there is none).

    Of another protocol than AG-UI the text is a ``RAW`` event, and what it says are the next ones, which have no text.
    """

    data: bytes
    event: dict[str, Any]
    cursor: str


Batch = tuple[int, list[Frame]]
"""What one read brought, with its time in nanoseconds of the monotonic clock."""


class Trail:
    """The run that ``body`` asks for, as far as it was followed. ``patience_s`` bounds how long it may be lost.

    A lost connection is tried again after ``pause_s``, then ever more rarely.
    """

    def __init__(self, body: Mapping[str, Any], patience_s: float, pause_s: float) -> None:
        self.body, self.run_id = body, str(body["runId"])
        self.cursor = ""
        self.frames = self.tries = 0
        self.unknown = False
        """The server said that it has no such run."""
        self.broken = False
        """The connection was lost, and nothing has come since."""
        self._patience_s, self._pause_s = patience_s, pause_s
        self._pauses = pauses(pause_s)
        self._ends_at = 0.0

    async def pieces(self, received: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The bytes of one connection. Raises ``TimeoutError`` when it must be dead."""
        began = time.monotonic()
        while True:
            # Only a server that continues streams is known to write something every few seconds.
            async with asyncio.timeout(_IDLE_S if self.cursor else None):
                try:
                    piece = await anext(received)
                except StopAsyncIteration:
                    return
            if time.monotonic() - began > _LASTING_S:
                self.broken = False
            yield piece

    async def read(self, received: AsyncIterator[bytes]) -> AsyncGenerator[Batch, None]:
        """The frames of one connection, up to the run's end. Raises ``ChatError`` at what is no event."""
        parser = Parser()
        async for piece in received:
            at_ns = time.monotonic_ns()
            try:
                events = parser.feed(piece)
            except SourceError as error:
                raise ChatError(str(error), code=error.code) from error
            if frames := _frames(events):
                if self.frames and frames[0].event["type"] == "RUN_STARTED":
                    gone = "the server no longer has all of this run, so it cannot be continued where it was left"
                    raise ChatError(f"the connection was lost, and {gone}", code="disconnected")
                self.cursor, self.broken = frames[-1].cursor, False
                self.frames += len(frames)
                yield at_ns, frames

    async def pause(self, lost: Lost) -> None:
        """Wait until the next try. Raises ``ChatError`` when there is none."""
        now = time.monotonic()
        if not self.broken:
            self.broken, self._ends_at, self._pauses = True, now + self._patience_s, pauses(self._pause_s)
        elif isinstance(lost, Ended):
            raise lost.final()
        self.tries += 1
        pause_s = next(self._pauses)
        if now + pause_s > self._ends_at:
            raise lost.final(f"tried for {self._patience_s:g} s") from lost
        await asyncio.sleep(pause_s)


def pauses(pause_s: float) -> Iterator[float]:
    """Seconds between two tries, without end."""
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _frames(received: list[SseEvent]) -> list[Frame]:
    """The frames up to the terminal one. Blank ones only keep a connection alive."""
    out: list[Frame] = []
    for sse in received:
        if not sse.data.strip():
            continue
        out.append(Frame(sse.data, _event(sse.data), sse.id))
        if out[-1].event["type"] in TERMINAL:
            break
    return out


def _event(data: bytes) -> dict[str, Any]:
    event: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        try:
            event = _decode(data)
        except msgspec.DecodeError:
            event = _decode(whole(json.dumps(json.loads(data), ensure_ascii=False)))  # half a surrogate pair
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise ChatError(f"the server sent what is no AG-UI event: {scrub(repr(data[:80]))}", code="protocol")
    return event
