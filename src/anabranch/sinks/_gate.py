"""What a sink needs from the rest: runs to start, to find and to watch. ``app`` provides it.

So sinks know nothing of the middle.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from starlette.requests import HTTPConnection

from ..identity import Principal
from ..log._base import Bounds, Checkpoint, Entry
from ..request import Message, RunRequest

Batches = AbstractAsyncContextManager[AsyncIterator[Sequence[Entry]]]
"""A watched run: entered while somebody watches."""


class Watched(Protocol):
    """One run that a caller may read, from any point and any number of times."""

    @property
    def run_id(self) -> str:
        """The caller's id of it."""

    @property
    def thread_id(self) -> str:
        """The caller's id of its thread."""

    @property
    def dialect(self) -> str:
        """``RunRequest.dialect`` of the request that started it."""

    def watch(self, after: int = 0) -> Batches:
        """Follow it from the entry after ``after`` to its end. Whoever leaves before that is a watcher who left."""

    async def bounds(self) -> Bounds:
        """Which entries there are."""

    async def read(self, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """At most ``limit`` entries after ``after``, without watching."""

    async def history(self) -> tuple[Message, ...]:
        """The conversation that it goes on from, with the messages it was given, without those it wrote."""

    async def checkpoint(self, reader: str, upto: int) -> Checkpoint | None:
        """``RunLog.checkpoint``."""

    def keep_checkpoint(self, reader: str, checkpoint: Checkpoint) -> None:
        """``RunLog.keep_checkpoint``."""


class Gate(Protocol):
    """Runs, for callers that the gate identifies. Every method raises ``ClientError`` for a 4xx."""

    async def identify(self, caller: HTTPConnection) -> Principal:
        """Who is asking; first, so that nothing is read of a stranger's request. Raises ``ClientError`` 401."""

    async def start(self, principal: Principal, agent: str | None, request: RunRequest) -> Watched:
        """Start a run of ``agent`` (None: the default one), or find the one that the same request started."""

    async def find(self, principal: Principal, run_id: str) -> Watched:
        """The caller's run of that id. Raises ``NotFound``, also when it is no longer kept."""
