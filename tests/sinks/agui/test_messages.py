"""The conversation as a client gets it: what it sends back is what was given."""

from __future__ import annotations

import json
from typing import Any

import oracles
import pytest
from ag_ui.core import Message as Model
from pydantic import TypeAdapter

from anabranch.events import Part
from anabranch.request import Message, ToolCall
from anabranch.sinks.agui.messages import unshown, written
from anabranch.sinks.agui.parse import parse
from anabranch.sinks.agui.profile import Profile
from sinks.agui.histories import HANDLE, HISTORY
from sinks.watching import ASKED, MODERN, OLD

MODEL: TypeAdapter[Any] = TypeAdapter(Model)
PROFILES = (MODERN, OLD, ASKED)


def parsed(messages: list[dict[str, Any]]) -> tuple[Message, ...]:
    return parse(json.dumps({"threadId": "t", "runId": "r", "messages": messages}).encode())[0].messages


def file(mime_type: str = "", url: str = "https://x.test/a", **fields: Any) -> Message:
    return Message(id="u", role="user", parts=(Part(kind="file", mime_type=mime_type, url=url, **fields),))


def one(message: Message, profile: Profile = MODERN) -> dict[str, Any]:
    [shown] = written([message], profile)
    return shown


@pytest.mark.parametrize("profile", PROFILES)
def test_a_client_that_sends_the_conversation_back_sends_what_was_given(profile: Profile) -> None:
    assert parsed(written(HISTORY, profile)) == HISTORY
    assert HISTORY and {message.role for message in HISTORY} == {"system", "developer", "user", "assistant", "tool"}


@pytest.mark.parametrize(
    "message",
    [
        file("image/png"),
        file("image/*"),
        file("audio/wav", name="a.wav"),
        file("video/*"),
        file("application/pdf"),
        file(),
        file("image/png", "data:image/png;base64,AAAA"),
        file("image/*", "data:image/png;base64,AAAA"),
        file("text/plain", "data:text/html;base64,AAAA"),
        Message(id="u", role="user", parts=(Part(kind="text", text="a"), Part(kind="text", text="b"))),
        Message(id="u", role="user"),
        Message(id="a", role="assistant"),
        Message(id="a", role="assistant", tool_calls=(ToolCall(id="c", name="n"),)),
        Message(id="t", role="tool", tool_call_id="c", error="no such pod"),
    ],
    ids=repr,
)
def test_every_kind_of_content_comes_back_as_it_was(message: Message) -> None:
    for profile in PROFILES:
        assert parsed(written([message], profile)) == (message,)
        MODEL.validate_python(one(message, profile))


def test_a_providers_handle_of_a_file_is_a_source_to_new_clients_and_a_binary_part_to_old_ones() -> None:
    assert one(HANDLE)["content"] == [
        {"type": "document", "source": {"type": "file", "value": "f-1", "provider": "p", "mimeType": "application/pdf"}}
    ]
    assert one(HANDLE, OLD)["content"] == [{"type": "binary", "id": "f-1", "mimeType": "application/pdf"}]
    assert parsed([one(HANDLE)]) == (HANDLE,)
    MODEL.validate_python(one(HANDLE))


def test_what_a_client_of_one_point_oh_gave_as_a_tools_result_is_a_string_to_older_ones() -> None:
    parts = (Part(kind="text", text="a"), Part(kind="json", data={"n": 1}), Part(kind="file", url="https://x.test/a"))
    given = Message(id="t", role="tool", tool_call_id="c", parts=parts)
    assert [part["type"] for part in one(given)["content"]] == ["text", "text", "document"]
    assert one(given, OLD)["content"] == 'a\n{"n":1}'
    assert [*unshown([given], MODERN)] == []
    assert [*unshown([given], OLD)] == [(given, parts[2])]


def test_what_a_run_added_to_a_text_is_no_part_of_the_text() -> None:
    parts = (Part(kind="json", data={"n": 1}), Part(kind="file", url="https://x.test/a"))
    wrote = Message(id="m", role="assistant", content="See.", parts=parts)
    returned = Message(id="t", role="tool", tool_call_id="c", content="seen", parts=parts)
    for profile in PROFILES:
        assert [message["content"] for message in written([wrote, returned], profile)] == ["See.", "seen"]
        assert [*unshown([wrote, returned], profile)] == [(m, part) for m in (wrote, returned) for part in parts]


def test_who_wrote_a_message_is_its_sub_agent_or_a_note_for_clients_that_know_none() -> None:
    wrote = Message(id="m", role="assistant", content="x", agent="r:7")
    assert one(wrote) == one(wrote, ASKED) == {"id": "m", "role": "assistant", "content": "x", "subagentRunId": "r:7"}
    assert one(wrote, OLD) == {
        "id": "m",
        "role": "assistant",
        "content": "x",
        "metadata": {"anabranch": {"agent": "r:7"}},
    }


def test_a_turn_without_text_has_no_content_as_in_a_client_that_saw_it() -> None:
    turn = Message(
        id="m", role="assistant", tool_calls=(ToolCall(id="c", name="n", arguments="{}", origin_id="call_1"),)
    )
    call = {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}
    assert one(turn) == {"id": "m", "role": "assistant", "toolCalls": [call]}
    assert one(Message(id="m", role="assistant")) == {"id": "m", "role": "assistant", "content": ""}


@pytest.mark.oracle
@pytest.mark.parametrize("client", oracles.CLIENTS)
def test_the_clients_show_the_conversation_as_it_was_given_and_send_it_back(client: str) -> None:
    oracles.require()
    profile = MODERN if client == "1.0.0" else OLD
    start = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
    events = [
        start,
        {"type": "MESSAGES_SNAPSHOT", "messages": written((*HISTORY, HANDLE), profile)},
        start | {"type": "RUN_FINISHED"},
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    turns = [{"body": body}, {"body": body, "input": {"runId": "r2"}}]
    [seen] = oracles.sessions([{"client": client, "runs": turns}])
    assert [(run.violation, run.warnings) for run in seen.runs] == [(None, [])] * 2
    assert seen.messages == written((*HISTORY, HANDLE), profile)
    *back, handle = parsed(seen.sent[1]["messages"])
    assert tuple(back) == HISTORY
    assert handle.parts[0].data["file"] == "f-1"
