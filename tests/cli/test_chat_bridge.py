"""What an A2A agent says, read by the chat: of an agent of our own, the same as over AG-UI."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from cases import CASES, Case
from cases._case import DONE, calls, lane, returns, says, thinks

from anabranch import events as ev
from anabranch.cli.chat.bridge import Bridge
from anabranch.cli.chat.reading import Reading
from anabranch.cli.chat.screen import Line, Screen
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.sinks.a2a import profile
from anabranch.sinks.a2a.encode import A2aEncoder, Envelope
from anabranch.sinks.a2a.payload import to_json
from anabranch.sinks.a2a.task import TaskFold
from anabranch.sources.a2a._wire import EXTENSION, looked_up
from anabranch.sources.a2a.attributed import AttributedTranslator
from anabranch.transports.sse import Parser
from tests.cli.double import events_of, frames

ATTRIBUTED = profile.Profile("1.0", attributed=True)
PLAIN = profile.Profile("1.0")


def entries(told: Iterable[ev.Event]) -> list[Entry]:
    """The log of a run whose source gives these items."""
    grammar = Grammar()
    start = ev.RunStarted(run_id="run-1", thread_id="thread-1", task_id="task-1")
    events = [event for each in (start, *told) for event in grammar.feed(each)]
    return [Entry(seq, 1, seq, event) for seq, event in enumerate(events, 1)]


def items(told: Iterable[ev.Event], client: profile.Profile = ATTRIBUTED) -> list[bytes]:
    """What our server sends over A2A for a source's items."""
    encoder = A2aEncoder(client, Envelope.rpc("1"))
    return [sse.data for entry in entries(told) for frame in encoder.feed(entry) for sse in Parser().feed(frame)]


def snapshot(told: Iterable[ev.Event]) -> bytes:
    """What our server says when it is asked for the task at the end of such a run."""
    fold = TaskFold()
    for entry in entries(told):
        fold.feed(entry)
    return looked_up(to_json({"jsonrpc": "2.0", "id": "1", "result": fold.task(ATTRIBUTED)}))


def bridged(stream: Iterable[bytes], translator: AttributedTranslator | None = None) -> list[dict[str, Any]]:
    """The AG-UI events that they are read as."""
    bridge = Bridge(translator or AttributedTranslator(), "run-1", "")
    return [frame.event for item in stream for frame in bridge.feed(item)] + [
        frame.event for frame in ([] if bridge.ended else bridge.close())
    ]


def read(stream: Iterable[dict[str, Any]]) -> tuple[Reading, list[Line], str]:
    reading, screen, written = Reading(), Screen(), ""
    lines: list[Line] = []
    for event in stream:
        events, new = reading.feed(event)
        written += new
        lines += [line for each in events for line in screen.feed(each)]
    return reading, lines + screen.close(), written


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_of_our_server_is_read_over_a2a_as_it_is_over_agui(case: Case) -> None:
    over_agui, there, wrote = read(events_of(frames(case.items)))
    over_a2a, here, written = read(bridged(items(case.items)))
    if not any(isinstance(item, ev.ActivitySnapshot) for item in case.items):  # A2A has no word for a plan
        assert here == there
    assert (written, over_a2a.answer.text, over_a2a.flaw) == (wrote, over_agui.answer.text, over_agui.flaw)
    assert over_a2a.ending is not None and over_agui.ending is not None
    assert (over_a2a.ending.status, over_a2a.ending.code) == (over_agui.ending.status, over_agui.ending.code)
    assert over_agui.ending.message in over_a2a.ending.message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_client_that_is_told_no_authors_reads_the_same_answer(case: Case) -> None:
    reading, lines, _ = read(bridged(items(case.items, PLAIN)))
    assert not any(line.lane for line in lines)
    assert reading.ending is not None
    if reading.ending.status == "success" and not any(isinstance(item, ev.MessageReset) for item in case.items):
        assert reading.answer.text == read(events_of(frames(case.items)))[0].answer.text


STORY = [
    *thinks("r", "Who ", "knows?"),
    *calls("c1", "ask_komodor", '{"question":', ' "clusters?"}'),
    *lane("k", "komodor", says("m", "three ", "clusters\n", "all well", agent="k"), call="c1"),
    returns("c1", "three clusters"),
    *says("i", "Let me ", "see. ", phase="narration"),
    *says("m", "Done. ", "All ", "is well."),
    DONE,
]


def test_what_was_missed_of_a_task_is_told_by_a_look_at_it_wherever_its_stream_broke_off() -> None:
    stream, look = items(STORY), snapshot(STORY)
    whole, there, _ = read(bridged(stream))
    for cut in range(1, len(stream)):
        reading, here, _ = read(bridged([*stream[:cut], look]))
        assert sorted(here, key=repr) == sorted(there, key=repr), cut
        assert reading.ending is not None and reading.ending.status == "success"
        assert reading.answer.text == whole.answer.text


