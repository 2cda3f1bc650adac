"""``anabranch serve --record``: each run a file, replayed to what the client read, also after the server was killed."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import WAIT_S, ask, body, sent

from anabranch import App, current
from anabranch import events as ev
from anabranch.log._base import Entry
from anabranch.sinks.agui.encode import AguiEncoder
from anabranch.sinks.agui.profile import Profile

from .taping import file_in, files_in, lines_of, opened, replayed

CONFIG = """
agents:
  words: {python: "agents_of_the_test:words"}
  endless: {python: "agents_of_the_test:endless"}
  remote: {a2a: "http://127.0.0.1:1", auth: {bearer_env: KOMODOR}}
default: words
storage: "memory://"
server: {port: 0}
"""
AGENTS = """
import asyncio, os

async def words(request):
    for word in ("The ", "key ", "is ", os.environ["KOMODOR"]):
        yield word

async def endless(request):
    yield "hello"
    await asyncio.Event().wait()
"""
KEY = "komodors-own-key"


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """``anabranch serve --record tapes`` in ``folder``: its address and the process, which is killed on exit."""
    (folder / "anabranch.yaml").write_text(CONFIG)
    (folder / "agents_of_the_test.py").write_text(AGENTS)
    command = [sys.executable, "-m", "anabranch", "serve", "--record", "tapes"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env={"KOMODOR": KEY, "PATH": ""}, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr
    try:
        async with asyncio.timeout(WAIT_S):
            while not (found := re.search(rb"serving on (\S+)", line := await process.stderr.readline())):
                assert line, "the server did not start"
        yield found[1].decode(), process
    finally:
        if process.returncode is None:
            process.kill()
        async with asyncio.timeout(WAIT_S):
            await process.communicate()


def frames_of(path: Path) -> list[dict[str, Any]]:
    """The AG-UI events of a recorded run, without their times."""
    encoder = AguiEncoder(Profile(True, "native"))
    entries = (Entry(entry.seq, 1, 0, entry.event) for entry in opened(path).entries())
    return [json.loads(frame.partition(b"data: ")[2]) for entry in entries for frame in encoder.feed(entry)]


@pytest.mark.process
async def test_a_served_run_is_recorded_without_the_servers_secrets(tmp_path: Path) -> None:
    async with serving(tmp_path) as (url, _):
        answer = await ask(url, "POST", "/agui", body("r1"))
        events = [event | {"timestamp": 0} for event in answer.events]
    path = file_in(tmp_path / "tapes")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [line.get("item") for line in lines_of(path)[1:-1]] == ["The ", "key ", "is ", "*" * len(KEY)]
    replay = json.loads(json.dumps(frames_of(path)))
    for each in (events, replay):  # the hash of the answer is that of other text now
        each[-1]["metadata"]["anabranch"]["answer"].pop("sha256")
    assert replay == json.loads(json.dumps(events).replace(KEY, "*" * len(KEY)))


@pytest.mark.process
async def test_a_killed_server_leaves_what_it_had_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as (url, process), sent(url, "POST", "/agents/endless/agui", body("r1")) as wire:
        await wire.head()
        read = b""
        while b'"hello"' not in read:
            read += await wire.chunk()
        process.send_signal(signal.SIGKILL)
        async with asyncio.timeout(WAIT_S):
            await process.wait()
    events = replayed(file_in(tmp_path / "tapes"))
    assert [event.delta for event in events if isinstance(event, ev.TextDelta)] == ["hello"]
    assert isinstance(events[-1], ev.RunFailed) and events[-1].code == "replica_lost"


async def test_an_app_records_what_its_agents_give_and_emit(tmp_path: Path) -> None:
    from serving import served

    async def agent(request: Any) -> Any:
        yield "a"
        current().emit(ev.Custom(name="x", value=1))
        yield "b"

    app = App({"agent": agent}, record=tmp_path / "tapes")
    async with served(app) as url:
        for run_id in ("r1", "r2"):
            answer = await ask(url, "POST", "/agui", body(run_id))
            events = [event | {"timestamp": 0} for event in answer.events]
            [path] = [path for path in files_in(tmp_path / "tapes") if run_id in path.name]
            assert frames_of(path) == events
    assert len(files_in(tmp_path / "tapes")) == 2


async def test_an_app_records_nothing_unless_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from serving import echo, served

    monkeypatch.chdir(tmp_path)
    async with served(App({"agent": echo})) as url:
        await ask(url, "POST", "/agui", body("r1"))
    assert files_in(tmp_path) == []
