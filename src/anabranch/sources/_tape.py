"""Items of sources as JSON values, and back: what the ``tape`` modules of all sources share. Pure.

What is read again does to a translator, and to the grammar behind it, exactly what the item did that was written.
Builtins are written as they are, known things under a tag, and of any other object only what it is called and what it
is as JSON:

| JSON | stands for |
|---|---|
| ``{"$tuple": [...]}``, ``{"$float": "nan"}`` | what JSON does not have |
| ``{"$event": {...}}`` | an event of ``anabranch.events`` |
| ``{"$error": {...}}`` | an exception: its classes by name, and what may be shown of it |
| ``{"$object": "HumanMessage", "has": {...}, "json": ...}`` | another object: some attributes, and what it is as JSON |
| ``{"$dict": {...}}`` | a dict with one of these tags for a key |

A file may be hostile. Reading it makes builtins, events, errors and ``StandIn``s. It imports nothing that the file
names, and calls nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from ..encodable import checked
from ..errors import AnabranchError, Cancelled, ClientError, ConfigError, ServerError, SourceError, scrub
from ..events import EVENT_TYPES, Custom, Event, Unknown

TAGS = frozenset({"$tuple", "$float", "$event", "$error", "$object", "$dict"})

_DEPTH = 200  # levels of a value; what is deeper is cut off, as is what holds itself
_INT_BITS = 14_000  # a longer one has more digits than Python converts
_BASES = 20  # of an error's class
_EVENTS = {str(kind.__struct_config__.tag): kind for kind in EVENT_TYPES}
_KINDS = frozenset(EVENT_TYPES)
_ERRORS: tuple[type[AnabranchError], ...] = (Cancelled, ClientError, SourceError, ConfigError, ServerError)

Leaf = Callable[[Any], Any]
"""Writes what is neither a builtin nor holds others."""


class Unreadable(Exception):
    """What is wrong with a recorded value."""


# --- writing ---------------------------------------------------------------------------------------------------------


def is_event(value: Any) -> bool:
    """Whether ``value`` is an event of ours, and not of a class made of one."""
    return type(value) in _KINDS


def named(value: Any) -> Any:
    """``value`` where nothing but the names of foreign objects is told of them."""
    return walk(value, stand_in)


def valued(value: Any) -> Any:
    """``value`` where foreign objects are told as the JSON that the grammar makes of them."""
    return walk(value, _as_json)


def walk(value: Any, leaf: Leaf, above: tuple[int, ...] = ()) -> Any:
    """``value`` as JSON; ``leaf`` writes the foreign objects in it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__index__(value) if value.bit_length() <= _INT_BITS else _cut(value, leaf)
    if isinstance(value, float):
        number = float.__float__(value)
        return number if math.isfinite(number) else {"$float": repr(number)}
    if not isinstance(value, dict | list | tuple):
        return leaf(value)
    if id(value) in above or len(above) == _DEPTH:
        return _cut(value, leaf)
    above = (*above, id(value))
    if isinstance(value, dict):
        return escaped({_key(key, leaf): walk(item, leaf, above) for key, item in dict.items(value)})
    if isinstance(value, list):
        return [walk(item, leaf, above) for item in list.__iter__(value)]
    return {"$tuple": [walk(item, leaf, above) for item in tuple.__iter__(value)]}


def escaped(fields: dict[str, Any]) -> dict[str, Any]:
    """A written dict, so that none of its keys is taken for a tag."""
    return fields if TAGS.isdisjoint(fields) else {"$dict": fields}


def stand_in(value: Any, /, **has: Any) -> dict[str, Any]:
    """A foreign object: the name of its type, and the (written) attributes that matter of it."""
    return {"$object": type(value).__name__, "has": has} if has else {"$object": type(value).__name__}


