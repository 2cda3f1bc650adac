"""Requests of A2A, 1.0 and 0.3, over JSON-RPC and REST, to calls. Pure.

What is wrong is a ``ClientError`` with a code that ``refusals`` knows. Fields that nobody uses are ignored, and a null
is an absent field. What a message and a list ask for is read by ``messages`` and ``listing``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from ...encodable import whole
from . import legacy, wire
from .checks import LONG_ID, bad, checked_id, converted, refuse, shown
from .encode import Envelope
from .profile import EXTENSION, Name, Profile, Version

METHODS: dict[str, type[Any]] = {
    "SendMessage": wire.SendMessage,
    "SendStreamingMessage": wire.SendMessage,
    "GetTask": wire.GetTask,
    "ListTasks": wire.ListTasks,
    "CancelTask": wire.TaskId,
    "SubscribeToTask": wire.TaskId,
}
"""The methods of 1.0 that are served, and what they take."""
_PUSH = frozenset(name for name in legacy.METHODS.values() if "PushNotification" in name)
_CARD = "GetExtendedAgentCard"

_decode = msgspec.json.Decoder().decode


class Call(msgspec.Struct, frozen=True):
    """One request: a method by its name in 1.0, what it is given, and how its client reads the answer."""

    method: str
    params: Any
    profile: Profile
    envelope: Envelope


def decode(body: bytes) -> Any:
    """The JSON of a request. Raises ``ClientError`` ``bad_json``."""
    try:
        return _decode(body)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        refuse("the body is nested too deeply", "bad_json")
    try:
        # Slower, but it says where the error is, and takes a lone half of a surrogate pair, which becomes U+FFFD.
        return _decode(whole(json.dumps(json.loads(body), ensure_ascii=False)))
    except json.JSONDecodeError as error:
        refuse(f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}", "bad_json")
    except (ValueError, RecursionError):  # no UTF-8, NaN, a number with thousands of digits
        refuse("the body is not JSON: send one object in UTF-8", "bad_json")


def request_id(said: Any) -> str | int | float | None:
    """The id of a JSON-RPC request; None when it has none that can be sent back."""
    found = said.get("id") if isinstance(said, dict) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def rpc_call(said: Any, headers: Mapping[str, str], query: Mapping[str, str], default: Name = "standard") -> Call:
    """The call that a JSON-RPC request makes; ``default`` is for who names no profile. Raises ``ClientError``."""
    if isinstance(said, list):
        refuse("batches are not served: send one request at a time", "bad_request")
    if not isinstance(said, dict) or said.get("jsonrpc") != "2.0":
        refuse('this is no JSON-RPC request: send an object with "jsonrpc": "2.0"', "bad_request")
    if said.get("id") != request_id(said) or isinstance(said.get("id"), bool):
        refuse("the id of a request is a string, a number or null", "bad_request")
    method = said.get("method")
    if not isinstance(method, str) or not method:
        refuse("the method is missing: send its name", "bad_request")
    version = spoken(headers, query)
    params = said.get("params")
    params = {} if params is None else params
    if version == "0.3":
        method, params = _modern(method), legacy.params(params)
    profile = profiled(version, headers, query, default)
    return Call(method, _read(method, params, version), profile, Envelope.rpc(request_id(said)))


def rest_call(
    method: str,
    said: Any,
    version: Version,
    headers: Mapping[str, str],
    query: Mapping[str, str] | None = None,
    default: Name = "standard",
    *,
    text: bool = False,
) -> Call:
    """The call of the 1.0 ``method`` that a REST request of ``version`` makes. Raises ``ClientError``.

    With ``text``, what is ``said`` comes from a query: numbers are text, too.
    """
    if version == "0.3":
        said = legacy.rest_params(said)
        if text and said.get("historyLength") == "0":
            del said["historyLength"]  # in 0.3, none and all are the same
    profile = profiled(version, headers, query or {}, default)
    return Call(method, _read(method, said, version, strict=not text), profile, Envelope.rest())


def expect(version: Version, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
    """Refuse a client of another version at a path of ``version``."""
    if spoken(headers, query) != version:
        refuse(f"this path is of A2A {version}: send the header A2A-Version: {version} with it", "unknown_version")


def spoken(headers: Mapping[str, str], query: Mapping[str, str]) -> Version:
    """The version that the client speaks: ``A2A-Version``, a header or in the query; without it 0.3.

    Raises ``ClientError`` ``unknown_version`` for any other one.
    """
    said = (headers.get("a2a-version") or query.get("A2A-Version") or "0.3").strip()
    if said == "1.0":
        return "1.0"
    if said == "0.3":
        return "0.3"
    refuse(f"A2A-Version {said[:40]!r} is not spoken here: send 1.0 or 0.3", "unknown_version")


def profiled(version: Version, headers: Mapping[str, str], query: Mapping[str, str], default: Name) -> Profile:
    """What the client reads: the ``profile`` in its query; else ``EXTENSION``, if it asks for that; else ``default``.

    Raises ``ClientError`` for a profile that there is not.
    """
    name, attributed = query.get("profile"), EXTENSION in extensions(headers)
    if name is None:
        return Profile(version, attributed, caipe=default == "caipe" and not attributed)
    if name not in get_args(Name):
        bad("profile", f"it is {shown(name)}; send {' or '.join(get_args(Name))}, or none")
    return Profile(version, attributed and name != "caipe", caipe=name == "caipe")


def extensions(headers: Mapping[str, str]) -> frozenset[str]:
    """The extensions that the client asks for; the header of 0.3 had another name."""
    said = f"{headers.get('a2a-extensions', '')},{headers.get('x-a2a-extensions', '')}"
    return frozenset(filter(None, (name.strip() for name in said.split(","))))


def _modern(method: str) -> str:
    """The name in 1.0 of a method of 0.3."""
    if method in METHODS or method in _PUSH or method == _CARD:
        refuse(f"{method} is a method of A2A 1.0: send the header A2A-Version: 1.0 with it", "unknown_version")
    return legacy.METHODS.get(method, method)


def _read(method: str, params: Any, version: Version, strict: bool = True) -> Any:
    """The parameters of a method, checked as far as all methods check them."""
    if method in _PUSH:
        refuse("push notifications are not served: stream, or subscribe to the task", "push_unsupported")
    if method == _CARD:
        refuse("there is no extended card: everything is in the public one", "no_extended_card")
    if method not in METHODS:
        renamed = legacy.METHODS.get(method)
        known = METHODS if version == "1.0" else [old for old, name in legacy.METHODS.items() if name in METHODS]
        remedy = f"in A2A 1.0 it is called {renamed}" if renamed else f"known: {', '.join(known)}"
        refuse(f"there is no method {method[:80]!r}: {remedy}", "unknown_method")
    given = converted(params, METHODS[method], strict)
    if isinstance(given, wire.GetTask | wire.TaskId):
        checked_id(given.id, "id", LONG_ID)
    holder = given.configuration if isinstance(given, wire.SendMessage) else given
    length = getattr(holder, "history_length", None)
    if length is not None and length < 0:
        bad("historyLength", f"it is {length}; send 0 or more")
    return given
