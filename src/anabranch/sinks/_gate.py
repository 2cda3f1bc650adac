"""What a sink needs from the rest: runs to start and to watch. ``app`` provides it.

So sinks know nothing of the middle.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from starlette.requests import HTTPConnection

from ..identity import Principal
from ..log._base import Entry
from ..request import RunRequest

Batches = AbstractAsyncContextManager[AsyncIterator[Sequence[Entry]]]
"""A watched run: entered while somebody watches."""


class Gate(Protocol):
    """Runs, for callers that the gate identifies. Every method raises ``ClientError`` for a 4xx."""

    async def identify(self, caller: HTTPConnection) -> Principal:
        """Who is asking; first, so that nothing is read of a stranger's request. Raises ``ClientError`` 401."""

    async def start(self, principal: Principal, agent: str | None, request: RunRequest) -> Batches:
        """Start a run of ``agent`` (None: the default one), or join the same request's, and watch it from the start."""
