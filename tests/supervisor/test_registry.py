"""Agents that come, go, change and hang: who is used when, and what is told of it. Real connections, real processes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from anabranch import App
from anabranch.config import parse
from anabranch.demo._process import started
from anabranch.errors import SourceError
from anabranch.request import Message, RunRequest
from anabranch.sources.a2a import A2ASource
from anabranch.supervisor.registry import Registered
from tests.serving import ask, body, by_header, said, served
from tests.sources.a2a._raw import Json, Raw, Request, card, raw
from tests.supervisor.spine import free_port

OVER = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
REQUEST = RunRequest(run_id="r", thread_id="t", messages=(Message(id="1", role="user", content="hi"),))


async def agrees(request: Request) -> None:
    """An agent that has nothing to say."""
    await request.answer({"jsonrpc": "2.0", "id": request.call["id"], "result": OVER})


class Agent:
    """An agent whose card is whatever ``shows`` answers. ``looks`` are the requests for it."""

    def __init__(self) -> None:
        self.looks: list[Request] = []
        self.asked: list[Request] = []
        self.shows: Callable[[Request], Coroutine[Any, Any, None]] = self.whole
        self.says: Callable[[Request], Coroutine[Any, Any, None]] = agrees
        self.card: Json = card(streaming=False)
        self.etag = ""

    async def __call__(self, request: Request) -> None:
        if request.method == "POST":
            self.asked.append(request)
            return await self.says(request)
        self.looks.append(request)
        await self.shows(request)

    async def whole(self, request: Request) -> None:
        """The card, unless the client has it."""
        if self.etag and request.headers.get("if-none-match") == self.etag:
            return await request.answer(status=304, etag=self.etag)
        await request.answer(self.card, **({"etag": self.etag} if self.etag else {}))


@asynccontextmanager
async def registered(url: str, **options: Any) -> AsyncIterator[Registered]:
    agent = Registered("a", A2ASource(url, name="a"), **options)
    async with asyncio.timeout(25):
        try:
            yield agent
        finally:
            await agent.aclose()


@asynccontextmanager
async def running(agent: Agent, port: int = 0) -> AsyncIterator[Raw]:
    async with raw(agent, None, port) as server:
        yield server


async def wait(reached: Callable[[], object]) -> None:
    """Let everything else go on until then."""
    while not reached():  # noqa: ASYNC110  nothing tells
        await asyncio.sleep(0)  # noqa: TID251  no time passes


async def until(agent: Registered, state: str) -> None:
    """Wait until a look has shown that."""
    await wait(lambda: agent.shown()["state"] == state)


async def outcome(agent: Registered) -> str:
    """What comes of a request: the code of the error."""
    try:
        async with aclosing(agent.open(REQUEST)) as items:
            return "success" if [item async for item in items] else "nothing"
    except SourceError as error:
        return error.code


# --- looking ---------------------------------------------------------------------------------------------------------


async def test_an_agent_is_looked_at_as_soon_as_the_server_starts_and_told_of_by_its_card() -> None:
    agent = Agent()
    agent.card |= {"version": "3", "description": "Clusters.", "skills": [{"name": "list"}, {"name": "show"}]}
    async with running(agent) as server, registered(server.url) as known:
        assert known.shown()["state"] == "unknown" and "checked" not in known.shown()
        known.start()
        await until(known, "up")
        shown = known.shown()
        assert shown.pop("checked") and shown.pop("since")
        told = {"state": "up", "version": "3", "description": "Clusters.", "skills": ["list", "show"]}
        assert shown == told
        assert known.told == "Clusters. Its skills: list, show."
        assert server.url not in json.dumps(known.shown())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((401, b""), "refused our credentials (HTTP 401); configure its `auth`"),
        ((500, b""), "failed (HTTP 500)"),
        ((503, b""), "is not available now (HTTP 503)"),
        ((302, b""), "is elsewhere (HTTP 302); configure the address that it redirects to"),
        ((404, b""), "has no agent card: neither /.well-known/agent-card.json nor /.well-known/agent.json"),
        ((200, b"<html>"), "has an agent card that cannot be read"),
        ((200, b'{"name": "a"}'), "has an agent card without an interface"),
        ((200, b" " * (2**20 + 1)), "sent more than 1048576 bytes at once"),
    ],
    ids=str,
)
async def test_an_agent_without_a_usable_card_is_down_for_a_reason_and_asked_nothing(
    answer: tuple[int, bytes], reason: str
) -> None:
    agent = Agent()
    agent.shows = lambda request: request.answer(answer[1], status=answer[0])
    async with running(agent) as server, registered(server.url) as known:
        known.start()
        await until(known, "down")
        assert known.shown()["reason"] == reason
        assert await outcome(known) == "agent_unavailable" and not agent.asked
        agent.shows = agent.whole
        assert await outcome(known) == "success" and known.shown()["state"] == "up"
        assert "reason" not in known.shown()


async def test_a_card_that_did_not_change_is_not_sent_again() -> None:
    agent = Agent()
    agent.etag = '"one"'
    async with running(agent) as server, registered(server.url) as known:
        for _ in range(3):
            await known.refresh()
        assert [look.headers.get("if-none-match") for look in agent.looks] == [None, '"one"', '"one"']
        agent.etag, agent.card = '"two"', agent.card | {"version": "2"}
        assert (await known.refresh()).version == "2"
        agent.etag = ""
        assert (await known.refresh()).version == "2"
        assert agent.looks[-1].headers["if-none-match"] == '"two"'
        await known.refresh()
        assert "if-none-match" not in agent.looks[-1].headers


async def test_a_card_that_moves_to_the_other_place_is_found_again() -> None:
    agent, place = Agent(), "/.well-known/agent.json"

    async def shows(request: Request) -> None:
        await (agent.whole(request) if request.path == place else request.answer(status=404))

    agent.shows = shows
    async with running(agent) as server, registered(server.url) as known:
        await known.refresh()
        await known.refresh()
        assert [look.path for look in agent.looks][1:] == [place, place]
        place = "/.well-known/agent-card.json"
        await known.refresh()
        assert agent.looks[-1].path == place


async def test_a_changed_card_counts_from_the_next_request_on_and_a_run_goes_on_with_the_old_one() -> None:
    agent, going = Agent(), asyncio.Event()

    async def says(request: Request) -> None:
        if request.path == "/rpc":
            await going.wait()
        await agrees(request)

    agent.says = says
    async with running(agent) as server, registered(server.url) as known:
        first = asyncio.create_task(outcome(known))
        await wait(lambda: agent.asked)
        agent.card = card(streaming=False, version="2")
        agent.card["supportedInterfaces"][0]["url"] = "http://0.0.0.0/new"
        await known.refresh()
        assert await outcome(known) == "success"
        going.set()
        assert await first == "success"
        assert [request.path for request in agent.asked] == ["/rpc", "/new"]


async def test_what_the_card_wants_and_nobody_configured_is_told_of_an_agent_that_is_up() -> None:
    agent = Agent()
    agent.card |= {
        "securitySchemes": {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
        "securityRequirements": [{"schemes": {"k": {"list": []}}}],
    }
    async with running(agent) as server, registered(server.url) as known, registered(server.url, has=["key"]) as has:
        for each in (known, has):
            each.start()
            await until(each, "up")
        assert known.shown()["reason"] == "needs an API key (header X-Key); configure `auth: {api_key_env: NAME}`"
        assert "reason" not in has.shown()


async def test_an_address_on_the_card_that_cannot_be_reached_is_told_with_its_remedy() -> None:
    agent = Agent()
    agent.card["supportedInterfaces"][0]["url"] = "http://agent.invalid/rpc"
    async with running(agent) as server, registered(server.url) as known:
        known.start()
        assert await outcome(known) == "agent_unreachable"
        await until(known, "up")
        assert known.shown()["reason"] == "the address on its card cannot be reached; configure `url_override: true`"
        source = A2ASource(server.url, override=True)
        assert [item async for item in source.open(REQUEST)] and agent.asked[0].path == "/rpc"
        await source.aclose()


# --- coming and going ------------------------------------------------------------------------------------------------


async def test_an_agent_that_is_started_after_the_server_is_used_by_the_very_next_request() -> None:
    port = free_port()
    async with registered(f"http://127.0.0.1:{port}") as known:
        known.start()
        await until(known, "down")
        assert await outcome(known) == "agent_unavailable"
        async with running(Agent(), port):
            assert await outcome(known) == "success"


async def test_an_agent_that_comes_back_is_seen_without_a_request() -> None:
    port = free_port()
    async with registered(f"http://127.0.0.1:{port}") as known:
        known.start()
        await until(known, "down")
        async with running(Agent(), port):
            await until(known, "up")


async def test_an_agent_that_is_down_is_refused_at_once_with_its_name_the_reason_and_since_when() -> None:
    async with registered(f"http://127.0.0.1:{free_port()}") as known:
        known.start()
        await until(known, "down")
        begun = time.monotonic()
        with pytest.raises(SourceError) as raised:
            await anext(known.open(REQUEST))
        assert time.monotonic() - begun < 0.5
    error, since = raised.value, known.shown()["since"]
    assert (error.code, error.unsent, error.retryable) == ("agent_unavailable", True, True)
    assert str(error) == f"The agent a is not available since {since}: it cannot be reached."


async def test_a_thousand_requests_at_once_to_an_agent_that_is_down_look_at_it_once() -> None:
    agent = Agent()
    agent.shows = lambda request: request.answer(status=500)
    async with running(agent) as server, registered(server.url) as known:
        known.start()
        await until(known, "down")
        before = len(agent.looks)
        ends = await asyncio.gather(*(outcome(known) for _ in range(1000)))
        assert set(ends) == {"agent_unavailable"} and len(agent.looks) == before + 1


async def test_a_thousand_requests_at_once_before_the_first_look_share_it() -> None:
    agent = Agent()
    agent.shows = lambda request: request.answer(status=500)
    async with running(agent) as server, registered(server.url) as known:
        known.start()
        ends = await asyncio.gather(*(outcome(known) for _ in range(1000)))
        assert set(ends) == {"agent_failed"} and len(agent.looks) == 1


async def test_an_agent_that_hangs_holds_nobody_for_longer_than_two_seconds_and_no_other_agent_at_all() -> None:
    hanging, healthy = Agent(), Agent()
    hanging.shows = lambda request: request.answer(status=500)
    async with (
        running(hanging) as one,
        running(healthy) as other,
        registered(one.url) as known,
        registered(other.url) as second,
    ):
        known.start()
        second.start()
        await until(known, "down")
        hanging.shows = lambda request: request.gone.wait()  # type: ignore[assignment,return-value]
        begun = time.monotonic()
        held = [asyncio.create_task(outcome(known)) for _ in range(5)]
        assert await outcome(second) == "success" and time.monotonic() - begun < 1
        assert [await each for each in held] == ["agent_unavailable"] * 5
        assert 1 < time.monotonic() - begun < 4
        begun = time.monotonic()
        assert await outcome(known) == "agent_unavailable" and time.monotonic() - begun < 0.5, "it waits twice"


async def test_a_request_that_fails_has_the_agent_looked_at_at_once() -> None:
    port = free_port()
    async with registered(f"http://127.0.0.1:{port}") as known:
        async with running(Agent(), port):
            known.start()
            assert await outcome(known) == "success"
        assert await outcome(known) == "agent_unreachable"
        await until(known, "down")
        assert await outcome(known) == "agent_unavailable"


async def test_a_refusal_of_one_users_credentials_does_not_take_the_agent_from_others() -> None:
    agent = Agent()
    agent.says = lambda request: request.answer(status=401)
    async with running(agent) as server, registered(server.url) as known:
        known.start()
        assert [await outcome(known) for _ in range(3)] == ["agent_auth"] * 3
        agent.says = agrees
        assert await outcome(known) == "success" and known.shown()["state"] == "up"


async def test_nothing_looks_any_more_once_it_is_closed() -> None:
    agent = Agent()
    agent.shows = lambda request: request.gone.wait()  # type: ignore[assignment,return-value]
    async with running(agent) as server, registered(server.url) as known:
        known.start()
        await wait(lambda: agent.looks)
        await known.aclose()
        await agent.looks[0].gone.wait()
        assert not [task for task in asyncio.all_tasks() if "look" in task.get_name()]


async def test_everything_else_is_the_sources_own() -> None:
    async with registered("http://127.0.0.1:1") as known:
        assert known.kind == "a2a" and known.settings(REQUEST)["name"] == "a" and known.dump(b"{}") == "{}"
        assert not hasattr(known, "no_such_thing")


# --- the server ------------------------------------------------------------------------------------------------------

CONFIG = """
agents:
  komodor: {a2a: "http://127.0.0.1:%d", description: Clusters.}
  argocd: {a2a: "http://127.0.0.1:%d"}
  echo: {python: "tests.serving:echo"}
