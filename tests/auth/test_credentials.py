"""The table of credentials, row by row: what a request shows, and who is asking or what it is told."""

import json
import logging
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jwt
import pytest

from anabranch.auth import Identifier, Unauthorized
from anabranch.auth.shown import Shown
from anabranch.auth.token import claims
from anabranch.config.callers import Callers, ContextHeader
from auth.minting import (
    API_KEY,
    AUDIENCE,
    CONTEXT,
    ED,
    ENVIRON,
    ISSUER,
    NOW,
    OTHER_RSA,
    P256,
    P384,
    RSA,
    SESSION,
    VISITORS,
    Clock,
    api_key_line,
    bearer_section,
    changed,
    context,
    forged,
    jwk,
    jwk_set,
    made,
    part,
    pem,
    raw,
    session,
    token,
    who,
)

ANN_BY_TOKEN = f"jwt:{quote(ISSUER, safe='')}:ann"
HEADER = "X-DataRobot-Authorization-Context"
UNREADABLE = "is not a signed JWT"
UNTRUSTED = "is not signed with a key that this server trusts"
OTHER_ALGORITHM = "is not signed with an algorithm that this server takes"
NO_USER = "does not name a user"
NO_TIME = "has a time that is no number"


def auth(value: str) -> tuple[str, str]:
    return "Authorization", value


def bearer(value: str) -> tuple[str, str]:
    return auth(f"Bearer {value}")


def gateway(value: str) -> tuple[str, str]:
    return HEADER, value


def key(value: str) -> tuple[str, str]:
    return "X-API-Key", value


def cookie(value: str) -> tuple[str, str]:
    return "Cookie", value


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Identifier:
    """A server that takes every kind, with every kind of signature of one issuer."""
    files = tmp_path_factory.mktemp("keys")
    (files / "keys.pem").write_text(pem(RSA, P256, ED))
    (files / "api-keys").write_text("# keys\n\n" + api_key_line())
    algorithms = ["RS256", "PS256", "ES256", "EdDSA"]
    section = Callers(
        context_header=CONTEXT,
        jwt=bearer_section(keys_file=str(files / "keys.pem"), algorithms=algorithms),
        api_keys_file=str(files / "api-keys"),
        session_cookie=SESSION,
        anonymous=VISITORS,
    )
    return made(section)


# --- who is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "id"),
    [
        ([gateway(context())], "context:ann"),
        ([gateway(context(exp=NOW + 1))], "context:ann"),
        ([gateway(context(nbf=NOW))], "context:ann"),
        ([gateway(context("a:b ç/日本"))], "context:a:b ç/日本"),
        ([(HEADER.upper(), f" {context()}\t")], "context:ann"),
        ([bearer(token())], ANN_BY_TOKEN),
        ([auth(f"bEaReR  {token()}")], ANN_BY_TOKEN),
        ([bearer(token(alg="PS256"))], ANN_BY_TOKEN),
        ([bearer(token(key=P256, alg="ES256"))], ANN_BY_TOKEN),
        ([bearer(token(key=ED, alg="EdDSA"))], ANN_BY_TOKEN),
        ([bearer(token(head={"kid": "whatever", "typ": "at+jwt"}))], ANN_BY_TOKEN),
        ([bearer(token(aud=["someone", AUDIENCE]))], ANN_BY_TOKEN),
        ([bearer(token(exp=NOW - 29.5))], ANN_BY_TOKEN),
        ([bearer(token(nbf=NOW + 30))], ANN_BY_TOKEN),
        ([key(API_KEY)], "key:ci"),
        ([bearer(API_KEY)], "key:ci"),
        ([cookie(f"sid={session()}")], "session:ann"),
        ([cookie(f"a=b; sid={session()};c=d; broken")], "session:ann"),
        ([cookie("a=b"), cookie(f"sid={session()}")], "session:ann"),
        ([cookie(f"sid={session()}; sid={session()}")], "session:ann"),
    ],
)
async def test_a_credential_that_holds_names_its_user_in_its_own_key_space(
    everything: Identifier, headers: list[tuple[str, str]], id: str
) -> None:
    found = await everything.identify(raw(*headers))
    assert (found.principal.id, found.set_cookie) == (id, None)