def asks() -> list[ev.Event]:
    """A run that stops to ask something."""
    return [
        *lane("k", "komodor", says("m", "clusters", agent="k")),
        *says("w", "Well. "),
        ev.Interrupted(interrupt_id="q", reason="confirmation", message="May I?", schema={"type": "boolean"}),
        ev.RunFinished(outcome="interrupted"),
    ]


def test_a_question_is_read_with_its_schema_and_what_was_told_before_it_is_not_told_again() -> None:
    translator, log = AttributedTranslator(), entries(asks())
    reading, _, _ = read(bridged(items(asks()), translator))
    assert reading.ending is not None and reading.ending.status == "interrupted"
    [asked] = reading.ending.interrupts
    assert (asked["message"], asked["responseSchema"]) == ("May I?", {"type": "boolean"})
    fold = TaskFold()
    for entry in log:
        fold.feed(entry)
    encoder = A2aEncoder(ATTRIBUTED, Envelope.rpc("1"), before=fold.task(ATTRIBUTED))
    grammar = Grammar()
    start = ev.RunStarted(run_id="run-2", thread_id="thread-1", task_id="task-1", continues="run-1")
    again = [*lane("k", "komodor", says("m", "more", agent="k")), *says("d", "Done."), DONE]
    events = [event for each in (start, *again) for event in grammar.feed(each)]
    frames_of = [frame for seq, event in enumerate(events, 1) for frame in encoder.feed(Entry(seq, 1, seq, event))]
    translator.go_on()
    stream = [sse.data for frame in frames_of for sse in Parser().feed(frame)]
    reading, lines, written = read(bridged(stream, translator))
    assert (written, reading.ending and reading.ending.status) == ("Done.", "success")
    assert [(line.lane, line.text) for line in lines] == [("komodor", "more"), ("", "Done.")]


def test_what_is_received_is_kept_on_one_line_as_it_was() -> None:
    bridge = Bridge(AttributedTranslator(), "run-1", "")
    received = [frame.data for item in items(STORY) for frame in bridge.feed(item) if frame.data]
    assert received == items(STORY)
    for item, line in ((b'{\n "result": {"x": 1}}', b'{"result":{"x":1}}'), (b"no\njson", b'"no\\njson"')):
        assert Bridge(AttributedTranslator(), "run-1", "").feed(item)[0].data == line
    look = Bridge(AttributedTranslator(), "run-1", "").feed(looked_up(b'{"result":{}}'))
    assert look[0].data == b'{"result":{}}'


HOSTILE: list[Any] = [
    {"task": {"id": "t", "contextId": "c", "metadata": {EXTENSION: {"agents": 5}}}},
    {"task": {"artifacts": [{"artifactId": "y", "metadata": {EXTENSION: {"kind": "reasoning"}}, "name": "\ud800"}]}},
    {"task": {"id": "t", "contextId": "c", "metadata": {EXTENSION: {"agents": [1, {"id": 2}, {"id": "a"}]}}}},
    *(
        {"artifactUpdate": {"artifact": {"artifactId": "x", "parts": [part], "metadata": {EXTENSION: said}}}}
        for part in ({"text": "x"}, {"data": None}, {"data": [1]}, {"url": "u"})
        for said in (
            *(1, {"kind": 1}, {"kind": "message", "agent": 1}, {"kind": "message", "agent": {"id": {}}}),
            *({"kind": kind, "agent": {"id": "a"}} for kind in ("message", "reasoning", "tool_call", "tool_output")),
            *({"kind": "tool_result", "isError": "yes", "error": 1}, {"kind": "result"}, {"kind": "nothing"}),
        )
    ),
    *(
        {"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}, "metadata": {EXTENSION: said}}}
        for said in (
            *({"agent": {"id": "a", "outcome": "x"}}, {"agent": {"id": "b", "parent": "b", "continues": "b"}}),
            *({"agent": {"outcome": []}}, {"routed": {"route": 1}}, {"routed": {"route": "direct", "agents": 1}}),
        )
    ),
    {"statusUpdate": {"status": {"state": "TASK_STATE_FAILED", "message": {"metadata": {"anabranch": {"side": []}}}}}},
    {
        "statusUpdate": {
            "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"parts": [{"data": {"interruptId": "i"}}]}}
        }
    },
    {
        "statusUpdate": {
            "status": {"state": "TASK_STATE_COMPLETED"},
            "metadata": {"anabranch": {"answer": {"messageIds": [{}]}}},
        }
    },
]


@pytest.mark.parametrize("last", range(len(HOSTILE)))
def test_whatever_an_agent_writes_into_the_extension_its_run_is_read_to_an_end(last: int) -> None:
    stream = [
        json.dumps({"jsonrpc": "2.0", "id": "1", "result": said}).encode() for said in (*HOSTILE[:-3], HOSTILE[last])
    ]
    for tail in (stream, stream[-1:]):
        reading, _, _ = read(bridged(tail))
        assert reading.ending is not None
