"""Items of the supervisor as JSON values, and back. Pure.

An event is an object with its ``type``, under ``event``; anything else is a part as the ``langgraph`` source has it.
"""

from __future__ import annotations

from typing import Any

from ..events import EVENT_TYPES
from ..sources._tape import dump_event
from ..sources.langgraph import tape as langgraph
from .translate import SupervisorTranslator


def dump(item: Any) -> Any:
    """``item`` as a JSON value."""
    return {"event": dump_event(item)} if isinstance(item, EVENT_TYPES) else langgraph.dump(item)


class SupervisorLoader(langgraph.LangGraphLoader):
    """Reads the items of one recording."""

    def item(self, value: Any) -> Any:
        """What ``dump`` wrote."""
        if isinstance(value, dict) and value.keys() == {"event"}:
            return self.event(value["event"])
        return super().item(value)


loader = SupervisorLoader


def translator(settings: dict[str, Any]) -> SupervisorTranslator:
    """A translator for a recording. ``resumed``: the run answered an interrupt."""
    return SupervisorTranslator(resumed=settings.get("resumed") is True)
