"""``anabranch serve`` as a process: how it stops, and what it leaves behind."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import WAIT_S, Wire, ask, sent

pytestmark = pytest.mark.process

CONFIG = """
agents:
  endless: {python: "agents_of_the_test:endless"}
  until_go: {python: "agents_of_the_test:until_go"}
  huge: {python: "agents_of_the_test:huge"}
  breaks: {python: "agents_of_the_test:breaks"}
  leaves: {python: "agents_of_the_test:leaves"}
default: endless
server: {port: 0}
"""
AGENTS = """
import asyncio, os, time

async def endless(request):
    yield "hello"
    await asyncio.Event().wait()

async def until_go(request):
    yield "hello"
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    yield " world"

async def huge(request):
    yield "x" * 2**24
    await asyncio.Event().wait()

async def ends_the_process(how):
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt()}[how]

async def breaks(request):
    yield "hello"
    if request.last_user_text() == "stop":
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        yield " again"
    else:
        await asyncio.create_task(ends_the_process(request.last_user_text()))

async def deaf():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

async def leaves(request):
    asyncio.create_task(deaf(), name="deaf")
    asyncio.create_task(asyncio.to_thread(time.sleep, 60))
    yield "hello"
"""


class Served:
    """One server process."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._process, self.folder = process, folder
        self.url, self.log = "", ""

    async def read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.log += line.decode()
            if line.startswith(b"anabranch: serving on "):
                self.url = line.decode().split()[-1]
                return

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def exit(self) -> int:
        """Wait for the end of the process; its exit status."""
        assert self._process.stderr is not None
        async with asyncio.timeout(2 * WAIT_S):
            self.log += (await self._process.stderr.read()).decode()
            return await self._process.wait()

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self._process.pid).children(recursive=True)

    def sleeps(self) -> None:
        """Return when the process waits for something."""
        while psutil.Process(self._process.pid).status() != psutil.STATUS_SLEEPING:
            pass

    async def stopping(self) -> None:
        """Wait until the server knows that it stops."""
        async with asyncio.timeout(WAIT_S):
            while (await ask(self.url, "GET", "/ready")).status != 503:
                pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "anabranch.yaml").write_text(CONFIG)
    (tmp_path / "agents_of_the_test.py").write_text(AGENTS)
    return tmp_path


@asynccontextmanager
async def serving(folder: Path, grace: str) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "anabranch", "serve"),
        cwd=folder,
        env=os.environ | {"ANABRANCH__SERVER__STOP_GRACE": grace},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    server = Served(process, folder)
    try:
        async with asyncio.timeout(2 * WAIT_S):
            await server.read()
        assert server.url, server.log
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def body(run_id: str = "r1", text: str = "hi") -> dict[str, Any]:
    return {"runId": run_id, "threadId": run_id, "messages": [{"id": "m", "role": "user", "content": text}]}


async def hello(wire: Wire) -> None:
    """Read until the agent has said hello."""
    assert (await wire.head())[0] == 200
    while b"hello" not in await wire.chunk():
        pass


async def end(wire: Wire) -> dict[str, Any]:
    """The last event of a stream, which is whole."""
    last = (await wire.chunks())[-1].decode().strip().split("data: ")[-1]
    event: dict[str, Any] = json.loads(last)
    return event


async def test_a_run_that_ends_within_the_grace_ends_normally_while_new_ones_are_refused(folder: Path) -> None:
    async with serving(folder, "1h") as server:
        async with sent(server.url, "POST", "/agents/until_go/agui", body()) as wire:
            await hello(wire)
            server.signal(signal.SIGTERM)
            await server.stopping()
            refused = await ask(server.url, "POST", "/agui", body("r2"))
            alive = await ask(server.url, "GET", "/health")
            shown = await ask(server.url, "GET", "/runs/r1")
            (folder / "go").touch()
            assert (await end(wire))["type"] == "RUN_FINISHED"
        assert await server.exit() == 0
    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
    assert refused.json["error"]["code"] == "server_stopping"
    assert (alive.status, shown.json["status"]) == (200, "running")
    assert "Traceback" not in server.log


