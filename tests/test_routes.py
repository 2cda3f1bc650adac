"""Runs and threads as JSON: what their owner sees, page by page, and what nobody else does."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from runs.staging import Signal, Stage, ended, followed
from serving import ask, body, echo, refusal, said, sent, served

from anabranch.app import App
from anabranch.config import Server
from anabranch.events import RunFinished, ToolCallFinished, ToolCallStarted, ToolReturned
from anabranch.identity import LOCAL
from anabranch.request import RunRequest
from anabranch.sources.python import PythonSource

Items = AsyncGenerator[Any, None]


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'a.db'}"


async def looks(request: RunRequest) -> Items:
    yield "let me see. "
    yield ToolCallStarted(call_id="c", name="look", message_id="turn")
    yield ToolCallFinished(call_id="c")
    yield ToolReturned(call_id="c", message_id="", content="a cat")
    yield f"After {len(request.messages)} messages: a cat."


def turn(run_id: str, *messages: dict[str, Any], thread_id: str = "t", **more: Any) -> dict[str, Any]:
    return body(run_id, thread_id) | {"messages": list(messages)} | more


def user(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text}


# --- runs ------------------------------------------------------------------------------------------------------------


async def test_runs_are_listed_newest_first_page_by_page_and_by_thread(storage: str) -> None:
    async with served(App({"echo": echo}, storage=storage)) as url:
        for number in range(5):
            await ask(url, "POST", "/agui", body(f"r{number}", f"t{number % 2}"))
        pages, query = [], "limit=2"
        while True:
            page = (await ask(url, "GET", f"/runs?{query}")).json
            pages.append([run["run_id"] for run in page["runs"]])
            if "before" not in page:
                break
            query = f"limit=2&before={quote(page['before'])}"
        assert pages == [["r4", "r3"], ["r2", "r1"], ["r0"]]
        odd = (await ask(url, "GET", "/runs?thread=t1")).json
        assert [run["run_id"] for run in odd["runs"]] == ["r3", "r1"]
        assert (await ask(url, "GET", "/runs?thread=nothing")).json == {"runs": []}


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=1001", "limit=-1", "limit=", "limit=1e3"])
async def test_a_wrong_number_is_refused(query: str) -> None:
    async with served(App({"echo": echo})) as url:
        assert refusal(await ask(url, "GET", f"/runs?{query}"))[0] == 422


async def test_the_events_of_a_run_are_read_in_pieces(storage: str) -> None:
    app = App({"echo": echo}, storage=storage)
    async with served(app) as url:
        await ask(url, "POST", "/agui", body())
        whole = (await ask(url, "GET", "/runs/r1/events")).json
        assert [event["seq"] for event in whole["events"]] == list(range(1, whole["last"] + 1))
        assert whole["ended"] and whole["after"] == whole["last"]
        assert whole["events"][0]["event"]["type"] == "run_started"
        pieces, after = [], 0
        while after < whole["last"]:
            piece = (await ask(url, "GET", f"/runs/r1/events?after={after}&limit=2")).json
            pieces += piece["events"]
            after = piece["after"]
        assert pieces == whole["events"]
        assert (await ask(url, "GET", f"/runs/r1/events?after={after}")).json["events"] == []


# --- cancelling ------------------------------------------------------------------------------------------------------


async def test_a_run_is_cancelled_and_every_watcher_hears_of_it_last(storage: str) -> None:
    stage = Stage()
    app = App({"stage": stage}, storage=storage)
    async with served(app) as url, sent(url, "POST", "/agui", body()) as one, sent(url, "POST", "/agui", body()) as two:
        await stage.waiting.wait()
        for wire in (one, two):
            await wire.head()
        answer = await ask(url, "POST", "/runs/r1/cancel")
        assert (answer.status, answer.json["run_id"], answer.json["cancelling"]) == (202, "r1", True)
        for wire in (one, two):
            last = b"".join(await wire.chunks()).rstrip().rsplit(b"data: ", 1)[1]
            assert (json.loads(last)["type"], json.loads(last)["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
        assert stage.left.is_set()
        over = await ask(url, "POST", "/runs/r1/cancel")
        assert refusal(over)[:2] == (409, "run_over")
        assert (await ask(url, "GET", "/runs/r1")).json["status"] == "cancelled"
        assert ended(await followed(app.runs, await app.runs.get("r1", LOCAL))) == (
            "hello",
            RunFinished(outcome="cancelled"),
        )


async def test_cancelled_twice_at_once_it_ends_once(storage: str) -> None:
    may_end = asyncio.Event()
    stage = Stage(cleanup=may_end.wait)
    app = App({"stage": stage}, storage=storage)
    async with served(app) as url, sent(url, "POST", "/agui", body()):
        await stage.waiting.wait()
        answers = [await ask(url, "POST", "/runs/r1/cancel") for _ in range(2)]
        may_end.set()
        assert [answer.status for answer in answers] == [202, 202]
        assert ended(await followed(app.runs, await app.runs.get("r1", LOCAL)))[1] == RunFinished(outcome="cancelled")


async def test_after_a_cancel_the_thread_goes_on_with_what_was_said(storage: str) -> None:
    stage = Stage()
    app = App({"stage": stage, "looks": looks}, storage=storage, default="stage")
    async with served(app) as url:
        async with sent(url, "POST", "/agui", turn("r1", user("u1", "first"))) as wire:
            await stage.waiting.wait()
            await ask(url, "POST", "/runs/r1/cancel")
            await wire.head()
            await wire.chunks()
        events = (await ask(url, "POST", "/agents/looks/agui", turn("r2", user("u2", "second")))).events
        assert said(events) == "let me see. After 3 messages: a cat."


# --- threads ---------------------------------------------------------------------------------------------------------


async def test_a_thread_holds_the_conversation_as_clients_know_it(storage: str) -> None:
    async with served(App({"looks": looks}, storage=storage)) as url:
        events = (await ask(url, "POST", "/agui", turn("r1", user("u1", "what is it?")))).events
        thread = (await ask(url, "GET", "/threads/t")).json
        call = next(event for event in events if event["type"] == "TOOL_CALL_START")
        result = next(event for event in events if event["type"] == "TOOL_CALL_RESULT")
        roles = [message["role"] for message in thread["messages"]]
        assert roles[0] == "user" and roles.count("tool") == 1
        tool = thread["messages"][roles.index("tool")]
        assert (tool["id"], tool["toolCallId"]) == (result["messageId"], call["toolCallId"])
        assert [run["run_id"] for run in thread["runs"]] == ["r1"]


async def test_a_client_may_send_its_whole_copy_or_only_what_is_new(storage: str) -> None:
    async with served(App({"looks": looks}, storage=storage)) as url:
        await ask(url, "POST", "/agui", turn("r1", user("u1", "one")))
        copy = (await ask(url, "GET", "/threads/t")).json["messages"]
        whole = await ask(url, "POST", "/agui", turn("r2", *copy, user("u2", "two")))
        short = await ask(url, "POST", "/agui", turn("r3", user("u3", "three")))
        counts = [len(copy) + 1, 2 * len(copy) + 1]
        assert [said(whole.events), said(short.events)] == [f"let me see. After {n} messages: a cat." for n in counts]
        ids = [message["id"] for message in (await ask(url, "GET", "/threads/t")).json["messages"]]
        assert len(ids) == len(set(ids)) == 3 * len(copy)


async def test_an_edit_forks_and_both_branches_stay(storage: str) -> None:
    async with served(App({"looks": looks}, storage=storage)) as url:
        await ask(url, "POST", "/agui", turn("r1", user("u1", "one")))
        copy = (await ask(url, "GET", "/threads/t")).json["messages"]
        await ask(url, "POST", "/agui", turn("r2", *copy, user("u2", "two")))
        await ask(url, "POST", "/agui", turn("r3", user("u1", "one, but other")))
        newest = (await ask(url, "GET", "/threads/t")).json
        assert newest["messages"][0]["content"] == "one, but other"
        assert len(newest["messages"]) == len(copy)
        assert [run.get("follows") for run in newest["runs"]] == [None, "r1", None]
        older = (await ask(url, "GET", "/threads/t?run=r2")).json["messages"]
        assert [m["content"] for m in older if m["role"] == "user"] == ["one", "two"]
        assert refusal(await ask(url, "GET", "/threads/t?run=rx"))[0] == 404


async def test_instructions_belong_to_a_request_and_come_first(storage: str) -> None:
    seen: list[list[str]] = []

    async def agent(request: RunRequest) -> Items:
        seen.append([f"{message.role}:{message.content}" for message in request.messages])
        yield "ok"

    async with served(App({"agent": agent}, storage=storage)) as url:
        for number in (1, 2):
            system = {"id": f"s{number}", "role": "system", "content": f"rule {number}"}
            await ask(url, "POST", "/agui", turn(f"r{number}", user(f"u{number}", f"q{number}"), system))
    assert seen == [["system:rule 1", "user:q1"], ["system:rule 2", "user:q1", "assistant:ok", "user:q2"]]


async def test_a_deleted_thread_is_gone_with_its_runs_and_its_name_is_free(storage: str) -> None:
    stage = Stage()
    async with served(App({"looks": looks, "stage": stage}, default="looks", storage=storage)) as url:
        await ask(url, "POST", "/agui", turn("r1", user("u1", "one")))
        assert (await ask(url, "DELETE", "/threads/t")).status == 204
        for method, path in [("GET", "/threads/t"), ("DELETE", "/threads/t"), ("GET", "/runs/r1")]:
            assert refusal(await ask(url, method, path))[0] == 404
        events = (await ask(url, "POST", "/agui", turn("r1", user("u1", "one")))).events
        assert said(events) == "let me see. After 1 messages: a cat."
        async with sent(url, "POST", "/agents/stage/agui", turn("r2", user("u2", "two"))) as wire:
            await stage.waiting.wait()
            assert refusal(await ask(url, "DELETE", "/threads/t"))[:2] == (409, "thread_busy")
            stage.go.set()
            await wire.head()
            await wire.chunks()
        assert (await ask(url, "DELETE", "/threads/t")).status == 204


class Remembering(PythonSource):
    """An agent with a memory of its own, which may be out of order."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__(looks)
        self.forgotten, self.told = list[str](), Signal()
        self._fails = fails

    async def forget(self, memory_key: str) -> None:
        self.forgotten.append(memory_key)
        self.told.set()
        if self._fails:
            raise OSError("no connection")


