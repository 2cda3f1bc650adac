"""What a replay makes of files: whole, cut, broken, hostile, and captured answers."""

from __future__ import annotations

import builtins
import importlib
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from referee import judged
from sources.a2a._cases import CASES as A2A_CASES
from sources.openai._cases import CASES as OPENAI_CASES

from anabranch import events as ev
from anabranch.errors import ConfigError
from anabranch.sources.a2a import A2ATranslator
from anabranch.sources.openai import OpenAITranslator
from anabranch.tapes import replay as tapes
from anabranch.tapes.replay import KINDS, BadTape, replay
from anabranch.transports.sse import Parser

from .taping import events_of, header, lawful, tape_of

HELLO = [{"at": 3, "item": "Hel"}, {"at": 5, "item": "lo"}, {"at": 9, "end": None}]


def text(events: list[Any]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ev.TextDelta))


def test_the_entries_have_the_run_the_ids_and_the_times_of_the_recording() -> None:
    lines = tape_of(*HELLO)
    lines[0] = json.dumps(header(continues="r0", parent_run_id="p", task_id="k")).encode() + b"\n"
    [first, *_, last] = entries = list(replay(lines, "f").entries())
    assert first.event == ev.RunStarted(
        run_id="r1", thread_id="t1", task_id="k", agent_name="agent", continues="r0", parent_run_id="p"
    )
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry.at_ms for entry in entries] == [1000, 1003, 1003, 1005, 1009, 1009]
    assert isinstance(last.event, ev.RunFinished) and text([entry.event for entry in entries]) == "Hello"
    assert list(replay(lines, "f").entries()) == entries


def test_what_was_emitted_past_the_source_keeps_its_place() -> None:
    emitted = {"at": 4, "event": {"type": "custom", "name": "x"}}
    kinds = [type(event) for event in events_of(tape_of(HELLO[0], emitted, *HELLO[1:]))]
    assert kinds.index(ev.Custom) == kinds.index(ev.TextDelta) + 1


@pytest.mark.parametrize("end", [b"", b'{"at": 7, "it', b'{"at": 7, "item": "\xf0\x9f'])
def test_a_recording_without_an_end_ends_as_cut_off(end: bytes) -> None:
    run = replay(tape_of(*HELLO[:2], end), "f")
    events = [entry.event for entry in run.entries()]
    assert run.cut and text(events) == "Hello"
    assert judged(events).terminal == events[-1]
    assert isinstance(events[-1], ev.RunFailed)
    assert (events[-1].code, events[-1].retryable, events[-1].side) == ("replica_lost", True, "server")


def test_a_last_line_without_its_end_is_read() -> None:
    lines = tape_of(*HELLO)
    run = replay([*lines[:-1], lines[-1].rstrip(b"\n")], "f")
    assert isinstance([*run.entries()][-1].event, ev.RunFinished) and not run.cut


def test_a_recorded_failure_is_data() -> None:
    end = {"type": "SourceError", "code": "busy", "message": "No.", "retryable": True}
    [*_, failed] = events_of(tape_of(HELLO[0], {"end": end}))
    assert (failed.code, failed.message, failed.retryable, failed.partial) == ("busy", "No.", True, True)
    [*_, ended] = events_of(tape_of(HELLO[0], {"end": {**end, "type": "Cancelled"}}))
    assert ended.outcome == "cancelled"


def test_what_follows_the_runs_own_end_changes_nothing() -> None:
    done = {"item": {"type": "run_finished"}}
    assert events_of(tape_of(HELLO[0], done, HELLO[1], HELLO[2])) == events_of(tape_of(HELLO[0], done))


# --- broken files ----------------------------------------------------------------------------------------------------

ERROR = {"$error": {"kinds": []}}


