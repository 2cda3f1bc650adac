"""What of a run's text is its answer, and whether it is what the server promised."""

import json
import time

import pytest
from cases import CASES, Case
from cases._case import DONE, calls, lane, returns, says, text

from anabranch import events as ev
from anabranch.cli.chat.conversation import Conversation
from anabranch.cli.chat.reading import Reading, Unreadable
from tests.cli.double import event, events_of, frames

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def read(stream):
    """A run read to its end, and the pieces that were written."""
    reading = Reading()
    return reading, [reading.feed(each)[1] for each in events_of(stream)]


@every_case
def test_the_root_agents_text_is_written_once_and_is_what_the_server_promised(case: Case) -> None:
    reading, written = read(frames(case.items))
    assert reading.flaw is None
    assert reading.ending is not None
    if not any(isinstance(item, ev.MessageReset) for item in case.items):
        said = "".join(written)
        assert said in (case.text.get("", ""), reading.answer.text)
        assert reading.answer.text in said


@every_case
def test_a_piece_that_is_lost_or_repeated_breaks_the_promise(case: Case) -> None:
    stream = frames(case.items)
    owners = {e["messageId"] for e in events_of(stream) if e["type"] == "TEXT_MESSAGE_START"}
    finished = events_of(stream)[-1]
    promised = (finished.get("metadata") or {}).get("anabranch", {}).get("answer")
    pieces = [
        number
        for number, e in enumerate(events_of(stream))
        if promised and e["type"] == "TEXT_MESSAGE_CONTENT" and e["delta"] and e["messageId"] in promised["messageIds"]
    ]
    assert owners or not pieces
    for number in pieces:
        assert read([*stream[:number], *stream[number + 1 :]])[0].flaw
        assert read([*stream[: number + 1], *stream[number:]])[0].flaw


def test_text_is_written_as_it_comes() -> None:
    _, written = read(frames([*says("m", "a", "b", phase="undetermined"), DONE]))
    assert [piece for piece in written if piece] == ["a", "b"]


def test_what_is_known_not_to_be_the_answer_is_not_written() -> None:
    items = [
        *says("m1", "hm, ", phase="narration"),
        *says("m2", "50 %, ", phase="progress"),
        *lane("k", "komodor", says("m", "clusters", agent="k")),
        *says("m3", "done"),
        DONE,
    ]
    reading, written = read(frames(items))
    assert "".join(written) == reading.answer.text == "done"


def test_the_text_of_agents_that_answer_is_the_answer_unless_one_fails() -> None:
    items = [
        ev.AgentStarted(agent="k", name="komodor", answers=True),
        ev.AgentStarted(agent="k/i", name="inner", parent="k", answers=True),
        ev.AgentStarted(agent="k/o", name="other", parent="k"),
        *says("m", "clusters", agent="k/i"),
        *says("m", "beside", agent="k/o"),
        *(ev.AgentFinished(agent=agent) for agent in ("k/o", "k/i", "k")),
        ev.AgentStarted(agent="a", name="argocd", answers=True),
        *text("m", "half a wo", agent="a"),
        ev.AgentFailed(agent="a", code="no_end", message="It stopped."),
        DONE,
    ]
    reading, written = read(frames(items))
    assert ("".join(written), reading.answer.text, reading.flaw) == ("clustershalf a wo", "clusters", None)


def test_what_turns_out_to_be_narration_was_written_and_is_not_the_answer() -> None:
    items = [
        ev.MessageStarted(message_id="m1"),
        *text("m1", "I look. "),
        ev.MessageFinished(message_id="m1", phase="narration"),
        *says("m2", "Found."),
        DONE,
    ]
    reading, written = read(frames(items))
    assert ("".join(written), reading.answer.text, reading.flaw) == ("I look. Found.", "Found.", None)


def test_of_two_open_messages_the_second_waits_for_the_first() -> None:
    items = [
        ev.MessageStarted(message_id="m1"),
        ev.MessageStarted(message_id="m2"),
        *text("m2", "two"),
        *text("m1", "one "),
        ev.MessageFinished(message_id="m2", phase="answer"),
        *text("m1", "one "),
        ev.MessageFinished(message_id="m1", phase="answer"),
        DONE,
    ]
    reading, written = read(frames(items))
    assert [piece for piece in written if piece] == ["one ", "one ", "two"]
    assert reading.flaw is None


