"""The server as an ASGI application: the only module that knows every room, and composes them.

::

    app = anabranch.App({"weather": graph, "echo": my_async_generator})      # uvicorn mymodule:app

Runs outlive their requests. ``anabranch serve`` gives live runs their time before it closes connections. Under your own
uvicorn a stop goes through the lifespan, but uvicorn first waits for open streams, for ever unless it is started with
``--timeout-graceful-shutdown``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from .config import Agent, CancelAfter, Config, Server
from .errors import AnabranchError, ClientError, ConfigError, MissingExtra, NotFound
from .identity import LOCAL, Principal, identified
from .request import RunRequest
from .routes import routes as json_routes
from .runs._base import Kept, OnDisconnect, RunRecord
from .runs.asking import memory_key
from .runs.runs import Runs
from .runs.watched import Watched
from .sinks.agui.routes import routes as agui_routes
from .sources._base import Source
from .sources.python import PythonSource
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
    recorded, for a replay. ``server`` has limits and times. Raises ``ConfigError`` for an object that is no agent, and
    for a storage that cannot be used.
    """

    def __init__(
        self,
        agents: Mapping[str, Any],
        *,
        default: str | None = None,
        principal: Identify | None = None,
        on_disconnect: OnDisconnect | Mapping[str, OnDisconnect] = "continue",
        storage: str = "memory://",
        record: Recorder | str | Path | None = None,
        server: Server | None = None,
    ) -> None:
        self.settings = limits = server or Server()
        self._sources = {name: as_source(agent, name) for name, agent in agents.items()}
        self._default = default or (next(iter(agents)) if len(agents) == 1 else None)
        if self._default is not None and self._default not in self._sources:
            raise ConfigError(f"default: there is no agent {self._default!r}; known: {', '.join(self._sources)}")
        self._identify = principal
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
        sources = {name: _configured(name, agent) for name, agent in config.agents.items()}
        policies = {name: _policy(agent.on_disconnect) for name, agent in config.agents.items()}
        default = config.default
        if config.supervisor is not None:
            sources["supervisor"] = _supervisor(config, sources)
            policies["supervisor"] = _policy(config.supervisor.on_disconnect)
            default = default or "supervisor"
        return cls(
            sources,
            default=default,
            principal=principal,
            on_disconnect=policies,
            storage=config.storage,
            record=None if record is None else Recorder(record, _secrets(msgspec.to_builtins(config))),
            server=config.server,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http":
            await self.open()  # not every server calls the lifespan
        await self._asgi(scope, receive, send)

    async def open(self) -> None:
        """End truthfully what a process before this one left running. Once; requests wait for it."""
        if self._opening is None:
            self._opening = asyncio.create_task(self.runs.recover(), name="recover")
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
        """``Gate.identify``: what ``principal`` says."""
        if self._identify is None:
            return LOCAL
        found = self._identify(caller)
        if inspect.isawaitable(found):
            found = await found
        return identified(found)

    async def start(self, principal: Principal, agent: str | None, request: RunRequest) -> Watched:
        """``Gate.start``: begin or join a run of ``agent`` for ``principal``."""
        name = agent or self._default
        if name is None:
            raise ClientError(f"there is no default agent; post to /agents/NAME/agui: {', '.join(self._sources)}")
        source = self._sources.get(name)
        if source is None:
            raise NotFound(f"there is no agent {name!r}; known: {', '.join(self._sources)}")
        policy = self._on_disconnect
        if isinstance(policy, Mapping):
            policy = policy.get(name, "continue")
        record = await self.runs.start(source, request, principal, agent=name, on_disconnect=policy)
        return Watched(self.runs, record)

    async def find(self, principal: Principal, run_id: str) -> Watched:
        """``Gate.find``: a run of ``principal``."""
        return Watched(self.runs, await self.runs.get(run_id, principal))

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
        await self._storage.aclose()

    @property
    def agents(self) -> list[str]:
        """The names of the agents."""
        return list(self._sources)

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


def _policy(configured: Literal["continue", "cancel"] | CancelAfter) -> OnDisconnect:
    return configured.cancel_after if isinstance(configured, CancelAfter) else configured


def as_source(agent: Any, name: str = "agent") -> Source:
    """``agent`` as a source: itself, an async generator function, or a compiled LangGraph graph."""
    if hasattr(agent, "open") and hasattr(agent, "translator"):
        source: Source = agent
        return source
    if hasattr(agent, "astream") and hasattr(agent, "get_graph"):
        from .sources.langgraph import LangGraphSource

        return LangGraphSource(agent)
    if callable(agent) and not inspect.iscoroutinefunction(agent) and not inspect.isgeneratorfunction(agent):
        return PythonSource(agent)
    what = (
        type(agent).__name__ if not callable(agent) else f"a function that is not `async def` with `yield`, {agent!r},"
    )
    raise ConfigError(
        f"agent {name!r}: {what} is not an agent; give it a source, an async generator function or a graph"
    )


async def _close(name: str, close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except BaseException:  # also that it took too long
        logger.exception("the agent %r could not be closed", name)


@contextmanager
def _at(*path: str) -> Iterator[None]:
    """A ``ConfigError`` that does not know its field better is one of ``path``."""
    try:
        yield
    except ConfigError as flaw:
        flaw.path = flaw.path or path
        raise


def _configured(name: str, agent: Agent) -> Source:
    path = ("agents", name)
    if agent.openai is not None:
        with _at(*path, "openai"):
            return _openai(name, agent, agent.openai)
    if agent.a2a is None:
        with _at(*path, "python"):
            return as_source(_imported(name, agent.python or ""), name)
    with _at(*path, "a2a"):
        return _a2a(name, agent, agent.a2a)


def _a2a(name: str, agent: Agent, url: str) -> Source:
    from .sources.a2a import A2ASource

    _require_aiohttp("a2a")
    path = ("agents", name, "auth", "bearer_env")
    headers = {"authorization": f"Bearer {_secret(path, agent.auth.bearer_env)}"} if agent.auth else None
    times = agent.timeout
    return A2ASource(
        url,
        name=name,
        headers=headers,
        connect_s=times.connect,
        first_byte_s=times.first_byte,
        idle_s=times.idle,
    )


def _openai(name: str, agent: Agent, url: str) -> Source:
    from .sources.openai import OpenAISource

    _require_aiohttp("openai")
    key = _secret(("agents", name, "api_key_env"), agent.api_key_env) if agent.api_key_env else ""
    times = agent.timeout
    return OpenAISource(
        url,
        model=agent.model or "",
        api_key=key,
        instructions=agent.instructions,
        options=agent.options,
        connect_s=times.connect,
        first_byte_s=times.first_byte,
        idle_s=times.idle,
    )


def _require_aiohttp(extra: str) -> None:
    """At the start, not when the first user asks. It is imported then, because that takes its time."""
    if importlib.util.find_spec("aiohttp") is None:
        raise MissingExtra("aiohttp", extra)


@_at("supervisor")
def _supervisor(config: Config, sources: Mapping[str, Source]) -> Source:
    from .sources.langgraph import LangGraphSource
    from .sources.langgraph.reasoning import chat_model
    from .supervisor.delegate import delegate
    from .supervisor.graph import supervisor_graph

    assert config.supervisor is not None and config.model is not None
    model = config.model
    key = _secret(("model", "api_key_env"), model.api_key_env) if model.api_key_env else "none"
    options = {} if model.temperature is None else {"temperature": model.temperature}
    tools = [
        delegate(name, sources[name], description=config.agents[name].description, url=config.agents[name].a2a or "")
        for name in config.supervisor.agents
    ]
    chat = chat_model(name=model.name, base_url=model.base_url, api_key=key, **options)
    return LangGraphSource(supervisor_graph(chat, tools, config.supervisor.instructions), name="supervisor")


def _secrets(section: Mapping[str, Any]) -> Iterator[str]:
    """The values of all variables that a configuration names: what its fields ``..._env`` hold."""
    for field, value in section.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif field.endswith("_env") and value:
            yield os.environ.get(value, "")


def _secret(path: tuple[str, ...], variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"the environment variable {variable} is not set", path=path)
    return value


def _imported(name: str, path: str) -> Any:
    field = ("agents", name, "python")
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise ConfigError(f"{path!r} is not package.module:object", path=field)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        flaw = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{module!r} cannot be imported: {flaw}", path=field) from error
    if not hasattr(found, attribute):
        raise ConfigError(f"{module!r} has no {attribute!r}", path=field)
    return getattr(found, attribute)


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
