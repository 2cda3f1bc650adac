"""A stream of frames over a real server: whoever reads it, leaves it, or does neither."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from runs.staging import Signal
from serving import WAIT_S, sent, served

from anabranch.transports.sse import KEEP_ALIVE
from anabranch.transports.stream import FrameStream

HUGE = b"x" * 2**24  # more than all buffers between two sockets
LONG_S = 3600.0
Frames = Callable[[], AsyncGenerator[bytes, None]]


class Watched:
    """Frames that note when somebody begins to watch and when they have left."""

    def __init__(self, frames: Frames) -> None:
        self.entered, self.left, self.closed = Signal(), Signal(), Signal()
        self._frames = frames

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[AsyncIterator[bytes]]:
        self.entered.set()
        try:
            async with aclosing(self._noted()) as frames:
                yield frames
        finally:
            self.left.set()

    async def _noted(self) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._frames()) as frames:
                async for frame in frames:
                    yield frame
        finally:
            self.closed.set()


def streaming(watched: Watched, **times: float) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await FrameStream(watched(), **{"keep_alive_s": LONG_S, "send_timeout_s": LONG_S} | times)(scope, receive, send)

    return app


@pytest.fixture(params=["httptools", "h11"])
def server(request: pytest.FixtureRequest) -> Any:
    if request.param == "httptools":
        pytest.importorskip("httptools", reason="needs httptools: pip install '.[fast]'")
    return lambda app, **options: served(app, http=request.param, lifespan="off", **options)


@pytest.fixture
def go() -> Signal:
    return Signal()


async def left(watched: Watched) -> None:
    await watched.left.wait()
    await watched.closed.wait()


async def test_the_head_forbids_every_kind_of_buffering(server: Any) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"

    async with server(streaming(Watched(frames))) as url, sent(url, "GET", "/") as wire:
        status, headers = await wire.head()
        assert status == 200
        assert headers.pop("date")
        assert headers == {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache, no-transform",
            "x-accel-buffering": "no",
            "transfer-encoding": "chunked",
        }
        assert await wire.chunks() == [b"data: 1\n\n"]


async def test_each_frame_is_written_once_as_soon_as_it_is_there(server: Any) -> None:
    asks: asyncio.Queue[bytes] = asyncio.Queue()

    async def frames() -> AsyncGenerator[bytes, None]:
        while frame := await asks.get():
            yield frame

    watched = Watched(frames)
    async with server(streaming(watched)) as url, sent(url, "GET", "/") as wire:
        await wire.head()
        for frame in (b"a" * 10, b"b" * 100_000, b"c"):
            asks.put_nowait(frame)
            assert await wire.chunk() == frame
        asks.put_nowait(b"")
        assert await wire.chunk() == b""
        await left(watched)


async def test_a_stream_of_nothing_is_whole(server: Any) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        return
        yield

    async with server(streaming(Watched(frames))) as url, sent(url, "GET", "/") as wire:
        await wire.head()
        assert await wire.chunks() == []


async def test_comments_keep_a_silent_stream_alive(server: Any, go: Signal) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        await go.wait()
        yield b"data: 2\n\n"

    async with server(streaming(Watched(frames), keep_alive_s=0.02)) as url, sent(url, "GET", "/") as wire:
        await wire.head()
        assert [await wire.chunk() for _ in range(4)] == [b"data: 1\n\n", *[KEEP_ALIVE] * 3]
        go.set()
        rest = await wire.chunks()
        assert [chunk for chunk in rest if chunk != KEEP_ALIVE] == [b"data: 2\n\n"]


async def test_comments_begin_before_the_first_frame(server: Any, go: Signal) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        await go.wait()
        yield b"data: 1\n\n"

    async with server(streaming(Watched(frames), keep_alive_s=0.02)) as url, sent(url, "GET", "/") as wire:
        await wire.head()
        assert await wire.chunk() == KEEP_ALIVE
        go.set()
        assert b"data: 1\n\n" in await wire.chunks()


async def test_a_client_that_leaves_in_the_middle_is_noticed(
    server: Any, go: Signal, caplog: pytest.LogCaptureFixture
) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        await go.wait()

    watched = Watched(frames)
    async with server(streaming(watched)) as url:
        async with sent(url, "GET", "/") as wire:
            await wire.head()
            assert await wire.chunk() == b"data: 1\n\n"
            assert not watched.left.is_set()
        await left(watched)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_client_that_leaves_before_the_first_frame_is_noticed(server: Any, go: Signal) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        await go.wait()
        yield b"never"

    watched = Watched(frames)
    async with server(streaming(watched)) as url:
        async with sent(url, "GET", "/"):
            await watched.entered.wait()
        await left(watched)


async def many() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"x" * 2**16


async def one_huge_then_silence() -> AsyncGenerator[bytes, None]:
    yield HUGE
    await asyncio.Event().wait()


async def one_huge_then_the_end() -> AsyncGenerator[bytes, None]:
    yield HUGE


@pytest.mark.parametrize("frames", [many, one_huge_then_silence, one_huge_then_the_end])
async def test_a_client_that_never_reads_is_given_up(server: Any, frames: Frames) -> None:
    watched, other = Watched(frames), Watched(one_huge_then_the_end)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        times = {"keep_alive_s": 0.02, "send_timeout_s": 0.1}
        chosen = watched if scope["path"] == "/" else other
        await FrameStream(chosen(), **times)(scope, receive, send)

    async with server(app) as url, sent(url, "GET", "/", small=True):
        await watched.entered.wait()
        async with sent(url, "GET", "/other") as reads:
            await reads.head()
            chunks = [chunk for chunk in await reads.chunks() if chunk != KEEP_ALIVE]
            assert sum(map(len, chunks)) == len(HUGE)
        await left(watched)


async def test_a_client_that_reads_late_loses_nothing(server: Any, go: Signal) -> None:
    pieces = [b"%d;" % number * 10_000 for number in range(200)]

    async def frames() -> AsyncGenerator[bytes, None]:
        for piece in pieces:
            yield piece
            go.set()

    async with server(streaming(Watched(frames), send_timeout_s=WAIT_S)) as url, sent(url, "GET", "/") as wire:
        await go.wait()
        await wire.head()
        assert await wire.chunks() == pieces


async def test_what_entering_raises_comes_before_the_response_starts() -> None:
    @asynccontextmanager
    async def refuses() -> AsyncIterator[AsyncIterator[bytes]]:
        raise LookupError("no such run")
        yield

    written: list[Any] = []
    with pytest.raises(LookupError):
        await FrameStream(refuses())({}, forever, recorder(written))
    assert written == []


async def test_frames_that_raise_cut_the_response_so_that_nobody_takes_it_for_whole(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise OSError("the log is gone")

    watched = Watched(frames)
    async with server(streaming(watched)) as url, sent(url, "GET", "/") as wire:
        await wire.head()
        assert await wire.chunk() == b"data: 1\n\n"
        assert await wire.closed() == b""
        await left(watched)
    assert "the log is gone" in caplog.text


async def test_a_server_that_stops_ends_its_streams(server: Any, go: Signal) -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        await go.wait()

    watched = Watched(frames)
    async with server(streaming(watched), timeout_graceful_shutdown=0) as url, sent(url, "GET", "/") as wire:
        await wire.head()
        await wire.chunk()
    await left(watched)


# --- without a server ----------------------------------------------------------------------------------------------


async def forever() -> Any:
    await asyncio.Event().wait()


def recorder(written: list[Any]) -> Any:
    async def send(message: Any) -> None:
        written.append(message)

    return send


async def silent() -> AsyncGenerator[bytes, None]:
    await asyncio.Event().wait()
    yield b""


async def test_a_cancellation_from_outside_is_not_swallowed() -> None:
    watched = Watched(silent)
    response = asyncio.create_task(FrameStream(watched())({}, forever, recorder([])))
    await watched.entered.wait()
    response.cancel()
    with pytest.raises(asyncio.CancelledError):
        await response
    assert watched.left.is_set()


async def test_a_cancellation_from_outside_that_meets_a_client_that_leaves_is_not_swallowed() -> None:
    watched, leaves = Watched(silent), asyncio.Event()

    async def receive() -> Any:
        await leaves.wait()
        return {"type": "http.disconnect"}

    response = asyncio.create_task(FrameStream(watched())({}, receive, recorder([])))
    await watched.entered.wait()
    leaves.set()
    response.cancel()
    with pytest.raises(asyncio.CancelledError):
        await response
    assert watched.left.is_set()


async def test_the_task_of_a_client_that_left_is_not_cancelled() -> None:
    watched = Watched(silent)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async with asyncio.timeout(WAIT_S):
        await FrameStream(watched())({}, receive, recorder([]))
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
    assert watched.left.is_set()


async def test_a_server_that_says_by_an_error_that_the_client_has_left_is_understood() -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("gone")

    watched = Watched(one_huge_then_silence)
    async with asyncio.timeout(WAIT_S):
        await FrameStream(watched())({}, forever, send)
    assert watched.left.is_set()
