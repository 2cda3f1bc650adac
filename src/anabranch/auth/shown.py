"""What a request shows of its caller: headers and cookies, each once or not at all. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import Unauthorized

Headers = Iterable[tuple[bytes, bytes]]
"""The headers of a request as ASGI gives them."""


class Shown:
    """The headers of one request; the case of names does not matter.

    What comes twice raises ``Unauthorized``: a proxy may have looked at the other one.
    """

    def __init__(self, headers: Headers) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in headers:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip(" \t"))

    def has(self, name: str) -> bool:
        """Whether there is such a header."""
        return name.lower() in self._values

    def header(self, name: str) -> str | None:
        """The value of a header, ``""`` when it is empty, None when it is not there."""
        values = self._values.get(name.lower(), [])
        if len(values) > 1:
            raise Unauthorized(f"the header {name} was sent {len(values)} times")
        return values[0] if values else None

    def cookie(self, name: str) -> str | None:
        """The value of a cookie. Two of one name differ in a path or domain that the request does not tell."""
        found = set()
        for line in self._values.get("cookie", []):
            for pair in line.split(";"):
                key, given, value = pair.partition("=")
                if given and key.strip(" \t") == name:
                    found.add(value.strip(" \t"))
        if len(found) > 1:
            raise Unauthorized(f"the cookie {name} was sent with different values")
        return found.pop() if found else None


def bearer(authorization: str) -> str:
    """The token in an ``Authorization`` header (RFC 6750, section 2.1)."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("the Authorization header is not of the scheme Bearer")
    return token.strip(" ")
