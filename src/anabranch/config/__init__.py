"""The configuration file: one YAML document, checked at start, every complaint with its line and remedy.

Any value may be overridden by the environment: ``ANABRANCH__MODEL__BASE_URL`` sets ``model.base_url``. A text is taken
as it is, anything else is read as YAML; ``_`` stands for ``-`` and ``.`` in an agent's name. Secrets are never in the
file: a ``..._env`` field names the variable that holds one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from ..errors import ConfigError
from . import environment
from .callers import Anonymous, Callers, ContextHeader, Jwt, SessionCookie
from .reader import PREFIX, Reader
from .rules import check
from .sections import (
    Agent,
    Auth,
    CancelAfter,
    Config,
    Mcp,
    McpServer,
    McpTimeouts,
    Model,
    OAuth2,
    Server,
    Supervisor,
    Timeouts,
)

__all__ = (
    "Agent",
    "Anonymous",
    "Auth",
    "Callers",
    "CancelAfter",
    "Config",
    "ContextHeader",
    "Jwt",
    "Mcp",
    "McpServer",
    "McpTimeouts",
    "Model",
    "OAuth2",
    "Server",
    "SessionCookie",
    "Supervisor",
    "Timeouts",
    "load",
    "located",
    "parse",
)


def load(path: str | Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read and check a configuration file. Raises ``ConfigError`` that names file, line, field and remedy."""
    return located(path, environ)[0]


def located(path: str | Path, environ: Mapping[str, str] | None = None) -> tuple[Config, Reader]:
    """``load``, and what knows the line of each field, for what turns out to be wrong only later."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return _parsed(text, str(path), os.environ if environ is None else environ)


def parse(text: str, name: str = "anabranch.yaml", environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in ``text``; see ``load``."""
    return _parsed(text, name, environ or {})[0]


def _parsed(text: str, name: str, environ: Mapping[str, str]) -> tuple[Config, Reader]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        flaw = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise ConfigError(f"{name}{f':{mark.line + 1}' if mark else ''}: not YAML: {flaw}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}: expected a mapping with `agents`, see the README for an example")
    reader = Reader(name, node)
    reader.refuse_repetition(node, set())
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            reader.override(raw, variable, environ[variable])
    environment.add(raw, environ, reader)
    config: Config = reader.read(raw, Config, ())
    check(config, reader)
    return config, reader
