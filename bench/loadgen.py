"""The reader: many streams at once over plain sockets, AG-UI or A2A, every token of every lane held to its promise."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from anabranch.errors import SourceError
from anabranch.transports.sse import Parser

from .bare import Update, asked
from .workload import Command, Ledger, Samples

ROOT_TEXT = ""
_ENDED_WELL = "ended well"


class _Frame(msgspec.Struct, gc=False):
    type: str
    delta: str = ""
    subagentRunId: str = ROOT_TEXT
    message: str = ""


class _Status(msgspec.Struct, gc=False):
    state: str


class _StatusUpdate(msgspec.Struct, gc=False):
    status: _Status


class _Result(msgspec.Struct, gc=False, rename="camel"):
    artifact_update: Update | None = None
    status_update: _StatusUpdate | None = None


class _Error(msgspec.Struct, gc=False):
    message: str


class _Response(msgspec.Struct, gc=False):
    result: _Result | None = None
    error: _Error | None = None


class Load:
    """``streams`` runs of ``command``; ``run`` reads them to their end and never raises for what a server did.

    They are opened over ``ramp_s`` seconds, at most ``at_once`` at a time (0: all). With ``end_together`` later ones
    are asked for less. ``lanes`` is how many sub-agents a run must have; 0: the root agent itself writes the tokens.
    """

    def __init__(
        self,
        url: str,
        command: Command,
        *,
        streams: int = 1,
        lanes: int = 0,
        ramp_s: float = 0.0,
        at_once: int = 0,
        end_together: bool = False,
        asked: str = "",
    ) -> None:
        self.command, self.lanes = command, lanes
        self.samples = Samples()
        self.errors: Counter[str] = Counter()
        self.lost = self.repeated = self.foreign = self.lanes_seen = self.pieces = 0
        self.first_ms: list[float] = []
        self.together_ns = self.apart_ns = 0  # from the last stream's first byte to the first stream's end
        self.streams, self._ramp_s = streams, ramp_s
        self._gate = asyncio.Semaphore(at_once or streams)
        self._where = urlsplit(url)
        self._asked, self._end_together = asked, end_together

    async def run(self, within_s: float) -> None:
        """Open the streams and read them; what has not ended ``within_s`` seconds later counts as an error."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(within_s), asyncio.TaskGroup() as group:
                for n in range(self.streams):
                    group.create_task(self._one(began, self._ramp_s * n / self.streams))
        except TimeoutError:
            self.errors["unfinished"] += 1

    @property
    def exact(self) -> bool:
        """Whether every token came once, in order, with nothing between, and every run ended well."""
        return not (self.errors or self.lost or self.repeated or self.foreign)

    async def _one(self, began: float, later_s: float) -> None:
        await asyncio.sleep(max(0.0, began + later_s - time.monotonic()))
        async with self._gate:
            less = int(later_s * self.command.rate) if self._end_together else 0
            command = self.command._replace(tokens=self.command.tokens - less)
            stream = self._stream(command)
            try:
                assert self._where.hostname and self._where.port
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: stream, self._where.hostname, self._where.port)
                await stream.over
            except OSError as error:
                self.errors[str(error)] += 1
            finally:
                stream.settle()

    def _stream(self, command: Command) -> _Stream:
        message = {"id": uuid.uuid4().hex, "role": "user", "content": f"{self._asked}{command}"}
        ids = {"threadId": uuid.uuid4().hex, "runId": uuid.uuid4().hex}
        request = posted(self._where, {**ids, "protocolVersion": "1.0", "messages": [message]})
        return _Stream(self, command, request, msgspec.json.Decoder(_Frame).decode)


class A2aLoad(Load):
    """The same of an A2A server: SendStreamingMessage of A2A 1.0 over JSON-RPC. It has one lane, its artifacts.

    ``pieces`` is how many updates the texts came in.
    """

    def _stream(self, command: Command) -> _Stream:
        request = posted(self._where, asked(str(command)), "a2a-version: 1.0\r\n")
        return _A2aStream(self, command, request, msgspec.json.Decoder(_Response).decode)


