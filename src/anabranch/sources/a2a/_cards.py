"""Where an agent is: its card, found, read, and looked at again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from ...errors import SourceError
from . import _wire as wire
from ._about import About, read_about
from ._asked import Asked
from ._card import Endpoint, card_urls, missing, origin, read_card
from ._mail import Mail

_CARD_S = 10.0  # for the whole card
_CARD_LIMIT = 2**20
_ETAG_LIMIT = 256
_ANSWERS_S = 5.0


class _Seen(NamedTuple):
    """A card: where it was, and what it said."""

    url: str
    etag: str
    body: bytes
    endpoint: Endpoint
    about: About


class Cards:
    """The card of the agent at ``url``, as ``A2ASource`` says; ``called`` makes of its name what errors call it."""

    def __init__(
        self, url: str, mail: Mail, called: Callable[[str], str], *, bound: bool, override: bool, typed: bool
    ) -> None:
        self._url, self._mail, self._called = url, mail, called
        self._bound, self._override, self._typed = bound, override, typed
        self._seen: _Seen | None = None
        self._asking: asyncio.Task[Endpoint] | None = None

    @property
    def name(self) -> str:
        """What the agent calls itself, as far as it is known."""
        return self._seen.endpoint.name if self._seen is not None else ""

    @property
    def is_elsewhere(self) -> bool:
        """See ``A2ASource``."""
        return self._seen is not None and origin(self._seen.endpoint.url) != origin(self._url)

    async def endpoint(self) -> Endpoint:
        """See ``A2ASource``."""
        if self._seen is not None and not self._mail.refused:
            return self._seen.endpoint
        return await self.look()

    async def look(self, *, patient: bool = True) -> Endpoint:
        """Read the card, or wait for who reads it. ``patient``: an agent that cannot be reached is tried again."""
        asking = self._asking
        if asking is None or asking.done():
            # A context of its own: it works for all who wait, and not for the run that came first.
            asking = self._asking = asyncio.create_task(self._look_up(patient), context=Context())
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait any more
        await asyncio.wait((asking,))
        if asking.cancelled():
            raise SourceError(f"{self._mail.http.who} is not asked: its source was closed.", code="agent_disconnected")
        return asking.result()

    async def aclose(self) -> None:
        """Look no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))

    async def _look_up(self, patient: bool) -> Endpoint:
        try:
            async with asyncio.timeout(_CARD_S):
                self._seen = await self._read_card(patient)
        except TimeoutError:
            text = f"{self._mail.http.who} did not show its card in time."
            raise SourceError(text, code="agent_timeout_first_byte", retryable=True) from None
        endpoint = self._seen.endpoint
        self._mail.about, self._mail.refused = self._seen.about, False
        self._mail.http.who = self._called(endpoint.name)
        return endpoint

    async def _read_card(self, patient: bool) -> _Seen:
        flaw: SourceError | None = None
        seen = self._seen
        reasons: list[str] = []  # that the server gave for having no card of this agent
        places = dict(card_urls(self._url))
        for url in dict.fromkeys([*([seen.url] if seen else ()), *places]):
            own = places[url]
            known = {"If-None-Match": seen.etag} if seen and seen.etag and seen.url == url else {}
            answer = await self._mail.card(url, known, patient)
            try:
                if answer.status == 304 and known and seen:
                    return seen
                if answer.status == 200:
                    return await self._read(url, answer.etag, await answer.body(_CARD_LIMIT), own)
                reason = await answer.reason()
                if answer.status not in (404, 405, 410):
                    raise answer.refusal(reason)
                reasons += [reason] if reason else []
            except SourceError as error:
                if error.code != "agent_protocol":
                    raise
                if own or not reasons:
                    flaw = flaw or error  # a page for whatever is asked for: the card may be elsewhere
            finally:
                answer.close()
        raise flaw or missing(self._mail.http.who, self._url, *reasons[:1])

    async def _endpoint_on(self, card: bytes, own: bool) -> Endpoint:
        """The endpoint on a card. See ``typed``."""
        read = partial(read_card, card, self._url, self._mail.http.who, own=own)
        if self._typed:
            here, there = read(bound=False, here=True), None
            with contextlib.suppress(SourceError):
                there = read(bound=False)
            if here == there or await self._answers(here):
                return here
        return read(bound=self._bound, here=self._override)

    async def _answers(self, endpoint: Endpoint) -> bool:
        """Whether there is an agent at ``endpoint``: it is asked for a task that does not exist."""
        method, params = wire.METHODS[endpoint.version].get, {"id": uuid4().hex}
        try:
            async with asyncio.timeout(_ANSWERS_S):
                answer = await self._mail.post(Asked(endpoint, {}), method, params)
                try:
                    if answer.status not in (401, 403):  # which an agent explains when it is asked something
                        await self._mail.single(answer)
                finally:
                    answer.close()
        except (SourceError, TimeoutError):
            return False
        return True

    async def _read(self, url: str, etag: str, body: bytes, own: bool) -> _Seen:
        etag = etag if etag.isascii() and etag.isprintable() and len(etag) <= _ETAG_LIMIT else ""
        if self._seen is not None and (self._seen.url, self._seen.body) == (url, body):
            return self._seen._replace(etag=etag)
        endpoint = await self._endpoint_on(body, own)
        return _Seen(url, etag, body, endpoint, read_about(body))
