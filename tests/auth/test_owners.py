"""One user's runs, threads and tasks, and everything that another one may try with their names: also while they live.

The other user has a credential of the same kind with another name, or the same name in another kind.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
from serving import WAIT_S

from auth.asking import (
    KINDS,
    Agent,
    Sent,
    ask,
    guarded,
    legacy,
    legacy_rest,
    message,
    outcome,
    rpc,
    shows,
    visitor,
)

NO_TASK = -32001
ALL = (*KINDS, "anonymous")
PAIRS = [(kind, kind) for kind in ALL] + [(one, other) for one in ALL for other in ALL if one < other]


class Server(NamedTuple):
    """The server under test."""

    http: httpx.AsyncClient
    agent: Agent


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Server, None]:
    agent = Agent()
    async with guarded(tmp_path_factory.mktemp("owners"), {"agent": agent}, anonymous=True) as (_, http):
        yield Server(http, agent)


class Stream:
    """A stream that is read as it comes."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.text = ""
        self.cursor = ""

    async def until(self, part: str) -> None:
        """Read until it has told ``part``."""
        async with asyncio.timeout(WAIT_S):
            while part not in self.text:
                line = await anext(self._lines)
                self.text += line
                self.cursor = line.removeprefix("id: ") if line.startswith("id: ") else self.cursor


@asynccontextmanager
async def streamed(
    http: httpx.AsyncClient, method: str, path: str, who: Sent, body: Any = None, **headers: str
) -> AsyncIterator[Stream]:
    """Ask for a stream, and read of it what is wanted."""
    sent = [*who, ("A2A-Version", "1.0"), *((name.replace("_", "-"), value) for name, value in headers.items())]
    async with http.stream(method, path, headers=sent, json=body) as answer:
        assert answer.status_code == 200
        yield Stream(answer)


def started(run_id: str, text: str, thread_id: str = "", **more: Any) -> dict[str, Any]:
    said = {"id": f"m-{run_id}", "role": "user", "content": text}
    return {"runId": run_id, "threadId": thread_id or f"t-{run_id}", "messages": [said]} | more


class Mine(NamedTuple):
    """The names of what a user has: a run that is over and one that lives, in threads ``t-...``, and tasks.

    ``asked`` is a task that asks something.
    """

    run: str
    live: str
    task: str
    going: str
    asked: str
    context: str
    message: str


async def sent(http: httpx.AsyncClient, who: Sent, *said: Any, **options: Any) -> Any:
    """The task that a SendMessage gives."""
    answer = await ask(http, "POST", "/", who, rpc("SendMessage", message(*said) | options))
    return answer.json()["result"]["task"]


async def everything(http: httpx.AsyncClient, who: Sent, name: str) -> Mine:
    """Have ``who`` make one of each, under names that begin with ``name``; what lives is not watched."""
    answer = await ask(http, "POST", "/agui", who, started(f"{name}-run", f"a secret of {name}"))
    assert "RUN_FINISHED" in answer.text
    async with streamed(http, "POST", "/agui", who, started(f"{name}-live", f"wait, a secret of {name}")) as stream:
        await stream.until("a secret")
    done = await sent(http, who, f"a secret of {name}", f"{name}-m")
    at_once = {"configuration": {"returnImmediately": True}}
    going = await sent(http, who, f"wait, a secret of {name}", f"{name}-going", **at_once)
    asked = await sent(http, who, f"ask, a secret of {name}", f"{name}-asked")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    context = done["contextId"]
    return Mine(f"{name}-run", f"{name}-live", done["id"], going["id"], asked["id"], context, f"{name}-m")


