"""What an endpoint sends: one chunk of a stream, a whole completion, or an error. Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from .._foreign import listed

DONE = b"[DONE]"
"""The last item of a stream."""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """The fields that are read. What endpoints write into them is checked where it is used."""

    id: Any = None
    object: Any = None
    model: Any = None
    choices: Any = None
    usage: Any = None
    error: Any = None
    message: Any = None
    code: Any = None
    type: Any = None


def is_object(text: str) -> bool:
    """Whether ``text`` is one JSON object, by the book: Python's own reader also takes ``NaN``."""
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


_decode = msgspec.json.Decoder(Chunk).decode


def read(data: bytes) -> Chunk | None:
    """The chunk in ``data``; None when it is no JSON object."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        # Half of a surrogate pair and broken UTF-8 are what msgspec refuses and a careless endpoint sends.
        found = json.loads(data.decode(errors="replace"))
        return msgspec.convert(next(iter(listed(found)), {}), Chunk)  # Gemini puts its errors into a list
    except (ValueError, msgspec.ValidationError, RecursionError):
        return None
