"""The configuration file: one YAML document, checked at start, every complaint with its line and remedy.

Any value may be overridden by the environment: ``ANABRANCH__MODEL__BASE_URL`` sets ``model.base_url``. A text is taken
as it is, anything else is read as YAML; ``_`` stands for ``-`` and ``.`` in an agent's name. Secrets are never in the
file: a ``..._env`` field names the variable that holds one.
"""

from __future__ import annotations

import difflib
import os
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from .errors import ConfigError

_PREFIX = "ANABRANCH__"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_DAY_S = 86_400

Seconds = Annotated[float, msgspec.Meta(gt=0, le=_DAY_S)]
"""A time: ``30``, ``"30s"``, ``"500ms"``, ``"2m"``, ``"1h"``."""
Grace = Annotated[float, msgspec.Meta(ge=0, le=_DAY_S)]
"""A time that may be nothing."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Bytes = Annotated[int, msgspec.Meta(gt=0)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Model(_Section, frozen=True):
    """An OpenAI-compatible chat endpoint. ``api_key_env`` names the environment variable that holds the key."""

    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    provider: Literal["openai"] = "openai"
    temperature: float | None = None


class Timeouts(_Section, frozen=True):
    """What a remote agent may take: to connect, to its first byte, and between two bytes."""

    connect: Seconds = 5.0
    first_byte: Seconds = 60.0
    idle: Seconds = 60.0


class Auth(_Section, frozen=True):
    """How we present ourselves to a remote agent: a bearer token from the environment."""

    bearer_env: str


class Agent(_Section, frozen=True):
    """One agent: ``a2a`` (a URL) or ``python`` (``package.module:object``), exactly one of them."""

    a2a: str | None = None
    python: str | None = None
    description: str = ""
    timeout: Timeouts = Timeouts()
    auth: Auth | None = None
    on_disconnect: Literal["continue", "cancel"] = "continue"


class Supervisor(_Section, frozen=True):
    """The built-in supervisor: a deep agent that delegates to the named A2A agents."""

    agents: list[str]
    instructions: str = ""
    on_disconnect: Literal["continue", "cancel"] = "continue"


class Server(_Section, frozen=True):
    """Where and how to serve. Nothing listens beyond loopback unless ``host`` says so. Times in seconds."""

    host: str = "127.0.0.1"
    port: Port = 8000
    keep_alive: Seconds = 15.0
    stop_grace: Grace = 20.0
    body_limit: Bytes = 8 * 2**20
    kept_runs: Count = 1000
    kept_bytes: Count = 256 * 2**20
    live_runs: Count = 1000
    tune_gc: bool = True


class Config(_Section, frozen=True):
    """The whole file."""

    agents: dict[str, Agent]
    model: Model | None = None
    supervisor: Supervisor | None = None
    default: str | None = None
    storage: Literal["memory://"] = "memory://"
    server: Server = Server()


def load(path: str | Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read and check a configuration file. Raises ``ConfigError`` that names file, line, field and remedy."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return parse(text, str(path), os.environ if environ is None else environ)


def parse(text: str, name: str = "anabranch.yaml", environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in ``text``; see ``load``."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        flaw = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise ConfigError(f"{name}{f':{mark.line + 1}' if mark else ''}: not YAML: {flaw}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}: expected a mapping with `agents`, see the README for an example")
    reader = _Reader(name, node)
    reader.refuse_repetition(node, set())
    for variable in sorted(environ or {}):
        if variable.startswith(_PREFIX):
            reader.override(raw, variable, (environ or {})[variable])
    config: Config = reader.read(raw, Config, ())
    _check(config, reader)
    return config


class _FromEnv(str):
    """A value that the environment gave."""


class _Reader:
    """Reads section by section, so that a complaint has its exact path, and says where in the file that stands."""

    def __init__(self, name: str, node: Any) -> None:
        self._name, self._root = name, node
        self._variables: dict[tuple[str, ...], str] = {}

    def error(self, path: tuple[str, ...], problem: str) -> ConfigError:
        """What is wrong at ``path``, with the line, or with the variable that set it."""
        where, node = self._name, self._root
        for key in path:
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            if (found := next(((k, v) for k, v in pairs if k.value == key), None)) is None:
                break
            where, node = f"{self._name}:{found[0].start_mark.line + 1}", found[1]
        for depth in range(1, len(path) + 1):
            where = self._variables.get(path[:depth], where)
        return ConfigError(f"{where}: `{'.'.join(path)}`: {problem}")

    def refuse_repetition(self, node: Any, seen: set[int]) -> None:
        """YAML takes the last of two equal keys without a word."""
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            return
        seen.add(id(node))
        lines: dict[str, int] = {}
        for item in node.value:
            key, value = item if isinstance(node, yaml.MappingNode) else (None, item)
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.value in lines:
                    problem = f"`{key.value}` is given twice, first on line {lines[key.value]}; remove one"
                    raise ConfigError(f"{self._name}:{line}: {problem}")
                lines[key.value] = line
            self.refuse_repetition(value, seen)

    def override(self, raw: dict[str, Any], variable: str, value: str) -> None:
        """Put ``value`` where ``variable`` says."""
        section: dict[str, Any] = raw
        path: tuple[str, ...] = ()
        *above, last = variable.removeprefix(_PREFIX).lower().split("__")
        for part in above:
            name = _spelled(part, section)
            path = (*path, name)
            if section.get(name) is None:
                section[name] = {}
            section = section[name]
            if not isinstance(section, dict):
                raise ConfigError(f"{variable}: `{'.'.join(path)}` is not a section")
        name = _spelled(last, section)
        section[name] = _FromEnv(value)
        self._variables[(*path, name)] = variable

    def read(self, raw: Any, kind: Any, path: tuple[str, ...]) -> Any:
        """``raw`` as ``kind``."""
        kinds = (kind, *typing.get_args(kind))
        origin = typing.get_origin(kind)
        if isinstance(raw, _FromEnv) and kind not in (str, str | None) and origin is not Literal:
            raw = self._yaml(raw, path)
        section = next((k for k in kinds if isinstance(k, type) and issubclass(k, _Section)), None)
        if origin is dict or section is not None:
            if not isinstance(raw, dict):
                raise self.error(path, f"expected lines of `name: value` below it, not {raw!r}")
            return self._section(raw, section, path) if origin is not dict else self._named(raw, kind, path)
        if origin is Literal and raw not in kinds[1:]:
            raise self.error(path, f"{raw!r} is not known; give {' or '.join(f'`{each}`' for each in kinds[1:])}")
        if origin is Annotated and kinds[1] is float and isinstance(raw, str):
            raw = self._seconds(raw, path)
        try:
            return msgspec.convert(str(raw) if isinstance(raw, _FromEnv) else raw, kind)
        except msgspec.ValidationError as error:
            raise self.error(path, str(error)) from None

    def _named(self, raw: dict[Any, Any], kind: Any, path: tuple[str, ...]) -> dict[str, Any]:
        for key in raw:
            if not isinstance(key, str):
                raise self.error((*path, str(key)), "YAML does not read this name as text; put it in quotes")
        return {key: self.read(value, typing.get_args(kind)[1], (*path, key)) for key, value in raw.items()}

    def _section(self, raw: dict[Any, Any], section: Any, path: tuple[str, ...]) -> Any:
        hints = typing.get_type_hints(section, include_extras=True)
        for key in raw:
            if key not in hints:
                near = difflib.get_close_matches(str(key), hints, n=1)
                remedy = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(sorted(hints))}"
                raise self.error((*path, str(key)), f"unknown field; {remedy}")
        given = {key: value for key, value in raw.items() if value is not None}
        for field in msgspec.structs.fields(section):
            if field.required and field.name not in given:
                raise self.error((*path, field.name), "missing; give it a value")
        return section(**{key: self.read(value, hints[key], (*path, key)) for key, value in given.items()})

    def _yaml(self, text: str, path: tuple[str, ...]) -> Any:
        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, ValueError):
            raise self.error(path, "its value is not YAML") from None

    def _seconds(self, text: str, path: tuple[str, ...]) -> float:
        if not (found := _DURATION.fullmatch(text.strip())):
            raise self.error(path, f"{text!r} is not a time; give seconds, or `500ms`, `30s`, `2m`, `1h`")
        return float(found[1]) * _UNITS[found[2]]


def _spelled(part: str, section: Mapping[Any, Any]) -> str:
    """The key of ``section`` that a part of a variable's name means."""
    return next((key for key in section if re.sub("[-.]", "_", str(key).lower()) == part), part)


