"""The sections of the configuration file, and what a value may be. Pure."""

from __future__ import annotations

from typing import Any, Literal

from .callers import Callers
from .values import Bytes, Count, Grace, Port, Seconds, Section


class Model(Section, frozen=True):
    """An OpenAI-compatible chat endpoint. ``api_key_env`` names the environment variable that holds the key."""

    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    provider: Literal["openai"] = "openai"
    temperature: float | None = None


class Timeouts(Section, frozen=True):
    """What a remote agent may take: to connect, to its first byte, between two bytes, and in all (no limit)."""

    connect: Seconds = 5.0
    first_byte: Seconds = 60.0
    idle: Seconds = 60.0
    total: Seconds | None = None


class OAuth2(Section, frozen=True):
    """Client credentials. Without ``token_url`` the card names the endpoint, at the agent's own address only."""

    client_id_env: str
    client_secret_env: str
    token_url: str | None = None
    scopes: list[str] = []


class Auth(Section, frozen=True):
    """How we present ourselves to a remote agent: a bearer token, an API key or OAuth 2, one of them.

    An API key goes into the header ``name``, or else where the agent's card wants it.
    """

    bearer_env: str | None = None
    api_key_env: str | None = None
    name: str | None = None
    oauth2: OAuth2 | None = None


class CancelAfter(Section, frozen=True):
    """A run is cancelled when nobody has watched it for so long."""

    cancel_after: Seconds


OnDisconnect = Literal["continue", "cancel"] | CancelAfter
"""What happens to a run when its last watcher has left."""


class Agent(Section, frozen=True):
    """One agent: ``a2a`` (a URL), ``openai`` (a URL) or ``python`` (``package.module:object``), exactly one of them.

    ``model``, ``api_key_env``, ``instructions`` and ``options`` are for ``openai``. ``url_override``: the host that the
    card of an ``a2a`` agent names is never used, only the configured one.
    """

    a2a: str | None = None
    openai: str | None = None
    python: str | None = None
    description: str = ""
    aliases: list[str] = []
    model: str | None = None
    api_key_env: str | None = None
    instructions: str = ""
    options: dict[str, Any] = {}
    timeout: Timeouts = Timeouts()
    auth: Auth | None = None
    forward: list[str] = []
    url_override: bool = False
    on_disconnect: OnDisconnect = "continue"


class Supervisor(Section, frozen=True):
    """The built-in supervisor: a deep agent that delegates to the named A2A agents, or to all of them.

    ``routing``: whether a request may go past its model to the agents that it names; ``answer``: whether what they say
    is the answer as it is. YAML reads ``on`` and ``off`` as true and false.
    """

    agents: list[str] | None = None
    instructions: str = ""
    routing: Literal[True, False, "on", "off", "explicit"] = "on"
    answer: Literal["auto", "forward", "synthesize"] = "auto"
    on_disconnect: OnDisconnect = "continue"


class McpTimeouts(Section, frozen=True):
    """What an MCP server may take: to connect, and between two signs of life of a call."""

    connect: Seconds = 10.0
    idle: Seconds = 60.0


class McpServer(Section, frozen=True):
    """One MCP server: ``url`` (streamable HTTP) or ``command``, exactly one of them.

    ``args``, ``env`` and ``secrets_env`` are for a command, ``headers``, ``headers_env`` and ``bearer_env`` for a URL.
    ``secrets_env`` and ``headers_env`` name, for each variable or header, the variable here that holds its value.
    """

    url: str | None = None
    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    secrets_env: dict[str, str] = {}
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    bearer_env: str | None = None
    timeout: McpTimeouts = McpTimeouts()


class Mcp(Section, frozen=True):
    """The MCP servers whose tools the supervisor has."""

    servers: dict[str, McpServer]


class Server(Section, frozen=True):
    """Where and how to serve. Nothing listens beyond loopback unless ``host`` says so. Times in seconds.

    ``public_url`` is where clients find this server, when that is not what their requests say, as behind a proxy.
    ``a2a_profile`` is for A2A clients that name none.
    ``kept_runs`` and ``kept_bytes`` limit the finished runs; their defaults are those of the storage.
    """

    host: str = "127.0.0.1"
    port: Port = 8000
    public_url: str | None = None
    keep_alive: Seconds = 15.0
    stop_grace: Grace = 20.0
    body_limit: Bytes = 8 * 2**20
    kept_runs: Count | None = None
    kept_bytes: Count | None = None
    live_runs: Count = 1000
    tune_gc: bool = True
    a2a_profile: Literal["standard", "caipe"] = "standard"


class Config(Section, frozen=True):
    """The whole file. ``agents_from_env``: agents that the environment names, all or these, are there as well."""

    agents: dict[str, Agent]
    agents_from_env: bool | list[str] = False
    model: Model | None = None
    supervisor: Supervisor | None = None
    mcp: Mcp | None = None
    default: str | None = None
    storage: str = "sqlite:///anabranch.db"
    server: Server = Server()
    auth: Callers | None = None

    @property
    def delegates(self) -> list[str]:
        """The agents that the supervisor may ask."""
        named = self.supervisor.agents if self.supervisor is not None else []
        return [name for name, agent in self.agents.items() if agent.a2a is not None] if named is None else named
