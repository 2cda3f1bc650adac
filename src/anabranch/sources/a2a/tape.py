"""Items of the ``a2a`` source as JSON values, and back. Pure.

An item is one JSON-RPC response as it came, so a recording has it as one string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import SourceError
from .. import _captured
from .._tape import BytesLoader, dump_bytes
from .attributed import AttributedTranslator
from .translate import A2ATranslator

dump = dump_bytes
loader = BytesLoader


def translator(settings: dict[str, Any]) -> A2ATranslator | AttributedTranslator:
    """A translator for a recording: ``name`` is what the agent is called, ``attributed`` whether it says who speaks."""
    name = str(settings.get("name") or "")
    return AttributedTranslator(name) if settings.get("attributed") is True else A2ATranslator(name)


def captured(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The items of a captured answer."""
    return _captured.captured(lines, SourceError("The agent stopped inside an event.", code="agent_disconnected"))
