"""HTTP for sources: one pool of connections, and each failure as a ``SourceError`` that names who failed.

aiohttp is imported when the first connection is needed. No message holds an address; the operator finds it in the
error's cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError, MissingExtra, SourceError, scrub

if TYPE_CHECKING:
    import aiohttp

BODY_LIMIT = 16 * 1024 * 1024
"""How many bytes an answer that is not a stream may have."""

_BACKOFF_S = (0.1, 0.4)
_LINGER_S = 0.25
_REASON_S = 2.0
_CRAWL = 4096  # bytes in ``idle_s`` that are progress although no line ends in them
_WORD = 4  # characters; what is not longer may stand in any text
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\x00-\x08\x0a-\x1f\x7f]*")
_BUSY = frozenset({408, 425, 429, 502, 503, 504})


class Client:
    """Sends requests to one peer, called ``who`` in errors, whose codes begin with ``kind``.

    ``speaks`` is the protocol that is expected of it, ``extra`` the extra of this package that brings the library.

    A connection carries one run for as long as it streams, so a limit of connections would make the next run wait
    without a word: ``pool=0``, the default of the source, has none, and how many runs there are is decided where they
    are started. Cookies are not kept unless all requests are one user's (``one_user``), because those of different
    users share the pool, and redirects are not followed, because they would carry the headers elsewhere.

    Each request has a connection of its own: one that idled may be closed by the peer just when it is used again, and
    then nobody knows whether the request was read. So only a failure to connect is tried again, which no peer saw.

    Raises ``ConfigError`` for a header that cannot be sent, without its value.
    """

    def __init__(
        self,
        who: str,
        headers: Mapping[str, str],
        *,
        kind: Literal["agent", "model"],
        speaks: str,
        extra: str,
        connect_s: float,
        first_byte_s: float,
        idle_s: float,
        pool: int,
        one_user: bool = False,
    ) -> None:
        if wrong := [name for name, value in headers.items() if not _HEADER.fullmatch(f"{name}: {value}")]:
            flaw = "its name or value holds a character that no header may have, such as a line end"
            raise ConfigError(f"The header {wrong[0]!r} cannot be sent: {flaw}.")
        self.who, self.kind, self.speaks, self.extra = who, kind, speaks, extra
        self.idle_s = idle_s
        self.bound = bool(headers)  # to the origin that they were configured for
        self._headers = {**headers, "Accept-Encoding": "identity"}  # a compressing proxy holds small pieces back
        self._credentials = _words(headers)
        self._connect_s, self._first_byte_s, self._pool = connect_s, first_byte_s, pool
        self._one_user = one_user
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: Mapping[str, str] | None = None, *, patient: bool = True) -> Answer:
        """Ask for ``url``. Who is not ``patient`` is told at once that a connection could not be made."""
        headers = {"Accept": "application/json", **(headers or {})}
        return await self._request("GET", url, None, headers, self._first_byte_s, patient=patient)

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        stream: bool,
        sent: Callable[[], object] | None = None,
    ) -> Answer:
        """Send JSON to ``url``. An answer that is no ``stream`` comes when the work is done: only idling bounds it.

        ``sent`` is called when the request is on its way: from then on the peer may have read it.
        """
        patience_s = self._first_byte_s if stream else self.idle_s
        headers = {"Content-Type": "application/json", **headers}
        return await self._request("POST", url, body, headers, patience_s, sent)

    def hide(self, text: str, more: Mapping[str, str] | None = None, words: Iterable[str] = ()) -> str:
        """``text`` of the peer without the credentials that were sent to it, which it may repeat.

        ``more`` are headers of the one request that hold some, too, and ``words`` are some.
        """
        long = [word for word in words if len(word) > _WORD]
        for value in (*self._credentials, *_words(more or {}), *long):
            text = text.replace(value, "***")
        return text

    async def aclose(self) -> None:
        """Close all connections; what still streams on them fails."""
        if self._session is not None:
            await self._session.close()

    async def _request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        patience_s: float,
        sent: Callable[[], object] | None = None,
        *,
        patient: bool = True,
    ) -> Answer:
        http = _aiohttp(self.extra)
        if self._session is None:
            connector = http.TCPConnector(limit=self._pool, force_close=True)
            self._session = http.ClientSession(
                connector=connector,
                cookie_jar=http.CookieJar(unsafe=True) if self._one_user else http.DummyCookieJar(),
                headers=self._headers,
                trace_configs=[_telling(http.TraceConfig())],
            )
        timeout = http.ClientTimeout(total=None, connect=self._connect_s, sock_read=patience_s)
        pauses_s = iter(_BACKOFF_S if patient else ())
        while True:
            try:
                async with asyncio.timeout(self._connect_s + patience_s):  # the head may come a byte at a time
                    response = await self._session.request(
                        method,
                        url,
                        data=body,
                        headers=headers,
                        timeout=timeout,
                        allow_redirects=False,
                        trace_request_ctx=sent,
                    )
                return Answer(response, self)
            except Exception as error:
                again = isinstance(error, http.ClientConnectorError) and not isinstance(error, http.ClientSSLError)
                pause_s = next(pauses_s, None) if again else None
                if pause_s is None:
                    raise _failure(error, self, begun=False) from error
            await asyncio.sleep(pause_s)


def _words(headers: Mapping[str, str]) -> list[str]:
    """What of ``headers`` is secret."""
    return [word for value in headers.values() for word in value.split()[-1:] if len(word) > _WORD]


def _telling(config: aiohttp.TraceConfig) -> aiohttp.TraceConfig:
    async def headers_sent(session: aiohttp.ClientSession, context: Any, params: Any) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    config.on_request_headers_sent.append(headers_sent)
    return config


class Answer:
    """The answer to one request, read as it comes. Close it."""

    def __init__(self, response: aiohttp.ClientResponse, client: Client) -> None:
        self.status = response.status
        self.kind = response.content_type if "Content-Type" in response.headers else ""
        self.etag = response.headers.get("ETag", "")
        self._response, self._client = response, client
        self._begun = False
        self._waited_s, self._crawled = 0.0, 0  # since a line ended
        protocol = response.connection.protocol if response.connection is not None else None
        if protocol is not None and protocol.closed is not None:
            protocol.closed.add_done_callback(lambda closed: self._lost(closed, protocol.exception()))

    def _lost(self, closed: asyncio.Future[None], error: BaseException | None) -> None:
        """aiohttp forgets the body, and its timeouts, when its framing breaks: the reader would wait for ever."""
        if not closed.cancelled():
            closed.exception()  # seen, so that asyncio does not log it
        content = self._response.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(error or ConnectionResetError("the connection is closed"))

    async def read(self) -> bytes:
        """The next bytes, as many as have come; none at the end.

        Raises ``SourceError`` when the answer breaks off, after all that came before, and when in ``idle_s`` neither
        a line ends nor 4 KiB come. (What came in one piece of TCP with both the head and a flaw of the framing is
        lost: aiohttp then knows no answer.)
        """
        content = self._response.content
        asked = time.monotonic()
        try:
            chunk = await content.readany()
        except Exception as error:
            chunk = content._read_nowait(-1)  # a slow reader has not had it yet, and the error is raised again
            if not chunk:
                raise _failure(error, self._client, self._begun) from error
        if not self._begun:
            self._begun = True
            connection = self._response.connection
            if connection is not None and connection.protocol is not None:
                connection.protocol.read_timeout = self._client.idle_s
                connection.protocol.start_timeout()
        self._note(chunk, time.monotonic() - asked)
        return chunk

    def _note(self, chunk: bytes, waited_s: float) -> None:
        """A peer that sends a byte now and then, and never a whole line, is as good as silent."""
        self._waited_s += waited_s
        self._crawled += len(chunk)
        if not chunk or b"\n" in chunk or b"\r" in chunk or self._crawled >= _CRAWL:
            self._waited_s, self._crawled = 0.0, 0
        elif self._waited_s > self._client.idle_s:
            text = f"{self._client.who} sends too slowly."
            raise SourceError(text, code=f"{self._client.kind}_timeout_idle", retryable=True)

    async def body(self, limit: int = BODY_LIMIT) -> bytes:
        """All of it. Raises ``SourceError`` when it is larger than ``limit``."""
        chunks, size = [], 0
        while chunk := await self.read():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                text = f"{self._client.who} sent more than {limit} bytes at once."
                raise SourceError(text, code=f"{self._client.kind}_protocol")
        return b"".join(chunks)

    async def drain(self) -> None:
        """Close a stream that said it is over, after its end if that is near: the peer need not see it break off."""
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LINGER_S):
                    while await self._response.content.readany():
                        pass
        finally:  # also when the reader is cancelled
            self.close()

    def close(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        self._response.close()

    async def reason(self, private: Mapping[str, str] | None = None) -> str:
        """Why the peer refuses, in its own words, if they come soon; see ``reason_in``."""
        if not self.kind.endswith("json"):
            return ""
        try:
            async with asyncio.timeout(_REASON_S):
                return self.reason_in(await self.body(), private)
        except (SourceError, TimeoutError):
            return ""

    def reason_in(self, body: bytes, private: Mapping[str, str] | None = None) -> str:
        """The ``error.message`` of a JSON ``body``, fit for a user; ``""`` when it has none.

        Without the credentials of the client, and those in ``private``, the headers of this one request.
        """
        try:
            said = json.loads(body.decode(errors="replace"))["error"]["message"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""
        return scrub(self._client.hide(said, private)).removesuffix(".") if isinstance(said, str) else ""

    def refusal(self, reason: str = "") -> SourceError:
        """What this answer means when it is none that its protocol knows. ``reason`` is the peer's own."""
        who, kind = self._client.who, self._client.kind
        status, why = self.status, f"{self.status}): {reason}" if reason else f"{self.status})"
        if status in (401, 403):
            return SourceError(f"{who} refused our credentials (HTTP {why}.", code=f"{kind}_auth")
        if status in _BUSY:
            text = f"{who} is not available now (HTTP {why}."
            return SourceError(text, code=f"{kind}_unreachable", retryable=True)
        if status >= 500:
            return SourceError(f"{who} failed (HTTP {why}.", code=f"{kind}_failed")
        if status >= 400:
            return SourceError(f"{who} does not take this request (HTTP {why}.", code=f"{kind}_protocol")
        if status >= 300:
            text = f"{who} is elsewhere (HTTP {status}); configure the address that it redirects to."
            return SourceError(text, code=f"{kind}_protocol")
        text = f"{who} answered with {self.kind or 'nothing'}, which is not {self._client.speaks}."
        return SourceError(text, code=f"{kind}_protocol")


