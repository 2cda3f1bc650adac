"""What a user may see of an error: who is guilty, and no secret."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import errors
from anabranch.errors import (
    AnabranchError,
    Cancelled,
    ClientError,
    ConfigError,
    Conflict,
    MissingExtra,
    NotFound,
    ServerStopping,
    SourceError,
    describe,
    scrub,
)

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AnabranchError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_names_a_side_and_a_code(kind: type[AnabranchError]) -> None:
    assert kind.side in ("source", "client", "server")
    assert kind.code and kind.code == kind.code.lower()
    assert isinstance(kind.retryable, bool)


def test_an_error_may_know_better_than_its_kind() -> None:
    error = SourceError("m", code="model", retryable=True)
    assert (str(error), error.code, error.retryable, error.side) == ("m", "model", True, "source")
    assert (SourceError.code, SourceError.retryable) == ("agent_failed", False)


def test_errors_of_the_client_have_an_http_status() -> None:
    assert [
        error.status for error in (ClientError("m"), ClientError("m", status=413), NotFound("m"), Conflict("m"))
    ] == [
        400,
        413,
        404,
        409,
    ]


def test_a_missing_extra_says_what_to_type() -> None:
    assert "pip install '.[a2a]'" in str(MissingExtra("a2a-sdk", "a2a"))


def test_a_flaw_of_the_configuration_names_its_field_where_it_is_known() -> None:
    flaw = ConfigError("it is not set", path=("agents", "a"))
    assert (str(flaw), flaw.problem, flaw.path) == ("agents.a: it is not set", "it is not set", ("agents", "a"))
    assert str(ConfigError("it is not set")) == "it is not set"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("authorization=Basic dXNlcjpwYXNz", "authorization=Basic ***"),
        ("sent Bearer abc, got 401", "sent Bearer ***, got 401"),
        ('{"api_key": "two words", "n": 1}', '{"api_key": ***, "n": 1}'),
        ('{\\"password\\": \\"p\\"}', '{\\"password\\": ***}'),
        ("x-api-key: k", "x-api-key: ***"),
        ("client_secret='it is' here", "client_secret=*** here"),
        ("AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=***"),
        ("key sk-proj-0123456789abc is wrong", "key *** is wrong"),
        ("ghp_0123456789abc", "***"),
        ("AKIA0123456789ABCDEF", "***"),
        ("eyJhbGciOiJI.eyJzdWIi.sig-na_ture", "***"),
        ("postgres://user:p@ss@db:5432/x", "postgres://***@db:5432/x"),
        ("GET https://api.test/v1?key=abc&n=1", "GET https://api.test/v1?key=***&n=1"),
        ("https://blob.test/x?sig=a%2Fb&se=1", "https://blob.test/x?sig=***&se=1"),
    ],
)
def test_credentials_are_replaced(text: str, clean: str) -> None:
    assert scrub(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "The agent komodor failed with 503.",
        "The maximum is 8192 tokens: you asked for 9000.",
        "field `name`: missing key: cluster",
        "see https://docs.test/errors#basic-usage",
    ],
)
def test_an_innocent_message_stays_as_it_is(text: str) -> None:
    assert scrub(text) == text


def test_a_message_becomes_one_line_without_control_characters() -> None:
    assert scrub(" a\n\tb\x1b[31m\x00c\u2028d ") == "a b [31m c d"


def test_a_secret_is_not_saved_by_a_line_break() -> None:
    assert scrub("Authorization:\n  Bearer\n  abc") == "Authorization: Bearer ***"


@settings(deadline=1000, max_examples=200, database=None)
@given(st.text(), st.sampled_from(["token=", "Bearer ", "password: ", "://u:"]), st.integers(0, 700))
def test_a_message_is_bounded_and_a_secret_at_the_bound_is_not_half_shown(before: str, label: str, at: int) -> None:
    secret = "hunter2" * 3
    clean = scrub("x" * at + " " + before + " " + label + secret + ("@h" if label == "://u:" else "") + " y" * 5000)
    assert len(clean) <= 500
    assert "hunter2" not in clean


def test_our_own_error_is_described_by_itself() -> None:
    error = ServerStopping("stopping")
    assert describe(error) is error


def test_a_foreign_error_is_described_by_its_type_only() -> None:
    error = describe(RuntimeError("prompt, host and key"))
    assert (str(error), error.code, error.side) == ("The agent failed with RuntimeError.", "agent_failed", "source")


def test_of_a_group_the_first_error_of_ours_counts_or_else_the_first() -> None:
    ours = Cancelled("stop")
    assert (
        describe(BaseExceptionGroup("g", [ValueError(), ExceptionGroup("h", [KeyError(), ours]), NotFound("n")]))
        is ours
    )
    assert str(describe(ExceptionGroup("g", [ExceptionGroup("h", [KeyError()]), ValueError()]))) == (
        "The agent failed with KeyError."
    )