def test_text_that_waits_is_written_when_the_stream_is_cut() -> None:
    reading = Reading()
    pieces = [
        reading.feed(each)[1]
        for each in events_of(
            [
                event("TEXT_MESSAGE_START", messageId="a"),
                event("TEXT_MESSAGE_START", messageId="b"),
                event("TEXT_MESSAGE_CONTENT", messageId="b", delta="late"),
                event("TEXT_MESSAGE_CONTENT", messageId="a", delta="first "),
            ]
        )
    ]
    assert "".join(pieces) == "first "
    assert reading.answer.close() == "late"


def test_what_was_written_and_is_void_is_known_to_be_spoiled() -> None:
    void = [*says("m1", "The anser")[:-1], ev.MessageReset(message_id="m1", superseded_by="m2", reason="retry")]
    reading, _ = read(frames([*void, *says("m2", "The answer"), DONE]))
    assert reading.answer.spoiled and reading.answer.text == "The answer" and reading.flaw is None
    reading, _ = read(frames([*says("m1", "fine"), DONE]))
    assert not reading.answer.spoiled


def test_the_abbreviated_events_of_other_servers_are_text_and_calls_too() -> None:
    stream = [
        event("RUN_STARTED", threadId="t", runId="r"),
        event("TEXT_MESSAGE_CHUNK", messageId="m", role="assistant", delta="let me "),
        event("TEXT_MESSAGE_CHUNK", delta="see. "),
        event("TOOL_CALL_CHUNK", toolCallId="c", toolCallName="look", parentMessageId="m", delta='{"q":'),
        event("TOOL_CALL_CHUNK", delta="1}"),
        event("TOOL_CALL_RESULT", messageId="x", toolCallId="c", content="cheese"),
        event("TEXT_MESSAGE_CHUNK", messageId="m2", delta="Cheese."),
        event("RUN_FINISHED", threadId="t", runId="r"),
    ]
    conversation = Conversation()
    reading = Reading(conversation)
    assert "".join(reading.feed(each)[1] for each in events_of(stream)) == "let me see. Cheese."
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"q":1}'}}
    assert conversation.messages == [
        {"id": "m", "role": "assistant", "content": "let me see. ", "toolCalls": [call]},
        {"id": "x", "role": "tool", "toolCallId": "c", "content": "cheese"},
        {"id": "m2", "role": "assistant", "content": "Cheese."},
    ]


@pytest.mark.parametrize(
    ("last", "status", "code", "message"),
    [
        (event("RUN_FINISHED", threadId="t", runId="r"), "success", "", ""),
        (event("RUN_FINISHED", threadId="t", runId="r", outcome={"type": "cancelled"}), "cancelled", "cancelled", ""),
        (event("RUN_ERROR", message="no model", code="model_error"), "failed", "model_error", "no model"),
        (event("RUN_ERROR", message="no model"), "failed", "", "no model"),
    ],
)
def test_how_a_run_ended_is_read_from_its_terminal_event(last, status, code, message) -> None:
    reading, _ = read([event("RUN_STARTED", threadId="t", runId="r"), last])
    ending = reading.ending
    assert (ending.status, ending.code, ending.message) == (status, code, message)


def test_an_outcome_of_a_later_protocol_is_no_success() -> None:
    reading, _ = read([event("RUN_FINISHED", threadId="t", runId="r", outcome={"type": "paused"})])
    assert reading.ending.status == "failed" and "paused" in reading.ending.message


@pytest.mark.parametrize(
    "broken",
    [
        event("TEXT_MESSAGE_START"),
        event("TEXT_MESSAGE_CONTENT", messageId="m"),
        event("RUN_FINISHED", outcome="success"),
        event("RUN_FINISHED", outcome={"type": "interrupt"}),
        event("TOOL_CALL_RESULT", toolCallId="c"),
        event("MESSAGES_SNAPSHOT"),
        event("MESSAGES_SNAPSHOT", messages=[{"id": "a", "role": "assistant", "toolCalls": [{"id": "c"}]}]),
        event("TEXT_MESSAGE_CONTENT", messageId="m", delta=5),
        event("RUN_FINISHED", outcome={"type": "interrupt", "interrupts": [{"reason": "x"}]}),
    ],
)
def test_an_event_without_what_the_protocol_requires_is_refused_by_name(broken) -> None:
    reading = Reading()
    reading.feed(events_of([event("TEXT_MESSAGE_START", messageId="m")])[0])
    with pytest.raises(Unreadable, match="AG-UI requires"):
        reading.feed(events_of([broken])[0])


