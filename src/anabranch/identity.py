"""Who is asking, and what they may do. Pure."""

from __future__ import annotations

import msgspec

from .errors import NotFound


class Principal(msgspec.Struct, frozen=True):
    """A caller. ``id`` names one user for ever; two callers with the same ``id`` are the same user."""

    id: str


LOCAL = Principal("local")
"""Everybody, on a server without authentication."""


def may(principal: Principal, action: str, owner: str) -> bool:
    """Whether ``principal`` may do ``action`` (``read``, ``cancel``) to what belongs to the principal id ``owner``."""
    return principal.id == owner


def require(principal: Principal, action: str, owner: str, what: str) -> None:
    """Raise ``NotFound`` unless ``may``: that something exists is its owner's to know."""
    if not may(principal, action, owner):
        raise NotFound(f"there is no {what}")