@pytest.mark.parametrize(
    ("line", "place", "said"),
    [
        (b"no json\n", "f:2", "no line of JSON; cut the file before it"),
        (b"[" * 100_000 + b"\n", "f:2", "no line of JSON"),
        (b'{"item": ' + b"[" * 700 + b"]" * 700 + b"}\n", "f:2", ""),
        (b'{"item": "\xff"}\n', "f:2", "no line of JSON"),
        (b"9" * 5000 + b"\n", "f:2", "no line of JSON"),
        ([], "f:2", "one of `item`, `event` and `end`"),
        ({}, "f:2", "one of `item`, `event` and `end`"),
        ({"item": "a", "end": None}, "f:2", "one of `item`, `event` and `end`"),
        ({"at": -1, "item": "a"}, "f:2", "'at' is -1"),
        ({"at": "1", "item": "a"}, "f:2", "'at' is '1'"),
        ({"at": True, "item": "a"}, "f:2", "'at' is True"),
        ({"at": 10**30, "item": "a"}, "f:2", "'at' is 1000"),
        ({"item": 5}, "f:2", "this item cannot be read: an event is an object with a type; correct it"),
        ({"item": {"type": 5}}, "f:2", "an event is an object with a type"),
        ({"item": {"type": "text_delta"}}, "f:2", "text_delta cannot have these fields"),
        ({"item": {"type": "text_delta", "os": 1}}, "f:2", "cannot have these fields"),
        ({"item": {"type": "custom", "$fields": 5}}, "f:2", "$fields"),
        ({"event": "x"}, "f:2", "this event cannot be read"),
        ({"end": "x"}, "f:2", "this end cannot be read: an error is an object"),
        ({"end": {"type": "os.system", "code": "x", "message": "y"}}, "f:2", "an error has a type"),
        ({"end": {"kinds": ["a", 5]}}, "f:2", "the kinds of an error are names"),
        ({"end": {"kinds": ["a\0b.c\0d"]}}, "f:2", "no name of a type"),
        ({"end": {"kinds": [], "group": []}}, "f:2", "a group of errors holds some"),
        ({"item": {"$object": {"a": 1}}}, "f:2", "a foreign object has a name"),
        ({"item": {"$object": "a\0b"}}, "f:2", "no name of a type"),
        ({"item": {"$object": "\ud800"}}, "f:2", "no name of a type"),
        ({"item": {"$object": "a", "has": [1]}}, "f:2", "and attributes"),
    ],
)
def test_a_broken_line_is_told_with_its_place_and_the_remedy(line: Any, place: str, said: str) -> None:
    got: list[Any] = []
    try:
        got.extend(entry.event for entry in replay(tape_of(line, *HELLO), "f").entries())
    except BadTape as error:
        assert str(error).startswith(f"{place}: ") and said in str(error), error
        assert [type(event) for event in got] == [ev.RunStarted]  # what came before it was given
    else:
        assert not said


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("a2a", 5),
        ("a2a", {"$bytes": "x"}),
        ("openai", "\ud800"),
        ("langgraph", {"$tuple": 5}),
        ("langgraph", {"$float": "1e999"}),
        ("langgraph", {"$dict": []}),
        ("langgraph", {"type": "custom", "ns": [], "data": {"$event": {"type": "text_delta"}}}),
    ],
)
def test_a_broken_item_of_any_source_is_told(kind: str, value: Any) -> None:
    with pytest.raises(BadTape, match="f:2: this item cannot be read"):
        list(replay(tape_of({"item": value}, kind=kind), "f").entries())


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"", "f: it is empty"),
        (b"\n \n", "f: it is empty"),
        (
            header(format=2, anabranch="9.9"),
            "f:1: its format is 2 and this is a reader of format 1; it was written by anabranch '9.9'",
        ),
        (header(source="nat"), "f:1: source 'nat' is not known; known: a2a, langgraph, openai, python"),
        (header(source=5), "f:1: source 5 is not known"),
        (header(run_id=5), "f:1: 'run_id' is not text"),
        (header(continues=5), "f:1: 'continues' is not text"),
        (header(at_ms="now"), "f:1: 'at_ms' is 'now'; it is a time in milliseconds"),
    ],
)
def test_a_bad_header_is_told(first: Any, said: str) -> None:
    line = first if isinstance(first, bytes) else json.dumps(first).encode() + b"\n"
    with pytest.raises(BadTape) as refused:
        list(replay([line] if line else [], "f").entries())
    assert said in str(refused.value)


def test_a_second_run_in_a_file_is_told_after_the_first() -> None:
    got: list[Any] = []
    with pytest.raises(BadTape, match=r"f:5: it comes after the end of the run; a file holds one run"):
        got.extend(entry.event for entry in replay([*tape_of(*HELLO), *tape_of(*HELLO)], "f").entries())
    assert isinstance(got[-1], ev.RunFinished)


def test_a_line_that_is_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "LINE_LIMIT", 50)
    with pytest.raises(BadTape, match="f:2: a line of more than 50 bytes"):
        list(replay(tape_of({"item": "x" * 50}), "f").entries())


def test_a_file_is_not_read_as_that_of_another_source() -> None:
    with pytest.raises(ConfigError, match="f:1: it was recorded from python; give `--source python`"):
        replay(tape_of(*HELLO), "f", "langgraph")


# --- hostile files ---------------------------------------------------------------------------------------------------

OBJECTS: list[Any] = [
    {"$object": "os.system", "has": {"__class__": "x", "__reduce__": ["os.system", "x"], "content": "y"}},
    {"$object": "Popen", "has": {"type": "tool", "tool_call_id": "c", "content": "x", "__call__": 1}, "json": {}},
    {"lc": 1, "type": "constructor", "id": ["subprocess", "Popen"], "kwargs": {"args": ["touch", "x"]}},
    {"py/object": "subprocess.Popen", "__reduce__": ["os.system", ["touch x"]]},
    {"$error": {"kinds": ["subprocess.CalledProcessError", "importlib.import_module"], "body": {"$object": "a"}}},
    "cos\nsystem\n(S'touch x'\ntR.",
]


def parts(value: Any) -> list[Any]:
    data: list[tuple[str, Any]] = [
        ("custom", value),
        ("messages", [value, {}]),
        ("updates", {"node": {"messages": [value], "todos": [value]}, "__interrupt__": [value]}),
        ("tools", {"event": "tool-finished", "tool_call_id": "c", "output": value}),
        ("tasks", {"id": "t", "name": "n", "input": value}),
        ("tasks", {"id": "t", "name": "n", "result": None, "error": value, "interrupts": [value]}),
    ]
    return [{"type": kind, "ns": [], "data": each} for kind, each in data]


