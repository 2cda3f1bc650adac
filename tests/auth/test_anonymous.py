"""Anonymous callers over a real server: a cookie for whoever has none, one user each, and nobody else's."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import pytest
import yarl
from serving import Answer, ask, sent, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anabranch.auth import Identifier, Unauthorized, bearing, note
from anabranch.config.callers import Anonymous, Callers
from anabranch.errors import AnabranchError
from anabranch.transports.http import error_response
from anabranch.transports.stream import FrameStream
from auth.minting import CONTEXT, ENVIRON, NOW, SESSION, VISITORS, Clock, context, made, raw, session

NAME = "anabranch-anonymous"
SECTION = Callers(context_header=CONTEXT, session_cookie=SESSION, anonymous=VISITORS)


class Small:
    """An application that asks who is asking, and keeps what each caller said."""

    def __init__(self, identifier: Identifier) -> None:
        self._identifier = identifier
        self._said: dict[str, list[str]] = {}
        self._asgi = Starlette(
            routes=[
                Route("/me", self._me),
                Route("/stream", self._stream),
                Route("/missing", self._missing),
                Route("/health", self._health),
            ],
            exception_handlers={AnabranchError: self._refuse},
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._asgi(scope, receive, bearing(scope, send))

    async def _identify(self, request: Request) -> str:
        found = await self._identifier.identify(request.scope["headers"], request.scope["scheme"])
        if found.set_cookie:
            note(request.scope, found.set_cookie)
        return found.principal.id

    async def _me(self, request: Request) -> Response:
        id = await self._identify(request)
        said = self._said.setdefault(id, [])
        said.extend(request.query_params.getlist("say"))
        return JSONResponse({"id": id, "said": said}, headers={"cache-control": "max-age=60", "x-mine": "1"})

    async def _stream(self, request: Request) -> FrameStream:
        id = await self._identify(request)

        @asynccontextmanager
        async def frames() -> AsyncGenerator[Any, None]:
            async def each() -> AsyncGenerator[bytes, None]:
                for _ in range(3):
                    yield f"data: {id}\n\n".encode()

            yield each()

        return FrameStream(frames())

    async def _missing(self, request: Request) -> Response:
        await self._identify(request)
        return Response(status_code=404)

    async def _health(self, request: Request) -> Response:
        return Response("ok")

    async def _refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, AnabranchError)
        response = error_response(error)
        response.headers.update(getattr(error, "headers", {}))
        return response


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def url(clock: Clock) -> AsyncGenerator[str, None]:
    async with served(Small(made(SECTION, clock))) as url:
        yield url


def given(answer: Answer) -> str:
    """The cookie that an answer sets, as a browser sends it back."""
    (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return f"{morsel.key}={morsel.value}"


async def test_whoever_shows_nothing_gets_a_cookie_and_is_the_same_user_with_it(url: str) -> None:
    first = await ask(url, "GET", "/me?say=hello")
    assert first.json["id"].startswith("anonymous:")
    again = await ask(url, "GET", "/me", cookie=given(first))
    assert again.json == {"id": first.json["id"], "said": ["hello"]}
    assert "set-cookie" not in again.headers


async def test_two_anonymous_callers_share_nothing(url: str) -> None:
    found = [await ask(url, "GET", f"/me?say={number}") for number in range(20)]
    found += await asyncio.gather(*(ask(url, "GET", f"/me?say={number}") for number in range(20)))
    assert len({answer.json["id"] for answer in found}) == 40
    assert all(len(answer.json["said"]) == 1 for answer in found)
    again = [await ask(url, "GET", "/me", cookie=given(answer)) for answer in found[:3]]
    assert [answer.json["said"] for answer in again] == [["0"], ["1"], ["2"]]


async def test_the_cookie_is_on_a_stream_and_on_an_error_too_and_never_cached(url: str) -> None:
    for path, status in [("/me", 200), ("/stream", 200), ("/missing", 404)]:
        answer = await ask(url, "GET", path)
        assert answer.status == status
        cookie = answer.headers["set-cookie"]
        value = re.escape(given(answer))
        assert re.fullmatch(value + "; Max-Age=1000; Path=/; HttpOnly; SameSite=Lax", cookie)
        assert "no-store" in answer.headers["cache-control"]  # a client's dict keeps the last line of that name
    streamed = await ask(url, "GET", "/stream")
    assert streamed.body.count(b"data: anonymous:") == 3


async def test_a_response_keeps_its_own_headers(url: str) -> None:
    answer = await ask(url, "GET", "/me")
    assert answer.headers["x-mine"] == "1" and answer.headers["content-type"] == "application/json"
    assert "set-cookie" not in (await ask(url, "GET", "/health")).headers
    named = await ask(url, "GET", "/me", X_DataRobot_Authorization_Context=context())
    assert "set-cookie" not in named.headers and named.headers["cache-control"] == "max-age=60"


async def test_a_real_client_with_a_cookie_jar_stays_one_user(url: str) -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # an address without a name
    async with aiohttp.ClientSession(cookie_jar=jar) as http, asyncio.timeout(10):
        seen = []
        for _ in range(3):
            async with http.get(f"{url}/me") as answer:
                seen.append((await answer.json())["id"])
        assert len(set(seen)) == 1
        assert [cookie["httponly"] for cookie in jar] == [True]
        assert list(jar.filter_cookies(yarl.URL(url))) == [NAME]


async def test_connections_are_not_users(url: str) -> None:
    head = "GET /me HTTP/1.1\r\nhost: h\r\n\r\n"
    async with sent(url, "GET", "/me") as wire:
        seen = []
        for _ in range(2):
            _, headers = await wire.head()
            await wire.exactly(int(headers["content-length"]))
            seen.append(headers["set-cookie"])
            wire._writer.write(head.encode())
    assert len(set(seen)) == 2


@pytest.mark.parametrize("scheme", ["https", "wss", "http", "ws"])
async def test_the_cookie_is_secure_over_tls_only(scheme: str) -> None:
    found = await made(SECTION).identify([], scheme)
    assert found.set_cookie is not None
    assert found.set_cookie.endswith("; Secure") is (scheme in ("https", "wss"))


@pytest.mark.parametrize("name", ["__Host-who", "__Secure-who"])
async def test_a_name_that_browsers_take_over_tls_only_is_always_secure(name: str) -> None:
    identifier = made(Callers(anonymous=Anonymous(secret_env="VISITORS", name=name)))
    found = await identifier.identify([], "http")
    assert found.set_cookie is not None
    assert re.fullmatch(rf"{name}=\S+; Max-Age=2592000; Path=/; HttpOnly; SameSite=Lax; Secure", found.set_cookie)


async def test_a_cookie_that_is_used_is_made_anew_before_it_ends(clock: Clock) -> None:
    identifier = made(SECTION, clock)
    first = await identifier.identify([])
    assert first.set_cookie is not None
    cookie = first.set_cookie.partition(";")[0]
    clock.now += 499
    assert await identifier.identify(raw(("Cookie", cookie))) == (first.principal, None)
    clock.now += 1
    renewed = await identifier.identify(raw(("Cookie", cookie)))
    assert renewed.principal == first.principal and renewed.set_cookie is not None
    clock.now += 999
    later = renewed.set_cookie.partition(";")[0]
    assert (await identifier.identify(raw(("Cookie", later)))).principal == first.principal
    with pytest.raises(Unauthorized, match="has expired"):
        await identifier.identify(raw(("Cookie", cookie)))


@pytest.mark.parametrize(
    "change",
    [
        lambda value: "",
        lambda value: "x",
        lambda value: value[:-1] + ("A" if value[-1] != "A" else "E"),
        lambda value: "A" * 22 + value[22:],
        lambda value: value.replace(f".{NOW}.", f".{NOW + 1}."),
        lambda value: value.rpartition(".")[0],
        lambda value: value.rpartition(".")[0] + ".",
        lambda value: value + " x",
        lambda value: f'"{value}"',
        lambda value: value.replace(f".{NOW}.", f".{NOW}\u0661."),
        lambda value: session(),
        lambda value: "anonymous:" + value,
    ],
)
async def test_a_cookie_that_we_did_not_make_is_a_401_that_takes_it_away(clock: Clock, change: Any) -> None:
    identifier = made(SECTION, clock)
    good = (await identifier.identify([])).set_cookie
    assert good is not None
    value = change(good.partition(";")[0].partition("=")[2])
    with pytest.raises(Unauthorized, match=f"the cookie {NAME} is not one that this server made; ask again") as refused:
        await identifier.identify([(b"cookie", f"{NAME}={value}".encode())])
    assert refused.value.headers == {"set-cookie": f"{NAME}=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax"}


async def test_a_browser_with_an_old_cookie_is_let_in_the_second_time(url: str) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    jar.update_cookies({NAME: "of-another-secret"}, yarl.URL(url))
    async with aiohttp.ClientSession(cookie_jar=jar) as http, asyncio.timeout(10):
        seen = []
        for _ in range(3):
            async with http.get(f"{url}/me") as answer:
                seen.append(answer.status)
    assert seen == [401, 200, 200]


async def test_the_cookie_of_a_user_under_another_secret_is_nobodys() -> None:
    theirs = (await made(SECTION, VISITORS="x" * 40).identify([])).set_cookie
    assert theirs is not None
    with pytest.raises(Unauthorized):
        await made(SECTION).identify(raw(("Cookie", theirs.partition(";")[0])))
    # Nor does a secret that signs tokens make visitors, or the other way round.
    same = ENVIRON | {"VISITORS": ENVIRON["SESSION"]}
    visitors = Identifier.from_config(Callers(anonymous=VISITORS), same, clock=Clock())
    with pytest.raises(Unauthorized):
        await visitors.identify(raw(("Cookie", f"{NAME}={session()}")))


async def test_two_cookies_of_one_name_are_nobody() -> None:
    identifier = made(SECTION)
    cookies = [(await identifier.identify([])).set_cookie for _ in range(2)]
    both = "; ".join((cookie or "").partition(";")[0] for cookie in cookies)
    with pytest.raises(Unauthorized, match="sent with different values"):
        await identifier.identify(raw(("Cookie", both)))


async def test_servers_with_one_secret_know_each_others_visitors() -> None:
    found = await made(SECTION).identify([])
    assert found.set_cookie is not None
    cookie = found.set_cookie.partition(";")[0]
    assert (await made(SECTION).identify(raw(("Cookie", cookie)))).principal == found.principal


async def test_without_anonymous_callers_the_answer_is_401_and_no_cookie() -> None:
    async with served(Small(made(Callers(context_header=CONTEXT)))) as url:
        answer = await ask(url, "GET", "/stream")
    assert (answer.status, answer.json["error"]["code"]) == (401, "unauthorized")
    assert "set-cookie" not in answer.headers
