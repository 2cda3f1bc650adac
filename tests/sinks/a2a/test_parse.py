"""What a client asks for, from the JSON of both versions and bindings; and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.errors import ClientError
from anabranch.events import Part
from anabranch.request import Message, Resume
from anabranch.sinks.a2a import listing, messages, parse, refusals, wire
from anabranch.sinks.a2a.messages import Sent
from anabranch.sinks.a2a.profile import EXTENSION, Profile

V1 = {"a2a-version": "1.0"}
SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


def called(method: str = "SendMessage", params: Any = None, headers: Any = V1, **more: Any) -> parse.Call:
    """The call that a JSON-RPC request makes."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": SAID} if params is None else params}
    return parse.rpc_call(asked | more, headers, {})


def sent(**fields: Any) -> Sent:
    """A message of 1.0, checked; None takes a field away."""
    said = {name: value for name, value in (SAID | fields).items() if value is not None}
    return messages.sent(called(params={"message": said}).params)


def refusal(raised: pytest.ExceptionInfo[ClientError]) -> int:
    """The number that a client is told."""
    number: int = refusals.rpc(raised.value)[0]["code"]
    return number


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_message_becomes_a_run_with_its_id_in_a_context_of_its_own() -> None:
    asked = sent().request()
    assert (asked.run_id, asked.messages) == ("a2a:m", (Message(id="m", role="user", content="hi"),))
    assert asked == sent().request() and asked.thread_id != sent(messageId="n").request().thread_id
    assert (asked.resume, asked.options, asked.tools) == ((), None, ())
    assert sent(contextId="c").request().thread_id == "c"


@pytest.mark.parametrize("id", ["x" * 300, "line\nbreak", " m ", "\0", "x" * 1023])
def test_an_id_that_cannot_be_in_an_event_id_is_known_by_its_digest(id: str) -> None:
    found = sent(messageId=id)
    assert len(found.run_id) < 80 and found.run_id.isprintable() and found.message.id == id
    assert found.run_id == sent(messageId=id).run_id != sent(messageId=id[:-1] + "!\n").run_id


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"text": ""}, Part(kind="text", text="")),
        ({"text": "x", "mediaType": "text/html"}, Part(kind="text", text="x", mime_type="text/html")),
        ({"text": "x", "data": None, "raw": None}, Part(kind="text", text="x")),
        ({"data": {"a": [1]}}, Part(kind="json", data={"a": [1]})),
        ({"data": None}, Part(kind="json", data=None)),
        ({"data": 0}, Part(kind="json", data=0)),
        ({"url": "https://x.test/a", "filename": "a"}, Part(kind="file", url="https://x.test/a", name="a")),
        (
            {"raw": "AP/+", "mediaType": "image/png"},
            Part(kind="file", url="data:image/png;base64,AP/+", mime_type="image/png"),
        ),
        (
            {"raw": "AP_-_w"},
            Part(
                kind="file", url="data:application/octet-stream;base64,AP/+/w==", mime_type="application/octet-stream"
            ),
        ),
    ],
    ids=str,
)
def test_a_part_is_what_it_holds(part: Any, expected: Part) -> None:
    assert sent(parts=[{"text": "see"}, part]).message.parts == (Part(kind="text", text="see"), expected)


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"text": "x", "data": 1},
        {"text": "x", "url": "u:v"},
        {"raw": "?"},
        {"raw": "AAAAA"},
        {"raw": "AA", "mediaType": "a,b"},
        {"url": "u:v", "mediaType": "a b"},
        {"text": 3},
        "text",
    ],
    ids=str,
)
def test_a_part_that_holds_nothing_two_things_or_something_else_is_refused(part: Any) -> None:
    with pytest.raises(ClientError, match=r"parts\[") as raised:
        sent(parts=[part])
    assert refusal(raised) == -32602


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messageId", None),
        ("messageId", ""),
        ("messageId", 7),
        ("messageId", "x" * 1025),
        ("role", None),
        ("role", "ROLE_AGENT"),
        ("role", "user"),
        ("role", 1),
        ("parts", None),
        ("parts", []),
        ("parts", {}),
        ("contextId", 1),
        ("contextId", "x" * 257),
        ("contextId", "a\nb"),
        ("taskId", ["x"]),
    ],
)
def test_a_message_that_lacks_something_or_has_it_wrong_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ClientError, match=field) as raised:
        sent(**{field: value})
    assert refusal(raised) == -32602


def test_an_answer_is_its_data_or_else_its_text_for_each_question() -> None:
    for parts, payload in (
        ([{"text": "a"}, {"text": "b"}], "ab"),
        ([{"text": "a"}, {"data": {"x": 1}}, {"data": 2}], {"x": 1}),
        ([{"data": False}], False),
    ):
        asked = sent(parts=parts, taskId="t").request("c", ["q1", "q2"])
        assert asked.thread_id == "c"
        assert asked.resume == tuple(Resume(interrupt_id=id, payload=payload) for id in ("q1", "q2"))


