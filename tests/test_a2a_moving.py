"""A task that changes while it is looked at: answered, cancelled, dropped or deleted in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a_serving import (
    BINDINGS,
    asking,
    counting,
    message,
    numbers,
    refused,
    result,
    rpc,
    send,
    state_of,
    states,
    streamed,
    text_in,
    text_of,
    whole,
)
from runs.staging import Signal, Stage
from serving import WAIT_S, Answer, ask, body, served

from anabranch.app import App
from anabranch.config import Server
from anabranch.errors import NotFound
from anabranch.events import Interrupted


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'a.db'}"


class Looked(App):
    """Does something once, right after it has looked a task up."""

    then: Callable[[], Awaitable[object]] | None = None

    async def task(self, *args: Any) -> Any:
        found = await super().task(*args)
        then, self.then = self.then, None
        if then is not None:
            await then()
        return found


# --- subscribed while it asks ----------------------------------------------------------------------------------------


async def test_who_is_subscribed_over_a_question_is_a_watcher_of_the_run_that_answers_it() -> None:
    stage = Stage()

    async def asks(request: Any) -> Any:
        if not request.resume:
            yield Interrupted(interrupt_id="q", reason="confirmation")
            return
        async for item in stage(request):
            yield item

    async with served(App({"asks": asks}, on_disconnect="cancel")) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message())
        async with streamed(url, "SubscribeToTask", {"id": task["id"]}) as stream:
            assert state_of(await anext(stream)) == "INPUT_REQUIRED"
            at_once = {"message": message("yes", taskId=task["id"]), "configuration": {"returnImmediately": True}}
            await result(url, "SendMessage", at_once)
            await stage.waiting.wait()
            stage.go.set()
            rest = [each async for each in stream]
    assert (states(rest), text_of(rest)) == (["WORKING", "COMPLETED"], "hello world")


async def test_a_subscription_ends_when_the_thread_it_waits_in_is_deleted(storage: str) -> None:
    async with served(App({"asking": asking}, storage=storage)) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message())
        async with streamed(url, "SubscribeToTask", {"id": task["id"]}) as stream:
            await anext(stream)
            assert (await ask(url, "DELETE", f"/threads/{task['contextId']}")).status == 204
            [last] = [each async for each in stream]
    assert last["error"]["data"][0]["metadata"] == {"code": "not_found"}


async def test_a_question_that_was_dropped_is_not_waited_for(storage: str) -> None:
    async with served(App({"asking": asking}, storage=storage)) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message())
        async with streamed(url, "SubscribeToTask", {"id": task["id"]}) as stream:
            await anext(stream)
            await send(url, message("something else", contextId=task["contextId"]))
            assert [each async for each in stream] == []
        assert await refused(url, "SubscribeToTask", {"id": task["id"]}) == -32004
        assert await refused(url, "CancelTask", {"id": task["id"]}) == -32002


async def test_the_question_of_one_agent_is_not_answered_by_another() -> None:
    async with served(App({"asking": asking, "stage": Stage()})) as url:
        task = (await rpc(url, "SendMessage", {"message": message()}, path="/a2a/asking")).json["result"]["task"]
        question = task["status"]["message"]["parts"][1]["data"]["interruptId"]
        resume = [{"interruptId": question, "status": "resolved", "payload": "stop"}]
        answered = body("r", task["contextId"], messages=[], resume=resume)
        answer = await ask(url, "POST", "/agents/stage/agui", answered)
        assert (answer.status, answer.json["error"]["code"]) == (409, "unknown_interrupt")
        answer = await ask(url, "POST", "/agents/asking/agui", answered)
        assert answer.events[-1]["type"] == "RUN_FINISHED"
        found = (await rpc(url, "GetTask", {"id": task["id"]}, path="/a2a/asking")).json["result"]
        assert (state_of(found), text_in(found)) == ("COMPLETED", 'heard [] heard ["stop"] ')


# --- cancelled in that moment ----------------------------------------------------------------------------------------


async def test_a_cancel_reaches_the_run_that_has_answered_the_question_just_now(storage: str) -> None:
    stage = Stage()

    async def asks(request: Any) -> Any:
        if not request.resume:
            yield Interrupted(interrupt_id="q", reason="confirmation")
            return
        async for item in stage(request):
            yield item

    app = Looked({"asks": asks}, storage=storage)
    async with served(app) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message())

        async def answer() -> None:
            at_once = {"message": message("yes", taskId=task["id"]), "configuration": {"returnImmediately": True}}
            await result(url, "SendMessage", at_once)
            await stage.waiting.wait()

        app.then = answer
        cancelled = await result(url, "CancelTask", {"id": task["id"]})
    assert (state_of(cancelled), text_in(cancelled)) == ("CANCELED", "hello")


@pytest.mark.parametrize("late", [False, True])
async def test_a_cancel_reaches_the_question_that_the_run_has_come_to_just_now(late: bool) -> None:
    told, go = Signal(), asyncio.Event()

    async def asks(request: Any) -> Any:
        told.set()
        await go.wait()
        yield Interrupted(interrupt_id="q", reason="confirmation")

    app = App({"asks": asks})
    cancel = app.runs.cancel

    async def after_its_end(run_id: str, principal: Any) -> Any:
        record = await app.runs.get(run_id, principal)
        go.set()
        async with app.runs.watch(record) as batches:
            async for _ in batches:
                pass
        return record if late else await cancel(run_id, principal)  # late: the run was told, and had ended already

    async with served(app) as url, asyncio.timeout(WAIT_S):
        async with streamed(url, "SendStreamingMessage", {"message": message()}) as stream:
            task_id = (await anext(stream))["task"]["id"]
        await told.wait()
        app.runs.cancel = after_its_end  # type: ignore[method-assign]  # the moment between two looks
        assert state_of(await result(url, "CancelTask", {"id": task_id})) == "CANCELED"


# --- deleted in that moment ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["bounds", "read"])
async def test_a_task_that_is_deleted_while_it_is_read_is_whole_or_there_is_none(
    moment: str, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App({"counting": counting(3000)}, storage=storage)
    async with served(app) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message())
        then, look = _deleting(url, task), getattr(app.runs.log, moment)

        async def looked(*args: Any) -> Any:
            monkeypatch.undo()
            first = await look(*args)
            await then()
            return first if moment == "read" else await look(*args)

        monkeypatch.setattr(app.runs.log, moment, looked)
        assert await refused(url, "GetTask", {"id": task["id"]}) == -32001
        assert await refused(url, "SubscribeToTask", {"id": task["id"]}) == -32001


async def test_a_list_does_without_a_task_that_is_deleted_meanwhile(storage: str) -> None:
    app = Looked({"counting": counting(3)}, storage=storage)
    async with served(app) as url, asyncio.timeout(WAIT_S):
        stays, goes = await send(url, message()), await send(url, message())
        app.then = _deleting(url, goes)
        listed = (await result(url, "ListTasks", {"includeArtifacts": True}))["tasks"]
        assert [(task["id"], text_in(task)) for task in listed] == [(stays["id"], numbers(3))]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_cannot_begin_is_refused_in_the_words_of_the_binding(
    binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App({"asking": asking})
    async with served(app) as url, asyncio.timeout(WAIT_S):
        task_id = (await send(url, message()))["id"]
        monkeypatch.setattr(app.runs, "watch", _gone)
        if binding == "JSONRPC":
            assert await refused(url, "SubscribeToTask", {"id": task_id}) == -32001
        else:
            answer: Answer = await ask(url, "GET", f"/tasks/{task_id}:subscribe", a2a_version="1.0")
            assert answer.status == 404 and b'"TASK_NOT_FOUND"' in answer.body


def _deleting(url: str, task: dict[str, Any]) -> Callable[[], Awaitable[object]]:
    return lambda: ask(url, "DELETE", f"/threads/{task['contextId']}")


def _gone(*args: Any) -> Any:
    @asynccontextmanager
    async def watching() -> AsyncIterator[Any]:
        if args:
            raise NotFound("there is no run")
        yield

    return watching()


async def test_an_answer_again_is_the_same_run_also_when_its_question_is_no_longer_kept(storage: str) -> None:
    app = App({"asking": asking}, storage=storage, server=Server(kept_runs=1))
    async with served(app) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message("go"))
        answer = message("stop", taskId=task["id"])
        await send(url, answer)
        while len((done := await result(url, "GetTask", {"id": task["id"]}))["history"]) > 1:
            pass
        assert (state_of(done), text_in(done)) == ("COMPLETED", 'heard ["stop"] ')
        assert await send(url, answer) == done


# --- a long one ------------------------------------------------------------------------------------------------------


async def test_a_message_is_read_once_however_many_runs_the_task_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App({"asking": asking}, storage=f"sqlite:///{tmp_path / 'a.db'}")
    async with served(app) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message())
        for _ in range(9):
            await send(url, message("on", taskId=task["id"]))
        threads = []
        turns = app.runs.table.turns

        async def counted(*args: Any) -> Any:
            threads.append(args)
            return await turns(*args)

        monkeypatch.setattr(app.runs.table, "turns", counted)
        assert text_in(await result(url, "GetTask", {"id": task["id"]})).count("heard") == 10
        assert [each["id"] for each in (await result(url, "ListTasks", {}))["tasks"]] == [task["id"]]
        assert threads == []


async def test_an_extension_may_be_asked_for_on_any_line_of_its_header() -> None:
    async with served(App({"counting": counting(2)})) as url:
        headers = {"A2A_Extensions": "https://other.example/one"}
        both = headers | {"a2a_extensions": "https://anabranch.dev/extensions/attribution/v1"}
        for given, active in ((headers, False), (both, True)):
            answer = await rpc(url, "SendMessage", {"message": message()}, **given)
            assert ("a2a-extensions" in answer.headers) is active
        assert text_of(await whole(url, "SendStreamingMessage", {"message": message()}, **both)) == numbers(2)
