"""A line of a recording, without secrets. Pure.

Hidden are the secrets that the server knows, wherever they stand, and what looks like a credential: tokens by their
prefixes, bearer tokens, a user name and password in a URL. Each becomes as many ``*`` as it has characters, so lengths
and structure stay. A secret that comes in two pieces, as two deltas of a model's text, is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ..errors import TOKEN, USERINFO

SHORTEST = 6
"""Characters that a secret has at least; a shorter one would be found in ordinary words."""

# A word may also begin after an escape: the text of an item may be JSON itself.
_BEGINS = r"(?: \b | (?<= \\[bfnrt] ) | (?<= \\u[0-9a-f]{4} ) )"
_LOOKS = re.compile(rf"(?ix) {_BEGINS} (?: {TOKEN} ) | {USERINFO} | (?<= \bbearer\  ) [\w.~+/=-]{{20,}}")
# Without any of these nothing is found. Most lines have none, and to look for them costs little.
_HINTS = rb"sk[-_]|pk[-_]|rk[-_]|gh[opsur][-_]|hub_pat|glpat|hf[-_]|nvapi|xox|akia|aiza|eyj|earer |@"
_NAME = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)S?$", re.IGNORECASE)
_encode = msgspec.json.Encoder().encode


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The values of the variables whose names say that they hold a secret (``..._API_KEY``, ``..._TOKEN``...)."""
    return [value for name, value in environ.items() if _NAME.search(name)]


class Redactor:
    """Writes values as lines. ``secrets`` shorter than ``SHORTEST`` are not looked for."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        forms = {form for secret in known for form in _forms(secret)}
        ordered = sorted(map(re.escape, forms), key=len, reverse=True)
        self._known = re.compile("|".join(ordered)) if ordered else None
        hints = {re.escape(_bytes(each).lower()) for form in forms for each in _forms(form)}
        self._suspect = re.compile(b"|".join((_HINTS, *hints))).search

    def line(self, value: Any) -> bytes:
        """``value`` as one line of JSON."""
        line = written(value)
        if self._suspect(line.lower()):
            line = written(_mapped(value, self.text))
        return line + b"\n"

    def text(self, text: str) -> str:
        """``text`` with every secret in it hidden."""
        if self._known:
            text = self._known.sub(_hidden, text)
        return _LOOKS.sub(_hidden, text)


def _forms(secret: str) -> set[str]:
    """A secret as it may stand in text, which may be JSON itself."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def _hidden(found: re.Match[str]) -> str:
    return "*" * len(found[0])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def written(value: Any) -> bytes:
    """``value`` as JSON; unlike a log's, its strings may hold halves of surrogate pairs."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair: an escape can say it
        return json.dumps(value, separators=(",", ":")).encode()


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with each text in it, keys too, changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    return value