def test_metadata_is_passed_through_and_the_messages_own_comes_first() -> None:
    params = {"message": SAID | {"metadata": {"a": 1}}, "metadata": {"a": 0, "b": 2}}
    assert messages.sent(called(params=params).params).request().options == {"a": 1, "b": 2}


def test_how_the_client_wants_to_be_answered() -> None:
    params = {"message": SAID, "configuration": {"returnImmediately": True, "historyLength": 3}}
    found = messages.sent(called(params=params).params)
    assert (found.at_once, found.history_length) == (True, 3)
    assert (sent().at_once, sent().history_length) == (False, None)
    old = {"message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}}
    for blocking, at_once in ((None, False), (True, False), (False, True)):
        wanted = {} if blocking is None else {"configuration": {"blocking": blocking}}
        assert messages.sent(called("message/send", old | wanted, {}).params).at_once is at_once


def test_a_message_reads_the_same_in_both_versions_and_bindings() -> None:
    parts = [{"kind": "text", "text": "a"}, {"kind": "data", "data": {"x": 1}}]
    old = called("message/send", {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": parts}}, {})
    modern = {"message": SAID | {"parts": [{"text": "a"}, {"data": {"x": 1}}]}}
    wrapped = [{"text": "a"}, {"data": {"data": {"x": 1}}}]
    rest = {"message": {"messageId": "m", "role": "ROLE_USER", "content": wrapped}, "configuration": {"blocking": True}}
    calls = [
        old,
        called(params=modern),
        parse.rest_call("SendMessage", modern, "1.0", {}),
        parse.rest_call("SendMessage", rest, "0.3", {}),
    ]
    assert len({json.dumps([repr(messages.sent(call.params))]) for call in calls}) == 1


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a": NaN}',
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"id": ' + b"9" * 5000 + b"}",
    ],
    ids=["empty", "cut", "NaN", "no UTF-8", "deep arrays", "deep objects", "a long number"],
)
def test_what_is_no_json_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ClientError) as raised:
        parse.decode(body)
    assert refusal(raised) == -32700


def test_half_a_character_is_replaced() -> None:
    assert parse.decode(b'{"a": "x\\ud83d"}') == {"a": "x\ufffd"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": None},
        {"id": True},
        {"id": {}},
        {"id": [1]},
        {"method": None},
        {"method": ""},
        {"method": 3},
    ],
    ids=str,
)
def test_what_is_no_json_rpc_request_is_an_invalid_request(wrong: Any) -> None:
    with pytest.raises(ClientError) as raised:
        called(**wrong)
    assert refusal(raised) == -32600


@pytest.mark.parametrize("said", [[], [{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}], "x", 1, None])
def test_a_batch_and_what_is_no_object_is_an_invalid_request(said: Any) -> None:
    with pytest.raises(ClientError) as raised:
        parse.rpc_call(said, V1, {})
    assert refusal(raised) == -32600 and parse.request_id(said) is None


@pytest.mark.parametrize("id", ["x", "", 0, 7, 1.5, None])
def test_the_id_of_a_request_is_that_of_its_answer(id: Any) -> None:
    assert (
        called(id=id).envelope.around(b"1")
        == json.dumps({"jsonrpc": "2.0", "id": id, "result": 1}, separators=(",", ":")).encode()
    )


VERSIONS = [
    ({"a2a-version": "99.0"}, {}, None),
    ({"a2a-version": "1.9"}, {}, None),
    ({"a2a-version": "1"}, {}, None),
    ({"a2a-version": "1.0.0"}, {}, None),
    ({"a2a-version": "0.2"}, {}, None),
    ({}, {}, "0.3"),
    ({"a2a-version": ""}, {}, "0.3"),
    ({"a2a-version": "0.3"}, {}, "0.3"),
    ({"a2a-version": "1.0"}, {}, "1.0"),
    ({"a2a-version": " 1.0 "}, {}, "1.0"),
    ({}, {"A2A-Version": "1.0"}, "1.0"),
    ({}, {"A2A-Version": "1.9"}, None),
    ({"a2a-version": "1.0"}, {"A2A-Version": "0.3"}, "1.0"),
]


@pytest.mark.parametrize(("headers", "query", "expected"), VERSIONS, ids=str)
def test_the_version_is_what_the_client_says_or_0_3(headers: Any, query: Any, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ClientError, match="1.0 or 0.3") as raised:
            parse.spoken(headers, query)
        assert refusal(raised) == -32009
    else:
        assert parse.spoken(headers, query) == expected


