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
    """What a remote agent may take: to connect, to its first byte, and between two bytes."""

    connect: Seconds = 5.0
    first_byte: Seconds = 60.0
    idle: Seconds = 60.0


class Auth(Section, frozen=True):
    """How we present ourselves to a remote agent: a bearer token from the environment."""

    bearer_env: str


class CancelAfter(Section, frozen=True):
    """A run is cancelled when nobody has watched it for so long."""

    cancel_after: Seconds


OnDisconnect = Literal["continue", "cancel"] | CancelAfter
"""What happens to a run when its last watcher has left."""


class Agent(Section, frozen=True):
    """One agent: ``a2a`` (a URL), ``openai`` (a URL) or ``python`` (``package.module:object``), exactly one of them.

    ``model``, ``api_key_env``, ``instructions`` and ``options`` are for ``openai``.
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
    on_disconnect: OnDisconnect = "continue"


class Supervisor(Section, frozen=True):
    """The built-in supervisor: a deep agent that delegates to the named A2A agents.

    ``routing``: whether a request may go past its model to the agents that it names; ``answer``: whether what they say
    is the answer as it is. YAML reads ``on`` and ``off`` as true and false.
    """

    agents: list[str]
    instructions: str = ""
    routing: Literal[True, False, "on", "off", "explicit"] = "on"
    answer: Literal["auto", "forward", "synthesize"] = "auto"
    on_disconnect: OnDisconnect = "continue"


class Server(Section, frozen=True):
    """Where and how to serve. Nothing listens beyond loopback unless ``host`` says so. Times in seconds.

    ``public_url`` is where clients find this server, when that is not what their requests say, as behind a proxy.
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


class Config(Section, frozen=True):
    """The whole file."""

    agents: dict[str, Agent]
    model: Model | None = None
    supervisor: Supervisor | None = None
    default: str | None = None
    storage: str = "sqlite:///anabranch.db"
    server: Server = Server()
    auth: Callers | None = None
