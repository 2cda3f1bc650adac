"""The A2A routes over a real socket: versions, errors, cards, and the paths of both REST bindings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a_serving import STREAM, asking, error, legacy, message, refused, request, rpc, send, versioned, whole
from serving import ask, by_header, echo, sent, served

from anabranch.app import App
from anabranch.config import Server
from anabranch.events import AgentFinished, AgentStarted, MessageFinished, MessageStarted, TextDelta
from anabranch.sinks.a2a.profile import EXTENSION


async def relays(request: Any) -> Any:
    """An agent with a sub-agent."""
    yield AgentStarted(agent="a", name="komodor")
    yield MessageStarted(agent="a", message_id="m")
    yield TextDelta(agent="a", message_id="m", delta="inside")
    yield MessageFinished(agent="a", message_id="m")
    yield AgentFinished(agent="a")
    yield "outside"


# --- versions --------------------------------------------------------------------------------------------------------


async def test_the_table_of_versions() -> None:
    async with served(App({"echo": echo})) as url:
        params: dict[str, Any] = {"message": message()}
        old: dict[str, Any] = {"message": legacy()}
        assert await refused(url, "SendMessage", params, version="99.0") == -32009
        assert await refused(url, "SendMessage", params, version="1.9") == -32009
        assert await refused(url, "message/send", old, version="1.9") == -32009
        assert await refused(url, "SendMessage", params, version="") == -32009
        assert await refused(url, "message/send", old, version="1.0") == -32601
        for version in ("", "0.3"):
            answer = await rpc(url, "message/send", {"message": legacy()}, version=version)
            assert answer.json["result"]["kind"] == "task" and answer.json["result"]["status"]["state"] == "completed"
        answer = await rpc(url, "SendMessage", params, path="/?A2A-Version=1.0", version="")
        assert answer.json["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_client_of_0_3_streams_gets_cancels_and_subscribes() -> None:
    async with served(App({"asking": asking})) as url:
        stream = await whole(url, "message/stream", {"message": legacy("go")}, version="")
        kinds = [each["kind"] for each in stream]
        assert kinds[:2] == ["task", "status-update"] and set(kinds[2:-1]) == {"artifact-update"}
        assert (stream[-1]["status"]["state"], stream[-1]["final"]) == ("input-required", True)
        task_id = stream[0]["id"]
        got = (await rpc(url, "tasks/get", {"id": task_id}, version="")).json["result"]
        assert got["kind"] == "task" and got["artifacts"][0]["parts"][0] == {"kind": "text", "text": "heard [] "}
        again = await rpc(url, "message/send", {"message": legacy("x", taskId=task_id)}, version="")
        assert again.json["result"]["id"] == task_id
        ended = (await rpc(url, "tasks/cancel", {"id": task_id}, version="")).json["result"]
        assert (ended["kind"], ended["status"]["state"]) == ("task", "canceled")
        for method, number in (("tasks/cancel", -32002), ("tasks/resubscribe", -32004), ("no/method", -32601)):
            assert await refused(url, method, {"id": task_id}, version="") == number
        assert await refused(url, "tasks/pushNotificationConfig/set", {}, version="") == -32003
        assert await refused(url, "agent/getAuthenticatedExtendedCard", {}, version="") == -32007


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "number", "id"),
    [
        (b"{", -32700, None),
        (b"[]", -32600, None),
        ([request("GetTask", {"id": "x"})], -32600, None),
        ({"id": 7, "method": "GetTask"}, -32600, 7),
        (request("GetTask", {"id": "x"}, id=True), -32600, None),
        (request("GetTask", {"id": "x"}, id=None), -32001, None),
        (request("GetTask", {"id": "x"}, id=2**60), -32001, 2**60),
        (request("Nothing", {}), -32601, "q"),
        (request("GetTask", {}), -32602, "q"),
        (request("GetTask", None), -32602, "q"),
        (request("SendMessage", {"message": {"messageId": "m"}}), -32602, "q"),
        (request("SendMessage", {"message": message(taskId="x")}), -32001, "q"),
        (request("CreateTaskPushNotificationConfig", {}), -32003, "q"),
        (request("GetExtendedAgentCard", {}), -32007, "q"),
    ],
    ids=str,
)
async def test_a_refused_request_is_answered_under_its_own_id(body: Any, number: int, id: Any) -> None:
    async with served(App({"echo": echo})) as url:
        answer = await ask(url, "POST", "/", body, a2a_version="1.0")
        assert (answer.status, error(answer)["code"], answer.json["id"]) == (200, number, id)


async def test_what_is_nested_deeply_is_refused_and_not_an_internal_error() -> None:
    async with served(App({"echo": echo})) as url:
        for depth in (50, 500, 900, 3000):
            value = b"[" * depth + b"]" * depth
            body = (
                b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":'
                b'{"messageId":"m%d","role":"ROLE_USER","parts":[{"data":%b}]}}}' % (depth, value)
            )
            answer = await ask(url, "POST", "/", body, a2a_version="1.0")
            assert answer.status == 200, depth


async def test_a_body_that_is_too_large_or_no_json_has_its_http_status_too() -> None:
    async with served(App({"echo": echo}, server=Server(body_limit=1000))) as url:
        large = request("SendMessage", {"message": message("x" * 2000)})
        answer = await ask(url, "POST", "/", large, a2a_version="1.0")
        assert (answer.status, error(answer)["code"]) == (413, -32600)
        answer = await ask(url, "POST", "/", b"{}", a2a_version="1.0", content_type="text/plain")
        assert (answer.status, error(answer)["code"]) == (415, -32005)
        answer = await ask(url, "POST", "/message:send", large["params"], a2a_version="1.0")
        assert answer.status == 413


async def test_nothing_of_a_strangers_request_is_read() -> None:
    async with served(App({"echo": echo}, principal=by_header)) as url:
        for verb, path in (
            ("POST", "/"),
            ("POST", "/a2a/echo"),
            ("POST", "/a2a/nobody"),
            ("POST", "/message:send"),
            ("POST", "/a2a/echo/message:stream"),
            ("GET", "/tasks"),
            ("GET", "/v1/tasks/x"),
            ("POST", "/tasks/x:cancel"),
            ("GET", "/extendedAgentCard"),
        ):
            answer = await ask(url, verb, path, b"no json", a2a_version="7")
            assert answer.status == 401, path


async def test_the_root_is_health_for_who_gets_it_and_a2a_for_who_posts() -> None:
    async with served(App({"echo": echo})) as url:
        assert (await ask(url, "GET", "/")).json["status"] == "ok"
        assert (await ask(url, "DELETE", "/")).status == 405
        assert (await send(url, message()))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_without_a_default_agent_the_root_says_so() -> None:
    async with served(App({"a": echo, "b": echo})) as url:
        for verb, path in (("POST", "/"), ("GET", "/.well-known/agent-card.json")):
            answer = await ask(url, verb, path, {}, a2a_version="1.0")
            assert answer.status == 400 and "/a2a/NAME" in answer.json["error"]["message"]


# --- cards -----------------------------------------------------------------------------------------------------------


async def test_a_card_is_under_each_address_and_names_it() -> None:
    app = App({"echo": echo, "two words": echo}, default="echo", descriptions={"echo": "Says it again."})
    async with served(app) as url:
        host = {"host": url.removeprefix("http://")}
        for path, name, place in (
            ("", "echo", f"{url}/"),
            ("/a2a/echo", "echo", f"{url}/a2a/echo"),
            ("/a2a/two%20words", "two words", f"{url}/a2a/two%20words"),
        ):
            for file in ("agent-card.json", "agent.json"):
                answer = await ask(url, "GET", f"{path}/.well-known/{file}", **host)
                card = parse_agent_card(answer.json)
                assert card.name == name
                spoken = {(i.protocol_binding, i.protocol_version): i.url for i in card.supported_interfaces}
                assert spoken.keys() >= {("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")}
                assert spoken["JSONRPC", "1.0"] == place == answer.json["url"]
                assert spoken["HTTP+JSON", "1.0"] == place.rstrip("/")
        card = (await ask(url, "GET", "/.well-known/agent-card.json")).json
        assert card["description"] == "Says it again."
        assert (await ask(url, "GET", "/a2a/nobody/.well-known/agent-card.json")).status == 404


async def test_a_card_is_not_sent_again_to_who_has_it() -> None:
    async with served(App({"echo": echo})) as url:
        first = await ask(url, "GET", "/.well-known/agent-card.json")
        tag = first.headers["etag"]
        assert first.status == 200 and first.headers["cache-control"] == "public, max-age=300"
        for known in (tag, f"W/{tag}", f'"other", {tag}'):
            again = await ask(url, "GET", "/.well-known/agent-card.json", if_none_match=known)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert (await ask(url, "GET", "/.well-known/agent-card.json", if_none_match='"other"')).status == 200
        elsewhere = await ask(url, "GET", "/.well-known/agent-card.json", host="other.test:8080")
        assert elsewhere.json["url"] == "http://other.test:8080/" and elsewhere.headers["etag"] != tag


async def test_a_card_repeats_no_host_that_is_none() -> None:
    async with served(App({"echo": echo})) as url:
        for host in ("x.test/path", "a@b", '"', "x.test:80:90"):
            assert (await ask(url, "GET", "/.well-known/agent-card.json", host=host)).status == 400


# --- extensions ------------------------------------------------------------------------------------------------------


async def test_who_asks_for_the_attribution_is_told_who_said_what() -> None:
    async with served(App({"relays": relays})) as url:
        plain = await send(url, message())
        assert [made["parts"][0]["text"] for made in plain["artifacts"]] == ["outside"]
        asked = {"a2a_extensions": EXTENSION}
        told = await send(url, message(), **asked)
        assert [made["parts"][0]["text"] for made in told["artifacts"]] == ["inside", "outside"]
        assert told["artifacts"][0]["metadata"][EXTENSION]["agent"]["name"] == "komodor"
        stream = await whole(url, "SendStreamingMessage", {"message": message()}, **asked)
        made = [each["artifactUpdate"]["artifact"] for each in stream if "artifactUpdate" in each]
        assert any(EXTENSION in artifact.get("metadata", {}) for artifact in made)
        for method in ("SendMessage", "SendStreamingMessage"):
            for given, expected in ((asked, EXTENSION), ({}, None)):
                body = request(method, {"message": message()})
                async with sent(url, "POST", "/", body, a2a_version="1.0", **given) as wire:
                    _, headers = await wire.head()
                assert headers.get("a2a-extensions") == expected


# --- REST ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("under", ["", "/a2a/asking"])
async def test_each_method_has_its_path(under: str) -> None:
    async with served(App({"asking": asking})) as url:

        async def asked(verb: str, path: str, body: Any = None) -> Any:
            answer = await ask(url, verb, under + path, body, a2a_version="1.0")
            assert answer.status == 200 and answer.headers["content-type"] == "application/a2a+json", answer
            return json.loads(answer.body)

        task = (await asked("POST", "/message:send", {"message": message("go")}))["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert await asked("GET", f"/tasks/{task['id']}") == task
        assert "history" not in await asked("GET", f"/tasks/{task['id']}?historyLength=0")
        listed = await asked("GET", "/tasks?pageSize=1&includeArtifacts=true&status=TASK_STATE_INPUT_REQUIRED")
        assert [each["id"] for each in listed["tasks"]] == [task["id"]] and listed["tasks"][0]["artifacts"]
        answer = await ask(
            url, "POST", f"{under}/message:stream", {"message": message("stop", taskId=task["id"])}, a2a_version="1.0"
        )
        frames = [frame for frame in answer.body.split(b"\n\n") if frame]
        assert frames[0].split(b"\n")[1].startswith(b'data: {"task":') and b"COMPLETED" in frames[-1]
        again = (await asked("POST", "/message:send", {"message": message("go")}))["task"]
        ended = await asked("POST", f"/tasks/{again['id']}:cancel")
        assert ended["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "reason"),
    [
        ("GET", "/tasks/unknown", None, 404, "TASK_NOT_FOUND"),
        ("POST", "/tasks/unknown:cancel", None, 404, "TASK_NOT_FOUND"),
        ("GET", "/tasks/unknown:subscribe", None, 404, "TASK_NOT_FOUND"),
        ("POST", "/tasks/unknown:subscribe", None, 404, "TASK_NOT_FOUND"),
        ("GET", "/tasks/unknown?historyLength=many", None, 400, "INVALID_PARAMS"),
        ("GET", "/tasks?pageSize=0", None, 400, "INVALID_PARAMS"),
        ("GET", "/tasks?status=no", None, 400, "INVALID_PARAMS"),
        ("POST", "/message:send", b"{", 400, "PARSE_ERROR"),
        ("POST", "/message:send", {}, 400, "INVALID_PARAMS"),
        ("POST", "/message:stream", {"message": {}}, 400, "INVALID_PARAMS"),
        ("GET", "/tasks/x/pushNotificationConfigs", None, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("POST", "/tasks/x/pushNotificationConfigs", {}, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("DELETE", "/tasks/x/pushNotificationConfigs/y", None, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("GET", "/extendedAgentCard", None, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    ],
)
async def test_what_is_wrong_has_its_http_status(verb: str, path: str, body: Any, status: int, reason: str) -> None:
    async with served(App({"echo": echo})) as url:
        answer = await ask(url, verb, path, body, a2a_version="1.0")
        said = json.loads(answer.body)["error"]
        assert (answer.status, said["code"], said["details"][0]["reason"]) == (status, status, reason)


async def test_a_path_of_one_version_refuses_clients_of_the_other() -> None:
    async with served(App({"echo": echo})) as url:
        for path, version in (("/tasks/x", ""), ("/tasks/x", "0.3"), ("/v1/tasks/x", "1.0"), ("/tasks/x", "1.9")):
            answer = await ask(url, "GET", path, **versioned(version))
            assert answer.status == 400 and b"VERSION_NOT_SUPPORTED" in answer.body, (path, version)


async def test_clients_of_0_3_have_their_paths_under_v1() -> None:
    async with served(App({"asking": asking})) as url:
        said = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "go"}]}
        answer = await ask(url, "POST", "/v1/message:send", {"message": said, "configuration": {"blocking": True}})
        task = answer.json["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert task["status"]["message"]["content"][0] == {"text": "May I?"}
        assert (await ask(url, "GET", f"/v1/tasks/{task['id']}?historyLength=0")).json == task
        ended = (await ask(url, "POST", f"/v1/tasks/{task['id']}:cancel")).json
        assert ended["status"]["state"] == "TASK_STATE_CANCELLED"
        answer = await ask(url, "POST", "/v1/message:stream", {"message": said | {"messageId": "n"}})
        assert answer.headers["content-type"] == STREAM and b'"final":true' in answer.body
        assert (await ask(url, "GET", "/v1/tasks")).status == 404
