"""The A2A server as the official client of a2a-sdk 1.3 sees it, over both bindings, and as our own source does."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import environments
import pytest
from a2a.client import A2AClientError
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import A2AError
from a2a_serving import BINDINGS, Held, asking, counting, failing, numbers, official, sending
from runs.staging import Stage
from serving import WAIT_S, ask, body, by_header, echo, said, served

from anabranch.app import App
from anabranch.sources.a2a import A2ASource

every_binding = pytest.mark.parametrize("binding", BINDINGS)


@every_binding
async def test_the_official_client_streams_a_message(binding: str) -> None:
    held = Held()
    async with served(App({"count": counting(300)})) as url, official(url, binding) as client:
        async for each in client.send_message(sending("go")):
            held.take(each)
    assert held.text == numbers(300)
    assert held.states == [
        TaskState.TASK_STATE_SUBMITTED,
        TaskState.TASK_STATE_WORKING,
        TaskState.TASK_STATE_COMPLETED,
    ]


@every_binding
async def test_the_official_client_sends_without_a_stream(binding: str) -> None:
    async with served(App({"echo": echo})) as url, official(f"{url}/a2a/echo", binding, streaming=False) as client:
        [only] = [each async for each in client.send_message(sending("two words"))]
        assert only.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert only.task.artifacts[0].parts[0].text == "two words"
        found = await client.get_task(GetTaskRequest(id=only.task.id))
        assert found == only.task
        assert not (await client.get_task(GetTaskRequest(id=only.task.id, history_length=0))).history


@every_binding
async def test_the_official_client_gets_lists_and_cancels_and_every_stream_of_it_ends(binding: str) -> None:
    stage, first, second = Stage(), Held(), Held()
    async with served(App({"stage": stage})) as url, official(url, binding) as client, asyncio.timeout(WAIT_S):

        async def reading(stream: Any, held: Held) -> None:
            async for each in stream:
                held.take(each)

        async with asyncio.TaskGroup() as group:
            group.create_task(reading(client.send_message(sending("go")), first))
            await stage.waiting.wait()
            listed = await client.list_tasks(ListTasksRequest(page_size=10, include_artifacts=True))
            assert (listed.total_size, listed.page_size, listed.next_page_token) == (1, 1, "")
            [task] = listed.tasks
            assert task.status.state == TaskState.TASK_STATE_WORKING and task.artifacts[0].parts[0].text == "hello"
            group.create_task(reading(client.subscribe(SubscribeToTaskRequest(id=task.id)), second))
            while not second.states:
                await client.get_task(GetTaskRequest(id=task.id))
            cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
    assert first.states[-1] == second.states[-1] == TaskState.TASK_STATE_CANCELED
    assert first.text == second.text == "hello"


@every_binding
async def test_the_official_client_goes_on_with_a_task_by_its_id_alone(binding: str) -> None:
    async with served(App({"asking": asking})) as url, official(url, binding) as client:
        asked, done = Held(), Held()
        async for each in client.send_message(sending("go")):
            asked.take(each)
        assert asked.states[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        async for each in client.send_message(sending("stop", task_id=asked.task.id)):
            done.take(each)
        assert done.states[-1] == TaskState.TASK_STATE_COMPLETED
        assert (done.task.id, done.task.context_id) == (asked.task.id, asked.task.context_id)
        assert done.text == 'heard [] heard ["stop"] '


@every_binding
async def test_the_official_client_is_told_what_is_wrong(binding: str) -> None:
    async with served(App({"failing": failing})) as url, official(url, binding) as client:
        held = Held()
        async for each in client.send_message(sending("go")):
            held.take(each)
        assert held.states[-1] == TaskState.TASK_STATE_FAILED
        for wrong in (
            client.get_task(GetTaskRequest(id="unknown")),
            client.cancel_task(CancelTaskRequest(id=held.task.id)),
            anext(client.subscribe(SubscribeToTaskRequest(id=held.task.id))),
            anext(client.send_message(sending("again", task_id=held.task.id))),
        ):
            with pytest.raises((A2AClientError, A2AError), match="task"):
                await wrong


@every_binding
async def test_the_official_client_does_not_wait_when_it_says_so(binding: str) -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url, official(url, binding, streaming=False) as client:
        request = sending("go")
        request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
        [only] = [each async for each in client.send_message(request)]
        assert only.task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
        stage.go.set()


@every_binding
async def test_files_and_data_of_the_official_client_reach_the_agent(binding: str) -> None:
    seen: list[Any] = []

    async def looks(request: Any) -> AsyncGenerator[Any, None]:
        seen.extend(request.messages[-1].parts)
        yield "seen"

    parts = [
        Part(text="look"),
        Part(raw=b"\0\xff\xfe", media_type="image/png", filename="a.png"),
        Part(url="https://x.test/b", media_type="text/html"),
        Part(text="plain"),
    ]
    parts[3].data.struct_value.update({"a": [1, True, None]})
    message = Message(message_id="m", role=Role.ROLE_USER, parts=parts)
    async with served(App({"looks": looks})) as url, official(url, binding, streaming=False) as client:
        [only] = [each async for each in client.send_message(SendMessageRequest(message=message))]
        assert list(only.task.history[0].parts) == parts
    text, raw, link, data = seen
    assert (text.kind, text.text) == ("text", "look")
    assert raw.url == "data:image/png;base64," + base64.b64encode(b"\0\xff\xfe").decode() and raw.name == "a.png"
    assert (link.url, link.mime_type) == ("https://x.test/b", "text/html")
    assert data.data == {"a": [1, True, None]}


async def test_somebody_elses_tasks_do_not_exist_for_the_official_client() -> None:
    async with served(App({"echo": echo}, principal=by_header)) as url, AsyncExitStack() as stack:
        ann, bob = [await stack.enter_async_context(official(url, **{"x-user": who})) for who in ("ann", "bob")]
        [*_, last] = [each async for each in ann.send_message(sending("mine"))]
        task_id = last.status_update.task_id
        assert (await ann.get_task(GetTaskRequest(id=task_id))).id == task_id
        assert not (await bob.list_tasks(ListTasksRequest())).tasks
        for wrong in (
            bob.get_task(GetTaskRequest(id=task_id)),
            bob.cancel_task(CancelTaskRequest(id=task_id)),
            anext(bob.subscribe(SubscribeToTaskRequest(id=task_id))),
        ):
            with pytest.raises((A2AClientError, A2AError), match="no task"):
                await wrong


# --- our own source --------------------------------------------------------------------------------------------------


def nested(inner: str) -> AbstractAsyncContextManager[str]:
    """A server whose agent is the one at ``inner``."""
    return served(App({"outer": A2ASource(inner, name="inner")}))


async def test_a_server_of_ours_is_an_agent_of_another_one() -> None:
    async with served(App({"count": counting(200)})) as inner, nested(f"{inner}/a2a/count") as url:
        answer = await ask(url, "POST", "/agui", body())
        assert said(answer.events) == numbers(200)
        assert answer.events[-1]["type"] == "RUN_FINISHED"
        held = Held()
        async with official(url) as client:
            async for each in client.send_message(sending("go")):
                held.take(each)
        assert held.text == numbers(200) and held.states[-1] == TaskState.TASK_STATE_COMPLETED


async def test_a_cancel_reaches_the_innermost_agent() -> None:
    stage, held = Stage(), Held()
    async with served(App({"stage": stage})) as inner, nested(inner) as url, official(url) as client:
        async for each in client.send_message(sending("go")):
            held.take(each)
            if held.text == "hello" and not stage.left.is_set():
                await client.cancel_task(CancelTaskRequest(id=held.task.id))
        await stage.left.wait()
    assert held.states[-1] == TaskState.TASK_STATE_CANCELED


async def test_a_failure_of_the_innermost_agent_is_told_by_every_server() -> None:
    held = Held()
    async with served(App({"failing": failing})) as inner, nested(inner) as url, official(url) as client:
        async for each in client.send_message(sending("go")):
            held.take(each)
    assert held.states[-1] == TaskState.TASK_STATE_FAILED and held.text == "so far "


async def test_a_question_of_the_innermost_agent_is_asked_by_every_server() -> None:
    held = Held()
    async with served(App({"asking": asking})) as inner, nested(inner) as url, official(url) as client:
        async for each in client.send_message(sending("go")):
            held.take(each)
    assert held.states[-1] == TaskState.TASK_STATE_INPUT_REQUIRED and held.text == "heard [] "


# --- clients of 0.3 --------------------------------------------------------------------------------------------------


@pytest.mark.process
@every_binding
async def test_the_official_client_of_0_3_streams_sends_gets_subscribes_and_cancels(binding: str) -> None:
    python = environments.python("a2a-0.3")
    async with served(App({"count": counting(300), "stage": Stage()})) as url, asyncio.timeout(30):
        script = Path(__file__).parent / "agents" / "old_client.py"
        child = await asyncio.create_subprocess_exec(python, str(script), url, binding, stdout=asyncio.subprocess.PIPE)
        told, _ = await child.communicate()
    assert child.returncode == 0
    saw = json.loads(told)
    done = {"state": "completed", "text": numbers(300)}
    for what in ("streamed", "got", "sent"):
        assert {name: saw[what][name] for name in done} == done
    assert saw["got"]["id"] == saw["streamed"]["id"] != saw["sent"]["id"] and saw["history"] == ["streamed"]
    assert "no task" in saw["unknown"] or "not found" in saw["unknown"].lower()
    assert [(end["state"], end["text"]) for end in saw["cancelled"]] == [("canceled", "hello")] * 3
