"""What goes to an agent as a credential, and where it never goes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import pytest

from anabranch.errors import SourceError
from anabranch.sources.a2a import A2ASource, ApiKey, ClientCredentials

from ._raw import Raw, Request, card, raw
from ._running import run

KEY = "s3cret/k&y"
OVER = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


async def agrees(request: Request) -> None:
    """An agent that has nothing to say."""
    if request.method == "GET":
        return await request.answer(status=404)
    await request.answer({"jsonrpc": "2.0", "id": request.call["id"], "result": OVER})


@asynccontextmanager
async def agent(
    *schemes: dict[str, Any],
    answer: Callable[[Request], Any] = agrees,
    make: Callable[[str], Any] = lambda url: ApiKey("The agent a", KEY),
) -> AsyncIterator[tuple[A2ASource, Raw]]:
    """An agent whose card has these schemes, and a source that has a credential for it."""
    known = card(streaming=False, securitySchemes={str(n): scheme for n, scheme in enumerate(schemes)})
    async with asyncio.timeout(15), raw(answer, known) as server:
        source = A2ASource(server.url, name="a", credential=make(server.url))
        try:
            yield source, server
        finally:
            await source.aclose()


def key_in(location: str, name: str) -> dict[str, Any]:
    return {"apiKeySecurityScheme": {"location": location, "name": name}}


@pytest.mark.parametrize(
    ("location", "path", "header"),
    [
        ("header", "/rpc", ("x-key", KEY)),
        ("query", "/rpc?x-key=s3cret/k%26y", None),
        ("cookie", "/rpc", ("cookie", "x-key=s3cret%2Fk%26y")),
    ],
)
async def test_an_api_key_goes_where_the_card_wants_it(
    location: str, path: str, header: tuple[str, str] | None
) -> None:
    async with agent(key_in(location, "X-Key".lower())) as (source, server):
        assert (await run(source)).end == "success"
        [request] = server.requests
        assert request.path == path
        assert header is None or request.headers[header[0]] == header[1]


async def test_an_api_key_goes_into_the_configured_header_whatever_the_card_says() -> None:
    make = lambda url: ApiKey("The agent a", KEY, "X-Mine")  # noqa: E731
    async with agent(key_in("query", "key"), make=make) as (source, server):
        await run(source)
        [request] = server.requests
        assert (request.path, request.headers["x-mine"]) == ("/rpc", KEY)


async def test_an_api_key_without_a_place_is_sent_nowhere() -> None:
    async with agent() as (source, server):
        done = await run(source)
        assert done.end == "agent_auth" and done.error is not None and done.error.unsent
        assert "`auth.name`" in str(done.error) and not server.requests


async def test_a_card_for_those_only_who_have_the_key_is_read_with_it() -> None:
    seen: list[dict[str, str]] = []

    async def answer(request: Request) -> None:
        seen.append(request.headers)
        if request.method == "POST":
            return await agrees(request)
        ok = request.headers.get("x-mine") == KEY
        await request.answer(card(streaming=False) if ok else b"", status=200 if ok else 401)

    async with asyncio.timeout(15), raw(answer, None) as server:
        source = A2ASource(server.url, credential=ApiKey("The agent a", KEY, "X-Mine"))
        assert (await run(source)).end == "success"
        await source.aclose()
    assert ["x-mine" in headers for headers in seen] == [False, True, True]


async def test_no_credential_goes_to_another_address_that_a_card_names() -> None:
    async with agent() as (_, other):
        elsewhere = card()
        elsewhere["supportedInterfaces"][0]["url"] = other.url.replace("127.0.0.1", "localhost.example")
        async with raw(agrees, elsewhere) as server:
            source = A2ASource(server.url, credential=ApiKey("The agent a", KEY, "X-Mine"))
            done = await run(source)
            await source.aclose()
            assert done.end == "agent_protocol" and not other.requests
            assert [request.method for request in server.requests] == ["GET"], "the question was sent"
            assert "x-mine" not in server.requests[0].headers


# --- OAuth 2 ---------------------------------------------------------------------------------------------------------


class Issuer:
    """A token endpoint; ``says`` is its next answer."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.status, self.says = 200, dict[str, Any]({"token_type": "Bearer", "expires_in": 3600})
        self.begun, self.hold = asyncio.Event(), asyncio.Event()
        self.hold.set()

    async def __call__(self, request: Request) -> None:
        self.requests.append(request)
        self.begun.set()
        await self.hold.wait()
        said = {"access_token": f"token-{len(self.requests)}", **self.says}
        await request.answer(said, status=self.status)


@asynccontextmanager
async def issued(**options: Any) -> AsyncIterator[tuple[A2ASource, Raw, Issuer]]:
    """An agent, and a token endpoint somewhere else that is configured."""
    issuer = Issuer()
    async with raw(issuer, None) as server:

        def make(url: str) -> ClientCredentials:
            where = {"agent": url, "token_url": f"{server.url}/token", "scopes": ("read", "write")}
            return ClientCredentials("The agent a", "id:1", "pass word", **where)

        async with agent(make=make, **options) as (source, asked):
            yield source, asked, issuer


def bearers(server: Raw) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


