"""Agent cards: where the agent really is."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import SourceError
from anabranch.sources.a2a._card import Misplaced, card_urls, origin, read_card, rpc_url

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("advertised", "configured", "url"),
    [
        # what the agent sees of itself
        ("http://0.0.0.0:8000/", "http://komodor:9001", "http://komodor:9001/"),
        ("http://[::]:8000/a2a", "http://komodor:9001", "http://komodor:9001/a2a"),
        ("http://localhost:8000/", "https://gate.example/komodor", "https://gate.example/komodor/"),
        ("http://127.0.0.1:8000/rpc", "https://gate.example/komodor/", "https://gate.example/komodor/rpc"),
        ("http://localhost:8000/", "http://localhost:9001", "http://localhost:9001/"),
        # a prefix or a proxy (A2A-39)
        ("http://0.0.0.0:8000/komodor/rpc", "https://gate.example/komodor", "https://gate.example/komodor/rpc"),
        ("http://gate.example/rpc", "https://gate.example/komodor", "https://gate.example/komodor/rpc"),
        ("http://komodor:8000/", "http://komodor", "http://komodor/"),
        ("http://0.0.0.0:8000/", "https://h.example/.well-known/agent-card.json", "https://h.example/"),
        # an address that is meant as it is
        ("https://agents.example/rpc", "http://komodor:9001", "https://agents.example/rpc"),
        ("http://komodor:9001/rpc", "http://komodor:9001/card", "http://komodor:9001/rpc"),
        ("/rpc", "http://komodor:9001", "http://komodor:9001/rpc"),
        ("", "http://komodor:9001/rpc", "http://komodor:9001/rpc"),
        ("https://gate.example:443/rpc", "https://gate.example/card", "https://gate.example/rpc"),
        # credentials of the configured address stay with it, and a card has none
        ("http://0.0.0.0:8000/", "http://me:pw@komodor:9001", "http://me:pw@komodor:9001/"),
        ("http://you:pw@komodor:9001/", "http://komodor:9001", "http://komodor:9001/"),
        # nothing makes the configured address less safe
        ("http://gate.example/rpc", "https://gate.example", "https://gate.example/rpc"),
    ],
)
def test_the_configured_address_wins_over_one_that_only_the_agent_can_use(
    advertised: str, configured: str, url: str
) -> None:
    assert rpc_url(advertised, configured) == url


@pytest.mark.parametrize(
    ("configured", "urls"),
    [
        (
            "http://h:1",
            [("http://h:1/.well-known/agent-card.json", True), ("http://h:1/.well-known/agent.json", True)],
        ),
        (
            "http://h:1/a2a/",
            [
                ("http://h:1/a2a/.well-known/agent-card.json", True),
                ("http://h:1/a2a/.well-known/agent.json", True),
                ("http://h:1/.well-known/agent-card.json", False),
                ("http://h:1/.well-known/agent.json", False),
            ],
        ),
        ("http://h:1/cards/komodor.json", [("http://h:1/cards/komodor.json", True)]),
    ],
)
def test_a_card_is_looked_for_under_the_path_and_at_the_origin_where_it_may_be_anothers(
    configured: str, urls: list[tuple[str, bool]]
) -> None:
    assert card_urls(configured) == urls


def interface(binding: str = "JSONRPC", version: str = "1.0", **more: str) -> Json:
    return {"url": "http://0.0.0.0:1/", "protocolBinding": binding, "protocolVersion": version, **more}


def card(*interfaces: Json, **more: Any) -> bytes:
    return json.dumps({"name": "komodor", "supportedInterfaces": interfaces, "skills": [], **more}).encode()


def test_the_first_interface_that_speaks_json_rpc_of_version_1_is_taken() -> None:
    data = card(
        interface("GRPC"),
        interface("JSONRPC", "0.3", url="http://0.0.0.0:1/old"),
        interface("JSONRPC", "1.0.1", url="http://0.0.0.0:1/new", tenant="acme"),
        interface(),
        capabilities={"streaming": True, "extensions": []},
    )
    endpoint = read_card(data, "http://h", "The agent", bound=False)
    assert endpoint == ("http://h/new", "komodor", True, "acme", "1.0", ())


OLD = {"name": "komodor", "url": "http://0.0.0.0:1/rpc", "capabilities": {"streaming": True}}


@pytest.mark.parametrize(
    ("said", "url", "version"),
    [
        (OLD | {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}, "http://h/rpc", "0.3"),
        (OLD | {"protocolVersion": "0.2.6"}, "http://h/rpc", "0.3"),
        (OLD, "http://h/rpc", "0.3"),
        (OLD | {"url": "/a2a"}, "http://h/a2a", "0.3"),
        (OLD | {"url": ""}, "http://h", "0.3"),
        (OLD | {"protocolVersion": "1.0"}, "http://h/rpc", "1.0"),
        (OLD | {"protocolVersion": "1.0", "supportedInterfaces": [interface(version="0.3")]}, "http://h/rpc", "1.0"),
        (OLD | {"supportedInterfaces": [interface(version="0.3.0", url="/old")]}, "http://h/old", "0.3"),
        (OLD | {"supportedInterfaces": [interface(version="0.3", url="/old"), interface()]}, "http://h/", "1.0"),
        (OLD | {"supportedInterfaces": [interface(version="")]}, "http://h/", "1.0"),
        (OLD | {"supportedInterfaces": [interface("GRPC")]}, "http://h/rpc", "0.3"),
        (
            OLD | {"preferredTransport": "GRPC", "additionalInterfaces": [{"url": "/other", "transport": "JSONRPC"}]},
            "http://h/other",
            "0.3",
        ),
    ],
)
def test_without_an_interface_of_version_1_an_older_one_is_taken(said: Json, url: str, version: str) -> None:
    assert read_card(json.dumps(said).encode(), "http://h", "The agent", bound=False) == (
        url,
        "komodor",
        True,
        "",
        version,
        (),
    )


@pytest.mark.parametrize("capabilities", [{}, {"capabilities": {}}, {"capabilities": {"streaming": False}}])
def test_an_agent_that_does_not_say_that_it_streams_does_not(capabilities: Json) -> None:
    assert not read_card(card(interface(), **capabilities), "http://h", "The agent", bound=False).streaming


@pytest.mark.parametrize(
    ("data", "flaw"),
    [
        (card(interface(version="2.0")), "speaks another A2A than 1.0 and 0.3"),
        (json.dumps(OLD | {"protocolVersion": "3.0"}).encode(), "speaks another A2A than 1.0 and 0.3"),
        (json.dumps(OLD | {"preferredTransport": "GRPC"}).encode(), "speaks A2A over GRPC only; JSONRPC is needed"),
        (card(interface("GRPC"), interface("HTTP+JSON")), "speaks A2A over GRPC, HTTP\\+JSON only; JSONRPC is needed"),
        (card(), "an agent card without an interface"),
        (b"<html>", "an agent card that cannot be read"),
        (b"[]", "an agent card that cannot be read"),
    ],
)
def test_a_card_that_cannot_be_used_is_an_error_that_names_the_agent_and_says_why(data: bytes, flaw: str) -> None:
    with pytest.raises(SourceError, match=f"^The agent komodor .*{flaw}") as raised:
        read_card(data, "http://h", "The agent komodor", bound=False)
    assert raised.value.code == "agent_protocol"


def read_url(url: str, configured: str, *, bound: bool) -> str:
    return read_card(card(interface(url=url)), configured, "The agent komodor", bound=bound).url


@pytest.mark.parametrize(
    "url",
    [
        *("http://[zz/", "http://x:70000/", "http://x:no/", "//[::1/"),
        *("ftp://evil/", "ftp://0.0.0.0/", "javascript:alert(1)", "file:///etc/passwd", "localhost:8000"),
        *(
            "https://gate.example@evil/",
            "https://you:hunter2@evil/",
            "http://evil/rpc",
            "http://169.254.169.254/latest",
        ),
    ],
)
@pytest.mark.parametrize("bound", [False, True])
def test_a_card_whose_address_cannot_be_used_is_an_error_that_does_not_repeat_it(url: str, bound: bool) -> None:
    with pytest.raises(SourceError, match="^The agent komodor has an agent card ") as raised:
        read_url(url, "https://gate.example", bound=bound)
    assert raised.value.code == "agent_protocol"
    assert not any(word in str(raised.value) for word in ("evil", "zz", "hunter2", "169", "passwd"))


FOREIGN = ["https://evil.example/rpc", "//evil.example/x", "https://gate.example./", "https://gate.example.evil/"]


@pytest.mark.parametrize("url", FOREIGN)
@pytest.mark.parametrize(
    ("configured", "bound"),
    [("https://gate.example", True), ("https://me:hunter2@gate.example", False)],
    ids=["headers", "user name"],
)
def test_with_credentials_a_card_that_names_another_address_is_refused_with_the_remedy(
    url: str, configured: str, bound: bool
) -> None:
    with pytest.raises(SourceError, match="names another address.*configure that address") as raised:
        read_url(url, configured, bound=bound)
    assert raised.value.code == "agent_protocol"
    assert "evil" not in str(raised.value) and "hunter2" not in str(raised.value)
    assert "the card names" in str(raised.value.__cause__), "for the operator's log"


@pytest.mark.parametrize("url", FOREIGN)
def test_without_credentials_a_card_may_name_another_address(url: str) -> None:
    assert read_url(url, "https://gate.example", bound=False).startswith("https://")


@pytest.mark.parametrize(
    ("advertised", "configured"),
    [
        ("http://h:1/rpc", "http://h:1/rpc"),
        ("http://h:1/rpc/", "http://h:1/rpc"),
        ("http://h:1/rpc", "http://h:1/rpc/"),
        ("/rpc", "http://h:1/rpc"),
        # what the agent sees of itself
        ("http://0.0.0.0:8000/rpc", "http://h:1/rpc"),
        ("http://localhost:8000/rpc", "https://h/rpc"),
        ("http://h/rpc", "https://h/rpc"),
    ],
)
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_a_card_at_the_root_counts_for_the_address_that_it_names(
    advertised: str, configured: str, bound: bool, old: bool
) -> None:
    data = json.dumps(OLD | {"url": advertised}).encode() if old else card(interface(url=advertised))
    found = read_card(data, configured, "The agent komodor", bound=bound, own=False)
    assert found.url.rstrip("/") == configured.rstrip("/")


OTHERS = [
    *("http://h:1/", "http://h:1", "/", "", "http://0.0.0.0:8000/", "http://h:1/a2a/other", "http://h:1/a2a"),
    *("http://h:1/a2a/nope/more", "https://elsewhere.example/a2a/nope", "ftp://h:1/a2a/nope", "http://[zz/"),
]


@pytest.mark.parametrize(
    ("url", "here"),  # a user's own word for where elsewhere is wins
    [(url, here) for url in OTHERS for here in (False, True) if not (here and "elsewhere" in url)],
)
@pytest.mark.parametrize("old", [False, True])
def test_a_card_at_the_root_that_names_no_such_address_is_another_agents(url: str, here: bool, old: bool) -> None:
    data = json.dumps(OLD | {"url": url}).encode() if old else card(interface(url=url), interface("GRPC"))
    with pytest.raises(Misplaced, match="root of its server is another agent's; configure the address of an agent"):
        read_card(data, "http://h:1/a2a/nope", "The agent komodor", bound=False, own=False, here=here)


def test_of_a_card_at_the_root_the_interface_at_the_address_is_taken() -> None:
    data = card(interface(url="/"), interface(version="0.3", url="/rpc", tenant="acme"))
    found = read_card(data, "http://h/rpc", "The agent", bound=True, own=False)
    assert (found.url, found.version, found.tenant) == ("http://h/rpc", "0.3", "acme")
    rest = card(interface("HTTP+JSON", url="/rest"), interface(url="/rpc"))
    assert read_card(rest, "http://h/rest", "The agent", bound=True, own=False).url == "http://h/rpc"


@pytest.mark.parametrize(
    ("scheme", "header"),
    [
        ({"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}, "X-API-Key: ..."),
        ({"type": "apiKey", "in": "header", "name": "X-API-Key"}, "X-API-Key: ..."),
        ({"apiKeySecurityScheme": {"location": "cookie", "name": "sid"}}, "Cookie: sid=..."),
        ({"httpAuthSecurityScheme": {"scheme": "Bearer"}}, "Authorization: Bearer ..."),
        ({"type": "http", "scheme": "basic"}, "Authorization: Basic ..."),
        ({"oauth2SecurityScheme": {"flows": {}}}, "Authorization: Bearer ..."),
        ({"type": "openIdConnect", "openIdConnectUrl": "https://x"}, "Authorization: Bearer ..."),
        ({"type": "apiKey", "in": "query", "name": "key"}, ""),
        ({"mtlsSecurityScheme": {}}, ""),
        ({"type": "apiKey", "in": "header", "name": "X\x1b[31m"}, ""),
        ({"type": "apiKey", "in": ["header"], "name": ["X"]}, ""),
        ({"type": ["apiKey"]}, ""),
        ({"apiKeySecurityScheme": "X"}, ""),
        ("X-API-Key", ""),
    ],
)
def test_a_card_says_in_which_header_credentials_are_sent(scheme: Any, header: str) -> None:
    data = card(interface(), securitySchemes={"one": scheme, "again": scheme})
    found = read_card(data, "http://h", "The agent", bound=False).credentials
    assert found == ((header,) if header else ())


@pytest.mark.parametrize("schemes", [None, [], "x", 1, {}])
def test_a_card_without_schemes_asks_for_no_credentials(schemes: Any) -> None:
    assert read_card(card(interface(), securitySchemes=schemes), "http://h", "The agent", bound=False).credentials == ()


@pytest.mark.parametrize(
    ("advertised", "configured", "url"),
    [
        ("https://public.example/a2a/echo", "http://localhost:8000/a2a/echo", "http://localhost:8000/a2a/echo"),
        ("https://public.example/rpc", "http://localhost:8000", "http://localhost:8000/rpc"),
        ("https://public.example/rpc", "http://localhost:8000/x/card.json", "http://localhost:8000/rpc"),
        ("https://you:pw@public.example/", "http://localhost:8000", "http://localhost:8000/"),
    ],
)
def test_a_users_own_address_can_win_over_any_that_the_card_names(advertised: str, configured: str, url: str) -> None:
    data = card(interface(url=advertised))
    assert read_card(data, configured, "The agent", bound=True, here=True).url == url


URLS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["http:", "https:", "ftp:", "", "HTTP:", "x", "\\"]),
        st.sampled_from(["//", "/", "", "\\\\", "///"]),
        st.sampled_from(
            ["gate.example", "evil", "gate.example@evil", "evil@gate.example", "0.0.0.0", "[::1]", "[", ""]
        ),
        st.sampled_from(["", ":80", ":0", ":99999", ":x", "@evil", "\\@evil", "#@evil", "?@evil", ".evil"]),
        st.text(max_size=4),
    ),
)


@settings(deadline=None, database=None)
@given(
    URLS,
    st.sampled_from(["https://gate.example/a", "http://gate.example:9001", "http://me:pw@127.0.0.1:1"]),
    st.booleans(),
    st.booleans(),
)
def test_with_credentials_whatever_a_card_says_they_stay_at_the_configured_origin(
    url: str, configured: str, own: bool, here: bool
) -> None:
    try:
        taken = read_card(card(interface(url=url)), configured, "The agent", bound=True, own=own, here=here).url
    except SourceError:
        return
    assert origin(taken) == origin(configured)
    if not own:
        assert urlsplit(taken).path.rstrip("/") == urlsplit(configured).path.rstrip("/")