async def test_after_the_grace_a_live_stream_gets_its_typed_end(folder: Path) -> None:
    async with serving(folder, "300ms") as server:
        async with sent(server.url, "POST", "/agui", body()) as wire:
            await hello(wire)
            server.signal(signal.SIGTERM)
            event = await end(wire)
        assert await server.exit() == 0
    assert (event["type"], event["code"]) == ("RUN_ERROR", "server_stopping")
    assert "Traceback" not in server.log


@pytest.mark.parametrize(("first", "fast"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGINT, False)])
async def test_a_second_ctrl_c_skips_the_grace_and_not_the_end(folder: Path, first: int, fast: bool) -> None:
    if not fast:  # as installed without the extra: signals do not wake asyncio's own loop
        (folder / "uvloop.py").write_text("raise ImportError")
    async with serving(folder, "1h") as server:
        async with sent(server.url, "POST", "/agui", body()) as wire:
            await hello(wire)
            server.signal(first)
            await server.stopping()
            async with sent(server.url, "GET", "/ping") as still_open:
                await still_open.head()
                server.sleeps()
                server.signal(signal.SIGINT)
                async with asyncio.timeout(4):  # the next timer of a loop that the signal did not wake is at 5 s
                    event = await end(wire)
        assert await server.exit() == 0
    assert (event["type"], event["code"]) == ("RUN_ERROR", "server_stopping")
    assert "Traceback" not in server.log


async def test_an_idle_server_stops_at_once(folder: Path) -> None:
    async with serving(folder, "1h") as server:
        assert (await ask(server.url, "GET", "/ready")).status == 200
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0


@pytest.mark.parametrize(
    ("host", "auth", "warned"),
    [("0.0.0.0", "", True), ("0.0.0.0", "auth: {api_keys_file: keys.txt}\n", False), ("127.0.0.1", "", False)],
)
async def test_a_server_for_others_that_does_not_ask_who_they_are_says_so(
    folder: Path, host: str, auth: str, warned: bool
) -> None:
    (folder / "keys.txt").write_text(f"ci: {'0' * 64}\n")
    text = CONFIG.replace("{port: 0}", f"{{port: 0, host: {host}}}")
    (folder / "anabranch.yaml").write_text(text + auth)
    async with serving(folder, "1h") as server:
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
    assert ("anybody who can reach 0.0.0.0 may use this server" in server.log) is warned


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_right_after_the_announcement_is_a_clean_stop(folder: Path, number: int) -> None:
    async with serving(folder, "1h") as server:
        server.signal(number)
        assert await server.exit() == 0
    assert "Traceback" not in server.log


@pytest.mark.parametrize("module", ["anabranch", "anabranch.demo.server"])
async def test_ctrl_c_before_there_is_a_server_ends_the_process_quietly(folder: Path, module: str) -> None:
    slow = "import os, sys, time\nos.write(2, b'importing\\n')\ntime.sleep(60)\n"
    (folder / "agents_of_the_test.py").write_text(slow)
    arguments = ("serve", "anabranch.yaml") if module == "anabranch" else ("anabranch.yaml",)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments), cwd=folder, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(2 * WAIT_S):
            assert await process.stderr.readline() == b"importing\n"
            process.send_signal(signal.SIGINT)
            assert await process.stderr.read() == b""
            assert await process.wait() == -signal.SIGINT
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("fast", [True, False])
async def test_an_agent_that_breaks_the_loop_ends_its_own_run_only(folder: Path, fast: bool) -> None:
    if not fast:
        (folder / "uvloop.py").write_text("raise ImportError")
    async with serving(folder, "1h") as server:
        async with sent(server.url, "POST", "/agents/until_go/agui", body("other")) as other:
            await hello(other)
            for how, last in (("exit", "RUN_ERROR"), ("interrupt", "RUN_ERROR"), ("stop", "RUN_FINISHED")):
                broken = await ask(server.url, "POST", "/agents/breaks/agui", body(how, how))
                assert broken.events[-1]["type"] == last
            (folder / "go").touch()
            assert (await end(other))["type"] == "RUN_FINISHED"
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
    assert server.log.count("a task of an agent tried to end the process") == 2


