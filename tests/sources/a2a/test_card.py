"""Agent cards: where the agent really is."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import SourceError
from anabranch.sources.a2a._card import card_urls, origin, read_card, rpc_url

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
        ("http://h:1", ["http://h:1/.well-known/agent-card.json", "http://h:1/.well-known/agent.json"]),
        (
            "http://h:1/a2a/",
            [
                "http://h:1/a2a/.well-known/agent-card.json",
                "http://h:1/a2a/.well-known/agent.json",
                "http://h:1/.well-known/agent-card.json",
                "http://h:1/.well-known/agent.json",
            ],
        ),
        ("http://h:1/cards/komodor.json", ["http://h:1/cards/komodor.json"]),
    ],
)
def test_a_card_is_looked_for_under_the_path_and_at_the_origin(configured: str, urls: list[str]) -> None:
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
    assert endpoint == ("http://h/new", "komodor", True, "acme", "1.0")


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
@given(URLS, st.sampled_from(["https://gate.example/a", "http://gate.example:9001", "http://me:pw@127.0.0.1:1"]))
def test_with_credentials_whatever_a_card_says_they_stay_at_the_configured_origin(url: str, configured: str) -> None:
    try:
        taken = read_url(url, configured, bound=True)
    except SourceError:
        return
    assert origin(taken) == origin(configured)
