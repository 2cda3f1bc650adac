"""Callers without a credential on the whole server: a cookie with the first response, then one user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from serving import WAIT_S, sent

from anabranch.app import App
from anabranch.config import Server as Settings
from anabranch.request import RunRequest
from auth.asking import KINDS, VISITOR, Agent, ask, client, cookie_of, guarded, message, rpc, shows


class Server(NamedTuple):
    """The server under test."""

    app: App
    http: httpx.AsyncClient
    agent: Agent


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server, None]:
    agent = Agent()
    async with guarded(tmp_path, {"agent": agent}, anonymous=True) as (app, http):
        yield Server(app, http, agent)
        agent.go.set()


def started(text: str, run_id: str = "r", thread_id: str = "t") -> dict[str, Any]:
    said = {"id": "m", "role": "user", "content": text}
    return {"runId": run_id, "threadId": thread_id, "messages": [said]}


STREAMS = {
    "AG-UI": ("/agui", started("wait")),
    "an agent's AG-UI": ("/agents/agent/agui", started("wait")),
    "A2A": ("/", rpc("SendStreamingMessage", message("wait", "m"))),
    "an agent's A2A": ("/a2a/agent", rpc("SendStreamingMessage", message("wait", "m"))),
    "REST": ("/message:stream", message("wait", "m")),
}


@pytest.mark.parametrize("stream", STREAMS)
async def test_the_cookie_is_in_the_head_of_a_stream_that_still_waits_and_brings_its_owner_back(
    server: Server, stream: str
) -> None:
    path, body = STREAMS[stream]
    url = str(server.http.base_url)
    async with sent(url, "POST", path, body, A2A_Version="1.0") as wire:
        status, headers = await wire.head()
        assert status == 200 and headers["content-type"].startswith("text/event-stream")
        cookie = headers["set-cookie"].partition(";")[0]
        assert cookie.startswith(f"{VISITOR}=") and "HttpOnly" in headers["set-cookie"]
        await wire.chunk()
        [run] = (await ask(server.http, "GET", "/runs", [("Cookie", cookie)])).json()["runs"]
        assert run["status"] == "running"
        assert (await ask(server.http, "GET", "/runs", [])).json() == {"runs": []}
    back = f"/runs/{run['run_id']}/agui"
    async with sent(url, "GET", back, cookie=cookie, Last_Event_ID=f"{run['run_id']}:1.0") as wire:
        status, headers = await wire.head()
        assert status == 200 and "set-cookie" not in headers
        server.agent.go.set()
        assert b"RUN_FINISHED" in b"".join(await wire.chunks())


async def test_callers_without_cookies_share_nothing_though_all_names_are_the_same(server: Server) -> None:
    number = 20
    asked = [server.http.post("/agui", json=started(f"secret {each}.")) for each in range(number)]
    version = {"A2A-Version": "1.0"}
    asked += [
        server.http.post("/message:send", json=message(f"secret {each}.", "m", contextId="t"), headers=version)
        for each in range(number, 2 * number)
    ]
    answers = await asyncio.gather(*asked)
    assert len({cookie_of(answer) for answer in answers}) == 2 * number
    for each, answer in enumerate(answers):
        assert answer.status_code == 200
        assert [other for other in range(2 * number) if f"secret {other}." in answer.text] == [each]
    for each, answer in enumerate(answers[:3]):
        mine = await ask(server.http, "GET", "/threads/t", [("Cookie", cookie_of(answer))])
        assert f"secret {each}." in mine.text


async def test_two_browsers_are_two_users_who_keep_what_they_said(server: Server) -> None:
    url = str(server.http.base_url)
    async with httpx.AsyncClient(base_url=url) as one, httpx.AsyncClient(base_url=url) as two:
        for browser, text in ((one, "red"), (two, "blue")):
            async with asyncio.timeout(WAIT_S):
                first = await browser.post("/agui", json=started(text))
                again = await browser.post("/agui", json=started("and now?", "r2") | {"messages": [NEXT]})
            assert "set-cookie" in first.headers and "set-cookie" not in again.headers
            assert f"{text} | and now?" in again.text
            assert [run["run_id"] for run in (await browser.get("/runs")).json()["runs"]] == ["r2", "r"]
            assert [cookie.name for cookie in browser.cookies.jar] == [VISITOR]


NEXT = {"id": "m2", "role": "user", "content": "and now?"}


async def test_a_browser_whose_cookie_is_spoilt_is_somebody_new_the_second_time(server: Server) -> None:
    async with httpx.AsyncClient(base_url=str(server.http.base_url), cookies={VISITOR: "spoilt"}) as browser:
        browser.cookies.set(VISITOR, "spoilt", domain="127.0.0.1", path="/")
        browser.cookies.delete(VISITOR, domain="", path="/")
        seen = [(await browser.post("/agui", json=started("hello"))).status_code for _ in range(3)]
    assert seen == [401, 200, 200]


async def test_who_logs_in_is_another_user_than_before_and_gets_no_cookie(server: Server) -> None:
    first = await ask(server.http, "POST", "/agui", [], started("hello"))
    cookie = ("Cookie", cookie_of(first))
    for kind in ("context", "bearer", "api key"):
        answer = await ask(server.http, "GET", "/runs", [*shows(kind, "ann"), cookie])
        assert answer.json() == {"runs": []} and "set-cookie" not in answer.headers
    session = shows("session", "ann")[0][1]
    answer = await ask(server.http, "GET", "/runs", [("Cookie", f"{session}; {cookie[1]}")])
    assert answer.json() == {"runs": []} and "set-cookie" not in answer.headers
    assert len((await ask(server.http, "GET", "/runs", [cookie])).json()["runs"]) == 1


async def test_no_cache_may_keep_what_is_one_users(server: Server) -> None:
    ann = shows("context", "ann")
    assert (await ask(server.http, "POST", "/agui", ann, started("hello"))).headers["cache-control"].startswith("no-")
    for path in ("/runs", "/runs/r", "/runs/r/events", "/threads/t", "/runs/none", "/tasks"):
        answer = await ask(server.http, "GET", path, ann)
        assert answer.headers.get_list("cache-control") == ["no-store"], path
    async with client(str(server.http.base_url)) as http:
        card = await http.get("/.well-known/agent-card.json")
    assert card.headers.get_list("cache-control") == ["public, max-age=300"]  # which is everybody's


async def test_behind_a_proxy_that_speaks_tls_the_cookie_goes_over_tls_only(tmp_path: Path) -> None:
    settings = Settings(public_url="https://agents.example.com")
    async with guarded(tmp_path, {"agent": Agent()}, anonymous=True, server=settings) as (_, http):
        answer = await ask(http, "POST", "/agui", [], started("hello"))
    assert answer.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize("anonymous", [True, False])
async def test_each_card_says_what_this_server_takes(tmp_path: Path, anonymous: bool) -> None:
    async with guarded(tmp_path, {"agent": Agent()}, anonymous=anonymous) as (_, http):
        for under in ("", "/a2a/agent"):
            card = (await http.get(f"{under}/.well-known/agent-card.json")).json()
            names = ["context", "bearer", "apiKey", "session"]
            assert list(card["securitySchemes"]) == names
            required = [next(iter(each["schemes"])) for each in card.get("securityRequirements", [])]
            assert required == ([] if anonymous else names)
            assert [next(iter(each)) for each in card.get("security", [])] == required


async def test_what_an_agent_keeps_of_a_conversation_is_one_users(tmp_path: Path) -> None:
    kept: dict[str, list[str]] = {}

    async def remembers(request: RunRequest) -> AsyncGenerator[str, None]:
        mine = kept.setdefault(request.memory_key, [])
        mine.append(request.last_user_text())
        yield " | ".join(mine)

    async with guarded(tmp_path, {"agent": remembers}, anonymous=True) as (_, http):
        users = [shows(kind, user) for kind in KINDS for user in ("ann", "eve")] + [[], []]
        for number, who in enumerate(users):
            for path, body in (("/agui", started(f"secret {number}")), ("/message:send", message(contextId="t"))):
                answer = await ask(http, "POST", path, who, body)
                assert answer.status_code == 200
                others = [other for other in range(len(users)) if other != number]
                assert not [other for other in others if f"secret {other}" in answer.text]
                assert not who or f"secret {number}" in answer.text
    assert len(kept) == len(users) + 2  # who keeps no cookie is somebody else each time
