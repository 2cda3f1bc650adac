"""Reading an agent card: where the agent really is, and how to talk to it. Pure.

Agents often advertise the address they listen on, not the one they are reached at: ``0.0.0.0``, ``localhost`` in a
container, ``http`` behind a proxy that speaks TLS, a path without the proxy's prefix. The configured address gave the
card, so it is known to work; ``rpc_url`` says when it wins. It is also the only one that was trusted with credentials:
a card is what somebody else says, so ``read_card`` lets it name no other place to send them to. Nor another agent: the
card at an origin may be of any agent there, so it has to name the configured address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from ...errors import SourceError, scrub
from . import _wire as wire

PORTS = {"http": 80, "https": 443}
"""The schemes that an agent can be reached over, and their ports."""

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where a card is served; the second is the place of older agents."""


class Endpoint(NamedTuple):
    """Where and how to send messages, and in which ``version``, a key of ``METHODS``.

    ``streaming`` is false for agents that only answer as a whole. ``credentials`` are the headers that the card wants
    credentials in, each with dots for what is secret.
    """

    url: str
    name: str
    streaming: bool
    tenant: str = ""
    version: str = wire.VERSION
    credentials: tuple[str, ...] = ()


class Misplaced(SourceError):
    """The agent is not where it was looked for: ``flaw``, and what an operator does about it.

    ``named`` is the address that its card names instead, if that is known.
    """

    def __init__(self, flaw: str, remedy: str, named: str = "") -> None:
        super().__init__(f"{flaw}; {remedy}.", code="agent_protocol")
        self.flaw, self.named = flaw, named


