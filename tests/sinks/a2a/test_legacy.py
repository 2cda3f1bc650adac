"""0.3 and 1.0 say the same: beside the conversions of the official SDK, which serves both."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3 import types as old
from a2a.compat.v0_3.conversions import (
    to_compat_stream_response,
    to_core_get_task_request,
    to_core_send_message_request,
)
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.types import GetTaskRequest, SendMessageRequest, StreamResponse
from google.protobuf.json_format import MessageToDict, ParseDict

from anabranch.sinks.a2a import legacy, wire

PARTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"text": "hi"}, {"kind": "text", "text": "hi"}),
    ({"text": "", "metadata": {"a": 1}}, {"kind": "text", "text": "", "metadata": {"a": 1}}),
    ({"data": {"n": "x"}}, {"kind": "data", "data": {"n": "x"}}),
    (
        {"data": ["x"], "metadata": {"a": "b"}},
        {"kind": "data", "data": {"value": ["x"]}, "metadata": {"a": "b", "data_part_compat": True}},
    ),
    (
        {"url": "https://x.test/a", "mediaType": "image/png", "filename": "a.png"},
        {"kind": "file", "file": {"uri": "https://x.test/a", "mimeType": "image/png", "name": "a.png"}},
    ),
    ({"raw": "aGk="}, {"kind": "file", "file": {"bytes": "aGk="}}),
]
"""Parts in 1.0 and in 0.3."""

WHERE = {"taskId": "t", "contextId": "c"}
SAID = {"messageId": "m", "role": "ROLE_AGENT", **WHERE, "parts": [new for new, _ in PARTS], "extensions": ["x:y"]}
ARTIFACT = {"artifactId": "a", "name": "n", "description": "d", "parts": [new for new, _ in PARTS]}
AT = "2023-11-14T22:13:20.001Z"


def status(state: str, **said: Any) -> dict[str, Any]:
    return {"state": f"TASK_STATE_{state}", **said, "timestamp": AT}


EVENTS: list[dict[str, Any]] = [
    {"message": SAID | {"metadata": {"k": {"v": [1.5]}}}},
    {"task": {"id": "t", "contextId": "c", "status": status("SUBMITTED")}},
    {
        "task": {
            "id": "t",
            "contextId": "c",
            "status": status("INPUT_REQUIRED", message=SAID),
            "history": [SAID | {"role": "ROLE_USER"}],
            "artifacts": [ARTIFACT | {"extensions": ["x:y"]}],
            "metadata": {"k": "v"},
        }
    },
    {"artifactUpdate": WHERE | {"artifact": ARTIFACT, "append": True, "lastChunk": True, "metadata": {"k": "v"}}},
    *(
        {"statusUpdate": WHERE | {"status": status(state.removeprefix("TASK_STATE_"), message=SAID)}}
        for state in sorted(wire.STATES)
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: "".join(event))
def test_an_event_is_what_the_official_server_sends_to_clients_of_0_3(event: dict[str, Any]) -> None:
    theirs = to_compat_stream_response(ParseDict(event, StreamResponse()), "1").result
    ours = type(theirs).model_validate(legacy.event(event))
    assert ours.model_dump(mode="json", exclude_none=True) == legacy.event(event)
    assert ours == ends(theirs)


def ends(theirs: Any) -> Any:
    """What the official server would say if its streams ended where ours do, when a task waits for its client."""
    waits = isinstance(theirs, old.TaskStatusUpdateEvent) and theirs.status.state.value.endswith("-required")
    return theirs.model_copy(update={"final": True}) if waits else theirs


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: "".join(event))
def test_a_rest_event_is_what_the_protocol_buffers_of_0_3_say(event: dict[str, Any]) -> None:
    theirs = ends(to_compat_stream_response(ParseDict(event, StreamResponse()), "1").result)
    ours = ParseDict(legacy.rest_event(event), a2a_v0_3_pb2.StreamResponse())
    assert FromProto.stream_response(ours) == FromProto.stream_response(ToProto.stream_response(as_addresses(theirs)))
    if "task" in event:
        assert legacy.rest_event(event) == {"task": legacy.rest_task(event["task"])}


def as_addresses(said: Any) -> Any:
    """Files that 0.3 has in bytes, which official clients read in two ways over REST, as addresses."""
    text = said.model_dump_json().replace('"bytes":"aGk="', '"uri":"data:;base64,aGk="')
    return type(said).model_validate_json(text)


def test_the_states_and_roles_of_0_3_are_lower_case_and_an_end_is_final() -> None:
    said = {
        (update["status"]["state"], update["final"])
        for update in (legacy.event(event) for event in EVENTS if "statusUpdate" in event)
    }
    assert said == {
        ("submitted", False),
        ("working", False),
        ("completed", True),
        ("failed", True),
        ("canceled", True),
        ("rejected", True),
        ("input-required", True),
        ("auth-required", True),
    }
    assert legacy.message(SAID)["role"] == "agent"


# --- what clients of 0.3 send ----------------------------------------------------------------------------------------

MESSAGE: dict[str, Any] = {"kind": "message", "messageId": "m", "role": "user", "parts": [old for _, old in PARTS]}
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"blocking": True},
    {"blocking": False, "acceptedOutputModes": ["text/plain"]},
    {"historyLength": 0},
    {"historyLength": 3, "pushNotificationConfig": {"url": "https://hook.test", "id": "p"}},
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_a_message_is_read_as_the_official_server_reads_it(configuration: dict[str, Any]) -> None:
    said = {"message": MESSAGE | WHERE, "configuration": configuration, "metadata": {"k": "v"}}
    params = old.MessageSendParams.model_validate(said)
    theirs = to_core_send_message_request(old.SendMessageRequest(id="1", params=params))
    assert ParseDict(legacy.params(said), SendMessageRequest()) == theirs


@pytest.mark.parametrize("configuration", [None, *CONFIGURATIONS], ids=str)
def test_a_rest_message_is_read_as_the_official_server_reads_it(configuration: dict[str, Any] | None) -> None:
    params = {"message": MESSAGE | {"metadata": {"a": "b"}}, "metadata": {"k": "v"}}
    if configuration is not None:
        params["configuration"] = {"acceptedOutputModes": ["text/plain"]} | configuration
    asked = old.MessageSendParams.model_validate(params)
    sent = a2a_v0_3_pb2.SendMessageRequest(
        request=ToProto.message(asked.message),
        configuration=ToProto.message_send_configuration(asked.configuration) if asked.configuration else None,
        metadata=ToProto.metadata(asked.metadata),
    )
    theirs = to_core_send_message_request(old.SendMessageRequest(id="1", params=FromProto.message_send_params(sent)))
    assert ParseDict(legacy.rest_params(MessageToDict(sent)), SendMessageRequest()) == theirs


@pytest.mark.parametrize("length", [None, 0, 2])
def test_a_history_of_length_zero_is_the_whole_one_in_0_3(length: int | None) -> None:
    said = {"id": "t"} | ({} if length is None else {"historyLength": length})
    theirs = to_core_get_task_request(old.GetTaskRequest(id="1", params=old.TaskQueryParams.model_validate(said)))
    assert ParseDict(legacy.params(said), GetTaskRequest()) == theirs


def test_bytes_over_rest_are_read_whether_a_client_encodes_them_once_or_twice() -> None:
    for once in (b"\x89PNG\x00", b"plain text."):
        data = base64.b64encode(once)
        for sent in (data, base64.b64encode(data)):
            part = {"file": {"fileWithBytes": sent.decode(), "mimeType": "image/png", "name": "a"}}
            [read] = legacy.rest_params({"message": {"content": [part]}})["message"]["parts"]
            assert read == {"raw": data.decode(), "mediaType": "image/png", "filename": "a"}
    [bad] = legacy.rest_params({"message": {"content": [{"file": {"fileWithBytes": "?"}}]}})["message"]["parts"]
    assert bad == {"raw": "?"}


def test_a_part_of_the_oldest_clients_is_told_by_what_it_holds() -> None:
    asked = {"message": {"role": "user", "messageId": "m", "parts": [{"type": "text", "text": "hi"}]}}
    assert legacy.params(asked)["message"]["parts"] == [{"text": "hi"}]


def test_the_kind_of_a_part_decides_and_without_one_what_it_holds_must_be_one_thing() -> None:
    for part, expected in (
        ({"kind": "text", "text": "a", "data": {"x": 1}}, {"text": "a"}),
        ({"kind": "data", "text": "a", "data": {"x": 1}}, {"data": {"x": 1}}),
        ({"type": "file", "text": "a", "file": {"uri": "u"}}, {"url": "u"}),
        ({"kind": "text", "file": {"uri": "u"}}, {}),
        ({"text": "a", "data": None}, {"text": "a"}),
        ({"text": "a", "data": {}}, {}),
        ({"text": "a", "file": {"uri": "u"}}, {}),
        ({"kind": "video", "text": "a", "metadata": {"m": 1}}, {"text": "a", "metadata": {"m": 1}}),
    ):
        assert legacy.params({"message": {"parts": [part]}})["message"]["parts"] == [expected], part


def test_the_id_of_a_task_has_two_names() -> None:
    assert legacy.params({"taskId": "t"}) == {"id": "t"} == legacy.params({"id": "t"})
    assert legacy.params({"id": "t", "taskId": "u"})["id"] == "t"


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {"message": None},
        {"message": {"role": 7, "parts": None}},
        {"message": {"parts": [None, 7, {}, {"kind": "data", "data": 7}, {"kind": "file", "file": "x"}]}},
        {"message": {"content": [{"data": 7}, {"data": {}}, {"file": {}}]}, "configuration": []},
        {"configuration": {"blocking": "yes", "historyLength": "many"}},
    ],
    ids=str,
)
def test_what_is_no_request_stays_wrong_for_the_reader_of_1_0_to_find(said: Any) -> None:
    for read in (legacy.params, legacy.rest_params):
        out = read(said)
        assert (out is said) if not isinstance(said, dict) else isinstance(out, dict)
    if said and "parts" in (said.get("message") or {}) and said["message"]["parts"]:
        assert [legacy.params(said)["message"]["parts"]] == [[None, 7, {}, {"data": 7}, {"file": "x"}]]


def test_every_method_of_0_3_has_one_of_1_0() -> None:
    assert {method.partition("/")[0] for method in legacy.METHODS} == {"message", "tasks", "agent"}
    assert len({*legacy.METHODS.values()}) == len(legacy.METHODS) == 10
