"""The profile of the Platform Engineer over a real socket: how a client gets it, and what becomes of what it sends."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from a2a_serving import asking, error, event, legacy, message, request
from runs.staging import Stage
from serving import Answer, ask, by_header, echo, served

from anabranch.app import App
from anabranch.config import Server
from anabranch.events import Interrupted
from anabranch.request import RunRequest
from anabranch.sinks.a2a.profile import EXTENSION

CAIPE = "/?profile=caipe"


async def post(url: str, method: str, params: Any, path: str = CAIPE, **headers: str) -> Answer:
    """A JSON-RPC request of 0.3, which is what these clients speak, unless the headers say otherwise."""
    return await ask(url, "POST", path, request(method, params), **headers)


async def stream(url: str, method: str, params: Any, path: str = CAIPE, **headers: str) -> list[dict[str, Any]]:
    """Its events."""
    answer = await post(url, method, params, path, **headers)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer
    return [event(frame) for frame in answer.body.split(b"\n\n") if frame and not frame.startswith(b":")]


async def send(url: str, said: dict[str, Any], path: str = CAIPE) -> Any:
    answer = await post(url, "message/send", {"message": said}, path)
    return answer.json["result"]


def named(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The artifacts of a stream of 0.3: names, and texts."""
    made = [each["artifact"] for each in events if each.get("kind") == "artifact-update"]
    return [(each["name"], "".join(part.get("text", "") for part in each["parts"])) for each in made]


def results(task: dict[str, Any]) -> dict[str, str]:
    """The artifacts of a task: their texts by name."""
    return {
        made.get("name", ""): "".join(part.get("text", "") for part in made["parts"])
        for made in task.get("artifacts", ())
    }


async def told(request: RunRequest) -> AsyncGenerator[Any, None]:
    """Says what it was given, and then asks for a name and a number."""
    heard = [answer.payload for answer in request.resume]
    yield json.dumps(heard or request.last_user_text())
    if not heard:
        schema = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
        yield Interrupted(interrupt_id="q", reason="ask", message="Who?", schema=schema)


# --- how a client gets it --------------------------------------------------------------------------------------------


async def test_a_client_asks_for_it_in_the_address_or_the_server_has_it_for_all_that_name_none() -> None:
    params = {"message": legacy("a b")}
    for settings, path, headers, is_caipe in (
        (Server(), "/", {}, False),
        (Server(), CAIPE, {}, True),
        (Server(), "/a2a/echo?profile=caipe", {}, True),
        (Server(a2a_profile="caipe"), "/", {}, True),
        (Server(a2a_profile="caipe"), "/?profile=standard", {}, False),
        (Server(a2a_profile="caipe"), "/", {"x_a2a_extensions": EXTENSION}, False),
        (Server(a2a_profile="caipe"), CAIPE, {"x_a2a_extensions": EXTENSION}, True),
    ):
        async with served(App({"echo": echo}, server=settings)) as url:
            answer = await post(url, "message/send", params, path, **headers)
            assert ("final_result" in results(answer.json["result"])) is is_caipe, (settings, path, headers)
            assert ("x-a2a-extensions" in answer.headers) is (bool(headers) and not is_caipe)


async def test_a_profile_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    async with served(App({"echo": echo})) as url:
        said = error(await post(url, "message/send", {"message": legacy()}, "/?profile=cape"))
        assert said["code"] == -32602 and "send standard or caipe, or none" in said["message"]
        answer = await ask(url, "GET", "/tasks/x?profile=cape", a2a_version="1.0")
        assert answer.status == 400 and b"send standard or caipe" in answer.body


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_it_is_in_every_binding_and_version(version: str) -> None:
    async with served(App({"echo": echo})) as url:
        old = version == "0.3"
        said = legacy("a b") if old else message("a b")
        if old:
            said = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "a b"}]}
        place = "/v1/message:send" if old else "/message:send"
        body = {"message": said, "configuration": {"blocking": True} if old else {}}
        answer = await ask(url, "POST", f"{place}?profile=caipe", body, a2a_version=version)
        task = json.loads(answer.body)["task"]
        assert results(task)["final_result"] == "a b"
        again = await ask(url, "GET", f"{'/v1' * old}/tasks/{task['id']}?profile=caipe", a2a_version=version)
        assert json.loads(again.body) == task


# --- what it gets ----------------------------------------------------------------------------------------------------


async def test_a_stream_has_the_answer_in_pieces_and_whole_and_a_blocking_send_has_the_same() -> None:
    async with served(App({"echo": echo})) as url:
        said = legacy("two words", "m")
        events = await stream(url, "message/stream", {"message": said})
        *pieces, final = named(events)
        assert final == ("final_result", "two words")
        assert {name for name, _ in pieces} == {"streaming_result"}
        assert "".join(text for _, text in pieces) == "two words"
        assert (events[-1]["status"]["state"], events[-1]["final"]) == ("completed", True)
        task = await send(url, said)
        assert results(task) == {"streaming_result": "two words", "final_result": "two words"}
        assert (await post(url, "tasks/get", {"id": task["id"]})).json["result"] == task