def attempts(mine: Mine) -> list[tuple[str, str, Any, dict[str, str]]]:
    """Every way to reach what is somebody else's: each is to be answered as if it were not there."""
    found: list[tuple[str, str, Any, dict[str, str]]] = []
    for run in (mine.run, mine.live, f"a2a:{mine.message}"):
        seen = {"Last-Event-ID": f"{run}:1.0"}
        found += [("GET", f"/runs/{run}{rest}", None, {}) for rest in ("", "/events", "/events?after=1", "/agui")]
        found += [("GET", f"/runs/{run}/agui{rest}", None, seen) for rest in ("", "?prelude=1")]
        found += [("GET", f"/runs/{run}/agui?after={run}:1.0", None, {}), ("POST", f"/runs/{run}/cancel", None, {})]
        found += [("POST", path, started(run, "a secret"), seen) for path in ("/agui", "/agents/agent/agui")]
    for thread in (f"t-{mine.run}", f"t-{mine.live}", mine.context):
        found += [(method, f"/threads/{thread}", None, {}) for method in ("GET", "DELETE")]
        found.append(("GET", f"/threads/{thread}?run={mine.run}", None, {}))
    for task in (mine.task, mine.going, mine.asked):
        seen = {"Last-Event-ID": f"a2a:{mine.message}:1.0"}
        for under in ("", "/a2a/agent"):
            calls = [(method, {"id": task}) for method in ("GetTask", "CancelTask", "SubscribeToTask")]
            for more in ({}, {"contextId": mine.context}, {"contextId": "another"}):
                said = message(taskId=task, **more)
                calls += [("SendMessage", said), ("SendStreamingMessage", said)]
                found += [("POST", f"{under}/message:{way}", message(taskId=task, **more), {}) for way in WAYS]
            calls.append(("SendMessage", message(id=mine.message, taskId=task)))
            found += [("POST", under or "/", rpc(method, params), seen) for method, params in calls]
            for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe"):
                found.append(("POST", under or "/", rpc(method, {"id": task}), {"A2A-Version": "0.3"}))
            for method in ("message/send", "message/stream"):
                found.append(("POST", under or "/", rpc(method, legacy(taskId=task)), {"A2A-Version": "0.3"}))
            for old in ("", "/v1"):
                place = f"{under}{old}/tasks/{task}"
                found += [("GET", place, None, {}), ("POST", f"{place}:cancel", None, {})]
                found += [(method, f"{place}:subscribe", None, seen) for method in ("GET", "POST")]
            found += [("POST", f"{under}/v1/message:{way}", legacy_rest(taskId=task), {}) for way in WAYS]
    return found


WAYS = ("send", "stream")


async def lists(http: httpx.AsyncClient, who: Sent, mine: Mine) -> list[str]:
    """All that lists tell ``who``, however they ask."""
    places = [f"{at}.{mine.task}" for at in (0, 10**15)]
    tokens = [base64.urlsafe_b64encode(place.encode()).decode() for place in places]
    asked: list[dict[str, Any]] = [{}, {"contextId": mine.context}, *({"pageToken": token} for token in tokens)]
    found = [await ask(http, "POST", "/", who, rpc("ListTasks", params)) for params in asked]
    found += [
        await ask(http, "GET", under + "/tasks?" + "&".join(f"{name}={value}" for name, value in params.items()), who)
        for params in asked
        for under in ("", "/a2a/agent")
    ]
    queries = ("", f"?thread=t-{mine.run}", f"?before={mine.run}", f"?thread={mine.context}", f"?before={mine.live}")
    found += [await ask(http, "GET", f"/runs{query}", who) for query in queries]
    assert {outcome(answer) for answer in found} == {200}
    return [answer.text for answer in found]


@pytest.mark.parametrize(("kind", "other"), PAIRS)
async def test_what_is_one_users_is_not_there_for_another_whatever_they_try(
    server: Server, kind: str, other: str
) -> None:
    http, server.agent.go = server.http, asyncio.Event()
    name = f"{kind}-{other}".replace(" ", "")
    ann = await visitor(http) if kind == "anonymous" else shows(kind, "ann")
    eve = await visitor(http) if other == "anonymous" else shows(other, "eve" if kind == other else "ann")
    mine = await everything(http, ann, name)

    for method, path, body, headers in attempts(mine):
        answer = await ask(http, method, path, eve, body, *headers.items())
        assert outcome(answer) in (404, NO_TASK), f"{method} {path} {body}: {answer.status_code} {answer.text}"
        assert "secret" not in answer.text
    told = "".join(await lists(http, eve, mine))
    assert not [each for each in (mine.task, mine.going, mine.asked, name) if each in told]

    await the_same_names_are_another_users_own(http, eve, mine)
    await still_there(server, ann, mine)


async def the_same_names_are_another_users_own(http: httpx.AsyncClient, eve: Sent, mine: Mine) -> None:
    """Whoever uses the ids of another user has runs, threads and tasks of their own."""
    task = await sent(http, eve, "hello", mine.message)
    assert task["id"] != mine.task and said_in(task) == "hello"
    task = (await ask(http, "POST", "/message:send", eve, message("hello", contextId=mine.context))).json()["task"]
    assert task["contextId"] == mine.context and "secret" not in said_in(task)
    for run in (mine.run, mine.live):
        answer = await ask(http, "POST", "/agui", eve, started(run, "hello"))
        assert "RUN_FINISHED" in answer.text and "hello" in answer.text and "secret" not in answer.text
    resume = [{"interruptId": "q", "status": "resolved", "payload": "yes"}]
    answer = await ask(http, "POST", "/agui", eve, started("mine", "ok", mine.context, resume=resume))
    assert "secret" not in answer.text
    for thread in (f"t-{mine.run}", f"t-{mine.live}", mine.context):
        assert (await ask(http, "DELETE", f"/threads/{thread}", eve)).status_code == 204


def said_in(task: Any) -> str:
    """The text of a task."""
    return "".join(part.get("text", "") for made in task["artifacts"] for part in made["parts"])