@pytest.mark.parametrize(
    ("headers", "id"),
    [
        ([gateway(context("eve")), bearer(token()), key(API_KEY), cookie(f"sid={session()}")], "context:eve"),
        ([key(API_KEY), bearer(token()), cookie(f"sid={session()}")], ANN_BY_TOKEN),
        ([key(API_KEY), cookie(f"sid={session()}")], "key:ci"),
        ([cookie(f"anabranch-anonymous=x; sid={session()}")], "session:ann"),
        # A browser sends cookies by itself, and cannot get rid of an old one: beside a header they do not count.
        ([bearer(token()), cookie("sid=broken")], ANN_BY_TOKEN),
        ([bearer(token()), cookie("sid=1; sid=2")], ANN_BY_TOKEN),
    ],
)
async def test_of_several_credentials_the_strongest_says_who_asks(
    everything: Identifier, headers: list[tuple[str, str]], id: str
) -> None:
    assert await who(everything, *headers) == id


# --- who is not ------------------------------------------------------------------------------------------------------

HS_BY_PUBLIC_KEY = forged(
    {"alg": "HS256", "typ": "JWT"},
    {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 600},
    pem(RSA).encode(),
)
RS_BY_PUBLIC_KEY = forged({"alg": "RS256"}, {"sub": "ann", "exp": NOW + 600}, pem(RSA).encode())
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 600, "user": {"id": "ann"}}
EMBEDDED = token(key=OTHER_RSA, head={"jwk": jwk(OTHER_RSA), "jku": "https://evil.example.com/", "kid": "mine"})

TOKEN_ROWS: list[tuple[str, str]] = [
    ("", UNREADABLE),
    ("abc..", UNREADABLE),
    ("a.b.c.d.e", UNREADABLE),
    ("....", UNREADABLE),
    ("é.é.é", UNREADABLE),
    (f"{token()} {token()}", UNREADABLE),
    (f"{token()},{token()}", UNREADABLE),
    (f"{token()}==", UNREADABLE),
    (token()[:-1] + "\n", UNREADABLE),
    (token(padding="x" * 20_000), UNREADABLE),
    (f"{part(b'[' * 5000)}.{part(CLAIMS)}.AA", UNREADABLE),
    (f"{part('[]')}.{part(CLAIMS)}.AA", UNREADABLE),
    (f"{part('x')}.{part(CLAIMS)}.AA", UNREADABLE),
    (f"a.{part(CLAIMS)}.AA", UNREADABLE),
    # Unsigned, in every disguise.
    (forged({"alg": "none"}, CLAIMS), UNREADABLE),
    (forged({"alg": "none"}, CLAIMS) + "AA", OTHER_ALGORITHM),
    (forged({"alg": "None"}, CLAIMS, b""), OTHER_ALGORITHM),
    (forged({"alg": ""}, CLAIMS, b""), OTHER_ALGORITHM),
    (forged({"typ": "JWT"}, CLAIMS, b""), OTHER_ALGORITHM),
    (forged({"alg": ["RS256"]}, CLAIMS, b""), OTHER_ALGORITHM),
    (forged({"alg": None}, CLAIMS, b""), OTHER_ALGORITHM),
    (token().rpartition(".")[0] + ".", UNREADABLE),
    (token().rpartition(".")[0], ""),
    # The public key as a secret, and other keys.
    (HS_BY_PUBLIC_KEY, OTHER_ALGORITHM),
    (RS_BY_PUBLIC_KEY, UNTRUSTED),
    (token(key=ENVIRON["CONTEXT"], alg="HS256"), OTHER_ALGORITHM),
    (token(alg="RS384"), OTHER_ALGORITHM),
    (token(key=P384, alg="ES384"), OTHER_ALGORITHM),
    (token(key=OTHER_RSA), UNTRUSTED),
    (EMBEDDED, UNTRUSTED),
    (forged({"alg": "ES256"}, CLAIMS, b"x"), UNTRUSTED),
    (forged({"alg": "EdDSA"}, CLAIMS, b"x"), UNTRUSTED),
    # Tampered.
    (changed(token(), sub="eve"), UNTRUSTED),
    (token()[:-10] + "A" * 10, UNTRUSTED),
    (token().replace(".", ".e30", 1), UNTRUSTED),
    # Extensions of the header.
    (token(head={"crit": ["exp"], "exp": 1}), "has a header that this server does not understand"),
    (f"{part({'alg': 'RS256', 'b64': False, 'crit': ['b64']})}.{part(CLAIMS)}.AA", "does not understand"),
    (f"{part({'alg': 'RS256', 'kid': 7})}.{part(CLAIMS)}.AA", "does not understand"),
    # Time.
    (token(exp=NOW - 30), "has expired"),
    (token(exp=0), "has expired"),
    (token(exp=-(10**30)), "has expired"),
    (token(nbf=NOW + 31), "is not valid yet"),
    (token(nbf=10**30), "is not valid yet"),
    (token(without=["exp"]), "never expires"),
    (token(exp=None), NO_TIME),
    (token(exp="2999-01-01"), NO_TIME),
    (token(exp=str(NOW + 600)), NO_TIME),
    (token(exp=True), NO_TIME),
    (token(exp=[NOW + 600]), NO_TIME),
    (token(nbf="soon"), NO_TIME),
    # For others, from others.
    (token(aud="https://other.example.com"), "is for another audience"),
    (token(aud=["https://other.example.com"]), "is for another audience"),
    (token(aud=AUDIENCE + "/"), "is for another audience"),
    (token(aud=AUDIENCE[:-1]), "is for another audience"),
    (token(aud=[]), "is for another audience"),
    (token(aud=""), "is for another audience"),
    (token(aud={AUDIENCE: AUDIENCE}), "is for another audience"),
    (token(aud=[[AUDIENCE]]), "is for another audience"),
    (token(without=["aud"]), "is for another audience"),
    (token(iss="https://evil.example.com/"), "is from another issuer"),
    (token(iss=ISSUER[:-1]), "is from another issuer"),
    (token(iss=[ISSUER]), "is from another issuer"),
    (token(iss=None), "is from another issuer"),
    (token(without=["iss"]), "is from another issuer"),
    # Nobody.
    (token(without=["sub"]), NO_USER),
    (token(None), NO_USER),
    (token(""), NO_USER),
    (token(" "), NO_USER),
    (token(" ann"), NO_USER),
    (token("ann\n"), NO_USER),
    (token("ann\x00"), NO_USER),
    (token("a\u200bnn"), NO_USER),
    (token("\u202enna"), NO_USER),
    (token("a\u2028n"), NO_USER),
    (token("a\ue000n"), NO_USER),
    (token("\ud83d"), "does not hold a JSON object"),
    (token(7), NO_USER),
    (token(True), NO_USER),
    (token(["ann"]), NO_USER),
    (token({"id": "ann"}), NO_USER),
    (token("x" * 10_000), "names a user with too long an id"),
    (token("日" * 512), "names a user with too long an id"),
]