def dump_event(event: Any) -> dict[str, Any]:
    """An event, or whatever somebody took for one."""
    if not is_event(event):
        return stand_in(event)
    try:
        # What the grammar makes of it; that of a fragment may begin or end with half a character.
        plain = event if type(getattr(event, "delta", None)) is str else checked(event)
        return msgspec.to_builtins(plain)  # type: ignore[no-any-return]  # of a struct: a dict
    except Exception:  # it is unlawful, which the grammar has to see again
        fields = {name: valued(getattr(event, name)) for name in event.__struct_fields__}
        return {"type": event.__struct_config__.tag, "$fields": fields}


def dump_error(error: Any) -> dict[str, Any]:
    """An error, or whatever a framework reports as one; equal ids are one object."""
    if isinstance(error, AnabranchError):
        base = next((each for each in _ERRORS if isinstance(error, each)), AnabranchError)
        said = {"type": base.__name__, "code": error.code, "message": str(error), "retryable": error.retryable}
        return {**said, "id": id(error)}
    kinds = [f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__][:_BASES]
    written = {"type": type(error).__name__, "kinds": kinds, "id": id(error)}
    if isinstance(error, BaseExceptionGroup):
        return written | {"group": [dump_error(inner) for inner in error.exceptions]}
    try:
        written["message"] = scrub(str(error))
    except Exception:
        written["message"] = ""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if isinstance(status, int):
        written["status"] = status
    if isinstance(body, dict):
        written["body"] = named({key: body[key] for key in ("message", "error") if key in body})
    return written


def dump_bytes(data: bytes) -> str:
    """Bytes that are text, mostly; those that are not become halves of surrogate pairs (PEP 383)."""
    return data.decode("utf-8", "surrogateescape")


def _key(key: Any, leaf: Leaf) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, int | float):
        return msgspec.json.encode(key).decode()
    return next(iter(_form({key: None}))) if leaf is _as_json else f"<{type(key).__name__}>"


def _cut(value: Any, leaf: Leaf) -> Any:
    """What is too much of a builtin: the grammar is only ever told its name."""
    return f"<{type(value).__name__}>" if leaf is _as_json else stand_in(value)


def _as_json(value: Any) -> dict[str, Any]:
    return stand_in(value) | {"json": _form(value)}


def _form(value: Any) -> Any:
    """What the grammar makes of a foreign value."""
    return checked(Custom(name="", value=value)).value


# --- reading ---------------------------------------------------------------------------------------------------------


class StandIn:
    """What is read in the place of a foreign object: its class has that object's name, and it has some attributes."""

    def __init__(self, json: Any, has: dict[str, Any]) -> None:
        self.__dict__.update(has)
        self._json = json

    def model_dump(self, **_: Any) -> Any:
        """What it is as JSON; by this name the grammar asks foreign objects for that."""
        return self._json


