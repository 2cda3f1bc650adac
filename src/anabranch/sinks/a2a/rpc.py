"""A2A over JSON-RPC: ``POST`` with the method's name in the body. 1.0 and 0.3 share the address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ...errors import AnabranchError, ClientError
from ...transports.http import json_body
from ...transports.stream import FrameStream
from .._gate import Gate
from . import legacy, parse, refusals
from .encode import Envelope
from .methods import Caller, Frames, Methods, Payload
from .parse import Call
from .payload import to_json
from .profile import EXTENSION, Name, Profile

Endpoint = Callable[[Request], Awaitable[Response | FrameStream]]

_T = TypeVar("_T")


def endpoint(gate: Gate, methods: Methods, *, keep_alive_s: float, body_limit: int, profile: Name) -> Endpoint:
    """Answers the requests of one address. The agent is the one in its path, or the default one.

    ``profile`` is for clients that name none.
    """

    async def answer(request: Request) -> Response | FrameStream:
        principal = await gate.identify(request)
        agent = gate.present(request.path_params.get("name")).name
        envelope, refused = Envelope.rpc(None), _refused
        try:
            said = parse.decode(await json_body(request, body_limit))
            envelope = Envelope.rpc(parse.request_id(said))
            if isinstance(said, dict) and said.get("method") in legacy.STREAMS:
                refused = _refused_in_a_stream
            call = parse.rpc_call(said, headers_of(request), request.query_params, profile)
            caller = Caller(principal, agent, last_event_id(request))
            if streaming := methods.streaming.get(call.method):
                frames = await streaming(caller, call)
                return Stream(frames, call.profile, partial(refused, envelope), keep_alive_s=keep_alive_s)
            told = await unless_left(request, methods.single[call.method](caller, call))
            return _json(envelope.around(to_json(_told(call, told))), headers=activated(call.profile))
        except AnabranchError as error:
            return refused(envelope, error)

    return answer


def _told(call: Call, told: Payload) -> Payload:
    if call.profile.version == "0.3":
        return legacy.task(told)
    return {"task": told} if call.method == "SendMessage" else told


def _refused(envelope: Envelope, error: AnabranchError) -> Response:
    body, status = refusals.rpc(error)
    return _json(envelope.around(to_json(body), "error"), status)


def _refused_in_a_stream(envelope: Envelope, error: AnabranchError) -> Response:
    """For clients of 0.3, which read an answer to a streaming method as a stream or not at all."""
    body, status = refusals.rpc(error)
    if status != 200:
        return _refused(envelope, error)
    frame = b"data: %b\n\n" % envelope.around(to_json(body), "error")
    return Response(frame, media_type="text/event-stream")


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


# --- what both bindings need -----------------------------------------------------------------------------------------


def last_event_id(request: Request) -> str:
    """What a client says it has that comes back: its header is UTF-8, whatever the rules for headers are."""
    return request.headers.get("last-event-id", "").encode("latin-1").decode(errors="replace")


def headers_of(request: Request) -> dict[str, str]:
    """The headers, with all lines of a name as one (RFC 9110, section 5.3): a list may come in several."""
    return {name: ",".join(dict.fromkeys(request.headers.getlist(name))) for name in request.headers}


def activated(profile: Profile) -> dict[str, str]:
    """The header that says which extensions are in use."""
    name = "a2a-extensions" if profile.version == "1.0" else "x-a2a-extensions"
    return {name: EXTENSION} if profile.attributed else {}


class Stream(FrameStream):
    """A response that streams ``frames``; what these raise when they are entered is answered as ``refused`` says."""

    def __init__(
        self, frames: Frames, profile: Profile, refused: Callable[[AnabranchError], Response], *, keep_alive_s: float
    ) -> None:
        super().__init__(frames, keep_alive_s=keep_alive_s)
        self._refused = refused
        self._more = [(name.encode(), value.encode()) for name, value in activated(profile).items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""

        async def heading(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._more]}
            await send(message)

        async with AsyncExitStack() as stack:
            try:
                frames = await stack.enter_async_context(self._frames)
            except AnabranchError as error:
                await self._refused(error)(scope, receive, send)
                return
            self._frames = nullcontext(frames)
            await super().__call__(scope, receive, heading if self._more else send)


async def unless_left(request: Request, answering: Coroutine[Any, Any, _T]) -> _T:
    """The result of ``answering``, which is no longer waited for when the client has left."""
    answer, left = asyncio.create_task(answering), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientError("the client left before it was answered", code="disconnected")
        return answer.result()
    finally:
        answer.cancel()
        left.cancel()
        await asyncio.wait((answer, left))


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
