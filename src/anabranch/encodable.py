"""Makes any event encodable: valid field types, whole characters, JSON values that nobody else can change. Pure.

Text arrives in pieces that may be cut inside a surrogate pair (JSON escapes of a careless provider): half a pair
is held until its other half comes, and what stays alone becomes U+FFFD.

Values come from anybody and may be nested without end, so their depth is bounded here, once for every encoder and
walker that meets them later.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from .events import ActivityDelta, Event, StateDelta, decode, encode
from .law import REFERENCES, SUBJECT, TEXTS, Unlawful

_HIGH = ("\ud800", "\udbff")
_POINTER = re.compile(r"(?:/(?:[^~]|~[01])*)?")
_INT_BITS = 14_000  # a longer one has more digits than Python converts
DEPTH = 100
"""How many arrays and objects an event may have inside each other, itself included."""

_TOO_DEEP, _REPEATED = "<too deep>", "<repeated>"
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def is_encodable(text: str) -> bool:
    """Whether ``text`` has no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(text: str) -> str:
    """``text`` with its surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if is_encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def split_held(text: str) -> tuple[str, str]:
    """``(text to let out, half to hold back)``: the half is a high surrogate that ends ``text``, or ``""``."""
    if _HIGH[0] <= text[-1:] <= _HIGH[1]:
        return whole(text[:-1]), text[-1]
    return whole(text), ""


def checked(event: Any) -> Any:
    """``event`` as a private copy that every encoder accepts; its text may still begin or end with half a character.

    What is nested deeper than ``DEPTH`` becomes ``<too deep>``; of a value that holds itself, what comes again becomes
    ``<repeated>``. Raises ``Unlawful`` when an id is no text, a field has the wrong type, or a patch is none.
    """
    kind = type(event)
    ids = ("agent", SUBJECT.get(kind, ("", "agent"))[1], *REFERENCES.get(kind, ())[::2])
    field = TEXTS.get(kind, "")
    try:
        if not all(isinstance(getattr(event, id), str | None) for id in ids):
            raise Unlawful("its ids must be text")
        text = getattr(event, field, None)
        if isinstance(text, str):
            return replace(_sanitised(replace(event, **{field: ""})), **{field: str.__str__(text)})
        event = _sanitised(event)
    except msgspec.ValidationError as error:
        raise Unlawful(f"its fields are of the wrong type ({error})") from None
    except Unlawful:
        raise
    except Exception:  # whatever a foreign value raises when it is read
        raise Unlawful("it holds a value that cannot be written as JSON") from None
    if isinstance(event, StateDelta | ActivityDelta) and (flaw := _bad_patch(event.patch)):
        raise Unlawful(f"its JSON patch has a bad {flaw}")
    return event


def _sanitised(event: Event) -> Event:
    """A private copy of ``event`` that every encoder accepts; what is not JSON becomes ``<its type>``.

    Raises ``msgspec.ValidationError`` when a field has the wrong type.
    """
    try:
        data = encode(event)
        if not _is_deep(data):
            return decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError):
        pass
    try:
        built = msgspec.to_builtins(event, enc_hook=_foreign)
    except Exception:  # it holds itself, or something in it raises when it is read
        built = _apart(event, 1, set())
    return decode(msgspec.json.encode(_plain(built, 1)))


def _is_deep(data: bytes) -> bool:
    """Whether ``data``, which is JSON, is nested deeper than ``DEPTH``."""
    if data.count(b"[") + data.count(b"{") <= DEPTH:
        return False
    objects: list[Any] = [msgspec.json.decode(data)]
    arrays: list[Any] = []
    for _ in range(DEPTH):  # level by level, as most values are wide and not deep
        items = list(chain.from_iterable(chain(map(dict.values, objects), arrays)))
        objects = [item for item in items if type(item) is dict]
        arrays = [item for item in items if type(item) is list]
        if not objects and not arrays:
            return False
    return True


def _bad_patch(patch: list[dict[str, Any]]) -> str | None:
    """What is wrong with an RFC 6902 patch, or None."""
    for operation in patch:
        op = operation.get("op")
        if not isinstance(op, str) or op not in _OPERATIONS:
            return "op"
        for field in ("path", "from") if op in ("move", "copy") else ("path",):
            pointer = operation.get(field)
            if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
                return field
        if op in ("add", "replace", "test") and "value" not in operation:
            return "value"
    return None


def _foreign(value: Any) -> Any:
    """Something in the place of a value that msgspec does not know; msgspec then goes on inside it."""
    if isinstance(value, str):  # a framework's subclass, as the numbers below
        return str.__str__(value)
    try:
        if isinstance(value, int | float):
            return int(value) if isinstance(value, int) else float(value)
        if isinstance(value, Mapping):
            return dict(value)
        if callable(dump := getattr(value, "model_dump", None)):
            return dump(mode="json")
    except Exception:
        pass
    # The type only: a repr may hold secrets and addresses.
    return f"<{type(value).__name__}>"


def _apart(value: Any, depth: int, seen: set[int]) -> Any:
    """``value`` made of builtins one by one, each array and object once: there may be no end of ways through them."""
    inner = _inner(value)
    if not inner:
        try:
            return msgspec.to_builtins(value, enc_hook=_foreign)
        except Exception:
            return f"<{type(value).__name__}>"
    if depth > DEPTH:
        return _TOO_DEEP
    if id(value) in seen:
        return _REPEATED
    seen.add(id(value))
    if isinstance(inner, dict):
        return {_key(key): _apart(item, depth + 1, seen) for key, item in inner.items()}
    return [_apart(item, depth + 1, seen) for item in inner]


def _inner(value: Any) -> dict[Any, Any] | list[Any] | None:
    """What ``value`` holds, when it is of a kind that can hold anything."""
    try:
        if isinstance(value, dict):
            return dict(value)
        if isinstance(value, list | tuple | set | frozenset):
            return list(value)
        if isinstance(value, msgspec.Struct):
            config = value.__struct_config__
            tag = {config.tag_field: config.tag} if config.tag_field else {}
            return tag | msgspec.structs.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    except Exception:
        pass
    return None


def _plain(value: Any, depth: int) -> Any:
    """``value``, made of builtins, with whole characters, finite numbers, keys of text and no more than ``DEPTH``."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict | list | tuple) and depth > DEPTH:
        return _TOO_DEEP
    if isinstance(value, dict):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, int) and value.bit_length() <= _INT_BITS:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return f"<{type(value).__name__}>"


def _key(key: Any) -> str:
    if isinstance(key, str):
        return whole(key)
    if key is None or isinstance(key, int | float):
        return msgspec.json.encode(key).decode()
    return f"<{type(key).__name__}>"
