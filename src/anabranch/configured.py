"""What a configuration names, made: its agents as sources, its supervisor, the values of its secrets."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .auth import outgoing
from .config import Agent, Auth, CancelAfter, Config, McpServer, Model, Supervisor
from .errors import ConfigError, MissingExtra
from .runs._base import OnDisconnect
from .sources._base import Source
from .sources.limited import Limited
from .sources.python import PythonSource

if TYPE_CHECKING:
    from .sources.a2a import Credential
    from .supervisor.mcp import McpTools, Server
    from .supervisor.routing import Mode
    from .supervisor.source import Delegated


class Made(msgspec.Struct, frozen=True):
    """The agents of a configuration, by name, and for each what it means that nobody watches a run of it."""

    sources: dict[str, Source]
    policies: dict[str, OnDisconnect]
    default: str | None


def made(config: Config) -> Made:
    """The agents of ``config``. Raises ``ConfigError`` for one that cannot be made."""
    sources = {name: _configured(name, agent) for name, agent in config.agents.items()}
    policies = {name: _policy(agent.on_disconnect) for name, agent in config.agents.items()}
    default = config.default
    if config.supervisor is not None:
        sources["supervisor"] = _supervisor(config, sources)
        policies["supervisor"] = _policy(config.supervisor.on_disconnect)
        default = default or "supervisor"
    return Made(sources, policies, default)


def secrets(config: Config) -> list[str]:
    """The values of all variables that ``config`` names: what its fields ``..._env`` hold."""
    return list(_secrets(msgspec.to_builtins(config)))


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


def _policy(configured: Literal["continue", "cancel"] | CancelAfter) -> OnDisconnect:
    return configured.cancel_after if isinstance(configured, CancelAfter) else configured


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
    if agent.a2a is None and agent.openai is None:
        with _at(*path, "python"):
            return as_source(_imported(name, agent.python or ""), name)
    with _at(*path, "a2a" if agent.openai is None else "openai"):
        source = _a2a(name, agent, agent.a2a or "") if agent.openai is None else _openai(name, agent, agent.openai)
    return source if agent.timeout.total is None else Limited(source, agent.timeout.total, name)


def _a2a(name: str, agent: Agent, url: str) -> Source:
    from .sources.a2a import EXTENSION, A2ASource
    from .supervisor.registry import Registered

    _require_aiohttp("a2a")
    auth, times = agent.auth or Auth(), agent.timeout
    path = ("agents", name, "auth", "bearer_env")
    headers = {"authorization": f"Bearer {_secret(path, auth.bearer_env)}"} if auth.bearer_env else None
    credential = _credential(name, auth, url)
    source = A2ASource(
        url,
        name=name,
        headers=headers,
        connect_s=times.connect,
        first_byte_s=times.first_byte,
        idle_s=times.idle,
        forward=partial(outgoing, tuple(agent.forward)),
        bound=bool(agent.forward),
        extensions=(EXTENSION,),
        credential=credential,
        override=agent.url_override,
    )
    has = {header.lower() for header in agent.forward}
    if agent.auth is not None:
        has.add("key" if auth.api_key_env else "authorization")
    return Registered(name, source, description=agent.description, has=has)


def _credential(name: str, auth: Auth, url: str) -> Credential | None:
    from .sources.a2a import ApiKey, ClientCredentials

    who, path = f"The agent {name}", ("agents", name, "auth")
    if auth.api_key_env:
        return ApiKey(who, _secret((*path, "api_key_env"), auth.api_key_env), auth.name or "")
    if auth.oauth2 is None:
        return None
    return ClientCredentials(
        who,
        _secret((*path, "oauth2", "client_id_env"), auth.oauth2.client_id_env),
        _secret((*path, "oauth2", "client_secret_env"), auth.oauth2.client_secret_env),
        agent=url,
        token_url=auth.oauth2.token_url or "",
        scopes=tuple(auth.oauth2.scopes),
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
        forward=partial(outgoing, tuple(agent.forward)),
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
    from .supervisor.source import Delegated, SupervisorSource

    assert config.supervisor is not None and config.model is not None
    agents = [
        Delegated(
            name=name,
            source=sources[name],
            aliases=tuple(config.agents[name].aliases),
            description=config.agents[name].description,
            url=config.agents[name].a2a or "",
        )
        for name in config.delegates
    ]
    mcp = _mcp(config)
    graph = _graph(config, config.supervisor, config.model, agents, mcp)
    routing = config.supervisor.routing
    mode: Mode = ("on" if routing else "off") if isinstance(routing, bool) else routing
    return SupervisorSource(agents, graph, mode=mode, name="supervisor", closes=[mcp.aclose] if mcp else [])


def _mcp(config: Config) -> McpTools | None:
    """The MCP servers' tools, which connect when the graph first runs."""
    if config.mcp is None:
        return None
    from .supervisor.mcp import McpTools

    return McpTools([_mcp_server(name, server) for name, server in config.mcp.servers.items()])


