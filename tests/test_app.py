"""The application over a real server: runs, their failures, operations."""

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pytest
from runs.staging import BreakingLog, Stage, ended, followed
from serving import WAIT_S, ask, body, echo, refusal, said, sent, served
from starlette.applications import Starlette
from starlette.routing import Mount

import anabranch
from anabranch import app as app_module
from anabranch.app import App
from anabranch.config import Server
from anabranch.errors import ConfigError
from anabranch.events import MessageStarted, RunFinished, TextDelta
from anabranch.identity import LOCAL
from anabranch.request import RunRequest
from anabranch.runs.runs import Runs
from anabranch.sinks.agui import write
from anabranch.sources.python import PythonSource

SECRET = "sk-live-0123456789abcdef"
Items = AsyncGenerator[Any, None]


# --- runs ------------------------------------------------------------------------------------------------------------


async def test_a_run_comes_as_exactly_these_frames() -> None:
    async with served(App({"echo": echo})) as url:
        answer = await ask(url, "POST", "/agui", body())
    text = re.sub(r'"timestamp":\d{13}', '"timestamp":0', answer.body.decode())
    text = re.sub(r'"taskId":"[0-9a-f]{32}"', '"taskId":"T"', text)
    sha256 = hashlib.sha256(b"hel lo").hexdigest()
    head, run = '"threadId":"t-r1","runId":"r1"', '{"anabranch":{"agentName":"echo","taskId":"T"}}'
    answered = f'{{"anabranch":{{"answer":{{"messageIds":["r1:1"],"length":6,"sha256":"{sha256}"}}}}}}'
    data = [
        f'{{"type":"RUN_STARTED",{head},"protocolVersion":"1.0","metadata":{run},"timestamp":0}}',
        '{"type":"TEXT_MESSAGE_START","messageId":"r1:1","role":"assistant","timestamp":0}',
        '{"type":"TEXT_MESSAGE_CONTENT","messageId":"r1:1","delta":"hel ","timestamp":0}',
        '{"type":"TEXT_MESSAGE_CONTENT","messageId":"r1:1","delta":"lo","timestamp":0}',
        '{"type":"TEXT_MESSAGE_END","messageId":"r1:1","metadata":{"anabranch":{"phase":"answer"}},"timestamp":0}',
        f'{{"type":"RUN_FINISHED",{head},"outcome":{{"type":"success"}},"metadata":{answered},"timestamp":0}}',
    ]
    assert text == "".join(f"id: r1:{seq}.0\ndata: {frame}\n\n" for seq, frame in enumerate(data, start=1))


async def test_the_callers_ids_are_kept_whatever_they_are_and_the_run_is_found_by_them() -> None:
    ids = ["r1", "a/b", "a/b/", "/x", "..", "ünï 🚀", 'q?#%&"\\', "x" * 256]
    async with served(App({"echo": echo})) as url:
        for run_id in ids:
            thread_id = run_id[::-1]
            events = (await ask(url, "POST", "/agui", body(run_id, thread_id))).events
            for event in (events[0], events[-1]):
                assert (event["runId"], event["threadId"]) == (run_id, thread_id)
            found = await ask(url, "GET", "/runs/" + quote(run_id, safe=""))
            assert (found.status, found.json["run_id"], found.json["thread_id"]) == (200, run_id, thread_id)


async def test_a_run_is_shown_while_it_runs_and_when_it_is_over() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url, sent(url, "POST", "/agui", body()) as wire:
        await stage.waiting.wait()
        running = await ask(url, "GET", "/runs/r1")
        stage.go.set()
        await wire.head()
        await wire.chunks()
        over = await ask(url, "GET", "/runs/r1")
    assert set(running.json) == {"run_id", "thread_id", "task_id", "agent", "status", "created_ms"}
    assert over.json == running.json | {"status": "succeeded", "ended_ms": over.json["ended_ms"]}
    assert (running.json["status"], running.json["agent"]) == ("running", "stage")
    assert over.json["ended_ms"] >= over.json["created_ms"]


async def test_agents_are_reached_by_name_and_the_default_without() -> None:
    async def other(request: RunRequest) -> Items:
        yield "other"

    async with served(App({"echo": echo, "other": other}, default="other")) as url:
        assert said((await ask(url, "POST", "/agents/echo/agui", body("r1"))).events) == "hel lo"
        assert said((await ask(url, "POST", "/agents/other/agui", body("r2"))).events) == "other"
        assert said((await ask(url, "POST", "/agui", body("r3"))).events) == "other"


