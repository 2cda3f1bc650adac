"""A server that answers each request with exactly the bytes a test gives it, on this loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Request:
    """One request, and the connection to answer it on."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def call(self) -> Json:
        """The JSON-RPC request."""
        return dict(json.loads(self.body))

    async def send(self, data: bytes) -> None:
        """Write ``data`` as it is."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, body: bytes | Json = b"", status: int = 200, kind: str = "application/json", **headers: str
    ) -> None:
        """A whole answer."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers |= {"content-type": kind, "content-length": str(len(body))}
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
        await self.send(f"HTTP/1.1 {status} X\r\n{''.join(lines)}\r\n".encode() + body)

    async def begin(self) -> None:
        """The head of an event stream, which goes on until ``end``."""
        await self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    async def event(self, item: bytes) -> None:
        """One event of such a stream."""
        await self.piece(b"data: " + item + b"\n\n")

    async def piece(self, data: bytes) -> None:
        """A piece of such a stream; an empty one is its end."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """The end of such a stream."""
        await self.piece(b"")

    def reset(self) -> None:
        """End the connection the hard way."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


class Raw:
    """A running server: its ``url``, and all ``requests`` to it but those for its card."""

    def __init__(self, answer: Callable[[Request], Coroutine[Any, Any, None]], card: Json | None) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.cards = 0
        self.connections: set[asyncio.Task[Any]] = set()
        self._answer, self._card = answer, card

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the client or the server ends."""
        if task := asyncio.current_task():
            self.connections.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while request := await self._read(reader, writer):
                if self._card is not None and request.path == "/.well-known/agent-card.json":
                    self.cards += 1
                    await request.answer(self._card)
                    continue
                self.requests.append(request)
                watch = asyncio.create_task(self._watch(reader, request))
                await self._answer(request)
                if watch.cancel():
                    with contextlib.suppress(asyncio.CancelledError):
                        await watch
        writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(method, path, headers, body, writer)

    async def _watch(self, reader: asyncio.StreamReader, request: Request) -> None:
        """Notice that the client has gone: it sends nothing while it waits for an answer."""
        with contextlib.suppress(ConnectionError):
            if await reader.read(1) == b"":
                request.gone.set()


def card(streaming: bool = True, **more: Any) -> Json:
    """A card of an agent that does not know its own address."""
    interface = {"url": "http://0.0.0.0/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {"name": "raw", "supportedInterfaces": [interface], "capabilities": {"streaming": streaming}, **more}


@contextlib.asynccontextmanager
async def raw(
    answer: Callable[[Request], Coroutine[Any, Any, None]], card: Json | None, port: int = 0
) -> AsyncIterator[Raw]:
    """A server that hands each request to ``answer``; ``card`` is served unless it is None. Port 0 is any free one."""
    server = Raw(answer, card)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for connection in server.connections:
            connection.cancel()
        await asyncio.gather(*server.connections)