@pytest.mark.parametrize("fast", [True, False])
async def test_what_an_agent_leaves_behind_does_not_hold_the_process_and_is_named(folder: Path, fast: bool) -> None:
    if not fast:
        (folder / "uvloop.py").write_text("raise ImportError")
    async with serving(folder, "1h") as server:
        answer = await ask(server.url, "POST", "/agents/leaves/agui", body())
        assert answer.events[-1]["type"] == "RUN_FINISHED"
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
    left = server.log.partition("left behind, because it does not stop: ")[2]
    assert "deaf" in left and "thread " in left
    assert "Traceback" not in server.log


@pytest.mark.slow
async def test_a_client_that_does_not_read_cannot_hold_the_server(folder: Path) -> None:
    async with (
        serving(folder, "0") as server,
        sent(server.url, "POST", "/agents/huge/agui", body(), small=True) as wire,
    ):
        assert (await wire.head())[0] == 200
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0


async def test_a_server_that_is_killed_leaves_no_process_and_the_next_one_ends_its_runs(folder: Path) -> None:
    shown = b""
    async with serving(folder, "1h") as server:
        async with sent(server.url, "POST", "/agui", body()) as wire:
            assert (await wire.head())[0] == 200
            while b"hello" not in shown:
                shown += await wire.chunk()
            assert server.children() == []
            server.signal(signal.SIGKILL)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await wire.chunks()
        assert await server.exit() == -signal.SIGKILL
    port = server.url.rpartition(":")[2]
    (folder / "anabranch.yaml").write_text(CONFIG.replace("port: 0", f"port: {port}"))
    for _ in range(2):  # and it stays so
        async with serving(folder, "0") as again:
            assert again.url == server.url
            whole = await ask(again.url, "GET", "/runs/r1/agui")
            assert whole.body.startswith(shown)
            assert (whole.events[-1]["type"], whole.events[-1]["code"]) == ("RUN_ERROR", "replica_lost")
            kinds = [event["type"] for event in whole.events]
            assert sum(kind in ("RUN_ERROR", "RUN_FINISHED") for kind in kinds) == 1
            rest = await ask(again.url, "GET", "/runs/r1/agui", last_event_id=_last_id(shown))
            assert shown + rest.body == whole.body
            assert (await ask(again.url, "GET", "/runs/r1")).json["status"] == "failed"
            assert (await ask(again.url, "GET", "/threads/r1")).json["messages"][-1]["content"] == "hello"
            again.signal(signal.SIGTERM)
            assert await again.exit() == 0
    (folder / "go").touch()
    async with serving(folder, "0") as again:
        news = {"runId": "r2", "threadId": "r1", "messages": [{"id": "m2", "role": "user", "content": "again"}]}
        assert (await ask(again.url, "POST", "/agents/until_go/agui", news)).events[-1]["type"] == "RUN_FINISHED"
        roles = [each["role"] for each in (await ask(again.url, "GET", "/threads/r1")).json["messages"]]
        assert roles == ["user", "assistant", "user", "assistant"]


def _last_id(frames: bytes) -> str:
    return frames.rstrip().rpartition(b"id: ")[2].partition(b"\n")[0].decode()


PARENT = """
import asyncio, sys
from anabranch.demo._process import started

async def main():
    async with started("anabranch.demo.server", sys.argv[1]) as url:
        print(url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_server_of_the_demo_ends_when_its_parent_is_killed(folder: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, str(folder / "anabranch.yaml")),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        async with asyncio.timeout(2 * WAIT_S):
            url = (await parent.stdout.readline()).decode().strip()
        assert (await ask(url, "GET", "/ready")).status == 200
        children = psutil.Process(parent.pid).children(recursive=True)
        assert children
    finally:
        parent.kill()
        await parent.wait()
    gone, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=WAIT_S)
    for process in alive:
        process.kill()
    assert alive == [] and len(gone) == len(children)