@pytest.mark.parametrize(("value", "told"), TOKEN_ROWS)
async def test_a_bearer_that_does_not_hold_is_a_401(everything: Identifier, value: str, told: str) -> None:
    # Also beside what would be somebody: nothing weaker, and nothing stronger, makes up for it.
    others: list[list[tuple[str, str]]] = [[], [gateway(context())], [key(API_KEY)], [cookie(f"sid={session()}")]]
    for beside in others:
        with pytest.raises(Unauthorized) as refused:
            await everything.identify(raw(auth(f"Bearer {value}"), *beside))
        assert (refused.value.status, refused.value.code) == (401, "unauthorized")
        assert refused.value.headers == {"www-authenticate": "Bearer"}
        if value.count(".") == 2:
            assert str(refused.value).startswith("the bearer token ") and told in str(refused.value)
        leaks_nothing(refused.value, value)


def leaks_nothing(refused: Unauthorized, value: str) -> None:
    """What a caller is told has no part of what was sent, nor of what is known here."""
    told = f"{refused} {refused.headers}"
    parts = [it for it in re.split(r"[.\s,=;]", value) if len(it) > 8]
    known = [*ENVIRON.values(), API_KEY, ISSUER, AUDIENCE, "ann", "/"]
    assert not [it for it in (*parts, *known) if it in told.replace("Path=/", "")]
    assert refused.__cause__ is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", UNREADABLE),
        ("ann", UNREADABLE),
        (json.dumps(CLAIMS), UNREADABLE),
        (part(CLAIMS), UNREADABLE),
        (forged({"alg": "none"}, CLAIMS), UNREADABLE),
        (forged({"alg": "none"}, CLAIMS, b"x"), OTHER_ALGORITHM),
        (context(key=ENVIRON["SESSION"]), UNTRUSTED),
        (context(key="datarobot-placeholder-0123456789-0123456789"), UNTRUSTED),
        (forged({"alg": "HS256"}, CLAIMS, b""), UNTRUSTED),
        (context(key=ENVIRON["CONTEXT"] * 2, alg="HS512"), OTHER_ALGORITHM),
        (token(), OTHER_ALGORITHM),
        (changed(context(), user={"id": "eve"}), UNTRUSTED),
        (context(exp=NOW - 30), "has expired"),
        (context(nbf=NOW + 31), "is not valid yet"),
        (context(None), NO_USER),
        (context(17), NO_USER),
        (context({"$ne": ""}), NO_USER),
        (jwt.encode({"user": "ann"}, ENVIRON["CONTEXT"], "HS256"), NO_USER),
        (jwt.encode({"user.id": "ann"}, ENVIRON["CONTEXT"], "HS256"), NO_USER),
        (jwt.encode({"user": [{"id": "ann"}]}, ENVIRON["CONTEXT"], "HS256"), NO_USER),
        (forged({"alg": "HS256"}, "[]", ENVIRON["CONTEXT"].encode()), "does not hold a JSON object"),
        (forged({"alg": "HS256"}, b"\xff", ENVIRON["CONTEXT"].encode()), "does not hold a JSON object"),
        (forged({"alg": "HS256"}, "[" * 9000, ENVIRON["CONTEXT"].encode()), "does not hold a JSON object"),
        (forged({"alg": "HS256"}, '{"exp": NaN}', ENVIRON["CONTEXT"].encode()), "does not hold a JSON object"),
    ],
)
async def test_a_context_that_does_not_hold_is_a_401_whatever_else_is_there(
    everything: Identifier, value: str, told: str
) -> None:
    for beside in ([], [bearer(token())], [key(API_KEY)], [cookie(f"sid={session()}; anabranch-anonymous=x")]):
        with pytest.raises(Unauthorized) as refused:
            await everything.identify(raw(*beside, gateway(value)))
        assert str(refused.value).startswith(f"the header {HEADER} ") and told in str(refused.value)
        leaks_nothing(refused.value, value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", UNREADABLE),
        ("ann", UNREADABLE),
        ("sid", UNREADABLE),
        (forged({"alg": "none"}, {"sub": "ann"}), UNREADABLE),
        (session(key="another-secret-0123456789-0123456789"), UNTRUSTED),
        (session(key=ENVIRON["CONTEXT"]), UNTRUSTED),
        (session(key=ENVIRON["VISITORS"]), UNTRUSTED),
        (changed(session(), sub="eve"), UNTRUSTED),
        (session(exp=NOW - 31), "has expired"),
        (session(7), NO_USER),
        (f'"{session()}"', UNREADABLE),
    ],
)
async def test_a_session_that_does_not_hold_is_a_401_and_not_an_anonymous_caller(
    everything: Identifier, value: str, told: str
) -> None:
    with pytest.raises(Unauthorized) as refused:
        await everything.identify(raw(cookie(f"sid={value}")))
    assert str(refused.value).startswith("the cookie sid ") and told in str(refused.value)
    leaks_nothing(refused.value, value)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ([auth("Basic YW5uOnNlY3JldA==")], "not of the scheme Bearer"),
        ([auth("ann")], "not of the scheme Bearer"),
        ([auth("")], "not of the scheme Bearer"),
        ([auth(f"Token {API_KEY}")], "not of the scheme Bearer"),
        ([auth(f"Bearer\t{API_KEY}")], "not of the scheme Bearer"),
        ([auth("Bearer")], "the API key is not known"),
        ([bearer(API_KEY + "x")], "the API key is not known"),
        ([bearer("ann")], "the API key is not known"),
        ([key("")], "the API key is not known"),
        ([key(API_KEY[:-1])], "the API key is not known"),
        ([key(API_KEY.upper())], "the API key is not known"),
        ([key("\xff" * 40)], "the API key is not known"),
        ([key(api_key_line().split(": ")[1].strip())], "the API key is not known"),
        ([key(token())], "the API key is not known"),
        ([key(API_KEY), key(API_KEY)], "the header X-API-Key was sent 2 times"),
        ([key(API_KEY), bearer(API_KEY)], "sent twice"),
        ([bearer(token()), bearer(token())], "the header Authorization was sent 2 times"),
        ([bearer(token()), bearer("x.y.z")], "the header Authorization was sent 2 times"),
        ([gateway(context()), gateway(context("eve"))], f"the header {HEADER} was sent 2 times"),
        ([cookie(f"sid={session()}; sid={session('eve')}")], "the cookie sid was sent with different values"),
        ([cookie(f"sid={session()}"), cookie("sid=")], "the cookie sid was sent with different values"),
        ([bearer(token()), key("wrong")], "the API key is not known"),
        ([gateway(context()), key("wrong")], "the API key is not known"),
        ([gateway(context()), auth("Basic YW5uOnNlY3JldA==")], "not of the scheme Bearer"),
    ],
)
async def test_what_is_no_credential_or_comes_twice_is_a_401(
    everything: Identifier, headers: list[tuple[str, str]], told: str
) -> None:
    with pytest.raises(Unauthorized, match=re.escape(told)) as refused:
        await everything.identify(raw(*headers))
    for _, value in headers:
        leaks_nothing(refused.value, value.removeprefix("Basic").removeprefix("Bearer"))


