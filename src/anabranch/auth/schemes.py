"""What an agent card says of credentials (A2A 1.0, section 4.5). Pure."""

from __future__ import annotations

from typing import Any

from ..config.callers import API_KEY_HEADER, Callers


def schemes(section: Callers | None) -> dict[str, Any]:
    """``securitySchemes`` and ``securityRequirements`` of a card: any one of the schemes will do.

    Without requirements when callers may be anonymous, and nothing at all without authentication.
    """
    if section is None:
        return {}
    known: dict[str, Any] = {}
    if section.context_header is not None:
        known["context"] = _api_key("header", section.context_header.name, "A signed context, from the gateway")
    if section.jwt is not None:
        known["bearer"] = {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}}
    if section.api_keys_file is not None:
        known["apiKey"] = _api_key("header", API_KEY_HEADER, "An API key")
    if section.session_cookie is not None:
        known["session"] = _api_key("cookie", section.session_cookie.name, "The session of a user who is logged in")
    required: list[Any] = [{"schemes": {name: {"list": []}}} for name in known] if section.anonymous is False else []
    return {
        **({"securitySchemes": known} if known else {}),
        **({"securityRequirements": required} if required else {}),
    }


def _api_key(location: str, name: str, description: str) -> dict[str, Any]:
    return {"apiKeySecurityScheme": {"location": location, "name": name, "description": description}}
