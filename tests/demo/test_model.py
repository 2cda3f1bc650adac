"""The scripted model: what it says, what it refuses, and that a real client reads it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from anabranch.demo._process import StartFailed, started
from anabranch.demo.model import build, script

Json = dict[str, Any]
CHAT = "/v1/chat/completions"
QUESTION = "show me komodor and argocd clusters 🚀"


def tool(name: str, **properties: Json) -> Json:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS = [
    tool("ask_komodor", question={"type": "string"}),
    tool("ask_argocd", question={"type": "string"}),
    tool("write_todos", todos={"type": "array", "items": {"type": "object"}}),
]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def asks(*calls: tuple[str, str], arguments: str = "{}") -> Json:
    entries = [{"id": i, "type": "function", "function": {"name": n, "arguments": arguments}} for i, n in calls]
    return {"role": "assistant", "content": None, "tool_calls": entries}


def result(call_id: str, text: str = "done") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


PLANNED = [asks(("p", "write_todos")), result("p")]


def called(deltas: list[Json]) -> list[tuple[str, Any]]:
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for entry in (entry for delta in deltas for entry in delta.get("tool_calls", ())):
        names.setdefault(entry["index"], entry["function"].get("name"))
        arguments[entry["index"]] = arguments.get(entry["index"], "") + entry["function"]["arguments"]
    return [(names[n], json.loads(arguments[n])) for n in names]


def said(deltas: list[Json]) -> str:
    return "".join(delta.get("content", "") for delta in deltas)


def test_the_first_turn_narrates_and_then_writes_one_todo_for_each_agent_and_one_for_the_answer() -> None:
    deltas = script([user(QUESTION)], TOOLS)
    assert sum("content" in delta for delta in deltas) > 5
    assert ["tool_calls" in delta for delta in deltas] == sorted("tool_calls" in delta for delta in deltas)
    [(name, arguments)] = called(deltas)
    assert name == "write_todos"
    assert [todo["status"] for todo in arguments["todos"]] == ["in_progress", "pending", "pending"]
    assert not json.dumps(arguments, ensure_ascii=False).isascii()


def test_the_second_turn_asks_in_parallel_with_the_fragments_of_the_calls_interleaved() -> None:
    deltas = script([user(QUESTION), *PLANNED], TOOLS)
    assert called(deltas) == [("ask_komodor", {"question": QUESTION}), ("ask_argocd", {"question": QUESTION})]
    order = [delta["tool_calls"][0]["index"] for delta in deltas]
    assert order == [0, 1] * (len(order) // 2) and len(order) > 10


@pytest.mark.parametrize(
    ("question", "agents"),
    [
        ("Komodor, what is broken?", ["komodor"]),
        ("is komodors fine", ["komodor", "argocd"]),
        ("what is broken?", ["komodor", "argocd"]),
        ([{"type": "text", "text": "ask argocd"}], ["argocd"]),
    ],
)
def test_only_the_agents_named_as_a_word_are_asked_and_all_when_none_is(question: Any, agents: list[str]) -> None:
    calls = called(script([user(question), *PLANNED], TOOLS))
    assert [name.removeprefix("ask_") for name, _ in calls] == agents


def test_the_last_turn_answers_in_small_deltas_and_says_which_agent_failed() -> None:
    answers = [result("a", "three clusters"), result("b", "Error: argocd is unreachable")]
    deltas = script([user(QUESTION), *PLANNED, asks(("a", "ask_komodor"), ("b", "ask_argocd")), *answers], TOOLS)
    assert called(deltas) == []
    assert "komodor answered with 14 characters" in said(deltas)
    assert "argocd failed" in said(deltas)
    assert 30 <= len(deltas) <= 50


def test_a_new_user_message_starts_over_and_no_call_id_comes_back() -> None:
    history, ids = [user(QUESTION)], []
    for _ in range(2):
        for _turn in range(2):
            deltas = script(history, TOOLS)
            entries = [entry for delta in deltas for entry in delta.get("tool_calls", ()) if "id" in entry]
            ids += [entry["id"] for entry in entries]
            history.append(asks(*((entry["id"], entry["function"]["name"]) for entry in entries)))
            history += [result(entry["id"]) for entry in entries]
        assert called(script(history, TOOLS)) == []
        history += [{"role": "assistant", "content": said(script(history, TOOLS))}, user(QUESTION)]
    assert len(ids) == len(set(ids)) == 6


def test_without_delegates_it_is_one_sentence_and_without_a_planner_it_delegates_at_once() -> None:
    assert called(script([user("hi")], [])) == called(script([user("hi")], TOOLS[2:])) == []
    assert "scripted" in said(script([user("hi")], []))
    assert [name for name, _ in called(script([user("hi")], TOOLS[:2]))] == ["ask_komodor", "ask_argocd"]


@pytest.fixture
async def shell() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(build(0)), base_url="http://model") as client:
        yield client


BROKEN = {
    "a call nobody answered": ([user("q"), asks(("a", "x")), user("q2")], "calls without a tool message: a"),
    "one of two calls not answered": ([user("q"), asks(("a", "x"), ("b", "x")), result("a")], "tool message: b"),
    "a role between call and result": ([user("q"), asks(("a", "x")), user("q"), result("a")], "tool message: a"),
    "a result for no call": ([user("q"), result("z")], "messages[1].tool_call_id 'z'"),
    "a result of an older turn": ([user("q"), *PLANNED, user("q"), result("p")], "messages[4].tool_call_id 'p'"),
    "a result twice": ([user("q"), *PLANNED, result("p")], "messages[3].tool_call_id 'p' was already answered"),
    "an id used twice": ([user("q"), *PLANNED, asks(("p", "x")), result("p")], "repeats the id 'p'"),
    "half of its arguments": ([user("q"), asks(("a", "x"), arguments='{"que'), result("a")], "not JSON: '{\"que'"),
    "no arguments": ([user("q"), asks(("a", "x"), arguments=""), result("a")], "not JSON: ''"),
    "a call without a name": ([user("q"), asks(("a", "")), result("a")], "messages[1].tool_calls"),
    "an unknown role": ([{"role": "robot", "content": "hi"}], "messages[0].role 'robot'"),
    "no messages": ([], "'messages'"),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_history_that_a_strict_provider_refuses_is_refused(shell: httpx.AsyncClient, case: str) -> None:
    messages, offence = BROKEN[case]
    answer = await shell.post(CHAT, json={"model": "scripted", "messages": messages})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert offence in answer.json()["error"]["message"]
    assert (await shell.get("/calls")).json() == {"count": 0}


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'"hi"', b'{"model": "scripted", "messages": ["\\ud83d"]}'])
async def test_a_body_that_is_not_a_request_is_refused(shell: httpx.AsyncClient, body: bytes) -> None:
    answer = await shell.post(CHAT, content=body)
    assert answer.status_code == 400 and answer.json()["error"]["message"]


async def test_it_says_everywhere_that_it_is_scripted(shell: httpx.AsyncClient) -> None:
    assert (await shell.get("/")).json()["model"] == "scripted"
    assert [model["id"] for model in (await shell.get("/v1/models")).json()["data"]] == ["scripted"]
    answer = (await shell.post(CHAT, json={"model": "gpt-x", "messages": [user("hi")]})).json()
    assert (answer["model"], answer["system_fingerprint"]) == ("scripted", "scripted")


@pytest.mark.parametrize("usage", [True, False])
async def test_a_stream_is_role_deltas_finish_then_usage_if_asked_then_done(
    shell: httpx.AsyncClient, usage: bool
) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    answer = await shell.post(CHAT, json={"model": "x", "stream": True, "messages": [user("hi")], **options})
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    parsed = [json.loads(event.removeprefix("data: ")) for event in events]
    if usage:
        last = parsed.pop()
        assert last["choices"] == [] and last["usage"]["total_tokens"] > 0
    choices = [chunk["choices"][0] for chunk in parsed]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in choices[-2:]] == [None, "stop"]


@pytest.mark.process
async def test_the_real_client_streams_all_three_turns_exactly_and_the_whole_answer_is_the_same() -> None:
    async with asyncio.timeout(20), started("anabranch.demo.model", "--pace", "0") as url:
        model = ChatOpenAI(
            model="scripted",
            base_url=f"{url}/v1",
            api_key=SecretStr("none"),
            use_responses_api=False,
            stream_usage=True,
        ).bind_tools(TOOLS)
        history: list[BaseMessage] = [HumanMessage(QUESTION)]
        turns: list[AIMessageChunk] = []
        for _ in range(3):
            turn = AIMessageChunk("")
            async for chunk in model.astream(history):
                assert isinstance(chunk, AIMessageChunk)
                turn += chunk
            whole = await model.ainvoke(history)
            assert (whole.content, whole.tool_calls) == (turn.content, turn.tool_calls)
            turns.append(turn)
            history.append(AIMessage(turn.content, tool_calls=turn.tool_calls))
            history += [
                ToolMessage("Error: no" if n else "fine", tool_call_id=c["id"]) for n, c in enumerate(turn.tool_calls)
            ]
        assert [[call["name"] for call in turn.tool_calls] for turn in turns] == [
            ["write_todos"],
            ["ask_komodor", "ask_argocd"],
            [],
        ]
        assert all(call["args"] == {"question": QUESTION} for call in turns[1].tool_calls)
        assert [turn.response_metadata["finish_reason"] for turn in turns] == ["tool_calls", "tool_calls", "stop"]
        assert all(turn.usage_metadata and turn.usage_metadata["output_tokens"] for turn in turns)
        assert "argocd failed" in turns[2].text
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/calls")).json() == {"count": 6}


@pytest.mark.process
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_in_the_middle_of_a_stream_ends_the_process_with_status_0_and_no_traceback(
    signum: signal.Signals,
) -> None:
    async with asyncio.timeout(20):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "anabranch.demo.model", "--port", "0", "--pace", "0.1"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert child.stdout and child.stderr
            url = json.loads(await child.stdout.readline())["url"]
            body = {"model": "scripted", "stream": True, "messages": [user("hi")]}
            async with httpx.AsyncClient(base_url=url) as client, client.stream("POST", CHAT, json=body) as answer:
                with pytest.raises(httpx.RemoteProtocolError):
                    pieces = answer.aiter_raw()
                    await anext(pieces)
                    child.send_signal(signum)  # once: a second one may meet an interpreter that is already gone
                    async for _ in pieces:
                        pass
            assert await child.stdout.read() == b""
            assert await child.stderr.read() == b""
            assert await child.wait() == 0
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()


PARENT = """
import asyncio
from anabranch.demo._process import started