# --- what is sent with the next turn ---------------------------------------------------------------------------------


@every_case
def test_the_conversation_is_what_a_client_holds_after_the_run(case: Case) -> None:
    conversation = Conversation()
    conversation.say("u1", "go")
    reading = Reading(conversation)
    stream = frames(case.items)
    for each in events_of(stream):
        reading.feed(each)
    messages = conversation.messages
    assert len({message["id"] for message in messages}) == len(messages)
    calls_made = [call["id"] for message in messages for call in message.get("toolCalls", ())]
    assert len(set(calls_made)) == len(calls_made)
    results = [message["toolCallId"] for message in messages if message["role"] == "tool"]
    assert set(results) <= set(calls_made)
    if reading.ending.status in ("failed", "cancelled"):
        assert set(calls_made) == set(results)
    spoken = [m for m in messages if m["role"] != "tool" and m["id"] != "u1" and "subagentRunId" not in m]
    assert "".join(message["content"] for message in spoken) == case.text.get("", "")
    json.dumps(messages)


def test_a_result_follows_the_message_that_called() -> None:
    items = [
        *calls("c1", "one", "{}", turn="t1"),
        *calls("c2", "two", "{}", turn="t1"),
        *says("m", "Meanwhile."),
        returns("c2", "2"),
        returns("c1", "1"),
        *says("m2", "Done."),
        DONE,
    ]
    conversation = Conversation()
    reading = Reading(conversation)
    for each in events_of(frames(items)):
        reading.feed(each)
    assert [message["role"] for message in conversation.messages] == [
        "assistant",
        "tool",
        "tool",
        "assistant",
        "assistant",
    ]


def test_a_snapshot_of_a_server_replaces_what_the_client_holds() -> None:
    conversation = Conversation()
    conversation.say("u1", "go")
    reading = Reading(conversation)
    snapshot = [
        {"id": "u1", "role": "user", "content": "go"},
        {"id": "a1", "role": "assistant", "content": "hello"},
        {"id": "r1", "role": "reasoning", "content": "hm"},
    ]
    for each in events_of(
        [
            event("TEXT_MESSAGE_START", messageId="a1"),
            event("TEXT_MESSAGE_CONTENT", messageId="a1", delta="hello"),
            event("TEXT_MESSAGE_END", messageId="a1"),
            event("MESSAGES_SNAPSHOT", messages=snapshot),
        ]
    ):
        reading.feed(each)
    assert conversation.messages == snapshot[:2]


def test_a_long_text_costs_its_length() -> None:
    reading = Reading()
    reading.feed({"type": "TEXT_MESSAGE_START", "messageId": "m"})
    piece = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x" * 100}
    for _ in range(50_000):
        reading.feed(piece)
    assert len(reading.answer.text) == 5_000_000


def test_a_call_that_is_void_takes_its_result_with_it() -> None:
    conversation = Conversation()
    reading = Reading(conversation)
    for each in events_of(
        [
            event("TOOL_CALL_START", toolCallId="c", toolCallName="one"),
            event("TOOL_CALL_RESULT", toolCallId="c", messageId="r", content="1"),
            event("CUSTOM", name="anabranch.run_resumed", value={"voidedMessageIds": [], "voidedToolCallIds": ["c"]}),
        ]
    ):
        reading.feed(each)
    assert conversation.messages == []


def test_a_run_of_thousands_of_calls_costs_its_length() -> None:
    conversation, began = Conversation(), time.process_time()
    reading = Reading(conversation)
    for number in range(20_000):
        of = {"toolCallId": f"c{number}"}
        reading.feed({"type": "TOOL_CALL_START", "toolCallName": "one"} | of)
        reading.feed({"type": "TOOL_CALL_RESULT", "messageId": f"r{number}", "content": str(number)} | of)
    assert [message["content"] for message in conversation.messages[1::2]] == list(map(str, range(20_000)))
    assert time.process_time() - began < 5
