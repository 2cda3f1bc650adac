"""What a request carries on to agents and tools: its own headers, where an allow-list names them, and nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import WAIT_S, ask, body, said, sent, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from anabranch.app import App
from anabranch.auth import outgoing
from anabranch.auth.forward import PATH
from anabranch.events import Interrupted
from anabranch.request import RunRequest
from anabranch.sources.a2a import A2ASource
from anabranch.sources.openai import OpenAISource
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.graph import supervisor_graph
from auth.asking import bearer, guarded, message, rpc
from auth.remote import WELL_KNOWN, Remote
from tests.sources.langgraph.graphs import asks_for, model, says

ALLOWED = ("authorization", "x-tenant")
USERS = ("ann", "eve")


def trace(number: int) -> str:
    """A ``traceparent`` of its own for each run."""
    return f"00-{number + 1:032x}-b7ad6b7169203331-01"


def carrying(user: str, number: int) -> dict[str, str]:
    """What one request of a user carries."""
    return {"authorization": f"Bearer {bearer(user)}", "x-tenant": f"{user}-{number}", "traceparent": trace(number)}


def source(url: str, *allowed: str) -> A2ASource:
    """The agent at ``url``, to which a request's ``allowed`` headers go."""
    return A2ASource(url, name="one", forward=partial(outgoing, allowed), bound=bool(allowed))


async def run(http: httpx.AsyncClient, user: str, number: int) -> str:
    """All of one run."""
    asked = body(f"r-{number}")
    async with asyncio.timeout(30):
        return (await http.post("/agui", json=asked, headers=carrying(user, number))).text


async def none_is_anothers(http: httpx.AsyncClient, remote: Remote | Model, runs: int) -> None:
    """Runs of two users at once: each stream, and each request to the remote agent, is of one of them."""
    asked = [(USERS[number % 2], number) for number in range(runs)]
    streams = await asyncio.gather(*(run(http, user, number) for user, number in asked))
    for (user, number), stream in zip(asked, streams, strict=True):
        assert f"done for {user}-{number}" in stream
    assert len(remote.all) == runs
    known = {f"{user}-{number}": carrying(user, number) for user, number in asked}
    for _, headers in remote.all:
        assert known.pop(headers["x-tenant"]).items() <= headers.items()
    assert not known


async def test_fifty_runs_of_two_users_at_once_each_carry_their_own(tmp_path: Path) -> None:
    remote = Remote(together=50)
    async with (
        remote.serve() as url,
        guarded(tmp_path, {"one": source(url, *ALLOWED)}, forwards=ALLOWED) as (_, http),
    ):
        await none_is_anothers(http, remote, 50)


async def test_so_do_those_that_a_supervisor_delegates(tmp_path: Path) -> None:
    remote = Remote(together=10)
    async with remote.serve() as url:
        chat = model(asks_for(("c1", "ask_one", '{"question": "x"}')), says("done"))
        agent = source(url, *ALLOWED)
        graph = supervisor_graph(chat, [delegate("one", agent)])
        async with guarded(tmp_path, {"supervisor": graph}, forwards=ALLOWED) as (_, http):
            await none_is_anothers(http, remote, 10)
        await agent.aclose()


