"""Agents that the environment names, for deployments whose environment does so already. Pure.

``ENABLE_<NAME>=true`` turns one on, ``<NAME>_AGENT_HOST`` and ``<NAME>_AGENT_PORT``, or ``<NAME>_AGENT_URL``, say where
it is. Others use ``ENABLE_`` as well, so this is done only when the file asks for it, and a name without an address is
no agent, unless the file lists it: then the address is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .reader import Reader, spelled

_ON, _OFF = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off", ""})
_ENABLE = "ENABLE_"
_NAME = re.compile(r"[A-Z0-9][A-Z0-9_]*")
_EXCLUDE = "EXCLUDE_FROM_AGENT_REGISTRY"
"""Names that are no agents, with commas."""
_HOST, _PORT = "localhost", "8000"


def add(raw: dict[str, Any], environ: Mapping[str, str], reader: Reader) -> None:
    """Put the agents of ``environ`` beside those of the file, which wins. Raises ``ConfigError``."""
    path = ("agents_from_env",)
    wanted = reader.read(raw.get("agents_from_env") or False, bool | list[str], path)
    if wanted is False:
        return
    agents = raw.get("agents") or {}
    if not isinstance(agents, dict):
        return  # the reader says so
    raw["agents"] = agents
    for name, variable in _enabled(environ, None if wanted is True else wanted, reader):
        source, address = _address(name, environ)
        if not address:
            if wanted is True:
                continue
            remedy = f"set {name}_AGENT_HOST and {name}_AGENT_PORT, or {name}_AGENT_URL, or remove {variable}"
            raise reader.error(path, f"{name.lower()!r} is enabled and has no address; {remedy}")
        key = spelled(name.lower(), agents)
        if key not in agents or agents[key] is None:
            agents[key] = {}
            reader.came_from(("agents", key), variable)
        agent = agents[key]
        if isinstance(agent, dict) and not any(agent.get(kind) for kind in ("a2a", "openai", "python")):
            agent["a2a"] = address
            reader.came_from(("agents", key, "a2a"), source)
    if not agents:
        raise reader.error(path, "the environment names no agent; set ENABLE_NAME=true and NAME_AGENT_URL")


def _enabled(environ: Mapping[str, str], listed: list[str] | None, reader: Reader) -> Iterator[tuple[str, str]]:
    """The upper-case name of each agent that is on, with the variable that says so, in alphabetical order."""
    excluded = {name.strip().upper() for name in environ.get(_EXCLUDE, "").split(",")}
    names = None if listed is None else {re.sub("[-.]", "_", name.upper()) for name in listed}
    for variable in sorted(environ):
        name = variable.removeprefix(_ENABLE)
        if name == variable or not _NAME.fullmatch(name) or name in excluded:
            continue
        if names is None and not _address(name, environ)[1] or names is not None and name not in names:
            continue
        value = environ[variable].strip().lower()
        if value not in _ON | _OFF:
            raise reader.error(("agents_from_env",), f"{variable}={value[:40]!r} is not known; give `true` or `false`")
        if value in _ON:
            yield name, variable


def _address(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that says where the agent is, and its URL; nothing when none does."""
    host, port = environ.get(f"{name}_AGENT_HOST", "").strip(), environ.get(f"{name}_AGENT_PORT", "").strip()
    if host or port:
        bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host or _HOST
        return f"{name}_AGENT_{'HOST' if host else 'PORT'}", f"http://{bracketed}:{port or _PORT}"
    return f"{name}_AGENT_URL", environ.get(f"{name}_AGENT_URL", "").strip()