# --- key spaces ------------------------------------------------------------------------------------------------------


async def test_the_same_name_of_two_kinds_is_two_users(everything: Identifier, tmp_path: Path) -> None:
    (tmp_path / "api-keys").write_text(api_key_line("ann"))
    keyed = made(Callers(api_keys_file=str(tmp_path / "api-keys")))
    ids = {
        await who(everything, gateway(context())),
        await who(everything, bearer(token())),
        await who(keyed, key(API_KEY)),
        await who(everything, cookie(f"sid={session()}")),
    }
    assert len(ids) == 4


async def test_no_id_of_one_issuer_is_one_of_another() -> None:
    async def by(issuer: str, sub: str) -> str:
        section = Callers(jwt=bearer_section(issuer=issuer, secret_env="TOKENS", algorithms=["HS256"]))
        return await who(made(section), bearer(token(sub, key=ENVIRON["TOKENS"], alg="HS256", iss=issuer)))

    assert await by("a", "b:c") != await by("a:b", "c")
    assert await by("a%3Ab", "c") != await by("a:b", "c")
    assert await by("a", "context:ann") == "jwt:a:context:ann"


async def test_a_user_cannot_take_the_name_of_the_local_one(everything: Identifier) -> None:
    assert await who(everything, gateway(context("local"))) == "context:local"


