"""The barest servers that do the same: Starlette generators that write AG-UI bytes as they should be.

One makes the tokens itself, one reads them from an A2A agent (``?agent=URL``), one says nothing for ever.
"""

from __future__ import annotations

import asyncio
import functools
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from anabranch.transports.sse import Parser

from . import workload

_START = (
    b'data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}\n\n'
    b'data: {"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}\n\n'
)
_END = (
    b'data: {"type":"TEXT_MESSAGE_END","messageId":"m"}\n\ndata: {"type":"RUN_FINISHED","threadId":"t","runId":"r"}\n\n'
)


async def _prompt(request: Request) -> str:
    return str(json.loads(await request.body())["messages"][-1]["content"])


def _frame(text: str) -> bytes:
    return f'data: {{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"{text}"}}\n\n'.encode()


async def _tokens(request: Request) -> Response:
    command = workload.parse(await _prompt(request))

    async def frames() -> AsyncIterator[bytes]:
        yield _START
        async for text in workload.tokens(command):
            yield _frame(text)
        yield _END

    return StreamingResponse(frames(), media_type="text/event-stream")


async def _relay(request: Request) -> Response:
    prompt, agent = await _prompt(request), request.query_params["agent"]
    http = _http()

    async def frames() -> AsyncIterator[bytes]:
        yield _START
        parser = Parser()
        async with http.post(f"{agent}/", json=asked(prompt), headers={"A2A-Version": "1.0"}) as response:
            async for chunk in response.content.iter_any():
                for event in parser.feed(chunk):
                    if text := said(event.data):
                        yield _frame(text)
        yield _END

    return StreamingResponse(frames(), media_type="text/event-stream")


@functools.cache
def _http() -> Any:
    import aiohttp  # here, because the others need none of it

    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


class _Part(msgspec.Struct, gc=False):
    text: str = ""


class _Artifact(msgspec.Struct, gc=False):
    parts: list[_Part]


class Update(msgspec.Struct, gc=False):
    """An update of an artifact, as far as it is read here."""

    artifact: _Artifact

    @property
    def text(self) -> str:
        """What it adds."""
        return "".join(part.text for part in self.artifact.parts)


class _Result(msgspec.Struct, gc=False, rename="camel"):
    artifact_update: Update | None = None


class _Response(msgspec.Struct, gc=False):
    result: _Result


_decode = msgspec.json.Decoder(_Response).decode


def asked(prompt: str, message_id: str = "") -> dict[str, Any]:
    """The A2A request that asks an agent for ``prompt``."""
    message = {"messageId": message_id or uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": prompt}]}
    return {"jsonrpc": "2.0", "id": "1", "method": "SendStreamingMessage", "params": {"message": message}}


def said(data: bytes) -> str:
    """The artifact text in an A2A response, if it has any."""
    update = _decode(data).result.artifact_update
    return update.text if update else ""


async def _silent(request: Request) -> Response:
    await request.body()

    async def frames() -> AsyncIterator[bytes]:
        yield _START
        await asyncio.Event().wait()

    return StreamingResponse(frames(), media_type="text/event-stream")


async def _ready(request: Request) -> Response:
    return JSONResponse({"status": "ready"})


app = Starlette(
    routes=[
        Route("/ready", _ready),
        Route("/agui", _tokens, methods=["POST"]),
        Route("/relay", _relay, methods=["POST"]),
        Route("/agents/silent/agui", _silent, methods=["POST"]),
    ]
)
