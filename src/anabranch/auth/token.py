"""Verifying a JSON Web Token (RFC 7515, RFC 7519, RFC 8725): its signature, then what it says. Pure.

Which algorithms and keys count is configured. A token only chooses among them, by its ``alg`` and ``kid``; keys and
addresses of keys in its header are not looked at.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..identity import ID_LIMIT, Principal
from .errors import Unauthorized

if TYPE_CHECKING:
    from jwt import PyJWS

TOKEN_LIMIT = 16 * 1024
"""Characters a token may have."""

_COMPACT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)  # all three parts: an unsigned token has two


class Head(NamedTuple):
    """What a token says of its signature."""

    alg: str
    kid: str | None


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a token must say. ``what`` it is called in errors; an empty ``issuer`` or ``audience`` is not looked at.

    ``claim`` is the path to the id of the user, who is one of the key space ``space``.
    """

    what: str
    space: str
    claim: tuple[str, ...]
    issuer: str = ""
    audience: tuple[str, ...] = ()
    must_expire: bool = False
    leeway_s: float = 0.0


def head(token: str, algorithms: Collection[str], what: str) -> Head:
    """The head of ``token``. Raises ``Unauthorized`` for no JWT, and for one of another algorithm."""
    if len(token) > TOKEN_LIMIT or not _COMPACT.fullmatch(token):
        raise Unauthorized(f"{what} is not a signed JWT")
    part = token.partition(".")[0]
    try:
        found = _object(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        raise Unauthorized(f"{what} is not a signed JWT") from None
    alg, kid = found.get("alg"), found.get("kid")
    if not isinstance(alg, str) or alg not in algorithms:
        raise Unauthorized(f"{what} is not signed with an algorithm that this server takes")
    if "crit" in found or "b64" in found or not isinstance(kid, str | None):
        raise Unauthorized(f"{what} has a header that this server does not understand")
    return Head(alg, kid)


def claims(token: str, alg: str, keys: Sequence[Any], what: str) -> dict[str, Any]:
    """What ``token`` says, if it is signed with the algorithm ``alg`` by one of ``keys``. Else ``Unauthorized``."""
    for key in keys:
        try:
            payload = _jws().decode_complete(token, key, algorithms=[alg])["payload"]
        except Exception:  # whatever it was, the token is a stranger's and this key does not verify it
            continue
        try:
            return _object(payload)
        except ValueError:
            raise Unauthorized(f"{what} does not hold a JSON object") from None
    raise Unauthorized(f"{what} is not signed with a key that this server trusts")


def user(said: dict[str, Any], expected: Expected, now: float) -> Principal:
    """Whom ``said`` names at the time ``now``, in seconds. Raises ``Unauthorized`` when it is not as ``expected``."""
    what = expected.what
    expires, begins = _time(said, "exp", what), _time(said, "nbf", what)
    if expires is None and expected.must_expire:
        raise Unauthorized(f"{what} never expires, which this server does not take")
    if expires is not None and now >= expires + expected.leeway_s:
        raise Unauthorized(f"{what} has expired")
    if begins is not None and now < begins - expected.leeway_s:
        raise Unauthorized(f"{what} is not valid yet")
    if expected.issuer and said.get("iss") != expected.issuer:
        raise Unauthorized(f"{what} is from another issuer")
    if expected.audience and not _is_for(said.get("aud"), expected.audience):
        raise Unauthorized(f"{what} is for another audience")
    return principal(expected.space, _at(said, expected.claim), what)


def principal(space: str, id: Any, what: str) -> Principal:
    """The user ``id`` of a key space. Raises ``Unauthorized`` for what cannot name one user, in logs and storage too.

    Nothing is trimmed, folded or normalised: ids that differ are different users.
    """
    if not isinstance(id, str) or not id or id != id.strip() or not id.isprintable():
        raise Unauthorized(f"{what} does not name a user: an id is text of printable characters")
    if len(space) + 1 + len(id) > ID_LIMIT:
        raise Unauthorized(f"{what} names a user with too long an id")
    return Principal(f"{space}:{id}")


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _time(said: dict[str, Any], name: str, what: str) -> float | None:
    """A NumericDate (RFC 7519, section 2)."""
    value = said.get(name)
    if value is None and name not in said:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthorized(f"{what} has a time that is no number")
    try:
        return float(value)
    except OverflowError:
        raise Unauthorized(f"{what} has a time that is out of range") from None


def _is_for(audience: Any, ours: Sequence[str]) -> bool:
    named = audience if isinstance(audience, list) else [audience]
    return any(name in ours for name in named)


def _at(said: dict[str, Any], path: Sequence[str]) -> Any:
    value: Any = said
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


@functools.cache
def _jws() -> PyJWS:
    import jwt

    return jwt.PyJWS()
