"""A network that breaks: a proxy on this loop, between a client and an agent, that cuts event streams."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from typing import Literal

Way = Literal["reset", "inside", "close", "end"]
"""A reset; the end of the connection inside an event, and between two; a proper end of the answer."""

LOCAL = "127.0.0.1"


class Cut:
    """The n-th event stream is cut after ``after[n]`` events; those after the last one are whole."""

    def __init__(self, agent: str, after: Iterable[int], way: Way) -> None:
        self.url = ""
        self.streams = 0
        self._agent, self._after, self._way = agent.removeprefix(f"http://{LOCAL}:"), iter(after), way
        self.connections: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the client."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        there, back = await asyncio.open_connection(LOCAL, int(self._agent))
        up = asyncio.create_task(_pump(reader, back))
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._answers(there, writer)
        finally:
            up.cancel()
            for each in (writer, back):
                each.close()
            self.connections.discard(task)

    async def _answers(self, agent: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        head = await agent.readuntil(b"\r\n\r\n")
        client.write(head)
        if b"text/event-stream" not in head.lower():
            await _pump(agent, client)
            return
        self.streams += 1
        left = next(self._after, -1)
        while True:
            size = await agent.readuntil(b"\r\n")
            data = await agent.readexactly(int(size, 16) + 2)
            if left == 0 and b"data:" in data:
                self._cut(client, size + data)
                return
            left -= b"data:" in data
            client.write(size + data)
            await client.drain()

    def _cut(self, client: asyncio.StreamWriter, event: bytes) -> None:
        if self._way == "end":
            client.write(b"0\r\n\r\n")
        elif self._way == "inside":
            client.write(event[: len(event) // 2])
        elif self._way == "reset":
            linger = struct.pack("ii", 1, 0)
            client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def cutting(agent: str, *after: int, way: Way = "reset") -> AsyncIterator[Cut]:
    """A proxy to the agent at the URL ``agent``."""
    cut = Cut(agent, after, way)
    listener = await asyncio.start_server(cut.serve, LOCAL)
    cut.url = f"http://{LOCAL}:{listener.sockets[0].getsockname()[1]}"
    try:
        yield cut
    finally:
        listener.close()
        for connection in list(cut.connections):
            connection.cancel()
        await asyncio.gather(*cut.connections, return_exceptions=True)
