"""What the application refuses, over a real server, and what nobody learns from that."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from runs.staging import ANN, Signal, Stage
from serving import WAIT_S, ask, body, by_header, echo, refusal, said, sent, served

from anabranch.app import App
from anabranch.config import Server
from anabranch.errors import ClientError
from anabranch.identity import Principal
from anabranch.request import RunRequest

SECRET = "sk-live-0123456789abcdef"
Items = AsyncGenerator[Any, None]


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def url() -> AsyncGenerator[str, None]:
    async with served(App({"echo": echo}, server=Server(body_limit=1000))) as url:
        yield url


@pytest.mark.parametrize(
    ("given", "status", "code", "message"),
    [
        (b"", 400, "bad_json", "not JSON"),
        (b"{", 400, "bad_json", "line 1, column 2"),
        (b"\xff", 400, "bad_json", "UTF-8"),
        (b"[" * 900, 400, "bad_json", ""),
        (b"[]", 422, "bad_input", "$"),
        (body() | {"threadId": 1}, 422, "bad_input", "$.threadId"),
        (body() | {"runId": "a\nb"}, 422, "bad_input", "$.runId"),
        (body() | {"messages": "hi"}, 422, "bad_input", "$.messages"),
        (body() | {"messages": [{"id": "m", "role": "user", "content": 3}]}, 422, "bad_input", "$.messages[0].content"),
        (body(text="x" * 1000), 413, "too_large", "more than 1000 bytes"),
    ],
)
async def test_a_body_that_cannot_be_used_is_told_what_is_wrong(
    url: str, given: Any, status: int, code: str, message: str
) -> None:
    got = refusal(await ask(url, "POST", "/agui", given))
    assert got[:2] == (status, code)
    assert message in got[2]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "json"])
async def test_another_content_type_is_refused(url: str, kind: str) -> None:
    got = refusal(await ask(url, "POST", "/agui", body(), content_type=kind))
    assert got[:2] == (415, "unsupported_media_type")
    assert "application/json" in got[2]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"])
async def test_json_may_be_called_by_its_other_names(url: str, kind: str) -> None:
    assert (await ask(url, "POST", "/agui", body(), content_type=kind)).status == 200


async def test_an_unknown_agent_is_not_found_and_the_known_ones_are_named(url: str) -> None:
    assert refusal(await ask(url, "POST", "/agents/nobody/agui", body())) == (
        404,
        "not_found",
        "there is no agent 'nobody'; known: echo",
    )


async def test_without_a_default_the_agents_are_named() -> None:
    async with served(App({"a": echo, "b": echo})) as url:
        status, _, message = refusal(await ask(url, "POST", "/agui", body()))
    assert status == 400
    assert "/agents/NAME/agui: a, b" in message


async def test_a_run_id_that_is_taken_and_a_thread_that_is_busy_are_conflicts() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url, sent(url, "POST", "/agui", body("r1", "t1")) as wire:
        await stage.waiting.wait()
        taken = refusal(await ask(url, "POST", "/agui", body("r1", "t1", text="other")))
        busy = refusal(await ask(url, "POST", "/agui", body("r2", "t1")))
        stage.go.set()
        await wire.head()
        await wire.chunks()
        assert (await ask(url, "POST", "/agui", body("r2", "t1"))).status == 200
    assert taken[:2] == (409, "run_id_taken") and "'r1'" in taken[2]
    assert busy[:2] == (409, "thread_busy") and "'r1'" in busy[2]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/agui/", 404),
        ("POST", "/agui/", 404),
        ("POST", "/agents//agui", 404),
        ("GET", "/runs/nobody", 404),
        ("GET", "/runs/", 404),
        ("GET", "/%ff%00/..", 404),
        ("GET", "/agui", 405),
        ("DELETE", "/agents/echo/agui", 405),
        ("POST", "/runs/r1", 405),
        ("POST", "/health", 405),
        ("PUT", "/", 405),
    ],
)
async def test_other_routes_and_methods_are_refused_as_json(url: str, method: str, path: str, status: int) -> None:
    answer = await ask(url, method, path)
    assert refusal(answer)[:2] == (status, "not_found" if status == 404 else "method_not_allowed")
    assert ("allow" in answer.headers) is (status == 405)


async def test_a_host_header_that_makes_no_sense_breaks_nothing(url: str) -> None:
    for host in ("[", "a b", "evil.example"):
        assert refusal(await ask(url, "GET", "/nope", host=host))[0] == 404


async def test_a_request_that_is_cut_is_nobodys_failure(caplog: pytest.LogCaptureFixture) -> None:
    app, handled = App({"echo": echo}), Signal()

    async def noted(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        finally:
            if scope["type"] == "http":
                handled.set()

    async with served(noted) as url:
        async with sent(url, "POST", "/agui", b'{"threadId":', content_length="100"):
            pass
        await handled.wait()
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


# --- who is asking ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/agui", "/agents/echo/agui", "/agents/nobody/agui", "/runs/r1"])
async def test_a_stranger_learns_nothing(path: str) -> None:
    method = "GET" if path.startswith("/runs") else "POST"
    async with served(App({"echo": echo}, principal=by_header)) as url:
        for headers in ({}, {"x_user": ""}):
            answer = await ask(url, method, path, b"not even JSON", **headers)
            assert refusal(answer) == (401, "unauthorized", "who is asking? no valid credential was given")
        assert (await ask(url, "GET", "/ready")).status == 200


async def later(caller: Any) -> str | None:
    return by_header(caller)


@pytest.mark.parametrize("principal", [by_header, later, lambda caller: Principal(caller.headers["x-user"])])
async def test_a_principal_is_named_in_any_way(principal: Any) -> None:
    app = App({"echo": echo}, principal=principal)
    async with served(app) as url:
        assert (await ask(url, "POST", "/agui", body(), x_user="ann")).status == 200
    assert (await app.runs.get("r1", ANN)).principal == "ann"


@pytest.mark.parametrize("id", ["\ud800", "a" * 513, Principal(""), Principal("a\udc00")])
async def test_an_id_that_names_no_user_is_nobodys(id: str | Principal) -> None:
    async with served(App({"echo": echo}, principal=lambda caller: id)) as url:
        for method, path in (("POST", "/agui"), ("POST", "/agui"), ("GET", "/runs/r1")):
            code, message = "unauthorized", "who is asking? an id is whole text of 1 to 512 characters"
            assert refusal(await ask(url, method, path, body())) == (401, code, message)


async def test_who_says_who_is_asking_may_refuse_in_its_own_words() -> None:
    def principal(caller: Any) -> str:
        raise ClientError("your key has expired", code="expired", status=403)

    async with served(App({"echo": echo}, principal=principal)) as url:
        assert refusal(await ask(url, "POST", "/agui", body())) == (403, "expired", "your key has expired")


async def test_an_error_of_the_server_is_told_to_the_operator_only(caplog: pytest.LogCaptureFixture) -> None:
    def principal(caller: Any) -> str:
        raise RuntimeError(f"the key {SECRET} does not fit")

    async with served(App({"echo": echo}, principal=principal)) as url:
        for method, path in (("POST", "/agui"), ("GET", "/runs/r1")):
            answer = await ask(url, method, path, body())
            assert refusal(answer) == (500, "internal", "The server failed; its log says why.")
    assert SECRET in caplog.text


async def test_somebody_elses_run_does_not_exist() -> None:
    stage = Stage()
    async with served(App({"stage": stage}, principal=by_header)) as url:
        async with sent(url, "POST", "/agui", body(), x_user="ann") as wire:
            await stage.waiting.wait()
            foreign = await ask(url, "GET", "/runs/r1", x_user="bob")
            unknown = await ask(url, "GET", "/runs/r2", x_user="bob")
            stage.go.set()
            await wire.head()
            assert b"RUN_FINISHED" in (await wire.chunks())[-1]
        assert refusal(foreign) == (404, "not_found", "there is no run 'r1'")
        assert foreign.body.replace(b"r1", b"r2") == unknown.body
        own = (await ask(url, "POST", "/agui", body(text="mine"), x_user="bob")).events
        assert said(own) == "hello world", "the id is free for bob, and his run is a new one"
        assert (await ask(url, "GET", "/runs/r1", x_user="bob")).json["task_id"] != (
            await ask(url, "GET", "/runs/r1", x_user="ann")
        ).json["task_id"]


async def test_a_hundred_streams_at_once_by_two_principals_do_not_mix() -> None:
    together = asyncio.Barrier(100)

    async def agent(request: RunRequest) -> Items:
        await together.wait()
        for _ in range(20):
            yield request.last_user_text()
            await asyncio.sleep(0)  # noqa: TID251  lets the other runs in

    async with served(App({"agent": agent}, principal=by_header)) as url:
        asks = [(who, f"r{n}", f"{who}-{n};") for n in range(50) for who in ("ann", "bob")]
        async with asyncio.timeout(2 * WAIT_S):
            answers = await asyncio.gather(
                *(ask(url, "POST", "/agui", body(run_id, text=text), x_user=who) for who, run_id, text in asks)
            )
        for (who, run_id, text), answer in zip(asks, answers, strict=True):
            assert said(answer.events) == text * 20
            assert {event["delta"] for event in answer.events if "delta" in event} == {text}
            assert {event["runId"] for event in answer.events if "runId" in event} == {run_id}
            assert answer.events[-1]["type"] == "RUN_FINISHED"
            assert (await ask(url, "GET", f"/runs/{run_id}", x_user=who)).json["status"] == "succeeded"
