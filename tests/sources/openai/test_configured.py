"""An OpenAI-compatible endpoint as an agent of a configuration file, and what its clients see."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from serving import ask, body, said, sent, served

from anabranch.app import App
from anabranch.config import parse
from anabranch.demo import model as scripted
from anabranch.errors import ConfigError

from ..a2a._raw import Request, raw
from ._cases import HI, frames

CONFIG = """
agents:
  assistant:
    openai: "{url}/v1"
    model: scripted
    api_key_env: THE_KEY
    instructions: Be brief.
    options: {{temperature: 0, stop: [x]}}
    timeout: {{first_byte: 5s}}
storage: memory://
"""
LEAST = "agents:\n  a:\n    openai: http://localhost:1/v1\n"


def app_at(url: str, environ: dict[str, str] | None = None) -> App:
    return App.from_config(parse(CONFIG.format(url=url), environ=environ))


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": "", "parameters": {"type": "object"}}


async def test_what_the_file_says_is_what_the_endpoint_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: Request) -> None:
        await request.answer(b"no", 401)

    monkeypatch.setenv("THE_KEY", "k")
    environ = {"ANABRANCH__AGENTS__ASSISTANT__OPTIONS__TEMPERATURE": "0.5"}
    async with raw(answer, None) as server, served(app_at(server.url, environ)) as url:
        events = (await ask(url, "POST", "/agui", body())).events
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "model_auth")
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer k"
    assert (request.call["model"], request.call["temperature"], request.call["stop"]) == ("scripted", 0.5, ["x"])
    assert request.call["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_trace_headers_and_those_that_it_lists_reach_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: Request) -> None:
        await request.answer(b"no", 401)

    monkeypatch.setenv("THE_KEY", "k")
    config = CONFIG.replace("options:", "forward: [x-tenant]\n    options:")
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    sent = {"traceparent": trace, "x_tenant": "blue", "x_other": "no", "authorization": "Bearer ann"}
    async with raw(answer, None) as server, served(App.from_config(parse(config.format(url=server.url)))) as url:
        await ask(url, "POST", "/agui", body(), **sent)
    (request,) = server.requests
    assert (request.headers["traceparent"], request.headers["x-tenant"]) == (trace, "blue")
    assert request.headers["authorization"] == "Bearer k" and "x-other" not in request.headers


def test_the_key_and_a_callers_own_credential_are_not_mixed() -> None:
    with pytest.raises(ConfigError, match="a caller without `authorization` would get ours; remove one of the two"):
        parse(CONFIG.replace("options:", "forward: [Authorization]\n    options:").format(url="http://a"))


async def test_a_client_executes_its_tools_and_the_next_run_sends_a_valid_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("THE_KEY", "k")
    tools = [tool("ask_a"), tool("ask_b")]
    question = {"id": "m1", "role": "user", "content": "a and b?"}
    async with served(scripted.build(0)) as model, served(app_at(model)) as url:
        first = (await ask(url, "POST", "/agui", body("r1", "t", messages=[question], tools=tools))).events
        starts = [event for event in first if event["type"] == "TOOL_CALL_START"]
        ids = [event["toolCallId"] for event in starts]
        assert first[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ids}
        assert [event["toolCallName"] for event in starts] == ["ask_a", "ask_b"]
        args = dict.fromkeys(ids, "")
        for event in first:
            if event["type"] == "TOOL_CALL_ARGS":
                args[event["toolCallId"]] += event["delta"]
        assert [json.loads(each) for each in args.values()] == [{"question": "a and b?"}] * 2
        calls = [
            {"id": id, "type": "function", "function": {"name": start["toolCallName"], "arguments": args[id]}}
            for id, start in zip(ids, starts, strict=True)
        ]
        turn = {"id": starts[0]["parentMessageId"], "role": "assistant", "toolCalls": calls}
        results = [{"id": f"m{id}", "role": "tool", "toolCallId": id, "content": "xyz"} for id in ids]
        told = [question, turn, *results]
        second = (await ask(url, "POST", "/agui", body("r2", "t", messages=told, tools=tools))).events
    assert second[-1]["outcome"] == {"type": "success"}, second[-1]
    assert said(second) == scripted._answer({"a": "xyz", "b": "xyz"})


async def test_a_client_that_leaves_under_the_policy_cancel_ends_the_work_of_the_model() -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        await request.piece(frames(HI))
        await request.gone.wait()

    async with raw(answer, None) as server:
        text = CONFIG.format(url=server.url).replace("api_key_env: THE_KEY", "on_disconnect: cancel")
        async with served(App.from_config(parse(text))) as url, asyncio.timeout(10):
            async with sent(url, "POST", "/agui", body()) as wire:
                await wire.head()
                while b"Hi" not in await wire.chunk():
                    pass
            await server.requests[0].gone.wait()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (LEAST, ["the.yaml:2", "`agents.a`", "needs a `model`"]),
        (LEAST + "    python: 'm:f'\n", ["the.yaml:2", "`agents.a`", "one of `a2a`"]),
        (LEAST + "    model: m\n    auth: {bearer_env: X}\n", ["`auth` is for `a2a` agents; remove it"]),
        ("agents: {a: {openai: 'host:1', model: m}}", ["the.yaml:1", "`agents.a.openai`", "not an http(s) URL"]),
        ("agents: {a: {python: 'm:f', options: {n: 1}}}", ["the.yaml:1", "`options` is for `openai` agents"]),
        ("agents: {a: {python: 'm:f', timeout: {idle: 1}}}", ["`timeout` is for `openai` and for `a2a` agents"]),
        *(
            (f"agents: {{a: {{a2a: 'http://h', {field}: x}}}}", ["the.yaml:1", f"`{field}` is for `openai` agents"])
            for field in ("model", "api_key_env", "instructions")
        ),
    ],
)
def test_a_complaint_names_the_field_and_the_remedy(text: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, "the.yaml")
    assert [part for part in parts if part not in str(raised.value)] == [], str(raised.value)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("    options: {n: 2}\n", r"^agents\.a\.openai: The options of a model may not hold n: remove it\.$"),
        (
            "    api_key_env: NO_SUCH_KEY\n",
            r"^agents\.a\.api_key_env: the environment variable NO_SUCH_KEY is not",
        ),
    ],
)
def test_what_only_the_start_can_find_wrong_names_the_agent(more: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        App.from_config(parse(LEAST + "    model: m\n" + more + "storage: memory://\n"))
