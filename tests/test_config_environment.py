"""Agents that the environment names: which are there, where, and what a complaint says."""

import pytest

from anabranch.config import parse
from anabranch.errors import ConfigError

ECHO = "agents: {echo: {python: 'm:f'}}\n"
ON = "agents_from_env: true\n"


def found(text: str, **environ: str) -> dict[str, str | None]:
    return {name: agent.a2a for name, agent in parse(text, "the.yaml", environ).agents.items() if name != "echo"}


def complaint(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(text, "the.yaml", environ)
    return str(raised.value)


@pytest.mark.parametrize(
    ("environ", "agents"),
    [
        ({"ENABLE_KOMODOR": "true", "KOMODOR_AGENT_HOST": "komodor", "KOMODOR_AGENT_PORT": "80"}, "http://komodor:80"),
        ({"ENABLE_KOMODOR": "TRUE", "KOMODOR_AGENT_HOST": "komodor"}, "http://komodor:8000"),
        ({"ENABLE_KOMODOR": "1", "KOMODOR_AGENT_PORT": "8001"}, "http://localhost:8001"),
        ({"ENABLE_KOMODOR": "on", "KOMODOR_AGENT_HOST": "::1", "KOMODOR_AGENT_PORT": "1"}, "http://[::1]:1"),
        ({"ENABLE_KOMODOR": "true", "KOMODOR_AGENT_URL": "https://h/komodor"}, "https://h/komodor"),
        ({"ENABLE_KOMODOR": "true", "KOMODOR_AGENT_URL": "http://u", "KOMODOR_AGENT_HOST": "h"}, "http://h:8000"),
        ({"ENABLE_KOMODOR": "false", "KOMODOR_AGENT_HOST": "h"}, None),
        ({"ENABLE_KOMODOR": "", "KOMODOR_AGENT_HOST": "h"}, None),
        ({"KOMODOR_AGENT_HOST": "h"}, None),
        ({"ENABLE_KOMODOR": "true"}, None),
        ({"ENABLE_KOMODOR": "sometimes"}, None),
        ({"ENABLE_KOMODOR": "true", "KOMODOR_AGENT_HOST": ""}, None),
        (
            {"ENABLE_KOMODOR": "true", "KOMODOR_AGENT_HOST": "h", "EXCLUDE_FROM_AGENT_REGISTRY": "x, komodor"},
            None,
        ),
        ({"enable_komodor": "true", "KOMODOR_AGENT_HOST": "h"}, None),
    ],
)
def test_an_agent_is_there_when_it_is_enabled_and_has_an_address(environ, agents):
    assert found(ECHO + ON, **environ) == ({} if agents is None else {"komodor": agents})


SHARED = {f"ENABLE_{name}": "true" for name in ("TRACING", "STREAMING", "ARTIFACT_STREAMING", "GRAPH_RAG")}
FULL = SHARED | {"ENABLE_RAG": "true", "RAG_AGENT_HOST": "rag", "ENABLE_AWS": "true", "AWS_AGENT_PORT": "1"}


def test_what_else_is_enabled_in_the_shared_namespace_is_no_agent():
    assert found(ECHO + ON, **FULL) == {"aws": "http://localhost:1", "rag": "http://rag:8000"}
    assert found(ECHO + ON, **FULL, GRAPH_RAG_AGENT_HOST="g")["graph_rag"] == "http://g:8000"


def test_nothing_of_the_environment_counts_unasked():
    assert found(ECHO, **FULL) == {}
    assert found(ECHO + "agents_from_env: false", **FULL) == {}


def test_the_environment_can_ask_for_itself():
    assert set(found(ECHO, ANABRANCH__AGENTS_FROM_ENV="true", **FULL)) == {"aws", "rag"}
    assert set(found(ECHO, ANABRANCH__AGENTS_FROM_ENV="[rag]", **FULL)) == {"rag"}


def test_a_list_names_those_that_count_in_any_spelling():
    text = ECHO + "agents_from_env: [graph-rag, AWS, komodor]"
    assert found(text, **FULL, GRAPH_RAG_AGENT_HOST="g") == {"aws": "http://localhost:1", "graph_rag": "http://g:8000"}


def test_an_agent_that_is_listed_and_enabled_needs_an_address():
    said = complaint(ECHO + "agents_from_env: [komodor]", ENABLE_KOMODOR="true")
    for part in ("the.yaml:2", "`agents_from_env`", "KOMODOR_AGENT_HOST", "KOMODOR_AGENT_URL", "ENABLE_KOMODOR"):
        assert part in said


def test_the_file_wins_field_by_field_and_gives_what_the_environment_does_not():
    text = "agents: {graph-rag: {a2a: 'http://file'}, aws: {description: Clouds., aliases: [cloud]}}\n" + ON
    config = parse(text, environ={**FULL, "GRAPH_RAG_AGENT_HOST": "g"})
    assert config.agents["graph-rag"].a2a == "http://file"
    assert (config.agents["aws"].a2a, config.agents["aws"].description) == ("http://localhost:1", "Clouds.")
    assert set(config.agents) == {"graph-rag", "aws", "rag"}


def test_an_agent_of_another_kind_keeps_its_kind():
    config = parse("agents: {rag: {python: 'm:f'}}\n" + ON, environ=FULL)
    assert (config.agents["rag"].python, config.agents["rag"].a2a) == ("m:f", None)


def test_the_overrides_of_the_environment_reach_its_agents():
    assert parse(ON, environ={**FULL, "ANABRANCH__AGENTS__RAG__TIMEOUT__IDLE": "3s"}).agents["rag"].timeout.idle == 3


def test_no_agents_section_is_needed():
    assert set(parse(ON, environ=FULL).agents) == {"aws", "rag"}
    assert "ENABLE_NAME=true" in complaint(ON)


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        ({"ENABLE_KOMODOR": "sometimes", "KOMODOR_AGENT_HOST": "h"}, ["ENABLE_KOMODOR='sometimes'", "`true`"]),
        ({"ENABLE_KOMODOR": "true", "KOMODOR_AGENT_URL": "ftp://h"}, ["KOMODOR_AGENT_URL: ", "'ftp://h'", "http(s)"]),
        ({"ENABLE_SUPERVISOR": "true", "SUPERVISOR_AGENT_HOST": "h"}, ["ENABLE_SUPERVISOR: ", "taken"]),
    ],
)
def test_a_complaint_names_the_variable_and_the_remedy(environ, parts):
    said = complaint(ECHO + ON, **environ)
    for part in parts:
        assert part in said


