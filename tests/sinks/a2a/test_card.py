"""One card for clients of both versions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as old
from a2a.compat.v0_3.conversions import to_core_agent_card
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from anabranch.sinks.a2a.card import card
from anabranch.sinks.a2a.profile import EXTENSION

SCHEMES: dict[str, dict[str, Any]] = {
    "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT", "description": "A token."}},
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "x-api-key"}},
    "login": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://login.test/.well-known"}},
}
SECURITY = {
    "securitySchemes": SCHEMES,
    "securityRequirements": [{"schemes": {name: {"list": []}}} for name in SCHEMES],
}
SKILL = {"id": "clusters", "name": "Clusters", "description": "Looks after clusters.", "tags": ["k8s"]}
ONE_0 = ("name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes")
ONE_0 += ("defaultOutputModes", "skills", "securityRequirements")


def made(**fields: Any) -> dict[str, Any]:
    said = {"rest_url": "https://agents.test/rest", "version": "1.2", "security": SECURITY, "skills": [SKILL]}
    return card("supervisor", "Asks the others.", "https://agents.test/", **said | fields)


def read(said: dict[str, Any]) -> AgentCard:
    """What a client of 1.0 reads. It changes what it is given."""
    return parse_agent_card(copy.deepcopy(said))


def test_a_client_of_1_0_reads_every_field_that_it_has() -> None:
    said = made()
    own = {field: said[field] for field in ONE_0} | {"securitySchemes": SCHEMES}
    theirs = read(said)
    assert theirs == ParseDict(own, AgentCard())
    [extension] = theirs.capabilities.extensions
    assert (extension.uri, extension.required, theirs.capabilities.streaming) == (EXTENSION, False, True)
    assert not theirs.capabilities.push_notifications and not theirs.capabilities.extended_agent_card


def test_the_official_server_writes_the_same_card() -> None:
    said = made()
    theirs = agent_card_to_dict(read(said))
    ours = copy.deepcopy(said)
    ours["capabilities"]["extensions"][0].pop("required")
    ours["capabilities"].pop("pushNotifications")
    strict = ours.keys() - LOOSE
    assert {field: theirs[field] for field in strict} == {field: ours[field] for field in strict}


LOOSE = {"additionalInterfaces", "protocolVersion", "capabilities", "securityRequirements"}
"""What both have and each says in its way: all interfaces or all but the first, 0.3.0 or 0.3, falses left out."""


def test_a_client_of_0_3_reads_a_card_of_its_own() -> None:
    theirs = old.AgentCard.model_validate(made())
    assert (theirs.url, theirs.preferred_transport) == ("https://agents.test/", "JSONRPC")
    assert theirs.protocol_version == "0.3.0"
    ways = {(way.transport, way.url) for way in theirs.additional_interfaces or ()}
    assert ways == {("JSONRPC", "https://agents.test/"), ("HTTP+JSON", "https://agents.test/rest")}
    schemes = {name: scheme.root for name, scheme in (theirs.security_schemes or {}).items()}
    assert {name: type(scheme).__name__ for name, scheme in schemes.items()} == {
        "bearer": "HTTPAuthSecurityScheme",
        "key": "APIKeySecurityScheme",
        "login": "OpenIdConnectSecurityScheme",
    }
    assert schemes["key"].in_.value == "header"  # type: ignore[union-attr]
    assert theirs.security == [{"bearer": []}, {"key": []}, {"login": []}]
    assert to_core_agent_card(theirs).skills == read(made()).skills


@pytest.mark.parametrize(
    ("binding", "kind"), [("JSONRPC", "JsonRpcTransport"), ("HTTP+JSON", "RestTransport")], ids=["rpc", "rest"]
)
def test_an_official_client_speaks_1_0_over_the_binding_it_prefers(binding: str, kind: str) -> None:
    client = ClientFactory(ClientConfig(supported_protocol_bindings=[binding])).create(read(made()))
    transport = client._transport  # type: ignore[attr-defined]
    assert type(transport).__name__ == kind
    assert transport.url == ("https://agents.test/" if binding == "JSONRPC" else "https://agents.test/rest")


def test_without_skills_the_agent_is_one_and_without_schemes_there_is_no_security() -> None:
    said = made(skills=(), security=None, rest_url="")
    assert [skill.name for skill in read(said).skills] == ["supervisor"]
    assert not {field for field in said if field.startswith("security")}
    assert {way.url for way in read(said).supported_interfaces} == {"https://agents.test/"}
    assert old.AgentCard.model_validate(said).skills[0].tags


def test_where_callers_may_be_anonymous_a_card_names_schemes_and_demands_none() -> None:
    said = made(security={"securitySchemes": SCHEMES})
    assert read(said).security_schemes.keys() == SCHEMES.keys()
    assert not read(said).security_requirements and old.AgentCard.model_validate(said).security is None
