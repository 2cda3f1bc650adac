"""The whole server with an ``auth`` section: who is asking on every route, and what goes on to agents."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from serving import ask, body, echo, refusal, said, served

from anabranch.app import App
from anabranch.auth import outgoing
from anabranch.config import parse
from anabranch.config.callers import Callers
from anabranch.errors import ConfigError
from auth.minting import CONTEXT, ENVIRON, VISITORS, context
from auth.remote import Remote

HEADER = "X_DataRobot_Authorization_Context"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GETS = ["/runs/r1", "/runs/r1/events", "/runs/r1/agui", "/threads/t-r1"]


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


async def test_what_is_one_callers_is_not_there_for_another() -> None:
    app = App({"echo": echo}, auth=Callers(context_header=CONTEXT, anonymous=VISITORS))
    async with served(app) as url:
        ann, eve = ({HEADER: context(user)} for user in ("ann", "eve"))
        first = await ask(url, "POST", "/agui", body(), **ann)
        assert said(first.events) == "hel lo" and "set-cookie" not in first.headers
        visitor = await ask(url, "POST", "/agui", body("r2"))
        cookie = visitor.headers["set-cookie"].partition(";")[0]
        assert said(visitor.events) == "hel lo"
        for path in GETS:
            assert (await ask(url, "GET", path, **ann)).status == 200
            for other in (eve, {}, {"cookie": cookie}):
                assert (await ask(url, "GET", path, **other)).status == 404
            assert (await ask(url, "GET", path.replace("r1", "r2"), cookie=cookie)).status == 200
            assert refusal(await ask(url, "GET", path, **{HEADER: context("ann", key="x" * 40)}))[:2] == (
                401,
                "unauthorized",
            )
        assert (await ask(url, "POST", "/runs/r1/cancel", **eve)).status == 404
        assert (await ask(url, "DELETE", "/threads/t-r1", **eve)).status == 404
        assert [len((await ask(url, "GET", "/runs", **who)).json["runs"]) for who in (ann, eve)] == [1, 0]
        again = await ask(url, "POST", "/agui", body(), **eve)  # the same ids are hers
        assert said(again.events) == "hel lo"
        assert (await ask(url, "GET", "/health")).status == 200


async def test_a_cookie_that_is_not_ours_is_taken_away_by_the_401() -> None:
    async with served(App({"echo": echo}, auth=Callers(anonymous=VISITORS))) as url:
        answer = await ask(url, "POST", "/agui", body(), cookie="anabranch-anonymous=x")
    assert answer.status == 401 and "Max-Age=0" in answer.headers["set-cookie"]


def configured(*lines: str) -> App:
    return App.from_config(parse("storage: memory://\nagents:\n" + "".join(f"  {line}\n" for line in lines)))


async def test_the_headers_that_an_agent_lists_reach_it_and_no_other(tmp_path: Path) -> None:
    one, two = Remote(), Remote()
    async with one.serve() as at_one, two.serve() as at_two:
        app = configured(f"one: {{a2a: '{at_one}', forward: [Authorization]}}", f"two: {{a2a: '{at_two}'}}")
        async with served(app) as url:
            for name in ("one", "two"):
                for user in ("ann", "eve"):
                    answer = await ask(
                        url,
                        "POST",
                        f"/agents/{name}/agui",
                        body(f"{name}-{user}"),
                        authorization=f"Bearer {user}",
                        traceparent=TRACE,
                        cookie="sid=1",
                        x_tenant="blue",
                    )
                    assert said(answer.events) in ("done for nobody", "done for blue")
                    assert "Bearer" not in answer.body.decode()
    assert one.sent["authorization"] == "Bearer eve" and one.sent["traceparent"] == TRACE
    assert "authorization" not in two.sent and two.sent["traceparent"] == TRACE
    for remote in (one, two):
        assert not {"cookie", "x-tenant"} & remote.sent.keys()
        assert not {"authorization", "traceparent"} & remote.card.keys()


async def test_no_header_crosses_to_another_origin() -> None:
    remote = Remote("https://elsewhere.example.com/")
    async with remote.serve() as at:
        app = configured(f"one: {{a2a: '{at}', forward: [authorization]}}")
        async with served(app) as url:
            answer = await ask(url, "POST", "/agui", body(), authorization="Bearer ann", traceparent=TRACE)
    assert answer.events[-1]["code"] == "agent_protocol" and "names another address" in answer.events[-1]["message"]
    assert remote.sent == {}


async def test_the_same_request_with_other_headers_is_the_same_run() -> None:
    async with served(App({"echo": echo})) as url:
        first = await ask(url, "POST", "/agui", body(), traceparent=TRACE, x_request_id="1")
        again = await ask(url, "POST", "/agui", body(), x_request_id="2")
    assert first.status == again.status == 200 and first.events == again.events


def written(place: Path) -> list[bytes]:
    """All files below ``place``."""
    return [path.read_bytes() for path in place.rglob("*") if path.is_file()]


async def test_a_recording_and_a_database_hold_no_header(tmp_path: Path) -> None:
    remote = Remote()
    async with remote.serve() as at:
        app = App.from_config(
            parse(
                f"storage: 'sqlite:///{tmp_path}/runs.db'\nagents: {{one: {{a2a: '{at}', forward: [authorization]}}}}"
            ),
            record=tmp_path / "tapes",
        )
        async with served(app) as url:
            await ask(url, "POST", "/agui", body(), authorization="Bearer hunter2-hunter2", traceparent=TRACE)
    assert remote.sent["authorization"] == "Bearer hunter2-hunter2"
    kept = written(tmp_path)
    assert len(kept) >= 2
    assert not [data for data in kept if b"hunter2" in data or TRACE.encode() in data]


async def test_a_tool_in_the_process_asks_for_what_it_may_have() -> None:
    async def agent(request: Any) -> AsyncGenerator[str, None]:
        yield json.dumps(await asyncio.create_task(tool()))

    async def tool() -> dict[str, str]:
        return outgoing(["x-tenant", "authorization"])

    async with served(App({"a": agent}, forwards=["X-Tenant"])) as url:
        answer = await ask(url, "POST", "/agui", body(), x_tenant="blue", authorization="Bearer ann", x_request_id="7")
    told = json.loads(said(answer.events))
    assert told.pop("x-anabranch-path").endswith("/a")
    assert told == {"x-tenant": "blue", "x-request-id": "7"}


def test_what_contradicts_itself_makes_no_server() -> None:
    with pytest.raises(ConfigError, match="both say who is asking"):
        App({"a": echo}, auth=Callers(anonymous=VISITORS), principal=lambda caller: "ann")
    for line in ("forward: [cookie]", "forward: [authorization], auth: {bearer_env: TOKEN}"):
        with pytest.raises(ConfigError, match=r"`agents\.one\.forward`"):
            parse(f"agents: {{one: {{a2a: 'http://a', {line}}}}}")
    with pytest.raises(ConfigError, match="`forward` is for `openai` and for `a2a` agents"):
        parse("agents: {one: {python: 'm:a', forward: [x-a]}}")
    with pytest.raises(ConfigError, match=r"the.yaml:2: `auth.jwt`: give it one of"):
        parse("agents: {a: {python: 'm:a'}}\nauth: {jwt: {issuer: a, audience: b, algorithms: [RS256]}}", "the.yaml")
    with pytest.raises(ConfigError, match=r"True is not known; give `false` or `{secret_env: NAME}`"):
        parse("agents: {a: {python: 'm:a'}}\nauth: {anonymous: true}")
    assert parse("agents: {a: {python: 'm:a'}}\nauth: {anonymous: {secret_env: A}}").auth