def posted(where: Any, body: dict[str, Any], headers: str = "") -> bytes:
    """The request that posts ``body`` as JSON."""
    data = msgspec.json.encode(body)
    head = (
        f"POST {where.path}?{where.query} HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-type: application/json\r\n"
        f"accept: text/event-stream\r\n{headers}connection: close\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


class Chunks:
    """The body of a chunked HTTP/1.1 response, from bytes cut anywhere. ``status`` is 0 until the head is there."""

    def __init__(self) -> None:
        self.status = 0
        self.ended = False
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What ``data`` adds to the body."""
        if self._rest:
            data = self._rest + data
        at, out = 0, []
        if not self.status:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._rest = data
                return b""
            self.status, at = int(data[9:12]), end + 4
        while (line := data.find(b"\r\n", at)) >= 0:
            size = int(data[at:line], 16)
            if size == 0:
                self.ended = True
                break
            if len(data) < line + size + 4:
                break
            out.append(data[line + 2 : line + 2 + size])
            at = line + size + 4
        self._rest = data[at:]
        return out[0] if len(out) == 1 else b"".join(out)


class _Stream(asyncio.Protocol):
    """One run, read."""

    def __init__(self, load: Load, command: Command, request: bytes, decode: Callable[[bytes], Any]) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._load, self._tokens, self._request, self._decode = load, command.tokens, request, decode
        self._chunks, self._parser = Chunks(), Parser()
        self._ledgers: dict[str, Ledger] = {}
        self._end = ""
        self._opened_ns = self._first_ns = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._opened_ns = time.monotonic_ns()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        at_ns = time.monotonic_ns()
        body = self._chunks.feed(data)
        if self._chunks.status not in (0, 200):
            self._end = f"HTTP {self._chunks.status}"
            self._done()
            return
        if body:
            if not self._first_ns:
                self._first_ns = self._load.together_ns = at_ns
            try:
                for event in self._parser.feed(body):
                    self._take(self._decode(event.data), at_ns)
            except (SourceError, msgspec.MsgspecError) as error:
                self._end = str(error)
        if self._chunks.ended:
            self._done()

    def _take(self, frame: Any, at_ns: int) -> None:
        if frame.type == "TEXT_MESSAGE_CONTENT":
            lane = frame.subagentRunId
            if lane != ROOT_TEXT or not self._load.lanes:  # a supervisor's own words are not counted
                self._heard(lane, frame.delta, at_ns)
        elif frame.type == "RUN_FINISHED":
            self._end = self._end or _ENDED_WELL
        elif frame.type == "RUN_ERROR":
            self._end = self._end or frame.message or frame.type

    def _heard(self, lane: str, text: str, at_ns: int) -> None:
        ledger = self._ledgers.get(lane)
        if ledger is None:
            ledger = self._ledgers[lane] = Ledger(self._load.samples)
        ledger.take(text, at_ns)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done()

    def _done(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def settle(self) -> None:
        """Close the connection and the books."""
        if self._transport is not None:
            self._transport.abort()
        load = self._load
        load.apart_ns = load.apart_ns or time.monotonic_ns()
        if self._end != _ENDED_WELL:
            load.errors[self._end or "cut"] += 1
        load.first_ms.append((self._first_ns - self._opened_ns) / 1e6)
        load.lanes_seen += len(self._ledgers)
        load.lost += self._tokens * max(0, (load.lanes or 1) - len(self._ledgers))
        for ledger in self._ledgers.values():
            ledger.close(self._tokens)
            load.lost += ledger.lost
            load.repeated += ledger.repeated
            load.foreign += ledger.foreign


class _A2aStream(_Stream):
    """One task, read."""

    def _take(self, frame: Any, at_ns: int) -> None:
        if frame.error:
            self._end = self._end or frame.error.message
        elif update := frame.result.artifact_update:
            if text := update.text:
                self._load.pieces += 1
                self._heard(ROOT_TEXT, text, at_ns)
        elif update := frame.result.status_update:
            state = update.status.state.removeprefix("TASK_STATE_")
            if state != "WORKING":
                self._end = self._end or (_ENDED_WELL if state == "COMPLETED" else state)