class _Interface(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    protocol_binding: str = ""
    protocol_version: str = ""
    tenant: str | None = None
    transport: str | None = None  # of cards before 1.0


class _Capabilities(msgspec.Struct, frozen=True):
    streaming: bool | None = None


class _Card(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    capabilities: _Capabilities | None = None
    supported_interfaces: list[_Interface] | None = None
    security_schemes: Any = None
    # of cards before 1.0
    protocol_version: str | None = None
    url: str | None = None
    preferred_transport: str | None = None
    additional_interfaces: list[_Interface] | None = None


_decode = msgspec.json.Decoder(_Card).decode
_KINDS = {
    "apiKeySecurityScheme": "apiKey",
    "httpAuthSecurityScheme": "http",
    "oauth2SecurityScheme": "oauth2",
    "openIdConnectSecurityScheme": "openIdConnect",
}
_TOKEN = re.compile(r"[\w!#$%&'*+.^`|~-]{1,64}", re.ASCII)


def card_urls(configured: str) -> list[tuple[str, bool]]:
    """Where to look for the card of the agent at ``configured``, best place first, and whether it is the agent's own.

    An address that ends with ``.json`` is the card's own. A path may be the agent's prefix or its JSON-RPC endpoint, so
    the origin is tried as well, where the card may be another agent's.
    """
    parts = urlsplit(configured)
    if parts.path.endswith(".json"):
        return [(configured, True)]
    own, root = parts.path.rstrip("/"), _root(configured)
    return [(root + path + place, path == own) for path in dict.fromkeys((own, "")) for place in WELL_KNOWN]


def missing(who: str, configured: str, reason: str = "") -> SourceError:
    """The error about ``who``, which has no card in any of these places. ``reason`` is what its server says of that."""
    if reason:
        return Misplaced(f"{who} was not found: {reason}", _CONFIGURE)
    if urlsplit(configured).path.endswith(".json"):
        return Misplaced(f"{who} has no agent card at its address", _CONFIGURE)
    return SourceError(f"{who} has no agent card: neither {' nor '.join(WELL_KNOWN)}.", code="agent_protocol")


_CONFIGURE = "configure the address of an agent, or of its card"


def read_card(data: bytes, configured: str, who: str, *, bound: bool, own: bool = True, here: bool = False) -> Endpoint:
    """The endpoint that a card names, for messages over JSON-RPC. ``bound``: requests carry credentials.

    The first one of A2A 1.0 is taken, or else the first one of an older version. One that does not say its version is
    of 1.0 when it is where 1.0 has it (``supportedInterfaces``), and older when it is where older cards have it.
    A card that is not the agent's ``own`` one, by its place, counts when one of its interfaces is at ``configured``,
    which is preferred then. ``here``: the configured origin wins over any that the card names.

    Raises ``SourceError`` (``agent_protocol``) about ``who`` when ``data`` is no card, names no such endpoint, or names
    one that cannot be used or that credentials of ``configured`` would have to go to.
    """
    try:
        card = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise SourceError(f"{who} has an agent card that cannot be read.", code="agent_protocol") from None
    offered = list(_offered(card))
    near = [each for each in offered if own or _is_at(each[2].url, configured, here)]
    if not own:
        if not near:
            flaw = "has no agent card at its address, and the one at the root of its server is another agent's"
            raise Misplaced(f"{who} {flaw}", _CONFIGURE)
        configured = _root(configured)
    spoken = [each for each in (*near, *offered) if each[0] and each[1] == "JSONRPC"]
    if not spoken:
        raise SourceError(f"{who} {_unspoken(offered)}.", code="agent_protocol")
    version, _, interface = max(spoken, key=lambda each: (each in near, each[0]))
    streaming = bool(card.capabilities and card.capabilities.streaming)
    url = _checked_url(interface.url, configured, who, bound, here)
    return Endpoint(
        url, card.name or "", streaming, interface.tenant or "", version, credentials(card.security_schemes)
    )


def _root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _is_at(advertised: str, configured: str, here: bool) -> bool:
    """Whether an address on the card at the origin of ``configured`` is that one."""
    try:
        url = rpc_url(advertised, _root(configured), here)
        return origin(url) == origin(configured) and _path(url) == _path(configured)
    except ValueError:
        return False


def _path(url: str) -> str:
    return urlsplit(url).path.rstrip("/")


def credentials(schemes: Any) -> tuple[str, ...]:
    """The headers that ``securitySchemes`` of a card ask for, as ``Endpoint.credentials`` has them."""
    found = [_header(scheme) for scheme in schemes.values()] if isinstance(schemes, dict) else []
    return tuple(dict.fromkeys(header for header in found if header))


def _header(scheme: Any) -> str:
    """The header of one scheme of 1.0 (a member that is named for its kind) or of 0.3 (``type``)."""
    if not isinstance(scheme, dict):
        return ""
    said = next(
        ({"type": _KINDS[key]} | it for key, it in scheme.items() if key in _KINDS and isinstance(it, dict)), scheme
    )
    kind, name = said.get("type"), said.get("scheme" if said.get("type") == "http" else "name")
    if kind in ("oauth2", "openIdConnect"):
        return "Authorization: Bearer ..."
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        return ""
    if kind == "http":
        return f"Authorization: {name[:1].upper()}{name[1:]} ..."
    place = said.get("location", said.get("in"))
    return {"header": f"{name}: ...", "cookie": f"Cookie: {name}=..."}.get(str(place), "") if kind == "apiKey" else ""


def _offered(card: _Card) -> Iterator[tuple[str, str, _Interface]]:
    """Each interface on the card: the version that is to be spoken with it (``""``: we cannot) and its transport."""
    for interface in card.supported_interfaces or ():
        version = _spoken(interface.protocol_version or wire.VERSION)
        yield version, interface.protocol_binding.upper(), interface
    version = _spoken(card.protocol_version or wire.LEGACY)
    if card.url is not None:
        yield version, (card.preferred_transport or "JSONRPC").upper(), _Interface(card.url)
    for interface in card.additional_interfaces or ():
        yield version, (interface.transport or "").upper(), interface


def _spoken(version: str) -> str:
    return {"1": wire.VERSION, "0": wire.LEGACY}.get(version.strip().removeprefix("v").split(".")[0], "")


def _unspoken(offered: list[tuple[str, str, _Interface]]) -> str:
    if not offered:
        return "has an agent card without an interface"
    if transports := {transport for version, transport, _ in offered if version}:
        return f"speaks A2A over {', '.join(sorted(transports))} only; JSONRPC is needed"
    return f"speaks another A2A than {wire.VERSION} and {wire.LEGACY}"


def _checked_url(advertised: str, configured: str, who: str, bound: bool, here: bool) -> str:
    try:
        url = rpc_url(advertised, configured, here)
        foreign = origin(url) != origin(configured)
    except ValueError as error:
        flaw = "without a usable address; it must be an https:// URL, or http:// if ours is, and hold no user name"
        raise SourceError(f"{who} has an agent card {flaw}.", code="agent_protocol") from error
    if foreign and (bound or "@" in urlsplit(configured).netloc):
        flaw = f"{who} has an agent card that names another address, and credentials are not sent there"
        cause = ValueError(f"the card names {scrub(url)}")
        raise Misplaced(flaw, "configure that address if it is right", scrub(url)) from cause
    return url


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of ``url``. Raises ``ValueError`` when it is no address that requests can be sent to."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"{scrub(url)!r} is no http:// or https:// URL")
    return parts.scheme, parts.hostname, PORTS[parts.scheme] if parts.port is None else parts.port


def rpc_url(advertised: str, configured: str, here: bool = False) -> str:
    """The address to send messages to, of an agent reached at ``configured`` whose card says ``advertised``.

    A relative address is resolved, and one of the same origin or of a host of its own is taken as it is. But scheme,
    host and port of ``configured`` win over a card's host that is unspecified or a loopback (what the agent sees of
    itself), and over the same host under another scheme or port (what is behind a proxy); the configured path is then
    the prefix of the card's, unless that has it already. ``here``: so they do over any other host. Raises
    ``ValueError`` for an address that cannot be used.
    """
    base, there = urlsplit(configured), urlsplit(urljoin(configured, advertised))
    place = origin(there.geturl())
    if not here and place[1] != base.hostname and not _is_local(place[1]):
        if "@" in there.netloc or (base.scheme, there.scheme) == ("https", "http"):
            raise ValueError(f"{scrub(there.geturl())!r} has a user name or gives TLS up")
        return there.geturl()
    prefix = "" if place == origin(configured) or base.path.endswith(".json") else base.path.rstrip("/")
    inside = there.path == prefix or there.path.startswith(prefix + "/")
    path = there.path if inside else prefix + there.path
    return there._replace(scheme=base.scheme, netloc=base.netloc, path=path).geturl()


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
