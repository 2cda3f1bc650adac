"""The keys that an issuer publishes at a URL (RFC 7517, section 5), fetched when they are needed.

A key that is known is used at once; keys older than ``REFRESH_S`` are fetched again in the background. A key that is
not known is looked for, by one request for all who wait, and no sooner than ``PAUSE_S`` after the last one: an issuer
may have changed its keys, and anybody can make up the name of one. Keys that could not be fetched again are used
until they are ``STALE_S`` old; no token that was made before the issuer went away lives much longer. Without keys,
and for an unknown key of an issuer that cannot be reached, the answer is a 503: nobody knows whether the token is
good.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any
from urllib.parse import urlsplit

from ..errors import MissingExtra, ServerError
from .keys import Keys, from_file

logger = logging.getLogger("anabranch")

REFRESH_S = 300.0
PAUSE_S = 10.0
STALE_S = 3600.0
SET_LIMIT = 256 * 1024
"""Bytes a key set may have."""


class Jwks:
    """The keys at ``url`` that fit ``algorithms``. A request gets ``patience_s``; ``clock`` may begin anywhere.

    Raises ``MissingExtra`` without aiohttp. Use it in one event loop, and ``aclose`` it.
    """

    def __init__(
        self,
        url: str,
        algorithms: Sequence[str],
        *,
        patience_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import aiohttp  # noqa: F401  # now, and not when the first caller comes
        except ImportError:
            raise MissingExtra("aiohttp", "auth") from None
        self._url, self._algorithms = url, algorithms
        self._patience_s, self._clock = patience_s, clock
        self._keys = Keys(())
        self._read_at = self._tried_at = -math.inf
        self._failed = False
        self._fetching: asyncio.Task[None] | None = None

    async def fitting(self, alg: str, kid: str | None) -> list[Any]:
        """The keys that a token with this head can be signed with.

        Raises ``ServerError`` (503, ``auth_unavailable``) when that cannot be found out.
        """
        found = self._known(alg, kid)
        fetching = self._fetch(REFRESH_S if found else 0.0)
        if not found:
            if fetching is not None:
                await asyncio.wait((fetching,))
            found = self._known(alg, kid)
            if not found and self._failed:
                text = "this token cannot be checked now, as its issuer does not give its keys; ask again"
                raise ServerError(text, code="auth_unavailable", retryable=True)
        return found

    async def aclose(self) -> None:
        """Stop what is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait((self._fetching,))

    def _known(self, alg: str, kid: str | None) -> list[Any]:
        return self._keys.fitting(alg, kid) if self._clock() - self._read_at < STALE_S else []

    def _fetch(self, older_than_s: float) -> asyncio.Task[None] | None:
        """The request that is under way, or a new one if the keys are so old and it is time for one."""
        now = self._clock()
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        if now - self._read_at < older_than_s or now - self._tried_at < PAUSE_S:
            return None
        self._tried_at = now
        # A context of its own: it works for all who wait, and not for the request that came first.
        self._fetching = asyncio.create_task(self._renew(), name="keys of an issuer", context=Context())
        return self._fetching

    async def _renew(self) -> None:
        self._failed = True
        try:
            async with asyncio.timeout(self._patience_s):
                self._keys = from_file(await _get(self._url), self._algorithms)
            self._read_at, self._failed = self._clock(), False
        except Exception as error:  # of the network, and of what somebody else sent
            why = str(error) if isinstance(error, ValueError) else type(error).__name__
            logger.warning("the keys at %s cannot be had: %s", urlsplit(self._url).hostname, why)


async def _get(url: str) -> bytes:
    """The body at ``url``. Raises ``ValueError`` for another answer than that, and for too much."""
    import aiohttp

    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as http,
        # Not where the configured address may redirect to: that is nobody's whom the operator has named.
        http.get(url, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as response,
    ):
        if response.status != 200:
            raise ValueError(f"HTTP {response.status}")
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > SET_LIMIT:
                raise ValueError(f"more than {SET_LIMIT} bytes")
        return bytes(body)
