"""The judges judge: each fault that a stream can have is found by one of them, and a good stream by none."""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import oracles
import pytest

Events = list[dict[str, Any]]

pytestmark = pytest.mark.oracle

GOOD: Events = [
    {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "protocolVersion": "1.0"},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "a1", "name": "komodor"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {"type": "REASONING_MESSAGE_START", "messageId": "x1", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "x1", "delta": "hm"},
    {"type": "REASONING_MESSAGE_END", "messageId": "x1"},
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look", "parentMessageId": "m1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"a":1}'},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
    {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "seen"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "a1"},
    {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/n", "value": 1}]},
    {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"},
]
for place, event in enumerate(GOOD):
    event["timestamp"] = 1_700_000_000_000 + place

START, LANE, OPEN, TEXT, CLOSE, THINK, THOUGHT, _, CALL, ARGS, RETURN_, RESULT, LEAVE, DELTA, END = range(len(GOOD))


def without(*places: int) -> Events:
    return [copy.deepcopy(event) for place, event in enumerate(GOOD) if place not in places]


def with_(place: int, **fields: Any) -> Events:
    return [copy.deepcopy(event) | (fields if at == place else {}) for at, event in enumerate(GOOD)]


def after(place: int, *more: int | dict[str, Any]) -> Events:
    added = [copy.deepcopy(GOOD[one]) if isinstance(one, int) else one for one in more]
    return [*GOOD[: place + 1], *added, *GOOD[place + 1 :]]


FAULTS: dict[str, tuple[Events, str]] = {
    "no terminal event": (without(END), "no terminal event, last"),
    "no start": (without(START), "First event must be 'RUN_STARTED'"),
    "two ends": (after(END, END), "already finished"),
    "an error after the end": (after(END, {"type": "RUN_ERROR", "message": "late"}), "terminal events"),
    "a message left open": (without(CLOSE), "text messages are still active"),
    "a call left open": (without(RETURN_), "tool calls are still active"),
    "a sub-agent left open": (without(LEAVE), "subagents are still active"),
    "text of no message": (without(OPEN, CLOSE), "No active text message found"),
    "a message opened twice": (after(OPEN, OPEN), "already in progress"),
    "a message opened again": (after(CLOSE, OPEN, TEXT, CLOSE), "text m1 is opened twice"),
    "a null where a field is optional": (with_(START, parentRunId=None), "null"),
    "a time that is not whole": (with_(TEXT, timestamp=0.5), "client 1.0.0"),
    "an unknown event": (after(TEXT, {"type": "HOLOGRAM"}), "HOLOGRAM"),
    "an unknown field": (with_(TEXT, colour="red"), "client 1.0.0 warns"),
    "arguments twice": (after(ARGS, ARGS), "not one JSON document"),
    "a call started again": (after(RETURN_, CALL, RETURN_), "tool call c1 is opened twice"),
    "two results": (after(RESULT, with_(RESULT, messageId="t2")[RESULT]), "two results for c1"),
    "the same result twice": (after(RESULT, RESULT), "two messages with the id t1"),
    "a result of no call": (with_(RESULT, toolCallId="c9"), "unknown call: c9"),
    "reasoning in the answer's bubble": (
        [event | ({"messageId": "m1"} if event.get("messageId") == "x1" else {}) for event in GOOD],
        "REASONING_MESSAGE_START has the id of a text message",
    ),
    "text of a sub-agent that never started": (with_(OPEN, subagentRunId="a9"), "belongs to a9, which never started"),
    "text of another owner": (with_(TEXT, subagentRunId="a1"), "does not match"),
    "a snapshot that loses a message": (
        after(LEAVE, {"type": "MESSAGES_SNAPSHOT", "messages": []}),
        "the streamed message m1 is not shown",
    ),
    "a snapshot while a message is open": (
        after(OPEN, {"type": "MESSAGES_SNAPSHOT", "messages": []}),
        "client 1.0.0 warns",
    ),
    "a snapshot that rewrites a message": (
        after(
            LEAVE,
            {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m1", "role": "assistant", "content": "Hi Hi"}]},
        ),
        "m1 shows 'Hi Hi', streamed was 'Hi'",
    ),
    "a patch that does not fit": (
        with_(DELTA, delta=[{"op": "remove", "path": "/nowhere"}]),
        "Failed to apply state patch",
    ),
    "a patch without a slash": (with_(DELTA, delta=[{"op": "add", "path": "n", "value": 1}]), "ag-ui-protocol"),
    "an outcome that only new clients know": (with_(END, outcome={"type": "cancelled"}), "client 0.0.59"),
    "a step opened twice": (after(CLOSE, *[{"type": "STEP_STARTED", "stepName": "s"}] * 2), "already active"),
}


def test_every_fault_is_found_and_a_good_stream_has_none() -> None:
    oracles.require()
    good, *found = oracles.flaws([GOOD, *(events for events, _ in FAULTS.values())])
    assert good == []
    for (name, (_, expected)), flaws in zip(FAULTS.items(), found, strict=True):
        assert any(expected in flaw for flaw in flaws), (name, flaws)


@pytest.mark.parametrize(
    "breaking",
    [
        lambda sse: sse.replace("\n\n", "\r\n\r\n"),
        lambda sse: sse.replace("data: ", "event: message\ndata: ", 1),
        lambda sse: sse.removesuffix("\n"),
    ],
    ids=["CRLF", "an event line", "cut"],
)
def test_frames_that_are_not_ours_are_found(breaking: Callable[[str], str]) -> None:
    oracles.require()
    sse = "".join(f"id: r1:{n}.0\ndata: {json.dumps(event)}\n\n" for n, event in enumerate(GOOD))
    assert oracles.flaws([": keep-alive\n\n" + sse, breaking(sse)])[0] == []
    assert oracles.flaws([breaking(sse)]) != [[]]


def test_arguments_that_a_failure_cut_are_excused_and_others_are_not() -> None:
    oracles.require()
    cut = with_(ARGS, delta='{"a":')
    failed = [*cut[:RESULT], cut[LEAVE], {"type": "RUN_ERROR", "message": "gone", "timestamp": 1}]
    cancelled = [*cut[:RESULT], cut[LEAVE], cut[END] | {"outcome": {"type": "cancelled"}}]
    error = [*cut[:RESULT], cut[RESULT] | {"metadata": {"anabranch": {"isError": True}}}, *cut[LEAVE:]]
    answered = [*cut[:-1], failed[-1]]
    assert oracles.flaws([failed, error]) == [[], []]
    assert oracles.flaws([cancelled], clients=("1.0.0",)) == [[]]
    assert all(oracles.flaws([with_(ARGS, delta='{"a":'), answered]))


def test_what_is_not_strict_is_in_order_and_no_more() -> None:
    oracles.require()
    shown, unlawful = oracles.flaws([after(ARGS, ARGS), without(CLOSE)], strict=False)
    assert shown == [] and unlawful


def test_accepting_returns_what_a_reader_sees() -> None:
    oracles.require()
    seen = oracles.accept(GOOD)
    assert [(message["role"], message.get("content")) for message in seen.messages] == [
        ("assistant", "Hi"),
        ("tool", "seen"),
        ("reasoning", "hm"),
    ]
    assert seen.state == {"n": 1}
    with pytest.raises(AssertionError, match="no terminal event"):
        oracles.accept(without(END))


def test_a_live_server_is_asked_by_both_clients() -> None:
    oracles.require()
    asked = []
    with serving(GOOD, asked) as url:
        seen = oracles.accept_url(url, {"runId": "r7", "messages": [{"id": "q", "role": "user", "content": "Hi?"}]})
    assert [(body["runId"], body.get("protocolVersion")) for body in asked] == [("r7", "1.0"), ("r7", None)]
    assert [body["messages"][0]["content"] for body in asked] == ["Hi?"] * 2
    assert {client: session.messages[-1]["content"] for client, session in seen.items()} == dict.fromkeys(
        oracles.CLIENTS, "hm"
    )
    with serving(without(END), []) as url, pytest.raises(AssertionError, match="no terminal event"):
        oracles.accept_url(url)


@contextlib.contextmanager
def serving(events: Events, asked: Events) -> Iterator[str]:
    """A server that answers every run with ``events``, split inside every frame."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
            for start in range(0, len(body), 7):
                self.wfile.write(body[start : start + 7])

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join(5)
