"""The server as an ASGI application: the only module that knows every room, and composes them.

::

    app = anabranch.App({"weather": graph, "echo": my_async_generator})      # uvicorn mymodule:app

Runs outlive their requests. ``anabranch serve`` gives live runs their time before it closes connections. Under your own
uvicorn a stop goes through the lifespan, but uvicorn first waits for open streams, for ever unless it is started with
``--timeout-graceful-shutdown``.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from . import __version__
from .auth import Identifier, bearing, carrying, enter, note, schemes
from .config import Callers, Config, Server
from .configured import as_source, made, secrets
from .errors import AnabranchError, ClientError, ConfigError, NotFound
from .identity import LOCAL, Principal, identified
from .request import RunRequest
from .routes import listed
from .routes import routes as json_routes
from .runs._base import Kept, OnDisconnect, RunRecord
from .runs.asking import memory_key
from .runs.machine import Status
from .runs.runs import Runs
from .runs.watched import Watched
from .sinks._gate import Presented
from .sinks.a2a.routes import routes as a2a_routes
from .sinks.agui.routes import routes as agui_routes
from .storage import open_storage
from .tapes.record import Recorder
from .transports.http import error_response

logger = logging.getLogger("anabranch")

Identify = Callable[[HTTPConnection], "Principal | str | None | Awaitable[Principal | str | None]"]
"""Says who is asking; None (or ``""``) is a 401."""

_CLOSE_S = 5.0  # for one source to close its connections, or to forget a thread


class App:
    """A server for ``agents``, by name: sources, async generator functions, or compiled LangGraph graphs.

    ``default`` answers ``POST /agui`` (the only agent, when there is one). ``principal`` says who a caller is; without
    it everybody is one local user. ``on_disconnect`` is one policy, or one per agent: ``"continue"``, ``"cancel"``, or
    the seconds that nobody may watch a run before it is cancelled. ``storage`` is where runs and threads are kept:
    ``memory://``, or ``sqlite:///FILE``. ``record`` is a directory into which what the agents of each run give is
    recorded, for a replay. ``server`` has limits and times, ``descriptions`` what agent cards say of agents. Raises
    ``ConfigError`` for an object that is no agent, and for a storage that cannot be used.
    """

    def __init__(
        self,
        agents: Mapping[str, Any],
        *,
        default: str | None = None,
        principal: Identify | None = None,
        auth: Callers | None = None,
        forwards: Collection[str] = (),
        on_disconnect: OnDisconnect | Mapping[str, OnDisconnect] = "continue",
        storage: str = "memory://",
        record: Recorder | str | Path | None = None,
        server: Server | None = None,
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = limits = server or Server()
        self._id = uuid.uuid4().hex[:12]
        self._sources = {name: as_source(agent, name) for name, agent in agents.items()}
        self._default = default or (next(iter(agents)) if len(agents) == 1 else None)
        if self._default is not None and self._default not in self._sources:
            raise ConfigError(f"default: there is no agent {self._default!r}; known: {', '.join(self._sources)}")
        if principal is not None and auth is not None:
            raise ConfigError("`principal` and `auth` both say who is asking; give one")
        if auth is not None and not isinstance(auth, Callers):
            raise ConfigError(f"auth: expected an anabranch.config.Callers, not {type(auth).__name__}")
        self._identify = principal
        self._identifier = None if auth is None else Identifier.from_config(auth, os.environ)
        self._scheme = urlsplit(limits.public_url).scheme if limits.public_url else ""
        self._forwards = tuple(forwards)
        self._descriptions = descriptions or {}
        self._on_disconnect = on_disconnect
        self._closing = {name: s.aclose for name, s in self._sources.items() if hasattr(s, "aclose")}
        self._storage = open_storage(storage)
        recorder = Recorder(record) if isinstance(record, str | Path) else record
        self.runs = Runs(
            self._storage.log,
            self._storage.table,
            keeps=Kept(
                self._storage.keeps.runs if limits.kept_runs is None else limits.kept_runs,
                self._storage.keeps.size if limits.kept_bytes is None else limits.kept_bytes,
            ),
            live=limits.live_runs,
            record=recorder.tape if recorder else None,
            forgotten=self._forget,
        )
        self._opening: asyncio.Task[int] | None = None
        self._asgi = Starlette(
            routes=[
                *agui_routes(self, keep_alive_s=limits.keep_alive, body_limit=limits.body_limit),
                *json_routes(self),
                *a2a_routes(
                    self,
                    version=__version__,
                    public_url=limits.public_url,
                    security=schemes(auth),
                    keep_alive_s=limits.keep_alive,
                    body_limit=limits.body_limit,
                    profile=limits.a2a_profile,
                ),
            ],
            exception_handlers={
                AnabranchError: _answer,
                HTTPException: _http_error,
                Exception: _internal_error,
            },
            lifespan=self._lifespan,
        )
        # A redirect would send a POST to an address made of the Host header, which is wrong behind most proxies.
        self._asgi.router.redirect_slashes = False

    @classmethod
    def from_config(cls, config: Config, *, principal: Identify | None = None, record: str | Path | None = None) -> App:
        """The server that ``config`` describes. Raises ``ConfigError`` when an agent cannot be made."""
        agents = made(config)
        return cls(
            agents.sources,
            default=agents.default,
            principal=principal,
            auth=config.auth,
            forwards={name for agent in config.agents.values() for name in agent.forward},
            on_disconnect=agents.policies,
            storage=config.storage,
            record=None if record is None else Recorder(record, secrets(config)),
            server=config.server,
            descriptions={name: agent.description for name, agent in config.agents.items()},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http":
            await self.open()  # not every server calls the lifespan
        if scope["type"] != "http":
            return await self._asgi(scope, receive, send)
        if self._identifier is not None:
            send = bearing(scope, send)
        with carrying(scope["headers"], self._forwards):
            await self._asgi(scope, receive, send)

    async def open(self) -> None:
        """End truthfully what a process before this one left running, and start what agents do by themselves.

        Once; requests wait for it.
        """
        if self._opening is None:
            self._opening = asyncio.create_task(self.runs.recover(), name="recover")
            for source in self._sources.values():
                if hasattr(source, "start"):
                    source.start()
        if not self._opening.done():
            await asyncio.wait((self._opening,))
        self._opening.result()

    def run(self, *, host: str | None = None, port: int | None = None) -> None:
        """Serve until a signal, in the main thread, and stop with every promise kept; see ``anabranch.serve``.

        ``host`` and ``port`` come before those of ``server``. Raises ``ConfigError`` when the port is taken.
        """
        from .serve import run

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        run(self, host=host, port=port, announce=lambda url: logger.info("serving on %s", url))

    async def identify(self, caller: HTTPConnection) -> Principal:
        """``Gate.identify``: what ``auth`` or ``principal`` says."""
        if self._identifier is not None:
            who = await self._identifier.identify(caller.scope["headers"], self._scheme or caller.scope["scheme"])
            if who.set_cookie is not None:
                note(caller.scope, who.set_cookie)
            return identified(who.principal)
        if self._identify is None:
            return LOCAL
        found = self._identify(caller)
        if inspect.isawaitable(found):
            found = await found
        return identified(found)

    def present(self, agent: str | None) -> Presented:
        """``Gate.present``: the agent of that name."""
        name = agent or self._default
        if name is None:
            raise ClientError(
                f"there is no default agent; post to /a2a/NAME or /agents/NAME/agui: {', '.join(self._sources)}"
            )
        if name not in self._sources:
            raise NotFound(f"there is no agent {name!r}; known: {', '.join(self._sources)}")
        return Presented(name, self._descriptions.get(name) or f"The agent {name}.")

    async def start(self, principal: Principal, agent: str | None, request: RunRequest) -> Watched:
        """``Gate.start``: begin or join a run of ``agent`` for ``principal``."""
        name = self.present(agent).name
        enter(f"{self._id}/{quote(name)}")
        policy = self._on_disconnect
        if isinstance(policy, Mapping):
            policy = policy.get(name, "continue")
        record = await self.runs.start(self._sources[name], request, principal, agent=name, on_disconnect=policy)
        return Watched(self.runs, record)

    async def find(self, principal: Principal, run_id: str) -> Watched:
        """``Gate.find``: a run of ``principal``."""
        return Watched(self.runs, await self.runs.get(run_id, principal))

    async def task(self, principal: Principal, task_id: str) -> Sequence[Watched]:
        """``Gate.task``: the runs of a task of ``principal``."""
        return [Watched(self.runs, record) for record in await self.runs.task(task_id, principal)]

    async def tasks(
        self, principal: Principal, *, statuses: Collection[str] | None = None, **asked: Any
    ) -> tuple[Sequence[Watched], int]:
        """``Gate.tasks``: the tasks of ``principal``."""
        wanted = None if statuses is None else [Status(status) for status in statuses]
        found = await self.runs.table.tasks(principal.id, statuses=wanted, **asked)
        return [Watched(self.runs, record) for record in found.runs], found.total

    async def cancel(self, principal: Principal, run_id: str) -> Watched:
        """``Gate.cancel``: cancel a run of ``principal``, or what it asks."""
        record = await self.runs.get(run_id, principal)
        if record.status is Status.INTERRUPTED:
            source = self._sources[self.present(record.agent).name]
            return Watched(self.runs, await self.runs.withdraw(source, run_id, principal))
        return Watched(self.runs, await self.runs.cancel(run_id, principal))

    async def stop(self, grace_s: float | None = None) -> None:
        """No new runs; live ones get their time, then a typed end. Closes the sources. May be called again."""
        await self.runs.stop(self.settings.stop_grace if grace_s is None else grace_s)
        closing = [asyncio.create_task(_close(name, it), name=f"end of {name!r}") for name, it in self._closing.items()]
        self._closing = {}
        if closing:
            _, hanging = await asyncio.wait(closing, timeout=_CLOSE_S)
            for task in hanging:
                task.cancel()

    async def aclose(self) -> None:
        """``stop``, and close the storage: nothing can be read any more. May be called again."""
        await self.stop()
        if self._identifier is not None:
            await self._identifier.aclose()
        await self._storage.aclose()

    @property
    def knows_callers(self) -> bool:
        """Whether it tells its callers apart."""
        return self._identify is not None or self._identifier is not None

    @property
    def agents(self) -> list[str]:
        """The names of the agents."""
        return list(self._sources)

    def roster(self) -> list[dict[str, Any]]:
        """``Desk.roster``: the agents, as far as callers may know them."""
        return [
            listed(name, source, self._descriptions.get(name, ""), name == self._default)
            for name, source in self._sources.items()
        ]

    async def _forget(self, thread: Sequence[RunRecord]) -> None:
        """Make the agents forget a thread that is gone: its id may be used again."""
        for agent, key in {(record.agent, memory_key(record)): None for record in thread}:
            forget = getattr(self._sources.get(agent), "forget", None)
            if forget is not None:
                try:
                    async with asyncio.timeout(_CLOSE_S):
                        await forget(key)
                except Exception:  # the thread is gone here, whatever an agent still has of it
                    logger.exception("the agent %r could not forget the conversation %r", agent, key)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncGenerator[None, None]:
        await self.open()
        yield
        await self.aclose()


async def _close(name: str, close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except BaseException:  # also that it took too long
        logger.exception("the agent %r could not be closed", name)


async def _answer(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnabranchError)
    return error_response(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    # Not request.url, which is made of the Host header.
    body = {"error": {"code": code, "message": f"{request.method} {request.scope['path']}: {error.detail}"}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    return JSONResponse(
        {"error": {"code": "internal", "message": "The server failed; its log says why."}}, status_code=500
    )
