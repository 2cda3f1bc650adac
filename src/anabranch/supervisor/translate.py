"""Items of a supervisor's run as events: those of its own, and parts of its graph's stream. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..events import EVENT_TYPES, Event, Routed
from ..sources.langgraph.translate import LangGraphTranslator
from ..sources.python import PythonTranslator


class SupervisorTranslator:
    """``Translator``. The last route decides whose end is the run's: the graph's, or that of the agents it asks."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._own = PythonTranslator()
        self._graph = LangGraphTranslator(resumed=resumed)
        self._is_graphs = True

    def feed(self, item: Any) -> Iterable[Event]:
        """One item."""
        if not isinstance(item, EVENT_TYPES):
            return self._graph.feed(item)
        if isinstance(item, Routed):
            self._is_graphs = item.route == "supervisor"
        return self._own.feed(item)

    def close(self, error: BaseException | None) -> Iterable[Event]:
        """How the run ended."""
        return self._graph.close(error) if self._is_graphs else self._own.close(error)
