"""What the command line says, checked: where to ask, and with which headers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from ...errors import ConfigError

_ENDPOINT = re.compile(r"(?P<base>.*?)(?P<agent>/agents/[^/]+)?/agui")
_A2A = re.compile(r"/a2a(?:/[^/]+)?$|\.json$")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS = frozenset({"accept", "accept-encoding", "content-length", "content-type", "last-event-id", "transfer-encoding"})


PROTOCOL_VERSION = "1.0"
"""The version of AG-UI that this client reads."""


class Target(msgspec.Struct, frozen=True):
    """Where runs are started, and the address that the routes of runs are under."""

    endpoint: str
    base: str

    def attach(self, run_id: str) -> str:
        """Where a run can be followed, in the same way as where it was started."""
        _, asked, query = self.endpoint.partition("?")
        return (
            f"{self.base}/runs/{quote(run_id, safe='')}/agui?protocolVersion={PROTOCOL_VERSION}{asked and '&'}{query}"
        )

    def cancel(self, run_id: str) -> str:
        """Where a run can be stopped."""
        return f"{self.base}/runs/{quote(run_id, safe='')}/cancel"


def target(url: str, agent: str | None = None) -> Target:
    """The target of ``url``: a server, or any endpoint that ends with ``/agui``. Raises ``ConfigError``.

    ``agent`` asks for one by name; without it the server's default agent, or the endpoint's, is asked.
    """
    parts = _checked(url)
    origin, query = f"{parts.scheme}://{parts.netloc}", f"?{parts.query}" if parts.query else ""
    path = parts.path.rstrip("/")
    found = _ENDPOINT.fullmatch(path)
    if found is None and query:
        raise ConfigError(f"{url!r} has a query; only an endpoint that ends with /agui may have one")
    base = origin + (found["base"] if found else path)
    if agent is None:
        return Target(f"{base}{found['agent'] or '' if found else ''}/agui{query}", base)
    if found and found["agent"] not in (None, f"/agents/{quote(agent, safe='')}"):
        raise ConfigError(
            f"{url!r} is an agent's own endpoint; leave --agent {agent} out, or give the server's address"
        )
    return Target(f"{base}/agents/{quote(agent, safe='')}/agui{query}", base)


def remote(url: str, agent: str | None = None) -> str:
    """Where the A2A agent at ``url``, its address or its card, is looked for. Raises ``ConfigError``.

    ``agent`` asks one of our servers for one by name.
    """
    parts = _checked(url)
    path = parts.path.rstrip("/")
    if _ENDPOINT.fullmatch(path):
        raise ConfigError(f"{url!r} is an AG-UI endpoint; give the address of the agent, or leave --protocol a2a out")
    if parts.query and not path.endswith(".json"):
        raise ConfigError(
            f"{url!r} has a query; of A2A addresses only that of a card, which ends with .json, may have one"
        )
    if agent is None:
        return parts._replace(fragment="").geturl()
    if _A2A.search(path):
        raise ConfigError(f"{url!r} is an agent's own address; leave --agent {agent} out, or give the server's address")
    # The card itself: next to it another agent could be found.
    return f"{parts.scheme}://{parts.netloc}{path}/a2a/{quote(agent, safe='')}/.well-known/agent-card.json"


def spoken(url: str) -> Literal["agui", "a2a"] | None:
    """The protocol that ``url`` is of, by its form: an AG-UI endpoint, or an A2A agent or card. None: it may be any."""
    path = _checked(url).path.rstrip("/")
    if _ENDPOINT.fullmatch(path):
        return "agui"
    return "a2a" if _A2A.search(path) else None


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{url!r} is not the address of a server; write http://HOST:PORT or https://HOST")
    if "@" in parts.netloc:
        raise ConfigError("the address holds a user name; send credentials with --header instead")
    return parts


def headers(lines: Iterable[str]) -> dict[str, str]:
    """``Name: value`` lines as headers. Raises ``ConfigError``, which never shows a value."""
    out: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not _TOKEN.fullmatch(name):
            raise ConfigError('a header is not "Name: value"; its text is not shown, because it may be a secret')
        if name.lower() in _OURS:
            raise ConfigError(f"the header {name} is set by this command; leave it out")
        if _CONTROL.search(value):
            raise ConfigError(f"the value of the header {name} holds a control character")
        out[name.lower()] = value
    return out
