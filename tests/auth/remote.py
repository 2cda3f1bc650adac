"""A remote A2A agent in the test's own process, which remembers the headers of what it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from serving import WAIT_S, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

WELL_KNOWN = "/.well-known/agent-card.json"


class Remote:
    """The agent. Its card names ``place``, or itself; ``elsewhere`` is where it redirects to, by path.

    It answers no message before ``together`` of them have come. One that ``hangs`` names its task and says no more.
    """

    def __init__(
        self, place: str = "", *, elsewhere: dict[str, str] | None = None, together: int = 1, hangs: bool = False
    ) -> None:
        self.card: dict[str, str] = {}
        self.sent: dict[str, str] = {}
        self.all: list[tuple[str, dict[str, str]]] = []
        self.place, self._elsewhere, self._hangs = place, elsewhere or {}, hangs
        self._together = asyncio.Barrier(together)
        self.reached, self.cancelled = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Its address."""
        routes = [Route(WELL_KNOWN, self._give_card), Route("/", self._answer, methods=["POST"])]
        async with served(Starlette(routes=routes)) as url:
            self.url = url
            try:
                yield url
            finally:
                self.cancelled.set()

    async def _give_card(self, request: Request) -> Response:
        self.card = dict(request.headers)
        if WELL_KNOWN in self._elsewhere:
            return RedirectResponse(self._elsewhere[WELL_KNOWN])
        place = {"url": self.place or self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        more = {"capabilities": {"streaming": self._hangs}}
        return JSONResponse({"name": "r", "supportedInterfaces": [place]} | more)

    async def _answer(self, request: Request) -> Response:
        asked = await request.json()
        self.reached.set()
        self.sent = dict(request.headers)
        self.all.append((asked["method"], self.sent))
        if "/" in self._elsewhere:
            return RedirectResponse(self._elsewhere["/"])
        if asked["method"] == "CancelTask":
            self.cancelled.set()
            return JSONResponse(_result(asked, _task("CANCELED")))
        if self._hangs:
            return StreamingResponse(self._hanging(asked), media_type="text/event-stream")
        async with asyncio.timeout(WAIT_S):
            await self._together.wait()
        text = f"done for {request.headers.get('x-tenant', 'nobody')}"
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        return JSONResponse(_result(asked, {"message": message}))

    async def _hanging(self, asked: Any) -> AsyncIterator[str]:
        yield f"data: {json.dumps(_result(asked, {'task': _task('WORKING')}))}\n\n"
        await self.cancelled.wait()


def _result(asked: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


def _task(state: str) -> dict[str, Any]:
    return {"id": "T", "contextId": "C", "status": {"state": f"TASK_STATE_{state}"}}
