"""A real server in the test's own process and loop, and a client that sees every byte."""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, NamedTuple

import uvicorn

from anabranch.request import RunRequest
from anabranch.serve import uvicorn_config

WAIT_S = 10


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the signals are the test runner's

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        raise NotImplementedError


@asynccontextmanager
async def served(app: Any, port: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serve ``app``, on a free port if 0, with the settings of ``anabranch serve``; the server has stopped on exit."""
    server = _Server(uvicorn_config(app, **{"log_config": None, "timeout_graceful_shutdown": 1} | options))
    listener = socket.create_server(("127.0.0.1", port))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `anabranch serve` does
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        async with asyncio.timeout(WAIT_S):
            await serving


class Wire:
    """One connection, read as bytes: the head of a response, then its chunks as they were written."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status, and the headers by their lower-case names."""
        async with asyncio.timeout(WAIT_S):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = [line.split(": ", 1) for line in lines[1:] if line]
        return int(lines[0].split(" ")[1]), {name.lower(): value for name, value in pairs}

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body, ``b""`` at its end. Raises ``IncompleteReadError`` when it is cut."""
        async with asyncio.timeout(WAIT_S):
            size = int((await self._reader.readuntil(b"\r\n")).strip(), 16)
            return (await self._reader.readexactly(size + 2))[:-2]

    async def chunks(self) -> list[bytes]:
        """The rest of the body."""
        return [chunk async for chunk in self]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self.chunk():
            yield chunk

    async def exactly(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        async with asyncio.timeout(WAIT_S):
            return await self._reader.readexactly(size)

    async def closed(self) -> bytes:
        """What still comes until the server closes the connection."""
        async with asyncio.timeout(WAIT_S):
            return await self._reader.read()


class Answer(NamedTuple):
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    @property
    def said(self) -> Any:
        """The JSON, which a stream may have as its only event."""
        if self.headers["content-type"] == "application/json":
            return self.json
        [event] = self.events
        return event

    @property
    def events(self) -> list[dict[str, Any]]:
        """The AG-UI events of a stream."""
        assert self.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = self.body.split(b"\n")
        return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]


@asynccontextmanager
async def sent(
    url: str, method: str, path: str, body: Any = None, *, small: bool = False, **headers: str
) -> AsyncIterator[Wire]:
    """Send one request; leave to close the connection. With ``small`` the client takes little before it is read."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)))
    if small:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader, writer = await asyncio.open_connection(sock=connection)
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"host": host, "content-type": "application/json", "content-length": str(len(data))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    try:
        writer.write("\r\n".join(lines).encode() + data)
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """Send one request and read the whole answer."""
    async with sent(url, method, path, body, **headers) as wire:
        status, given = await wire.head()
        if given.get("transfer-encoding") == "chunked":
            return Answer(status, given, b"".join(await wire.chunks()))
        size = 0 if method == "HEAD" else int(given.get("content-length", 0))
        return Answer(status, given, await wire.exactly(size))


# --- an application, and what is asked of it ------------------------------------------------------------------------


async def echo(request: RunRequest) -> AsyncGenerator[str, None]:
    """An agent that says the words of the question."""
    for piece in re.findall(r"\S+\s*", request.last_user_text()):
        yield piece


def body(run_id: str = "r1", thread_id: str = "", text: str = "hel lo", **more: Any) -> dict[str, Any]:
    """A RunAgentInput; each run has a thread of its own unless one is named."""
    message = {"id": "m1", "role": "user", "content": text}
    given = {"runId": run_id, "threadId": thread_id or f"t-{run_id}", "messages": [message], "protocolVersion": "1.0"}
    return given | more


def said(events: list[dict[str, Any]]) -> str:
    """The text of all messages of a stream."""
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def by_header(caller: Any) -> str | None:
    """Who is asking: whoever the header says."""
    name: str | None = caller.headers.get("x-user")
    return name


def refusal(answer: Answer) -> tuple[int, str, str]:
    """The status, code and message of an error, which tells nothing of the inside."""
    assert set(answer.json) == {"error"} and set(answer.json["error"]) == {"code", "message"}
    assert "Traceback" not in answer.body.decode() and ".py" not in answer.body.decode()
    return answer.status, answer.json["error"]["code"], answer.json["error"]["message"]
