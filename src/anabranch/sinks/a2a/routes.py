"""A2A over HTTP: the default agent at the root, every agent under ``/a2a/{name}``, and their cards."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...errors import ClientError
from ...transports.http import BODY_LIMIT
from ...transports.stream import KEEP_ALIVE_S
from .._gate import Gate
from . import rest, rpc
from .card import card
from .methods import Methods
from .payload import to_json
from .profile import Name

CARDS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where cards are, for clients of today and of before 0.3."""

_PLACES = ("", "/a2a/{name}")
_CARD_AGE_S = 300
_HOST = re.compile(r"[\w.-]+(?::\d+)?|\[[0-9A-Fa-f:.]+\](?::\d+)?", re.ASCII)


def routes(
    gate: Gate,
    *,
    version: str,
    public_url: str | None = None,
    security: Mapping[str, Any] | None = None,
    keep_alive_s: float = KEEP_ALIVE_S,
    body_limit: int = BODY_LIMIT,
    profile: Name = "standard",
) -> list[Route]:
    """The sink's routes. Cards are for everybody; what else is asked of a task that is not the caller's is a 404.

    The addresses in cards begin with ``public_url``, or as the request for the card did. ``version`` is the server's,
    ``security`` what ``card`` takes. ``profile`` is for clients that name none.
    """
    methods = Methods(gate)
    limits: Any = {"keep_alive_s": keep_alive_s, "body_limit": body_limit, "profile": profile}
    answer = rpc.endpoint(gate, methods, **limits)

    async def presented(request: Request) -> Response:
        name = request.path_params.get("name")
        agent = gate.present(name)
        base = public_url.rstrip("/") if public_url else _base(request)
        place = f"{base}/a2a/{quote(name, safe='')}" if name else base
        url = place if name else f"{base}/"
        said = card(agent.name, agent.description, url, rest_url=place, version=version, security=security)
        body = to_json(said)
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": f"public, max-age={_CARD_AGE_S}"}
        if tag in {known.strip().removeprefix("W/") for known in request.headers.get("if-none-match", "").split(",")}:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    return [
        *[Route(path, answer, methods=["POST"]) for path in ("/", "/a2a/{name}", "/a2a/{name}/")],
        *[Route(f"{under}{path}", presented, methods=["GET"]) for under in _PLACES for path in CARDS],
        *[route for under in _PLACES for route in rest.routes(gate, methods, under, **limits)],
    ]


def _base(request: Request) -> str:
    """How the address of the request begins, as far as the client says it."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        raise ClientError("the Host header names no host")
    return f"{request.url.scheme}://{host}{request.scope.get('root_path', '')}"
