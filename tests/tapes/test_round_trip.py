"""An item that was written and read again is, to a translator, the same item: every scenario, cut and ended anyhow."""

from __future__ import annotations

import datetime
import decimal
import enum
from collections.abc import Iterator
from typing import Any

import pytest
from cases import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.a2a._cases import CASES as A2A_CASES
from sources.langgraph import table
from sources.langgraph.parts import A, asks_whole, chunk, ends, fails, last, part, result, starts, updates, works
from sources.openai._cases import CASES as OPENAI_CASES

from anabranch import events as ev
from anabranch.errors import AnabranchError, Cancelled, ConfigError, SourceError, describe
from anabranch.sources._tape import Loader, dump_error
from anabranch.sources.a2a import A2ATranslator
from anabranch.sources.langgraph import LangGraphTranslator
from anabranch.sources.langgraph._failures import explain
from anabranch.sources.langgraph.guard import ModelTruncated
from anabranch.sources.openai import OpenAITranslator
from anabranch.sources.python import PythonTranslator
from anabranch.transports.sse import Parser

from .taping import lawful, loaded

ENDINGS = (None, SourceError("It failed.", code="x", retryable=True), Cancelled("Enough."), ValueError("no"))
HALF = "\ud83d"


def prefixes(items: list[Any]) -> Iterator[list[Any]]:
    yield items
    for cut in range(len(items)):
        yield items[:cut]


def items_of(stream: bytes) -> list[bytes]:
    return [event.data for event in Parser().feed(stream)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_python_agents_items_give_the_same_events(case: Any) -> None:
    for items in prefixes([*case.items]):
        for error in ENDINGS:
            again = lawful(PythonTranslator(), *loaded("python", items, error))
            assert again == lawful(PythonTranslator(), items, error)


@pytest.mark.parametrize("case", A2A_CASES, ids=lambda case: case.name)
def test_a_remote_agents_items_give_the_same_events(case: Any) -> None:
    for items in prefixes(case.items):
        again, end = loaded("a2a", items)
        assert again == items and end is None
        assert lawful(A2ATranslator("x"), again) == lawful(A2ATranslator("x"), items)


@pytest.mark.parametrize("case", OPENAI_CASES, ids=lambda case: case.name)
def test_an_endpoints_items_give_the_same_events(case: Any) -> None:
    items = items_of(case.stream)
    for error in ENDINGS:
        again = loaded("openai", items, error)
        assert lawful(OpenAITranslator("m"), *again) == lawful(OpenAITranslator("m"), items, error)


@pytest.mark.parametrize("case", table.CASES, ids=lambda case: case.name)
def test_a_graphs_parts_give_the_same_events(case: Any) -> None:
    for error in ENDINGS:
        again = loaded("langgraph", case.parts, error)
        fresh, second = (LangGraphTranslator(resumed=case.resumed) for _ in range(2))
        assert lawful(second, *again) == lawful(fresh, case.parts, error)


@given(st.binary())
@settings(deadline=None, database=None)
def test_any_bytes_stay_what_they_are(data: bytes) -> None:
    for kind in ("a2a", "openai"):
        assert loaded(kind, [data])[0] == [data]


# --- values that are no JSON -----------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    pass


class Number(int):
    pass


class Model:
    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"dumped": mode}


class Secretive:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def cycle() -> list[Any]:
    inner: list[Any] = []
    inner.append({"again": inner})
    return inner


ODD = {
    "half a character": HALF,
    "a date": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "a decimal": decimal.Decimal("1.5"),
    "a set": {1},
    "bytes": b"\xff",
    "an enumeration": Colour.RED,
    "a kind of text": Word("x"),
    "a kind of number": Number(3),
    "a number of 5000 digits": 10**5000,
    "a long number": 2**70,
    "not a number": float("nan"),
    "infinity": float("-inf"),
    "a model": Model(),
    "an object": Secretive(),
    "an event inside": {"e": ev.TextDelta(message_id="m", delta="x")},
    "keys that are not text": {1: 2, None: 3, False: 4, (1, 2): 5},
    "keys like our tags": {"$object": "os.system", "$tuple": [1]},
    "one key like our tags": [{"$dict": {"$event": 1}}],
    "a schema": {"$ref": "#/x", "$defs": {}},
    "a tuple": (1, [2, (3,)]),
    "what holds itself": cycle(),
    "150 levels": [[[]]],
}
for _ in range(150):
    ODD["150 levels"] = [ODD["150 levels"]]

every_odd_value = pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())


@every_odd_value
def test_an_odd_value_in_an_event_or_in_place_of_one_is_told_as_before(value: Any) -> None:
    items = [
        ev.Custom(name="x", value=value),
        ev.Custom(name="x", value={"deep": [value]}),
        ev.ToolCallStarted(call_id="c", name="n"),
        ev.ToolOutputDelta(call_id="c", content=value),
        ev.ActivitySnapshot(activity_id="a", kind="k", content={"v": value}),
        ev.TextDelta(message_id="m", delta=value),
        "text",
        value,
    ]
    for each in ([item] for item in items), [items]:
        for some in each:
            again = lawful(PythonTranslator(), *loaded("python", some))
            assert again == lawful(PythonTranslator(), some)


