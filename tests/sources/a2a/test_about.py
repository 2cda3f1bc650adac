"""What a card says beside the address, of 1.0 as the official types write it, and older."""

import json
from typing import Any

import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import MessageToJson

from anabranch.sources.a2a._about import About, Place, read_about

OFFICIAL = AgentCard(name="komodor", version="1.2", description="Knows\nthe clusters.")
OFFICIAL.skills.add(id="list", name="List clusters", description="All of them.")
OFFICIAL.security_schemes["key"].api_key_security_scheme.name = "X-Key"
OFFICIAL.security_schemes["key"].api_key_security_scheme.location = "header"
OFFICIAL.security_schemes["token"].http_auth_security_scheme.scheme = "Bearer"
OFFICIAL.security_schemes["flow"].oauth2_security_scheme.flows.client_credentials.token_url = "https://h/token"
OFFICIAL.security_schemes["tls"].mtls_security_scheme.description = "ours"
OFFICIAL.security_schemes["id"].open_id_connect_security_scheme.open_id_connect_url = "https://h/openid"

SCHEMES_1 = json.loads(MessageToJson(OFFICIAL))["securitySchemes"]
SCHEMES_03 = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "token": {"type": "http", "scheme": "bearer"},
    "flow": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://h/token", "scopes": {}}}},
    "tls": {"type": "mutualTLS"},
    "id": {"type": "openIdConnect", "openIdConnectUrl": "https://h/openid"},
}


def about(said: Any) -> About:
    return read_about(json.dumps(said).encode())


def asking(schemes: dict[str, Any], *wanted: list[str]) -> About:
    """The same demand as 1.0 and as 0.3 write it."""
    if schemes is SCHEMES_03:
        return about({"securitySchemes": schemes, "security": [{name: [] for name in each} for each in wanted]})
    required = [{"schemes": {name: {"list": []} for name in each}} for each in wanted]
    return about({"securitySchemes": schemes, "securityRequirements": required})


def test_what_the_official_types_write_is_read() -> None:
    said = read_about(MessageToJson(OFFICIAL).encode())
    assert (said.version, said.description) == ("1.2", "Knows the clusters.")
    assert said.skills == (("List clusters", "All of them."),)
    assert said.lacks(()) == ""  # schemes that nobody requires


@pytest.mark.parametrize("schemes", [SCHEMES_1, SCHEMES_03], ids=["1.0", "0.3"])
@pytest.mark.parametrize(
    ("wanted", "has", "lacks"),
    [
        ([["key"]], [], "needs an API key (header X-Key); configure `auth: {api_key_env: NAME}`"),
        ([["key"]], ["key"], ""),
        ([["key"]], ["x-key"], ""),
        ([["key"]], ["authorization"], "needs an API key"),
        ([["token"]], [], "needs a bearer token; configure `auth: {bearer_env: NAME}`"),
        ([["token"]], ["authorization"], ""),
        ([["flow"]], ["key"], "needs an OAuth 2 token; configure `auth: {oauth2: ...}`"),
        ([["id"]], ["authorization"], ""),
        ([["tls"]], ["authorization", "key"], "needs a TLS client certificate, which is not supported"),
        ([["tls"], ["key"]], ["key"], ""),
        ([["tls"], []], [], ""),
        ([["token", "key"]], ["authorization"], "needs an API key"),
        ([["token", "key"]], ["authorization", "key"], ""),
        ([["token", "key"], ["flow"]], [], "needs an OAuth 2 token"),
        ([["nobody knows it"]], [], ""),
        ([], [], ""),
    ],
)
def test_what_a_card_wants_and_we_do_not_have_is_told_with_the_remedy(
    schemes: dict[str, Any], wanted: list[list[str]], has: list[str], lacks: str
) -> None:
    said = asking(schemes, *wanted).lacks(has)
    assert said.startswith(lacks) and bool(said) == bool(lacks)


@pytest.mark.parametrize(
    ("scheme", "place"),
    [
        ({"in": "header", "name": "X-Key"}, Place("header", "X-Key")),
        ({"in": "query", "name": "key"}, Place("query", "key")),
        ({"in": "cookie", "name": "session"}, Place("cookie", "session")),
        ({"in": "header", "name": "Host"}, None),
        ({"in": "header", "name": "Content-Length"}, None),
        ({"in": "header", "name": "a\r\nb"}, None),
        ({"in": "query", "name": "a b"}, None),
        ({"in": "body", "name": "key"}, None),
        ({"in": "header"}, None),
        ({"in": ["header"], "name": 3}, None),
    ],
)
def test_a_key_has_the_place_that_the_card_names_if_a_key_can_go_there(
    scheme: dict[str, Any], place: Place | None
) -> None:
    assert about({"securitySchemes": {"key": {"type": "apiKey", **scheme}}}).key_place == place


def test_the_place_of_a_key_is_that_of_the_scheme_that_is_required() -> None:
    schemes = {name: {"type": "apiKey", "in": "header", "name": name} for name in ("first", "second")}
    assert about({"securitySchemes": schemes, "security": [{"second": []}]}).key_place == Place("header", "second")


@pytest.mark.parametrize(
    ("token_url", "found"),
    [
        ("https://h/token", "https://h/token"),
        ("/token", "https://h/token"),
        ("https://h:443/token", "https://h:443/token"),
        ("http://h/token", ""),
        ("https://h:8443/token", ""),
        ("https://evil/token", ""),
        ("//evil/token", ""),
        ("https://h@evil/token", ""),
        ("https://user:pw@h/token", ""),
        ("https://h:x/token", ""),
        ("", ""),
        (7, ""),
    ],
)
def test_a_token_endpoint_of_the_card_counts_at_the_agents_own_address_only(token_url: Any, found: str) -> None:
    scheme = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": token_url}}}
    assert about({"securitySchemes": {"o": scheme}}).token_url("https://h/agent") == found


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"null",
        b"{" * 5000,
        b'{"skills": 1, "securitySchemes": [], "security": {}, "version": 3, "description": ["x"]}',
        b'{"skills": [1, {"name": ""}, null], "securitySchemes": {"a": 1, "b": {}, "c": {"x": 2}}, "security": [1]}',
        b'{"securitySchemes": {"o": {"type": "oauth2", "flows": [1]}}, "securityRequirements": [{"schemes": 1}]}',
    ],
)
def test_what_cannot_be_read_is_absent(said: bytes) -> None:
    found = read_about(said)
    assert (found.version, found.description, found.skills, found.key_place) == ("", "", (), None)
    assert found.lacks(()) == "" and found.token_url("https://h") == ""


def test_texts_are_one_line_and_cut() -> None:
    said = about(
        {"description": "x" * 5000, "version": "a\x1b[31m\n b", "skills": [{"name": f"{n}"} for n in range(99)]}
    )
    assert (len(said.description), said.version, len(said.skills)) == (1000, "a [31m b", 50)
