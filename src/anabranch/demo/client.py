"""The demo's client: posts a question over AG-UI and stamps every event when it is read."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import msgspec

from ..transports.sse import Parser


async def ask(http: aiohttp.ClientSession, url: str, question: str) -> AsyncGenerator[tuple[int, dict[str, Any]], None]:
    """The events of one run, each with the nanosecond it was read. Raises ``RuntimeError`` on an HTTP error."""
    body = {
        "threadId": uuid.uuid4().hex,
        "runId": uuid.uuid4().hex,
        "protocolVersion": "1.0",
        "messages": [{"id": uuid.uuid4().hex, "role": "user", "content": question}],
    }
    parser = Parser()
    decode = msgspec.json.Decoder().decode
    async with http.post(f"{url}/agui", json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"{url}/agui answered {response.status}: {await response.text()}")
        async for chunk in response.content.iter_any():
            at_ns = time.monotonic_ns()
            for event in parser.feed(chunk):
                yield at_ns, decode(event.data)