default: komodor
storage: memory://
"""


async def roster(url: str, **headers: str) -> dict[str, Any]:
    answer = await ask(url, "GET", "/agents", **headers)
    return {each.pop("name"): each for each in answer.json["agents"]}


@pytest.mark.process
async def test_the_server_starts_without_its_agents_and_uses_one_that_is_started_killed_and_changed() -> None:
    port = free_port()
    app = App.from_config(parse(CONFIG % (port, free_port())))

    async def asked(run: str) -> list[dict[str, Any]]:
        return (await ask(url, "POST", "/agents/komodor/agui", body(run, text="mode=ok"))).events

    async with asyncio.timeout(60), served(app) as url:
        [error] = [event for event in await asked("r1") if event["type"] == "RUN_ERROR"]
        assert error["code"] in ("agent_unavailable", "agent_unreachable") and str(port) not in error["message"]
        agents = await roster(url)
        assert agents["echo"] == {"kind": "python", "state": "up", "default": False}
        assert (agents["komodor"]["state"], agents["komodor"]["reason"]) == ("down", "cannot be reached")
        assert (agents["komodor"]["default"], agents["komodor"]["description"]) == (True, "Clusters.")
        async with started("tests.agents.remote", "--rate", "0", port=port):
            first = said(await asked("r2"))
            assert first and (await roster(url))["komodor"]["skills"] == ["test"]
        async with started("tests.agents.remote", "--rate", "0", "--speaks", "0.3", "--whole", port=port):
            # It went unnoticed, as nothing was asked meanwhile. The request that finds out has it looked at.
            before = (await roster(url))["komodor"]["checked"]
            assert [event["code"] for event in await asked("r3") if event["type"] == "RUN_ERROR"] == ["agent_protocol"]
            while (await roster(url))["komodor"]["checked"] == before:
                pass
            assert said(await asked("r4")) == first
        assert str(port) not in json.dumps(await roster(url))


async def test_who_is_not_identified_is_told_of_no_agent() -> None:
    async with served(App.from_config(parse(CONFIG % (1, 1)), principal=by_header)) as url:
        assert (await ask(url, "GET", "/agents")).status == 401
        assert set(await roster(url, x_user="ann")) == {"komodor", "argocd", "echo"}


async def test_a_stop_ends_the_looks() -> None:
    agent = Agent()
    async with asyncio.timeout(20), running(agent) as server:
        app = App.from_config(parse(f"agents: {{a: {{a2a: '{server.url}'}}}}\nstorage: memory://"))
        async with served(app) as url:
            while (await roster(url))["a"]["state"] != "up":
                pass
        assert len(agent.looks) == 1 and not [task for task in asyncio.all_tasks() if "look" in task.get_name()]
