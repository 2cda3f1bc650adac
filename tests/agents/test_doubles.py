"""The misbehaving servers misbehave as they say, and in nothing else."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, Message, Part, Role, SendMessageRequest, StreamResponse, TaskState

from anabranch.demo._process import started

from .wire import torn

pytestmark = pytest.mark.process
Json = dict[str, Any]
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("ask_komodor", "ask_argocd", "write_todos")]


@pytest.fixture(scope="module")
async def model() -> AsyncIterator[httpx.AsyncClient]:
    async with started("tests.agents.model") as url, httpx.AsyncClient(base_url=url) as client:
        yield client


def conversation(words: str, turn: int) -> list[Json]:
    call = {"id": "p", "type": "function", "function": {"name": "write_todos", "arguments": "{}"}}
    plan = [{"role": "assistant", "content": "I plan.", "tool_calls": [call]}]
    plan += [{"role": "tool", "tool_call_id": "p", "content": "ok"}]
    return [{"role": "user", "content": f"komodor and argocd é {words}"}, *(plan if turn == 2 else [])]


async def read(model: httpx.AsyncClient, words: str, turn: int = 1) -> tuple[str, Exception | None]:
    body = {"model": "x", "stream": True, "tools": TOOLS, "messages": conversation(words, turn)}
    received, failure = b"", None
    async with asyncio.timeout(20), model.stream("POST", "/v1/chat/completions", json=body) as answer:
        try:
            async for data in answer.aiter_raw():
                received += data
        except httpx.TransportError as error:
            failure = error
    return received.decode(), failure


def meaning(body: str) -> tuple[str, list[tuple[str, str]], list[str], bool]:
    """Text, (name, arguments) of each call, finish reasons, and whether the stream says that it is done."""
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
    calls: dict[str, list[str]] = {}
    ids: dict[int | None, str] = {}
    for entry in (entry for choice in choices for entry in choice["delta"].get("tool_calls", ())):
        call_id = ids[entry.get("index")] = entry.get("id") or ids[entry.get("index")]
        call = calls.setdefault(call_id, [entry["function"].get("name", ""), ""])
        call[1] += entry["function"]["arguments"]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return text, [(name, arguments) for name, arguments in calls.values()], reasons, "[DONE]" in lines


DIALECTS = [
    *("id_name_every_delta", "no_index", "whole_calls", "empty_choices", "null_content", "reasoning", "crlf"),
    *("utf8_split", "comments"),
]


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("kind", DIALECTS)
async def test_a_dialect_changes_the_bytes_and_not_the_meaning(model: httpx.AsyncClient, kind: str, turn: int) -> None:
    # turn=9 never comes: the same words, as long, and no dialect.
    spoken, failure = await read(model, f"fault={kind} turn={turn}", turn)
    good, _ = await read(model, f"fault={kind} turn=9", turn)
    text, calls, *end = meaning(good)
    calls = [(name, arguments.replace("turn=9", f"turn={turn}")) for name, arguments in calls]
    assert failure is None
    assert meaning(spoken) == (text, calls, *end)
    assert (len(spoken) != len(good)) is (kind != "utf8_split")


def test_torn_bytes_are_cut_inside_a_character() -> None:
    for part in torn("data: é\n\n".encode()):
        with pytest.raises(UnicodeDecodeError):
            part.decode()
    assert torn(b"data: e\n\n") == [b"data: e\n\n"]


@pytest.mark.parametrize(
    "fault", ["cut_text", "drop_text", "error_text", "cut_args", "drop_args", "error_args", "length_args"]
)
async def test_a_fault_ends_the_stream_in_the_middle_and_shows_once(model: httpx.AsyncClient, fault: str) -> None:
    what, where = fault.split("_")
    words = f"fault={fault}"
    body, failure = await read(model, words)
    text, calls, reasons, done = meaning(body)
    whole_text, whole_calls, _, _ = meaning((await read(model, "turn=9 " + words))[0])
    assert isinstance(failure, httpx.ReadError) is (what == "drop")
    assert ('{"error": {"message"' in body) is (what == "error")
    assert (reasons, done) == ((["length"], True) if what == "length" else ([], False))
    if where == "text":
        assert whole_text.startswith(text) and 0 < len(text) < len(whole_text) and not calls
    else:
        assert text == whole_text and 0 < len(calls[0][1]) < len(whole_calls[0][1])
        with pytest.raises(ValueError):
            json.loads(calls[0][1])
    assert meaning((await read(model, words, 2))[0])[2:] == (["tool_calls"], True)
    if where == "args":
        assert meaning((await read(model, f"{words} turn=2", 2))[0])[2] != ["tool_calls"]


async def test_faults_before_the_first_delta(model: httpx.AsyncClient) -> None:
    assert (await read(model, "fault=cut_first")) == ("", None)
    assert (await read(model, "fault=error_first"))[0].startswith('data: {"error"')
    for status in (500, 401):
        body = {"model": "x", "messages": conversation(f"fault=http_{status}", 1), "tools": TOOLS}
        assert (await model.post("/v1/chat/completions", json=body)).status_code == status
    with pytest.raises(ValueError):
        meaning((await read(model, "fault=garbage"))[0])
    assert "does not exist" in (await read(model, "fault=typo"))[0]


async def ask(url: str, http: httpx.AsyncClient, mode: str) -> list[StreamResponse]:
    client = await ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create_from_url(url)
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=f"clusters, mode={mode}")])
    events: list[StreamResponse] = []
    async for event in client.send_message(SendMessageRequest(message=message)):
        events.append(event)
        if mode == "hang" and len(events) == 8:
            await client.cancel_task(CancelTaskRequest(id=events[0].task.id))
    return events


def shown(events: list[StreamResponse]) -> str:
    return "".join(
        part.text
        for event in events
        for part in (
            event.artifact_update.artifact.parts or event.message.parts or event.status_update.status.message.parts
        )
    )


@pytest.fixture(scope="module")
async def remote() -> AsyncIterator[httpx.AsyncClient]:
    async with started("tests.agents.remote", "--rate", "0") as url, httpx.AsyncClient(base_url=url) as client:
        yield client


STATES = {
    **dict.fromkeys(
        ["ok", "crlf", "multi_data_lines", "comments", "split", "status_text", "append_first"], "COMPLETED"
    ),
    **dict.fromkeys(["slow_start", "echo_user", "huge", "empty", "data_part"], "COMPLETED"),
    **dict.fromkeys(["hang", "canceled"], "CANCELED"),
}


@pytest.mark.parametrize("mode", STATES)
async def test_the_official_client_reads_the_lawful_modes_exactly(remote: httpx.AsyncClient, mode: str) -> None:
    before = (await remote.get("/sent")).json()
    async with asyncio.timeout(20):
        events = await ask(str(remote.base_url), remote, mode)
    sent = (await remote.get("/sent")).json()
    assert shown(events) == sent["text"]
    assert bool(sent["text"]) is (mode not in ("empty", "data_part"))
    assert TaskState.Name(events[-1].status_update.status.state) == f"TASK_STATE_{STATES[mode]}"
    assert sent["requests"] == before["requests"] + 1
    assert len(sent["cancels"]) - len(before["cancels"]) == (mode == "hang")


@pytest.mark.parametrize(
    ("mode", "state", "more"),
    [
        ("failed", "FAILED", "the cluster does not answer"),
        ("rejected", "REJECTED", "not my business"),
        ("input_required", "INPUT_REQUIRED", "Which cluster?"),
    ],
)
async def test_a_task_that_does_not_complete_says_why(
    remote: httpx.AsyncClient, mode: str, state: str, more: str
) -> None:
    async with asyncio.timeout(20):
        events = await ask(str(remote.base_url), remote, mode)
    assert shown(events) == (await remote.get("/sent")).json()["text"] + more
    assert TaskState.Name(events[-1].status_update.status.state) == f"TASK_STATE_{state}"


async def test_the_text_comes_again_where_the_mode_says_so(remote: httpx.AsyncClient) -> None:
    async with asyncio.timeout(20):
        recap, cumulative, only, cut = [
            await ask(str(remote.base_url), remote, mode)
            for mode in ("final_recap", "cumulative", "message_only", "no_terminal")
        ]
    text = (await remote.get("/sent")).json()["text"]
    assert shown(recap) == text * 2
    assert shown(cumulative[-2:]) == text and not any(event.artifact_update.append for event in cumulative)
    assert len(only) == 1 and only[0].message.parts[0].text == text
    assert cut[-1].artifact_update.last_chunk and shown(cut) == text


@pytest.mark.parametrize("mode", ["http_500", "rpc_error", "rpc_error_mid", "html"])
async def test_the_official_client_raises_on_what_is_not_a_stream(remote: httpx.AsyncClient, mode: str) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(Exception, match="500|refuses|broke down|Invalid JSON"):
            await ask(str(remote.base_url), remote, mode)


@pytest.mark.parametrize("mode", ["killed_before", "killed_mid", "killed_end"])
async def test_a_killed_agent_is_gone(mode: str) -> None:
    async with asyncio.timeout(20), started("tests.agents.remote") as url, httpx.AsyncClient(base_url=url) as http:
        with pytest.raises(A2AClientError):
            await ask(url, http, mode)
        with pytest.raises(httpx.TransportError):
            await http.get("/sent")