@pytest.mark.parametrize("fails", [False, True])
async def test_the_agents_forget_a_thread_that_is_deleted_branch_by_branch(storage: str, fails: bool) -> None:
    agents = {name: Remembering(fails) for name in ("a", "b", "unused")}
    async with served(App(agents, default="a", storage=storage)) as url:
        await ask(url, "POST", "/agui", turn("r1", user("u1", "one")))
        await ask(url, "POST", "/agui", turn("r2", user("u1", "edited")))
        await ask(url, "POST", "/agents/b/agui", turn("r3", user("u2", "two")))
        assert (await ask(url, "DELETE", "/threads/t")).status == 204
        assert (await ask(url, "GET", "/threads/t")).status == 404
    main, branch = agents["a"].forgotten
    assert main == "local:t" and branch.endswith("@local:t")
    assert agents["b"].forgotten == [branch]
    assert agents["unused"].forgotten == []


async def test_the_agents_forget_what_the_server_does_not_keep_so_that_its_name_is_free(storage: str) -> None:
    agent = Remembering()
    async with served(App({"a": agent}, storage=storage, server=Server(kept_runs=1))) as url:
        await ask(url, "POST", "/agui", turn("r1", user("u1", "one")))
        await ask(url, "POST", "/agui", turn("r2", user("u2", "two"), thread_id="another"))
        await agent.told.wait()
        assert (await ask(url, "GET", "/threads/t")).status == 404
    assert agent.forgotten == ["local:t"]


# --- whose -----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def two_users(storage: str) -> AsyncIterator[str]:
    app = App({"looks": looks}, storage=storage, principal=lambda caller: caller.headers.get("x-user"))
    async with served(app) as url:
        await ask(url, "POST", "/agui", turn("r1", user("u1", "ann's")), x_user="ann")
        yield url


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/runs/r1"),
        ("GET", "/runs/r1/events"),
        ("POST", "/runs/r1/cancel"),
        ("GET", "/runs/r1/agui"),
        ("GET", "/threads/t"),
        ("DELETE", "/threads/t"),
    ],
)
async def test_somebody_elses_run_and_thread_are_not_there(two_users: str, method: str, path: str) -> None:
    assert refusal(await ask(two_users, method, path, x_user="bob"))[:2] == (404, "not_found")
    assert refusal(await ask(two_users, method, path))[:2] == (401, "unauthorized")
    assert (await ask(two_users, "GET", "/runs", x_user="bob")).json == {"runs": []}
    assert (await ask(two_users, "GET", "/runs/r1", x_user="ann")).status == 200
