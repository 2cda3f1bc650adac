"""What no type says: names, addresses, and what belongs together. Pure."""

from __future__ import annotations

import re

from .callers import flaws, is_safe, unforwardable
from .reader import Reader
from .sections import Agent, Auth, Config, McpServer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_ADDRESS = re.compile(r"https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[\w.~%/-]*)?", re.ASCII)


def check(config: Config, reader: Reader) -> None:
    """Raise ``ConfigError`` for what cannot work."""
    for name, agent in config.agents.items():
        _check_agent(name, agent, reader)
    known = [*config.agents, *(["supervisor"] if config.supervisor else [])]
    if not known:
        raise reader.error(("agents",), "there is no agent; name at least one")
    if not re.fullmatch(r"memory://|sqlite:///[^/?].*|sqlite:////[^?].*", config.storage):
        problem = f"{config.storage!r} is not known; give `memory://` or `sqlite:///anabranch.db`"
        raise reader.error(("storage",), problem)
    if config.default is not None and config.default not in known:
        raise reader.error(("default",), f"there is no agent {config.default!r}; known: {', '.join(known)}")
    if config.server.public_url is not None and not _ADDRESS.fullmatch(config.server.public_url):
        problem = (
            f"{config.server.public_url!r} is not an http(s) URL without a query; give `https://agents.example.com`"
        )
        raise reader.error(("server", "public_url"), problem)
    for path, problem in flaws(config.auth) if config.auth is not None else ():
        raise reader.error(("auth", *path), problem)
    if config.supervisor is not None:
        _check_supervisor(config, config.delegates, reader)
    _check_tools(config, reader)


def _check_supervisor(config: Config, names: list[str], reader: Reader) -> None:
    if config.model is None:
        raise reader.error(("supervisor",), "a supervisor needs a `model` section; add one")
    if not names and config.supervisor is not None and config.supervisor.agents is None and config.mcp is None:
        raise reader.error(("supervisor",), "there is no `a2a` agent that it could ask; add one to `agents`")
    for name in names:
        if name not in config.agents or config.agents[name].a2a is None:
            raise reader.error(("supervisor", "agents"), f"{name!r} is not an `a2a` agent of the `agents` section")
        if names.count(name) > 1:
            raise reader.error(("supervisor", "agents"), f"{name!r} is named twice; remove one")
        if same := [other for other in names if other != name and _as_tool(other) == _as_tool(name)]:
            problem = f"{name!r} and {same[0]!r} would be one tool for the model; rename one"
            raise reader.error(("supervisor", "agents"), problem)


def _check_tools(config: Config, reader: Reader) -> None:
    if config.mcp is not None and config.supervisor is None:
        raise reader.error(("mcp",), "only a supervisor has such tools; add a `supervisor` section")
    for name, server in config.mcp.servers.items() if config.mcp is not None else ():
        _check_mcp(name, server, reader)


def _check_mcp(name: str, server: McpServer, reader: Reader) -> None:
    path = ("mcp", "servers", name)
    if not _NAME.fullmatch(name):
        raise reader.error(path, "a name has letters, digits, `_`, `-` and `.`, at most 64, no sign first; rename it")
    if (server.url is None) == (server.command is None):
        raise reader.error(path, "give it one of `url` (streamable HTTP) and `command`")
    if server.url is not None and not re.fullmatch(r"https?://[^/\s]+\S*", server.url):
        raise reader.error((*path, "url"), f"{server.url!r} is not an http(s) URL, such as `http://localhost:9000/mcp`")
    unfit = ("args", "env", "secrets_env") if server.url is not None else ("headers", "headers_env", "bearer_env")
    for field in unfit:
        if getattr(server, field):
            owner = "command" if server.url is not None else "url"
            raise reader.error((*path, field), f"it is for a server with a `{owner}`; remove it")


def _as_tool(name: str) -> str:
    """What follows ``ask_`` in the name of an agent's tool: models take no dots, and 64 characters at most."""
    return name.replace(".", "_")[:60]


def _check_agent(name: str, agent: Agent, reader: Reader) -> None:
    path = ("agents", name)
    if not _NAME.fullmatch(name):
        raise reader.error(path, "a name has letters, digits, `_`, `-` and `.`, at most 64, no sign first; rename it")
    if name == "supervisor":
        raise reader.error(path, "this name is taken by the built-in supervisor; rename it")
    kinds = [kind for kind in ("a2a", "openai", "python") if getattr(agent, kind) is not None]
    if len(kinds) != 1:
        raise reader.error(path, "give it one of `a2a` (a URL), `openai` (a URL), `python` (package.module:object)")
    (kind,) = kinds
    given = getattr(agent, kind)
    if kind == "python" and not re.fullmatch(r"\w+(\.\w+)*:\w+", given):
        raise reader.error((*path, kind), f"{given!r} is not `package.module:object`")
    if kind != "python" and not re.fullmatch(r"https?://[^/\s]+\S*", given):
        raise reader.error((*path, kind), f"{given!r} is not an http(s) URL, such as `http://localhost:8001`")
    for field, owners in _FIELDS.items():
        if kind not in owners and getattr(agent, field) != getattr(_NOTHING, field):
            fit = " and ".join(f"for `{owner}`" for owner in owners)
            raise reader.error(path, f"`{field}` is {fit} agents; remove it")
    if agent.auth is not None:
        _check_auth((*path, "auth"), agent.auth, reader)
    _check_forward((*path, "forward"), agent, reader)
    if kind == "openai" and not agent.model:
        raise reader.error(path, "an `openai` agent needs a `model`; name it")


def _check_forward(path: tuple[str, ...], agent: Agent, reader: Reader) -> None:
    if (problem := unforwardable(agent.forward)) is not None:
        raise reader.error(path, problem)
    name = agent.auth.name if agent.auth is not None and agent.auth.name else None
    ours = name.lower() if name else "authorization" if _has_bearer(agent) else None
    if ours is not None and ours in map(str.lower, agent.forward):
        raise reader.error(path, f"a caller without `{ours}` would get ours; remove one of the two")


def _has_bearer(agent: Agent) -> bool:
    return agent.api_key_env is not None or agent.auth is not None and agent.auth.api_key_env is None


def _check_auth(path: tuple[str, ...], auth: Auth, reader: Reader) -> None:
    given = [field for field in ("bearer_env", "api_key_env", "oauth2") if getattr(auth, field) is not None]
    if len(given) != 1:
        raise reader.error(path, "give it one of `bearer_env`, `api_key_env` and `oauth2`")
    if auth.name is not None and (auth.api_key_env is None or unforwardable([auth.name])):
        problem = "it is for `api_key_env`; remove it" if auth.api_key_env is None else "no key can go into this header"
        raise reader.error((*path, "name"), f"{auth.name!r}: {problem}")
    if auth.oauth2 is not None and auth.oauth2.token_url is not None and not is_safe(auth.oauth2.token_url):
        problem = "it must be an https:// URL without a user name (http:// on this machine only)"
        raise reader.error((*path, "oauth2", "token_url"), problem)


_NOTHING = Agent()
_FIELDS = {
    **dict.fromkeys(("auth", "url_override"), ("a2a",)),
    "forward": ("openai", "a2a"),
    "timeout": ("openai", "a2a"),
    **dict.fromkeys(("model", "api_key_env", "instructions", "options"), ("openai",)),
}
"""The fields that not every agent has, and the kinds that have them."""
