"""Reads section by section, so that every complaint has its exact path and line. Pure."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import yaml

from ..errors import ConfigError
from .callers import Anonymous
from .sections import CancelAfter
from .values import Section

PREFIX = "ANABRANCH__"
"""Of the environment variables that override the file."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_SHOWN = {CancelAfter: "{cancel_after: 30s}", Anonymous: "{secret_env: NAME}"}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class _FromEnv(str):
    """A value that the environment gave."""


class Reader:
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
        *above, last = variable.removeprefix(PREFIX).lower().split("__")
        for part in above:
            name = spelled(part, section)
            path = (*path, name)
            if section.get(name) is None:
                section[name] = {}
            section = section[name]
            if not isinstance(section, dict):
                raise ConfigError(f"{variable}: `{'.'.join(path)}` is not a section")
        name = spelled(last, section)
        section[name] = _FromEnv(value)
        self.came_from((*path, name), variable)

    def came_from(self, path: tuple[str, ...], variable: str) -> None:
        """What stands at ``path`` was set by ``variable``, which complaints then name."""
        self._variables[path] = variable

    def read(self, raw: Any, kind: Any, path: tuple[str, ...]) -> Any:
        """``raw`` as ``kind``."""
        kinds = (kind, *typing.get_args(kind))
        origin = typing.get_origin(kind)
        if isinstance(raw, _FromEnv) and kind not in (str, str | None) and origin is not Literal:
            raw = self._yaml(raw, path)
        if (choice := next((k for k in kinds if typing.get_origin(k) is Literal), None)) and not isinstance(raw, dict):
            return self._chosen(raw, choice, kinds, path)
        section = next((k for k in kinds if isinstance(k, type) and issubclass(k, Section)), None)
        if origin is dict or section is not None:
            if not isinstance(raw, dict):
                raise self.error(path, f"expected lines of `name: value` below it, not {raw!r}")
            return self._section(raw, section, path) if origin is not dict else self._named(raw, kind, path)
        if isinstance(raw, str) and any(
            typing.get_origin(k) is Annotated and typing.get_args(k)[0] is float for k in kinds
        ):
            raw = self._seconds(raw, path)
        try:
            return msgspec.convert(str(raw) if isinstance(raw, _FromEnv) else raw, kind)
        except msgspec.ValidationError as error:
            raise self.error(path, str(error)) from None

    def _chosen(self, raw: Any, choice: Any, kinds: tuple[Any, ...], path: tuple[str, ...]) -> Any:
        choices = typing.get_args(choice)
        if raw in choices:
            return choices[choices.index(raw)]
        shown = [str(each).lower() if isinstance(each, bool) else each for each in choices]
        shown += [_SHOWN[kind] for kind in kinds if kind in _SHOWN]
        raise self.error(path, f"{raw!r} is not known; give {' or '.join(f'`{each}`' for each in shown)}")

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


def spelled(part: str, section: Mapping[Any, Any]) -> str:
    """The key of ``section`` that a part of a variable's name means."""
    return next((key for key in section if re.sub("[-.]", "_", str(key).lower()) == part), part)
