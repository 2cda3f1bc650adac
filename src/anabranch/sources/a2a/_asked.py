"""A message on its way to an agent, and what is known of the task that answers it."""

from __future__ import annotations

import asyncio

from ...transports.sse import Parser
from .._http import Answer
from . import _wire as wire
from ._card import Endpoint


class Asked:
    """One message. ``sending`` gets the answer to it."""

    sending: asyncio.Task[Answer]

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.sent = False
        self.parser, self.watch = Parser(), wire.Watch()

    def was_sent(self) -> None:
        """The agent may have read the message."""
        self.sent = True

    def streams(self, answer: Answer) -> bool:
        """Whether items come one by one."""
        return answer.status == 200 and answer.kind == "text/event-stream"

    def take(self, chunk: bytes) -> list[bytes]:
        """The items in the next piece of the stream, all of them seen."""
        items = [event.data for event in self.parser.feed(chunk)]
        for item in items:
            self.watch.see(item)
        return items

    async def reads_on(self) -> bool:
        """Read a piece for which nobody waits but the watch; whether there was one."""
        answer = await self.sending
        if self.streams(answer):
            chunk = await answer.read()
            self.take(chunk)
            return bool(chunk)
        self.watch.see(await answer.body())
        return False

    def close(self) -> None:
        """Close the connection."""
        if self.sending.done() and not self.sending.cancelled() and self.sending.exception() is None:
            self.sending.result().close()
        self.sending.cancel()