async def main():
    async with started("anabranch.demo.model", "--pace", "0.5") as url:
        print(url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.process
async def test_a_parent_killed_by_the_kernel_leaves_no_orphan() -> None:
    async with asyncio.timeout(20):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        parent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE, env=env
        )
        assert parent.stdout
        url = httpx.URL((await parent.stdout.readline()).decode().strip())
        body = {"model": "scripted", "stream": True, "messages": [user("hi")]}
        async with httpx.AsyncClient(base_url=url) as client, client.stream("POST", CHAT, json=body) as answer:
            with pytest.raises(httpx.TransportError):
                async for _ in answer.aiter_raw():
                    if parent.returncode is None:
                        parent.kill()
                        await parent.wait()
        # The kernel closes a dead process's sockets one by one: the listening one may go a moment after the stream.
        with pytest.raises(OSError):
            while True:
                _, writer = await asyncio.open_connection(url.host, url.port)
                writer.close()


@pytest.mark.process
async def test_nothing_listens_any_more_when_the_context_is_left() -> None:
    async with asyncio.timeout(20):
        async with started("anabranch.demo.model") as url:
            address = httpx.URL(url)
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address.host, address.port)


@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "arguments", "within_s", "said"),
    [
        ("anabranch.demo.model", ["--pace", "fast"], 20, "invalid float value: 'fast'"),
        ("anabranch.demo.nothing", [], 20, "No module named anabranch.demo.nothing"),
        ("anabranch.demo.model", [], 0.001, "said nothing for 0.001 s"),
    ],
)
async def test_a_process_that_does_not_start_says_why(
    module: str, arguments: list[str], within_s: float, said: str
) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(StartFailed, match=said):
            async with started(module, *arguments, within_s=within_s):
                pass