class Model:
    """An OpenAI-compatible endpoint that remembers the headers of what it is sent."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, str]]] = []

    async def answer(self, request: Request) -> Response:
        headers = dict(request.headers)
        self.all.append(("chat", headers))
        delta = {"index": 0, "delta": {"content": f"done for {headers['x-tenant']}"}, "finish_reason": "stop"}
        text = f"data: {json.dumps({'choices': [delta]})}\n\ndata: [DONE]\n\n"
        return Response(text, media_type="text/event-stream")


async def test_so_do_those_of_a_model_behind_an_endpoint(tmp_path: Path) -> None:
    remote = Model()
    routes = [Route("/v1/chat/completions", remote.answer, methods=["POST"])]
    async with served(Starlette(routes=routes)) as url:
        agent = OpenAISource(f"{url}/v1", model="m", forward=partial(outgoing, ALLOWED))
        async with guarded(tmp_path, {"one": agent}, forwards=ALLOWED) as (_, http):
            await none_is_anothers(http, remote, 10)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_tool_of_a_graph_has_the_headers_of_its_own_run(tmp_path: Path, kind: str) -> None:
    from langchain.agents import create_agent
    from langchain.tools import tool

    inside = asyncio.Barrier(6)

    @tool
    async def later() -> str:
        """Look."""
        async with asyncio.timeout(WAIT_S):
            await inside.wait()
        return json.dumps(outgoing(["x-tenant"]))

    @tool
    def now() -> str:
        """Look."""
        return json.dumps(outgoing(["x-tenant"]))

    used = later if kind == "async" else now
    graph = create_agent(model(asks_for(("c1", used.name, "{}")), says("done")), [used])
    async with guarded(tmp_path, {"graph": graph}, forwards=ALLOWED) as (_, http):
        asked = [(USERS[number % 2], number) for number in range(6)]
        streams = await asyncio.gather(*(run(http, user, number) for user, number in asked))
    for (user, number), stream in zip(asked, streams, strict=True):
        events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
        [result] = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert without_path(result) == {"x-tenant": f"{user}-{number}", "traceparent": trace(number)}


async def test_without_a_list_only_the_trace_goes_on(tmp_path: Path) -> None:
    remote = Remote()
    async with remote.serve() as url, guarded(tmp_path, {"one": source(url)}, forwards=ALLOWED) as (_, http):
        stream = await run(http, "ann", 7)
        assert "done for nobody" in stream
    assert remote.sent["traceparent"] == trace(7) and not {*ALLOWED, "cookie"} & remote.sent.keys()


@pytest.mark.parametrize("moved", ["/", WELL_KNOWN])
@pytest.mark.parametrize("allowed", [(), ALLOWED])
async def test_nothing_goes_where_an_agent_redirects_to(tmp_path: Path, moved: str, allowed: tuple[str, ...]) -> None:
    reached = []

    async def reach(request: Request) -> Response:
        reached.append(dict(request.headers))
        return Response()

    trap = Starlette(routes=[Route("/{path:path}", reach, methods=["GET", "POST"])])
    async with served(trap) as elsewhere:
        remote = Remote(elsewhere={moved: elsewhere + moved})
        async with (
            remote.serve() as url,
            guarded(tmp_path, {"one": source(url, *allowed)}, forwards=ALLOWED) as (
                _,
                http,
            ),
        ):
            stream = await run(http, "ann", 1)
    assert "RUN_ERROR" in stream and not reached
    assert "authorization" not in remote.card and "traceparent" not in remote.card


def without_path(text: str) -> dict[str, str]:
    """Headers, told as JSON, without the way that the request has come."""
    return {name: value for name, value in json.loads(text).items() if name != PATH}


async def asks(request: RunRequest) -> AsyncGenerator[Any, None]:
    """Tells what it may have, and asks; answered, it tells it again."""
    yield json.dumps(outgoing(["x-tenant"]))
    if not request.resume:
        yield Interrupted(interrupt_id="q", reason="confirmation", message="May I?")


async def test_a_run_that_goes_on_has_the_headers_of_the_request_that_answers() -> None:
    async with served(App({"a": asks}, forwards=["x-tenant"])) as url:
        await ask(url, "POST", "/agui", body("r1", "t"), x_tenant="blue", x_request_id="1")
        answer = [{"interruptId": "q", "status": "resolved", "payload": True}]
        onward = {"messages": [{"id": "m2", "role": "user", "content": "yes"}], "resume": answer}
        resumed = await ask(url, "POST", "/agui", body("r2", "t") | onward, x_request_id="2")
        assert without_path(said(resumed.events)) == {"x-request-id": "2"}

        tasks = []
        for id, more, headers in (("m1", {}, {"x_tenant": "blue"}), ("m2", {"taskId": ""}, {"x_tenant": "red"})):
            more = {"taskId": tasks[0]["id"]} if more else {}
            asked = rpc("SendMessage", message("hello", id, **more))
            tasks.append((await ask(url, "POST", "/", asked, a2a_version="1.0", **headers)).json["result"]["task"])
        [before, after] = [part["text"] for made in tasks[1]["artifacts"] for part in made["parts"]]
        assert [without_path(text) for text in (before, after)] == [{"x-tenant": "blue"}, {"x-tenant": "red"}]


async def test_who_joins_or_cancels_a_run_gives_it_no_headers() -> None:
    remote = Remote(hangs=True)
    async with (
        remote.serve() as at,
        served(App({"one": source(at, *ALLOWED)}, forwards=ALLOWED)) as url,
        sent(url, "POST", "/agui", body(), **first_of("ann", 1)) as stream,
    ):
        await stream.head()
        async with asyncio.timeout(WAIT_S):
            await remote.reached.wait()
        async with sent(url, "POST", "/agui", body(), **first_of("ann", 2)) as again:
            await again.head()
            await again.chunk()
        assert (await ask(url, "POST", "/runs/r1/cancel", **first_of("ann", 3))).status == 202
        await stream.chunks()
        async with asyncio.timeout(WAIT_S):
            await remote.cancelled.wait()
    assert [method for method, _ in remote.all] == ["SendStreamingMessage", "CancelTask"]
    for _, headers in remote.all:
        assert carrying("ann", 1).items() <= headers.items()


def first_of(user: str, number: int) -> dict[str, str]:
    """What a request carries, as names of arguments."""
    return {name.replace("-", "_"): value for name, value in carrying(user, number).items()}
