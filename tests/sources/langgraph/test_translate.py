"""The translator by tables: parts in, what a reader knows out; each table also cut at every part and ended two ways."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import pytest

from anabranch import events as ev
from anabranch.errors import Cancelled, SourceError
from anabranch.sources.langgraph import LangGraphTranslator

from .parts import (
    LANE,
    SUB,
    A,
    Part,
    asks_whole,
    chunk,
    ends,
    fails,
    part,
    starts,
    works,
)
from .seen import Seen, translated
from .table import CASES, Case


def summary(seen: Seen) -> str:
    terminal = seen.terminal
    return terminal.code if isinstance(terminal, ev.RunFailed) else terminal.outcome if terminal else "none"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parts_become_events(case: Case) -> None:
    seen = translated(LangGraphTranslator(resumed=case.resumed), case.parts)
    assert seen.said() == case.said
    assert seen.thought() == case.thought
    assert [
        (id, c.name, c.arguments, c.result, c.is_error) for (agent, id), c in seen.calls.items() if not agent
    ] == case.calls
    assert {path: (agent.name, agent.parent, agent.call) for path, agent in seen.agents.items()} == case.lanes
    assert {path: seen.text(path) for path in seen.agents if seen.text(path)} == case.texts
    assert seen.repairs == case.repairs
    assert summary(seen) == case.terminal
    assert case.check(seen) in (None, True)


def expected_text(parts: list[Part]) -> dict[str, str]:
    """What each lane has said after ``parts``, read from the parts alone."""
    texts: defaultdict[str, str] = defaultdict(str)
    whole: set[str] = set()
    for item in parts:
        data, kind = item["data"], item["type"]
        if kind == "messages" and data[0].type in ("AIMessageChunk", "ai"):
            message, meta = data
            if message.type == "AIMessageChunk" or message.id not in whole:
                blocks = [message.content] if isinstance(message.content, str) else message.content
                said = [b if isinstance(b, str) else b.get("text") or b.get("refusal") or "" for b in blocks]
                texts[meta["lane"]] += "".join(said)
            whole.add(message.id)
        elif kind == "tools" and isinstance(delta := data.get("delta"), ev.TextDelta):
            texts[f"{data['tool_call_id']}/{delta.agent}"] += delta.delta
        elif kind == "updates" and "__metadata__" in data and "node" in data:
            texts[""] += data["node"]["messages"][0].content
    return {lane: text for lane, text in texts.items() if text and lane != "-"}


@pytest.mark.parametrize(
    "error", [None, SourceError("it broke"), Cancelled("stop")], ids=["ended", "broken", "cancelled"]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cut_anywhere_the_text_is_exact_and_one_terminal_event_is_last(case: Case, error: Exception | None) -> None:
    for end in range(len(case.parts) + 1):
        seen = translated(LangGraphTranslator(resumed=case.resumed), case.parts[:end], error)
        assert seen.terminal is seen.events[-1]
        assert {path: text for path in ("", *seen.agents) if (text := seen.text(path))} == expected_text(
            case.parts[:end]
        )
        assert all(call.closed for call in seen.calls.values())
        if error is not None:
            assert summary(seen) == getattr(error, "code", None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("openai.APIError", "model_error"),
        ("openai.APIConnectionError", "model_disconnected"),
        ("anthropic.APIStatusError", "model_error"),
        ("langchain_core.ModelTimeoutError", "model_disconnected"),
        ("httpx.ReadError", "model_disconnected"),
        ("json.JSONDecodeError", "model_error"),
        ("langgraph.GraphRecursionError", "recursion_limit"),
        ("mine.KeyError", "agent_failed"),
    ],
)
def test_errors_are_told_by_their_kind_and_never_by_their_text(error: str, code: str) -> None:
    module, name = error.split(".")
    kind = type(name, (Exception,), {"__module__": f"{module}.inner"})
    failed = translated(LangGraphTranslator(), [chunk("half")], kind("prompt and key sk-12345678"))
    assert summary(failed) == code
    assert isinstance(failed.terminal, ev.RunFailed) and "prompt" not in failed.terminal.message


def test_what_a_providers_error_body_says_is_passed_on_without_secrets() -> None:
    kind = type(
        "APIError",
        (Exception,),
        {"__module__": "openai", "body": {"message": "bad key sk-12345678abc"}, "status_code": 401},
    )
    failed = translated(LangGraphTranslator(), [], kind("x"))
    assert isinstance(failed.terminal, ev.RunFailed)
    assert failed.terminal.message == "The model failed: bad key ***" and not failed.terminal.retryable


def test_the_same_error_from_a_tool_is_the_tools() -> None:
    error = type("ReadError", (Exception,), {"__module__": "httpx"})("x")
    parts = [*asks_whole(A), works("t0", given=[A]), starts("A"), fails("A", "x"), ends("t0", error=error)]
    failed = translated(LangGraphTranslator(), parts, error)
    assert summary(failed) == "tool_failed"
    assert failed.call("A").result == "Error: The tool add failed with ReadError."


def test_a_lane_whose_model_failed_says_so_and_the_call_around_it_too() -> None:
    error = type("APIError", (Exception,), {"__module__": "openai", "body": {"message": "overloaded"}})("x")
    inside = [works("x", *LANE, name="model", given={}, agent="komodor"), chunk("half", *LANE, id="s1", lane="A")]
    parts = [*asks_whole(SUB), works("t0", given=[SUB]), starts("A", name="task"), *inside]
    parts += [ends("x", *LANE, name="model", error=error), fails("A", "x"), ends("t0", error=error)]
    failed = translated(LangGraphTranslator(), parts, error)
    assert failed.agents["A"].end == "model_error" == summary(failed)
    assert failed.call("A").is_error and failed.text("A") == "half" and failed.repairs == {}


def test_the_translator_needs_no_langgraph_types_only_their_shape() -> None:
    message = SimpleNamespace(
        type="ai",
        id="m",
        content="Hi",
        additional_kwargs={},
        tool_calls=[],
        invalid_tool_calls=[],
        usage_metadata=None,
        response_metadata={},
    )
    seen = translated(LangGraphTranslator(), [part("messages", (message, {}))])
    assert seen.said() == [("Hi", "answer")]
