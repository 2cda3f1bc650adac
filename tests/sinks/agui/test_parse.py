"""What a RunAgentInput asks for: as the official model reads it, and where that is stricter, as its sender meant it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from anabranch.errors import ClientError
from anabranch.events import Part
from anabranch.request import Message, Resume, RunRequest, ToolCall, ToolSpec
from anabranch.sinks.agui.parse import parse
from anabranch.sinks.agui.profile import Profile

IDS = {"threadId": "t", "runId": "r"}


def asked(**fields: Any) -> RunRequest:
    """The request of a body with ``fields``."""
    return parse(json.dumps(IDS | fields).encode())[0]


def message(**fields: Any) -> Message:
    """The only message of a body."""
    [only] = asked(messages=[{"id": "m"} | fields]).messages
    return only


def part(**fields: Any) -> Part:
    """The only part of a user's message."""
    [only] = message(role="user", content=[fields]).parts
    return only


def refused(body: Any) -> ClientError:
    """Why a body is refused."""
    with pytest.raises(ClientError) as found:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode())
    return found.value


# --- what is read -----------------------------------------------------------------------------------------------------


def test_two_ids_are_all_that_a_run_needs() -> None:
    nothing = dict.fromkeys(("tools", "context", "state", "forwardedProps", "resume", "messages", "parentRunId"))
    for body in (IDS, IDS | nothing, {"thread_id": "t", "run_id": "r", "something": "else"}):
        assert parse(json.dumps(body).encode()) == (RunRequest(run_id="r", thread_id="t"), Profile(False, "steps"))


def test_camel_case_wins_where_a_name_is_spelled_in_both_ways() -> None:
    for body in ('{"thread_id":"x","threadId":"t","runId":"r"}', '{"threadId":"t","thread_id":"x","runId":"r"}'):
        assert parse(body.encode())[0].thread_id == "t"


def test_everything_that_a_client_may_send_is_read() -> None:
    schema = {"type": "object"}
    request, profile = parse(
        json.dumps(
            IDS
            | {
                "protocolVersion": "1.0",
                "parentRunId": "r0",
                "state": {"n": 1},
                "forwardedProps": {"model": "big"},
                "tools": [{"name": "pick", "description": "Pick one.", "parameters": schema}, {"name": "bare"}],
                "context": [{"description": "page", "value": "/pods"}],
                "resume": [
                    {"interruptId": "i1", "status": "resolved", "payload": {"tool_call_id": True}},
                    {"interrupt_id": "i2", "status": "cancelled"},
                ],
            }
        ).encode()
    )
    assert profile == Profile(True, "native")
    assert request == RunRequest(
        run_id="r",
        thread_id="t",
        parent_run_id="r0",
        state={"n": 1},
        options={"model": "big"},
        tools=(ToolSpec(name="pick", description="Pick one.", parameters=schema), ToolSpec(name="bare")),
        context=({"description": "page", "value": "/pods"},),
        resume=(
            Resume(interrupt_id="i1", payload={"tool_call_id": True}),
            Resume(interrupt_id="i2", status="cancelled"),
        ),
    )


def test_a_history_keeps_its_roles_calls_results_and_errors() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"tool_call_id":1}'}}
    history = [
        {"id": "1", "role": "system", "content": "Be kind."},
        {"id": "2", "role": "developer", "content": "Be brief.", "name": "dev"},
        {"id": "3", "role": "user", "content": "Hi"},
        {"id": "4", "role": "assistant", "tool_calls": [call]},
        {"id": "5", "role": "tool", "content": "Error: foo", "tool_call_id": "c"},
        {"id": "6", "role": "tool", "content": "", "toolCallId": "c", "error": "no such pod"},
        {"id": "7", "role": "assistant", "content": None, "toolCalls": None, "encryptedValue": "x"},
    ]
    assert asked(messages=history).messages == (
        Message(id="1", role="system", content="Be kind."),
        Message(id="2", role="developer", content="Be brief.", name="dev"),
        Message(id="3", role="user", content="Hi"),
        Message(id="4", role="assistant", tool_calls=(ToolCall(id="c", name="look", arguments='{"tool_call_id":1}'),)),
        Message(id="5", role="tool", content="Error: foo", tool_call_id="c"),
        Message(id="6", role="tool", tool_call_id="c", error="no such pod"),
        Message(id="7", role="assistant"),
    )


def test_what_only_a_page_shows_is_not_for_the_model() -> None:
    history = [
        {"id": "1", "role": "activity", "activityType": "plan", "content": {"todos": []}},
        {"id": "2", "role": "reasoning", "content": "hm"},
        {"id": "3", "role": "hologram", "beam": 7},
        {"id": "4", "role": "user", "content": "Hi"},
    ]
    assert [message.id for message in asked(messages=history).messages] == ["4"]