def _mcp_server(name: str, server: McpServer) -> Server:
    from .supervisor.mcp import Server

    path = ("mcp", "servers", name)

    def held(field: str, named: Mapping[str, str]) -> dict[str, str]:
        return {key: _secret((*path, field, key), variable) for key, variable in named.items()}

    headers = {**server.headers, **held("headers_env", server.headers_env)}
    if server.bearer_env is not None:
        headers["authorization"] = f"Bearer {_secret((*path, 'bearer_env'), server.bearer_env)}"
    with _at(*path):
        return Server(
            name,
            url=server.url or "",
            command=server.command or "",
            args=server.args,
            env={**server.env, **held("secrets_env", server.secrets_env)},
            headers=headers,
            connect_s=server.timeout.connect,
            idle_s=server.timeout.idle,
        )


def _graph(
    config: Config, supervisor: Supervisor, model: Model, agents: Sequence[Delegated], mcp: McpTools | None
) -> Any:
    """Makes the supervisor's graph, when it is first needed."""
    from .sources.langgraph.reasoning import chat_model
    from .supervisor.answers import forwarding, forwards
    from .supervisor.delegate import delegate, tool_name
    from .supervisor.describing import describing
    from .supervisor.graph import load, supervisor_graph
    from .supervisor.memory import load as load_memory
    from .supervisor.memory import memory

    key = _secret(("model", "api_key_env"), model.api_key_env) if model.api_key_env else "none"
    options = {} if model.temperature is None else {"temperature": model.temperature}
    chat = chat_model(name=model.name, base_url=model.base_url, api_key=key, **options)
    load()  # at the start, not when the first user asks: the server would stand still meanwhile
    load_memory(config.storage)
    names = [tool_name(agent.name) for agent in agents]
    policy = supervisor.answer
    tools = [
        delegate(
            agent.name,
            agent.source,
            description=agent.description,
            url=agent.url,
            answers=lambda state: forwards(policy, state, names),
        )
        for agent in agents
    ]

    async def make() -> Any:
        checkpointer = await memory(config.storage)
        middleware = [describing({tool_name(agent.name): agent.source for agent in agents}), forwarding(policy, names)]
        middleware += [mcp.middleware()] if mcp else []
        return supervisor_graph(chat, tools, supervisor.instructions, middleware=middleware, checkpointer=checkpointer)

    return make


def _secrets(section: Mapping[str, Any]) -> Iterator[str]:
    """The values of all variables that a configuration names: what its fields ``..._env`` hold."""
    for field, value in section.items():
        if isinstance(value, Mapping) and field.endswith("_env"):
            yield from (os.environ.get(variable, "") for variable in value.values())
        elif isinstance(value, Mapping):
            yield from _secrets(value)
        elif field.endswith("_env") and isinstance(value, str):
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