async def still_there(server: Server, ann: Sent, mine: Mine) -> None:
    """The owner can do all of it, and what lived lives on."""
    http = server.http
    for run in (mine.run, mine.live, f"a2a:{mine.message}"):
        assert (await ask(http, "GET", f"/runs/{run}", ann)).json()["run_id"] == run
        assert "a secret" in (await ask(http, "GET", f"/runs/{run}/events", ann)).text
    listed = (await ask(http, "POST", "/", ann, rpc("ListTasks", {"includeArtifacts": True}))).json()["result"]
    assert {mine.task, mine.going, mine.asked} <= {task["id"] for task in listed["tasks"]}
    states = {task["id"]: task["status"]["state"].removeprefix("TASK_STATE_") for task in listed["tasks"]}
    assert [states[id] for id in (mine.task, mine.going, mine.asked)] == ["COMPLETED", "WORKING", "INPUT_REQUIRED"]
    follow = rpc("SubscribeToTask", {"id": mine.going})
    async with (
        streamed(http, "GET", f"/runs/{mine.live}/agui", ann, Last_Event_ID=f"{mine.live}:1.0") as live,
        streamed(http, "POST", "/", ann, follow) as going,
    ):
        await going.until("a secret")
        server.agent.go.set()
        await live.until("RUN_FINISHED")
        await going.until("TASK_STATE_COMPLETED")
        assert " end" in live.text and " end" in going.text
    answered = await ask(http, "POST", "/", ann, rpc("SendMessage", message("yes", taskId=mine.asked)))
    assert "heard yes" in said_in(answered.json()["result"]["task"])
    turn = await sent_in(http, ann, mine.context)
    assert "a secret" in said_in(turn)
    for thread in (f"t-{mine.run}", f"t-{mine.live}", mine.context):
        assert (await ask(http, "GET", f"/threads/{thread}", ann)).status_code == 200
        assert (await ask(http, "DELETE", f"/threads/{thread}", ann)).status_code == 204


async def sent_in(http: httpx.AsyncClient, who: Sent, context: str) -> Any:
    answer = await ask(http, "POST", "/message:send", who, message("and now?", contextId=context))
    return answer.json()["task"]


async def test_a_stranger_at_a_live_stream_neither_reads_nor_ends_it(server: Server) -> None:
    http, server.agent.go = server.http, asyncio.Event()
    ann, eve = shows("bearer", "ann"), shows("bearer", "eve")
    asked = rpc("SendStreamingMessage", message("wait, a secret", "watched"))
    async with (
        streamed(http, "POST", "/", ann, asked) as task,
        streamed(http, "POST", "/agui", ann, started("watched", "wait, a secret")) as run,
    ):
        await task.until("a secret")
        await run.until("a secret")
        first = next(line for line in task.text.split("data: ") if line.startswith("{"))
        id = json.loads(first.partition("id: ")[0])["result"]["task"]["id"]
        for _ in range(3):
            for method, path, body, headers in (
                ("POST", "/", rpc("SubscribeToTask", {"id": id}), {"Last-Event-ID": task.cursor}),
                ("GET", f"/tasks/{id}:subscribe", None, {"Last-Event-ID": task.cursor}),
                ("POST", "/", rpc("CancelTask", {"id": id}), {}),
                ("POST", f"/tasks/{id}:cancel", None, {}),
                ("GET", "/runs/watched/agui", None, {"Last-Event-ID": run.cursor}),
                ("POST", "/runs/watched/cancel", None, {}),
                ("DELETE", "/threads/t-watched", None, {}),
            ):
                answer = await ask(http, method, path, eve, body, *headers.items())
                assert outcome(answer) in (404, NO_TASK)
        server.agent.go.set()
        await task.until("TASK_STATE_COMPLETED")
        await run.until("RUN_FINISHED")
        assert " end" in task.text and " end" in run.text


async def test_the_owner_cancels_what_a_stranger_cannot(server: Server) -> None:
    http, server.agent.go = server.http, asyncio.Event()
    for kind in ALL:
        ann = await visitor(http) if kind == "anonymous" else shows(kind, "ann")
        eve = await visitor(http) if kind == "anonymous" else shows(kind, "eve")
        name = f"cancel-{kind.replace(' ', '')}"
        mine = await everything(http, ann, name)
        for who, run, task in ((eve, {404}, {404, NO_TASK}), (ann, {202}, {200})):
            answers = [
                await ask(http, "POST", "/", who, rpc("CancelTask", {"id": mine.going})),
                await ask(http, "POST", f"/tasks/{mine.asked}:cancel", who),
            ]
            assert {outcome(each) for each in answers} <= task
            assert outcome(await ask(http, "POST", f"/runs/{mine.live}/cancel", who)) in run
        for id in (mine.going, mine.asked):
            got = (await ask(http, "GET", f"/tasks/{id}", ann)).json()
            assert got["status"]["state"] == "TASK_STATE_CANCELED"
