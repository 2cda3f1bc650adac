"""The kinds of credentials that take a file, an issuer or a secret to check, made of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from ..config.callers import SHARED, ContextHeader, Jwt, SessionCookie, steps
from ..errors import ConfigError
from ..identity import Principal
from . import keys, token
from .api_keys import ApiKeys
from .errors import Unauthorized
from .jwks import Jwks
from .watched import WatchedFile

SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""What the secret of an algorithm has at least (RFC 7518, section 3.2)."""

Clock = Callable[[], float]


class KeySource(Protocol):
    """Where the keys of a token come from."""

    async def fitting(self, alg: str, kid: str | None) -> list[Any]:
        """The keys that a token with this head can be signed with. Raises ``ServerError`` when nobody knows now."""

    async def aclose(self) -> None:
        """Stop what is under way."""


class SecretKey:
    """A ``KeySource`` that is one secret."""

    def __init__(self, secret: bytes) -> None:
        self._keys = keys.from_secret(secret)

    async def fitting(self, alg: str, kid: str | None) -> list[Any]:
        """``KeySource``."""
        return self._keys.fitting(alg, kid)

    async def aclose(self) -> None:
        """``KeySource``."""


class KeyFile:
    """A ``KeySource`` that is a file of public keys."""

    def __init__(self, path: str, algorithms: Iterable[str]) -> None:
        self._file = WatchedFile("auth.jwt.keys_file", path, lambda data: keys.from_file(data, tuple(algorithms)))

    async def fitting(self, alg: str, kid: str | None) -> list[Any]:
        """``KeySource``."""
        return self._file.value().fitting(alg, kid)

    async def aclose(self) -> None:
        """``KeySource``."""


class TokenCheck:
    """One kind of JSON Web Token."""

    def __init__(self, expected: token.Expected, algorithms: Iterable[str], source: KeySource) -> None:
        self._expected, self._algorithms, self._source = expected, frozenset(algorithms), source
        self.aclose = source.aclose

    async def principal(self, value: str, clock: Clock) -> Principal:
        """Whom ``value`` names. Raises ``Unauthorized``, and ``ServerError`` when its keys cannot be had."""
        what = self._expected.what
        head = token.head(value, self._algorithms, what)
        found = await self._source.fitting(head.alg, head.kid)
        return token.user(token.claims(value, head.alg, found, what), self._expected, clock())


class ApiKeyCheck:
    """API keys from a file."""

    def __init__(self, path: str) -> None:
        self._file = WatchedFile("auth.api_keys_file", path, ApiKeys)

    def principal(self, value: str) -> Principal:
        """Whose key ``value`` is. Raises ``Unauthorized``, and ``ServerError`` when the file cannot be read."""
        name = self._file.value().name(value)
        if name is None:
            raise Unauthorized("the API key is not known to this server")
        return token.principal("key", name, "the API key")


class Secrets:
    """The secrets in the environment. Each is for one purpose: what is signed for one must not hold for another."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._taken: dict[bytes, str] = {}

    def secret(self, field: str, variable: str, size: int = SECRET_BYTES["HS256"]) -> bytes:
        """The value of ``variable``. Raises ``ConfigError`` without, for a short one, and for one that has a use."""
        value = self._environ.get(variable, "").encode("utf-8", "surrogateescape")
        if not value:
            raise ConfigError(f"auth.{field}: the environment variable {variable} is not set")
        if len(value) < size:
            problem = f"the secret in {variable} has {len(value)} bytes; it needs {size} random ones"
            raise ConfigError(f"auth.{field}: {problem}")
        if value.lstrip().startswith(b"-----BEGIN"):
            raise ConfigError(f"auth.{field}: {variable} holds a PEM key, not a secret; see `keys_file`")
        if (other := self._taken.setdefault(value, field)) != field:
            raise ConfigError(f"auth.{field}: the secret in {variable} is that of auth.{other} too; give it its own")
        return value


def context(section: ContextHeader, secrets: Secrets) -> TokenCheck:
    """The check of the context header."""
    return _shared(section, "context_header", f"the header {section.name}", "context", secrets)


def session(section: SessionCookie, secrets: Secrets) -> TokenCheck:
    """The check of the session cookie."""
    return _shared(section, "session_cookie", f"the cookie {section.name}", "session", secrets)


def jwt(section: Jwt, secrets: Secrets, monotonic: Clock) -> TokenCheck:
    """The check of bearer tokens. ``monotonic`` tells how old fetched keys are."""
    keys.require()
    source: KeySource
    if section.jwks_url is not None:
        source = Jwks(section.jwks_url, section.algorithms, clock=monotonic)
    elif section.keys_file is not None:
        source = KeyFile(section.keys_file, section.algorithms)
    else:
        size = max(SECRET_BYTES[name] for name in section.algorithms)
        source = SecretKey(secrets.secret("jwt.secret_env", section.secret_env or "", size))
    audience = (section.audience,) if isinstance(section.audience, str) else tuple(section.audience)
    expected = token.Expected(
        what="the bearer token",
        space=f"jwt:{quote(section.issuer, safe='')}",  # no colon, so that it ends where the id begins
        claim=steps(section.claim),
        issuer=section.issuer,
        audience=audience,
        must_expire=True,
        leeway_s=section.leeway,
    )
    return TokenCheck(expected, section.algorithms, source)


def _shared(section: ContextHeader | SessionCookie, field: str, what: str, space: str, secrets: Secrets) -> TokenCheck:
    keys.require()
    source = SecretKey(secrets.secret(f"{field}.secret_env", section.secret_env))
    expected = token.Expected(what=what, space=space, claim=steps(section.claim), leeway_s=section.leeway)
    return TokenCheck(expected, SHARED[:1], source)
