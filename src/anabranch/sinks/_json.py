"""JSON that every client reads right. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

SAFE = 2**53 - 1
"""The largest integer that every client knows exactly."""

_LONG = re.compile(rb"\d{16}")
_encode = msgspec.json.Encoder().encode


def to_json(payload: Any) -> bytes:
    """``payload`` as one line. An integer that JavaScript would round is written as a string."""
    data = _encode(payload)
    return _encode(_exact(msgspec.json.decode(data))) if _LONG.search(data) else data


def _exact(copy: Any) -> Any:
    """``copy`` with its long integers as text. It is changed in place, level by level: it may have any depth."""
    level = [copy]
    while level:
        inner: list[Any] = []
        for holder in level:
            for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
                if isinstance(item, dict | list):
                    inner.append(item)
                elif isinstance(item, int) and not -SAFE <= item <= SAFE:
                    holder[key] = str(item)  # its key is not new: a dict may be changed so while it is read
        level = inner
    return copy
