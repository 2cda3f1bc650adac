"""Items of the ``openai`` source as JSON values, and back. Pure.

An item is the ``data`` of one server-sent event as it came, so a recording has it as one string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import SourceError
from .. import _captured
from .._tape import BytesLoader, dump_bytes
from .translate import OpenAITranslator

dump = dump_bytes
loader = BytesLoader


def translator(settings: dict[str, Any]) -> OpenAITranslator:
    """A translator for a recording: ``model`` is what the model is called, ``tools`` are the client's, if known."""
    tools = settings.get("tools")
    named = [name for name in tools if isinstance(name, str)] if isinstance(tools, list) else None
    return OpenAITranslator(str(settings.get("model") or ""), named)


def captured(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The items of a captured answer."""
    text = "The model stopped inside an event."
    return _captured.captured(lines, SourceError(text, code="model_disconnected", retryable=True))