def _aiohttp(extra: str) -> Any:
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("aiohttp", extra) from None
    return aiohttp


def _failure(error: Exception, client: Client, begun: bool) -> SourceError:
    """``error`` of aiohttp in our words. ``begun``: some of the answer had come."""
    http, who, kind = _aiohttp(client.extra), client.who, client.kind
    if isinstance(error, http.ConnectionTimeoutError):
        text = f"{who} did not accept a connection in time."
        return SourceError(text, code=f"{kind}_unreachable", retryable=True)
    if isinstance(error, TimeoutError):
        text = f"{who} fell silent." if begun else f"{who} did not begin to answer in time."
        return SourceError(text, code=f"{kind}_timeout_{'idle' if begun else 'first_byte'}", retryable=True)
    if isinstance(error, http.ClientConnectorCertificateError):
        return SourceError(f"{who} shows a TLS certificate that is not trusted.", code=f"{kind}_unreachable")
    if isinstance(error, http.ClientSSLError):
        return SourceError(f"{who} does not speak TLS; is its address an http:// one?", code=f"{kind}_unreachable")
    if isinstance(error, http.ClientConnectorError):
        return SourceError(f"{who} cannot be reached.", code=f"{kind}_unreachable", retryable=True)
    if isinstance(error, http.ClientPayloadError | http.ClientConnectionError | ConnectionError):
        when = "in the middle of its answer" if begun else "before it answered"
        return SourceError(f"{who} closed the connection {when}.", code=f"{kind}_disconnected", retryable=True)
    return SourceError(f"{who} does not speak HTTP as expected.", code=f"{kind}_protocol")
