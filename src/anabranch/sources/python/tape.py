"""Items of the ``python`` source as JSON values, and back. Pure.

Text is a string, an event an object with its ``type``; of anything else the name of its type is kept.
"""

from __future__ import annotations

from typing import Any

from .._tape import Loader, dump_event
from .translate import PythonTranslator


def dump(item: Any) -> Any:
    """``item`` as a JSON value."""
    return str.__str__(item) if isinstance(item, str) else dump_event(item)


class PythonLoader(Loader):
    """Reads the items of one recording."""

    def item(self, value: Any) -> Any:
        """What ``dump`` wrote."""
        return value if isinstance(value, str) else self.event(value)


loader = PythonLoader


def translator(settings: dict[str, Any]) -> PythonTranslator:
    """A translator for a recording; it needs no settings."""
    return PythonTranslator()