MODEL = "model: {name: m}\n"


def test_a_supervisor_that_names_no_agents_may_ask_all_of_them_also_those_of_the_environment():
    config = parse(MODEL + ECHO + ON + "supervisor: {instructions: Hi}", environ=FULL)
    assert config.delegates == ["aws", "rag"]
    config = parse(MODEL + ECHO + ON + "supervisor: {agents: [rag]}", environ=FULL)
    assert config.delegates == ["rag"]


def test_a_supervisor_without_anybody_to_ask_is_a_mistake():
    assert "there is no `a2a` agent that it could ask" in complaint(MODEL + ECHO + "supervisor: {instructions: Hi}")


AUTH = "agents: {a: {a2a: 'http://h', forward: [x-tenant], auth: %s}}\n"


@pytest.mark.parametrize(
    ("auth", "parts"),
    [
        ("{}", ["`agents.a.auth`", "`bearer_env`, `api_key_env` and `oauth2`"]),
        ("{bearer_env: A, api_key_env: B}", ["`agents.a.auth`", "one of"]),
        ("{bearer_env: A, name: X}", ["`agents.a.auth.name`", "`api_key_env`"]),
        ("{api_key_env: A, name: Host}", ["`agents.a.auth.name`", "'Host'"]),
        ("{api_key_env: A, name: X-Tenant}", ["`agents.a.forward`", "`x-tenant`"]),
        ("{oauth2: {client_id_env: A}}", ["`agents.a.auth.oauth2.client_secret_env`", "missing"]),
        ("{oauth2: {client_id_env: A, client_secret_env: B, token_url: 'http://h/t'}}", ["token_url`", "https://"]),
        ("{pass_through: true}", ["`agents.a.auth.pass_through`", "known here"]),
    ],
)
def test_credentials_for_an_agent_are_checked(auth, parts):
    said = complaint(AUTH % auth)
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    "auth",
    [
        "{bearer_env: A}",
        "{api_key_env: A}",
        "{api_key_env: A, name: X-Key}",
        "{oauth2: {client_id_env: A, client_secret_env: B}}",
        "{oauth2: {client_id_env: A, client_secret_env: B, token_url: 'https://h/t', scopes: [x]}}",
        "{oauth2: {client_id_env: A, client_secret_env: B, token_url: 'http://127.0.0.1:1/t'}}",
    ],
)
def test_good_credentials_are_taken(auth):
    assert parse(AUTH % auth).agents["a"].auth is not None


def test_a_key_of_ours_goes_with_the_authorization_of_the_caller():
    text = "agents: {a: {a2a: 'http://h', forward: [authorization], auth: {api_key_env: A}}}"
    assert parse(text).agents["a"].forward == ["authorization"]
    assert "`authorization`" in complaint(text.replace("api_key_env", "bearer_env"))