# --- what is configured ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "claims"),
    [
        ({"claim": "sub"}, {"sub": "eve"}),
        ({"claim": "a.b.c"}, {"a": {"b": {"c": "eve"}}}),
        ({"claim": ["https://example.com/uid"]}, {"https://example.com/uid": "eve"}),
        ({"claim": ["user", "e.mail"]}, {"user": {"e.mail": "eve"}}),
        ({"name": "X-Who"}, {"user": {"id": "eve"}}),
    ],
)
async def test_the_name_of_the_header_and_the_path_to_the_user_are_configured(
    section: dict[str, Any], claims: dict[str, Any]
) -> None:
    identifier = made(Callers(context_header=ContextHeader(secret_env="CONTEXT", **section)))
    name = section.get("name", HEADER)
    assert await who(identifier, (name, jwt.encode(claims, ENVIRON["CONTEXT"], "HS256"))) == "context:eve"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_a_bearer_may_be_signed_with_a_secret(algorithm: str) -> None:
    section = bearer_section(secret_env="TOKENS", algorithms=[algorithm], claim="email", audience=["x", AUDIENCE])
    identifier = made(Callers(jwt=section))
    signed = token(key=ENVIRON["TOKENS"], alg=algorithm, email="ann@example.com")
    assert (await who(identifier, bearer(signed))).endswith(":ann@example.com")
    for other in {"HS256", "HS384", "HS512"} - {algorithm}:
        with pytest.raises(Unauthorized, match=OTHER_ALGORITHM):
            await who(identifier, bearer(token(key=ENVIRON["TOKENS"], alg=other, email="ann@example.com")))


async def test_the_leeway_is_what_clocks_may_differ_and_no_more() -> None:
    clock = Clock()
    section = Callers(jwt=bearer_section(secret_env="TOKENS", algorithms=["HS256"], leeway=5.0))
    identifier = made(section, clock)
    signed = token(key=ENVIRON["TOKENS"], alg="HS256", nbf=NOW, exp=NOW + 100)
    for now, told in [(-6, "not valid yet"), (-5, ""), (0, ""), (104, ""), (105, "expired")]:
        clock.now = NOW + now
        if told:
            with pytest.raises(Unauthorized, match=told):
                await who(identifier, bearer(signed))
        else:
            await who(identifier, bearer(signed))


