"""What a watcher costs that has nothing to read."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from ..loadgen import posted
from ..options import MEMORY, Options, Row
from ..processes import Child, sqlite

_CONFIG = 'agents: {silent: {python: "bench.sources:silent"}}'
_AT_ONCE = 50


async def measure(options: Options) -> dict[str, Any]:
    """KiB of the server's memory a watcher of one silent run, beside as many bare streams."""
    watchers = options.pick(1000, 50)
    figures: dict[str, Any] = {"watchers": watchers}
    with sqlite() as file:
        kinds = (("watcher_kb", _CONFIG, MEMORY), ("sqlite_kb", _CONFIG, file), ("bare_kb", "bare", ""))
        for name, config, storage in kinds:
            async with options.server(config, storage) as server:
                figures[name] = await _held(server, watchers)
    return figures


async def _held(server: Child, watchers: int) -> float:
    where = urlsplit(f"{server.url}/agents/silent/agui")
    # The same run every time: all but the first attach to it.
    message = {"id": "m", "role": "user", "content": "Say nothing."}
    request = posted(where, {"threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": [message]})
    writers: list[asyncio.StreamWriter] = []
    few = watchers // 10

    async def watch() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writers.append(writer)
        writer.write(request)
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"a watcher got {status!r}")
        await reader.readuntil(b"RUN_STARTED")

    async def open_up(count: int) -> None:
        for first in range(0, count, _AT_ONCE):
            await asyncio.gather(*(watch() for _ in range(min(_AT_ONCE, count - first))))

    try:
        async with asyncio.timeout(60):
            await open_up(few)  # what the first ones load is not theirs
            before = server.rss_kb()
            await open_up(watchers)
            return (server.rss_kb() - before) / watchers
    finally:
        for writer in writers:
            writer.transport.abort()


ROWS = (
    Row("1,000 idle watchers of one run, memory of each", "watcher_kb", "bare_kb", "KB", ratio=2),
    Row("SQLite log, the same 1,000, memory of each", "sqlite_kb", "bare_kb", "KB", ratio=2),
)
