"""Keys that change while the server runs: files, and an issuer's key set that rotates, lies, hangs or is away."""

import asyncio
import gzip
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from serving import WAIT_S, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from anabranch.auth import Identifier, Unauthorized
from anabranch.auth.jwks import PAUSE_S, REFRESH_S, SET_LIMIT, STALE_S, Jwks
from anabranch.config.callers import Callers
from anabranch.errors import ConfigError, ServerError
from auth.minting import (
    API_KEY,
    ED,
    OTHER_RSA,
    P256,
    P384,
    RSA,
    WEAK_RSA,
    Clock,
    api_key_line,
    bearer_section,
    jwk,
    jwk_set,
    made,
    pem,
    raw,
    token,
    who,
)

UNTRUSTED = "is not signed with a key that this server trusts"


def bearer(kid: str | None = "one", key: Any = RSA, alg: str = "RS256", **claims: Any) -> tuple[str, str]:
    return "Authorization", "Bearer " + token(key=key, alg=alg, head={} if kid is None else {"kid": kid}, **claims)


async def refused(identifier: Identifier, *headers: tuple[str, str]) -> str:
    with pytest.raises(Unauthorized) as error:
        await identifier.identify(raw(*headers))
    return str(error.value)


async def unavailable(identifier: Identifier, *headers: tuple[str, str]) -> str:
    with pytest.raises(ServerError) as error:
        await identifier.identify(raw(*headers))
    assert (error.value.code, error.value.side, error.value.retryable) == ("auth_unavailable", "server", True)
    return str(error.value)


