"""The cookie of a caller without a credential: a random id, the time it was made, and our signature. Pure.

Not a JWT, so that no other token can be taken for one, and this one for no other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from ..config.callers import Anonymous
from .errors import Unauthorized

ID_BYTES = 16
"""Random bytes of an id."""

_VALUE = re.compile(r"([\w-]{22})\.(\d{1,12})\.([\w-]{43})", re.ASCII)


class AnonymousCookie:
    """Makes and reads the cookie; ``now`` is in seconds since 1970."""

    def __init__(self, section: Anonymous, secret: bytes) -> None:
        self.name = section.name
        self._max_age_s = int(section.max_age)
        self._secret = secret

    def make(self, id: str, now: float, *, secure: bool) -> str:
        """A ``Set-Cookie`` for ``id``. ``secure``: it came over TLS."""
        text = f"{id}.{int(now)}"
        return self._set(f"{text}.{self._sign(text)}", self._max_age_s, secure)

    def read(self, value: str, now: float) -> tuple[str, bool]:
        """The id in a cookie's value, and whether it is time to make the cookie anew.

        Raises ``Unauthorized``, with a header that makes the browser forget it.
        """
        found = _VALUE.fullmatch(value)
        if found is None or not hmac.compare_digest(self._sign(f"{found[1]}.{found[2]}"), found[3]):
            raise self._refused("is not one that this server made")
        age_s = now - int(found[2])
        if age_s >= self._max_age_s:
            raise self._refused("has expired")
        return found[1], age_s >= self._max_age_s / 2

    def _sign(self, text: str) -> str:
        mac = hmac.digest(self._secret, f"anabranch anonymous caller\n{text}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()

    def _refused(self, why: str) -> Unauthorized:
        refused = Unauthorized(f"the cookie {self.name} {why}; ask again without it")
        refused.headers["set-cookie"] = self._set("", 0, secure=False)
        return refused

    def _set(self, value: str, max_age_s: int, secure: bool) -> str:
        # A browser takes names with these prefixes only together with Secure.
        secure = secure or self.name.startswith(("__Host-", "__Secure-"))
        flags = "HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")
        return f"{self.name}={value}; Max-Age={max_age_s}; Path=/; {flags}"
