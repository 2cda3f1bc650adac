"""The configuration file: what is wrong is told with the file, the line, the field and the remedy."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from anabranch.config import Config, load, parse
from anabranch.errors import ConfigError
from anabranch.supervisor.delegate import tool_name

WHOLE = """
model: {name: gpt, base_url: "http://localhost:1/v1", api_key_env: KEY, temperature: 0}
agents:
  komodor:
    a2a: "http://localhost:8001"
    description: Clusters.
    timeout: {connect: 500ms, first_byte: "2m", idle: 30}
    auth: {bearer_env: TOKEN}
    on_disconnect: cancel
  echo: {python: "pkg.mod:agent"}
supervisor:
  agents: [komodor]
  instructions: "Be brief."
default: supervisor
storage: memory://
server: {host: 0.0.0.0, port: 0, keep_alive: 1.5s, stop_grace: 0, body_limit: 100, kept_runs: 0, tune_gc: false}
"""


def complaint(text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(textwrap.dedent(text), "the.yaml", environ)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- good files ----------------------------------------------------------------------------------------------------


def test_every_field_is_read() -> None:
    config = parse(WHOLE)
    komodor, echo = config.agents["komodor"], config.agents["echo"]
    assert config.model and (config.model.name, config.model.api_key_env, config.model.temperature) == ("gpt", "KEY", 0)
    assert (komodor.timeout.connect, komodor.timeout.first_byte, komodor.timeout.idle) == (0.5, 120.0, 30.0)
    assert komodor.auth and komodor.auth.bearer_env == "TOKEN"
    assert (komodor.on_disconnect, echo.on_disconnect, echo.python) == ("cancel", "continue", "pkg.mod:agent")
    assert config.supervisor and config.supervisor.agents == ["komodor"]
    assert (config.server.keep_alive, config.server.stop_grace, config.server.kept_runs) == (1.5, 0.0, 0)


def test_the_least_file_listens_on_loopback_only() -> None:
    config = parse("agents: {a: {python: 'm:f'}}")
    assert (config.server.host, config.storage, config.model) == ("127.0.0.1", "sqlite:///anabranch.db", None)


def test_a_section_with_nothing_in_it_is_as_if_it_were_absent() -> None:
    assert parse("agents: {a: {python: 'm:f'}}\nserver:\nmodel:\n") == parse("agents: {a: {python: 'm:f'}}")


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30", 30.0), ("0.5", 0.5), ("250ms", 0.25), ("'30 s'", 30.0), ("1.5m", 90.0), ("1h", 3600.0)],
)
def test_a_time_has_a_unit_or_is_in_seconds(written: str, seconds: float) -> None:
    assert parse(f"agents: {{a: {{python: 'm:f'}}}}\nserver: {{keep_alive: {written}}}").server.keep_alive == seconds


# --- bad files -----------------------------------------------------------------------------------------------------

AGENT = "agents: {a: {python: 'm:f'}}\n"

COMPLAINTS = [
    ("agents:\n  a: {python: 'm:f'}\nserver:\n  prot: 80\n", ["the.yaml:4", "`server.prot`", "did you mean `port`?"]),
    (AGENT + "colour: red\n", ["the.yaml:2", "`colour`", "known here: agents, agents_from_env, auth, default, mcp"]),
    ("agents:\n  a:\n    pyton: 'm:f'\n", ["the.yaml:3", "`agents.a.pyton`", "did you mean `python`?"]),
    (AGENT + "model: {base_url: 'http://x'}\n", ["the.yaml:2", "`model.name`", "missing"]),
    ("server: {port: 80}\n", ["the.yaml", "`agents`", "missing"]),
    ("agents:\n", ["the.yaml:1", "`agents`", "missing"]),
    ("agents: {}\n", ["the.yaml:1", "`agents`", "name at least one"]),
    ("agents: [a, b]\n", ["the.yaml:1", "`agents`", "lines of `name: value`"]),
    ("agents: {a: }\n", ["the.yaml:1", "`agents.a`", "lines of `name: value`"]),
    (AGENT + "model: gpt\n", ["the.yaml:2", "`model`", "lines of `name: value`"]),
    (AGENT + "\nserver:\n  port: http\n", ["the.yaml:4", "`server.port`", "Expected `int`, got `str`"]),
    (AGENT + "server: {port: 70000}\n", ["the.yaml:2", "`server.port`", "<= 65535"]),
    (AGENT + "server: {port: -1}\n", ["the.yaml:2", "`server.port`", ">= 0"]),
    (AGENT + "server: {body_limit: 0}\n", ["the.yaml:2", "`server.body_limit`", ">= 1"]),
    (AGENT + "server: {kept_runs: -1}\n", ["the.yaml:2", "`server.kept_runs`", ">= 0"]),
    (AGENT + "server: {keep_alive: 0}\n", ["the.yaml:2", "`server.keep_alive`", "> 0"]),
    (AGENT + "server: {stop_grace: -1}\n", ["the.yaml:2", "`server.stop_grace`", ">= 0"]),
    (AGENT + "server: {stop_grace: .inf}\n", ["the.yaml:2", "`server.stop_grace`", "<= 86400"]),
    (AGENT + "server: {stop_grace: .nan}\n", ["the.yaml:2", "`server.stop_grace`"]),
    (AGENT + "server: {keep_alive: soon}\n", ["the.yaml:2", "`server.keep_alive`", "'soon' is not a time", "`30s`"]),
    (AGENT + "server: {keep_alive: 10 days}\n", ["the.yaml:2", "`server.keep_alive`", "not a time"]),
    (AGENT + "server: {tune_gc: maybe}\n", ["the.yaml:2", "`server.tune_gc`", "Expected `bool`"]),
    (AGENT + "server: {public_url: agents.test}\n", ["the.yaml:2", "`server.public_url`", "'agents.test'", "https://agents.example.com"]),
    (AGENT + "server: {public_url: 'http://a/?y=1'}\n", ["the.yaml:2", "`server.public_url`", "without a query"]),
    (AGENT + "storage: redis://\n", ["the.yaml:2", "`storage`", "'redis://'", "give `memory://` or `sqlite:///anabranch.db`"]),
    (
        "agents:\n  a:\n    python: 'm:f'\n    on_disconnect: stop\n",
        ["the.yaml:4", "`agents.a.on_disconnect`", "give `continue` or `cancel`"],
    ),
    (AGENT + "default: b\n", ["the.yaml:2", "`default`", "no agent 'b'", "known: a"]),
    ("agents: {a: {}}\n", ["the.yaml:1", "`agents.a`", "one of `a2a`", "`python`"]),
    ("agents: {a: {python: 'm:f', a2a: 'http://x'}}\n", ["the.yaml:1", "`agents.a`", "one of `a2a`"]),
    ("agents:\n  a:\n    a2a: host:80\n", ["the.yaml:3", "`agents.a.a2a`", "'host:80' is not an http(s) URL"]),
    ("agents: {a: {a2a: 'http://'}}\n", ["the.yaml:1", "`agents.a.a2a`", "not an http(s) URL"]),
    ("agents: {a: {python: 'm.f'}}\n", ["the.yaml:1", "`agents.a.python`", "'m.f' is not `package.module:object`"]),
    ("agents: {a: {python: 'm:f', timeout: {idle: 1}}}\n", ["the.yaml:1", "`agents.a`", "for `a2a` agents"]),
    ("agents: {'a b': {python: 'm:f'}}\n", ["the.yaml:1", "`agents.a b`", "letters, digits", "rename"]),
    ("agents: {supervisor: {python: 'm:f'}}\n", ["the.yaml:1", "`agents.supervisor`", "taken", "rename"]),
    ("agents: {yes: {python: 'm:f'}}\n", ["the.yaml:1", "`agents.True`", "quotes"]),
    ("agents: {1: {python: 'm:f'}}\n", ["the.yaml:1", "`agents.1`", "quotes"]),
    (AGENT + "supervisor: {agents: [a]}\n", ["the.yaml:2", "`supervisor`", "needs a `model` section"]),
    (
        AGENT + "model: {name: m}\nsupervisor:\n  agents: [a]\n",
        ["the.yaml:4", "`supervisor.agents`", "'a' is not an `a2a` agent"],
    ),
    (
        "agents: {a: {a2a: 'http://x'}}\nmodel: {name: m}\nsupervisor: {agents: [a, a]}\n",
        ["the.yaml:3", "`supervisor.agents`", "named twice"],
    ),
    (
        "agents: {a.b: {a2a: 'http://x'}, a_b: {a2a: 'http://x'}}\n"
        "model: {name: m}\nsupervisor:\n  agents: [a.b, a_b]\n",
        ["the.yaml:4", "`supervisor.agents`", "'a.b' and 'a_b' would be one tool", "rename"],
    ),
    (
        "agents: {a: {a2a: 'http://x'}}\nmodel: {name: m}\nsupervisor: {agents: [1]}\n",
        ["the.yaml:3", "`supervisor.agents`", "Expected `str`, got `int`"],
    ),
    (
        "agents:\n  a: {python: 'm:f'}\n  b: {python: 'm:f'}\n  a: {python: 'm:g'}\n",
        ["the.yaml:4", "`a` is given twice", "line 2"],
    ),
    (AGENT + "agents: {b: {python: 'm:f'}}\n", ["the.yaml:2", "`agents` is given twice"]),
    ("agents: {a: {python: 'm:f'}\nx", ["the.yaml:2", "not YAML"]),
    ("agents:\n\ta: 1\n", ["the.yaml:2", "not YAML"]),
    ("agents: !!python/object:os.system {}\n", ["the.yaml:1", "not YAML"]),
    ("agents: 2024-99-99\n", ["the.yaml", "not YAML"]),
    ("agents: \0\n", ["the.yaml", "not YAML"]),
    ("agents: {a: 1}\n---\nagents: {}\n", ["the.yaml:2", "not YAML"]),
    ("just text\n", ["the.yaml", "a mapping with `agents`"]),
    ("", ["the.yaml", "a mapping with `agents`"]),
    ("agents: &a {x: *a}\n", ["the.yaml:1", "`agents.x.x`", "unknown field"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), COMPLAINTS, ids=range(len(COMPLAINTS)))
def test_a_complaint_names_the_file_the_line_the_field_and_the_remedy(text: str, parts: list[str]) -> None:
    said = complaint(text)
    assert said.startswith(f"{parts[0]}: ")
    for part in parts[1:]:
        assert part in said


LONG = "a" * 59


@pytest.mark.parametrize(
    ("one", "two"),
    [("a.b", "a_b"), ("a.b", "a-b"), ("a.b", "a.B"), (LONG + "bc", LONG + "bd"), (LONG + "b", LONG + "c")],
)
def test_two_agents_whose_tools_have_one_name_are_refused_and_no_others(one: str, two: str) -> None:
    agents = f"agents: {{{one}: {{a2a: 'http://x'}}, {two}: {{a2a: 'http://y'}}}}\n"
    supervisor = f"model: {{name: m}}\nsupervisor: {{agents: [{one}, {two}]}}\n"
    if tool_name(one) == tool_name(two):
        assert f"{one!r} and {two!r} would be one tool" in complaint(agents + supervisor)
    else:
        assert set(parse(agents + supervisor).agents) == {one, two}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing, folder, binary = tmp_path / "missing.yaml", tmp_path, tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, reason in ((missing, "No such file"), (folder, "Is a directory"), (binary, "not UTF-8")):
        with pytest.raises(ConfigError, match=reason) as raised:
            load(path, {})
        assert str(path) in str(raised.value)


def test_a_file_is_read_with_the_environment_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(AGENT, encoding="utf-8")
    monkeypatch.setenv("ANABRANCH__SERVER__PORT", "1234")
    assert load(path).server.port == 1234
    assert load(path, {}).server.port == 8000


# --- the environment -----------------------------------------------------------------------------------------------


def overridden(text: str, **variables: str) -> Config:
    return parse(text, "the.yaml", {f"ANABRANCH__{name}": value for name, value in variables.items()})


def test_any_value_may_come_from_the_environment() -> None:
    config = overridden(
        WHOLE,
        MODEL__BASE_URL="http://other/v1",
        MODEL__TEMPERATURE="0.5",
        AGENTS__KOMODOR__TIMEOUT__IDLE="5m",
        AGENTS__KOMODOR__ON_DISCONNECT="continue",
        AGENTS__NEW="{python: 'm:g'}",
        SUPERVISOR__AGENTS="[komodor]",
        SERVER__TUNE_GC="true",
        SERVER__PORT="81",
    )
    assert config.model and (config.model.base_url, config.model.temperature) == ("http://other/v1", 0.5)
    assert config.agents["komodor"].timeout.idle == 300.0
    assert config.agents["komodor"].on_disconnect == "continue"
    assert config.agents["new"].python == "m:g"
    assert (config.server.tune_gc, config.server.port) == (True, 81)


def test_a_section_that_the_file_does_not_have_may_come_from_the_environment() -> None:
    config = overridden(AGENT + "server:\n", MODEL__NAME="gpt", SERVER__PORT="81")
    assert config.model and config.model.name == "gpt"
    assert config.server.port == 81


@pytest.mark.parametrize("text", ["1234", "true", "Note: be brief", "[x", "@ and *", "{", "null", "a: b: c", "8e1"])
def test_a_text_is_taken_as_it_is(text: str) -> None:
    config = overridden(AGENT + "model: {name: m}", MODEL__NAME=text, AGENTS__A__DESCRIPTION=text)
    assert config.model and config.model.name == config.agents["a"].description == text


def test_an_underscore_stands_for_what_a_variable_cannot_have() -> None:
    text = "agents: {my-agent.v2: {python: 'm:f'}, Other: {python: 'm:f'}}"
    config = overridden(text, AGENTS__MY_AGENT_V2__DESCRIPTION="mine", AGENTS__OTHER__DESCRIPTION="other")
    assert [agent.description for agent in config.agents.values()] == ["mine", "other"]


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("SERVER__PORT", "http", ["`server.port`", "Expected `int`, got `str`"]),
        ("SERVER__PORT", "[1", ["`server.port`", "not YAML"]),
        ("SERVER__KEEP_ALIVE", "soon", ["`server.keep_alive`", "not a time"]),
        ("SERVER__PROT", "1", ["`server.prot`", "did you mean `port`?"]),
        ("STORAGE__X", "1", ["`storage` is not a section"]),
        ("SERVER", "1", ["`server`", "lines of `name: value`"]),
        ("AGENTS__A__ON_DISCONNECT", "stop", ["`agents.a.on_disconnect`", "give `continue` or `cancel`"]),
        ("DEFAULT", "b", ["`default`", "known: a"]),
        ("", "1", ["``", "unknown field"]),
    ],
)
def test_a_complaint_about_the_environment_names_the_variable(name: str, value: str, parts: list[str]) -> None:
    for text in (AGENT + "storage: memory://\nserver: {port: 1}\n", AGENT + "storage: memory://\n"):
        said = complaint(text, {f"ANABRANCH__{name}": value})
        assert said.startswith(f"ANABRANCH__{name}: ")
        for part in parts:
            assert part in said


def test_other_variables_are_left_alone() -> None:
    others: dict[str, Any] = {"ANABRANCH": "x", "ANABRANCH_SERVER__PORT": "x", "PORT": "x"}
    assert parse(AGENT, environ=others) == parse(AGENT)
