"""What an agent card says beside the address: what the agent is for, and which credentials it wants. Pure.

Nothing of this decides whether the agent can be used, so what cannot be read is taken as absent. All of it is what
somebody else says: texts are cut and put on one line, and no address on a card gets a credential unless it is the
agent's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin

import msgspec

from ._card import origin

_NAME = 100  # characters of a name, a version
_TEXT = 1000  # of a description
_MOST = 50  # skills, schemes
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "cookie", "expect", "host", "te"}
    | {"trailer", "transfer-encoding", "upgrade", "a2a-version", "a2a-extensions", "last-event-id"}
)
"""Headers that are no place for a key, whatever a card says."""

AUTHORIZATION, KEY = "authorization", "key"
"""What we may have for an agent: something for that header, and an API key, which has its place on the card."""


class Place(NamedTuple):
    """Where an API key goes: ``location`` is ``header``, ``query`` or ``cookie``."""

    location: str
    name: str


class _Scheme(NamedTuple):
    kind: str  # key, authorization, mtls, or what we do not know
    text: str
    remedy: str = ""
    place: Place | None = None
    token_url: str = ""


class About(NamedTuple):
    """``skills`` are names with what the card says of each. ``wanted``: sets of schemes, one of which has to be met."""

    version: str = ""
    description: str = ""
    skills: tuple[tuple[str, str], ...] = ()
    schemes: tuple[tuple[str, _Scheme], ...] = ()
    wanted: tuple[tuple[str, ...], ...] = ()

    @property
    def key_place(self) -> Place | None:
        """Where the card wants an API key: the place of a scheme that is wanted, or else of the first one."""
        return next((scheme.place for scheme in self._preferred() if scheme.place is not None), None)

    def token_url(self, configured: str) -> str:
        """The token endpoint for client credentials, if it is at the scheme, host and port of ``configured``."""
        for scheme in self._preferred():
            try:
                url = urljoin(configured, scheme.token_url)
                if scheme.token_url and "@" not in url and origin(url) == origin(configured):
                    return url
            except ValueError:
                continue
        return ""

    def lacks(self, has: Collection[str]) -> str:
        """What the card wants and ``has`` does not give, with the remedy; nothing when one of its sets is met.

        ``has`` may hold ``AUTHORIZATION``, ``KEY``, and the lower-case names of other headers that go there.
        """
        known = dict(self.schemes)
        wanted = [[known[name] for name in names if name in known] for names in self.wanted]
        missing = [[scheme for scheme in schemes if not _met(scheme, has)] for schemes in wanted]
        if not missing or not all(missing):
            return ""
        least = min(missing, key=len)[0]
        return f"needs {least.text}" + (f"; {least.remedy}" if least.remedy else "")

    def _preferred(self) -> Iterator[_Scheme]:
        known = dict(self.schemes)
        yield from (known[name] for names in self.wanted for name in names if name in known)
        yield from known.values()


def read_about(data: bytes) -> About:
    """What a card says, of 1.0 or older; nothing for what is no card."""
    try:
        card = _mapping(msgspec.json.decode(data))
    except (msgspec.DecodeError, RecursionError):
        return About()
    skills = tuple(
        (name, _line(skill.get("description"), _TEXT))
        for skill in map(_mapping, _sequence(card.get("skills"))[:_MOST])
        if (name := _line(skill.get("name") or skill.get("id"), _NAME))
    )
    schemes = list(_mapping(card.get("securitySchemes")).items())
    return About(
        version=_line(card.get("version"), _NAME),
        description=_line(card.get("description"), _TEXT),
        skills=skills,
        schemes=tuple((name, _scheme(_mapping(said))) for name, said in schemes[:_MOST]),
        wanted=tuple(_wanted(card)),
    )


def _wanted(card: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for said in map(_mapping, _sequence(card.get("securityRequirements"))[:_MOST]):
        yield tuple(_mapping(said.get("schemes")))
    for said in map(_mapping, _sequence(card.get("security"))[:_MOST]):  # of cards before 1.0
        yield tuple(said)


def _scheme(said: Mapping[str, Any]) -> _Scheme:
    """One scheme: in 1.0 its kind is the name of its only field, before that it is its ``type``."""
    kind = str(said.get("type") or next(iter(said), "")).lower().removesuffix("securityscheme").removesuffix("auth")
    inner = said if said.get("type") else _mapping(next(iter(said.values()), None))
    if kind == "apikey":
        place = _place(inner)
        text = f"an API key ({place.location} {place.name})" if place else "an API key in a place that is not known"
        return _Scheme(KEY, text, "configure `auth: {api_key_env: NAME}`", place)
    if kind == "http":
        name = _line(inner.get("scheme"), 20) or "?"
        if name.lower() == "bearer":
            return _Scheme(AUTHORIZATION, "a bearer token", "configure `auth: {bearer_env: NAME}`")
        return _Scheme(AUTHORIZATION, f"HTTP authentication ({name})", "forward the caller's `authorization`")
    if kind == "oauth2":
        flow = _mapping(_mapping(inner.get("flows")).get("clientCredentials"))
        url = flow.get("tokenUrl")
        remedy = "configure `auth: {oauth2: ...}`, or forward the caller's `authorization`"
        return _Scheme(AUTHORIZATION, "an OAuth 2 token", remedy, token_url=url if isinstance(url, str) else "")
    if kind == "openidconnect":
        remedy = "configure `auth`, or forward the caller's `authorization`"
        return _Scheme(AUTHORIZATION, "an OpenID Connect token", remedy)
    if kind in ("mtls", "mutualtls"):
        return _Scheme("mtls", "a TLS client certificate, which is not supported")
    return _Scheme("", "a credential of a kind that is not known")


def _place(said: Mapping[str, Any]) -> Place | None:
    location, name = said.get("location") or said.get("in"), said.get("name")
    if location not in ("header", "query", "cookie") or not isinstance(name, str) or not is_name(str(location), name):
        return None
    return Place(str(location), name)


def is_name(location: str, name: str) -> bool:
    """Whether a key can go there."""
    return bool(_TOKEN.fullmatch(name)) and (location != "header" or name.lower() not in _OURS)


def _met(scheme: _Scheme, has: Collection[str]) -> bool:
    header = scheme.place.name.lower() if scheme.place is not None and scheme.place.location == "header" else ""
    return scheme.kind in has or header in has


def _line(value: Any, limit: int) -> str:
    if not isinstance(value, str):
        return ""
    text = " ".join("".join(c if c.isprintable() else " " for c in value[: 2 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
