"""A whole server that takes every kind of credential, and who asks it: users, and those who are none."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from serving import WAIT_S, served

from anabranch.app import App
from anabranch.config.callers import Callers
from anabranch.events import Interrupted
from anabranch.request import RunRequest
from auth.minting import (
    AUDIENCE,
    CONTEXT,
    ENVIRON,
    ISSUER,
    OTHER_RSA,
    P256,
    RSA,
    SESSION,
    VISITORS,
    api_key_line,
    bearer_section,
    changed,
    context,
    forged,
    pem,
    session,
    token,
)

DAY_S = 86_400
NOW_S = int(time.time())
"""The time of a real server, which is started within the day."""

CONTEXT_HEADER = "X-DataRobot-Authorization-Context"
VISITOR = "anabranch-anonymous"

Sent = list[tuple[str, str]]
"""Headers of a request."""

numbers = itertools.count(1)


# --- the server ------------------------------------------------------------------------------------------------------


class Agent:
    """An agent that repeats all that it was told in its thread. Told ``wait`` it waits, told ``ask`` it asks."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        told = [message.content for message in request.messages if message.role == "user"]
        yield " | ".join(told)
        if request.resume:
            yield f" and heard {request.resume[0].payload}"
        elif told[-1].startswith("wait"):
            await self.go.wait()
            yield " end"
        elif told[-1].startswith("ask"):
            yield Interrupted(interrupt_id="q", reason="confirmation", message="May I?")


def key_of(user: str) -> str:
    """The API key of a user."""
    return f"{user}-key-0123456789-0123456789-0123456789"


@asynccontextmanager
async def guarded(
    place: Path, agents: dict[str, Any], *, anonymous: bool = False, **options: Any
) -> AsyncIterator[tuple[App, httpx.AsyncClient]]:
    """The server, and a client that keeps no cookies. Its files are in ``place``."""
    (place / "keys.pem").write_text(pem(RSA, P256))
    (place / "api-keys").write_text("".join(api_key_line(user, key_of(user)) for user in ("ann", "eve")))
    section = Callers(
        context_header=CONTEXT,
        jwt=bearer_section(keys_file=str(place / "keys.pem"), algorithms=["RS256", "ES256"]),
        api_keys_file=str(place / "api-keys"),
        session_cookie=SESSION,
        anonymous=VISITORS if anonymous else False,
    )
    with pytest.MonkeyPatch.context() as environ:
        for name, value in ENVIRON.items():
            environ.setenv(name, value)
        app = App(agents, auth=section, **options)
    async with served(app) as url, client(url) as http:
        yield app, http


def client(url: str) -> httpx.AsyncClient:
    """A client that keeps no cookies."""
    jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx.AsyncClient(base_url=url, cookies=jar, timeout=WAIT_S)


# --- users -----------------------------------------------------------------------------------------------------------


def bearer(sub: str = "ann", **more: Any) -> str:
    """A token that a real server takes today, unless ``more`` says otherwise."""
    return token(sub, **({"iat": NOW_S - 10, "exp": NOW_S + DAY_S} | more))


KINDS = ("context", "bearer", "api key", "session")


def shows(kind: str, user: str) -> Sent:
    """What a user of a kind sends."""
    return {
        "context": [(CONTEXT_HEADER, context(user))],
        "bearer": [("Authorization", f"Bearer {bearer(user)}")],
        "api key": [("X-API-Key", key_of(user))],
        "session": [("Cookie", f"sid={session(user)}")],
    }[kind]


async def visitor(http: httpx.AsyncClient) -> Sent:
    """A new anonymous caller."""
    answer = await http.get("/runs")
    assert answer.status_code == 200 and answer.json() == {"runs": []}
    return [("Cookie", cookie_of(answer))]


def cookie_of(answer: httpx.Response) -> str:
    """The cookie that an answer sets, as a browser sends it back."""
    [line] = answer.headers.get_list("set-cookie")
    return line.partition(";")[0]


# --- who is none -----------------------------------------------------------------------------------------------------

_SAID = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW_S + DAY_S, "user": {"id": "ann"}}
_PAST, _FUTURE = NOW_S - 3600, NOW_S + DAY_S

