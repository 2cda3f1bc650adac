"""A message on its way to an agent, and what is known of the task that answers it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from ...errors import SourceError, scrub
from ...transports.sse import Parser
from .._http import Answer
from . import _legacy as legacy
from . import _wire as wire
from ._card import Endpoint

_CURSOR = re.compile(r"(.+):(\d{1,18})\.(\d{1,9})", re.DOTALL | re.ASCII)


def place(cursor: str) -> tuple[str, int, int] | None:
    """Where in which run the event with this id is, of an agent of our own kind."""
    found = _CURSOR.fullmatch(cursor)
    return (found[1], int(found[2]), int(found[3])) if found else None


def parted(who: str, item: bytes) -> SourceError:
    """What an agent of our own kind said when it broke its stream off."""
    error = wire.decode(item).error or wire.Error()
    text = scrub(f"{who} broke its stream off: {error.message or 'it did not say why'}")
    return SourceError(text, code="agent_disconnected", retryable=True)


class Watch:
    """What the reader of a stream has to know of the items it only passes on: the task's id, and whether it is over.

    Once the task is known this costs a search for a few bytes an item. A task that ``goes_on`` may first be told as it
    was when it asked, which is no end.
    """

    def __init__(self, goes_on: bool = False) -> None:
        self._goes_on = goes_on
        self.task_id = ""
        self.works = False  # there is a task, and not only a message that names one
        self.over = False
        self._decode = wire.decode

    def see(self, data: bytes) -> None:
        """Take note of one item."""
        if self.works and b'"state"' not in data and b'"error"' not in data:
            return
        try:
            response = self._decode(data)
            if wire.is_legacy(response):
                self._decode = legacy.decode
                response = legacy.decode(data)
        except SourceError:
            return  # the translator says what is wrong with it
        result = response.result or wire.Result()
        self.task_id = self.task_id or wire.place(result)[0]
        self.works = self.works or bool(self.task_id and result.message is None)
        holder = result.task or result.status_update
        end = wire.end(holder.status) if holder is not None else None
        was_asking = self._goes_on and result.task is not None and end in wire.ASKING
        self._goes_on = False
        self.over = response.error is not None or (end is not None and not was_asking)


class Asked:
    """One message, in the task ``task_id`` if that is one that asked. ``sending`` gets the answer to it."""

    sending: asyncio.Task[Answer]

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str], task_id: str = "") -> None:
        self.endpoint, self.headers = endpoint, headers
        self.sent = False
        self.cursor = ""  # the id of the newest event, of an agent that gives ids
        self.parting = b""  # why such an agent does not go on in this stream, though its task does
        self.parser, self.watch = Parser(), Watch(goes_on=bool(task_id))

    def was_sent(self) -> None:
        """The agent may have read the message."""
        self.sent = True

    def streams(self, answer: Answer) -> bool:
        """Whether items come one by one."""
        return answer.status == 200 and answer.kind == "text/event-stream"

    @property
    def streamed(self) -> bool:
        """Whether those of the answer did."""
        return self.streams(self.sending.result())

    def take(self, chunk: bytes) -> list[bytes]:
        """The items in the next piece of the stream, all of them seen."""
        events = self.parser.feed(chunk)
        if events:
            self.cursor = events[-1].id
            if events[-1].event == "error" and place(self.cursor):
                self.parting = events.pop().data
        items = [event.data for event in events]
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