def replace(path: Path, text: str) -> None:
    """Change a file the way that editors and deployments do."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


# --- which keys count ------------------------------------------------------------------------------------------------

ALL = ["RS256", "ES256", "ES384", "EdDSA"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{",
        "[" * 100_000,
        "{" + '"a":{' * 100_000,
        '{"keys": 1}',
        '{"keys": []}',
        '{"keys": [1, null, "x", {}, [], {"kty": 1}, {"kty": ["RSA"]}, {"kty": "RSA"}, {"kty": "EC", "crv": "P-256"}]}',
        jwk_set({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"}),
        jwk_set(jwk(RSA, use="enc")),
        jwk_set(jwk(RSA, key_ops=["encrypt"])),
        jwk_set(jwk(RSA, d="AQAB")),
        jwk_set(jwk(RSA, kid=7)),
        jwk_set(jwk(RSA, alg="RS512")),
        jwk_set(jwk(RSA, alg="HS256")),
        jwk_set(jwk(WEAK_RSA)),
        pem(WEAK_RSA),
        "-----BEGIN PUBLIC KEY-----\nxxxx\n-----END PUBLIC KEY-----\n",
        pem(RSA).replace("PUBLIC", "PRIVATE"),
        pem(RSA)[:200],
        "x" * (2**20 + 1),
    ],
)
def test_a_file_without_a_key_that_can_be_used_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(ConfigError, match=r"^auth\.jwt\.keys_file: .*keys: "):
        made(Callers(jwt=bearer_section(keys_file=str(tmp_path / "keys"), algorithms=ALL)))


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    for section in (
        Callers(jwt=bearer_section(keys_file=str(tmp_path / "none"))),
        Callers(api_keys_file=str(tmp_path / "none")),
        Callers(api_keys_file=str(tmp_path)),
    ):
        with pytest.raises(ConfigError, match=r"_file: .*cannot be read: "):
            made(section)


async def test_a_key_is_used_with_its_own_kind_of_algorithm_only(tmp_path: Path) -> None:
    keys = {"rsa": RSA, "p256": P256, "p384": P384, "ed": ED}
    (tmp_path / "keys").write_text(jwk_set(*(jwk(key, kid=kid) for kid, key in keys.items()), {"kty": "new"}))
    identifier = made(Callers(jwt=bearer_section(keys_file=str(tmp_path / "keys"), algorithms=ALL)))
    own = {"rsa": "RS256", "p256": "ES256", "p384": "ES384", "ed": "EdDSA"}
    for kid, alg in own.items():
        await who(identifier, bearer(kid, keys[kid], alg))
        await who(identifier, bearer(None, keys[kid], alg))
        for other in own.keys() - {kid}:
            assert UNTRUSTED in await refused(identifier, bearer(other, keys[kid], alg))


async def test_a_key_may_say_which_algorithm_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(jwk_set(jwk(RSA, alg="RS256", use="sig", key_ops=["verify"])))
    identifier = made(Callers(jwt=bearer_section(keys_file=str(tmp_path / "keys"), algorithms=["RS256", "PS256"])))
    await who(identifier, bearer())
    assert UNTRUSTED in await refused(identifier, bearer(alg="PS256"))


# --- files -----------------------------------------------------------------------------------------------------------


async def test_a_changed_file_of_public_keys_counts_from_the_next_request_on(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(pem(RSA))
    identifier = made(Callers(jwt=bearer_section(keys_file=str(path))))
    await who(identifier, bearer())
    replace(path, pem(OTHER_RSA))
    assert UNTRUSTED in await refused(identifier, bearer())
    await who(identifier, bearer(key=OTHER_RSA))


async def test_a_removed_api_key_is_refused_from_the_next_request_on(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(api_key_line("ann") + api_key_line("eve", "another-key-0123456789"))
    identifier = made(Callers(api_keys_file=str(path)))
    assert await who(identifier, ("X-API-Key", API_KEY)) == "key:ann"
    replace(path, api_key_line("eve", "another-key-0123456789") + api_key_line("eve", "the-next-key-0123456789"))
    assert "not known" in await refused(identifier, ("X-API-Key", API_KEY))
    for key in ("another-key-0123456789", "the-next-key-0123456789"):
        assert await who(identifier, ("X-API-Key", key)) == "key:eve"
    replace(path, "# nobody\n")
    assert "not known" in await refused(identifier, ("X-API-Key", "another-key-0123456789"))


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: replace(path, "what?\n")])
async def test_a_file_that_cannot_be_read_any_more_lets_nobody_in_until_it_can(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text(api_key_line())
    identifier = made(Callers(api_keys_file=str(path)))
    spoil(path)
    with caplog.at_level(logging.ERROR, "anabranch"):
        for _ in range(3):
            assert str(tmp_path) not in await unavailable(identifier, ("X-API-Key", API_KEY))
    assert len(caplog.records) == 1 and "auth.api_keys_file" in caplog.text
    replace(path, api_key_line())
    assert await who(identifier, ("X-API-Key", API_KEY)) == "key:ci"


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("ci\n", "line 1"),
        ("ci: secret\n", "line 1"),
        ("\n# c\nci: " + "0" * 63 + "\n", "line 3"),
        ("a b: " + "0" * 64 + "\n", "line 1"),
        (": " + "0" * 64 + "\n", "line 1"),
        ("é: " + "0" * 64 + "\n", "line 1"),
        (api_key_line("a") + api_key_line("b"), "line 2 gives b a key that is another's"),
        (api_key_line("a", ""), "line 1 has the hash of an empty key"),
        ("\udcff", "not UTF-8"),
        (api_key_line() + "#" * 2**20, "it has more than 1048576 bytes"),
    ],
)
def test_a_file_of_api_keys_that_is_wrong_stops_the_start_and_shows_nothing_of_itself(
    tmp_path: Path, text: str, flaw: str
) -> None:
    (tmp_path / "keys").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as error:
        made(Callers(api_keys_file=str(tmp_path / "keys")))
    assert flaw in str(error.value)
    assert "secret" not in str(error.value) and "000" not in str(error.value)


@pytest.mark.process
def test_the_documented_command_makes_a_key_that_works(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "identity.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    script = command.replace("python3", sys.executable)
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True
        )
        key = done.stderr.strip()
        assert len(key) >= 43 and key not in (tmp_path / "api-keys.txt").read_text()
        identifier = made(Callers(api_keys_file=str(tmp_path / "api-keys.txt")))
        assert asyncio.run(who(identifier, ("X-API-Key", key))) == "key:ci"


# --- an issuer's key set ---------------------------------------------------------------------------------------------


GOOD = jwk_set(jwk(RSA, kid="one"), jwk(RSA, kid="two"))


class Issuer:
    """A server that answers ``GET /keys`` as it is told to, and counts."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [jwk(RSA, kid="one")]
        self.asked = 0
        self.answer: Callable[[], Response] | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.reached = asyncio.Event()
        self.url = ""

    async def give(self, request: Request) -> Response:
        """The route."""
        self.asked += 1
        self.reached.set()
        assert not {"authorization", "cookie", "traceparent"} & set(request.headers.keys())
        await self.hold.wait()
        return self.answer() if self.answer else Response(jwk_set(*self.keys), media_type="application/json")

    async def give_good(self, request: Request) -> Response:
        """Another address of the same server."""
        return Response(GOOD)


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer, None]:
    found = Issuer()
    async with served(Starlette(routes=[Route("/keys", found.give), Route("/elsewhere", found.give_good)])) as url:
        found.url = f"{url}/keys"
        yield found
        found.hold.set()


