"""Writing a stream of frames to one HTTP client: what waits, and decides nothing.

The frames are pulled: nothing is queued for a client. Whatever is ready goes into one write. While nothing is, a
comment keeps proxies from closing the connection. A client that has left, or does not read, ends its own response only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from starlette.types import Message, Receive, Scope, Send

from .sse import KEEP_ALIVE

KEEP_ALIVE_S = 15.0
SEND_TIMEOUT_S = 60.0

HEADERS = [
    # Clients that go by the old rule for text take what names no charset for Latin-1.
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
"""No proxy may hold, join or compress what it is given."""


class _Left(Exception):
    """The client has left, and the server noticed before it said so."""


class FrameStream:
    """An ASGI response that sends ``frames`` until they end.

    ``frames`` is entered before the response starts, so what that raises can still be answered with an error; it is
    left when the client has left, so that whoever gives the frames knows who is watching. ``keep_alive_s`` is the
    longest silence; a single write that takes longer than ``send_timeout_s`` means a client that does not read.
    """

    def __init__(
        self,
        frames: AbstractAsyncContextManager[AsyncIterator[bytes]],
        *,
        keep_alive_s: float = KEEP_ALIVE_S,
        send_timeout_s: float = SEND_TIMEOUT_S,
    ) -> None:
        self._frames = frames
        self._keep_alive_s, self._send_timeout_s = keep_alive_s, send_timeout_s
        self._writes = 0  # that wait for the client to read
        self._since = 0.0  # when the last write began or ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. The task that sends and the one that listens end each other."""
        async with self._frames as frames:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            self._since = asyncio.get_running_loop().time()
            sender = asyncio.create_task(self._send(frames, send))
            listener = asyncio.create_task(self._listen(receive, send))
            try:
                await asyncio.wait((sender, listener), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sender.cancel()
                listener.cancel()
                await asyncio.wait((sender, listener))
            for task in (listener, sender):
                if not task.cancelled():
                    with contextlib.suppress(_Left):
                        task.result()

    async def _send(self, frames: AsyncIterator[bytes], send: Send) -> None:
        async for frame in frames:
            await self._write({"type": "http.response.body", "body": frame, "more_body": True}, send)
        await self._write({"type": "http.response.body", "body": b"", "more_body": False}, send)

    async def _listen(self, receive: Receive, send: Send) -> None:
        """Return when the client has left or does not read, and keep a silent connection alive until then."""
        clock = asyncio.get_running_loop().time
        while True:
            limit_s = self._send_timeout_s if self._writes else self._keep_alive_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._since + limit_s):
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    return
            if self._writes:
                if clock() - self._since >= self._send_timeout_s:
                    return
            elif clock() - self._since >= self._keep_alive_s:
                try:
                    async with asyncio.timeout(self._send_timeout_s):
                        await self._write({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True}, send)
                except TimeoutError:
                    return

    async def _write(self, message: Message, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        self._writes, self._since = self._writes + 1, clock()
        try:
            await send(message)
        except OSError:
            raise _Left from None
        self._writes, self._since = self._writes - 1, clock()
