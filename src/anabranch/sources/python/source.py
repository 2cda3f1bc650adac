"""An async generator function as an agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from ...events import Event
from ...request import RunRequest
from . import tape
from .translate import PythonTranslator

Agent = Callable[[RunRequest], AsyncIterator[str | Event]]
"""Called once a run; yields pieces of text and events."""


class PythonSource:
    """``Source`` over an async generator function of one argument, the ``RunRequest``."""

    kind = "python"
    dump = staticmethod(tape.dump)

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def open(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        """What the agent yields, until it returns."""
        items = self._agent(request)
        try:
            async for item in items:
                yield item
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    def settings(self, request: RunRequest) -> dict[str, Any]:
        """Of the translator: none."""
        return {}

    def translator(self, request: RunRequest) -> PythonTranslator:
        """A fresh translator."""
        return PythonTranslator()
