"""A server whose protocol nobody said: it is asked over AG-UI, and over A2A when it does not know what that is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from .client import Client
from .peer import Peer
from .trail import Batch, ChatError, NotAgui

if TYPE_CHECKING:
    from .a2a import A2aPeer


class Guess:
    """``agui``, as long as it is not refused; then what ``a2a`` makes, if that has an agent card.

    An AG-UI server gets no other request than without the guess, and no message is sent twice to who may have read it.
    """

    def __init__(self, agui: Client, a2a: Callable[[], A2aPeer]) -> None:
        self._agui, self._a2a = agui, a2a
        self._peer: Peer = agui

    async def __aenter__(self) -> Guess:
        await self._agui.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._agui.__aexit__()
        if self._peer is not self._agui:
            await self._peer.__aexit__()

    async def run(self, body: Mapping[str, Any]) -> AsyncGenerator[Batch, None]:
        """See ``Peer.run``."""
        try:
            async with aclosing(self._peer.run(body)) as batches:
                async for batch in batches:
                    yield batch
            return
        except NotAgui as refusal:
            await self._turn(refusal)
        async with aclosing(self._peer.run(body)) as batches:
            async for batch in batches:
                yield batch

    async def cancel(self, run_id: str) -> bool:
        """See ``Peer.cancel``."""
        return await self._peer.cancel(run_id)

    def ids(self, body: Mapping[str, Any]) -> dict[str, str]:
        """See ``Peer.ids``."""
        return self._peer.ids(body)

    async def _turn(self, refusal: NotAgui) -> None:
        """Ask over A2A from now on. Raises ``ChatError`` when there is no such agent either."""
        agent = self._a2a()
        try:
            await agent.find()
        except ChatError as error:
            await agent.__aexit__()
            raise ChatError(f"{refusal}. Over A2A: {error}", code=refusal.code) from error
        self._peer = agent