class Loader:
    """Reads what one recording holds. Every method raises ``Unreadable``.

    ``attributes`` are those that a stand-in may have. What was one error when it was written is one again.
    """

    attributes: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._errors: dict[Any, tuple[Any, BaseException]] = {}

    def item(self, value: Any) -> Any:
        """An item of the source."""
        return self.value(value)

    def value(self, value: Any) -> Any:
        """What ``walk`` wrote."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        tag = min(TAGS & value.keys(), default=None)
        if tag is None:
            return {key: self.value(item) for key, item in value.items()}
        inside = value[tag]
        if tag == "$object":
            return self._object(inside, value.get("has") or {}, value.get("json", f"<{inside}>"))
        if tag == "$event":
            return self.event(inside)
        if tag == "$error":
            return self.error(inside)
        if tag == "$tuple" and isinstance(inside, list):
            return tuple(self.value(item) for item in inside)
        if tag == "$dict" and isinstance(inside, dict):
            return {key: self.value(item) for key, item in inside.items()}
        if tag == "$float" and inside in ("nan", "inf", "-inf"):
            return float(inside)
        raise Unreadable(f"{tag} holds {type(inside).__name__}")

    def event(self, written: Any) -> Event | Any:
        """What ``dump_event`` wrote."""
        if isinstance(written, dict) and "$object" in written:
            return self.value(written)
        if not isinstance(written, dict) or not isinstance(tag := written.get("type"), str):
            raise Unreadable("an event is an object with a type")
        fields = {name: value for name, value in written.items() if name != "type"}
        if "$fields" in fields:
            if not isinstance(given := fields["$fields"], dict):
                raise Unreadable("the $fields of an event are an object")
            fields = {name: self.value(value) for name, value in given.items()}
        if tag not in _EVENTS:
            return Unknown(agent=str(fields.pop("agent", "")), name=tag, value=fields)
        try:
            return msgspec.convert({"type": tag, **fields}, _EVENTS[tag])
        except msgspec.ValidationError:
            pass
        try:  # a wrong type in it was the agent's doing, and the grammar's to refuse
            return _EVENTS[tag](**fields)
        except TypeError as flaw:
            raise Unreadable(f"an event of the type {tag} cannot have these fields ({flaw})") from None

    def error(self, written: Any) -> BaseException:
        """What ``dump_error`` wrote."""
        if not isinstance(written, dict):
            raise Unreadable("an error is an object")
        id = written.get("id")
        known = self._errors.get(id) if isinstance(id, int) else None
        if known is not None and known[0] == written:
            return known[1]
        error = self._ours(written) or self._foreign(written)
        if isinstance(id, int):
            self._errors[id] = (written, error)
        return error

    def _object(self, name: Any, has: Any, json: Any) -> Any:
        if not isinstance(name, str) or not isinstance(has, dict):
            raise Unreadable("a foreign object has a name, and attributes")
        return _class(name)(json, {each: self.value(has[each]) for each in self.attributes & has.keys()})

    def _ours(self, written: dict[str, Any]) -> AnabranchError | None:
        if "kinds" in written:
            return None
        kinds: dict[Any, type[AnabranchError]] = {each.__name__: each for each in (*_ERRORS, AnabranchError)}
        kind, code, message = (written.get(field) for field in ("type", "code", "message"))
        if not isinstance(kind, str) or kind not in kinds or not isinstance(code, str) or not isinstance(message, str):
            raise Unreadable("an error has a type, a code and a message")
        error = kinds[kind](message)
        error.code, error.retryable = code, written.get("retryable") is True
        return error

    def _foreign(self, written: dict[str, Any]) -> BaseException:
        kinds = written["kinds"]
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise Unreadable("the kinds of an error are names")
        if (group := written.get("group")) is not None:
            if not isinstance(group, list) or not group:
                raise Unreadable("a group of errors holds some")
            return BaseExceptionGroup("recorded", [self.error(inner) for inner in group])
        error: Any = _error_class(tuple(kinds[:_BASES]))(str(written.get("message") or ""))
        error.status_code, error.body = written.get("status"), self.value(written.get("body"))
        return error  # type: ignore[no-any-return]  # an exception, by its class


class BytesLoader(Loader):
    """Reads items that ``dump_bytes`` wrote."""

    def item(self, value: Any) -> bytes:
        """The bytes."""
        try:
            return str.encode(value, "utf-8", "surrogateescape")
        except (TypeError, UnicodeEncodeError):
            raise Unreadable("an item of this source is text") from None


@lru_cache(maxsize=256)
def _class(name: str, base: type[Any] = StandIn, module: str = __name__) -> Any:
    """An empty class of that name."""
    try:
        return type(name, (base,), {"__module__": module})
    except (TypeError, ValueError):
        raise Unreadable(f"{name!r:.100} is no name of a type") from None


def _error_class(kinds: tuple[str, ...]) -> Any:
    """An exception class with these ancestors, nearest first, by name only."""
    made: Any = ValueError if "builtins.ValueError" in kinds else Exception
    for kind in reversed(kinds):
        module, _, name = kind.rpartition(".")
        if module != "builtins" or name not in ("object", "BaseException", "Exception", "ValueError"):
            made = _class(name, made, module)
    return made
