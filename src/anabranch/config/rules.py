"""What no type says: names, addresses, and what belongs together. Pure."""

from __future__ import annotations

import re

from .callers import flaws, unforwardable
from .reader import Reader
from .sections import Agent, Config

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
        _check_supervisor(config, config.supervisor.agents, reader)


def _check_supervisor(config: Config, names: list[str], reader: Reader) -> None:
    if config.model is None:
        raise reader.error(("supervisor",), "a supervisor needs a `model` section; add one")
    for name in names:
        if name not in config.agents or config.agents[name].a2a is None:
            raise reader.error(("supervisor", "agents"), f"{name!r} is not an `a2a` agent of the `agents` section")
        if names.count(name) > 1:
            raise reader.error(("supervisor", "agents"), f"{name!r} is named twice; remove one")
        if same := [other for other in names if other != name and _as_tool(other) == _as_tool(name)]:
            problem = f"{name!r} and {same[0]!r} would be one tool for the model; rename one"
            raise reader.error(("supervisor", "agents"), problem)


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
    _check_forward((*path, "forward"), agent, reader)
    if kind == "openai" and not agent.model:
        raise reader.error(path, "an `openai` agent needs a `model`; name it")


def _check_forward(path: tuple[str, ...], agent: Agent, reader: Reader) -> None:
    if (problem := unforwardable(agent.forward)) is not None:
        raise reader.error(path, problem)
    if (agent.auth or agent.api_key_env) is not None and "authorization" in map(str.lower, agent.forward):
        raise reader.error(path, "a caller without `authorization` would get ours; remove one of the two")


_NOTHING = Agent()
_FIELDS = {
    "auth": ("a2a",),
    "forward": ("openai", "a2a"),
    "timeout": ("openai", "a2a"),
    **dict.fromkeys(("model", "api_key_env", "instructions", "options"), ("openai",)),
}
"""The fields that not every agent has, and the kinds that have them."""
