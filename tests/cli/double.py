"""A scripted AG-UI server, a cable that can be cut, and what ``anabranch chat`` does as a process."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import pty
import re
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from anabranch import events as ev
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.sinks.agui.encode import AguiEncoder
from anabranch.sinks.agui.profile import Profile

WAIT_S = 20

RUN = "run-1"


def frames(items: Iterable[ev.Event], run_id: str = RUN) -> list[bytes]:
    """What our server sends for a source's items."""
    grammar, encoder = Grammar(), AguiEncoder(Profile(True, "native"))
    start = ev.RunStarted(run_id=run_id, thread_id="thread-1", agent_name="root")
    events = [event for item in (start, *items) for event in grammar.feed(item)]
    entries = (Entry(seq, 1, seq, event) for seq, event in enumerate(events, 1))
    return [frame for entry in entries for frame in encoder.feed(entry)]


def events_of(stream: Iterable[bytes]) -> list[dict[str, Any]]:
    """The events of frames, as a client reads them."""
    lines = b"".join(stream).split(b"\n")
    return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]


def bare(stream: Iterable[bytes]) -> list[bytes]:
    """Frames as a server sends them that has no cursors."""
    return [b"data: " + frame.partition(b"data: ")[2] for frame in stream]


def event(kind: str, **fields: Any) -> bytes:
    """A frame of somebody else's server."""
    return b"data: %b\n\n" % json.dumps({"type": kind} | fields).encode()


CANCELLED = event("RUN_FINISHED", threadId="thread-1", runId=RUN, outcome={"type": "cancelled"})


class Double:
    """Says ``script`` for every run, whatever is asked. ``ours``: it has the routes to follow and to stop a run.

    It waits before the frame number ``hold`` until somebody sets ``go``, or the run is cancelled: then it ends with a
    cancel.
    """

    def __init__(self, script: Sequence[bytes], *, ours: bool = True, hold: int | None = None) -> None:
        self.script, self.hold = list(script), hold
        self.forgetful = False  # who comes back is told the run from its start
        self.stubborn = False  # a run that is cancelled goes on
        self.go, self.held, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.asked: list[tuple[str, str]] = []
        self.cursors: list[str | None] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        routes = [Route("/agui", self._start, methods=["POST"])]
        if ours:
            routes += [
                Route("/runs/{run_id}/agui", self._follow, methods=["GET"]),
                Route("/runs/{run_id}/cancel", self._cancel, methods=["POST"]),
            ]
        self.app = Starlette(routes=routes, exception_handlers={404: _not_found} if ours else None)

    async def _start(self, request: Request) -> Response:
        self._note(request)
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json())
        return self._stream(0)

    async def _follow(self, request: Request) -> Response:
        self._note(request)
        cursor = request.headers.get("last-event-id")
        self.cursors.append(cursor)
        if not self.bodies:
            return _unknown()
        ids = [frame.split(b"\n")[0].removeprefix(b"id: ").decode() for frame in self.script]
        return self._stream(ids.index(cursor) + 1 if cursor and not self.forgetful else 0)

    async def _cancel(self, request: Request) -> Response:
        self._note(request)
        if not self.bodies:
            return _unknown()
        self.cancelled.set()
        if not self.stubborn:
            self.go.set()
        return JSONResponse({"status": "running"}, status_code=202)

    def _note(self, request: Request) -> None:
        self.asked.append(
            (request.method, request.url.path.replace("/runs/", "/", 1).partition("/agui")[1] or "cancel")
        )

    def _stream(self, start: int) -> Response:
        return StreamingResponse(self._frames(start), media_type="text/event-stream")

    async def _frames(self, start: int) -> AsyncIterator[bytes]:
        for number, frame in enumerate(self.script[start:], start):
            if number == self.hold and not self.go.is_set():
                self.held.set()
                await self.go.wait()
                if self.cancelled.is_set():
                    yield CANCELLED
                    return
            yield frame


def _unknown() -> Response:
    return JSONResponse({"error": {"code": "not_found", "message": "there is no such run"}}, status_code=404)


async def _not_found(request: Request, error: Exception) -> Response:
    return _unknown()


@asynccontextmanager
async def cable(url: str, cuts: Callable[[int], int | bytes | None]) -> AsyncIterator[str]:
    """A TCP relay to ``url``: the address to use instead. ``cuts(n)`` says where connection number n is cut.

    After so many bytes of the answer; after those bytes of it; never (None); or before the request is passed on
    (``LOST``).
    """
    port, numbers = int(url.rpartition(":")[2]), itertools.count()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut = cuts(next(numbers))
        if cut == LOST:
            await reader.read(1)
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        up = asyncio.create_task(_pump(reader, far_writer))
        try:
            await _relay_until(cut, far_reader, writer)
        finally:
            up.cancel()
            far_writer.transport.abort()
            # A process that dies resets its connections, a proxy that stops closes them.
            if isinstance(cut, int) and cut % 2 and not writer.transport.get_write_buffer_size():
                writer.transport.abort()
            writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