async def test_what_is_ready_at_once_goes_into_one_write() -> None:
    async def quick(request: RunRequest) -> Items:
        for number in range(200):
            yield f"{number} "

    async with served(App({"quick": quick})) as url, sent(url, "POST", "/agui", body()) as wire:
        await wire.head()
        chunks = await wire.chunks()
    assert b"".join(chunks).count(b"\nid: ") > 200
    assert len(chunks) < 10


async def test_a_silent_run_is_kept_alive() -> None:
    stage = Stage()
    app = App({"stage": stage}, server=Server(keep_alive=0.02))
    async with served(app) as url, sent(url, "POST", "/agui", body()) as wire:
        await wire.head()
        while await wire.chunk() != b": keep-alive\n\n":
            pass
        stage.go.set()
        assert b"RUN_FINISHED" in (await wire.chunks())[-1]


async def test_the_same_request_twice_attaches_and_both_get_the_same_whole_stream() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url, sent(url, "POST", "/agui", body()) as first:
        await stage.waiting.wait()
        async with sent(url, "POST", "/agui", body()) as second:
            for wire in (first, second):
                assert (await wire.head())[0] == 200
            stage.go.set()
            streams = [b"".join(await wire.chunks()) for wire in (first, second)]
        third = await ask(url, "POST", "/agui", body())
    assert streams[0] == streams[1] == third.body
    assert said(third.events) == "hello world"


async def test_a_client_that_leaves_does_not_stop_the_run_unless_that_is_the_policy() -> None:
    stays, goes = Stage(), Stage()
    app = App({"stays": stays, "goes": goes}, on_disconnect={"goes": "cancel"})
    async with served(app) as url:
        for name, stage in (("stays", stays), ("goes", goes)):
            async with sent(url, "POST", f"/agents/{name}/agui", body(name)):
                await stage.waiting.wait()
        await goes.left.wait()
        cancelled = ended(await followed(app.runs, await app.runs.get("goes", LOCAL)))
        assert cancelled == ("hello", RunFinished(outcome="cancelled"))
        assert not stays.left.is_set()
        stays.go.set()
        assert said((await ask(url, "POST", "/agents/stays/agui", body("stays"))).events) == "hello world"
        assert (await ask(url, "GET", "/runs/goes")).json["status"] == "cancelled"


# --- failures --------------------------------------------------------------------------------------------------------


async def test_what_an_agent_raises_reaches_no_client(caplog: pytest.LogCaptureFixture) -> None:
    async def leaks(request: RunRequest) -> Items:
        yield "so far"
        raise RuntimeError(f"POST http://internal.host/v1 with {SECRET}")

    async with served(App({"leaks": leaks})) as url:
        answer = await ask(url, "POST", "/agui", body())
        shown = await ask(url, "GET", "/runs/r1")
    for text in (answer.body.decode(), shown.body.decode()):
        assert not re.search(rf"{SECRET}|internal\.host|Traceback|\.py", text)
    end = answer.events[-1]
    assert (end["type"], end["code"]) == ("RUN_ERROR", "agent_failed")
    assert end["message"] == "The agent failed with RuntimeError."
    assert said(answer.events) == "so far"
    assert (shown.json["status"], shown.json["error"]) == ("failed", {"code": end["code"], "message": end["message"]})
    assert SECRET in caplog.text


@pytest.mark.parametrize("early", [True, False])
async def test_a_run_whose_log_fails_ends_with_an_error_and_does_not_hang(early: bool) -> None:
    stage = Stage()
    app = App({"stage": stage})
    app.runs = Runs(BreakingLog(lambda event: isinstance(event, TextDelta) and (early or event.delta == " world")))
    async with served(app) as url, sent(url, "POST", "/agui", body()) as wire:
        if not early:
            await stage.waiting.wait()
        stage.go.set()
        await wire.head()
        last = (await wire.chunks())[-1].decode()
        again = await ask(url, "POST", "/agui", body())
        status = (await ask(url, "GET", "/runs/r1")).json["status"]
    assert last.startswith("data: "), "it is not part of the run's stream, so it has no id"
    assert json.loads(last.removeprefix("data: "))["code"] == "log_failed"
    assert again.events[-1]["code"] == "log_failed"
    assert status == "failed"


async def test_a_stream_that_cannot_be_written_ends_with_an_error_though_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    monkeypatch.setitem(write._WRITERS, MessageStarted, lambda encoder, fact: 1 / 0)
    async with served(App({"stage": stage})) as url:
        answer = await ask(url, "POST", "/agui", body())
        running = (await ask(url, "GET", "/runs/r1")).json["status"]
        stage.go.set()
    assert [event["type"] for event in answer.events] == ["RUN_STARTED", "RUN_ERROR"]
    assert running == "running"


# --- operations ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def url() -> AsyncGenerator[str, None]:
    async with served(App({"echo": echo})) as url:
        yield url


