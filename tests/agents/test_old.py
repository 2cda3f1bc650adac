"""Agents on the official SDK of A2A 0.3, through the source: each way to misbehave has its right value."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from anabranch import events as ev
from tests import environments
from tests.agents.cut import Way, cutting
from tests.sources.a2a._running import asks, run, sent, source_of

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]  # the first one makes the environment

SCRIPT = Path(__file__).parent / "old.py"
TOKENS = ["## Höhe", " 🚀", "\r", "\n\n", "ha ", "ha ", " ", "𝔸lpha", "\n", "👩‍", "🚀", " fin."]
TEXT, HALF = "".join(TOKENS), "".join(TOKENS[: len(TOKENS) // 2])
LONG = "".join(f"{n} " for n in range(300))


@pytest.fixture(scope="module")
def python() -> str:
    return environments.python("a2a-0.3")


@pytest.fixture(scope="module")
async def old(python: str) -> AsyncIterator[str]:
    """An agent that does what the question says, as fast as it can."""
    async with environments.started(python, SCRIPT, "--rate", "0") as url:
        yield url


class Right(NamedTuple):
    """What is right: the text of the answer, the end, what is shown beside the answer, words of a failure."""

    text: str = TEXT
    end: str = "success"
    progress: str = ""
    why: str = ""
    parts: tuple[ev.Part, ...] = ()


FILES = (
    ev.Part(kind="file", url="data:text/plain;base64,aGk=", mime_type="text/plain", name="hi.txt"),
    ev.Part(kind="file", url="https://x.example/f.png", mime_type="image/png"),
)
CLUSTERS = ev.Part(kind="json", data={"clusters": [{"name": "prod-eu-1", "nodes": 42}]})
UNENDED = "stream ended before its task did"
MODES = {
    # well behaved
    "ok": Right(),
    "empty": Right(""),
    "failed": Right(HALF, "agent_failed", why="the cluster does not answer"),
    "rejected": Right("", "agent_rejected", why="not my business"),
    "input_required": Right("", "interrupted"),
    "input_not_final": Right("", "interrupted"),
    "auth_required": Right("", "interrupted"),
    # where the text is
    "message_only": Right(),
    "status_text": Right(),
    "status_then_artifact": Right(),
    "cumulative": Right(),
    "recap": Right(),
    "data_part": Right("", parts=(CLUSTERS,)),
    "file_parts": Right("", parts=FILES),
    "caipe": Right(progress="🔧 Calling list✅ list"),
    "caipe_empty_result": Right(),
    "echo_user": Right(progress="On it. "),
    # wrong
    "append_first": Right(),
    "last_early": Right(),
    "pause_between": Right(),
    "new_id_each": Right(),
    "terminal_twice": Right(),
    "completed_not_final": Right(),
    "working_final": Right(end="no_end", why=UNENDED),
    "no_terminal": Right(end="no_end", why=UNENDED),
    "error_completed": Right("", "agent_failed", "no access to the cluster", "no access to the cluster"),
    "heartbeat": Right(progress="still working…" * len(TOKENS)),
}


@pytest.mark.parametrize("mode", MODES)
async def test_an_old_agent_is_asked_once_and_its_text_its_parts_and_its_end_are_right(old: str, mode: str) -> None:
    right, before = MODES[mode], await sent(old)
    async with source_of(old, name="old", idle_s=1) as source:
        done = await run(source, f"mode={mode}")
    after = await sent(old)
    assert (done.text, done.shown, done.end) == (right.text, right.text, right.end)
    assert (done.progress, done.parts) == (right.progress, right.parts)
    if isinstance(done.last, ev.RunFailed):
        assert right.why in done.last.message
    assert after["requests"] == before["requests"] + 1
    assert after["cancels"] == before["cancels"]


async def test_an_old_agent_that_crashes_keeps_what_it_said_and_its_secrets(old: str) -> None:
    async with source_of(old, name="old", idle_s=0.5) as source:
        done = await run(source, "mode=crash")
    assert HALF.startswith(done.text)
    assert isinstance(done.last, ev.RunFailed) and done.last.code == "agent_disconnected"
    assert "s3cret" not in done.last.message


@pytest.mark.parametrize("mode", ["ok", "message_only", "data_part", "failed", "input_required", "caipe"])
async def test_an_old_agent_that_does_not_stream_is_asked_for_the_whole(python: str, mode: str) -> None:
    right = MODES[mode]
    async with environments.started(python, SCRIPT, "--rate", "0", "--whole") as url, source_of(url) as source:
        done = await run(source, f"mode={mode}")
        assert (await sent(url))["requests"] == 1
    assert (done.text, done.shown, done.end, done.parts) == (right.text, right.text, right.end, right.parts)


@pytest.mark.parametrize(
    "options",
    [
        ("--url", "http://0.0.0.0:9999/"),
        ("--url", "http://localhost:9/"),
        ("--url", "/"),
        ("--url", ""),
        ("--card", "0.2"),
        ("--card", "0.2", "--url", "http://0.0.0.0:8000"),
    ],
    ids=" ".join,
)
async def test_an_old_agent_is_found_whatever_its_card_says_of_its_address_and_version(
    python: str, options: tuple[str, ...]
) -> None:
    async with environments.started(python, SCRIPT, "--rate", "0", *options) as url, source_of(url) as source:
        assert (await run(source, "mode=ok")).text == TEXT


@pytest.mark.parametrize("mode", ["hang", "cancel_ignored"])
async def test_an_old_agent_is_told_to_cancel_and_nobody_waits_for_one_that_ignores_it(python: str, mode: str) -> None:
    async with (
        asyncio.timeout(30),
        environments.started(python, SCRIPT, "--rate", "0") as url,
        source_of(url) as source,
    ):
        translator = source.translator(asks(""))
        async with aclosing(source.open(asks(f"mode={mode}"))) as items:
            async for item in items:
                list(translator.feed(item))
                if translator.text == HALF:
                    break
            before = time.monotonic()
        assert time.monotonic() - before < 1
        await source.aclose()
        assert time.monotonic() - before < 5
        assert (await sent(url))["cancels"] == [translator.remote.task_id]


# --- its streams are cut -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def paced(python: str) -> AsyncIterator[str]:
    """An agent that says a thousand words a second."""
    async with environments.started(python, SCRIPT, "--rate", "1000") as url:
        yield url


@pytest.mark.parametrize("way", ["reset", "inside", "close", "end"])
@pytest.mark.parametrize("mode", ["long", "status_long"])
async def test_a_stream_of_an_old_agent_is_cut_anywhere_and_its_text_is_exact(
    old: str, paced: str, mode: str, way: Way
) -> None:
    places = random.Random(f"{mode} {way}").sample(range(2, 300), 3)
    for agent, place in zip((old, old, paced), places, strict=True):
        before = await sent(agent)
        async with cutting(agent, place, way=way) as cut, source_of(cut.url, idle_s=5) as source:
            done = await run(source, f"mode={mode}")
            assert (done.text, done.shown, done.end) == (LONG, LONG, "success"), place
            assert cut.streams == 1, "it was subscribed to"
        assert (await sent(agent))["requests"] == before["requests"] + 1


async def test_why_an_old_agent_is_never_subscribed_to_a_second_time(paced: str) -> None:
    """What the SDK keeps repeats what a second subscriber is told, so no snapshot is right any more."""

    async def call(http: aiohttp.ClientSession, method: str, **params: Any) -> aiohttp.ClientResponse:
        body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
        return await http.post(paced, json=body)

    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "mode=long"}]}
    async with asyncio.timeout(20), aiohttp.ClientSession() as http:
        stream = await call(http, "message/stream", message=message)
        task_id = json.loads((await stream.content.readline()).removeprefix(b"data: "))["result"]["id"]
        second = await call(http, "tasks/resubscribe", id=task_id)
        await second.content.readline()
        await asyncio.gather(stream.read(), second.read())
        task = await (await call(http, "tasks/get", id=task_id)).json()
    kept = [part["text"] for part in task["result"]["artifacts"][0]["parts"]]
    assert len(kept) > len(set(kept)) == 300


EXACT = [
    "cumulative",
    "status_then_artifact",
    "recap",
    "data_part",
    "caipe",
    "pause_between",
    "new_id_each",
    "heartbeat",
]


@pytest.mark.parametrize("mode", [*EXACT, "input_required", "failed", "error_completed"])
async def test_whatever_an_old_agent_does_when_its_stream_is_cut_the_right_value_stays(old: str, mode: str) -> None:
    right = MODES[mode]
    for place in (1, 2, 6):
        async with cutting(old, place) as cut, source_of(cut.url, idle_s=5) as source:
            done = await run(source, f"mode={mode}")
        assert (done.text, done.shown, done.end, done.parts) == (right.text, right.text, right.end, right.parts), place


async def test_text_that_an_old_agent_has_not_kept_is_never_guessed(old: str) -> None:
    """The SDK sends pieces that are added to an artifact that does not exist, and keeps none of them."""
    async with cutting(old, 5) as cut, source_of(cut.url, idle_s=2) as source:
        done = await run(source, "mode=append_first")
    assert TEXT.startswith(done.text) and done.text == done.shown
    assert isinstance(done.last, ev.RunFailed) and done.last.code == "agent_disconnected"
    assert "does not continue what it had said" in done.last.message
