"""A source whose agent has a limited time for the whole of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ..errors import SourceError
from ..request import RunRequest


class Limited:
    """``source``, whose runs are stopped after ``total_s`` seconds: ``SourceError`` ``agent_timeout_total``.

    Everything else is as it is there. ``name`` is what the error calls the agent.
    """

    def __init__(self, source: Any, total_s: float, name: str) -> None:
        self._source, self._total_s, self._name = source, total_s, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def open(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        """The items, as long as there is time. What the agent was doing is stopped as a cancel would stop it."""
        deadline = asyncio.get_running_loop().time() + self._total_s
        async with aclosing(self._source.open(request)) as items:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        item = await anext(items)
                except StopAsyncIteration:
                    return
                except TimeoutError as error:
                    if asyncio.get_running_loop().time() < deadline:
                        raise  # the agent's own
                    text = f"The agent {self._name} did not finish within {self._total_s:g} s."
                    raise SourceError(text, code="agent_timeout_total", retryable=True) from error
                yield item
