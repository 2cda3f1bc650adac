"""Who is asking, and what they may do. Pure."""

from __future__ import annotations

import msgspec

from .encodable import is_encodable
from .errors import ClientError, NotFound

ID_LIMIT = 512
"""Characters the id of a principal may have."""


class Principal(msgspec.Struct, frozen=True):
    """A caller. ``id`` names one user for ever; two callers with the same ``id`` are the same user."""

    id: str


def identified(found: Principal | str | None) -> Principal:
    """Who is asking, when ``found`` says so. Raises ``ClientError`` 401 for nobody and for an id that names no user."""
    if not found:
        raise ClientError("who is asking? no valid credential was given", code="unauthorized", status=401)
    found = Principal(found) if isinstance(found, str) else found
    if not 0 < len(found.id) <= ID_LIMIT or not is_encodable(found.id):
        problem = f"who is asking? an id is whole text of 1 to {ID_LIMIT} characters"
        raise ClientError(problem, code="unauthorized", status=401)
    return found


LOCAL = Principal("local")
"""Everybody, on a server without authentication."""


def may(principal: Principal, action: str, owner: str) -> bool:
    """Whether ``principal`` may do ``action`` (``read``, ``cancel``) to what belongs to the principal id ``owner``."""
    return principal.id == owner


def require(principal: Principal, action: str, owner: str, what: str) -> None:
    """Raise ``NotFound`` unless ``may``: that something exists is its owner's to know."""
    if not may(principal, action, owner):
        raise NotFound(f"there is no {what}")