async def test_who_subscribes_again_gets_the_task_or_what_comes_after_a_cursor() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url:
        params = {"message": legacy(), "configuration": {"blocking": False}}
        task = (await post(url, "message/send", params)).json["result"]
        await stage.waiting.wait()
        stage.go.set()
        whole = await stream(url, "message/stream", {"message": params["message"]})
        for seen in range(len(whole) - 1):
            rest = await stream(url, "tasks/resubscribe", {"id": task["id"]}, last_event_id=whole[seen]["cursor"])
            assert rest == whole[seen + 1 :]


async def test_a_run_that_fails_is_a_failed_task_with_what_it_had_said() -> None:
    async def failing(request: RunRequest) -> AsyncGenerator[str, None]:
        yield "so far "
        raise RuntimeError("a secret inside")

    async with served(App({"failing": failing})) as url:
        task = await send(url, legacy())
        assert task["status"]["state"] == "failed" and results(task)["partial_result"] == "so far "
        assert not {"final_result", "error_result"} & results(task).keys()


# --- what it sends ---------------------------------------------------------------------------------------------------

ANSWERS = [
    ([{"kind": "text", "text": "name: Ann\nn: 3"}], {"name": "Ann", "n": 3}),
    ([{"kind": "text", "text": "by user: a@x.test\nname: Ann\nn: 3"}], {"name": "Ann", "n": 3}),
    ([{"kind": "data", "data": {"name": "Ann", "n": 3}}], {"name": "Ann", "n": 3}),
    ([{"kind": "data", "data": {"resume": {"decisions": [{"type": "response", "args": {"n": 1}}]}}}], {"n": 1}),
    ([{"kind": "text", "text": "just Ann"}], "just Ann"),
]


@pytest.mark.parametrize("with_task", [True, False], ids=["with a taskId", "in the conversation"])
@pytest.mark.parametrize(("parts", "heard"), ANSWERS)
async def test_a_question_is_answered_in_each_form(parts: list[Any], heard: Any, with_task: bool) -> None:
    async with served(App({"told": told})) as url:
        about = {"metadata": {"context_id": "conversation-1", "user_email": "eve@x.test"}}
        first = await stream(url, "message/stream", {"message": legacy("hi") | about})
        assert (first[-1]["status"]["state"], first[-1]["contextId"]) == ("input-required", "conversation-1")
        [form] = [each["artifact"] for each in first if each.get("artifact", {}).get("name") == "UserInputMetaData"]
        assert [field["field_name"] for field in form["parts"][0]["data"]["input_fields"]] == ["name", "n"]
        said = legacy("", "answer") | about | {"parts": parts} | ({"taskId": first[0]["id"]} if with_task else {})
        second = await stream(url, "message/stream", {"message": said})
        assert second[0]["id"] == first[0]["id"] and "artifacts" not in second[0]
        assert named(second)[-1] == ("final_result", json.dumps([heard]))
        assert (await stream(url, "message/stream", {"message": said})) == second
        task = await send(url, said)
        assert results(task)["final_result"] == json.dumps([heard]) and "partial_result" not in results(task)
        third = await send(url, legacy("new") | about)
        assert third["id"] != task["id"] and third["contextId"] == "conversation-1"


async def test_decisions_that_do_not_fit_are_refused_and_the_question_stays_open() -> None:
    async with served(App({"asking": asking})) as url:
        task = await send(url, legacy("hi"))
        resume = {"kind": "data", "data": {"resume": {"decisions": []}}}
        said = error(await post(url, "message/send", {"message": legacy(taskId=task["id"]) | {"parts": [resume]}}))
        assert said["code"] == -32602 and "send 1" in said["message"]
        assert (await send(url, legacy("stop", taskId=task["id"])))["status"]["state"] == "completed"


async def test_a_context_in_the_metadata_that_is_none_is_refused() -> None:
    async with served(App({"echo": echo})) as url:
        said = error(await post(url, "message/send", {"message": legacy() | {"metadata": {"context_id": 5}}}))
        assert said["code"] == -32602 and "message.metadata.context_id" in said["message"]


async def test_whose_email_is_in_the_metadata_is_nobody() -> None:
    async with served(App({"echo": echo}, principal=by_header)) as url:
        about = {"metadata": {"user_email": "ann"}}
        answer = await post(url, "message/send", {"message": legacy() | about}, x_user="ann")
        task = answer.json["result"]
        found = await post(url, "tasks/get", {"id": task["id"], "metadata": {"user_email": "ann"}}, x_user="eve")
        assert error(found)["code"] == -32001
        assert (await post(url, "message/send", {"message": legacy() | about})).status == 401