@pytest.fixture
async def clock() -> Clock:
    return Clock(0)


@pytest.fixture
async def identifier(issuer: Issuer, clock: Clock) -> AsyncGenerator[Identifier, None]:
    section = bearer_section(jwks_url=issuer.url, algorithms=["RS256", "ES256"])
    identifier = made(Callers(jwt=section), monotonic=clock)
    async with asyncio.timeout(WAIT_S):
        yield identifier
        await identifier.aclose()


async def test_keys_are_fetched_when_the_first_token_comes_and_then_kept(
    issuer: Issuer, identifier: Identifier, clock: Clock
) -> None:
    assert issuer.asked == 0
    for seconds in (0, PAUSE_S, REFRESH_S - 1):
        clock.now = seconds
        await who(identifier, bearer())
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "keys of an issuer"]
    assert issuer.asked == 1


async def test_a_token_of_another_algorithm_or_form_asks_nobody(issuer: Issuer, identifier: Identifier) -> None:
    await refused(identifier, bearer(alg="RS512"))
    await refused(identifier, ("Authorization", "Bearer x.y.z"))
    assert issuer.asked == 0


async def test_a_rotated_key_is_found_and_the_old_one_is_gone(
    issuer: Issuer, identifier: Identifier, clock: Clock
) -> None:
    await who(identifier, bearer())
    issuer.keys = [jwk(P256, kid="two")]
    clock.now += PAUSE_S
    await who(identifier, bearer("two", P256, "ES256"))
    assert issuer.asked == 2
    assert UNTRUSTED in await refused(identifier, bearer())


async def test_made_up_key_names_do_not_make_us_ask_more_often(
    issuer: Issuer, identifier: Identifier, clock: Clock
) -> None:
    await who(identifier, bearer())
    for step in range(50):
        clock.now = step * PAUSE_S / 25
        assert UNTRUSTED in await refused(identifier, bearer(f"made up {step}"))
        await who(identifier, bearer())
    assert issuer.asked == 2


async def test_all_who_wait_for_keys_share_one_request(issuer: Issuer, identifier: Identifier) -> None:
    issuer.hold.clear()
    waiting = [asyncio.create_task(who(identifier, bearer())) for _ in range(20)]
    await issuer.reached.wait()
    waiting[0].cancel()  # whose request made the others' keys come
    issuer.hold.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert len(set(map(str, found[1:]))) == 1 and isinstance(found[1], str)
    assert issuer.asked == 1