@pytest.mark.parametrize("value", OBJECTS)
def test_nothing_that_a_file_names_is_imported_or_called(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"called with {args}")

    tapes_of_it = [tape_of({"item": each}, {"end": None}, kind="langgraph") for each in parts(value)]
    tapes_of_it += [tape_of({"item": value}, {"end": None}), tape_of({"item": "x"}, {"end": value})]
    with monkeypatch.context() as patched:
        for module, name in ((builtins, "eval"), (builtins, "exec"), (importlib, "import_module"), (os, "system")):
            patched.setattr(module, name, refuse)
        patched.setattr(subprocess, "Popen", refuse)
        for lines in tapes_of_it:
            try:
                events = events_of(lines)
            except BadTape:
                continue
            judged(events)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([*OBJECTS]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "ns", "data", "$object", "has", "$event", "$error", "$tuple", "$fields", "json", "kinds", "id"]
                + ["content", "event", "tool_call_id", "output", "messages", "message_id", "delta", "name", "value"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
near_parts = st.builds(
    lambda kind, ns, data: {"type": kind, "ns": ns, "data": data},
    st.sampled_from(["messages", "updates", "custom", "tools", "tasks", "else"]),
    st.lists(st.text(max_size=4), max_size=2),
    json_values | st.lists(json_values, min_size=2, max_size=2),
)
near_events = st.builds(
    lambda tag, fields: {"type": tag, **fields},
    st.sampled_from(["text_delta", "custom", "run_finished", "tool_returned", "interrupted", "agent_started", "new"]),
    st.dictionaries(st.sampled_from(["message_id", "delta", "value", "name", "agent", "call_id"]), json_values),
)


@given(st.sampled_from([*KINDS]), st.lists(json_values | near_parts | near_events, max_size=4), json_values)
@settings(max_examples=400, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_file_holds_it_is_a_lawful_run_or_a_broken_line(kind: str, items: list[Any], end: Any) -> None:
    lines = tape_of(*({"item": item} for item in items), {"event": end}, {"end": end}, kind=kind)
    try:
        events = events_of(lines)
    except BadTape as error:
        assert str(error).startswith("run.jsonl:")
    else:
        judged(events)


# --- captured answers ------------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ndata: no\r\n\r\n"


def captured(stream: bytes, kind: str) -> list[ev.Event]:
    return events_of(stream.splitlines(keepends=True), kind)[1:]


def items_of(stream: bytes) -> list[bytes]:
    return [event.data for event in Parser().feed(stream)]


@pytest.mark.parametrize("head", [b"", HEAD, b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD, b"\xef\xbb\xbf"])
@pytest.mark.parametrize("case", OPENAI_CASES, ids=lambda case: case.name)
def test_a_captured_stream_of_an_endpoint_is_read_as_it_came(case: Any, head: bytes) -> None:
    if items := items_of(case.stream):
        events = lawful(OpenAITranslator(tools=None), items)[1:]
        said = captured(head + case.stream, "openai")
        assert [ev.encode(each).replace(b'"captured:', b'"r1:') for each in said] == [
            ev.encode(each) for each in events
        ]


@pytest.mark.parametrize("case", A2A_CASES, ids=lambda case: case.name)
def test_a_captured_stream_of_a_remote_agent_is_read_as_it_came(case: Any) -> None:
    if case.items:
        stream = b"".join(b"data: %b\r\n\r\n" % item for item in case.items)
        said = captured(stream, "a2a")
        assert text(said) == text(lawful(A2ATranslator(), case.items))


@pytest.mark.parametrize("head", [b"", HEAD])
def test_a_captured_answer_that_is_no_stream_is_one_item(head: bytes) -> None:
    body = {"id": "x", "choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}
    assert text(captured(head + json.dumps(body, indent=2).encode() + b"\n", "openai")) == "Hello"


def test_a_captured_answer_is_not_read_without_end() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        yield b'{"choices": "'
        while True:
            taken += 1
            yield b"x" * (1 << 20)

    [*_, failed] = [entry.event for entry in replay(endless(), "f", "openai").entries()]
    assert isinstance(failed, ev.RunFailed) and failed.code == "protocol" and taken < 20


def test_a_captured_stream_that_stops_inside_an_event_is_a_lost_connection() -> None:
    cut = b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\ndata: {"choices"'
    for kind, code in (("openai", "model_disconnected"), ("a2a", "agent_disconnected")):
        stream = cut if kind == "openai" else b"data: {"
        [*_, failed] = captured(stream, kind)
        assert isinstance(failed, ev.RunFailed) and failed.code == code


def test_a_captured_answer_needs_the_name_of_its_source() -> None:
    with pytest.raises(ConfigError, match="f:1: this is no recording, it has no header; .* `--source` a2a or openai"):
        replay([b"data: x\n"], "f")
    with pytest.raises(BadTape, match="record a run with `anabranch serve --record DIR`"):
        replay([b"data: x\n"], "f", "python")
