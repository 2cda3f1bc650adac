"""What is hidden in a recording, and that nothing else changes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.tapes.redact import Redactor, secrets_in

KEY = 'Pa"ss\\wörd\n🚀!'
TOKENS = (
    "sk-live-0123456789abcdef",
    "ghp_0123456789abcdefghij",
    "github_pat_0123456789",
    "AKIA0123456789ABCDEF",
    "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "xoxb-0123456789",
    "nvapi-abcdefgh",
    "SK-UPPER-0123456789",
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def read(line: bytes) -> Any:
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    return json.loads(line)


def hidden(value: Any, *secrets: str) -> Any:
    return read(Redactor(secrets).line(value))


def stars(text: str) -> str:
    return "*" * len(text)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "key: {}", 'say "{}".', "{},", "a\n{}\tb", "\\n{}", '{{"k":"{}"}}', "\\u000a{}"]
)
def test_what_looks_like_a_token_is_hidden_wherever_a_word_may_begin(token: str, around: str) -> None:
    text = around.format(token)
    assert hidden({"item": [text]}) == {"item": [around.format(stars(token))]}


def test_a_token_inside_json_that_is_text_is_hidden_and_the_json_stays_json() -> None:
    item = json.dumps({"text": f"one\n{TOKENS[0]}\ntwo", "url": "https://ann:pw@host/x", "mail": "b@c"})
    said = json.loads(hidden(item))
    assert said == {"text": f"one\n{stars(TOKENS[0])}\ntwo", "url": "https://******@host/x", "mail": "b@c"}


@pytest.mark.parametrize("dump", [json.dumps, lambda value: json.dumps(value, ensure_ascii=False), str])
def test_a_known_secret_is_hidden_however_it_is_escaped(dump: Any) -> None:
    text = dump({"k": f"before {KEY} after"}) if dump is not str else f"before {KEY} after"
    line = Redactor([KEY]).line({"item": text, KEY: 1})
    assert "ss" not in read(line)["item"].replace("pass", "")
    assert "before " in read(line)["item"] and " after" in read(line)["item"]
    assert stars(KEY) in read(line)


def test_the_longer_of_two_secrets_is_hidden_whole() -> None:
    assert hidden("x abcdefgh-ijk y", "abcdefgh", "abcdefgh-ijk") == f"x {stars('abcdefgh-ijk')} y"


def test_a_secret_beside_half_a_character_is_hidden() -> None:
    assert hidden("\ud83d abcdefgh", "abcdefgh") == "\ud83d ********"


@pytest.mark.parametrize(
    "text",
    [
        "task-oriented, risk-free, ask_komodor, desk_1234567890",
        "the bearer of bad news; Bearer short",
        "ann@example.com wrote https://example.com/@ann",
        "lc_run--01a22db2-2835-750d-ba80-b8d83fb5cd42 call_0123456789abcdef",
        "keyJ, heyJude.is.a.song",
        "short",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert hidden({"item": text}, "", "sho", "abcdefgh") == {"item": text}


def test_a_bearer_token_of_nobodys_form_is_hidden() -> None:
    token = "AbCdEf0123456789AbCdEf"
    assert hidden(f"Authorization: Bearer {token}") == f"Authorization: Bearer {stars(token)}"


@given(values)
@settings(deadline=None, database=None)
def test_a_value_without_secrets_is_written_as_it_is(value: Any) -> None:
    assert hidden(value, "a secret that is nowhere") == value


@given(values, st.text(min_size=6, max_size=12))
@settings(deadline=None, database=None)
def test_no_text_of_a_line_holds_a_known_secret(value: Any, secret: str) -> None:
    found = hidden({"a": value, "b": f"..{secret}..", "c": [secret]}, secret)
    assert found["b"] == f"..{stars(secret)}.." or secret in f".{secret}"[:-1] + "."
    assert secret not in json.dumps(found, ensure_ascii=False) or set(secret) == {"*"}


def test_variables_that_are_named_like_secrets_are_known() -> None:
    environ = {"OPENAI_API_KEY": "a", "KOMODOR_TOKEN": "b", "TOKEN": "c", "DB_PASSWORD": "d", "AWS_SECRET": "e"}
    harmless = {"PWD": "/x", "KEYBOARD": "us", "MAX_TOKENS_SEEN": "5", "HOME": "/x", "TOKENIZERS_PARALLELISM": "0"}
    assert secrets_in(environ | harmless) == [*"abcde"]


def every(text: str) -> str:
    return "".join(f"\\u{unit:04X}" for unit in memoryview(text.encode("utf-16-le")).cast("H"))


ESCAPES = {
    "php": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "go": lambda text: json.dumps(text)[1:-1].replace("<", "\\u003c").replace("&", "\\u0026"),
    "dotnet": lambda text: json.dumps(text)[1:-1].replace("+", "\\u002B").replace('\\"', "\\u0022"),
    "every": every,
    "first": lambda text: every(text[0]) + json.dumps(text[1:])[1:-1],
    "middle": lambda text: f"{json.dumps(text[:6])[1:-1]}{every(text[6])}{json.dumps(text[7:])[1:-1]}",
}


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("secret", ["a+b/c<&>\"\\'ü🚀", *TOKENS[:2]])
def test_a_secret_is_hidden_however_the_json_in_an_item_escapes_it(secret: str, escape: Any, levels: int) -> None:
    item = f'{{"before": "\\\\ \\n", "said": "{escape(secret)}", "after": [1, "\\ud83d\\ude80\\n"]}}'
    said = hidden(json.dumps({"item": item}) if levels else {"item": item}, "a+b/c<&>\"\\'ü🚀")
    for _ in range(levels):
        said = json.loads(said) if isinstance(said, str) else said
    said = said["item"]
    read_again = json.loads(said)
    assert set(read_again["said"]) == {"*"}
    assert (read_again["before"], read_again["after"]) == (json.loads(item)["before"], [1, "🚀\n"])


def test_text_with_escapes_and_without_secrets_stays_as_it_is() -> None:
    text = '{"a": "it\\u0027s \\/ \\\\u0041"}'
    assert hidden({"item": text}, "open-sesame") == {"item": text}


@pytest.mark.parametrize(
    "text", ["\\" * 300_000 + "x", '\\"' * 100_000, "\\u00" * 50_000], ids=["run", "pairs", "codes"]
)
def test_backslashes_without_end_cost_their_number(text: str) -> None:
    began = time.process_time()
    assert hidden(text + " @", '""""x', 'a\\\\\\b\\"c') == text + " @"
    assert time.process_time() - began < 10