def test_a_method_of_1_0_without_its_version_is_told_the_header() -> None:
    for method in ("GetTask", "ListTasks", "GetExtendedAgentCard", "CreateTaskPushNotificationConfig"):
        with pytest.raises(ClientError, match="A2A-Version: 1.0") as raised:
            called(method, {"id": "x"}, {})
        assert refusal(raised) == -32009


def test_a_method_of_0_3_in_1_0_is_told_its_new_name() -> None:
    with pytest.raises(ClientError, match="called SendMessage") as raised:
        called("message/send")
    assert refusal(raised) == -32601


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("NoSuchMethod", -32601),
        ("CreateTaskPushNotificationConfig", -32003),
        ("GetTaskPushNotificationConfig", -32003),
        ("ListTaskPushNotificationConfigs", -32003),
        ("DeleteTaskPushNotificationConfig", -32003),
        ("GetExtendedAgentCard", -32007),
    ],
)
def test_what_is_not_served_is_refused_by_what_it_is(method: str, number: int) -> None:
    with pytest.raises(ClientError) as raised:
        called(method, {})
    assert refusal(raised) == number


def test_a_message_that_asks_for_push_notifications_is_refused() -> None:
    wanted = {"taskPushNotificationConfig": {"url": "https://x.test"}}
    with pytest.raises(ClientError) as raised:
        messages.sent(called(params={"message": SAID, "configuration": wanted}).params)
    assert refusal(raised) == -32003


@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask"])
@pytest.mark.parametrize("params", [{}, {"id": ""}, {"id": 3}, {"id": "x" * 1025}, [], "x"], ids=str)
def test_a_task_without_an_id_is_refused(method: str, params: Any) -> None:
    with pytest.raises(ClientError) as raised:
        called(method, params)
    assert refusal(raised) == -32602


@pytest.mark.parametrize("header", ["a2a-extensions", "x-a2a-extensions"])
def test_a_client_may_ask_for_the_attribution_among_other_extensions(header: str) -> None:
    said = f"https://x.test/other , {EXTENSION}"
    assert called(headers=V1 | {header: said}).profile == Profile("1.0", attributed=True)
    assert called(headers=V1 | {header: "https://x.test/other"}).profile == Profile("1.0")


# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_list_is_of_fifty_tasks_without_artifacts_unless_the_client_says_otherwise() -> None:
    plain = listing.listing(called("ListTasks", {}).params)
    assert (plain.size, plain.artifacts, plain.state, plain.context_id, plain.before, plain.since_ms) == (
        *(50, False, None, None, None, 0),
    )
    query = {"pageSize": "7", "includeArtifacts": "true", "contextId": "c", "status": "TASK_STATE_FAILED"}
    asked = parse.rest_call("ListTasks", query, "1.0", {}, text=True).params
    assert (asked.page_size, asked.include_artifacts) == (7, True)
    found = listing.listing(asked)
    assert (found.size, found.artifacts, found.state, found.context_id) == (7, True, wire.FAILED, "c")


def test_a_page_token_says_where_the_next_page_begins() -> None:
    token = listing.page_token(1_700_000_000_000, "task.1")
    found = listing.listing(called("ListTasks", {"pageToken": token}).params)
    assert found.before == (1_700_000_000_000, "task.1")


@pytest.mark.parametrize(
    ("said", "since_ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01.0005Z", 1001),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_is_read_in_any_zone(said: str, since_ms: int) -> None:
    assert listing.listing(called("ListTasks", {"statusTimestampAfter": said}).params).since_ms == since_ms


# --- errors ----------------------------------------------------------------------------------------------------------


def test_every_error_has_its_place_in_both_bindings() -> None:
    for code, number, status in (
        ("bad_json", -32700, 400),
        ("bad_request", -32600, 400),
        ("unknown_method", -32601, 404),
        ("bad_input", -32602, 400),
        ("not_found", -32001, 404),
        ("run_over", -32002, 400),
        ("push_unsupported", -32003, 400),
        ("unsupported", -32004, 400),
        ("unsupported_media_type", -32005, 415),
        ("no_extended_card", -32007, 400),
        ("unknown_version", -32009, 400),
        ("something else", -32600, 400),
    ):
        error = ClientError("why", code=code)
        said, http = refusals.rpc(error)
        assert (said["code"], said["message"], http) == (number, "why", 415 if status == 415 else 200)
        body, http = refusals.rest(error)
        assert (body["error"]["code"], body["error"]["message"], http) == (status, "why", status)
        for info in (said["data"], body["error"]["details"]):
            [only] = info
            assert only["metadata"] == {"code": code} and only["reason"].isupper()
