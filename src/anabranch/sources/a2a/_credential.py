"""What we show an agent besides fixed headers: an API key in the place that its card names, an OAuth 2 token.

It goes to the scheme, host and port of the agent's configured address only, which is the source's to see to.
"""

from __future__ import annotations

import asyncio
import base64
from contextvars import Context
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, quote_plus, urlencode

import msgspec

from ...errors import SourceError
from .._http import Client
from ._about import About, Place

_EARLY_S = 30.0  # before its end a token is not used any more
_LIFE_S = 300.0  # of a token that does not say how long it lives
_ANSWER = 64 * 1024  # bytes of the answer of a token endpoint
_TOKEN_S = 10.0  # for that answer
_REASONS = frozenset(
    {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"}
    | {"invalid_scope"}
)


class Given(NamedTuple):
    """What goes with a request. ``fresh``: it was made for this one."""

    headers: dict[str, str]
    query: str = ""
    fresh: bool = True

    @property
    def secrets(self) -> list[str]:
        """What nobody else may read."""
        pairs = (self.query, self.headers.get("Cookie", ""))
        words = [value.split()[-1] for value in self.headers.values() if value.split()]
        return words + [pair.partition("=")[2] for pair in pairs if pair]

    def url(self, url: str) -> str:
        """``url`` with it."""
        return f"{url}{'&' if '?' in url else '?'}{self.query}" if self.query else url


class Credential(Protocol):
    """Serves all requests to one agent."""

    async def given(self, about: About) -> Given:
        """What goes with the next request, to an agent with this card. Raises ``SourceError``."""

    def refused(self, given: Given) -> bool:
        """The agent did not take it. Whether another one may be taken."""

    async def aclose(self) -> None:
        """Let connections go."""


class ApiKey:
    """An API key; without ``name`` (of a header) the card says where it goes."""

    def __init__(self, who: str, key: str, name: str = "") -> None:
        self._who, self._key, self._name = who, key, name

    async def given(self, about: About) -> Given:
        """See ``Credential``."""
        place = Place("header", self._name) if self._name else about.key_place
        if place is None:
            flaw = "does not say on its card where an API key goes; configure its `auth.name`, the header"
            raise SourceError(f"{self._who} {flaw}.", code="agent_auth")
        if place.location == "query":
            return Given({}, f"{quote(place.name, safe='')}={quote(self._key, safe='')}")
        if place.location == "cookie":
            return Given({"Cookie": f"{place.name}={quote(self._key, safe='')}"})
        return Given({place.name: self._key})

    def refused(self, given: Given) -> bool:
        """There is only this one."""
        return False

    async def aclose(self) -> None:
        """There is nothing to let go."""


class ClientCredentials:
    """An OAuth 2 token for ourselves (RFC 6749, section 4.4), fetched when one is first needed.

    One token serves all requests until 30 s before its end. ``token_url`` may be left to the card if the endpoint is at
    the scheme, host and port of ``agent``, the configured address: the secret goes nowhere else unasked.
    """

    def __init__(
        self, who: str, client_id: str, secret: str, *, agent: str, token_url: str = "", scopes: tuple[str, ...] = ()
    ) -> None:
        self._who, self._agent, self._token_url, self._scopes = who, agent, token_url, scopes
        pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"  # RFC 6749, section 2.3.1
        basic = base64.b64encode(pair.encode()).decode()
        self._http = Client(
            f"The token endpoint of {who[:1].lower()}{who[1:]}",
            {"Authorization": f"Basic {basic}"},
            kind="agent",
            speaks="OAuth 2",
            extra="a2a",
            connect_s=5.0,
            first_byte_s=_TOKEN_S,
            idle_s=_TOKEN_S,
            pool=0,
        )
        self._token, self._until = "", 0.0
        self._fetching: asyncio.Task[None] | None = None

    async def given(self, about: About) -> Given:
        """See ``Credential``. Whoever needs a token while it is fetched shares it, or the error."""
        fresh = not self._token or asyncio.get_running_loop().time() >= self._until
        if fresh:
            fetching = self._fetching
            if fetching is None or fetching.done():
                fetching = self._fetching = asyncio.create_task(self._fetch(about), context=Context())
                fetching.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.wait((fetching,))
            if fetching.cancelled():
                raise SourceError(f"{self._who} is not asked: its source was closed.", code="agent_disconnected")
            fetching.result()
        return Given({"Authorization": f"Bearer {self._token}"}, fresh=fresh)

    def refused(self, given: Given) -> bool:
        """A token that was used before may have been revoked."""
        if given.headers["Authorization"] == f"Bearer {self._token}":
            self._token = ""
        return not given.fresh

    async def aclose(self) -> None:
        """See ``Credential``."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait((self._fetching,))
        await self._http.aclose()

    async def _fetch(self, about: About) -> None:
        url = self._token_url or about.token_url(self._agent)
        if not url:
            flaw = "names no token endpoint on its own address; configure its `auth.oauth2.token_url`"
            raise SourceError(f"{self._who} {flaw}.", code="agent_auth")
        form = {"grant_type": "client_credentials"} | ({"scope": " ".join(self._scopes)} if self._scopes else {})
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        try:
            async with asyncio.timeout(_TOKEN_S):
                answer = await self._http.post(url, urlencode(form).encode(), headers, stream=True)
                try:
                    said = _decoded(await answer.body(_ANSWER))
                    if 400 <= answer.status < 500:
                        reason = said.get("error") if said.get("error") in _REASONS else f"HTTP {answer.status}"
                        text = f"{self._http.who} does not take our client credentials ({reason})."
                        raise SourceError(text, code="agent_auth")
                    if answer.status != 200:
                        raise answer.refusal()
                finally:
                    answer.close()
        except TimeoutError:
            text = f"{self._http.who} did not answer in time."
            raise SourceError(text, code="agent_timeout_first_byte", retryable=True) from None
        token, life = said.get("access_token"), said.get("expires_in")
        if not isinstance(token, str) or not _is_bearer(token, said.get("token_type")):
            raise SourceError(f"{self._http.who} did not give a bearer token.", code="agent_auth")
        life_s = float(life) if isinstance(life, int | float) and life > 0 else _LIFE_S
        self._token = token
        self._until = asyncio.get_running_loop().time() + life_s - _EARLY_S


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_bearer(token: str, kind: Any) -> bool:
    fit = token.isascii() and token.isprintable() and " " not in token and bool(token)
    return fit and (kind is None or isinstance(kind, str) and kind.lower() == "bearer")