_TOKENS = {
    "tampered with": changed(bearer(), sub="eve"),
    "expired": bearer(exp=_PAST),
    "not valid yet": bearer(nbf=_FUTURE, exp=_FUTURE + DAY_S),
    "without an end": bearer(without=["exp"]),
    "of another audience": bearer(aud="https://others.example.com"),
    "of another issuer": bearer(iss="https://evil.example.com/"),
    "alg none": forged({"alg": "none"}, _SAID),
    "alg none, signed": forged({"alg": "none"}, _SAID, b"x"),
    "unsigned": bearer().rpartition(".")[0] + ".",
    "of another key": bearer(key=OTHER_RSA),
    "of another algorithm": bearer(alg="RS512"),
    "signed with the public key": forged({"alg": "HS256"}, _SAID, pem(RSA).encode()),
    "garbage": "x.y.z",
    "no token": "garbage-of-a-stranger",
    "empty": "",
}
_CONTEXTS = {
    "tampered with": changed(context(), user={"id": "eve"}),
    "expired": context(exp=_PAST),
    "not valid yet": context(nbf=_FUTURE),
    "alg none": forged({"alg": "none"}, _SAID),
    "unsigned": context().rpartition(".")[0] + ".",
    "of another key": context(key="another-secret-0123456789-0123456789"),
    "of another algorithm": context(key=ENVIRON["CONTEXT"] * 2, alg="HS512"),
    "of a bearer": bearer(),
    "garbage": "garbage-of-a-stranger",
    "empty": "",
}
_SESSIONS = {
    "tampered with": changed(session(), sub="eve"),
    "expired": session(exp=_PAST),
    "not valid yet": session(nbf=_FUTURE),
    "alg none": forged({"alg": "none"}, _SAID),
    "of another key": session(key=ENVIRON["CONTEXT"]),
    "garbage": "garbage-of-a-stranger",
    "empty": "",
    "sent twice": f"{session()}; sid={session('eve')}",
}
INVALID: dict[str, Sent] = {
    **{f"bearer {row}": [("Authorization", f"Bearer {value}".strip())] for row, value in _TOKENS.items()},
    **{f"context {row}": [(CONTEXT_HEADER, value)] for row, value in _CONTEXTS.items()},
    **{f"session {row}": [("Cookie", f"sid={value}")] for row, value in _SESSIONS.items()},
    "bearer sent twice": 2 * shows("bearer", "ann"),
    "context sent twice": 2 * shows("context", "ann"),
    "API key sent twice": 2 * shows("api key", "ann"),
    "API key unknown": [("X-API-Key", key_of("nobody"))],
    "API key empty": [("X-API-Key", "")],
    "API key by its hash": [("X-API-Key", api_key_line("ann", key_of("ann")).split()[1])],
    "another scheme": [("Authorization", "Basic YW5uOnNlY3JldA==")],
    "no scheme": [("Authorization", jwt.encode({"sub": "ann"}, "x" * 32))],
    "good, and a bad one": [*shows("context", "ann"), ("Authorization", f"Bearer {_TOKENS['expired']}")],
}
"""Every way not to be let in, with what is sent."""


def leaks(shown: str, sent: Sent) -> list[str]:
    """What of a credential is in ``shown``."""
    values = [part for _, value in sent for part in re.split(r"[.\s,=;]", value) if len(part) > 8]
    return [part for part in (*values, *ENVIRON.values()) if part in shown]


# --- asking ----------------------------------------------------------------------------------------------------------


def version_at(path: str) -> Sent:
    """The version of A2A that a path is of."""
    return [("A2A-Version", "0.3" if "/v1/" in path else "1.0")]


async def ask(
    http: httpx.AsyncClient, method: str, path: str, who: Sent, body: Any = None, *more: tuple[str, str]
) -> httpx.Response:
    """Send one request as ``who`` and read the whole answer."""
    content = {} if body is None else {"json": body}
    headers = [*who, *more] if any(name == "A2A-Version" for name, _ in more) else [*who, *version_at(path), *more]
    async with asyncio.timeout(WAIT_S):
        return await http.request(method, path, headers=headers, **content)


def outcome(answer: httpx.Response) -> int:
    """The status of an answer, or the number of the error of a JSON-RPC answer."""
    first = answer.content.partition(b"\n")[0].removeprefix(b"data: ")  # 0.3 has the error in a stream
    if first.startswith(b'{"jsonrpc"'):
        said = json.loads(first)
        return int(said["error"]["code"]) if "error" in said else answer.status_code
    return answer.status_code


def rpc(method: str, params: Any) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": "q", "method": method, "params": params}


def message(text: str = "hello", id: str = "", **more: Any) -> dict[str, Any]:
    """What SendMessage takes in 1.0; each has an id of its own unless one is given."""
    said = {"messageId": id or f"m{next(numbers)}", "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": said | more}


def legacy(text: str = "hello", id: str = "", **more: Any) -> dict[str, Any]:
    """What message/send takes in 0.3."""
    said = {"messageId": id or f"m{next(numbers)}", "role": "user", "parts": [{"kind": "text", "text": text}]}
    return {"message": said | {"kind": "message"} | more}


def legacy_rest(text: str = "hello", **more: Any) -> dict[str, Any]:
    """The same over plain HTTP, where 0.3 has the JSON of protocol buffers."""
    said = {"messageId": f"m{next(numbers)}", "role": "ROLE_USER", "content": [{"text": text}]}
    return {"message": said | more}