@pytest.mark.parametrize("path", ["/", "/ping", "/ping/", "/health", "/health/"])
async def test_the_server_says_that_it_lives(url: str, path: str) -> None:
    answer = await ask(url, "GET", path)
    assert (answer.status, answer.json) == (
        200,
        {"status": "ok", "name": "anabranch", "version": anabranch.__version__},
    )
    head = await ask(url, "HEAD", path)
    assert (head.status, head.headers["content-length"], head.body) == (200, str(len(answer.body)), b"")


@pytest.mark.parametrize("path", ["/ready", "/ready/"])
async def test_the_server_says_that_it_is_ready(url: str, path: str) -> None:
    answer = await ask(url, "GET", path)
    assert (answer.status, answer.json) == (200, {"status": "ready", "agents": ["echo"]})
    assert (await ask(url, "HEAD", path)).status == 200


async def test_a_server_that_stops_is_not_ready_takes_no_new_run_and_finishes_the_live_one() -> None:
    stage = Stage()
    app = App({"stage": stage})
    async with served(app) as url, sent(url, "POST", "/agui", body()) as wire:
        await stage.waiting.wait()
        stopping = asyncio.create_task(app.stop(WAIT_S))
        while not app.runs.stopping:
            await ask(url, "GET", "/ping")
        ready, alive = await ask(url, "GET", "/ready"), await ask(url, "GET", "/health")
        new = await ask(url, "POST", "/agui", body("r2"))
        async with sent(url, "POST", "/agui", body()) as again:
            assert (await again.head())[0] == 200
            stage.go.set()
            await wire.head()
            assert b"RUN_FINISHED" in (await wire.chunks())[-1]
            assert b"RUN_FINISHED" in (await again.chunks())[-1]
        await stopping
    assert (ready.status, ready.json, alive.status) == (503, {"status": "stopping"}, 200)
    assert refusal(new) == (503, "server_stopping", "The server is stopping; ask again.")
    assert new.headers["retry-after"] == "5"


async def test_a_server_that_has_stopped_has_ended_every_run_with_a_typed_event() -> None:
    stage = Stage()
    app = App({"stage": stage})
    async with served(app) as url, sent(url, "POST", "/agui", body()) as wire:
        await stage.waiting.wait()
        async with asyncio.timeout(WAIT_S):
            await app.stop(0)
        await wire.head()
        end = json.loads((await wire.chunks())[-1].split(b"data: ")[-1])
    assert (end["type"], end["code"]) == ("RUN_ERROR", "server_stopping")
    assert stage.left.is_set()


class Closes(PythonSource):
    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        super().__init__(echo)
        self._close, self.closed = close, 0

    async def aclose(self) -> None:
        self.closed += 1
        await self._close()


async def test_a_stop_closes_every_source_once_whatever_they_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app_module, "_CLOSE_S", 0.05)

    async def fails() -> None:
        raise ValueError("cannot close")

    async def hangs() -> None:
        await asyncio.Event().wait()

    async def works() -> None:
        pass

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    async def exits() -> None:
        raise SystemExit(3)

    async def is_deaf() -> None:
        while not heard.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await heard.wait()

    heard = asyncio.Event()
    closes = (fails, hangs, works, cancels_itself, exits, is_deaf)
    sources = dict(zip("abcdef", map(Closes, closes), strict=True))
    app = App(sources)
    async with served(app):
        async with asyncio.timeout(WAIT_S):
            await app.stop(0)
    assert [source.closed for source in sources.values()] == [1] * 6, "the server's own stop closes nothing again"
    assert "cannot close" in caplog.text
    assert all(f"{name!r} could not be closed" in caplog.text for name in "abde")
    heard.set()


# --- composing -------------------------------------------------------------------------------------------------------


async def test_the_application_can_be_mounted_in_another() -> None:
    async with served(Starlette(routes=[Mount("/inner", App({"echo": echo}))])) as url:
        assert said((await ask(url, "POST", "/inner/agui", body())).events) == "hel lo"
        assert refusal(await ask(url, "GET", "/inner/nope"))[0] == 404
        assert (await ask(url, "GET", "/inner/health")).status == 200


async def returns_text(request: RunRequest) -> str:
    return "hello"


def yields_at_once(request: RunRequest) -> Any:
    yield "hello"


@pytest.mark.parametrize(
    ("agent", "said"),
    [(42, "int"), (None, "NoneType"), (returns_text, "returns_text"), (yields_at_once, "yields_at_once")],
)
def test_what_is_no_agent_is_refused_at_once(agent: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=f"agent 'x': .*{said}.* async generator function"):
        App({"x": agent})


def test_a_default_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="no agent 'y'; known: x"):
        App({"x": echo}, default="y")
