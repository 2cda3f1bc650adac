"""One request of a tool to its agent, as a source: into a context or a task that exists, and what came of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from msgspec import UNSET

from ..errors import SourceError
from ..events import ROOT, Event, Part, PartAdded
from ..request import RunRequest
from ..sources.a2a import A2ASource
from ..sources.a2a._wire import EXTENSION
from ..sources.a2a.attributed import AttributedTranslator


class Hop:
    """Asks ``source``, whose agent is called ``name``, once. With a ``task_id`` it answers what that task asked."""

    EXTENSIONS = (EXTENSION,)
    """What the source has to ask for."""

    def __init__(
        self, source: A2ASource, name: str, context_id: str = "", task_id: str = "", data: Any = UNSET
    ) -> None:
        self._source, self._translator = source, AttributedTranslator(name)
        self.context_id, self._task_id, self._data = context_id, task_id, data
        self._parts: list[Part] = []

    async def open(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        """The agent's items."""
        if self._task_id:
            # The task is told whole again by some agents: what it held before was shown before.
            with suppress(SourceError):
                list(self._translator.feed(await self._source.look(self._task_id)))
            self._translator.go_on()
        items = self._source.open(request, context_id=self.context_id, task_id=self._task_id, data=self._data)
        async with aclosing(items):
            async for item in items:
                yield item

    def translator(self, request: RunRequest) -> Hop:
        """Itself: there is one request."""
        return self

    def feed(self, item: Any) -> Iterable[Event]:
        """The events of an item."""
        return self._noted(self._translator.feed(item))

    def close(self, error: BaseException | None) -> Iterable[Event]:
        """The events owed at the end."""
        return self._noted(self._translator.close(error))

    def artifact(self, url: str) -> dict[str, Any]:
        """For the program that called the tool: where the agent worked, and what it sent besides text."""
        remote = self._translator.remote
        return {
            "url": url,
            "task_id": remote.task_id or self._task_id,
            "context_id": remote.context_id or self.context_id,
            "parts": msgspec.to_builtins(self._parts),
        }

    def _noted(self, events: Iterable[Event]) -> Iterable[Event]:
        for event in events:
            if isinstance(event, PartAdded) and event.agent == ROOT:
                self._parts.append(event.part)
            yield event
