"""Putting a ``Set-Cookie`` on the response of whoever was identified, however the response is made. ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_KEY = "anabranch.set_cookie"


def bearing(scope: Scope, send: Send) -> Send:
    """``send``, with the cookies that are noted in ``scope`` before the response starts.

    Such a response is not to be stored: whoever got it from a cache would be the same user. Nor is one that says
    nothing of caches, as they know that it is one user's only when the request has an ``Authorization``.
    """
    noted: list[str] = scope.setdefault(_KEY, [])

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            silent = not any(name.lower() == b"cache-control" for name, _ in headers)
            headers += [(b"set-cookie", cookie.encode("latin-1")) for cookie in noted]
            if noted or silent:
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return sending


def note(scope: Scope, set_cookie: str) -> None:
    """Have the response to the request of ``scope`` set a cookie."""
    scope[_KEY].append(set_cookie)
