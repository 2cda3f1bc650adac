"""API keys: a file of names and hashes, and whose key one is. Pure.

::

    # name: sha256 of the key, in hexadecimal
    ci: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

A name may have several keys, so that one can be replaced while the other is still in use. The hash has no salt: a key
is random and long, and not somebody's word.
"""

from __future__ import annotations

import hashlib
import hmac
import re

_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.@-]{0,63})[ \t]*:[ \t]*([0-9A-Fa-f]{64})")


class ApiKeys:
    """The keys of one file."""

    def __init__(self, data: bytes) -> None:
        """Raises ``ValueError``, which names the line, for a file that is not as above."""
        self._names: dict[bytes, str] = {}
        for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
            if not (text := line.strip()) or text.startswith("#"):
                continue
            if not (found := _LINE.fullmatch(text)):
                raise ValueError(f"line {number} is not `name: sha256 in hexadecimal`")
            name, digest = found[1], bytes.fromhex(found[2])
            if digest == hashlib.sha256(b"").digest():
                raise ValueError(f"line {number} has the hash of an empty key")
            if self._names.setdefault(digest, name) != name:
                raise ValueError(f"line {number} gives {name} a key that is another's")

    def name(self, key: str) -> str | None:
        """Whose ``key`` it is. How long that takes says nothing of the keys."""
        digest = hashlib.sha256(key.encode("latin-1", "replace")).digest()
        found = None
        for known, name in self._names.items():
            if hmac.compare_digest(known, digest):
                found = name
        return found
