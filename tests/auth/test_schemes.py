"""What an agent card says of credentials, read by the protocol's own types."""

from typing import Any

import pytest

from anabranch.auth import schemes
from anabranch.config.callers import Callers, ContextHeader
from auth.minting import CONTEXT, SESSION, VISITORS, bearer_section

JWT = bearer_section(jwks_url="https://id.example.com/keys")
ALL = Callers(context_header=CONTEXT, jwt=JWT, api_keys_file="keys", session_cookie=SESSION)


def test_each_credential_that_is_taken_is_a_scheme_and_any_of_them_will_do() -> None:
    found = schemes(ALL)
    assert list(found["securitySchemes"]) == ["context", "bearer", "apiKey", "session"]
    assert found["securityRequirements"] == [{"schemes": {name: {"list": []}}} for name in found["securitySchemes"]]
    assert schemes(Callers(jwt=JWT)) == {
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }


def test_the_configured_names_are_on_the_card() -> None:
    section = Callers(context_header=ContextHeader(secret_env="S", name="X-Who"), session_cookie=SESSION)
    places = [each["apiKeySecurityScheme"] for each in schemes(section)["securitySchemes"].values()]
    assert [(place["location"], place["name"]) for place in places] == [("header", "X-Who"), ("cookie", "sid")]


def test_nothing_is_required_of_anonymous_callers() -> None:
    assert schemes(None) == schemes(Callers(anonymous=VISITORS)) == {}
    found = schemes(Callers(jwt=JWT, anonymous=VISITORS))
    assert list(found) == ["securitySchemes"]


@pytest.mark.parametrize("section", [ALL, Callers(anonymous=VISITORS, jwt=JWT), Callers(session_cookie=SESSION)])
def test_the_sdk_reads_every_word_of_it(section: Callers) -> None:
    json_format = pytest.importorskip("google.protobuf.json_format", reason="needs protobuf: make setup")
    types: Any = pytest.importorskip("a2a.types", reason="needs a2a-sdk: make setup")
    found = schemes(section)
    card = json_format.ParseDict(found, types.AgentCard())  # which refuses a word that it does not know
    assert json_format.MessageToDict(card)["securitySchemes"] == found["securitySchemes"]
    assert all(scheme.WhichOneof("scheme") for scheme in card.security_schemes.values())
    required = [list(requirement.schemes) for requirement in card.security_requirements]
    assert required == [list(requirement["schemes"]) for requirement in found.get("securityRequirements", [])]
