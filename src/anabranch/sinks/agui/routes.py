"""AG-UI over HTTP: ``POST /agui`` and ``POST /agents/{name}/agui``."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from starlette.requests import Request
from starlette.routing import Route

from ...errors import AnabranchError
from ...log._base import Entry
from ...transports.http import BODY_LIMIT, json_body
from ...transports.stream import KEEP_ALIVE_S, FrameStream
from .._gate import Batches, Gate
from .encode import AguiEncoder
from .parse import parse

logger = logging.getLogger("anabranch")


def routes(gate: Gate, *, keep_alive_s: float = KEEP_ALIVE_S, body_limit: int = BODY_LIMIT) -> list[Route]:
    """The sink's routes. A request is answered by a stream that ends with exactly one terminal event, or by a 4xx."""

    async def run(request: Request) -> FrameStream:
        principal = await gate.identify(request)
        asked, profile = parse(await json_body(request, body_limit), request.headers, request.query_params)
        batches = await gate.start(principal, request.path_params.get("name"), asked)
        return FrameStream(_watched(batches, AguiEncoder(profile)), keep_alive_s=keep_alive_s)

    return [Route(path, run, methods=["POST"]) for path in ("/agui", "/agents/{name}/agui")]


@asynccontextmanager
async def _watched(batches: Batches, encoder: AguiEncoder) -> AsyncGenerator[AsyncIterator[bytes], None]:
    async with batches as entries, aclosing(_frames(entries, encoder)) as frames:
        yield frames


async def _frames(entries: AsyncIterator[Sequence[Entry]], encoder: AguiEncoder) -> AsyncGenerator[bytes, None]:
    error: Exception | None = None
    try:
        async for batch in entries:
            if frames := b"".join([frame for entry in batch for frame in encoder.feed(entry)]):
                yield frames
            if encoder.ended:
                return
    except Exception as failure:
        error = failure
        if not isinstance(failure, AnabranchError):
            logger.exception("a run could not be read from its log")
    yield b"".join(encoder.close(error))
