"""What is asked of any field of a request, and how a wrong one is refused. Pure."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

import msgspec

from ...errors import ClientError

ID_LIMIT = 256
"""Characters the id of a context may have, and of a run."""
LONG_ID = 1024
"""Characters that any other id may have."""

_T = TypeVar("_T")


def converted(raw: Any, kind: type[_T], strict: bool) -> _T:
    """``raw`` as a ``kind``; not ``strict``: numbers may be text. Raises ``ClientError``."""
    try:
        return msgspec.convert(raw, kind, strict=strict)
    except msgspec.ValidationError as error:
        flaw, _, within = str(error).partition(" - at `$")
        path = within.rstrip("`").lstrip(".") or "params"
        bad(path, flaw[:1].lower() + flaw[1:].replace("`", ""))


def checked_id(value: Any, field: str, limit: int = ID_LIMIT) -> str:
    """``value``, an id. Raises ``ClientError``."""
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        bad(field, f"it is {shown(value)}; send a string of 1 to {limit} characters")
    return value


def checked_context_id(value: Any, field: str) -> str:
    """``value``, the id of a context. Raises ``ClientError``."""
    if not checked_id(value, field).isprintable() or value != value.strip():
        bad(field, f"it is {shown(value)}; send printable characters")
    return str(value)


def shown(value: Any) -> str:
    """``value`` for a message."""
    return "missing" if value is None else msgspec.json.encode(value).decode(errors="replace")[:60]


def bad(field: str, flaw: str) -> NoReturn:
    """Refuse a ``field``: say what is wrong with it, and what to send."""
    refuse(f"{field} cannot be used: {flaw}", "bad_input")


def refuse(text: str, code: str) -> NoReturn:
    """Raise ``ClientError``."""
    raise ClientError(text, code=code)
