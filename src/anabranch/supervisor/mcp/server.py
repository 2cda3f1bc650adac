"""One MCP server: a session that all runs share, kept up by a task of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError, MissingExtra, SourceError
from .failures import NO_METHOD, because, code_of, number_of

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.types import CallToolResult, Tool

_PING_S, _CHECK_S, _WATCH_S = 2.0, 30.0, 2.0
"""How long a live session may take to say so, and how often it is asked: when nobody calls, and during a call."""

_PAUSE_S, _LONGEST_S = 0.5, 30.0
"""Between two attempts to connect, the first time and at most. Whoever calls does not wait for it."""

_GRACE_S = 60.0
"""How much longer HTTP waits than we do, so that it is our error that is seen."""

_PAGES = 1000

_log = logging.getLogger(__name__)

Progress = Callable[[dict[str, Any]], object]
"""Takes one report of a running call: ``progress``, and ``total`` and ``message`` where the server says so."""


class Server:
    """The server called ``name``: at ``url`` (streamable HTTP), or a ``command`` that speaks on stdin and stdout.

    ``env`` is added to the few variables that a command gets, ``headers`` go with each HTTP request. Times are in
    seconds: ``connect_s`` until the session is there, ``idle_s`` that a call may be silent; progress counts, and there
    is no limit to the whole.

    ``open`` starts to connect and never fails: a server that is down is tried again and again, after half a second and
    then ever more seldom up to 30 s, and at once when a call wants it. ``state`` says how it is and ``reason`` why it
    is down. A call is sent once, on a session that has just answered; what a session that breaks does to it is an
    error, never another call. Cancelling a call tells the server.

    Raises ``ConfigError`` without a place or with two, ``MissingExtra`` without the library.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str = "",
        command: str = "",
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        connect_s: float = 10.0,
        idle_s: float = 60.0,
    ) -> None:
        if bool(url) == bool(command):
            raise ConfigError(f"The MCP server {name} needs a `url` or a `command`, one of the two.")
        if importlib.util.find_spec("langchain_mcp_adapters") is None:
            raise MissingExtra("langchain-mcp-adapters", "mcp")
        self.name, self.who = name, f"The MCP server {name}"
        self.connection: dict[str, Any] = {"transport": "stdio", "command": command, "args": list(args)}
        if env:
            self.connection["env"] = dict(env)
        if url:
            times = {"timeout": connect_s, "sse_read_timeout": idle_s + _GRACE_S}
            self.connection = {"transport": "streamable_http", "url": url, "headers": dict(headers or {}), **times}
        self.state: Literal["unknown", "up", "down"] = "unknown"
        self.reason = ""
        self.tools: list[Tool] = []
        """Those it had when it was last up."""
        self._connect_s, self._idle_s = connect_s, idle_s
        self._live: _Live | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._wanted, self._closed = asyncio.Event(), False
        self._attempt = _Attempt()  # the next one that will be known to have worked or not
        self._farewells: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start to connect, on the running loop, and wait until it is known whether that works; once."""
        if self._keeping is None:
            # A context of its own: it works for all runs, and not for the one that came first.
            self._keeping = asyncio.create_task(self._keep(), name=f"mcp {self.name}", context=Context())
        if self.state == "unknown":
            await self._attempt.wait()

    async def aclose(self) -> None:
        """End the session, and the command. Calls that still run get an error."""
        self._closed = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        if self._farewells:
            await asyncio.wait(self._farewells)

    async def call(self, tool: str, arguments: dict[str, Any], report: Progress) -> CallToolResult:
        """Call a tool. Raises ``SourceError``: ``agent_unreachable``, ``agent_disconnected``, ``agent_failed``, and
        ``agent_timeout_idle``.

        ``report`` is called in a context of the session, never after the call is over.
        """
        live = await self._answering()
        number: list[Any] = []

        async def ask() -> CallToolResult:
            number.append(getattr(live.session, "_request_id", None))  # the id that this request is given
            return await live.session.call_tool(tool, arguments, progress_callback=heard)

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            limit.reschedule(asyncio.get_running_loop().time() + self._idle_s)
            told = {"progress": progress, "total": total, "message": message}
            report({key: value for key, value in told.items() if value is not None})

        asking, gone = asyncio.create_task(ask()), asyncio.create_task(live.gone.wait())
        watching = asyncio.create_task(self._watch(live))
        live.calls += 1
        try:
            async with asyncio.timeout(self._idle_s) as limit:
                await asyncio.wait((asking, gone), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise SourceError(f"{self.who} broke off.", code="agent_disconnected")
        except TimeoutError:
            self._cancelled(live, number)
            text = f"{self.who} said nothing for {self._idle_s:g} s."
            raise SourceError(text, code="agent_timeout_idle") from None
        except asyncio.CancelledError:
            self._cancelled(live, number)
            raise
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(f"{self.who} {because(error)}.", code=code_of(error)) from error
        finally:
            live.calls -= 1
            for task in (asking, gone, watching):
                task.cancel()

    # --- a session ---------------------------------------------------------------------------------------------

    async def _answering(self) -> _Live:
        """A session that has just answered, a new one if need be."""
        if self._live is not None and await self._pings(self._live):
            return self._live
        attempt = self._attempt
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._connect_s):
                await attempt.wait()
        if self._live is None:
            raise SourceError(
                f"{self.who} is not available: {self.reason or 'it was closed'}.", code="agent_unreachable"
            )
        return self._live

    async def _pings(self, live: _Live) -> bool:
        """Whether the session is alive. One that is busy with a call may have no time to say so."""
        try:
            async with asyncio.timeout(_PING_S):
                await live.session.send_ping()
            return True
        except Exception as error:
            alive = number_of(error) == NO_METHOD or (isinstance(error, TimeoutError) and live.calls > 0)
            if not alive:
                _log.debug("%s does not answer: %r", self.who, error)
                live.gone.set()
            return alive

    async def _watch(self, live: _Live) -> None:
        """Over HTTP nothing tells that the server has died while it worked on a call."""
        while not live.gone.is_set():
            await asyncio.sleep(_WATCH_S)
            await self._pings(live)

    def _cancelled(self, live: _Live, number: list[Any]) -> None:
        """Nobody waits for the call any more."""
        if number and number[0] is not None and not live.gone.is_set():
            task = asyncio.create_task(_tell_cancelled(live.session, number[0]))
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)

    async def _keep(self) -> None:
        pause_s, now = _PAUSE_S, asyncio.get_running_loop().time
        while True:
            self._wanted.clear()
            live, since = _Live(), now()
            try:
                await self._hold(live)
                self.reason = "its session ended"
            except Exception as error:
                self.reason = because(error)
                _log.debug("%s: %r", self.who, error)
            finally:
                live.gone.set()
                self._live = None
            if self._closed:
                return  # what its transport raises when it is closed may hide our cancellation
            if self.state != "down":
                _log.warning("%s is down: %s", self.who, self.reason)
            was, self.state = self.state, "down"
            if was != "up":
                self._concluded()
            pause_s = _PAUSE_S if now() - since > _LONGEST_S else min(2 * pause_s, _LONGEST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()

    def _concluded(self) -> None:
        attempt, self._attempt = self._attempt, _Attempt()
        attempt.set()

    async def _hold(self, live: _Live) -> None:
        """Connect, and stay so until the session is gone."""
        from langchain_mcp_adapters.sessions import create_session

        kwargs = {"message_handler": live.heard}
        connection: Any = {**self.connection, "session_kwargs": kwargs}
        async with create_session(connection) as session:
            async with asyncio.timeout(self._connect_s):
                await session.initialize()
                self.tools = await _listed(session)
            live.session, self._live = session, live
            self.state, self.reason = "up", ""
            self._concluded()
            _log.info("%s is up: %d tools", self.who, len(self.tools))
            while await live.stays():
                if live.changed.is_set():
                    live.changed.clear()
                    self.tools = await _listed(session)
                elif not await self._pings(live):
                    return


class _Attempt(asyncio.Event):
    """To connect: set when it is known how it ended."""


class _Live:
    """A session, and what is noticed about it."""

    session: ClientSession

    def __init__(self) -> None:
        self.gone, self.changed = asyncio.Event(), asyncio.Event()
        self.calls = 0

    async def heard(self, message: Any) -> None:
        """A notification, or an error of the transport."""
        if getattr(getattr(message, "root", None), "method", "") == "notifications/tools/list_changed":
            self.changed.set()

    async def stays(self) -> bool:
        """Wait until its tools have changed or it is time to look after it; false when it is gone."""
        waits = [asyncio.create_task(event.wait()) for event in (self.gone, self.changed)]
        try:
            await asyncio.wait(waits, timeout=_CHECK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return not self.gone.is_set()


async def _listed(session: ClientSession) -> list[Tool]:
    """All pages of its tools."""
    page = await session.list_tools()
    tools = list(page.tools)
    for _ in range(_PAGES):
        if not page.nextCursor:
            break
        page = await session.list_tools(cursor=page.nextCursor)
        tools += page.tools
    return tools


async def _tell_cancelled(session: ClientSession, number: Any) -> None:
    from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification

    said = CancelledNotification(params=CancelledNotificationParams(requestId=number, reason="cancelled by the caller"))
    with suppress(Exception):
        async with asyncio.timeout(_PING_S):
            await session.send_notification(ClientNotification(said))
