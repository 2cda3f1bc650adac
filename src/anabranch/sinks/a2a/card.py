"""The agent card: who the agent is, where it is reached and how, for clients of 1.0 and of 0.3 at once. Pure.

A client of 1.0 reads ``supportedInterfaces`` and ignores what it does not know; one of 0.3 reads ``url`` and what is
beside it. What both have under one name (skills, schemes) says it in both ways, as the official servers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .profile import EXTENSION

Payload = dict[str, Any]

MODES = ["text/plain", "application/json"]
"""What an agent takes and gives unless it says otherwise."""

_SCHEMES = {
    "apiKeySecurityScheme": "apiKey",
    "httpAuthSecurityScheme": "http",
    "oauth2SecurityScheme": "oauth2",
    "openIdConnectSecurityScheme": "openIdConnect",
    "mtlsSecurityScheme": "mutualTLS",
}
"""Kinds of security schemes in 1.0 and in 0.3."""


def card(
    name: str,
    description: str,
    url: str,
    *,
    rest_url: str = "",
    version: str = "0",
    skills: Sequence[Mapping[str, Any]] = (),
    security: Mapping[str, Any] | None = None,
) -> Payload:
    """The card of the agent whose JSON-RPC address is ``url`` and whose REST address is ``rest_url`` (``""``: url).

    ``skills`` are in the JSON of 1.0; without any, the agent itself is one. So is ``security``, which may have
    ``securitySchemes`` and ``securityRequirements``.
    """
    places = {"JSONRPC": url, "HTTP+JSON": rest_url or url}
    said: Payload = {
        "name": name,
        "description": description,
        "version": version,
        "supportedInterfaces": [
            {"url": place, "protocolBinding": binding, "protocolVersion": spoken}
            for spoken in ("1.0", "0.3")
            for binding, place in places.items()
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extensions": [_extension()]},
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [dict(skill) for skill in skills] or [_skill(name, description)],
    }
    before = {
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": place, "transport": binding} for binding, place in places.items()],
    }
    return said | before | (_security(security) if security else {})


def _extension() -> Payload:
    text = "Who said what: sub-agents, tool calls, reasoning and routing, in the metadata of artifacts and statuses."
    return {"uri": EXTENSION, "description": text, "required": False}


def _skill(name: str, description: str) -> Payload:
    return {"id": name, "name": name, "description": description, "tags": ["agent"]}


def _security(security: Mapping[str, Any]) -> Payload:
    """``security``, with what a client of 0.3 reads beside it."""
    said: Payload = {"securitySchemes": {name: _scheme(it) for name, it in security.get("securitySchemes", {}).items()}}
    if required := security.get("securityRequirements"):
        said["securityRequirements"] = required
        said["security"] = [
            {name: scopes.get("list", []) for name, scopes in each["schemes"].items()} for each in required
        ]
    return said


def _scheme(said: Mapping[str, Any]) -> Payload:
    """A scheme of 1.0, with what one of 0.3 has beside it."""
    [(kind, fields)] = said.items()
    legacy = {"in" if field == "location" else field: value for field, value in fields.items()}
    return {kind: dict(fields), "type": _SCHEMES[kind]} | legacy
