"""An agent behind A2A 1.0 (JSON-RPC over server-sent events) as a source."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from contextvars import Context
from typing import Any
from uuid import uuid4

from ...errors import ConfigError, SourceError, scrub
from ...request import RunRequest
from ...transports.sse import Parser
from . import _wire as wire
from ._card import WELL_KNOWN, Endpoint, card_urls, origin, read_card
from ._http import Answer, Client
from .translate import A2ATranslator

_CANCEL_S = 2.0

_log = logging.getLogger(__name__)


class A2ASource:
    """The agent at ``url``: its root, its JSON-RPC endpoint, or its card (``....json``).

    ``name`` is what errors call it (default: the name on its card), ``headers`` go with each request. Times are in
    seconds, and there is no limit to the whole: ``connect_s`` to get a connection, ``first_byte_s`` until the first
    byte of the answer, ``idle_s`` between bytes afterwards (a keep-alive comment counts). An agent that does not stream
    sends nothing while it works, so only ``idle_s`` bounds it. ``pool`` limits the connections at once; 0 is no limit.
    Items are the raw JSON-RPC responses, as bytes.

    *At most once.* Only a connection that could not be made (no such host, refused) is tried again: at most twice,
    after 0.1 and 0.4 s. A request that may have been read is never sent again, whatever comes of it: a connection that
    is closed without an answer, a timeout, an HTTP status, an error of the agent, an empty answer. Each request has a
    connection of its own, so that none is lost to one that the agent has just given up.

    *Credentials stay.* ``headers``, and a user name in ``url``, go to the scheme, host and port of ``url`` only: with
    them, a card that names another address is refused. Without them it is followed, but not from https to http.

    *Cancel is real.* Closing the stream, or cancelling the task that reads it, closes the connection at once and, when
    the remote task is known and not over, sends ``CancelTask``: it gets 2 s, and a second cancellation does not stop
    it. When the stream breaks or falls silent, ``CancelTask`` is sent in the background.

    Errors are ``SourceError`` with one of the codes ``agent_unreachable``, ``agent_auth``, ``agent_protocol``,
    ``agent_failed``, ``agent_disconnected``, ``agent_timeout_first_byte``, ``agent_timeout_idle``, and ``protocol`` for
    an event of more than 16 MiB; ``MissingExtra`` without aiohttp. Use one object in one event loop, and ``aclose`` it.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        headers: Mapping[str, str] | None = None,
        connect_s: float = 5.0,
        first_byte_s: float = 30.0,
        idle_s: float = 60.0,
        pool: int = 0,
    ) -> None:
        try:
            origin(url)
        except ValueError:
            flaw = f"must be an http:// or https:// URL, not {scrub(url)!r}"
            raise ConfigError(f"The address of an A2A agent {flaw}.") from None
        self._url, self._name = url, name
        self._http = Client(headers or {}, connect_s=connect_s, first_byte_s=first_byte_s, idle_s=idle_s, pool=pool)
        self._http.who = _called(name)
        self._endpoint: Endpoint | None = None
        self._asking: asyncio.Task[Endpoint] | None = None
        self._farewells: set[asyncio.Task[None]] = set()

    def translator(self, request: RunRequest) -> A2ATranslator:
        """A fresh translator for the items of ``open(request)``."""
        return A2ATranslator(self._name or (self._endpoint.name if self._endpoint else ""))

    async def open(
        self, request: RunRequest, *, context_id: str = "", task_id: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Send the newest user text, in a remote context or task that exists if they are named; give the items."""
        endpoint = await self.endpoint()
        answer = await self._send(endpoint, request.last_user_text(), context_id, task_id)
        watch = wire.Watch()
        try:
            if answer.status == 200 and answer.kind == "text/event-stream":
                parser = Parser()
                while not watch.over and (chunk := await answer.read()):
                    for event in parser.feed(chunk):
                        watch.see(event.data)
                        yield event.data
                if not watch.over and parser.close():
                    raise SourceError(f"{self._http.who} stopped inside an event.", code="agent_disconnected")
            else:
                yield await self._single(answer)
        except BaseException as error:
            if not watch.over:
                answer.close()
                if watch.task_id:
                    await self._leave(endpoint, watch.task_id, wait=not isinstance(error, Exception))
            raise
        finally:
            if watch.over:  # whoever reads the items stops at the last one, and the stream ends right after it
                await answer.drain()
            answer.close()

    async def endpoint(self) -> Endpoint:
        """Where the agent takes messages, from its card, which is fetched once and again after a failure.

        Whoever asks while it is fetched shares the result or the error, and can give up without ending it for others.
        """
        if self._endpoint is not None:
            return self._endpoint
        asking = self._asking
        if asking is None or asking.done():
            # A context of its own: it works for all who wait, and not for the run that came first.
            asking = self._asking = asyncio.create_task(self._look_up(), context=Context())
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait any more
        await asyncio.wait((asking,))
        if asking.cancelled():
            raise SourceError(f"{self._http.who} is not asked: its source was closed.", code="agent_disconnected")
        return asking.result()

    async def aclose(self) -> None:
        """Stop looking for the card, let cancellations that are under way finish, then close all connections."""
        pending: set[asyncio.Task[Any]] = set(self._farewells)
        if self._asking is not None:
            self._asking.cancel()
            pending.add(self._asking)
        if pending:
            await asyncio.wait(pending)
        await self._http.aclose()

    # --- asking ------------------------------------------------------------------------------------------------

    async def _look_up(self) -> Endpoint:
        endpoint = self._endpoint = await self._read_card()
        self._http.who = _called(self._name or endpoint.name)
        return endpoint

    async def _read_card(self) -> Endpoint:
        flaw: SourceError | None = None
        for url in card_urls(self._url):
            answer = await self._http.get(url)
            try:
                if answer.status == 200:
                    return read_card(await answer.body(), self._url, self._http.who, bound=self._http.bound)
                if answer.status not in (404, 405, 410):
                    raise answer.refusal()
            except SourceError as error:
                if error.code != "agent_protocol":
                    raise
                flaw = flaw or error  # a page for whatever is asked for: the card may be elsewhere
            finally:
                answer.close()
        places = " nor ".join(WELL_KNOWN)
        raise flaw or SourceError(f"{self._http.who} has no agent card: neither {places}.", code="agent_protocol")

    async def _send(self, endpoint: Endpoint, text: str, context_id: str, task_id: str) -> Answer:
        method = "SendStreamingMessage" if endpoint.streaming else "SendMessage"
        message = wire.user_message(text, uuid4().hex, context_id=context_id, task_id=task_id)
        try:
            return await self._post(endpoint, method, {"message": message}, stream=endpoint.streaming)
        except SourceError:
            self._endpoint = None
            raise

    async def _post(self, endpoint: Endpoint, method: str, params: dict[str, Any], *, stream: bool) -> Answer:
        tenant = {"tenant": endpoint.tenant} if endpoint.tenant else {}
        headers = {"A2A-Version": wire.VERSION, "Accept": "text/event-stream, application/json"}
        return await self._http.post(endpoint.url, wire.request(method, params | tenant), headers, stream=stream)

    async def _single(self, answer: Answer) -> bytes:
        """The one item of an answer that is no stream."""
        if answer.kind.endswith("json") and answer.status not in (401, 403):
            body = await answer.body()
            with contextlib.suppress(SourceError):
                response = wire.decode(body)
                if response.result is not None or response.error is not None:
                    return body
        self._endpoint = None
        raise answer.refusal()

    # --- leaving -----------------------------------------------------------------------------------------------

    async def _leave(self, endpoint: Endpoint, task_id: str, *, wait: bool) -> None:
        farewell = asyncio.create_task(self._cancel(endpoint, task_id))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)
        if wait:
            await asyncio.shield(farewell)

    async def _cancel(self, endpoint: Endpoint, task_id: str) -> None:
        try:
            async with asyncio.timeout(_CANCEL_S):
                answer = await self._post(endpoint, "CancelTask", {"id": task_id}, stream=True)
                try:
                    await answer.body()
                finally:
                    answer.close()
        except (SourceError, TimeoutError) as error:
            _log.info("%s was not told to cancel task %s: %s", self._http.who, task_id, error)


def _called(name: str) -> str:
    return f"The agent {name}" if name else "The agent"
