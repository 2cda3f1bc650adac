"""Reading on in a task whose stream ended before the task did.

An agent of our own kind, whose events have cursors, is asked for what follows the last one. Any other is asked what its
task is by now. One of 1.0 then tells in a second stream what follows, which ``_join`` puts in its place. An older one
is asked again and again: its resubscription tells neither where it begins nor what was before, and it does harm to the
official server of 0.3 (0.3.26), where each subscriber makes the kept text repeat every later piece once more, and one
that has left stops the agent for good 1024 events later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from ...errors import SourceError
from ...transports.sse import Parser
from .._http import Answer
from . import _wire as wire
from ._asked import Asked, place
from ._join import Join

_TRIES = 4
"""How often in a row an agent may fail to answer, or longer when somebody is patient."""

_TAILS = 5
"""How many second streams there are at most; after that the task is only looked at."""

_CRASHED_S, _ENDED_S = 10.0, 5.0
"""How long it may be that nothing changes, when an old agent broke its stream off, and when any agent ended it."""

_PAUSE_S, _LONGEST_S = 0.1, 1.0
"""Between two looks, when the last one told something new and when for long none has."""


class Call(Protocol):
    """Sends a JSON-RPC request about a task. With a ``cursor``, for a stream of what follows that event."""

    async def __call__(self, method: str, params: dict[str, str], *, stream: bool = False, cursor: str = "") -> Answer:
        """The answer, to be closed. Raises ``SourceError``."""


async def follow(
    asked: Asked, call: Call, idle_s: float, *, broken: bool, lost_s: float = 0.0
) -> AsyncGenerator[bytes, None]:
    """The items that tell the rest of the task of ``asked``, whose answer has ended. Its watch says if that is all.

    It is not when the agent cannot be reached or does not know the task, or when nothing of it has changed for
    ``idle_s``, or for less where that is no good sign. ``broken``: the stream broke off. An agent that cannot be
    reached is tried for at least ``lost_s``.
    """
    if not asked.watch.works or asked.watch.over:
        return
    asked.sending.result().close()
    patience_s = idle_s
    if broken and asked.endpoint.version == wire.LEGACY:
        patience_s = min(idle_s, _CRASHED_S)
    elif asked.streamed and not broken:
        patience_s = min(idle_s, _ENDED_S)
    lost = _Lost(lost_s)
    for rest in (_since_cursor(asked, call, lost), _Looks(asked, call, patience_s, lost).items()):
        async with aclosing(rest):
            async for item in rest:
                yield item


class _Lost:
    """How long the agent has not been reached."""

    def __init__(self, patience_s: float) -> None:
        self._now = asyncio.get_running_loop().time
        self._patience_s, self._since = patience_s, self._now()
        self.tries = 0

    def reached(self) -> None:
        """It was reached."""
        self.tries, self._since = 0, self._now()

    def again(self, tries: int, patient: bool = True) -> bool:
        """It was not, or to no avail; whether it is tried again, after ``tries`` in a row."""
        self.tries += 1
        return self.tries < tries or (patient and self._now() < self._since + self._patience_s)

    async def pause(self) -> None:
        """Wait before that."""
        await asyncio.sleep(min(_PAUSE_S * 2**self.tries, _LONGEST_S))


async def _since_cursor(asked: Asked, call: Call, lost: _Lost) -> AsyncGenerator[bytes, None]:
    """What follows the newest event of an agent that gives cursors; nothing of another one."""
    methods, params = wire.METHODS[asked.endpoint.version], {"id": asked.watch.task_id}
    while (last := place(asked.cursor)) and not asked.watch.over:
        failed = False
        try:
            answer = await call(methods.subscribe, params, stream=True, cursor=asked.cursor)
            try:
                if answer.status != 200:
                    raise answer.refusal()
                if not asked.streams(answer):
                    return  # an error: it does not know the task, or does not let us subscribe
                parser = Parser()
                while not asked.watch.over and (chunk := await answer.read()):
                    for event in parser.feed(chunk):
                        at = place(event.id)
                        if at is None or at[0] != last[0] or at <= last:
                            return  # it does not take cursors, or it says again that it does not go on
                        asked.cursor, last = event.id, at
                        lost.reached()
                        asked.watch.see(event.data)
                        yield event.data
            finally:
                answer.close()
        except SourceError as error:
            if not error.retryable:
                return
            failed = True
        if not lost.again(2, patient=failed):
            return  # the task may still be looked at
        await lost.pause()


class _Looks:
    """Looks at the task of ``asked`` until it is over, and listens meanwhile when the agent is of 1.0."""

    def __init__(self, asked: Asked, call: Call, patience_s: float, lost: _Lost) -> None:
        self._asked, self._watch, self._call = asked, asked.watch, call
        self._methods = wire.METHODS[asked.endpoint.version]
        self._params = {"id": asked.watch.task_id}
        self._join, self._lost = Join(), lost
        self._tails = _TAILS if asked.endpoint.version == wire.VERSION else 0
        self._tail: Answer | None = None
        self._parser = Parser()
        self._now = asyncio.get_running_loop().time
        self._patience_s, self._changed = patience_s, self._now()
        self._due, self._pause_s = 0.0, _PAUSE_S
        self._looked = b""

    async def items(self) -> AsyncGenerator[bytes, None]:
        """What is told."""
        self._lost.tries = 0
        try:
            while not self._watch.over and self._left_s() > 0:
                try:
                    async with asyncio.timeout(self._left_s()):
                        items = await self._step()
                    self._lost.reached()
                except TimeoutError:
                    return
                except SourceError as error:
                    self._close()
                    if not error.retryable or not self._lost.again(_TRIES):
                        return
                    await self._lost.pause()
                    continue
                self._watch.over = self._join.over  # before the last item: nobody need come back for more
                for item in items:
                    yield item
        finally:
            self._close()

    def _left_s(self) -> float:
        return max(0.0, self._changed + self._patience_s - self._now())

    async def _step(self) -> list[bytes]:
        due_s = max(0.0, self._due - self._now())
        if self._tail is not None:
            if due_s or not self._join.wanting:
                return await self._listen(due_s if self._join.wanting else None)
        elif due_s:
            if self._tails:
                await self._begin_tail()
            else:
                await asyncio.sleep(due_s)
            return []
        return await self._look()

    async def _look(self) -> list[bytes]:
        """What the task is by now, if that is new."""
        began = self._now()
        answer = await self._call(self._methods.get, self._params)
        try:
            if answer.status != 200:
                raise answer.refusal()
            body = await answer.body()
        finally:
            answer.close()
        item = wire.looked_up(body)
        look = wire.decode(item).look
        if look is None or look.result is None:
            raise SourceError("The agent does not tell what has become of its task.", code="agent_protocol")
        self._join.look(look.result)
        now, new = self._now(), body != self._looked
        self._pause_s = _PAUSE_S if new else min(1.5 * self._pause_s, _LONGEST_S)
        self._due = now + max(self._pause_s, 4 * (now - began))  # a large task, or a slow agent, is asked less often
        if new:
            self._looked, self._changed = body, now
        return [item] if new else []

    async def _begin_tail(self) -> None:
        self._tails -= 1
        self._join.tail_begins()
        answer = await self._call(self._methods.subscribe, self._params, stream=True)
        if self._asked.streams(answer):
            self._tail, self._parser = answer, Parser()
        else:
            answer.close()
            self._tails = 0

    async def _listen(self, within_s: float | None) -> list[bytes]:
        """What the next piece of the second stream tells, if one comes in time."""
        assert self._tail is not None
        try:
            async with asyncio.timeout(within_s):
                chunk = await self._tail.read()
        except TimeoutError:
            return []
        if not chunk:
            self._close()
        told = []
        for event in self._parser.feed(chunk):
            response = wire.decode(event.data)
            if response.result is None:
                self._tails = 0
                self._close()
                break
            self._changed = self._now()
            if (item := self._join.tail(event.data, response.result)) is not None:
                told.append(item)
        return told

    def _close(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None
