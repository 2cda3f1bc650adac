"""Following a run for one client, from any point: what reads, and decides nothing but where to begin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import islice
from typing import Protocol

from ..errors import AnabranchError, NotFound
from ..log._base import Bounds, Checkpoint, Entry
from ._base import NOTED, Cursor, CursorUnknown, Encoder
from ._gate import Watched

logger = logging.getLogger("anabranch")

_BATCH = 1000  # entries that are read, or frames that are written, before others get their turn


class Prelude(Protocol):
    """What a client that comes new is told of the entries so far, in its protocol's way. Pure."""

    def feed(self, entries: Sequence[Entry]) -> None:
        """Take the next entries."""

    def frames(self) -> Iterator[bytes]:
        """What they come to, once. The encoder that writes on after it has then been fed all of them."""


class Follower:
    """One client's way through a run: an encoder that begins at a note, or at the start, and leaves notes behind.

    ``reader`` names the kind of encoder, ``restored`` makes one of a note (None: it is no note, read from the start).
    """

    def __init__(
        self, watched: Watched, reader: str, encoder: Encoder, restored: Callable[[bytes], Encoder | None]
    ) -> None:
        self._watched, self._reader, self._restored = watched, reader, restored
        self._encoder = encoder
        self._prelude: Prelude | None = None
        self._owed: Sequence[bytes] = ()
        self._after = 0
        self._notes = True

    async def resume(self, cursor: Cursor) -> bool:
        """Go on after ``cursor``. Whether that can be done: not when entries are gone that it takes to know how.

        Raises ``CursorUnknown`` for a cursor beyond what there is, ``NotFound`` when the run is forgotten meanwhile.
        """
        bounds = await self._watched.bounds()
        if cursor.seq > bounds.last:
            raise CursorUnknown(cursor.text(self._watched.run_id), "is beyond what there is of the run")
        await self._restore(cursor.seq - 1)
        if self._after + 1 < bounds.first:
            return False
        while self._after < cursor.seq - 1:
            self._feed(await self._read(cursor.seq - 1))
            await asyncio.sleep(0)
        frames = self._feed(await self._read(cursor.seq))
        if cursor.part >= max(1, len(frames)):
            raise CursorUnknown(cursor.text(self._watched.run_id), "is of a frame that there is not")
        self._owed = frames[cursor.part + 1 :]
        return True

    def begin(self, prelude: Prelude, bounds: Bounds) -> None:
        """Tell what there is within ``bounds`` by ``prelude``, which feeds this encoder; then go on after that."""
        self._prelude, self._after = prelude, bounds.last
        self._notes = bounds.first <= 1  # else what the encoder knows is not what others know

    @property
    def over(self) -> bool:
        """Whether there is nothing left, and nothing will come."""
        return self._encoder.ended and not self._owed

    @asynccontextmanager
    async def frames(self) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """The frames to the end of the run, joined as they come. Entered, the client is one who watches.

        Raises ``NotFound`` when the run is no longer kept. What goes wrong later is the stream's last frame.
        """
        async with self._watched.watch(self._after) as batches, aclosing(self._frames(batches)) as frames:
            yield frames

    async def _frames(self, batches: AsyncIterator[Sequence[Entry]]) -> AsyncGenerator[bytes, None]:
        error: Exception | None = None
        try:
            async with aclosing(self._opening(batches)) as opening:
                async for piece in opening:
                    yield piece
            if self._encoder.ended:
                return
            encoder = self._encoder
            async for batch in batches:
                if batch[-1].seq // NOTED == (batch[0].seq - 1) // NOTED:  # as with most
                    frames = [frame for entry in batch for frame in encoder.feed(entry)]
                else:  # a note is due, and in a replay there may be no other pause
                    frames = self._feed(batch)
                    await asyncio.sleep(0)
                if frames:
                    yield b"".join(frames)
                if encoder.ended:
                    return
        except Exception as failure:
            error = failure
            _report(failure)
        if rest := b"".join(self._encoder.close(error)):
            yield rest

    async def _opening(self, batches: AsyncIterator[Sequence[Entry]]) -> AsyncGenerator[bytes, None]:
        """What comes before the entries that follow: the rest of an entry, or a prelude of what there is."""
        if self._owed:
            yield b"".join(self._owed)
        prelude, self._prelude = self._prelude, None  # it holds all that it tells
        if prelude is None:
            return
        upto, self._after = self._after, 0
        if not upto:
            prelude.feed(await anext(batches, ()))
        while self._after < upto:
            prelude.feed(await self._read(upto))
            await asyncio.sleep(0)
        frames = prelude.frames()
        while piece := b"".join(islice(frames, _BATCH)):
            yield piece
            await asyncio.sleep(0)

    async def _restore(self, upto: int) -> None:
        note = await self._watched.checkpoint(self._reader, upto) if upto else None
        if note and 0 < note.seq <= upto and (encoder := self._restored(note.state)):
            self._encoder, self._after = encoder, note.seq

    async def _read(self, upto: int) -> Sequence[Entry]:
        batch = await self._watched.read(self._after, min(_BATCH, upto - self._after))
        if not batch:
            raise NotFound(f"run {self._watched.run_id!r} is no longer kept")
        self._after = batch[-1].seq
        return batch

    def _feed(self, entries: Sequence[Entry]) -> list[bytes]:
        """The frames of ``entries``, which follow those before."""
        encoder, first = self._encoder, entries[0].seq
        size = NOTED - (first - 1) % NOTED
        if len(entries) < size:  # no note is due
            return [frame for entry in entries for frame in encoder.feed(entry)]
        frames = [frame for entry in entries[:size] for frame in encoder.feed(entry)]
        if self._notes and not encoder.ended:
            self._watched.keep_checkpoint(self._reader, Checkpoint(first + size - 1, encoder.state()))
        rest = entries[size:]
        return frames + self._feed(rest) if rest else frames


def _report(failure: Exception) -> None:
    if not isinstance(failure, AnabranchError):
        logger.error("a run could not be read from its log", exc_info=failure)
