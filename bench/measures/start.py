"""What it takes to be there: importing the package in somebody's tool, and a server that answers."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

from ..options import Options, Row
from ..processes import SERVER_CPU, Child, spawned, sqlite, written

_CONFIG = 'agents: {tokens: {python: "bench.sources:tokens"}}'
_IMPORT = """
import time
began = time.perf_counter()
import anabranch
print(time.perf_counter() - began, flush=True)
input()
"""
_NOTHING = "print(0, flush=True); input()"


async def measure(options: Options) -> dict[str, Any]:
    """Seconds and memory of ``import anabranch``, and seconds until a fresh ``anabranch serve`` is ready."""
    took_s, rss_kb = await _imported(_IMPORT)
    _, idle_kb = await _imported(_NOTHING)
    with sqlite() as storage, written(f"storage: {storage}\n{_CONFIG}") as path:
        ours_s, ours_kb = await _ready("-m", "anabranch", "serve", path)
    bare_s, bare_kb = await _ready("-m", "bench.server", "bare")
    return {
        "import_s": took_s,
        "import_mb": (rss_kb - idle_kb) / 1024,
        "ready_s": ours_s,
        "ready_mb": ours_kb / 1024,
        "bare": {"ready_s": bare_s, "ready_mb": bare_kb / 1024},
    }


async def _imported(program: str) -> tuple[float, float]:
    async with spawned("-c", program, cpu=SERVER_CPU) as child, asyncio.timeout(60):
        assert child.stdout is not None
        said = float(await child.stdout.readline())
        return said, Child(child.pid).rss_kb()


async def _ready(*command: str) -> tuple[float, float]:
    """Seconds from the start of the process to a 200 of ``/ready``, and its memory then."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    began = time.perf_counter()
    async with spawned(*command, "--port", str(port), cpu=SERVER_CPU, quiet=True) as child, asyncio.timeout(60):
        while not await _is_ready(port):  # noqa: ASYNC110 - it is another process that becomes ready
            await asyncio.sleep(0.005)
        return time.perf_counter() - began, Child(child.pid).rss_kb()


async def _is_ready(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /ready HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
    status = await reader.readline()
    writer.close()
    return b" 200 " in status


ROWS = (
    Row("import anabranch", "import_s", unit="s", limit=0.3),
    Row("import anabranch, memory", "import_mb", unit="MB"),
    Row("server ready, one python agent", "ready_s", "bare.ready_s", "s", limit=1),
    Row("server ready, memory", "ready_mb", "bare.ready_mb", "MB"),
)