async def test_a_bearer_with_dots_is_a_key_where_no_tokens_are_taken(tmp_path: Path) -> None:
    (tmp_path / "api-keys").write_text(api_key_line("dotted", "one.two.three"))
    identifier = made(Callers(api_keys_file=str(tmp_path / "api-keys")))
    assert await who(identifier, bearer("one.two.three")) == "key:dotted"


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", HEADER])
async def test_a_credential_of_a_kind_that_is_not_taken_makes_nobody_an_anonymous_caller(name: str) -> None:
    for section in (Callers(anonymous=VISITORS), Callers(session_cookie=SESSION)):
        with pytest.raises(Unauthorized, match=f"does not take the credential in the header {name}") as refused:
            await made(section).identify(raw((name, "Bearer x")))
        assert refused.value.headers == {}


async def test_beside_a_session_or_a_context_it_is_somebody_elses_business() -> None:
    identifier = made(Callers(context_header=CONTEXT, session_cookie=SESSION))
    assert await who(identifier, auth("Basic YTpi"), gateway(context())) == "context:ann"
    assert await who(identifier, auth("Basic YTpi"), cookie(f"sid={session()}")) == "session:ann"


@pytest.mark.parametrize("headers", [[], [cookie("")], [cookie("sid")], [cookie("other=1")], [("host", "x")]])
async def test_without_a_credential_the_answer_is_401(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(Unauthorized, match="no credential was sent"):
        await made(Callers(session_cookie=SESSION)).identify(raw(*headers))


# --- against what others signed --------------------------------------------------------------------------------------


def test_the_examples_of_rfc_7515_are_verified() -> None:
    said = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    shared = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
    secret = jwt.utils.base64url_decode(shared)
    signed = f"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{said}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert claims(signed, "HS256", [secret], "it")["iss"] == "joe"
    x, y = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
    signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    point = jwt.PyJWK({"kty": "EC", "crv": "P-256", "x": x, "y": y}).key
    assert claims(f"eyJhbGciOiJFUzI1NiJ9.{said}.{signature}", "ES256", [point], "it")["exp"] == 1300819380


@pytest.mark.parametrize("size", [1, 100])
async def test_a_hostile_request_takes_no_time(everything: Identifier, size: int) -> None:
    hostile = [
        raw(bearer("." * 60_000)),
        raw(bearer("A" * 30_000 + "." + "A" * 30_000 + ".A")),
        raw(cookie(";" * 60_000)),
        raw(cookie("sid=" * 15_000)),
        raw(*[("x", "y")] * 1000),
    ]
    began = time.process_time()
    for headers in hostile * size:
        try:
            await everything.identify(headers)
        except Unauthorized:
            continue
    assert (time.process_time() - began) / size < 0.5


def test_headers_are_read_without_regard_to_case() -> None:
    shown = Shown([(b"X-Api-KEY", b"  a ")])
    assert shown.header("x-api-key") == "a" and shown.has("X-API-Key")


async def test_what_is_refused_is_not_logged(everything: Identifier, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for value, _ in TOKEN_ROWS:
            with pytest.raises(Unauthorized):
                await everything.identify(raw(auth(f"Bearer {value}")))
    assert not caplog.records


# --- secrets ---------------------------------------------------------------------------------------------------------


async def test_nothing_that_is_made_shows_a_secret(everything: Identifier) -> None:
    seen: set[int] = set()

    def shown(value: Any, depth: int = 0) -> str:
        if id(value) in seen or depth > 6:
            return ""
        seen.add(id(value))
        inner = value if isinstance(value, tuple) else getattr(value, "__dict__", {}).values()
        # What is said by whatever holds a secret; the secret itself is plain bytes.
        own = "" if isinstance(value, bytes | str | dict | tuple) else f"{value!r} {value!s}"
        return own + "".join(shown(each, depth + 1) for each in inner)

    told = shown(everything)
    assert "Identifier" in told and "AnonymousCookie" in told and "SecretKey" in told
    assert not [secret for secret in ENVIRON.values() if secret in told]


async def test_a_key_set_with_a_secret_in_it_is_no_way_in(tmp_path: Path) -> None:
    public = jwk(RSA, kid="rsa")
    secret = {"kty": "oct", "kid": "oct", "k": part(b"x" * 64)}
    (tmp_path / "keys.json").write_text(jwk_set(public, secret))
    identifier = made(Callers(jwt=bearer_section(keys_file=str(tmp_path / "keys.json"))))
    assert await who(identifier, bearer(token(head={"kid": "rsa"}))) == ANN_BY_TOKEN
    for head in ({"alg": "HS256", "kid": "oct"}, {"alg": "RS256", "kid": "oct"}, {"alg": "RS256", "kid": "rsa"}):
        with pytest.raises(Unauthorized):
            await who(identifier, bearer(forged(head, CLAIMS, b"x" * 64)))
