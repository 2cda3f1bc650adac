"""Who is asking: the credentials of a request, strongest first, and what each one proves.

A server takes what its configuration names. Each kind has its own key space, so nobody becomes somebody else by
choosing another kind: ``context:``, ``jwt:{issuer}:``, ``key:``, ``session:``, ``anonymous:``.

1. The context header, ``Authorization: Bearer``, ``X-API-Key``. Each that was sent has to hold; the first says who
   asks. (Who has two valid ones could have sent either; only the gateway's cannot be left out, and it comes first.)
2. The session cookie, when there was no such header. A browser sends it unasked, and another site of the domain can
   plant one: beside a header it neither counts nor does harm.
3. The anonymous cookie, or a new one, for whoever has shown nothing: also no credential of a kind that is not taken.

What is looked at and does not hold is a 401, always; nothing weaker is tried.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import NamedTuple

from ..config.callers import API_KEY_HEADER, CONTEXT_HEADER, Callers, flaws
from ..errors import ConfigError
from ..identity import Principal
from . import checks
from .anonymous import ID_BYTES, AnonymousCookie
from .checks import ApiKeyCheck, Clock, TokenCheck
from .errors import Unauthorized
from .shown import Headers, Shown, bearer
from .token import principal

_STANDARD = ("Authorization", API_KEY_HEADER, CONTEXT_HEADER)


class Found(NamedTuple):
    """Who asks, and the ``Set-Cookie`` that the response has to have, if any."""

    principal: Principal
    set_cookie: str | None = None


class Identifier:
    """Identifies callers by the headers of their requests. Made by ``from_config``; ``aclose`` it."""

    def __init__(self, section: Callers, *, clock: Clock) -> None:
        self._clock = clock
        self._header = section.context_header.name if section.context_header else ""
        self._cookie = section.session_cookie.name if section.session_cookie else ""
        self._context: TokenCheck | None = None
        self._bearer: TokenCheck | None = None
        self._api_keys: ApiKeyCheck | None = None
        self._session: TokenCheck | None = None
        self._anonymous: AnonymousCookie | None = None

    @classmethod
    def from_config(
        cls,
        section: Callers,
        environ: Mapping[str, str],
        *,
        clock: Clock = time.time,
        monotonic: Clock = time.monotonic,
    ) -> Identifier:
        """Takes what ``section`` names. ``clock`` gives seconds since 1970, ``monotonic`` seconds since whenever.

        Raises ``ConfigError`` for what cannot work: a secret that is missing, short or used twice, a file that cannot
        be read, a flaw of the section; ``MissingExtra`` when a token could not be verified.
        """
        for path, problem in flaws(section):
            raise ConfigError(f"{'.'.join(('auth', *path))}: {problem}")
        made, taken = cls(section, clock=clock), checks.Secrets(environ)
        if section.context_header is not None:
            made._context = checks.context(section.context_header, taken)
        if section.jwt is not None:
            made._bearer = checks.jwt(section.jwt, taken, monotonic)
        if section.api_keys_file is not None:
            made._api_keys = ApiKeyCheck(section.api_keys_file)
        if section.session_cookie is not None:
            made._session = checks.session(section.session_cookie, taken)
        if section.anonymous is not False:
            secret = taken.secret("anonymous.secret_env", section.anonymous.secret_env)
            made._anonymous = AnonymousCookie(section.anonymous, secret)
        return made

    async def identify(self, headers: Headers, scheme: str = "http") -> Found:
        """Who sends ``headers`` (as in an ASGI scope) over ``scheme``.

        Raises ``Unauthorized``, whose ``headers`` belong on the 401, and ``ServerError`` (503, ``auth_unavailable``)
        when keys cannot be had that would tell.
        """
        try:
            shown = Shown(headers)
            by_header = await self._by_header(shown)
            if by_header is not None:
                return Found(by_header)
            if self._session is not None and (value := shown.cookie(self._cookie)) is not None:
                return Found(await self._session.principal(value, self._clock))
            return self._unnamed(shown, secure=scheme in ("https", "wss"))
        except Unauthorized as refused:
            if self._bearer is not None or self._api_keys is not None:
                refused.headers["www-authenticate"] = "Bearer"
            raise

    async def aclose(self) -> None:
        """Stop fetching keys."""
        if self._bearer is not None:
            await self._bearer.aclose()

    async def _by_header(self, shown: Shown) -> Principal | None:
        """Whom the first credential in a header names, once all of them hold."""
        found: list[Principal] = []
        if self._context is not None and (value := shown.header(self._header)) is not None:
            found.append(await self._context.principal(value, self._clock))
        token, key = self._presented(shown)
        if token is not None and self._bearer is not None:
            found.append(await self._bearer.principal(token, self._clock))
        if key is not None and self._api_keys is not None:
            found.append(self._api_keys.principal(key))
        return found[0] if found else None

    def _presented(self, shown: Shown) -> tuple[str | None, str | None]:
        """The JWT and the API key of a request. A bearer is one of the two by its looks, and never tried as both."""
        token = key = None
        if self._bearer is not None or self._api_keys is not None:
            authorization = shown.header("Authorization")
            token = None if authorization is None else bearer(authorization)
        if self._api_keys is not None:
            key = shown.header(API_KEY_HEADER)
            if token is not None and (self._bearer is None or token.count(".") != 2):
                if key is not None:
                    raise Unauthorized(f"an API key was sent twice, as a bearer and in {API_KEY_HEADER}")
                token, key = None, token
        return token, key

    def _unnamed(self, shown: Shown, *, secure: bool) -> Found:
        """A caller who has shown nothing that names a user."""
        for name in _STANDARD:
            if shown.has(name):
                raise Unauthorized(f"this server does not take the credential in the header {name}; ask without it")
        if self._anonymous is None:
            raise Unauthorized("who is asking? no credential was sent")
        value, now = shown.cookie(self._anonymous.name), self._clock()
        renew = True
        if value is None:
            id = secrets.token_urlsafe(ID_BYTES)
        else:
            id, renew = self._anonymous.read(value, now)
        cookie = self._anonymous.make(id, now, secure=secure) if renew else None
        return Found(principal("anonymous", id, "the anonymous cookie"), cookie)
