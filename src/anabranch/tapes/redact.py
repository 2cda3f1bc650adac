"""A line of a recording, without secrets. Pure.

Hidden are the secrets that the server knows, wherever they stand, and what looks like a credential: tokens by their
prefixes, bearer tokens, a user name and password in a URL. Each becomes as many ``*`` as it has characters, so lengths
and structure stay. A secret that comes in two pieces, as two deltas of a model's text, is not found.

The text of an item may be JSON itself, and hold JSON again: a secret is found however it is escaped in there. Such a
text is written with fewer escapes then.
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

# A word may also begin after an escape.
_BEGINS = r"(?: \b | (?<= \\[bfnrt] ) | (?<= \\u[0-9a-f]{4} ) )"
_LOOKS = re.compile(rf"(?ix) {_BEGINS} (?: {TOKEN} ) | {USERINFO} | (?<= \bbearer\  ) [\w.~+/=-]{{20,}}")
# Without any of these nothing is found. Most lines have none, and to look for them costs little.
_HINTS = rb"sk[-_]|pk[-_]|rk[-_]|gh[opsur][-_]|hub_pat|glpat|hf[-_]|nvapi|xox|akia|aiza|eyj|earer |@|\\u00[2-7]|\\/"
# What JSON need not escape: all but control characters, quotation marks and backslashes.
_NEEDLESS = re.compile(
    r"(?i)(?<!\\)(\\+) (?: u(d[89ab][0-9a-f]{2}) \\+ u(d[c-f][0-9a-f]{2}) | u([0-9a-f]{4}) | / )", re.VERBOSE
)
_NEEDED = re.compile(r'[\x00-\x1f"\\\ud800-\udfff]')
_SIGNS = re.compile(r"\\+|.", re.DOTALL)
_RUN = 16  # backslashes that are looked through: any number would take the square of the time
_PLAIN = re.compile(r"[ !#-.0-\[\]-~]+")
_NAME = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)S?$", re.IGNORECASE)
_encode = msgspec.json.Encoder().encode


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The values of the variables whose names say that they hold a secret (``..._API_KEY``, ``..._TOKEN``...)."""
    return [value for name, value in environ.items() if _NAME.search(name)]


class Redactor:
    """Writes values as lines. ``secrets`` shorter than ``SHORTEST`` are not looked for."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)
        self._known = (
            re.compile("|".join("".join(map(_sign, _SIGNS.findall(secret))) for secret in known)) if known else None
        )
        hints = {max(_PLAIN.findall(secret), key=len, default="") for secret in known}
        self._suspect = re.compile(b"|".join((_HINTS, *(re.escape(hint.lower().encode()) for hint in hints)))).search

    def line(self, value: Any) -> bytes:
        """``value`` as one line of JSON."""
        line = written(value)
        if self._suspect(line.lower()):
            line = written(_mapped(value, self.text))
        return line + b"\n"

    def text(self, text: str) -> str:
        """``text`` with every secret in it hidden."""
        plain = _NEEDLESS.sub(_unescaped, text) if "\\" in text else text
        hidden = self._without(plain)
        return hidden if hidden != plain else self._without(text)

    def _without(self, text: str) -> str:
        if self._known:
            text = self._known.sub(_hidden, text)
        return _LOOKS.sub(_hidden, text)


def _sign(sign: str) -> str:
    """A pattern of a character, or of some backslashes, as JSON and JSON inside JSON may escape them."""
    if sign[0] == "\\":
        count = min(len(sign), _RUN)
        return rf"(?:\\{{{count},{_RUN}}}|(?:\\{{1,{_RUN}}}(?i:u005c)){{{count}}})"
    plain, escaped = re.escape(sign), json.dumps(sign, ensure_ascii=False)[1:-1]
    if escaped == sign:
        return plain
    return rf"(?:\\{{1,{_RUN}}}(?:{re.escape(escaped[1:])}|(?i:u{ord(sign):04x}))|{plain})"


def _unescaped(found: re.Match[str]) -> str:
    backslashes, *codes = found.groups()
    text = bytes.fromhex("".join(filter(None, codes))).decode("utf-16-be", "surrogatepass") or "/"
    # One of them escapes in JSON, two in JSON inside JSON, four below that; those before are themselves escaped.
    count = len(backslashes)
    return found[0] if _NEEDED.search(text) else backslashes[count & -count :] + text


def _hidden(found: re.Match[str]) -> str:
    return "*" * len(found[0])


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
