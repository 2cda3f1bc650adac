"""What the chat asks, in whatever protocol: runs as AG-UI asks for them and tells them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

from .trail import Batch


class Peer(Protocol):
    """A server, or an agent. Enter it for its connections."""

    async def __aenter__(self) -> Peer: ...

    async def __aexit__(self, *_: object) -> None: ...

    def run(self, body: Mapping[str, Any]) -> AsyncGenerator[Batch, None]:
        """The frames of the run that ``body`` (a RunAgentInput) asks for, up to its terminal event.

        Raises ``ChatError`` when the run does not start, or its end does not come.
        """

    async def cancel(self, run_id: str) -> bool:
        """Have a run stopped. False when there is no way to do so."""

    def ids(self, body: Mapping[str, Any]) -> dict[str, str]:
        """What the run that ``body`` asks for, and its thread, are called there; ``""`` while that is not known."""
