"""An agent behind A2A (JSON-RPC over server-sent events) as a source."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any
from uuid import uuid4

from msgspec import UNSET

from ...errors import ConfigError, SourceError, scrub
from ...request import Asked as Question
from ...request import RunRequest
from .._http import Answer, Client
from . import _wire as wire
from . import tape
from ._about import About
from ._asked import Asked, parted
from ._card import Endpoint, origin
from ._cards import Cards
from ._credential import Credential
from ._errand import Errand, errand
from ._follow import follow
from ._mail import Mail
from .attributed import AttributedTranslator
from .translate import A2ATranslator

_CANCEL_S = 2.0
_NAME_S = 2.0
_FAILURE = re.compile(rb'"error"|"(?:TASK_STATE_)?(?i:failed|rejected)"')
_OVER = -32002  # TaskNotCancelable

_log = logging.getLogger(__name__)


class A2ASource:
    """The agent at ``url``: its root, its JSON-RPC endpoint, or its card (``....json``).

    ``name`` is what errors call it (default: the name on its card), ``headers`` go with each request, ``extensions``
    are asked for, of an agent of 1.0. Times are in seconds, and there is no limit to the whole: ``connect_s`` to get a
    connection, ``first_byte_s`` until the first byte of the answer, ``idle_s`` between lines, or 4 KiB, afterwards (a
    keep-alive comment counts). An agent that does not stream sends nothing while it works, so only ``idle_s`` bounds
    it. ``pool`` limits the connections at once; 0 is no limit. Cookies are kept only for ``one_user``.
    Items are the raw JSON-RPC responses, as bytes. A2A 1.0 is spoken with an agent whose card offers it, and else 0.3,
    which those of 0.2 understand.

    *Read to the end.* When a stream breaks off, or ends before its task, or an answer names a task that goes on, the
    task is followed (``_follow``): nothing of it is lost, nothing is shown twice, and the question is not sent again.
    It is given up, with the error that broke the stream, when the agent does not answer four times in a row, and for
    ``lost_s``, does not know the task, or shows nothing new of it for ``idle_s``: at most 10 s when an agent older than
    1.0 broke off, which is how it crashes, and 5 s when the stream was ended properly. What cannot be continued exactly
    is an ``agent_disconnected``, too.

    *At most once.* Only a connection that could not be made (no such host, refused) is tried again: at most twice,
    after 0.1 and 0.4 s. A request that may have been read is never sent again, whatever comes of it: a connection that
    is closed without an answer, a timeout, an HTTP status, an error of the agent, an empty answer. Each request has a
    connection of its own, so that none is lost to one that the agent has just given up.

    *Credentials stay.* ``headers``, and a user name in ``url``, go to the scheme, host and port of ``url`` only: with
    them, a card that names another address is refused. Without them it is followed, but not from https to http. Of the
    agents there, only the one at ``url`` is asked: the card at the root of the server has to name that address.
    ``typed``: a user gave ``url`` just now, so its origin wins over one that a card names, if an agent answers there.

    *Cancel is real, and nobody waits for it.* Closing the stream, or cancelling the task that reads it, returns at
    once, and in the background ``CancelTask`` is sent unless the remote task is over; it gets 2 s. A request that is
    not on its way yet is not sent. An agent that has not named its task gets 2 s to do so, then its connection is
    closed; one that does not stream names it no sooner than it answers. A task that cannot be followed, or that falls
    silent, is left the same way. ``aclose`` waits for all that, so it may take 4 s.

    Errors are ``SourceError`` with one of the codes ``agent_unreachable``, ``agent_auth``, ``agent_protocol``,
    ``agent_failed``, ``agent_disconnected``, ``agent_timeout_first_byte``, ``agent_timeout_idle``, and ``protocol`` for
    an event of more than 16 MiB; ``MissingExtra`` without aiohttp. Use one object in one event loop, and ``aclose`` it.
    """

    kind = "a2a"
    dump = staticmethod(tape.dump)

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        headers: Mapping[str, str] | None = None,
        connect_s: float = 5.0,
        first_byte_s: float = 30.0,
        idle_s: float = 60.0,
        pool: int = 0,
        forward: Callable[[], Mapping[str, str]] = dict,
        bound: bool = False,
        extensions: Sequence[str] = (),
        one_user: bool = False,
        lost_s: float = 0.0,
        credential: Credential | None = None,
        override: bool = False,
        typed: bool = False,
    ) -> None:
        try:
            origin(url)
        except ValueError:
            flaw = f"must be an http:// or https:// URL, not {scrub(url)!r}"
            raise ConfigError(f"The address of an A2A agent {flaw}.") from None
        self._url, self._name = url, name
        self._forward, self._bound = forward, bound or bool(headers) or credential is not None
        self._attributed, self._lost_s = wire.EXTENSION in extensions, lost_s
        self._http = Client(
            _called(name),
            headers or {},
            kind="agent",
            speaks="A2A",
            extra="a2a",
            connect_s=connect_s,
            first_byte_s=first_byte_s,
            idle_s=idle_s,
            pool=pool,
            one_user=one_user,
        )
        self._mail = Mail(self._http, ", ".join(extensions), credential)
        self._cards = Cards(
            url, self._mail, lambda said: _called(name or said), bound=self._bound, override=override, typed=typed
        )
        self._farewells: set[asyncio.Task[None]] = set()

    def settings(self, request: RunRequest) -> dict[str, Any]:
        """Of the translator: what the agent is called, and whether it is asked to say who speaks."""
        return {"name": self._name or self._cards.name} | ({"attributed": True} if self._attributed else {})

    def translator(self, request: RunRequest) -> A2ATranslator | AttributedTranslator:
        """A fresh translator for the items of ``open(request)``."""
        return tape.translator(self.settings(request))

    async def open(
        self, request: RunRequest, *, context_id: str = "", task_id: str = "", data: Any = UNSET
    ) -> AsyncGenerator[bytes, None]:
        """Send the newest user text, in a remote context or task that exists if they are named; give the items.

        ``data`` is what the text says, as JSON, for an agent that asked for that. The request may name the place, too:
        the task that waits for its answer, or else the context of the conversation.
        """
        sent = errand(request, context_id, task_id, data)
        try:
            endpoint = await self.endpoint()
        except SourceError as error:
            error.unsent = True
            raise
        if sent.is_answer:
            with contextlib.suppress(SourceError):  # an agent that cannot tell: it may say again what it said before
                yield wire.before(await self.look(sent.task_id))
        asked = self._asked(endpoint, sent.task_id)
        asked.sending = asyncio.create_task(self._send(asked, sent))
        try:
            async with aclosing(self._answer(asked)) as items:
                async for item in items:
                    yield self._mail.hidden(item, asked) if asked.watch.over and _FAILURE.search(item) else item
        except BaseException as error:
            if isinstance(error, SourceError):
                error.unsent = not asked.sent
            self._leave(asked, error)
            raise
        self._leave(asked)

    async def _answer(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        """The items of the answer, and of what follows when it is not all."""
        broken: SourceError | None = None
        answer = await asyncio.shield(asked.sending)
        if asked.streams(answer):
            try:
                while not asked.watch.over and (chunk := await answer.read()):
                    for item in asked.take(chunk):
                        yield item
                    if asked.parting:
                        raise parted(self._http.who, asked.parting)
                if not asked.watch.over and asked.parser.close():
                    raise SourceError(f"{self._http.who} stopped inside an event.", code="agent_disconnected")
            except SourceError as error:
                if error.code != "agent_disconnected":
                    raise
                broken = error
        else:
            item = await self._mail.single(answer, asked.headers)
            asked.watch.see(item)
            yield item
        async with aclosing(self._rest(asked, broken)) as items:
            async for item in items:
                yield item

    async def _rest(self, asked: Asked, broken: SourceError | None) -> AsyncGenerator[bytes, None]:
        """What is left of the task when its stream has ended. Raises ``broken`` when that cannot be told."""
        call = partial(self._mail.post, asked)
        rest = follow(asked, call, self._http.idle_s, broken=broken is not None, lost_s=self._lost_s)
        async with aclosing(rest) as items:
            async for item in items:
                yield item
        if broken is not None and not asked.watch.over:
            raise broken

    async def endpoint(self) -> Endpoint:
        """Where the agent takes messages, from its card, which is fetched once and again after a failure.

        Whoever asks while it is fetched shares the result or the error, and can give up without ending it for others.
        """
        return await self._cards.endpoint()

    async def refresh(self) -> About:
        """Look at the card again, and at once: what the agent says of itself now. What begins later goes by it.

        A card that did not change is not sent again (``ETag``). Raises what ``endpoint`` raises.
        """
        await self._cards.look(patient=False)
        return self.about

    @property
    def about(self) -> About:
        """What the agent's card said when it was last read; nothing before that."""
        return self._mail.about

    @property
    def is_elsewhere(self) -> bool:
        """Whether the card named another address than the configured one, which is used."""
        return self._cards.is_elsewhere

    async def aclose(self) -> None:
        """Stop looking for the card, let cancellations that are under way finish, then close all connections."""
        await self._cards.aclose()
        while self._farewells:
            await asyncio.wait(self._farewells)
        await self._mail.aclose()

    def withdraw(self, questions: Iterable[Question]) -> None:
        """Cancel the tasks that wait for answers which will not come, in the background."""
        for question in questions:
            if question.remote is not None and question.remote.task_id:
                self._see_to(self._cancel(question.remote.task_id))

    async def cancel(self, task_id: str) -> bytes | None:
        """Have the agent cancel a task: the item that says what the task is then. None: it does not do that.

        Also one that was over already is none to cancel; its item says nothing (``b""``). Raises ``SourceError``.
        """
        return await self._stop(self._asked(await self.endpoint()), task_id)

    async def look(self, task_id: str) -> bytes:
        """The item that tells what a task is by now, for a translator that was not there. Raises ``SourceError``."""
        asked = self._asked(await self.endpoint())
        answer = await self._mail.post(asked, wire.METHODS[asked.endpoint.version].get, {"id": task_id}, stream=True)
        try:
            return wire.looked_up(await self._mail.single(answer))
        finally:
            answer.close()

    # --- asking ------------------------------------------------------------------------------------------------

    def _asked(self, endpoint: Endpoint, task_id: str = "") -> Asked:
        # Unbound, they are no credentials and go wherever the card says: a circle of servers is noticed by them.
        own = not self._bound or origin(endpoint.url) == origin(self._url)
        return Asked(endpoint, dict(self._forward()) if own else {}, task_id)

    async def _send(self, asked: Asked, sent: Errand) -> Answer:
        streaming, version = asked.endpoint.streaming, asked.endpoint.version
        method = wire.METHODS[version].stream if streaming else wire.METHODS[version].send
        message = wire.user_message(sent.text, uuid4().hex, version=version, **sent.message)
        try:
            return await self._mail.post(asked, method, {"message": message}, stream=streaming, sent=asked.was_sent)
        except SourceError:
            self._mail.refused = True
            raise

    # --- leaving -----------------------------------------------------------------------------------------------

    def _leave(self, asked: Asked, error: BaseException | None = None) -> None:
        """Nobody reads the answer any more: it has ended, or broke with an ``Exception``, or is not wanted."""
        watch = asked.watch
        if watch.over:
            farewell = self._see_out(asked)
        elif error is not None and watch.task_id:
            asked.close()
            farewell = self._cancel(watch.task_id, asked)
        elif error is not None and asked.sent and not isinstance(error, Exception):
            farewell = self._find_out(asked)
        else:
            asked.close()
            return
        self._see_to(farewell)

    def _see_to(self, farewell: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(farewell)
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _see_out(self, asked: Asked) -> None:
        """The stream ends right after the last item, and the agent need not see its client break off."""
        try:
            await asked.sending.result().drain()
        finally:
            asked.close()

    async def _find_out(self, asked: Asked) -> None:
        """Cancel the task once it has a name."""
        watch = asked.watch
        try:
            async with asyncio.timeout(_NAME_S):
                while not (watch.task_id or watch.over) and await asked.reads_on():
                    pass
        except (SourceError, TimeoutError) as error:
            _log.info("%s was left before it named a task: %s", self._http.who, error)
        finally:
            asked.close()
        if watch.task_id and not watch.over:
            await self._cancel(watch.task_id, asked)

    async def _cancel(self, task_id: str, asked: Asked | None = None) -> None:
        try:
            async with asyncio.timeout(_CANCEL_S):
                await self._stop(asked or self._asked(await self.endpoint()), task_id)
        except (SourceError, TimeoutError) as error:
            _log.info("%s was not told to cancel task %s: %s", self._http.who, task_id, error)

    async def _stop(self, asked: Asked, task_id: str) -> bytes | None:
        answer = await self._mail.post(asked, wire.METHODS[asked.endpoint.version].cancel, {"id": task_id}, stream=True)
        try:
            body = await self._mail.single(answer, asked.headers)
        finally:
            answer.close()
        error = wire.decode(body).error
        if error is None:
            return wire.looked_up(body)
        return b"" if error.code == _OVER else None


def _called(name: str) -> str:
    return f"The agent {name}" if name else "The agent"