LOST = -1


def first(cut: int | bytes) -> Callable[[int], int | bytes | None]:
    """Cuts for a cable of which the first connection breaks and no other."""
    return lambda number: None if number else cut


async def _relay_until(cut: int | bytes | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    passed, seen = 0, b""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            if isinstance(cut, bytes):
                seen += data
                end = seen.find(cut)
                left = end + len(cut) - passed if end >= 0 else len(data)
            else:
                left = len(data) if cut is None else cut - passed
            writer.write(data[:left])
            await writer.drain()
            passed += len(data)
            if left < len(data):
                return


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


# --- the command as a process ----------------------------------------------------------------------------------------


class Done(NamedTuple):
    """How the command ended."""

    code: int | None
    out: bytes
    err: str


@asynccontextmanager
async def running(
    *arguments: str, stdin: Any = asyncio.subprocess.DEVNULL, stdout: Any = asyncio.subprocess.PIPE, **environ: str
) -> AsyncIterator[Any]:
    """``anabranch chat`` as a process, killed in the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "anabranch", "chat", *arguments),
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environ,
    )
    try:
        async with asyncio.timeout(WAIT_S):
            yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def chat(*arguments: str, piped: bytes | None = None, **environ: str) -> Done:
    """Run ``anabranch chat`` to its end."""
    stdin = asyncio.subprocess.DEVNULL if piped is None else asyncio.subprocess.PIPE
    async with running(*arguments, stdin=stdin, **environ) as process:
        out, err = await process.communicate(piped)
        return Done(process.returncode, out, err.decode())


class Seat:
    """Somebody at a terminal of 100 columns, in front of ``anabranch chat``: what they see, and what they type."""

    def __init__(self, master: int, process: asyncio.subprocess.Process) -> None:
        self._master, self.process = master, process
        self.seen = b""
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
        self.seen += data
        self._more.set()

    def type(self, keys: bytes) -> None:
        """Press keys: Ctrl-C is ``\\x03``, Ctrl-D ``\\x04``."""
        os.write(self._master, keys)

    async def insists(self, keys: bytes) -> int:
        """Press keys until it leaves: CPython does not notice a Ctrl-C between its prompt and its waiting for a key."""
        while True:
            self.type(keys)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    return await self.process.wait()

    async def sees(self, text: str, times: int = 1) -> None:
        """Wait until ``text`` was written so many times, wherever."""
        while self.seen.count(text.encode()) < times:
            self._more.clear()
            await self._more.wait()

    async def leaves(self) -> int:
        """The exit code, once all was seen."""
        code = await self.process.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                while True:
                    self._more.clear()
                    await self._more.wait()
        return code

    @property
    def rows(self) -> list[str]:
        """What stays on the terminal: the rows as they were last, without colours."""
        rows, at, column = [""], 0, 0
        for found in re.finditer(rb"\x1b\[(\d*)([A-Za-z])|\x1b\[\?\d+[hl]|([^\x1b])|(\x1b)", self.seen, re.S):
            number, action, plain, stray = found.groups()
            assert not stray, self.seen[found.start() :][:40]
            if action == b"A":
                at -= int(number or 1)
            elif action == b"K":
                rows[at] = ""
            elif plain == b"\n":
                at += 1
                rows += [""] * (at + 1 - len(rows))
            elif plain == b"\r":
                column = 0
            elif plain:
                rows[at] = rows[at][:column] + plain.decode("latin-1") + rows[at][column + 1 :]
                column += 1
        return [row.encode("latin-1").decode().rstrip() for row in rows]


@asynccontextmanager
async def seated(*arguments: str, **environ: str) -> AsyncIterator[Seat]:
    """``anabranch chat`` in a terminal, killed in the end."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 100))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "anabranch", "chat", *arguments),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"TERM": "xterm-256color", "COLORTERM": "", "NO_COLOR": ""} | environ,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    seat = Seat(master, process)
    try:
        async with asyncio.timeout(WAIT_S):
            yield seat
    except TimeoutError:
        raise AssertionError(f"what is waited for is not in {seat.seen!r}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        asyncio.get_running_loop().remove_reader(master)
        os.close(master)
