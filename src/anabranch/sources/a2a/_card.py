"""Reading an agent card: where the agent really is, and how to talk to it. Pure.

Agents often advertise the address they listen on, not the one they are reached at: ``0.0.0.0``, ``localhost`` in a
container, ``http`` behind a proxy that speaks TLS, a path without the proxy's prefix. The configured address gave the
card, so it is known to work; ``rpc_url`` says when it wins.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from ...errors import SourceError

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where a card is served; the second is the place of older agents."""


class Endpoint(NamedTuple):
    """Where and how to send messages. ``streaming`` is false for agents that only answer as a whole."""

    url: str
    name: str
    streaming: bool
    tenant: str


class _Interface(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    protocol_binding: str = ""
    protocol_version: str = ""
    tenant: str | None = None


class _Capabilities(msgspec.Struct, frozen=True):
    streaming: bool | None = None


class _Card(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    capabilities: _Capabilities | None = None
    supported_interfaces: list[_Interface] | None = None
    protocol_version: str | None = None  # of cards before 1.0
    url: str | None = None


_decode = msgspec.json.Decoder(_Card).decode


def card_urls(configured: str) -> list[str]:
    """Where to look for the card of the agent at ``configured``, best place first.

    An address that ends with ``.json`` is the card's own. A path may be the agent's prefix or its JSON-RPC endpoint, so
    the origin is tried as well.
    """
    parts = urlsplit(configured)
    if parts.path.endswith(".json"):
        return [configured]
    origin = f"{parts.scheme}://{parts.netloc}"
    bases = dict.fromkeys((origin + parts.path.rstrip("/"), origin))
    return [base + path for base in bases for path in WELL_KNOWN]


def read_card(data: bytes, configured: str, who: str) -> Endpoint:
    """The endpoint that a card names, for messages of A2A 1.0 over JSON-RPC.

    Raises ``SourceError`` (``agent_protocol``) about ``who`` when ``data`` is no card or names no such endpoint.
    """
    try:
        card = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise SourceError(f"{who} has an agent card that cannot be read.", code="agent_protocol") from None
    interfaces = card.supported_interfaces or []
    spoken = [i for i in interfaces if i.protocol_version.split(".")[0] in ("1", "")]
    for interface in spoken:
        if interface.protocol_binding.upper() == "JSONRPC":
            url = rpc_url(interface.url, configured)
            streaming = bool(card.capabilities and card.capabilities.streaming)
            return Endpoint(url, card.name or "", streaming, interface.tenant or "")
    raise SourceError(f"{who} {_unspoken(card, spoken)}.", code="agent_protocol")


def _unspoken(card: _Card, spoken: list[_Interface]) -> str:
    if spoken:
        return f"speaks A2A over {', '.join(sorted({i.protocol_binding for i in spoken}))} only; JSONRPC is needed"
    version = (card.protocol_version or "") or "".join(
        i.protocol_version for i in (card.supported_interfaces or [])[:1]
    )
    if version or card.url:
        return f"speaks A2A {version or '0.3'} only, which is not supported yet; version 1.0 is needed"
    return "has an agent card without an interface"


def rpc_url(advertised: str, configured: str) -> str:
    """The address to send messages to, of an agent reached at ``configured`` whose card says ``advertised``.

    A relative address is resolved, and one of the same origin or of a host of its own is taken as it is. But scheme,
    host and port of ``configured`` win over a card's host that is unspecified or a loopback (what the agent sees of
    itself), and over the same host under another scheme or port (what is behind a proxy); the configured path is then
    the prefix of the card's, unless that has it already.
    """
    base = urlsplit(configured)
    there = urlsplit(urljoin(configured, advertised))
    foreign = there.hostname != base.hostname and not _is_local(there.hostname)
    if foreign or (there.scheme, there.hostname, there.port) == (base.scheme, base.hostname, base.port):
        return there.geturl()
    prefix = "" if base.path.endswith(".json") else base.path.rstrip("/")
    inside = there.path == prefix or there.path.startswith(prefix + "/")
    path = there.path if inside else prefix + there.path
    return there._replace(scheme=base.scheme, netloc=base.netloc, path=path).geturl()


def _is_local(host: str | None) -> bool:
    if not host or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
