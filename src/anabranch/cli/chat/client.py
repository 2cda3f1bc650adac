"""AG-UI over HTTP, from the client's side: start a run, follow it over lost connections, stop it.

A connection that breaks is no reason to lose a run. The run is followed again after the last frame that was read whole,
so no text is lost or repeated. When nothing was read yet, the same run is asked for; only a server that says in our own
words that it does not know the run is sent the same request again. A run is never asked of a server twice that could
not recognise it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from ...errors import MissingExtra, scrub
from .address import PROTOCOL_VERSION, Target
from .trail import TERMINAL, Batch, ChatError, Ended, Lost, NotAgui, Trail, pauses

if TYPE_CHECKING:
    import aiohttp

PATIENCE_S, PAUSE_S = 30.0, 0.1

_CONNECT_S = 10.0
_HEAD_S = 20.0  # for the head of an answer, when a run that exists is asked for
_BODY_LIMIT, _BODY_S = 10_000, 5.0  # bytes of a refusal that are read, and how long it may take to come
_WORD = 4  # characters; what is not longer may stand in any text
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})


class Client:
    """Asks one server. Enter it for its connections. ``say`` is told what a user should know while they wait.

    A lost connection is tried again for ``patience_s`` without progress: after ``pause_s``, then ever more rarely.
    ``headers`` go with every request and nowhere else: redirects are not followed. Cookies are kept, so that a server
    knows again whom it has given one. Raises ``MissingExtra`` where
    aiohttp is not installed.
    """

    def __init__(
        self,
        target: Target,
        headers: Mapping[str, str] | None = None,
        *,
        say: Callable[[str], None] = lambda said: None,
        patience_s: float = PATIENCE_S,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._target, self._headers, self._say = target, dict(headers or {}), say
        self._patience_s, self._pause_s = patience_s, pause_s
        self._secrets = [word for value in self._headers.values() for word in value.split()[-1:] if len(word) > _WORD]
        self._http = needed_aiohttp()
        self._session: aiohttp.ClientSession | None = None
        self._stopping: set[str] = set()

    async def __aenter__(self) -> Client:
        # A connection that idled between two turns may be closed by the server just when it is used again.
        self._session = self._http.ClientSession(
            connector=self._http.TCPConnector(limit=0, force_close=True),
            cookie_jar=self._http.CookieJar(unsafe=True),  # unsafe: also of a server that has no name
            headers=self._headers | {"Accept-Encoding": "identity"},  # a compressing proxy would hold tokens back
            timeout=self._http.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def run(self, body: Mapping[str, Any]) -> AsyncGenerator[Batch, None]:
        """The frames of the run that ``body`` (a RunAgentInput) asks for, each once, up to its terminal event.

        Raises ``ChatError`` when the run does not start, or its end does not come.
        """
        trail = Trail(body, self._patience_s, self._pause_s)
        while True:
            try:
                async with self._opened(trail) as chunks:
                    async for batch in trail.read(chunks):
                        yield batch
                        if batch[1][-1].event.get("type") in TERMINAL:
                            return
                raise Ended
            except Lost as lost:
                if trail.frames and not trail.cursor:
                    raise lost.final("this server's streams cannot be continued") from lost
                if not trail.broken:
                    self._say("the connection was lost; following the run again")
                await trail.pause(lost)

    def ids(self, body: Mapping[str, Any]) -> dict[str, str]:
        """What the run that ``body`` asks for, and its thread, are called at the server."""
        return {"run_id": body["runId"], "thread_id": body["threadId"]}

    async def cancel(self, run_id: str) -> bool:
        """Have the server stop a run. False when it has no way to do so. Keeps trying while it cannot be reached."""
        self._stopping.add(run_id)
        waits = pauses(self._pause_s)
        while True:
            try:
                async with self._request("POST", self._target.cancel(run_id)) as response:
                    if response.status in (200, 202, 204, 409):
                        return True
                    if response.status not in _BUSY and (await self._refusal(response))[0] != "not_found":
                        return False
            except (self._http.ClientError, OSError):
                pass
            await asyncio.sleep(next(waits))

    # --- one connection ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _opened(self, trail: Trail) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """The bytes of a stream of the run. Raises ``Lost`` and ``ChatError``."""
        attach, trail.unknown = trail.tries > 0 and not trail.unknown, False
        try:
            async with asyncio.timeout(_HEAD_S if attach else None):
                response = await (self._follow(trail) if attach else self._start(trail))
            async with response:
                await self._check(response, trail, attach)
                async with aclosing(trail.pieces(response.content.iter_any())) as chunks:
                    yield chunks
        except (
            self._http.ClientConnectorError,
            self._http.ConnectionTimeoutError,
            self._http.InvalidURL,
            UnicodeError,  # of a host name that none can be
        ) as error:
            if trail.tries == 0:
                where = self._target.endpoint.partition("?")[0]
                raise ChatError(f"{where} cannot be reached: {scrub(_why(error))}") from error
            raise Lost(f"{self._target.base} cannot be reached") from error
        except (self._http.ClientError, OSError) as error:
            if isinstance(error, self._http.ClientResponseError) and trail.tries == 0:
                flaw = f"does not speak HTTP as expected ({scrub(error.message)})"
                raise ChatError(f"{self._target.base} {flaw}") from error
            raise Lost("the connection was lost") from error

    def _start(self, trail: Trail) -> Any:
        return self._request("POST", self._target.endpoint, json=trail.body, headers=_STREAM)

    def _follow(self, trail: Trail) -> Any:
        headers = _STREAM | ({"Last-Event-ID": trail.cursor} if trail.cursor else {})
        return self._request("GET", self._target.attach(trail.run_id), headers=headers)

    def _request(self, method: str, url: str, **options: Any) -> Any:
        assert self._session is not None, "enter the client first"
        return self._session.request(method, url, allow_redirects=False, **options)

    async def _check(self, response: aiohttp.ClientResponse, trail: Trail, attach: bool) -> None:
        """Raise unless ``response`` is a stream."""
        kind = response.content_type
        if response.status == 200 and kind == "text/event-stream":
            return
        if response.status == 204:
            raise Ended().final()
        if response.status in _BUSY and trail.tries > 0:
            raise Lost(f"the server answered {response.status}")
        where = f"{response.method} {response.url.origin()}{response.url.path}"
        if response.status == 200:
            raise NotAgui(f"{where} answered with {kind}, which is no stream of events: is the address right?")
        code, said = await self._refusal(response)
        if attach and response.status == 404 and code == "not_found" and not trail.frames:
            if trail.run_id in self._stopping:
                raise ChatError("the run was never started")
            trail.unknown = True
            raise Lost("the server does not know the run yet")
        if attach and response.status in (404, 405):
            known = "the server no longer has this run" if code == "not_found" else "this server cannot continue a run"
            raise ChatError(f"the connection was lost, and {known}", code="disconnected")
        foreign = response.status in (404, 405, 501) and code != "not_found"
        raise (NotAgui if foreign else ChatError)(
            f"{where} answered {response.status}{said}{_remedy(response)}", code=code
        )

    async def _refusal(self, response: aiohttp.ClientResponse) -> tuple[str | None, str]:
        """The code of a refusal, where it is one of ours, and what it says, without what we said in our headers."""
        body = b""
        with contextlib.suppress(OSError, self._http.ClientError):  # what has come is enough
            async with asyncio.timeout(_BODY_S):
                while len(body) < _BODY_LIMIT and (piece := await response.content.readany()):
                    body += piece
        text = body.decode(errors="replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        try:
            error = json.loads(text)["error"]
            return str(error["code"]), f": {scrub(str(error['message']))}"
        except (ValueError, KeyError, TypeError, RecursionError):
            return None, f": {scrub(text)}" if text.strip() else ""


_STREAM = {"Accept": "text/event-stream"}


def run_input(thread_id: str, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A RunAgentInput with a run id of its own."""
    # Servers on older versions of the protocol require the empty fields.
    empty: dict[str, Any] = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
    ids = {"threadId": thread_id, "runId": uuid.uuid4().hex, "protocolVersion": PROTOCOL_VERSION}
    return ids | {"messages": messages} | empty | more


def _remedy(response: aiohttp.ClientResponse) -> str:
    if response.status in (301, 302, 303, 307, 308):
        return f"; it moved: use {scrub(response.headers.get('location', 'another address'))}"
    if response.status in (401, 403):
        return wanted()
    if response.status in (404, 405):
        return "; give the server's address, or one that ends with /agui, and --agent NAME for one of its agents"
    return ""


def wanted(credentials: Sequence[str] = ()) -> str:
    """What to do about credentials that are not known. They are sent in any of these headers, if a server says so."""
    if credentials:
        return "; send credentials with " + " or ".join(f'--header "{header}"' for header in credentials)
    return '; send credentials with --header "Name: value", as "Authorization: Bearer ..." or "X-API-Key: ..."'


def _why(error: Exception) -> str:
    number = getattr(getattr(error, "os_error", None), "errno", None)
    return os.strerror(number) if number and number > 0 else str(error)  # below 0: of the resolver


def needed_aiohttp() -> Any:
    """The library. Raises ``MissingExtra``."""
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("aiohttp", "chat") from None
    return aiohttp
