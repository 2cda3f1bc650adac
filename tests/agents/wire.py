"""Bytes that a well-behaved server library would not send."""

import asyncio
import json
import socket
import struct
from typing import Any

from starlette.requests import Request


def frame(value: Any, end: str = "\n", indent: int | None = None) -> bytes:
    """One SSE event; with `indent` the JSON is spread over several ``data:`` lines."""
    lines = json.dumps(value, ensure_ascii=False, indent=indent).split("\n")
    return ("".join(f"data: {line}{end}" for line in lines) + end).encode()


def torn(data: bytes) -> list[bytes]:
    """`data` cut inside its first character that takes more than one byte; whole when there is none."""
    at = next((n for n, byte in enumerate(data) if byte >= 0xC0), None)
    return [data] if at is None else [data[: at + 1], data[at + 1 :]]


async def pause(seconds: float) -> None:
    """Wait as part of what the server does: pacing, or the gap that keeps two writes apart."""
    await asyncio.sleep(seconds)  # noqa: TID251 - pacing is this server's behaviour


async def reset(request: Request) -> None:
    """Answer this request with a TCP reset instead of an end of the stream."""
    # ASGI has no word for this; the server's `receive` is the one thing that leads to its socket.
    transport = request.receive.__self__.transport  # type: ignore[attr-defined]
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await pause(0.02)  # lets the reader take what was written: a reset may overtake it
    transport.abort()