async def test_one_token_serves_all_requests_and_is_fetched_when_it_is_first_needed() -> None:
    async with issued() as (source, server, issuer):
        await source.refresh()
        assert not issuer.requests
        issuer.hold.clear()
        runs = [asyncio.create_task(run(source)) for _ in range(20)]
        await issuer.begun.wait()
        issuer.hold.set()
        assert {(await each).end for each in runs} == {"success"}
        await run(source)
        assert len(issuer.requests) == 1 and bearers(server) == ["token-1"] * 21
        [request] = issuer.requests
        assert (request.method, request.path) == ("POST", "/token")
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        assert parse_qs(request.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["read write"]}
        basic = base64.b64decode(request.headers["authorization"].removeprefix("Basic "))
        assert basic == b"id%3A1:pass+word"


@pytest.mark.parametrize(("life", "fetched"), [(3600, 1), (31, 1), (30, 2), (5, 2), (None, 1), ("soon", 1), (-1, 1)])
async def test_a_token_is_used_until_30_s_before_its_end(life: Any, fetched: int) -> None:
    async with issued() as (source, _, issuer):
        issuer.says["expires_in"] = life
        for _ in range(2):
            assert (await run(source)).end == "success"
        assert len(issuer.requests) == fetched


async def test_a_token_that_is_refused_is_fetched_again_once_and_the_question_is_asked_again() -> None:
    revoked = {"token-1", "token-3"}

    async def answer(request: Request) -> None:
        bearer = request.headers["authorization"].removeprefix("Bearer ")
        await (request.answer(status=401) if bearer in used and bearer in revoked else agrees(request))
        used.add(bearer)

    used: set[str] = set()
    async with issued(answer=answer) as (source, server, issuer):
        assert [(await run(source)).end for _ in range(3)] == ["success"] * 3
        assert bearers(server) == ["token-1", "token-1", "token-2", "token-2"] and len(issuer.requests) == 2


async def test_a_new_token_that_is_refused_is_an_error_and_not_another_one() -> None:
    async def answer(request: Request) -> None:
        await request.answer(status=401)

    async with issued(answer=answer) as (source, server, issuer):
        assert (await run(source)).end == "agent_auth"
        assert (len(server.requests), len(issuer.requests)) == (1, 1)


@pytest.mark.parametrize(
    ("status", "says", "code", "message"),
    [
        (401, {"error": "invalid_client"}, "agent_auth", "does not take our client credentials (invalid_client)"),
        (400, {"error": "invalid_scope"}, "agent_auth", "(invalid_scope)"),
        (400, {"error": f"echo {KEY}"}, "agent_auth", "(HTTP 400)"),
        (503, {}, "agent_unreachable", "not available now (HTTP 503)"),
        (302, {}, "agent_protocol", "is elsewhere (HTTP 302)"),
        (200, {"access_token": None}, "agent_auth", "did not give a bearer token"),
        (200, {"access_token": "a\r\nb"}, "agent_auth", "did not give a bearer token"),
        (200, {"token_type": "mac"}, "agent_auth", "did not give a bearer token"),
    ],
)
async def test_what_a_token_endpoint_refuses_is_told_and_nothing_is_sent_to_the_agent(
    status: int, says: dict[str, Any], code: str, message: str
) -> None:
    async with issued() as (source, server, issuer):
        issuer.status, issuer.says = status, issuer.says | says
        done = await run(source)
        assert done.end == code and done.error is not None and done.error.unsent
        assert str(done.error).startswith("The token endpoint of the agent a ") and message in str(done.error)
        assert "pass" not in str(done.error) and KEY not in str(done.error) and not server.requests
        issuer.status, issuer.says = 200, {}
        assert (await run(source)).end == "success"


@pytest.mark.parametrize("own", [True, False])
async def test_a_token_endpoint_of_the_card_is_used_at_the_agents_own_address_only(own: bool) -> None:
    issuer = Issuer()

    async def answer(request: Request) -> None:
        await (issuer(request) if request.path == "/token" else agrees(request))

    def make(url: str) -> ClientCredentials:
        return ClientCredentials("The agent a", "id", "secret", agent=url)

    async with raw(issuer, None) as other:
        token_url = "/token" if own else f"{other.url}/token"
        flow = {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": token_url}}}}
        async with agent(flow, answer=answer, make=make) as (source, server):
            done = await run(source)
            assert len(issuer.requests) == own and not other.requests
            assert done.end == ("success" if own else "agent_auth")
            assert own or "`auth.oauth2.token_url`" in str(done.error)
            assert own or not server.requests


async def test_closing_the_source_ends_a_wait_for_a_token() -> None:
    async with issued() as (source, _, issuer):
        issuer.hold.clear()
        asking = asyncio.create_task(run(source))
        await issuer.begun.wait()
        await source.aclose()
        assert (await asking).end == "agent_disconnected"


async def test_an_error_of_the_agent_shows_no_token() -> None:
    async def answer(request: Request) -> None:
        await request.answer(json.dumps(request.headers).encode(), status=403)

    async with issued(answer=answer) as (source, _, _issuer):
        done = await run(source)
        assert isinstance(done.error, SourceError) and "token-1" not in f"{done.error!r} {done.error.__cause__!r}"
