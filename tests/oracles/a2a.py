"""The official JavaScript clients of A2A, each a process that is told what to do.

    async with a2a.client("1.3", "JSONRPC", url) as client:
        task = await client.call("send", {"message": {...}})
        async for event in client.stream("stream", {"message": {...}}):
            ...

The client called ``1.3`` speaks 1.0, ``1.3 as 0.3`` is the same one with an agent that only speaks 0.3. What they say
has the types of the client: those of 1.0 but for ``0.3.14``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

CLIENTS = ("1.3", "1.3 as 0.3", "0.3.14")
BINDINGS = ("JSONRPC", "HTTP+JSON")

_HERE = Path(__file__).parent
_LINE_LIMIT = 2**24
_END_S = 10


class Refused(Exception):
    """What the client raised: its name and text."""


class Client:
    """One client. Several calls may be under way at once."""

    def __init__(self, name: str, binding: str, process: asyncio.subprocess.Process) -> None:
        self.name, self.binding = name, binding
        self._process = process
        self._ids = itertools.count(1)
        self._calls: dict[int, asyncio.Queue[dict[str, Any]]] = {}

    async def call(self, method: str, params: Any = None) -> Any:
        """What ``method`` gives. Raises ``Refused``."""
        said = await self._ask(method, params).get()
        if "error" in said:
            raise Refused(said["error"])
        return said["done"]

    async def stream(self, method: str, params: Any) -> AsyncIterator[dict[str, Any]]:
        """The events that ``method`` gives. Raises ``Refused``."""
        told = self._ask(method, params)
        while "event" in (said := await told.get()):
            yield said["event"]
        if "error" in said:
            raise Refused(said["error"])

    async def listen(self) -> None:
        """Take what the process says, to its end."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            self._calls[said.pop("id")].put_nowait(said)
        for told in self._calls.values():
            told.put_nowait({"error": "the process has ended"})

    def _ask(self, method: str, params: Any) -> asyncio.Queue[dict[str, Any]]:
        id = next(self._ids)
        told = self._calls[id] = asyncio.Queue()
        self.tell({"id": id, "method": method, "params": params})
        return told

    def tell(self, said: dict[str, Any]) -> None:
        """Write a line to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said).encode() + b"\n")


@asynccontextmanager
async def client(name: str, binding: str, url: str) -> AsyncIterator[Client]:
    """The client ``name`` (of ``CLIENTS``), which reads the card under ``url`` first."""
    process = await asyncio.create_subprocess_exec(
        *("node", "a2a.mjs"),
        cwd=_HERE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_LIMIT,
    )
    made = Client(name, binding, process)
    listening = asyncio.create_task(made.listen())
    try:
        made.tell({"client": name, "binding": binding, "url": url})
        yield made
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await listening
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        listening.cancel()