def _check(config: Config, reader: _Reader) -> None:
    for name, agent in config.agents.items():
        _check_agent(name, agent, reader)
    known = [*config.agents, *(["supervisor"] if config.supervisor else [])]
    if not known:
        raise reader.error(("agents",), "there is no agent; name at least one")
    if config.default is not None and config.default not in known:
        raise reader.error(("default",), f"there is no agent {config.default!r}; known: {', '.join(known)}")
    if config.supervisor is None:
        return
    if config.model is None:
        raise reader.error(("supervisor",), "a supervisor needs a `model` section; add one")
    names = config.supervisor.agents
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


def _check_agent(name: str, agent: Agent, reader: _Reader) -> None:
    path = ("agents", name)
    if not _NAME.fullmatch(name):
        raise reader.error(path, "a name has letters, digits, `_`, `-` and `.`, at most 64, no sign first; rename it")
    if name == "supervisor":
        raise reader.error(path, "this name is taken by the built-in supervisor; rename it")
    if (agent.a2a is None) == (agent.python is None):
        raise reader.error(path, "give it one of `a2a` (a URL) or `python` (package.module:object)")
    if agent.a2a is not None and not re.fullmatch(r"https?://[^/\s]+\S*", agent.a2a):
        raise reader.error((*path, "a2a"), f"{agent.a2a!r} is not an http(s) URL, such as `http://localhost:8001`")
    if agent.python is not None:
        if not re.fullmatch(r"\w+(\.\w+)*:\w+", agent.python):
            raise reader.error((*path, "python"), f"{agent.python!r} is not `package.module:object`")
        if agent.auth is not None or agent.timeout != Timeouts():
            raise reader.error(path, "`auth` and `timeout` are for `a2a` agents; remove them")
