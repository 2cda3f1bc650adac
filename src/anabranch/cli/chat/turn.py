"""One run, from the question to its end, whatever comes between: Ctrl-C, a time limit, a reader that has left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from .output import Output
from .peer import Peer
from .reading import Ending, Reading, Unreadable
from .trail import ChatError

CANCEL_S = 10.0
"""How long a run that was told to stop may take to say that it has."""

_LEAVE_S = 2.0  # to tell the server that nobody reads any more


class Stuck(Exception):
    """What was read cannot be written: nobody takes this process's output, and its thread waits for that."""


class Turn:
    """A run of ``body`` at ``peer``, shown by ``output``; ``reading`` is what is read of it."""

    def __init__(self, peer: Peer, body: Mapping[str, Any], reading: Reading, output: Output) -> None:
        self.started = False
        """Whether the server has said anything of the run."""
        self._peer, self._body, self._reading, self._output = peer, body, reading, output

    async def play(self, stop: asyncio.Event, timeout_s: float | None) -> Ending:
        """Run it to its end. When ``stop`` is set, or after ``timeout_s``, the run is cancelled on the server.

        What comes until its terminal event is still shown. Raises ``OSError`` when it cannot be written, and ``Stuck``.
        """
        stopping, reading = asyncio.create_task(stop.wait()), asyncio.create_task(self._read())
        self._output.begin()
        try:
            await asyncio.wait((reading, stopping), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            late = not (reading.done() or stopping.done())
            if not reading.done():
                await self._stop(reading)
            ending = await self._ending(reading)
            if late and ending.status == "cancelled":
                ending = Ending(status="cancelled", message=f"it took longer than {timeout_s:g} s", usage=ending.usage)
            await self._output.end(self._peer.ids(self._body), self._reading, ending)
            return ending
        except OSError:
            if self._reading.ending is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LEAVE_S):
                        await self._peer.cancel(self._body["runId"])
            raise
        finally:
            self._output.close()
            stopping.cancel()
            reading.cancel()

    async def _read(self) -> None:
        async with aclosing(self._peer.run(self._body)) as batches:
            async for _, frames in batches:
                self.started = True
                events: list[dict[str, Any]] = []
                texts: list[str] = []
                for frame in frames:
                    read, text = self._reading.feed(frame.event)
                    events += read
                    texts.append(text)
                await self._output.show(frames, events, "".join(texts))

    async def _stop(self, reading: asyncio.Task[None]) -> None:
        """Have the server cancel the run, and wait for its end as long as is decent."""
        asking = asyncio.create_task(self._peer.cancel(self._body["runId"]))
        try:
            async with asyncio.timeout(CANCEL_S):
                await asyncio.wait((asking, reading), return_when=asyncio.FIRST_COMPLETED)
                if asking.done() and not asking.result():
                    self._output.say("this server cannot be told to stop a run; leaving it")
                    return
                await asyncio.wait((reading,))
        except TimeoutError:
            self._output.say(f"the server did not say within {CANCEL_S:g} s that the run has ended; leaving it")
        finally:
            asking.cancel()

    async def _ending(self, reading: asyncio.Task[None]) -> Ending:
        if not reading.done():
            if self._output.busy:
                raise Stuck
            reading.cancel()
            await asyncio.wait((reading,))
            return Ending(status="cancelled")
        try:
            reading.result()
        except (ChatError, Unreadable) as error:
            return Ending(status="failed", code=getattr(error, "code", "protocol"), message=str(error))
        ending = self._reading.ending
        assert ending is not None, "a run was read to its end without a terminal event"
        flaw = self._reading.flaw
        if flaw is None and self._output.lasting and self._reading.answer.spoiled:
            flaw = "the agent began again: some of what was written is not part of its answer"
        return ending if flaw is None else Ending(status="failed", message=flaw, usage=ending.usage)
