"""What becomes of an endpoint's items in every dialect: whole, in any pieces, and cut after each of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referee import judged

from anabranch import events as ev
from anabranch.errors import Cancelled, SourceError
from anabranch.grammar import Grammar
from anabranch.request import RunRequest, ToolSpec
from anabranch.sources.openai import OpenAISource, OpenAITranslator, tape
from anabranch.transports.sse import Parser

from ._cases import (
    CALLED,
    CASES,
    DONE,
    HI,
    STOP,
    TOOLS,
    USAGE,
    A,
    Case,
    calls,
    chunk,
    frames,
    goes_on,
    opens,
    piece,
    texts,
)

BROKEN = SourceError("The model m closed the connection.", code="model_disconnected", retryable=True)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def items_of(*pieces: bytes) -> list[bytes]:
    """The items of a stream that comes in these pieces."""
    parser = Parser()
    return [event.data for piece in pieces for event in parser.feed(piece)]


class Run:
    """Items through a translator and the grammar."""

    def __init__(self, items: Iterable[bytes], tools: Iterable[str] = TOOLS) -> None:
        self.translator = OpenAITranslator("m", tools)
        self.grammar = Grammar()
        self.events = self.grammar.feed(ev.RunStarted(run_id="r", thread_id="t"))
        for item in items:
            self._take(self.translator.feed(item))

    def _take(self, events: Iterable[ev.Event]) -> None:
        for event in events:
            self.events += self.grammar.feed(event)

    def close(self, error: BaseException | None = None) -> Run:
        self._take(self.translator.close(error))
        self.events += self.grammar.close(error)
        judged(self.events)
        assert self.grammar.repairs == {}
        return self

    @property
    def last(self) -> ev.RunFinished | ev.RunFailed:
        last = self.events[-1]
        assert isinstance(last, ev.RunFinished | ev.RunFailed)
        return last

    @property
    def end(self) -> str:
        return self.last.code if isinstance(self.last, ev.RunFailed) else self.last.outcome

    def all(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def messages(self) -> list[tuple[str, str]]:
        """Phase and text of each message."""
        phases = {event.message_id: event.phase for event in self.all(ev.MessageFinished)}
        texts = {event.message_id: "" for event in self.all(ev.MessageStarted)}
        for event in self.all(ev.TextDelta):
            texts[event.message_id] += event.delta
        return [(phases.get(id, "open"), text) for id, text in texts.items()]

    def thoughts(self) -> list[str]:
        thoughts = {event.reasoning_id: "" for event in self.all(ev.ReasoningStarted)}
        for event in self.all(ev.ReasoningDelta):
            thoughts[event.reasoning_id] += event.delta
        return [*thoughts.values()]

    def calls(self) -> list[tuple[str, str, str, str, str | None]]:
        args = {event.call_id: "" for event in self.all(ev.ToolCallStarted)}
        for event in self.all(ev.ToolArgsDelta):
            args[event.call_id] += event.delta
        results = {event.call_id: event.content for event in self.all(ev.ToolReturned)}
        return [
            (event.origin_id, event.name, args[event.call_id], event.executor, results.get(event.call_id))
            for event in self.all(ev.ToolCallStarted)
        ]

    def usage(self) -> list[tuple[int, int, int, int]]:
        return [(used.input, used.output, used.reasoning, used.cached) for used in self.last.usage]


@every_case
def test_a_stream_in_any_dialect_gives_exactly_its_text_its_calls_and_its_end_and_nothing_to_mend(case: Case) -> None:
    run = Run(items_of(case.stream)).close()
    assert run.messages() == case.said
    assert run.thoughts() == case.thought
    assert run.calls() == case.calls
    assert run.end == case.end
    assert run.usage() == ([] if case.usage is None else [case.usage])
    if isinstance(run.last, ev.RunFailed):
        assert (run.last.message, run.last.retryable) == (case.message, case.retryable)
    else:
        reasons = [event.finish_reason for event in run.all(ev.MessageFinished)]
        assert reasons[-1:] == ([case.finish] if case.said else [])


@every_case
def test_however_a_stream_is_split_its_items_are_the_same(case: Case) -> None:
    stream = case.stream
    items = items_of(stream)
    for cut in range(len(stream)):
        assert items_of(stream[:cut], stream[cut:]) == items, cut
    assert items_of(*(stream[n : n + 1] for n in range(len(stream)))) == items


@every_case
@pytest.mark.parametrize("error", [None, BROKEN], ids=["ended", "broken"])
def test_wherever_a_stream_is_cut_what_came_is_kept_and_success_needs_a_finish_reason(
    case: Case, error: SourceError | None
) -> None:
    items = items_of(case.stream)
    whole = Run(items).close()
    for cut in range(len(items)):
        run = Run(items[:cut])
        over, shown, thoughts = run.grammar.ended, [text for _, text in run.messages()], run.thoughts()
        run.close(error)
        half = [text + "\ufffd" for text in shown]  # its other half never came
        assert [text for _, text in run.messages()] in (shown, half)
        assert run.thoughts() == thoughts
        pairs = zip(shown, whole.messages(), strict=False)
        assert all(text.startswith(part) for part, (_, text) in pairs)
        finished = any(b'"finish_reason": "' in item or b'"finish_reason": {' in item for item in items[:cut])
        if not over and not finished:
            assert run.end == ("model_disconnected" if error else "model_truncated"), cut
        elif not over and case.end == "success":
            assert run.end == "success", cut


@every_case
def test_a_run_that_is_cancelled_is_cancelled_wherever_it_is(case: Case) -> None:
    items = items_of(case.stream)
    for cut in range(len(items)):
        run = Run(items[:cut])
        over = run.grammar.ended
        run.close(Cancelled("The run was cancelled."))
        assert over or run.end == "cancelled"


@every_case
def test_the_same_items_give_the_same_events(case: Case) -> None:
    items = items_of(case.stream)
    assert Run(items).close().events == Run(items).close().events


@every_case
def test_a_recording_of_a_stream_gives_the_same_events(case: Case) -> None:
    items = items_of(case.stream)
    source = OpenAISource("http://host/v1", model="m")
    offer = RunRequest(run_id="r", thread_id="t", tools=tuple(ToolSpec(name=name) for name in TOOLS))
    kept = json.loads(json.dumps({"settings": source.settings(offer), "items": [source.dump(item) for item in items]}))
    loader = tape.loader()
    assert [loader.item(item) for item in kept["items"]] == items
    replayed = tape.translator(kept["settings"])
    assert [[*replayed.feed(item)] for item in items] == [[*each] for each in map(source.translator(offer).feed, items)]


# --- order ---------------------------------------------------------------------------------------------------------


def told(*chunks: object) -> list[str]:
    """What comes of chunks, by kind and what matters of it, in order."""
    short = {
        ev.MessageStarted: lambda e: f"message {e.origin_id}",
        ev.TextDelta: lambda e: e.delta,
        ev.MessageFinished: lambda e: f"{e.phase} {e.finish_reason}",
        ev.ReasoningStarted: lambda e: "thinks",
        ev.ReasoningDelta: lambda e: e.delta,
        ev.ReasoningFinished: lambda e: "thought",
        ev.ToolCallStarted: lambda e: f"call {e.origin_id}",
        ev.ToolArgsDelta: lambda e: e.delta,
        ev.ToolCallFinished: lambda e: "called",
        ev.ToolReturned: lambda e: "returned",
        ev.UsageReported: lambda e: "usage",
        ev.RunFinished: lambda e: e.outcome,
        ev.RunFailed: lambda e: e.code,
    }
    run = Run(items_of(frames(chunks))).close()  # type: ignore[arg-type]  # of the table's words
    return [short[type(event)](event) for event in run.events[1:]]  # type: ignore[index,no-untyped-call]


def test_a_chunk_with_reasoning_and_text_gives_both_in_this_order() -> None:
    both = chunk({"content": "Hi", "reasoning_content": "Hm"})
    expected = ["thinks", "Hm", "thought", "message chatcmpl-1", "Hi", "answer stop", "success"]
    assert told(both, STOP, DONE) == expected


def test_a_call_is_told_with_its_first_argument_and_closed_when_the_answer_is_over() -> None:
    chunks = [*HI, A, goes_on(0, '{"a"'), opens(1, "B", "sub", "{"), goes_on(0, ": 1}"), goes_on(1, "}"), CALLED, USAGE]
    assert told(*chunks, DONE) == [
        *("message chatcmpl-1", "Hi", "call A", '{"a"', "call B", "{", ": 1}", "}"),
        *("narration tool_calls", "called", "called", "usage", "success"),
    ]


def test_text_and_arguments_are_shown_when_they_come() -> None:
    translator = OpenAITranslator("m", TOOLS)
    shown = [
        [event for item in items_of(frames([each])) for event in translator.feed(item)]
        for each in (*texts("Hel", "lo"), A, goes_on(0, "{"), goes_on(0, "}"))
    ]
    kinds = [[type(event).__name__ for event in events] for events in shown]
    assert kinds == [
        ["MessageStarted", "TextDelta"],
        ["TextDelta"],
        [],
        ["ToolCallStarted", "ToolArgsDelta"],
        ["ToolArgsDelta"],
    ]


def test_a_call_that_waits_for_its_arguments_is_told_before_the_text_that_follows_it() -> None:
    assert told(A, *texts("Hi"), CALLED, DONE)[:3] == ["call A", "message chatcmpl-1", "Hi"]


def test_calls_of_the_client_are_left_pending_and_belong_to_the_message_of_their_turn() -> None:
    run = Run(items_of(frames([*HI, A, goes_on(0, "{}"), opens(1, "B", "sub", "{}"), CALLED, DONE]))).close()
    first, second = run.all(ev.ToolCallStarted)
    (message,) = run.all(ev.MessageStarted)
    assert first.message_id == second.message_id == message.message_id
    assert isinstance(run.last, ev.RunFinished)
    assert run.last.pending_call_ids == (first.call_id, second.call_id)
    assert run.last.answer is None


def test_only_what_follows_a_tool_of_the_endpoint_is_the_answer() -> None:
    case = next(case for case in CASES if case.name == "a call that the endpoint executed")
    run = Run(items_of(case.stream)).close()
    first, second = run.all(ev.MessageStarted)
    (call,) = run.all(ev.ToolCallStarted)
    (result,) = run.all(ev.ToolReturned)
    assert isinstance(run.last, ev.RunFinished) and run.last.answer is not None
    assert (call.message_id, run.last.answer.message_ids) == (first.message_id, (second.message_id,))
    assert (result.is_error, run.last.pending_call_ids) == (False, ())


def test_a_call_that_nobody_can_execute_is_an_error_for_the_model_to_read() -> None:
    run = Run(items_of(frames([opens(0, "A", "add", "{}"), opens(1, "X", "fly", "{}"), CALLED, DONE]))).close()
    (result,) = run.all(ev.ToolReturned)
    assert (result.is_error, result.error) == (True, result.content)
    assert isinstance(run.last, ev.RunFinished) and len(run.last.pending_call_ids) == 1


# --- what else an answer can hold ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "delta",
    [
        {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"content": [{"type": "image_url", "image_url": "data:image/png;base64,AAAA"}]},
        {"content": "", "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
    ],
)
def test_an_image_is_a_part_of_the_message(delta: dict[str, object]) -> None:
    run = Run(items_of(frames([chunk(delta), STOP, DONE]))).close()
    (added,) = run.all(ev.PartAdded)
    assert added.part == ev.Part(kind="file", url="data:image/png;base64,AAAA", mime_type="image/png")
    assert run.messages() == [("answer", "")] and run.end == "success"


def test_a_citation_belongs_to_the_message() -> None:
    note = {"type": "url_citation", "url_citation": {"url": "https://a.example"}}
    run = Run(items_of(frames([*HI, chunk({"annotations": [note, "x"]}), STOP, DONE]))).close()
    assert [event.annotation for event in run.all(ev.Annotated)] == [note]


@pytest.mark.parametrize("legacy", [{}, {"function_call": {"name": "add", "arguments": '{"a": 1}'}}])
@pytest.mark.parametrize("ids", [("A", "B"), (None, None)])
def test_an_answer_that_is_no_stream_is_the_whole_of_it(
    ids: tuple[str | None, str | None], legacy: dict[str, object]
) -> None:
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": args}}
        for id, name, args in zip(ids, ("add", "now"), ('{"a": 1}', ""), strict=True)
    ]
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm", "tool_calls": calls, **legacy}
    body = {"id": "c", "object": "chat.completion", "model": "m", "usage": USAGE["usage"]}
    body |= {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    run = Run([json.dumps(body, indent=2).encode()]).close()
    assert (run.messages(), run.thoughts(), run.end) == ([("narration", "Hi")], ["Hm"], "success")
    names = [id or f"call-{n}" for n, id in enumerate(ids, 1)]
    assert run.calls() == [(names[0], "add", '{"a": 1}', "client", None), (names[1], "now", "", "client", None)]
    assert run.usage() == [(10, 4, 1, 6)]


def test_without_tools_of_the_client_no_call_is_the_clients() -> None:
    run = Run(items_of(frames([A, goes_on(0, "{}"), CALLED, DONE])), tools=()).close()
    assert run.end == "model_error"


def test_the_model_is_named_in_the_usage_as_the_endpoint_names_it() -> None:
    run = Run(items_of(frames([*HI, STOP | {"model": "m-2026"}, USAGE | {"model": None}, DONE]))).close()
    assert [used.model for used in run.last.usage] == ["m-2026"]


PIECES = st.lists(st.text(st.sampled_from('ab{}"\\ \r\nü🚀'), min_size=1, max_size=3), min_size=1, max_size=8)


@settings(deadline=None, database=None)
@given(PIECES, st.data())
def test_however_arguments_are_cut_and_mixed_each_call_has_its_own(pieces: list[str], data: st.DataObject) -> None:
    texts = [json.dumps({"q": "".join(pieces)}, ensure_ascii=False), json.dumps({"b": pieces})]
    cuts = [sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5))) for text in texts]
    queues = [
        [text[a:b] for a, b in zip([0, *cut], [*cut, len(text)], strict=True)]
        for text, cut in zip(texts, cuts, strict=True)
    ]
    chunks = [opens(0, "A", "add"), opens(1, "B", "sub")]
    while any(queues):
        n = data.draw(st.sampled_from([n for n, queue in enumerate(queues) if queue]))
        chunks.append(goes_on(n, queues[n].pop(0)))
    run = Run(items_of(frames([*chunks, CALLED, DONE]))).close()
    assert {call[0]: call[2] for call in run.calls()} == dict(zip("AB", texts, strict=True))


KEYS = (
    *("choices", "delta", "index", "content", "tool_calls", "function", "name", "arguments", "id", "type", "text"),
    *("finish_reason", "usage", "error", "message", "function_call", "reasoning", "image_url", "annotations"),
)
WORDS = st.text(max_size=3) | st.sampled_from(["A", "add", "stop"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None, database=None, max_examples=300)
@given(st.lists(JUNK | st.builds(lambda junk: chunk(junk), JUNK), max_size=5))
def test_whatever_json_comes_nothing_is_raised_and_there_is_one_lawful_end(junk: list[object]) -> None:
    run = Run([json.dumps(each).encode() for each in junk]).close()
    assert sum(isinstance(event, ev.Terminal) for event in run.events) == 1


def many(form: str, number: int) -> dict[str, Any]:
    """The whole call of that number."""
    which = {"indexed": {"index": number}, "named": {"id": str(number)}, "alike": {"index": number, "id": "c"}}
    return piece("{}", name="add", **which.get(form, {}))


@pytest.mark.parametrize("form", ["indexed", "named", "alike", "whole"])
def test_thousands_of_calls_cost_their_number(form: str) -> None:
    began = time.process_time()
    run = Run(items_of(*(frames([calls(many(form, number))]) for number in range(20_000)), frames([CALLED, DONE])))
    assert len({event.call_id for event in run.events if isinstance(event, ev.ToolCallStarted)}) == 20_000
    assert time.process_time() - began < 10


@pytest.mark.parametrize("tool", ["add", "search"])
def test_text_after_thousands_of_calls_costs_its_length(tool: str) -> None:
    began = time.process_time()
    made = [calls(*(piece("{}", index=number, id=str(number), name=tool) for number in range(10_000)))]
    run = Run(items_of(frames([*made, *texts(*["a"] * 10_000), STOP, DONE])))
    assert sum(isinstance(event, ev.TextDelta) for event in run.events) == 10_000
    assert time.process_time() - began < 10


def test_a_name_with_each_fragment_costs_no_reading_of_all_of_them() -> None:
    began = time.process_time()
    fragments = [calls(piece(f'{"," if n else "{"}"{n}":"{"x" * 50}"', index=0, name="add")) for n in range(20_000)]
    run = Run(items_of(frames([*fragments, calls(piece("}", index=0, name="add")), CALLED, DONE])))
    assert isinstance(run.events[-1], ev.RunFinished)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("finish", [False, 0, "", []])
def test_a_finish_reason_that_is_none_finishes_nothing(finish: Any) -> None:
    run = Run(items_of(frames([*HI, chunk({}, finish), DONE])))
    assert isinstance(last := run.events[-1], ev.RunFailed) and last.code == "model_truncated"


def test_an_index_that_is_no_number_is_none() -> None:
    run = Run(items_of(frames([calls(piece("{}", index="9" * 5000, id="c", name="add")), CALLED, DONE])))
    assert isinstance(run.events[-1], ev.RunFinished)


def test_what_an_endpoint_calls_a_tool_does_not_make_an_error_long() -> None:
    run = Run(items_of(frames([calls(piece("{}", index=0, id="c", name="x\x1b" * 5000)), CALLED, DONE])))
    assert isinstance(last := run.events[-1], ev.RunFailed) and len(last.message) <= 500 and "\x1b" not in last.message


def test_arguments_with_what_json_does_not_have_are_no_object() -> None:
    run = Run(items_of(frames([calls(piece('{"a": NaN}', index=0, id="c", name="add")), CALLED, DONE])))
    assert isinstance(last := run.events[-1], ev.RunFailed) and "not a JSON object" in last.message
