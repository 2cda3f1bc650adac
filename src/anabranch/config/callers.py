"""The ``auth`` section: how callers show who they are. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from .values import Section

Claim = str | list[str]
"""Where in a token the user's id is: a path with dots, or a list of its steps when a claim's own name has dots."""
Leeway = Annotated[float, msgspec.Meta(ge=0, le=300)]
"""What two clocks may differ."""
Age = Annotated[float, msgspec.Meta(ge=60, le=400 * 86_400)]
"""How long a cookie lives; no browser keeps one for more than 400 days."""

CONTEXT_HEADER = "X-DataRobot-Authorization-Context"
API_KEY_HEADER = "X-API-Key"

SHARED = ("HS256", "HS384", "HS512")
"""The algorithms whose key signs and verifies: a secret."""
PUBLIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The algorithms whose key only verifies."""

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TAKEN = frozenset({"authorization", "cookie", "host", API_KEY_HEADER.lower()})


class ContextHeader(Section, frozen=True):
    """A JWT (HS256) in a header, made by the gateway in front of this server. ``secret_env`` names the variable."""

    secret_env: str
    name: str = CONTEXT_HEADER
    claim: Claim = "user.id"
    leeway: Leeway = 30.0


class Jwt(Section, frozen=True):
    """A JWT in ``Authorization: Bearer``, of one issuer and for one of the ``audience``.

    Its key is one of ``secret_env`` (a variable, HS algorithms), ``keys_file`` (PEM or JWKS) and ``jwks_url``.
    """

    issuer: str
    audience: str | list[str]
    algorithms: list[str]
    secret_env: str | None = None
    keys_file: str | None = None
    jwks_url: str | None = None
    claim: Claim = "sub"
    leeway: Leeway = 30.0


class SessionCookie(Section, frozen=True):
    """A JWT (HS256) in a cookie, made by the application that users log in to."""

    secret_env: str
    name: str
    claim: Claim = "sub"
    leeway: Leeway = 30.0


class Anonymous(Section, frozen=True):
    """Callers without a credential get a cookie of their own. ``max_age`` is what it lives without being used."""

    secret_env: str
    name: str = "anabranch-anonymous"
    max_age: Age = 30 * 86_400.0


class Callers(Section, frozen=True):
    """What callers may identify themselves with, strongest first. What is not named is not taken."""

    context_header: ContextHeader | None = None
    jwt: Jwt | None = None
    api_keys_file: str | None = None
    session_cookie: SessionCookie | None = None
    anonymous: Literal[False] | Anonymous = False


Flaw = tuple[tuple[str, ...], str]
"""The path of a field, and what is wrong with it."""


def steps(claim: Claim) -> tuple[str, ...]:
    """The path that ``claim`` means."""
    return tuple(claim.split(".") if isinstance(claim, str) else claim)


def flaws(callers: Callers) -> Iterator[Flaw]:
    """What cannot work, or would not be safe."""
    header, cookie, visitor = callers.context_header, callers.session_cookie, callers.anonymous
    if header is not None:
        yield from _claim(("context_header", "claim"), header.claim)
        if not _TOKEN.fullmatch(header.name) or header.name.lower() in _TAKEN:
            yield ("context_header", "name"), f"{header.name!r} cannot be the name of this header; choose another"
    if callers.jwt is not None:
        yield from _jwt(callers.jwt)
    if cookie is not None:
        yield from _claim(("session_cookie", "claim"), cookie.claim)
        yield from _cookie_name(("session_cookie", "name"), cookie.name)
    if visitor is not False:
        yield from _cookie_name(("anonymous", "name"), visitor.name)
        if cookie is not None and cookie.name == visitor.name:
            yield ("anonymous", "name"), f"{visitor.name!r} is the session cookie; choose another"
    if not any((header, callers.jwt, callers.api_keys_file, cookie, visitor)):
        yield (), "nobody could use this server; name a credential, or `anonymous: {secret_env: NAME}`"


def _jwt(jwt: Jwt) -> Iterator[Flaw]:
    yield from _claim(("jwt", "claim"), jwt.claim)
    if not jwt.issuer:
        yield ("jwt", "issuer"), "it is empty; give what tokens say as `iss`"
    if not jwt.audience or not all([jwt.audience] if isinstance(jwt.audience, str) else jwt.audience):
        yield ("jwt", "audience"), "it is empty; give what tokens for this server say as `aud`"
    if unknown := [name for name in jwt.algorithms if name not in SHARED + PUBLIC]:
        yield ("jwt", "algorithms"), f"{unknown[0]!r} is not taken; known: {', '.join(SHARED + PUBLIC)}"
        return
    given = [field for field in ("secret_env", "keys_file", "jwks_url") if getattr(jwt, field) is not None]
    if len(given) != 1:
        yield ("jwt",), "give it one of `secret_env`, `keys_file` and `jwks_url`"
        return
    # A public key is no secret: who has it could sign with an HS algorithm.
    fit = SHARED if given == ["secret_env"] else PUBLIC
    if not jwt.algorithms or not set(jwt.algorithms) <= set(fit):
        yield ("jwt", "algorithms"), f"with `{given[0]}` name some of {', '.join(fit)}, and no others"
    if jwt.jwks_url is not None and not is_safe(jwt.jwks_url):
        problem = "it must be an https:// URL without a user name (http:// on this machine only)"
        yield ("jwt", "jwks_url"), problem


def _claim(path: tuple[str, ...], claim: Claim) -> Iterator[Flaw]:
    if not claim or not all(steps(claim)):
        yield path, f"{claim!r} is no path to a claim, such as `sub` or `user.id`"


def _cookie_name(path: tuple[str, ...], name: str) -> Iterator[Flaw]:
    if not _TOKEN.fullmatch(name):
        yield path, f"{name!r} cannot be the name of a cookie; choose another"


def is_safe(url: str) -> bool:
    """Whether secrets, or what decides about them, may come or go there: TLS, or this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or not url.isprintable() or " " in url:
        return False
    return parts.scheme == "https" or parts.scheme == "http" and _is_loopback(host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- what goes on to an agent ----------------------------------------------------------------------------------------

NEVER_FORWARDED = frozenset(
    {"accept", "accept-encoding", "content-encoding", "content-length", "content-type", "cookie", "expect", "host"}
    | {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "a2a-extensions", "a2a-version"}
    | {"last-event-id", "proxy-authenticate", "proxy-authorization", "proxy-connection", "set-cookie"}
)
"""The headers of one connection or one message, and our own cookies: not even an allow-list lets them through."""


def unforwardable(names: Sequence[str]) -> str | None:
    """What is wrong with an agent's ``forward``, or None."""
    for name in names:
        if not _TOKEN.fullmatch(name):
            return f"{name!r} is not the name of a header"
        if name.lower() in NEVER_FORWARDED:
            return f"{name!r} belongs to one connection or one message and is never forwarded; remove it"
    return None