@every_odd_value
def test_an_odd_value_in_a_graph_is_told_as_before(value: Any) -> None:
    from langgraph.types import Command, Interrupt, Overwrite

    called = {"id": "A", "name": "add", "args": {"a": value}, "type": "tool_call"}
    runs = [*asks_whole(A), works("t0", given=[called]), starts("A", a=value)]
    emits = part("tools", {"event": "tool-output-delta", "tool_call_id": "A", "delta": value})
    scenarios: list[list[Any]] = [
        [part("custom", value)],
        [*runs, emits],
        [*runs, part("tools", {"event": "tool-finished", "tool_call_id": "A", "output": value})],
        [*runs, part("tools", {"event": "tool-finished", "tool_call_id": "A", "output": Command(update=value)})],
        [*runs, ends("t0", error=value if isinstance(value, BaseException) else None, interrupts=[])],
        [*runs, ends("t0", interrupts=[{"id": "i", "value": value, "response_schema": value}])],
        [part("updates", {"__interrupt__": (Interrupt(value=value, id="i"),)})],
        [part("updates", {"node": value}), part("updates", {"node": [value, {"messages": [value]}]})],
        [updates(todos=value, messages=value), updates(todos=[{"content": value}], messages=[("ai", "x"), value])],
        [*runs, updates(messages=Overwrite([value, result("A", "rewritten")]))],
        [works("t0", given=value), ends("t0")],
        [chunk("x", response_metadata={"finish_reason": value, "model_name": value}), *last()],
        [starts("B", x=value), fails("B", "no")],
        [chunk([value if isinstance(value, str | dict) else "x", {"type": "text", "text": "y"}]), *last()],
    ]
    for parts in scenarios:
        assert lawful(LangGraphTranslator(), *loaded("langgraph", parts)) == lawful(LangGraphTranslator(), parts)


def test_an_agent_that_yields_what_is_no_event_fails_as_before() -> None:
    [failed] = lawful(PythonTranslator(), *loaded("python", [Secretive()]))[1:]
    assert failed.message == "The agent yielded Secretive; it may yield str or an event of anabranch.events."


# --- errors ----------------------------------------------------------------------------------------------------------


def again(error: BaseException) -> BaseException:
    return loaded("langgraph", [], error)[1]


class Own(SourceError):
    code = "own"


@pytest.mark.parametrize(
    "error",
    [
        AnabranchError("a"),
        SourceError("a", code="b", retryable=True),
        ModelTruncated("half"),
        Own("x"),
        Cancelled("Enough."),
        ConfigError("c"),
        ValueError("No generation chunks were returned"),
        KeyError("x"),
        SystemExit(1),
        BaseExceptionGroup("g", [ValueError("a"), SourceError("b", code="c")]),
        type("APIError", (Exception,), {"__module__": "openai", "body": {"error": {"message": "busy"}}})("x"),
        type("APIError", (Exception,), {"__module__": "openai", "body": None, "status_code": 429})("x"),
        type("GraphRecursionError", (RecursionError,), {"__module__": "langgraph.errors"})("x"),
        type("ReadError", (Exception,), {"__module__": "httpx"})("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_explained_to_the_user_as_before(error: BaseException) -> None:
    for said in (describe, explain, lambda each: explain(each, "add")):
        before, after = said(error), said(again(error))
        assert (str(after), after.code, after.retryable, after.side) == (
            str(before),
            before.code,
            before.retryable,
            before.side,
        )
    assert isinstance(again(error), Cancelled) == isinstance(error, Cancelled)


def test_an_error_that_ended_a_task_and_the_run_is_one_error() -> None:
    error = type("ReadError", (Exception,), {"__module__": "httpx"})("x")
    parts = [*asks_whole(A), works("t0", given=[A]), starts("A"), fails("A", "x"), ends("t0", error=error)]
    [*_, failed] = lawful(LangGraphTranslator(), *loaded("langgraph", parts, error))
    assert (failed.code, failed.message) == ("tool_failed", "The tool add failed with ReadError.")


def test_two_errors_under_one_id_are_two() -> None:
    loader = Loader()
    first, second = dump_error(ValueError("a")), dump_error(ValueError("b"))
    assert loader.error(first) is loader.error(first)
    assert loader.error(first) is not loader.error(second | {"id": first["id"]})


def test_the_text_of_a_foreign_error_is_kept_without_its_secrets() -> None:
    assert dump_error(ValueError("token=abcdefgh"))["message"] == "token=***"


def test_nothing_of_a_graphs_state_is_written_but_what_is_shown() -> None:
    from langchain_core.messages import AIMessage, HumanMessage

    state = {"messages": [HumanMessage("private"), AIMessage("private", tool_calls=[A])], "files": {"a": "private"}}
    parts = [
        works("t0", given=state),
        updates(files={"a": "private"}, messages=[HumanMessage("private"), result("A", "shown")]),
        chunk("shown", meta={"thread_id": "private", "user": "private"}),
    ]
    from anabranch.sources.langgraph import tape

    kept = repr([tape.dump(part) for part in parts])
    assert "private" not in kept and kept.count("shown") == 2 and "'name': 'add'" in kept
