"""Which headers of a request reach tools and remote agents.

They are in a context variable while the request is answered; a run that it starts is a task of that request and has
them for as long as it lives. So they are in no request's digest, no table, no log and no recording, and a run that goes
on in another process goes on without them.

Trace headers go to every agent that is asked with ``outgoing()``; others only where an allow-list names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from ..config.callers import NEVER_FORWARDED
from ..errors import ClientError
from .shown import Headers

PATH = "x-anabranch-path"
"""Through which agents of which servers a request has come, so that a circle of servers is noticed."""

TRACE = ("traceparent", "tracestate", "x-request-id", PATH)
"""What tells which request a call belongs to (W3C Trace Context), and how it came."""

HOPS = 8
"""Servers a request may go through."""

VALUE_LIMIT = 16 * 1024
"""Characters a forwarded header may have."""


class _Carried:
    """Headers that show nothing of themselves, and cannot be written anywhere by mistake."""

    __slots__ = ("headers",)

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers

    def __reduce__(self) -> str:
        raise TypeError("the headers of a request stay in its process")


_carried: ContextVar[_Carried | None] = ContextVar("anabranch_carried", default=None)


def forwarded(headers: Headers, allow: Sequence[str] = ()) -> dict[str, str]:
    """The trace headers of a request, and those that ``allow`` names, by their lower-case names.

    Left out is what came twice (``tracestate`` may), what is not printable ASCII, and what belongs to one connection.
    """
    allowed = {*TRACE, *(name.lower() for name in allow)} - NEVER_FORWARDED
    found: dict[str, list[str]] = {}
    for raw, value in headers:
        if (name := raw.decode("latin-1").lower()) in allowed:
            found.setdefault(name, []).append(value.decode("latin-1").strip(" \t"))
    return {
        name: text
        for name, values in found.items()
        if (len(values) == 1 or name == "tracestate")
        and (text := ",".join(values))
        and text.isascii()
        and text.isprintable()
        and len(text) <= VALUE_LIMIT
    }


@contextmanager
def carrying(headers: Headers, allow: Sequence[str] = ()) -> Iterator[None]:
    """Within it, and in the tasks that are begun there, ``outgoing`` knows a request's headers: those of ``allow``."""
    token = _carried.set(_Carried(forwarded(headers, allow)))
    try:
        yield
    finally:
        _carried.reset(token)


def enter(place: str) -> None:
    """The request of this context has come to ``place``, and goes on from there.

    Raises ``ClientError`` ``cycle`` when it was there before, or came through too many servers to get anywhere.
    """
    carried = _carried.get()
    if carried is None:
        return
    path = [step for step in carried.headers.get(PATH, "").split(",") if step]
    if place in path or len(path) >= HOPS:
        names = " -> ".join(step.rpartition("/")[2] for step in [*path, place])
        flaw = "agents ask each other in a circle" if place in path else f"a request may pass {HOPS} servers"
        raise ClientError(f"{flaw}: {names}; let one of them answer", code="cycle", status=409)
    carried.headers[PATH] = ",".join([*path, place])


def outgoing(allow: Sequence[str] = ()) -> dict[str, str]:
    """What goes on to an agent or tool with this allow-list. Nothing outside a request's run."""
    carried = _carried.get()
    if carried is None:
        return {}
    allowed = {*TRACE, *(name.lower() for name in allow)}
    return {name: value for name, value in carried.headers.items() if name in allowed}
