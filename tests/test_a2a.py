"""The A2A server over a real socket: sending, streaming, finding, cancelling and subscribing, in 1.0 and 0.3."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from a2a_serving import (
    STREAM,
    asking,
    counting,
    error,
    events,
    failing,
    message,
    numbers,
    refused,
    request,
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
from runs.staging import Stage
from serving import WAIT_S, ask, by_header, echo, sent, served

from anabranch.app import App


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'a.db'}"


# --- sending ---------------------------------------------------------------------------------------------------------


async def test_a_message_is_answered_by_a_finished_task(storage: str) -> None:
    async with served(App({"echo": echo}, storage=storage)) as url:
        task = await send(url, message("two words", "m"))
        assert (state_of(task), text_in(task)) == ("COMPLETED", "two words")
        assert [(said["messageId"], said["role"], said["parts"]) for said in task["history"]] == [
            ("m", "ROLE_USER", [{"text": "two words"}])
        ]
        assert await result(url, "GetTask", {"id": task["id"]}) == task


async def test_a_message_to_a_named_agent_is_answered_by_it() -> None:
    async with served(App({"echo": echo, "asking": asking})) as url:
        answer = await rpc(url, "SendMessage", {"message": message()}, path="/a2a/asking")
        task = answer.json["result"]["task"]
        assert state_of(task) == "INPUT_REQUIRED"
        for path, found in (("/a2a/asking", True), ("/a2a/asking/", True), ("/a2a/echo", False)):
            answer = await rpc(url, "GetTask", {"id": task["id"]}, path=path)
            assert ("result" in answer.json) is found, path
        assert (await rpc(url, "GetTask", {"id": task["id"]}, path="/a2a/nobody")).status == 404


async def test_a_client_that_does_not_wait_gets_the_task_at_once() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url:
        params = {"message": message(), "configuration": {"returnImmediately": True}}
        task = (await result(url, "SendMessage", params))["task"]
        assert state_of(task) in ("SUBMITTED", "WORKING")
        await stage.waiting.wait()
        now = await result(url, "GetTask", {"id": task["id"]})
        assert (state_of(now), text_in(now)) == ("WORKING", "hello")
        async with streamed(url, "SubscribeToTask", {"id": task["id"]}) as stream:
            stage.go.set()
            assert state_of([each async for each in stream][-1]) == "COMPLETED"


async def test_a_blocking_send_of_a_run_that_fails_gives_a_failed_task() -> None:
    async with served(App({"failing": failing})) as url:
        task = await send(url, message())
        assert (state_of(task), text_in(task)) == ("FAILED", "so far ")
        [part] = task["status"]["message"]["parts"]
        assert "RuntimeError" in part["text"] and "secret" not in part["text"]
        assert task["status"]["message"]["metadata"]["anabranch"]["code"] == "agent_failed"
        assert await result(url, "GetTask", {"id": task["id"]}) == task


async def test_the_same_message_again_is_the_same_task_and_another_under_its_id_is_refused(storage: str) -> None:
    ran = []

    async def once(request: Any) -> Any:
        ran.append(request.run_id)
        yield "once"

    async with served(App({"once": once}, storage=storage)) as url:
        said = message("x", "same")
        async with asyncio.timeout(WAIT_S):
            tasks = await asyncio.gather(*(send(url, said) for _ in range(5)))
        assert len({task["id"] for task in tasks}) == 1 and len(ran) == 1
        streams = [await whole(url, "SendStreamingMessage", {"message": said}) for _ in range(2)]
        assert streams[0] == streams[1] and text_of(streams[0]) == "once"
        assert await refused(url, "SendMessage", {"message": message("y", "same")}) == -32602
        assert await refused(url, "SendMessage", {"message": said | {"contextId": "other"}}) == -32602
        assert len(ran) == 1


async def test_messages_in_one_context_are_one_conversation() -> None:
    seen: list[list[str]] = []

    async def remembers(request: Any) -> Any:
        seen.append([said.content for said in request.messages])
        yield "noted"

    async with served(App({"remembers": remembers})) as url:
        first = await send(url, message("one"))
        second = await send(url, message("two", contextId=first["contextId"]))
        assert first["contextId"] == second["contextId"] and first["id"] != second["id"]
        other = await send(url, message("three"))
        assert other["contextId"] != first["contextId"]
    assert seen == [["one"], ["one", "noted", "two"], ["three"]]


async def test_a_context_has_one_live_run() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url:
        said = {"message": message(contextId="c")}
        async with streamed(url, "SendStreamingMessage", said):
            await stage.waiting.wait()
            busy = error(await rpc(url, "SendMessage", {"message": message(contextId="c")}))
            assert (busy["code"], busy["data"][0]["reason"]) == (-32603, "CONTEXT_BUSY")
            stage.go.set()


async def test_the_history_is_as_long_as_the_client_wants() -> None:
    async with served(App({"asking": asking})) as url:
        task = await send(url, message("a", "m1"))
        await send(url, message("b", "m2", taskId=task["id"]))
        lengths = {}
        for length in (None, 0, 1, 2, 100):
            params = {"id": task["id"]} | ({} if length is None else {"historyLength": length})
            found = await result(url, "GetTask", params)
            lengths[length] = [said["messageId"] for said in found.get("history", ())]
        whole_history = lengths[None]
        assert whole_history[0] == "m1" and whole_history[-1] == "m2" and len(whole_history) == 3
        assert lengths == {None: whole_history, 0: [], 1: ["m2"], 2: whole_history[1:], 100: whole_history}
        assert await refused(url, "GetTask", {"id": task["id"], "historyLength": -1}) == -32602


# --- going on with a task --------------------------------------------------------------------------------------------


async def test_an_interrupted_task_is_answered_by_messages_that_name_it_alone(storage: str) -> None:
    async with served(App({"asking": asking}, storage=storage)) as url:
        task = await send(url, message("go"))
        assert state_of(task) == "INPUT_REQUIRED"
        asked = task["status"]["message"]["parts"]
        assert asked[0] == {"text": "May I?"} and asked[1]["data"]["schema"] == {"type": "boolean"}
        for text in ("once", "twice"):
            again = await send(url, message(text, taskId=task["id"]))
            assert (again["id"], again["contextId"]) == (task["id"], task["contextId"])
            assert state_of(again) == "INPUT_REQUIRED" and text_in(again).endswith(f'heard ["{text}"] ')
        stream = await whole(url, "SendStreamingMessage", {"message": message("stop", taskId=task["id"])})
        assert stream[0]["task"]["id"] == task["id"] and states(stream) == ["WORKING", "WORKING", "COMPLETED"]
        assert text_in(stream[0]["task"]) == 'heard [] heard ["once"] heard ["twice"] '
        assert text_of(stream) == 'heard ["stop"] '
        done = await result(url, "GetTask", {"id": task["id"]})
        assert text_in(done) == 'heard [] heard ["once"] heard ["twice"] heard ["stop"] '
        said = [part["text"] for said in done["history"] for part in said["parts"] if "text" in part]
        assert said == ["go", "May I?", "once", "May I?", "twice", "May I?", "stop"]


async def test_an_answer_may_be_data_and_is_given_as_it_is() -> None:
    async with served(App({"asking": asking})) as url:
        task = await send(url, message())
        data = {"parts": [{"text": "as I said:"}, {"data": {"approved": True, "count": 2}}]}
        again = await send(url, message(taskId=task["id"]) | data)
        assert text_in(again).endswith('heard [{"approved": true, "count": 2}] ')


async def test_an_answer_again_is_the_same_run() -> None:
    async with served(App({"asking": asking})) as url:
        task = await send(url, message())
        answer = message("yes", taskId=task["id"])
        first = await send(url, answer)
        assert await send(url, answer) == first
        await send(url, message("stop", taskId=task["id"]))
        assert state_of(await send(url, answer)) == "COMPLETED"
        assert await refused(url, "SendMessage", {"message": answer | {"parts": [{"text": "no"}]}}) == -32602


async def test_a_message_to_a_task_that_is_over_busy_or_unknown_is_refused() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url:
        async with streamed(url, "SendStreamingMessage", {"message": message()}) as stream:
            task = (await anext(stream))["task"]
            await stage.waiting.wait()
            assert await refused(url, "SendMessage", {"message": message(taskId=task["id"])}) == -32004
            stage.go.set()
            rest = [each async for each in stream]
        assert state_of(rest[-1]) == "COMPLETED"
        assert await refused(url, "SendMessage", {"message": message(taskId=task["id"])}) == -32004
        assert await refused(url, "SendMessage", {"message": message(taskId="unknown")}) == -32001


async def test_a_context_that_contradicts_the_task_is_refused() -> None:
    async with served(App({"asking": asking})) as url:
        task = await send(url, message())
        wrong = message(taskId=task["id"], contextId="another")
        assert await refused(url, "SendMessage", {"message": wrong}) == -32602
        assert state_of(await send(url, message(taskId=task["id"], contextId=task["contextId"]))) == "INPUT_REQUIRED"


async def test_a_task_whose_conversation_has_moved_on_cannot_be_answered_any_more() -> None:
    async with served(App({"asking": asking})) as url:
        task = await send(url, message())
        await send(url, message("something else", contextId=task["contextId"]))
        assert await refused(url, "SendMessage", {"message": message(taskId=task["id"])}) == -32004


# --- streams ---------------------------------------------------------------------------------------------------------


async def test_a_stream_is_the_task_then_what_happens_to_it(storage: str) -> None:
    async with served(App({"echo": echo}, storage=storage)) as url:
        stream = await whole(url, "SendStreamingMessage", {"message": message("two words")})
    assert states(stream) == ["SUBMITTED", "WORKING", "COMPLETED"] and "task" in stream[0]
    assert stream[0]["task"]["history"][0]["parts"] == [{"text": "two words"}]
    assert text_of(stream) == "two words"
    assert all(each["cursor"].rpartition(":")[0] == stream[0]["cursor"].rpartition(":")[0] for each in stream)


async def test_the_last_event_of_a_cancelled_task_says_so_on_every_stream(storage: str) -> None:
    stage = Stage()
    async with served(App({"stage": stage}, storage=storage)) as url, asyncio.TaskGroup() as group:
        first = group.create_task(whole(url, "SendStreamingMessage", {"message": message("x", "m")}))
        await stage.waiting.wait()
        task_id = (await result(url, "ListTasks", {}))["tasks"][0]["id"]
        others = []
        for _ in range(3):
            wire = streamed(url, "SubscribeToTask", {"id": task_id})
            stream = await wire.__aenter__()
            others.append((wire, stream, [await anext(stream)]))
        task = await result(url, "CancelTask", {"id": task_id})
        assert (state_of(task), text_in(task)) == ("CANCELED", "hello")
        for wire, stream, seen in others:
            seen += [each async for each in stream]
            await wire.__aexit__(None, None, None)
        assert await refused(url, "CancelTask", {"id": task_id}) == -32002
    streams = [first.result(), *(seen for _, _, seen in others)]
    assert [state_of(stream[-1]) for stream in streams] == ["CANCELED"] * 4


async def test_the_last_event_of_a_failed_task_says_so_and_why() -> None:
    async with served(App({"failing": failing})) as url:
        stream = await whole(url, "SendStreamingMessage", {"message": message()})
    assert states(stream) == ["SUBMITTED", "WORKING", "FAILED"] and text_of(stream) == "so far "
    assert "RuntimeError" in stream[-1]["statusUpdate"]["status"]["message"]["parts"][0]["text"]


async def test_every_stream_of_a_task_gives_the_same_events_in_the_same_order(storage: str) -> None:
    stage = Stage()
    async with served(App({"stage": stage}, storage=storage)) as url, asyncio.timeout(WAIT_S):
        said = {"message": message()}
        async with streamed(url, "SendStreamingMessage", said) as stream:
            seen = [await anext(stream)]
            task_id = seen[0]["task"]["id"]
            await stage.waiting.wait()
            async with streamed(url, "SubscribeToTask", {"id": task_id}) as other:
                snapshot = await anext(other)
                stage.go.set()
                tail = [each async for each in other]
            seen += [each async for each in stream]
    cursors = [each["cursor"] for each in seen]
    at = cursors.index(snapshot["cursor"])
    assert text_in(snapshot["task"]) == "hello" and state_of(snapshot) == "WORKING"
    assert tail == seen[at + 1 :]


async def test_a_client_that_comes_back_with_the_last_id_gets_the_rest_and_no_snapshot(storage: str) -> None:
    async with served(App({"count": counting(600)}, storage=storage)) as url:
        said = {"message": message("x", "m")}
        seen = await whole(url, "SendStreamingMessage", said)
        params = {"id": seen[0]["task"]["id"]}
        for at in (0, 1, 2, 300, len(seen) - 2):
            for method, given in (("SubscribeToTask", params), ("SendStreamingMessage", said)):
                rest = await whole(url, method, given, last_event_id=seen[at]["cursor"])
                assert rest == seen[at + 1 :], (method, at)
        assert await refused(url, "SubscribeToTask", params, last_event_id=seen[-1]["cursor"]) == -32004
        assert await refused(url, "SubscribeToTask", params, last_event_id="a2a:m:99999.0") == -32602


async def test_none_of_many_subscriptions_at_any_moment_repeats_or_loses_a_token(storage: str) -> None:
    async with served(App({"count": counting(5000)}, storage=storage)) as url, asyncio.timeout(50):
        await _subscribe_at_any_moment(url, 200 if storage == "memory://" else 40)


@pytest.mark.slow
@pytest.mark.timeout(280)
async def test_none_of_a_thousand_subscriptions_repeats_or_loses_a_token() -> None:
    async with served(App({"count": counting(5000)})) as url, asyncio.timeout(270):
        await _subscribe_at_any_moment(url, 1000)


async def _subscribe_at_any_moment(url: str, times: int) -> None:
    """Subscribe that often, to as many runs as it takes, each time while the run is under way."""
    shown: list[int] = []

    async def subscription(task_id: str) -> None:
        async with sent(url, "POST", "/", request("SubscribeToTask", {"id": task_id}), a2a_version="1.0") as wire:
            _, given = await wire.head()
            if given["content-type"] != STREAM:
                return  # the run was over
            seen = [each async for each in events(wire)]
        assert text_in(seen[0]["task"]) + text_of(seen) == numbers(5000)
        assert state_of(seen[-1]) == "COMPLETED" and sum("task" in each for each in seen) == 1
        shown.append(len(text_in(seen[0]["task"])))

    while len(shown) < times:
        params = {"message": message(), "configuration": {"returnImmediately": True}}
        task_id = (await result(url, "SendMessage", params))["task"]["id"]
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(subscription(task_id))
                await asyncio.sleep(random.random() / 100)  # noqa: TID251 - at random moments is what is tested
    assert len(set(shown)) > 9


# --- interrupted -----------------------------------------------------------------------------------------------------


async def test_a_subscription_goes_on_when_a_question_is_answered(storage: str) -> None:
    async with served(App({"asking": asking}, storage=storage)) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message("go"))
        async with streamed(url, "SubscribeToTask", {"id": task["id"]}) as stream:
            first = await anext(stream)
            assert state_of(first) == "INPUT_REQUIRED" and text_in(first["task"]) == "heard [] "
            for text in ("once", "stop"):
                await send(url, message(text, taskId=task["id"]))
            rest = [each async for each in stream]
    assert states(rest) == ["WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"]
    assert text_of(rest) == 'heard ["once"] heard ["stop"] '


async def test_a_client_that_comes_back_gets_what_happened_after_its_question_was_answered() -> None:
    async with served(App({"asking": asking})) as url:
        before = await whole(url, "SendStreamingMessage", {"message": message("go")})
        assert states(before) == ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
        task_id = before[0]["task"]["id"]
        after = await whole(url, "SendStreamingMessage", {"message": message("stop", taskId=task_id)})
        for at in (0, 2, len(before) - 1):
            rest = await whole(url, "SubscribeToTask", {"id": task_id}, last_event_id=before[at]["cursor"])
            assert rest == before[at + 1 :] + after[1:]


async def test_for_a_client_of_0_3_a_question_is_the_end_of_a_subscription() -> None:
    async with served(App({"asking": asking})) as url:
        task = await send(url, message("go"))
        [only] = await whole(url, "tasks/resubscribe", {"id": task["id"]}, version="")
        assert only["kind"] == "task" and only["status"]["state"] == "input-required"


async def test_an_interrupted_task_is_cancelled_without_its_agent(storage: str) -> None:
    called = []

    async def counted(request: Any) -> Any:
        called.append(request.run_id)
        async for item in asking(request):
            yield item

    async with served(App({"asking": counted}, storage=storage)) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message("go"))
        async with streamed(url, "SubscribeToTask", {"id": task["id"]}) as stream:
            await anext(stream)
            cancelled = await result(url, "CancelTask", {"id": task["id"]})
            assert [state_of(each) async for each in stream][-1] == "CANCELED"
        assert (state_of(cancelled), text_in(cancelled)) == ("CANCELED", "heard [] ")
        assert await refused(url, "CancelTask", {"id": task["id"]}) == -32002
        assert await refused(url, "SendMessage", {"message": message(taskId=task["id"])}) == -32004
        assert state_of(await send(url, message(contextId=task["contextId"]))) == "INPUT_REQUIRED"
    assert len(called) == 2


async def test_a_server_that_stops_ends_a_subscription_that_waits_for_an_answer() -> None:
    app = App({"asking": asking})
    async with served(app) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message("go"))
        async with streamed(url, "SubscribeToTask", {"id": task["id"]}) as stream:
            await anext(stream)
            await app.stop()
            [last] = [each async for each in stream]
    assert last["error"]["data"][0]["metadata"] == {"code": "server_stopping", "retryable": "true"}


async def test_a_client_that_leaves_a_blocking_send_is_a_watcher_who_left() -> None:
    stage = Stage()
    async with served(App({"stage": stage}, on_disconnect="cancel")) as url, asyncio.timeout(WAIT_S):
        async with sent(url, "POST", "/", request("SendMessage", {"message": message()}), a2a_version="1.0"):
            await stage.waiting.wait()
        await stage.left.wait()
        [task] = (await result(url, "ListTasks", {}))["tasks"]
        while state_of(task) != "CANCELED":
            task = await result(url, "GetTask", {"id": task["id"]})


async def test_a_stream_that_is_left_changes_nothing_for_the_task_and_for_the_others() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url, asyncio.timeout(WAIT_S):
        async with streamed(url, "SendStreamingMessage", {"message": message()}) as stream:
            task_id = (await anext(stream))["task"]["id"]
            await stage.waiting.wait()
        async with streamed(url, "SubscribeToTask", {"id": task_id}) as stream:
            async with streamed(url, "SubscribeToTask", {"id": task_id}) as other:
                await anext(other)
            stage.go.set()
            seen = [each async for each in stream]
        assert state_of(seen[-1]) == "COMPLETED" and text_in(seen[0]["task"]) + text_of(seen) == "hello world"


async def test_a_cancel_that_takes_too_long_gives_the_task_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.sinks.a2a.methods.CANCEL_S", 0.05)
    held = asyncio.Event()
    stage = Stage(cleanup=held.wait)
    async with served(App({"stage": stage})) as url, asyncio.timeout(WAIT_S):
        said = {"message": message()}
        async with streamed(url, "SendStreamingMessage", said) as stream:
            task_id = (await anext(stream))["task"]["id"]
            await stage.waiting.wait()
            for _ in range(2):
                assert state_of(await result(url, "CancelTask", {"id": task_id})) == "WORKING"
            held.set()
            assert [state_of(each) async for each in stream if "statusUpdate" in each][-1] == "CANCELED"


async def test_of_two_answers_at_once_one_counts_and_the_same_one_twice_is_one() -> None:
    async with served(App({"asking": asking})) as url, asyncio.timeout(WAIT_S):
        task = await send(url, message("go"))
        answer = message("yes", taskId=task["id"])
        both = await asyncio.gather(send(url, answer), send(url, answer))
        assert both[0] == both[1] and text_in(both[0]) == 'heard [] heard ["yes"] '
        params = [{"message": message(text, taskId=task["id"])} for text in ("a", "b")]
        answers = await asyncio.gather(*(rpc(url, "SendMessage", given) for given in params))
        assert sorted("error" in each.json for each in answers) in ([False, True], [False, False])
        done = await result(url, "GetTask", {"id": task["id"]})
        assert text_in(done).count("heard") == 3 + ["error" in each.json for each in answers].count(False) - 1


# --- lists -----------------------------------------------------------------------------------------------------------


async def test_tasks_are_listed_with_the_newest_first_page_by_page(storage: str) -> None:
    async with served(App({"asking": asking}, storage=storage)) as url:
        made = [(await send(url, message("stop" if n % 2 else "go", contextId=f"c{n % 3}")))["id"] for n in range(7)]
        listed = await result(url, "ListTasks", {})
        assert [task["id"] for task in listed["tasks"]] == made[::-1]
        assert (listed["totalSize"], listed["pageSize"], listed["nextPageToken"]) == (7, 7, "")
        assert all("artifacts" not in task and task["history"] for task in listed["tasks"])
        stamps = [task["status"]["timestamp"] for task in listed["tasks"]]
        assert stamps == sorted(stamps, reverse=True)
        seen, token = [], ""
        while True:
            page = await result(url, "ListTasks", {"pageSize": 3, "pageToken": token, "historyLength": 0})
            assert page["totalSize"] == 7 and all("history" not in task for task in page["tasks"])
            seen += [task["id"] for task in page["tasks"]]
            if not (token := page["nextPageToken"]):
                break
        assert seen == made[::-1]
        mine = await result(url, "ListTasks", {"contextId": "c1", "includeArtifacts": True})
        assert [task["id"] for task in mine["tasks"]] == [made[4], made[1]]
        assert all(text_in(task) == "heard [] " for task in mine["tasks"])
        since = await result(url, "ListTasks", {"statusTimestampAfter": stamps[2]})
        assert {task["id"] for task in since["tasks"]} >= set(made[-3:])
        assert (await result(url, "ListTasks", {"statusTimestampAfter": "2100-01-01T00:00:00Z"}))["tasks"] == []


async def test_tasks_are_listed_by_their_state() -> None:
    async with served(App({"asking": asking, "failing": failing}, default="asking")) as url:
        waits, done = await send(url, message("go")), await send(url, message("go"))
        await send(url, message("stop", taskId=done["id"]))
        await rpc(url, "SendMessage", {"message": message()}, path="/a2a/failing")
        for state, expected in (
            ("INPUT_REQUIRED", [waits["id"]]),
            ("AUTH_REQUIRED", []),
            ("COMPLETED", [done["id"]]),
            ("FAILED", []),
            ("REJECTED", []),
            ("UNSPECIFIED", [done["id"], waits["id"]]),
        ):
            listed = await result(url, "ListTasks", {"status": f"TASK_STATE_{state}"})
            assert [task["id"] for task in listed["tasks"]] == expected, state
        there = (await rpc(url, "ListTasks", {}, path="/a2a/failing")).json["result"]
        assert [state_of(task) for task in there["tasks"]] == ["FAILED"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"pageSize": 0},
        {"pageSize": 101},
        {"pageSize": "ten"},
        {"pageToken": "made up"},
        {"status": "TASK_STATE_UNKNOWN"},
        {"status": 3},
        {"historyLength": -1},
        {"statusTimestampAfter": "yesterday"},
    ],
    ids=str,
)
async def test_a_list_that_is_asked_for_wrongly_is_refused(wrong: dict[str, Any]) -> None:
    async with served(App({"echo": echo})) as url:
        assert await refused(url, "ListTasks", wrong) == -32602


# --- whose task it is ------------------------------------------------------------------------------------------------


async def test_the_task_of_somebody_else_does_not_exist(storage: str) -> None:
    stage = Stage()
    app = App({"stage": stage}, principal=by_header, storage=storage)
    async with served(app) as url, asyncio.timeout(WAIT_S):
        said = {"message": message("x", "m", contextId="c")}
        async with streamed(url, "SendStreamingMessage", said, x_user="ann") as stream:
            task_id = (await anext(stream))["task"]["id"]
            await stage.waiting.wait()
            for method in ("GetTask", "CancelTask", "SubscribeToTask"):
                assert await refused(url, method, {"id": task_id}, x_user="bob") == -32001
                assert await refused(url, method, {"id": "made up"}, x_user="bob") == -32001
            for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe"):
                assert await refused(url, method, {"id": task_id}, version="", x_user="bob") == -32001
            for method in ("SendMessage", "SendStreamingMessage"):
                answering = {"message": message(taskId=task_id)}
                assert await refused(url, method, answering, x_user="bob") == -32001
            for verb, path in (("GET", ""), ("POST", ":cancel"), ("GET", ":subscribe"), ("POST", ":subscribe")):
                for under in ("", "/a2a/stage"):
                    answer = await ask(url, verb, f"{under}/tasks/{task_id}{path}", a2a_version="1.0", x_user="bob")
                    assert answer.status == 404, path
                    answer = await ask(url, verb, f"{under}/v1/tasks/{task_id}{path}", x_user="bob")
                    assert answer.status == 404, path
            assert (await result(url, "ListTasks", {}, x_user="bob"))["tasks"] == []
            seen = {"last_event_id": "a2a:m:1.0"}
            assert await refused(url, "SubscribeToTask", {"id": task_id}, x_user="bob", **seen) == -32001
            stage.go.set()
            assert [state_of(each) async for each in stream if "artifactUpdate" not in each][-1] == "COMPLETED"
        own = await result(url, "SendMessage", said, x_user="bob")
        assert own["task"]["id"] != task_id and own["task"]["contextId"] == "c"
        for method in ("GetTask", "ListTasks"):
            assert (await rpc(url, method, {"id": task_id})).status == 401
        assert (await ask(url, "GET", f"/tasks/{task_id}", a2a_version="1.0")).status == 401


# --- what was before this process ------------------------------------------------------------------------------------


async def test_tasks_outlive_the_server_and_a_lost_one_has_failed(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'a.db'}"
    stage = Stage()
    agents = {"asking": asking, "stage": stage}
    first = App(agents, default="asking", storage=storage)
    async with served(first) as url:
        done, waits = await send(url, message("go")), await send(url, message("go"))
        done = await send(url, message("stop", taskId=done["id"]))
        at_once = {"message": message(), "configuration": {"returnImmediately": True}}
        lost = (await rpc(url, "SendMessage", at_once, path="/a2a/stage")).json["result"]["task"]
        while text_in((await rpc(url, "GetTask", {"id": lost["id"]}, path="/a2a/stage")).json["result"]) != "hello":
            pass
        left = tmp_path / "left.db"  # what the file is when the process is killed here
        with closing(sqlite3.connect(tmp_path / "a.db")) as file, closing(sqlite3.connect(left)) as copy:
            file.backup(copy)
        stage.go.set()
    async with served(App(agents, default="asking", storage=f"sqlite:///{left}")) as url:
        assert await result(url, "GetTask", {"id": done["id"]}) == done
        assert await refused(url, "SubscribeToTask", {"id": done["id"]}) == -32004
        assert state_of(await send(url, message("stop", taskId=waits["id"]))) == "COMPLETED"
        found = (await rpc(url, "GetTask", {"id": lost["id"]}, path="/a2a/stage")).json["result"]
        assert (state_of(found), text_in(found)) == ("FAILED", "hello")
        assert error(await rpc(url, "SubscribeToTask", {"id": lost["id"]}, path="/a2a/stage"))["code"] == -32004
