"""The demo agents, read with the official client of their protocol."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.types import (
    CancelTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    TaskArtifactUpdateEvent,
    TaskState,
)

from anabranch.demo._process import started
from anabranch.demo.agents import TokenAgent, tokens

NAMES = ["komodor", "argocd"]
ASK = SendMessageRequest(message=Message(message_id="m1", role=Role.ROLE_USER, parts=[Part(text="show me clusters")]))


@asynccontextmanager
async def agent(name: str, rate: str) -> AsyncIterator[tuple[Client, httpx.AsyncClient]]:
    async with (
        asyncio.timeout(20),
        started("anabranch.demo.agents", name, "--rate", rate) as url,
        httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(10, read=None)) as http,
    ):
        yield await ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create_from_url(url), http


def kinds(events: list[StreamResponse]) -> list[str | None]:
    return [event.WhichOneof("payload") for event in events]


@pytest.mark.parametrize("name", NAMES)
def test_the_text_holds_what_breaks_careless_relays(name: str) -> None:
    pieces = tokens(name)
    text = "".join(pieces)
    assert 100 <= len(pieces) <= 150 and max(map(len, pieces)) <= 8
    assert any(one == two for one, two in zip(pieces, pieces[1:], strict=False))
    assert text.count("\r\n") == 1 and "\n\n" in pieces and "\r" in pieces
    assert any(ord(character) > 0xFFFF for character in text) and "|---|" in text


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES)
async def test_the_official_client_reads_a_task_one_artifact_and_the_exact_text(name: str) -> None:
    async with agent(name, "0") as (client, http):
        events = [event async for event in client.send_message(ASK)]
        sent = (await http.get("/sent")).json()
    assert kinds(events) == ["task", "status_update", *["artifact_update"] * len(tokens(name)), "status_update"]
    assert [events[n].status_update.status.state for n in (1, -1)] == [
        TaskState.TASK_STATE_WORKING,
        TaskState.TASK_STATE_COMPLETED,
    ]
    updates = [event.artifact_update for event in events[2:-1]]
    texts = [update.artifact.parts[0].text for update in updates]
    assert texts == tokens(name) and sent["text"] == "".join(texts)
    assert len({update.artifact.artifact_id for update in updates}) == 1
    assert [update.append for update in updates] == [False] + [True] * (len(updates) - 1)
    assert [update.last_chunk for update in updates] == [False] * (len(updates) - 1) + [True]
    assert sent["task_id"] == events[0].task.id
    ends = [sum(map(len, texts[: n + 1])) for n in range(len(texts))]
    assert [characters for characters, _ in sent["stamps"]] == ends
    assert sent["stamps"] == sorted(sent["stamps"], key=lambda stamp: stamp[1])


@pytest.mark.process
async def test_the_pace_is_kept_from_the_first_token_to_the_last() -> None:
    async with agent("komodor", "400") as (client, http):
        async for _ in client.send_message(ASK):
            pass
        stamps = (await http.get("/sent")).json()["stamps"]
    took_s = (stamps[-1][1] - stamps[0][1]) / 1e9
    # Only a late first token can make it shorter; a busy machine makes it longer.
    assert took_s > 0.8 * (len(stamps) - 1) / 400


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "without", "package"),
    [
        (("anabranch.demo.agents", "komodor"), "a2a", "a2a-sdk"),
        (("anabranch.demo", "--once"), "a2a", "a2a-sdk"),
        (("anabranch.demo", "--once"), "aiohttp", "aiohttp"),
        (("anabranch.demo", "--once"), "deepagents", "deepagents"),
    ],
)
def test_a_missing_package_is_one_line_with_the_remedy(
    tmp_path: Path, command: tuple[str, ...], without: str, package: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules[{without!r}] = None")
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    line = f"demo: {package} is not installed; it comes with the extra demo: in a clone, pip install '.[demo]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


@pytest.mark.process
async def test_a_cancelled_task_ends_with_canceled_and_sends_nothing_more() -> None:
    async with agent("argocd", "20") as (client, http):
        events: list[StreamResponse] = []
        async for event in client.send_message(ASK):
            events.append(event)
            if kinds(events).count("artifact_update") == 2 and event.HasField("artifact_update"):
                await client.cancel_task(CancelTaskRequest(id=events[0].task.id))
        sent = (await http.get("/sent")).json()
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED
    received = "".join(event.artifact_update.artifact.parts[0].text for event in events[2:-1])
    assert received == sent["text"] and len(received) < len("".join(tokens("argocd")))


async def test_an_agent_that_breaks_publishes_failed_with_a_plain_message(caplog: pytest.LogCaptureFixture) -> None:
    class Queue:
        events: list[Any] = []

        async def enqueue_event(self, event: Any) -> None:
            if isinstance(event, TaskArtifactUpdateEvent):
                raise ConnectionError("secret-host:5432")
            self.events.append(event)

    context = RequestContext(ServerCallContext(), request=ASK, task_id="t", context_id="c")
    await TokenAgent("komodor", 0).execute(context, Queue())  # type: ignore[arg-type]
    status = Queue.events[-1].status
    assert status.state == TaskState.TASK_STATE_FAILED
    assert status.message.parts[0].text == "The agent failed while it was answering."
    assert "secret-host" in caplog.text
