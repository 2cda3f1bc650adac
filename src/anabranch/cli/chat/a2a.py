"""An A2A agent as a peer of the chat: the ``a2a`` source asks it, follows its task to the end, and cancels it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import UNSET

from ...errors import SourceError
from ...request import Message, RunRequest
from ...sources.a2a import A2ASource
from ...sources.a2a import _wire as wire
from ...sources.a2a._card import Misplaced
from ...sources.a2a.attributed import AttributedTranslator
from .bridge import Bridge
from .client import PATIENCE_S, PAUSE_S, needed_aiohttp, wanted
from .trail import Batch, ChatError, Frame, pauses

SILENCE_S = 300.0
"""How long an agent may say nothing, not even that it is there: one that does not stream works all that time."""

GRACE_S = 1.0
"""How long the stream of a task that the agent calls cancelled may take to end with that."""

_AHEAD = 256  # items that are read before those that came first are shown

_LOST = re.compile(r"has no agent card|card that cannot be read|HTTP 4\d\d")


class A2aPeer:
    """The agent at ``url``. ``context_id`` is the conversation to go on with; without it the agent begins one.

    ``headers`` go with every request to the origin of ``url`` and nowhere else; an agent that answers there is asked
    there, whatever its card says. Raises ``MissingExtra`` where aiohttp
    is not installed.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], context_id: str = "", *, silence_s: float = SILENCE_S
    ) -> None:
        needed_aiohttp()
        self._source = A2ASource(
            url,
            name=f"at {url.partition('?')[0]}",
            headers=headers,
            first_byte_s=silence_s,
            idle_s=silence_s,
            extensions=(wire.EXTENSION,),
            one_user=True,
            lost_s=PATIENCE_S,
            typed=True,
        )
        self._credentials: tuple[str, ...] = ()  # that the card asks for
        self._context_id, self._task_id = context_id, ""
        self._translator = AttributedTranslator()
        self._named = asyncio.Event()
        self._cancelled = b""  # the item of a task that was cancelled
        self._reading: asyncio.Timeout | None = None
        self._patient_until: float | None = None

    async def __aenter__(self) -> A2aPeer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._source.aclose()

    async def find(self) -> None:
        """Read the agent's card. Raises ``ChatError``."""
        try:
            self._credentials = (await self._source.endpoint()).credentials
        except SourceError as error:
            raise refused(error) from error

    def ids(self, body: Mapping[str, Any]) -> dict[str, str]:
        """The newest task and its context."""
        return {"run_id": self._task_id, "thread_id": self._context_id}

    async def run(self, body: Mapping[str, Any]) -> AsyncGenerator[Batch, None]:
        """The frames of the task that answers the newest message, or goes on with the answers to its questions."""
        self._named.clear()
        self._patient_until = None
        try:
            await self.find()
            if answers := body.get("resume"):
                frames = self._go_on(body, answers)
            else:
                self._task_id, self._translator = "", AttributedTranslator()
                [*_, text] = [said["content"] for said in body["messages"] if said["role"] == "user"]
                frames = self._ask(body, text)
            async with aclosing(frames):
                async for batch in frames:
                    yield batch
        except SourceError as error:
            raise refused(error, self._credentials) from error

    async def cancel(self, run_id: str) -> bool:
        """Have the agent cancel its task. An agent that does not stream names its task too late for that."""
        waits = pauses(PAUSE_S)
        while True:
            try:
                endpoint = await self._source.endpoint()
                if not (endpoint.streaming or self._named.is_set()):
                    return False
                await self._named.wait()
                item = await self._source.cancel(self._task_id)
                if item and _is_over(item):
                    self._give_up_on(item)
                return item is not None
            except SourceError as error:
                if not error.retryable:
                    return False
            await asyncio.sleep(next(waits))

    # --- one message -------------------------------------------------------------------------------------------

    async def _go_on(self, body: Mapping[str, Any], answers: Sequence[dict[str, Any]]) -> AsyncGenerator[Batch, None]:
        if any(answer["status"] == "cancelled" for answer in answers):
            await self._source.cancel(self._task_id)
            yield time.monotonic_ns(), _withdrawn(body, self._context_id)
            return
        payload = answers[0]["payload"]
        if any(answer["payload"] != payload for answer in answers):
            flaw = "takes one answer to all the questions of a task, and was not sent these, which differ"
            raise ChatError(f"an A2A agent {flaw}")
        self._translator.go_on()
        text = payload if isinstance(payload, str) else msgspec.json.encode(payload).decode()
        data = UNSET if isinstance(payload, str) else payload
        async with aclosing(self._ask(body, text, task_id=self._task_id, data=data)) as batches:
            async for batch in batches:
                yield batch

    async def _ask(self, body: Mapping[str, Any], text: str, **known: Any) -> AsyncGenerator[Batch, None]:
        message = Message(id=body["runId"], role="user", content=text)
        request = RunRequest(run_id=body["runId"], thread_id=self._context_id or body["runId"], messages=(message,))
        bridge = Bridge(self._translator, body["runId"], self._context_id)
        async with aclosing(self._batches(self._source.open(request, context_id=self._context_id, **known))) as batches:
            async for items in batches:
                frames = [frame for item in items if not bridge.ended for frame in bridge.feed(item)]
                remote = self._translator.remote
                self._context_id = remote.context_id or self._context_id
                if remote.task_id:
                    self._task_id = remote.task_id
                    self._named.set()
                yield time.monotonic_ns(), frames
                if bridge.ended:
                    return
        yield time.monotonic_ns(), bridge.close()

    async def _batches(self, items: AsyncGenerator[bytes, None]) -> AsyncGenerator[list[bytes], None]:
        """What has come, as soon as anything has: what is shown together costs less."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)
        pumping = asyncio.create_task(_pump(items, queue))
        try:
            over = False
            while not over:
                batch = [await self._next(queue)]
                while not queue.empty():
                    batch.append(queue.get_nowait())
                over = not batch[-1]
                if any(batch):
                    yield [item for item in batch if item]
            await pumping
        finally:
            pumping.cancel()
            await asyncio.wait((pumping,))
            if not pumping.cancelled():
                pumping.exception()  # seen, so that asyncio does not log it
            await items.aclose()

    async def _next(self, queue: asyncio.Queue[bytes]) -> bytes:
        """The next item. A cancelled task whose stream is silent is told by the answer to that."""
        try:
            async with asyncio.timeout_at(self._patient_until) as self._reading:
                return await queue.get()
        except TimeoutError:
            return self._cancelled
        finally:
            self._reading = None

    def _give_up_on(self, item: bytes) -> None:
        """The agent says that the task is over; its stream may say so, too, but not all do."""
        self._cancelled, self._patient_until = item, asyncio.get_running_loop().time() + GRACE_S
        if self._reading is not None:
            self._reading.reschedule(self._patient_until)


async def _pump(items: AsyncGenerator[bytes, None], queue: asyncio.Queue[bytes]) -> None:
    """Items into the queue, then an empty one; its reader sees what was raised when it waits for this."""
    try:
        async for item in items:
            await queue.put(item)
    except Exception:
        await queue.put(b"")
        raise
    await queue.put(b"")


def _is_over(item: bytes) -> bool:
    look = wire.decode(item).look
    return look is not None and look.result is not None and wire.end(look.result.status) is not None


def refused(error: SourceError, credentials: Sequence[str] = ()) -> ChatError:
    """``error``, with what to do about it at a command line. ``credentials``: see ``Endpoint``."""
    text = error.flaw if isinstance(error, Misplaced) else str(error).removesuffix(".")
    if error.code == "agent_auth":
        text += wanted(credentials)
    elif isinstance(error, Misplaced) and error.named:
        text += f"; give that address, {error.named}, or leave the credentials out"
    elif isinstance(error, Misplaced) or _LOST.search(text):
        text += "; give the address of an A2A agent or of its card, and --agent NAME for one of a server's agents"
    return ChatError(text, code=error.code)


def _withdrawn(body: Mapping[str, Any], context_id: str) -> list[Frame]:
    """The run that nobody's answer starts."""
    ids = {"threadId": context_id, "runId": body["runId"]}
    why = {"anabranch": {"reason": "its question was not answered"}}
    finished = {"type": "RUN_FINISHED", "outcome": {"type": "cancelled"}, "metadata": why} | ids
    return [Frame(b"", {"type": "RUN_STARTED"} | ids, ""), Frame(b"", finished, "")]
