"""The ``auth`` section: what is refused at the start, and that no complaint shows a secret."""

import sys
from typing import Any

import pytest
import yaml

from anabranch.auth import Identifier
from anabranch.config.callers import Anonymous, Callers, ContextHeader, SessionCookie, flaws
from anabranch.config.reader import Reader
from anabranch.errors import ConfigError, MissingExtra
from auth.minting import CONTEXT, ENVIRON, SESSION, VISITORS, bearer_section, made

WHOLE = """
context_header: {name: X-Who, secret_env: SECRET, claim: user.id, leeway: 0}
jwt:
  issuer: https://id.example.com/
  audience: [https://agents.example.com, other]
  algorithms: [RS256, EdDSA]
  jwks_url: https://id.example.com/keys
  claim: ["https://example.com/uid"]
  leeway: 10s
api_keys_file: keys
session_cookie: {name: sid, secret_env: SECRET}
anonymous: {secret_env: SECRET, name: __Host-who, max_age: 720h}
"""


def read(text: str) -> Any:
    return Reader("the.yaml", yaml.compose(text, Loader=yaml.SafeLoader)).read(yaml.safe_load(text), Callers, ())


def test_the_whole_section_is_read() -> None:
    section = read(WHOLE)
    assert list(flaws(section)) == []
    assert section.jwt.audience == ["https://agents.example.com", "other"] and section.jwt.leeway == 10
    assert section.jwt.claim == ["https://example.com/uid"]
    assert section.anonymous.max_age == 30 * 86_400
    assert read("api_keys_file: keys\nanonymous: false") == Callers(api_keys_file="keys")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("anonymous: true", "`anonymous`"),
        ("anonymous: {secret_env: S, max_age: 5s}", "`anonymous.max_age`"),
        ("anonymous: {secret_env: S, max_age: 10000h}", "`anonymous.max_age`"),
        ("anonymous: {}", "`anonymous.secret_env`: missing"),
        ("session_cookie: {secret_env: S}", "`session_cookie.name`: missing"),
        ("context_header: {secret: hunter2}", "did you mean"),
        ("jwt: {issuer: a, audience: b}", "`jwt.algorithms`: missing"),
        ("jwt: {issuer: a, algorithms: [RS256]}", "`jwt.audience`: missing"),
        ("jwt: {audience: a, algorithms: [RS256]}", "`jwt.issuer`: missing"),
        ("jwt: {issuer: a, audience: b, algorithms: RS256}", "`jwt.algorithms`"),
        ("jwt: {issuer: a, audience: b, algorithms: [RS256], leeway: 1h}", "`jwt.leeway`"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(text)
    assert str(error.value).startswith("the.yaml:1: ") and complaint in str(error.value)


BOTH = {"algorithms": ["HS256"], "secret_env": "TOKENS"}


@pytest.mark.parametrize(
    ("section", "field"),
    [
        (Callers(), "auth"),
        (Callers(context_header=ContextHeader(secret_env="CONTEXT", name="Authorization")), "context_header.name"),
        (Callers(context_header=ContextHeader(secret_env="CONTEXT", name="x-api-key")), "context_header.name"),
        (Callers(context_header=ContextHeader(secret_env="CONTEXT", name="Cookie")), "context_header.name"),
        (Callers(context_header=ContextHeader(secret_env="CONTEXT", name="X Y")), "context_header.name"),
        (Callers(context_header=ContextHeader(secret_env="CONTEXT", claim="")), "context_header.claim"),
        (Callers(context_header=ContextHeader(secret_env="CONTEXT", claim="user..id")), "context_header.claim"),
        (Callers(context_header=ContextHeader(secret_env="CONTEXT", claim=[])), "context_header.claim"),
        (Callers(session_cookie=SessionCookie(secret_env="SESSION", name="a=b")), "session_cookie.name"),
        (Callers(session_cookie=SessionCookie(secret_env="SESSION", name="")), "session_cookie.name"),
        (Callers(session_cookie=SessionCookie(secret_env="SESSION", name="a", claim=".")), "session_cookie.claim"),
        (Callers(anonymous=Anonymous(secret_env="VISITORS", name="a;b")), "anonymous.name"),
        (
            Callers(session_cookie=SESSION, anonymous=Anonymous(secret_env="VISITORS", name=SESSION.name)),
            "anonymous.name",
        ),
        (Callers(jwt=bearer_section()), "jwt"),
        (Callers(jwt=bearer_section(jwks_url="https://a", keys_file="b")), "jwt"),
        (Callers(jwt=bearer_section(**BOTH, keys_file="b")), "jwt"),
        (Callers(jwt=bearer_section(**BOTH | {"algorithms": []})), "jwt.algorithms"),
        (Callers(jwt=bearer_section(**BOTH | {"algorithms": ["none"]})), "jwt.algorithms"),
        (Callers(jwt=bearer_section(**BOTH | {"algorithms": ["hs256"]})), "jwt.algorithms"),
        (Callers(jwt=bearer_section(**BOTH | {"algorithms": ["HS256", "RS256"]})), "jwt.algorithms"),
        (Callers(jwt=bearer_section(**BOTH | {"algorithms": ["RS256"]})), "jwt.algorithms"),
        (Callers(jwt=bearer_section(keys_file="k", algorithms=["HS256"])), "jwt.algorithms"),
        (Callers(jwt=bearer_section(keys_file="k", algorithms=["RS256", "HS256"])), "jwt.algorithms"),
        (Callers(jwt=bearer_section(jwks_url="https://a/", algorithms=["HS512"])), "jwt.algorithms"),
        (Callers(jwt=bearer_section(**BOTH, issuer="")), "jwt.issuer"),
        (Callers(jwt=bearer_section(**BOTH, audience="")), "jwt.audience"),
        (Callers(jwt=bearer_section(**BOTH, audience=[])), "jwt.audience"),
        (Callers(jwt=bearer_section(**BOTH, audience=["a", ""])), "jwt.audience"),
        (Callers(jwt=bearer_section(jwks_url="http://id.example.com/keys")), "jwt.jwks_url"),
        (Callers(jwt=bearer_section(jwks_url="http://localhost.example.com/keys")), "jwt.jwks_url"),
        (Callers(jwt=bearer_section(jwks_url="http://10.0.0.1/keys")), "jwt.jwks_url"),
        (Callers(jwt=bearer_section(jwks_url="https://user:secret@id.example.com/keys")), "jwt.jwks_url"),
        (Callers(jwt=bearer_section(jwks_url="file:///etc/passwd")), "jwt.jwks_url"),
        (Callers(jwt=bearer_section(jwks_url="https://id.example.com:port/")), "jwt.jwks_url"),
        (Callers(jwt=bearer_section(jwks_url="https://")), "jwt.jwks_url"),
        (Callers(jwt=bearer_section(jwks_url="")), "jwt.jwks_url"),
    ],
)
def test_a_section_that_is_not_safe_makes_no_server(section: Callers, field: str) -> None:
    with pytest.raises(ConfigError) as error:
        made(section)
    assert str(error.value).startswith(("auth." if field != "auth" else "") + f"{field}: ")
    assert "secret@" not in str(error.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_keys_may_come_from_this_machine_without_tls(host: str) -> None:
    assert list(flaws(Callers(jwt=bearer_section(jwks_url=f"http://{host}:8080/keys")))) == []


@pytest.mark.parametrize(
    ("section", "variable", "field"),
    [
        (Callers(context_header=CONTEXT), "CONTEXT", "context_header.secret_env"),
        (Callers(jwt=bearer_section(**BOTH)), "TOKENS", "jwt.secret_env"),
        (Callers(session_cookie=SESSION), "SESSION", "session_cookie.secret_env"),
        (Callers(anonymous=VISITORS), "VISITORS", "anonymous.secret_env"),
    ],
)
def test_a_secret_that_is_missing_or_short_stops_the_start(section: Callers, variable: str, field: str) -> None:
    made(section)
    without = {name: value for name, value in ENVIRON.items() if name != variable}
    for environ in (without, without | {variable: ""}):
        with pytest.raises(ConfigError, match=rf"^auth\.{field}: the environment variable {variable} is not set$"):
            Identifier.from_config(section, environ)
    for secret in ("hunter2", "x" * 31):
        with pytest.raises(ConfigError, match=rf"^auth\.{field}: .*{variable} has {len(secret)} bytes") as error:
            Identifier.from_config(section, without | {variable: secret})
        assert secret not in str(error.value)
    Identifier.from_config(section, without | {variable: "é" * 16})
    with pytest.raises(ConfigError, match="PEM key"):
        Identifier.from_config(section, without | {variable: "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0\n"})


@pytest.mark.parametrize(("algorithm", "size"), [("HS384", 48), ("HS512", 64)])
def test_a_longer_hash_needs_a_longer_secret(algorithm: str, size: int) -> None:
    section = Callers(jwt=bearer_section(secret_env="TOKENS", algorithms=["HS256", algorithm]))
    with pytest.raises(ConfigError, match=f"it needs {size} random ones"):
        made(section, TOKENS="x" * (size - 1))
    made(section, TOKENS="x" * size)


def test_a_secret_has_one_purpose() -> None:
    section = Callers(context_header=CONTEXT, session_cookie=SESSION)
    with pytest.raises(ConfigError, match=r"^auth\.session_cookie\.secret_env: .*auth\.context_header\.secret_env too"):
        made(section, SESSION=ENVIRON["CONTEXT"])


@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
def test_tokens_need_an_extra_and_say_so_at_the_start(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"'\.\[auth\]'"):
        made(Callers(context_header=CONTEXT))
    made(Callers(anonymous=VISITORS))


def test_fetching_keys_needs_an_extra_and_says_so_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"'\.\[auth\]'"):
        made(Callers(jwt=bearer_section(jwks_url="https://id.example.com/keys")))
