"""The demo's client: the one of ``anabranch chat``, with the time at which every event was read."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ..cli.chat.address import target
from ..cli.chat.client import Client, run_input


async def ask(url: str, question: str) -> AsyncGenerator[tuple[int, dict[str, Any]], None]:
    """The events of one run, each with the nanosecond it was read. Raises ``ChatError``."""
    message = {"id": uuid.uuid4().hex, "role": "user", "content": question}
    async with Client(target(url)) as client, aclosing(client.run(run_input(uuid.uuid4().hex, [message]))) as batches:
        async for at_ns, frames in batches:
            for frame in frames:
                yield at_ns, frame.event