def test_a_message_keeps_the_agent_that_wrote_it() -> None:
    noted = {"anabranch": {"agent": "a"}}
    calls = [{"id": "c", "function": {"name": "look", "arguments": ""}, "metadata": noted}]
    assert message(role="assistant", content="x", subagentRunId="a").agent == "a"
    assert message(role="assistant", content="x", subagent_run_id="a").agent == "a"
    assert message(role="assistant", content="x", metadata=noted).agent == "a"
    assert message(role="assistant", toolCalls=calls).agent == "a"
    for nothing in (None, {}, {"anabranch": 1}, {"anabranch": {"agent": 7}}, {"else": noted}):
        assert message(role="assistant", content="x", metadata=nothing).agent == ""


def test_a_tools_failure_comes_back_from_our_own_note_too() -> None:
    def error(**fields: Any) -> str | None:
        return message(role="tool", toolCallId="c", content="text", **fields).error

    assert error(metadata={"anabranch": {"isError": True, "error": "gone"}}) == "gone"
    assert error(metadata={"anabranch": {"isError": True}}) == "text"
    assert error(error="theirs", metadata={"anabranch": {"isError": True, "error": "gone"}}) == "theirs"
    assert error(metadata={"anabranch": {}}) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "text", "text": "Hi"}, Part(kind="text", text="Hi")),
        (
            {"type": "image", "source": {"type": "url", "value": "https://x.test/a", "mimeType": "image/png"}},
            Part(kind="file", url="https://x.test/a", mime_type="image/png"),
        ),
        (
            {
                "type": "video",
                "source": {"type": "url", "value": "https://x.test/a"},
                "metadata": {"filename": "a.mp4"},
            },
            Part(kind="file", url="https://x.test/a", mime_type="video/*", name="a.mp4"),
        ),
        (
            {"type": "audio", "source": {"type": "data", "value": "AAA=", "mime_type": "audio/wav"}, "metadata": 7},
            Part(kind="file", url="data:audio/wav;base64,AAA=", mime_type="audio/wav"),
        ),
        (
            {"type": "document", "source": {"type": "file", "value": "file-1", "provider": "openai"}},
            Part(kind="file", data={"file": "file-1", "provider": "openai"}),
        ),
        (
            {"type": "binary", "mimeType": "image/png", "url": "https://x.test/a", "filename": "a.png"},
            Part(kind="file", url="https://x.test/a", mime_type="image/png", name="a.png"),
        ),
        (
            {"type": "binary", "mime_type": "application/pdf", "data": "AAA="},
            Part(kind="file", url="data:application/pdf;base64,AAA=", mime_type="application/pdf"),
        ),
        (
            {"type": "binary", "mimeType": "image/png", "id": "file-1"},
            Part(kind="file", data={"file": "file-1", "provider": None}, mime_type="image/png"),
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_a_part_is_text_or_a_file_by_reference(given: dict[str, Any], expected: Part) -> None:
    assert part(**given) == expected


def test_how_to_tell_sub_agents_can_be_asked_for() -> None:
    body = json.dumps(IDS).encode()
    assert parse(body, {"x-anabranch-subagents": "native"})[1].subagents == "native"
    assert parse(body, {"x-anabranch-subagents": "native"}, {"subagents": "steps"})[1].subagents == "steps"
    with pytest.raises(ClientError, match="'native' or 'steps'"):
        parse(body, None, {"subagents": "all"})


@pytest.mark.parametrize(
    ("version", "modern"),
    [(None, False), ("", False), ("0.9", False), ("00.1", False), ("1.0", True), ("2.7", True), ("10.0", True)]
    + [("next", True), ("1", True), ("9" * 5_000 + ".0", True), ("0" * 5_000 + ".9", False)],
)
def test_a_client_is_as_old_as_it_says_however_long_it_says_it(version: str | None, modern: bool) -> None:
    assert parse(json.dumps(IDS | {"protocolVersion": version}).encode())[1].modern is modern


def test_half_an_emoji_in_a_history_does_not_end_the_conversation() -> None:
    body = (
        rb'{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"a\ud83d \ud83d\ude80 \u2028"}]}'
    )
    assert parse(body)[0].messages[0].content == "a\ufffd \U0001f680 \u2028"
    assert parse(b"\xef\xbb\xbf" + json.dumps(IDS).encode())[0].run_id == "r"


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        (b"", "line 1, column 1"),
        (b'{"threadId": "t",\n "runId" 7}', "line 2, column 10"),
        (b'{"threadId": "t"', "line 1, column 17"),
        (b'{"threadId": "\xff"}', "not UTF-8: see byte 14"),
        (b'{"state": NaN}', "NaN and Infinity"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"state": ' + b"1" * 5_000 + b"}", "a number that is too long"),
        (b'{"x": "\\ud800", "state": [' + b"1" * 5_000 + b"]}", "a number that is too long"),
    ],
    ids=["empty", "malformed", "cut", "not utf-8", "not a number", "deep", "long", "long and cut inside an emoji"],
)
def test_what_is_not_json_is_refused_with_the_place(body: bytes, flaw: str) -> None:
    error = refused(body)
    assert (error.status, error.code) == (400, "bad_json")
    assert flaw in str(error)


