"""What an attacker, a broken issuer or a strange client may send, over real connections and token by token."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import msgspec
import pytest
from serving import WAIT_S, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from anabranch.app import App
from anabranch.auth import Identifier, Unauthorized, api_keys
from anabranch.auth.api_keys import ApiKeys
from anabranch.auth.watched import WatchedFile
from anabranch.config.callers import Callers, ContextHeader, SessionCookie
from auth.asking import CONTEXT_HEADER, Agent, bearer, client, guarded, key_of, shows
from auth.minting import (
    API_KEY,
    CONTEXT,
    ENVIRON,
    NOW,
    OTHER_RSA,
    RSA,
    api_key_line,
    bearer_section,
    context,
    jwk,
    jwk_set,
    made,
    pem,
    session,
    token,
    who,
)

# --- the bytes of a request ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[str, None]:
    """A server that takes every kind of credential."""
    async with guarded(tmp_path_factory.mktemp("hostile"), {"agent": Agent()}) as (_, http):
        yield str(http.base_url)


async def answered(url: str, *lines: str) -> int:
    """The status of the answer to ``GET /runs`` with these lines, which are sent as they are."""
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = ["GET /runs HTTP/1.1", "host: h", "connection: close", *lines, "", ""]
        writer.write("\r\n".join(head).encode("latin-1"))
        async with asyncio.timeout(WAIT_S):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()


GOOD, EVE = context(), context("eve")
TOKEN = bearer()


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([f"{CONTEXT_HEADER}: {GOOD}"], 200),
        ([f"{CONTEXT_HEADER.upper()}:\t {GOOD} \t"], 200),
        ([f"authorization: BEARER {TOKEN}"], 200),
        # Twice, in every disguise.
        ([f"{CONTEXT_HEADER}: {GOOD}", f"{CONTEXT_HEADER}: {GOOD}"], 401),
        ([f"{CONTEXT_HEADER}: {GOOD}", f"{CONTEXT_HEADER.upper()}: {EVE}"], 401),
        ([f"{CONTEXT_HEADER}: {GOOD}", f"{CONTEXT_HEADER}:"], 401),
        ([f"{CONTEXT_HEADER}: {GOOD}, {EVE}"], 401),
        ([f"{CONTEXT_HEADER}: {GOOD},"], 401),
        ([f"authorization: Bearer {TOKEN}", "authorization: Basic YTpi"], 401),
        ([f"authorization: Bearer {TOKEN}, Bearer {TOKEN}"], 401),
        # Names that other servers take for this one.
        ([f"{CONTEXT_HEADER.replace('-', '_')}: {GOOD}"], 401),
        ([f"HTTP_{CONTEXT_HEADER.replace('-', '_')}: {GOOD}"], 401),
        ([f"x-forwarded-authorization: Bearer {TOKEN}"], 401),
        ([f"proxy-authorization: Bearer {TOKEN}"], 401),
        # Lines that are none.
        ([f"{CONTEXT_HEADER} : {GOOD}"], 400),
        ([f"{CONTEXT_HEADER}:", f" {GOOD}"], 400),
        ([f"{CONTEXT_HEADER}: {GOOD[:30]}", f"\t{GOOD[30:]}"], 400),
        ([f"x-other: 1\n{CONTEXT_HEADER}: {GOOD}"], 400),
        ([f"{CONTEXT_HEADER}: {GOOD}\0"], 400),
        ([f"{CONTEXT_HEADER}: {GOOD}\xe9"], 401),
        ([f"{CONTEXT_HEADER}: \xa0{GOOD}"], 401),
        ([f"{CONTEXT_HEADER}: \x85{GOOD}"], 401),
        ([f"authorization: Bearer\xa0{TOKEN}"], 401),
        ([f"authorization: Bearer {key_of('ann')}\xe9"], 401),
        # Cookies.
        ([f"cookie: sid={session()}"], 200),
        ([f"cookie: a={'x' * 8192}; sid={session()}"], 200),
        ([f'cookie: sid="{session()}"'], 401),
        ([f"cookie: sid={session()}; sid={session('eve')}"], 401),
        ([f"cookie: sid={session()}", f"cookie: sid={session('eve')}"], 401),
        ([f"cookie: SID={session()}"], 401),
        ([f"cookie: sid ={session()}; =x;;; =; sid"], 200),
        ([f"cookie: $Version=1; sid={session()}; $Path=/"], 200),
        ([f"cookie: sid={'x' * 8192}"], 401),
        ([f"cookie: sid={session()}\xe9"], 401),
        ([f"cookie: x%73id={session()}; s%69d={session()}"], 401),
        ([f"cookie: __Host-sid={session()}"], 401),
        ([f"cookie: sid={session()}; Path=/; sid={session()}"], 200),
        ([f"set-cookie: sid={session()}"], 401),
    ],
)
async def test_a_request_is_read_in_one_way_only(url: str, lines: list[str], status: int) -> None:
    assert await answered(url, *lines) == status


async def test_a_trailer_is_no_header(url: str) -> None:
    # RFC 9110, section 6.5.1: what stands before this server may have checked or replaced the headers only.
    chunked = "transfer-encoding: chunked", "content-type: application/json"
    assert await answered(url, *chunked, "", "2\r\n{}\r\n0", f"{CONTEXT_HEADER}: {GOOD}") == 401


async def test_a_credential_in_the_query_is_none(url: str) -> None:
    async with client(url) as http:
        for name in ("access_token", "token", "api_key", CONTEXT_HEADER, "authorization"):
            assert (await http.get("/runs", params={name: bearer()})).status_code == 401


# --- what tokens say -------------------------------------------------------------------------------------------------

SECTIONS: dict[str, tuple[Callers, Any]] = {
    "context": (
        Callers(context_header=ContextHeader(secret_env="CONTEXT", claim="u.id")),
        lambda said: [(CONTEXT_HEADER, jwt.encode(said, ENVIRON["CONTEXT"], "HS256"))],
    ),
    "session": (
        Callers(session_cookie=SessionCookie(secret_env="SESSION", name="sid", claim="u.id")),
        lambda said: [("Cookie", "sid=" + jwt.encode(said, ENVIRON["SESSION"], "HS256"))],
    ),
    "bearer": (
        Callers(jwt=bearer_section(secret_env="TOKENS", algorithms=["HS256"], claim="u.id")),
        lambda said: [("Authorization", "Bearer " + token(key=ENVIRON["TOKENS"], alg="HS256", **said))],
    ),
}


@pytest.mark.parametrize("kind", SECTIONS)
async def test_an_id_is_text_that_names_one_user(kind: str) -> None:
    section, encode = SECTIONS[kind]
    identifier = made(section)
    none = [None, 0, 1, 1.5, True, False, [], ["ann"], {}, {"id": "ann"}, "", " ", "ann ", "\tann", "a\nb", "a\0b"]
    none += ["a\x7fb", "a\x85b", "a\u00adb", "a\ufeffb", "a\u2066b", "\U000e0041", "x" * 10_000]
    said: list[Any] = [{"u": {"id": id}} for id in none]
    said += [
        {},
        {"u": None},
        {"u": "ann"},
        {"u": ["id"]},
        {"u": [{"id": "ann"}]},
        {"u.id": "ann"},
        {"U": {"ID": "ann"}},
    ]
    for each in said:
        with pytest.raises(Unauthorized, match="user"):
            await who(identifier, *encode(each))
    alike = [
        "ann",
        "ANN",
        "\u0430nn",
        "\uff41nn",
        "a\u0301nn",
        "\u00e1nn",
        "\u212bnn",
        "\u00c5nn",
        "ann%20",
        "ann:",
        "0",
    ]
    found = [await who(identifier, *encode({"u": {"id": id}})) for id in alike]
    assert len(set(found)) == len(alike) and [id.endswith(f":{name}") for id, name in zip(found, alike, strict=True)]


@pytest.mark.parametrize("kind", SECTIONS)
@pytest.mark.parametrize("leeway", [0.0, 30.0, 300.0])
async def test_times_hold_to_the_second_whatever_numbers_they_are(kind: str, leeway: float) -> None:
    section, encode = SECTIONS[kind]
    field = {"context": "context_header", "session": "session_cookie", "bearer": "jwt"}[kind]
    changed = msgspec.structs.replace(getattr(section, field), leeway=leeway)
    identifier = made(msgspec.structs.replace(section, **{field: changed}))
    ann: dict[str, Any] = {"u": {"id": "ann"}}
    for expires, good in [(0, False), (-0.001, False), (0.001, True), (1, True), (1e300, True), (-1e300, False)]:
        asked = encode(ann | {"exp": NOW - leeway + expires})
        assert await holds(identifier, asked) is good, expires
    for begins, good in [(0, True), (0.001, False), (-0.001, True), (1, False), (1e300, False), (-1e300, True)]:
        asked = encode(ann | {"exp": 10**12, "nbf": NOW + leeway + begins})
        assert await holds(identifier, asked) is good, begins
    for strange in ("", "2999", str(NOW + 600), [], {}, True, None, 10**400, -(10**400)):
        for name in ("exp", "nbf"):
            assert not await holds(identifier, encode(ann | {"exp": 10**12, name: strange})), (name, str(strange)[:9])


async def holds(identifier: Identifier, headers: list[tuple[str, str]]) -> bool:
    """Whether somebody is let in; what else may happen is a 401."""
    try:
        return bool(await who(identifier, *headers))
    except Unauthorized:
        return False


async def test_a_token_inside_a_token_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(pem(RSA))
    identifier = made(Callers(jwt=bearer_section(keys_file=str(tmp_path / "keys"))))
    nested = jwt.PyJWS().encode(token().encode(), RSA, "RS256", headers={"cty": "JWT"})
    for payload in (nested, jwt.PyJWS().encode(json.dumps(token()).encode(), RSA, "RS256")):
        with pytest.raises(Unauthorized, match="does not hold a JSON object"):
            await who(identifier, ("Authorization", f"Bearer {payload}"))


async def test_addresses_and_keys_in_a_token_are_not_looked_at(tmp_path: Path) -> None:
    asked: list[str] = []

    async def give(request: Request) -> Response:
        asked.append(request.url.path)
        return Response(jwk_set(jwk(OTHER_RSA, kid="evil")), media_type="application/json")

    (tmp_path / "keys").write_text(pem(RSA))
    identifier = made(Callers(jwt=bearer_section(keys_file=str(tmp_path / "keys"))))
    async with served(Starlette(routes=[Route("/{path:path}", give)])) as url:
        heads: list[dict[str, Any]] = [
            {"jku": f"{url}/jku", "kid": "evil"},
            {"x5u": f"{url}/x5u", "x5t": "AAAA"},
            {"jwk": jwk(OTHER_RSA)},
            {"x5c": ["AAAA"]},
            {"kid": f"{url}/kid"},
            {"kid": "../../../../dev/null"},
            {"kid": "' OR 1=1 --"},
            {"iss": url},
        ]
        for head in heads:
            with pytest.raises(Unauthorized, match="is not signed with a key that this server trusts"):
                await who(identifier, ("Authorization", f"Bearer {token(key=OTHER_RSA, head=head)}"))
            assert await who(identifier, ("Authorization", f"Bearer {token(head=head)}"))  # which do no harm either
    assert not asked


# --- keys ------------------------------------------------------------------------------------------------------------


async def test_a_hundred_requests_wait_for_a_slow_issuer_together_and_nobody_else_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, reached, go = [], asyncio.Event(), asyncio.Event()

    async def give(request: Request) -> Response:
        asked.append(request.url.path)
        reached.set()
        await go.wait()
        return Response(jwk_set(jwk(RSA, kid="one")), media_type="application/json")

    monkeypatch.setenv("CONTEXT", ENVIRON["CONTEXT"])
    async with served(Starlette(routes=[Route("/keys", give)])) as issuer:
        section = bearer_section(jwks_url=f"{issuer}/keys")
        app = App({"agent": Agent()}, auth=Callers(context_header=CONTEXT, jwt=section))
        async with served(app) as url, client(url) as http, asyncio.timeout(2 * WAIT_S):
            signed = {"Authorization": f"Bearer {bearer(head={'kid': 'one'})}"}
            waiting = [asyncio.create_task(http.get("/runs", headers=signed)) for _ in range(100)]
            await reached.wait()
            for path, headers in (("/health", []), ("/runs", shows("context", "ann"))):
                assert (await ask_beside(url, path, headers)) == 200
            go.set()
            assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}
            flood = [bearer(key=OTHER_RSA, head={"kid": f"made up {each}"}) for each in range(50)]
            answers = await asyncio.gather(
                *(http.get("/runs", headers={"Authorization": f"Bearer {each}"}) for each in flood)
            )
            assert {answer.status_code for answer in answers} == {401}
    assert asked == ["/keys"]


async def ask_beside(url: str, path: str, headers: list[tuple[str, str]]) -> int:
    async with client(url) as http:
        return (await http.get(path, headers=headers)).status_code


def test_all_api_keys_are_compared_whichever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(api_keys, "hmac", type("", (), {"compare_digest": staticmethod(compare)}))
    keys = ApiKeys("".join(api_key_line(f"u{each}", f"key {each}") for each in range(9)).encode())
    for key, name in (("key 0", "u0"), ("key 8", "u8"), ("none", None), ("", None)):
        compared.clear()
        assert keys.name(key) == name
        assert len(set(compared)) == 9


async def test_a_key_that_is_replaced_in_the_same_moment_is_no_key_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    path.write_text(api_key_line("ci"))
    was = os.stat(path)
    # A clock so coarse that the file looks the same: same size, same place, same time.
    monkeypatch.setattr("anabranch.auth.watched.os", SimpleNamespace(stat=lambda _: was))
    identifier = made(Callers(api_keys_file=str(path)))
    assert await who(identifier, ("X-API-Key", API_KEY)) == "key:ci"
    path.write_text(api_key_line("ci", "another-key-0123456789"))
    with pytest.raises(Unauthorized):
        await who(identifier, ("X-API-Key", API_KEY))
    assert await who(identifier, ("X-API-Key", "another-key-0123456789")) == "key:ci"


async def test_a_file_that_has_not_changed_for_long_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, found = tmp_path / "keys", []
    path.write_text(api_key_line("ci"))
    later = os.stat(path).st_ctime_ns + 10**10
    monkeypatch.setattr("anabranch.auth.watched.time", SimpleNamespace(time_ns=lambda: later))

    def read(data: bytes) -> bytes:
        found.append(data)
        return data

    file = WatchedFile("field", str(path), read)
    for _ in range(5):
        assert file.value() == path.read_bytes()
    assert len(found) == 1
    path.write_text(api_key_line("ci", "another-key-0123456789") + "# and more")
    assert file.value() == path.read_bytes() and len(found) == 2
