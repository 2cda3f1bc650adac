"""Who is asking: credentials verified, anonymous callers told apart, and what of a request may go on to agents."""

from __future__ import annotations

from .cookies import bearing, note
from .errors import Unauthorized
from .forward import carrying, enter, forwarded, outgoing
from .identifier import Found, Identifier
from .schemes import schemes

__all__ = (
    "Found",
    "Identifier",
    "Unauthorized",
    "bearing",
    "carrying",
    "enter",
    "forwarded",
    "note",
    "outgoing",
    "schemes",
)