def test_depth_that_no_stack_holds_is_refused_where_it_is_read_too() -> None:
    deep = b'[{"role":"user","content":' * 300 + b"1" + b"}]" * 300
    assert refused(b'{"threadId":"t","runId":"r","messages":' + deep + b"}").status in (400, 422)


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        ([], "$ cannot be used: expected object, got array"),
        ({}, "$.runId cannot be used: it is missing; send a string of 1 to 256 printable characters"),
        ({"runId": "r"}, "$.threadId cannot be used: it is missing"),
        ({"runId": "", "threadId": "t"}, '$.runId cannot be used: it is ""'),
        ({"runId": "r\nid: 9", "threadId": "t"}, "$.runId"),
        ({"runId": "r ", "threadId": "t"}, "$.runId"),
        ({"runId": "r" * 257, "threadId": "t"}, "$.runId"),
        ({"runId": "r", "threadId": 7}, "$.threadId cannot be used: it is 7"),
        (IDS | {"parentRunId": "\x00"}, "$.parentRunId"),
        (IDS | {"messages": {}}, "$.messages cannot be used: expected array | null, got object"),
        (IDS | {"messages": ["Hi"]}, "$.messages[0] cannot be used: expected object, got str"),
        (
            IDS | {"messages": [{"id": "1", "content": "Hi"}]},
            "$.messages[0].role cannot be used: send one of assistant",
        ),
        (IDS | {"messages": [{"id": "1", "role": {}}]}, "$.messages[0].role"),
        (IDS | {"messages": [{"role": "user", "content": "Hi"}]}, "$.messages[0] cannot be used: object missing"),
        (IDS | {"messages": [{"id": "1", "role": "user"}]}, "$.messages[0].content cannot be used: it is missing"),
        (
            IDS | {"messages": [{"id": "0", "role": "beam"}, {"id": "1", "role": "user", "content": 7}]},
            "$.messages[1].content cannot be used: expected str | array | null, got int",
        ),
        (
            IDS | {"messages": [{"id": "1", "role": "user", "content": [{"type": "smell"}]}]},
            "$.messages[0].content[0].type cannot be used: invalid value 'smell'",
        ),
        (
            IDS | {"messages": [{"id": "1", "role": "user", "content": [{"type": "binary", "mimeType": "a/b"}]}]},
            "$.messages[0].content[0] cannot be used: a binary part needs one of url, data and id",
        ),
        (
            IDS
            | {
                "messages": [
                    {"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "data", "value": ""}}]}
                ]
            },
            "$.messages[0].content[0].source.mimeType cannot be used: it is missing",
        ),
        (IDS | {"messages": [{"id": "1", "role": "tool", "content": ""}]}, "$.messages[0].toolCallId"),
        (
            IDS | {"messages": [{"id": "1", "role": "assistant", "toolCalls": [{"id": "c", "function": {}}]}]},
            "$.messages[0].toolCalls[0].function cannot be used: object missing required field name",
        ),
        (IDS | {"tools": [{"description": "x"}]}, "$.tools[0] cannot be used: object missing required field name"),
        (IDS | {"context": ["x"]}, "$.context[0]"),
        (IDS | {"resume": [{"interruptId": "i", "status": "maybe"}]}, "$.resume[0].status"),
        (IDS | {"protocolVersion": 1.0}, "$.protocolVersion cannot be used: expected str | null, got float"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_missing_or_of_the_wrong_type_is_refused_with_its_path(body: Any, flaw: str) -> None:
    error = refused(body)
    assert (error.status, error.code) == (422, "bad_input")
    assert str(error).startswith(flaw)


# --- the official model -----------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ids = st.sampled_from(["1", "run-2", "\N{ROCKET}"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)
metadata = st.none() | st.dictionaries(texts, anything, max_size=2)


def shape(optional: dict[str, Any], **required: Any) -> st.SearchStrategy[dict[str, Any]]:
    """An object: optional fields may be there, null or absent, and names in either spelling."""
    fields = st.fixed_dictionaries(required, optional={name: st.none() | value for name, value in optional.items()})
    return st.tuples(fields, st.booleans()).map(
        lambda drawn: {to_snake(name) if drawn[1] else name: value for name, value in drawn[0].items()}
    )


sources = (
    shape({}, type=st.just("data"), value=texts, mimeType=texts)
    | shape({"mimeType": texts}, type=st.just("url"), value=texts)
    | shape({"mimeType": texts, "provider": texts}, type=st.just("file"), value=texts)
)
media = st.sampled_from(["image", "audio", "video", "document"])
parts = st.lists(
    shape({"metadata": anything, "id": ids}, type=st.just("text"), text=texts)
    | shape({"metadata": anything, "id": ids}, type=media, source=sources),
    max_size=2,
)
calls = st.lists(
    shape(
        {"metadata": metadata, "encryptedValue": texts},
        id=ids,
        type=st.just("function"),
        function=shape({}, name=texts, arguments=texts),
    ),
    max_size=2,
)
unnamed = {"metadata": metadata, "encryptedValue": texts, "subagentRunId": ids}
extras = unnamed | {"name": texts}
messages = st.lists(
    st.one_of(
        shape(extras, id=ids, role=st.sampled_from(["system", "developer"]), content=texts),
        shape(extras, id=ids, role=st.just("user"), content=texts | parts),
        shape(extras | {"content": texts, "toolCalls": calls}, id=ids, role=st.just("assistant")),
        shape(unnamed | {"error": texts}, id=ids, role=st.just("tool"), content=texts | parts, toolCallId=ids),
        shape(extras, id=ids, role=st.just("activity"), activityType=texts, content=st.dictionaries(texts, anything)),
        shape(extras, id=ids, role=st.just("reasoning"), content=texts),
    ),
    max_size=3,
)
bodies = shape(
    {
        "protocolVersion": st.sampled_from(["0.9", "1.0"]),
        "parentRunId": ids,
        "state": anything,
        "forwardedProps": anything,
        "tools": st.lists(
            shape({"parameters": anything, "metadata": metadata}, name=texts, description=texts), max_size=2
        ),
        "context": st.lists(shape({}, description=texts, value=texts), max_size=2),
        "resume": st.lists(
            shape(
                {"payload": anything, "metadata": metadata},
                interruptId=ids,
                status=st.sampled_from(["resolved", "cancelled"]),
            ),
            max_size=2,
        ),
        "somethingNew": anything,
    },
    threadId=ids,
    runId=ids,
    messages=messages,
)


def official(body: RunAgentInput) -> RunRequest:
    """What the official model read, in our words."""
    kept = [m for m in body.messages if m.role not in ("activity", "reasoning")]
    return RunRequest(
        run_id=body.run_id,
        thread_id=body.thread_id,
        parent_run_id=body.parent_run_id,
        state=body.state,
        options=body.forwarded_props,
        messages=tuple(map(official_message, kept)),
        tools=tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in body.tools or ()
        ),
        context=tuple(item.model_dump() for item in body.context or ()),
        resume=tuple(
            Resume(interrupt_id=r.interrupt_id, status=r.status, payload=r.payload) for r in body.resume or ()
        ),
    )


def official_message(given: Any) -> Message:
    content = given.content or ""
    return Message(
        id=given.id,
        role=given.role,
        content=content if isinstance(content, str) else "",
        parts=() if isinstance(content, str) else tuple(map(official_part, content)),
        name=getattr(given, "name", None),
        tool_calls=tuple(
            ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in getattr(given, "tool_calls", None) or ()
        ),
        tool_call_id=getattr(given, "tool_call_id", None),
        error=getattr(given, "error", None),
        agent=given.subagent_run_id or "",
    )


def official_part(given: Any) -> Part:
    if given.type == "text":
        return Part(kind="text", text=given.text)
    source = given.source
    mime_type = source.mime_type or ("" if given.type == "document" else f"{given.type}/*")
    if source.type == "file":
        return Part(kind="file", data={"file": source.value, "provider": source.provider}, mime_type=mime_type)
    url = source.value if source.type == "url" else f"data:{mime_type};base64,{source.value}"
    return Part(kind="file", url=url, mime_type=mime_type)


@settings(max_examples=200, deadline=None, database=None)
@given(bodies)
def test_what_the_official_model_reads_is_read_the_same(body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    assert parse(raw)[0] == official(RunAgentInput.model_validate_json(raw))


@settings(max_examples=200, deadline=None, database=None)
@given(bodies, st.data())
def test_what_we_refuse_the_official_model_refuses_too(body: dict[str, Any], data: st.DataObject) -> None:
    places = [(body, key) for key in body]
    places += [(m, key) for m in body.get("messages", ()) for key in m if m["role"] not in ("activity", "reasoning")]
    where, key = data.draw(st.sampled_from(places))
    where[key] = data.draw(anything)
    raw = json.dumps(body).encode()
    try:
        parse(raw)
    except ClientError as error:
        if str(error).startswith(("$.runId", "$.threadId", "$.parentRunId")):
            return  # ids travel in frames and paths here, so they are held to more
        with pytest.raises(ValidationError):
            RunAgentInput.model_validate_json(raw)