async def test_nobody_with_a_known_key_waits_for_a_renewal(
    issuer: Issuer, identifier: Identifier, clock: Clock
) -> None:
    await who(identifier, bearer())
    issuer.hold.clear()
    issuer.reached.clear()
    issuer.keys = [jwk(OTHER_RSA, kid="two")]
    clock.now += REFRESH_S
    await who(identifier, bearer())
    await issuer.reached.wait()
    await who(identifier, bearer())
    waiting = asyncio.create_task(who(identifier, bearer("two", OTHER_RSA)))
    issuer.hold.set()
    await waiting
    assert UNTRUSTED in await refused(identifier, bearer())
    assert issuer.asked == 2


def moved() -> Response:
    return RedirectResponse("/elsewhere")  # where the keys are


def broken() -> Response:
    return Response(GOOD, 500)


def page() -> Response:
    return Response("<html>hello</html>")


def empty() -> Response:
    return Response(jwk_set())


def compressed() -> Response:
    return Response(gzip.compress(GOOD.encode()), headers={"content-encoding": "gzip"})


def huge() -> Response:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(SET_LIMIT // 1000 + 1):
            yield b" " * 1000
        yield GOOD.encode()

    return StreamingResponse(body())


OUTAGES = [moved, broken, page, empty, compressed, huge]


@pytest.mark.parametrize("outage", OUTAGES, ids=lambda each: each.__name__)
async def test_an_issuer_that_is_away_is_a_503_for_what_it_alone_knows(
    issuer: Issuer,
    identifier: Identifier,
    clock: Clock,
    outage: Callable[[], Response],
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuer.answer = outage
    with caplog.at_level(logging.WARNING, "anabranch"):
        for _ in range(3):
            assert issuer.url not in await unavailable(identifier, bearer())
    assert issuer.asked == 1 and [record.name for record in caplog.records].count("anabranch") == 1
    issuer.answer = None
    clock.now += PAUSE_S
    await who(identifier, bearer())  # it is back
    issuer.answer = outage
    clock.now += STALE_S - 1
    await who(identifier, bearer())  # known, and fetched again in the background
    await unavailable(identifier, bearer("two"))
    clock.now += 1
    await unavailable(identifier, bearer())  # nobody knows whether that key is still good


async def test_an_issuer_that_cannot_be_reached_is_a_503(clock: Clock) -> None:
    section = bearer_section(jwks_url="http://127.0.0.1:1/keys")
    identifier = made(Callers(jwt=section), monotonic=clock)
    async with asyncio.timeout(WAIT_S):
        await unavailable(identifier, bearer())


async def test_an_issuer_that_does_not_answer_is_given_up(issuer: Issuer) -> None:
    issuer.hold.clear()
    source = Jwks(issuer.url, ["RS256"], patience_s=0.2)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(ServerError):
            await source.fitting("RS256", "one")


async def test_an_issuer_that_answers_for_ever_is_given_up(issuer: Issuer) -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)  # noqa: TID251  # a peer that is never silent, and never done

    issuer.answer = lambda: StreamingResponse(drip())
    source = Jwks(issuer.url, ["RS256"], patience_s=0.3)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(ServerError):
            await source.fitting("RS256", "one")


async def test_closing_does_not_leave_a_request_behind(issuer: Issuer, clock: Clock) -> None:
    issuer.hold.clear()
    section = Callers(jwt=bearer_section(jwks_url=issuer.url))
    identifier = made(section, monotonic=clock)
    waiting = asyncio.create_task(who(identifier, bearer()))
    async with asyncio.timeout(WAIT_S):
        await issuer.reached.wait()
        await identifier.aclose()
        with pytest.raises(ServerError):
            await waiting
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "keys of an issuer"]


async def test_a_key_set_may_have_much_that_is_not_for_us(issuer: Issuer, identifier: Identifier) -> None:
    issuer.keys = [{"kty": "RSA", "kid": "one"}, jwk(P256, kid="one", use="enc"), jwk(RSA, kid="one", x5c=["?"])]
    issuer.keys += json.loads('[{"kty": "AKP", "kid": "one"}, {"kty": "oct", "k": "AAAA", "kid": "one"}]')
    await who(identifier, bearer())
