"""Coming back to a run over a real server: after any frame, at any time, as anybody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from runs.staging import Stage
from serving import WAIT_S, Answer, Wire, ask, body, by_header, echo, refusal, said, sent, served

from anabranch.app import App
from anabranch.events import AgentFinished, AgentStarted, MessageFinished, MessageStarted, TextDelta
from anabranch.request import RunRequest

Items = AsyncGenerator[Any, None]

WORDS = [f"word{number} " for number in range(12)]


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'a.db'}"


class Paced:
    """An agent that says each word, in a lane of its own, when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Semaphore(0)

    async def __call__(self, request: RunRequest) -> Items:
        yield AgentStarted(agent="a", name="komodor")
        yield MessageStarted(agent="a", message_id="m")
        for word in WORDS:
            await self.go.acquire()
            yield TextDelta(agent="a", message_id="m", delta=word)
        yield MessageFinished(agent="a", message_id="m")
        yield AgentFinished(agent="a")
        yield "done"


async def each(wire: Wire) -> AsyncIterator[bytes]:
    """The frames of a stream, however they were written."""
    rest = b""
    async for chunk in wire:
        *frames, rest = (rest + chunk).split(b"\n\n")
        for frame in frames:
            if not frame.startswith(b":"):
                yield frame + b"\n\n"


def id_of(frame: bytes) -> str:
    line, _, _ = frame.partition(b"\n")
    return line.removeprefix(b"id: ").decode() if line.startswith(b"id: ") else ""


def place(id: str) -> tuple[int, ...]:
    return tuple(map(int, id.rpartition(":")[2].split(".")))


def event_of(frame: bytes) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(frame.partition(b"data: ")[2])
    return event


def where(run_id: str = "r1", **query: str) -> str:
    return f"/runs/{quote(run_id, safe='')}/agui?" + urlencode({"protocolVersion": "1.0"} | query)


async def first(url: str, path: str, **headers: str) -> bytes:
    """The first frame of an attach, whose client then leaves."""
    async with sent(url, "GET", path, **headers) as wire:
        assert (await wire.head())[0] == 200
        return await anext(each(wire))


# --- after each frame ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["header", "query"])
async def test_a_client_that_leaves_after_each_frame_has_the_whole_run_once(storage: str, by: str) -> None:
    agent, last, seen = Paced(), "", list[bytes]()
    async with served(App({"paced": agent}, storage=storage)) as url:
        async with sent(url, "POST", "/agui", body()) as wire:
            await wire.head()
        while True:
            if len(seen) >= 3:
                agent.go.release()  # the run goes on while its client is away
            path = where(after=last) if by == "query" and last else where()
            frame = await first(url, path, **({"last_event_id": last} if by == "header" and last else {}))
            seen.append(frame)
            last = id_of(frame)
            if event_of(frame)["type"] == "RUN_FINISHED":
                break
        over = await ask(url, "GET", where(), last_event_id=last)
        whole = await ask(url, "GET", where())
    assert b"".join(seen) == whole.body
    assert said([*map(event_of, seen)]) == "".join(WORDS) + "done"
    ids = [place(id_of(frame)) for frame in seen]
    assert ids == sorted({*ids})
    assert (over.status, over.body) == (204, b"")


async def test_a_client_that_comes_new_after_each_frame_has_the_whole_run_each_time(storage: str) -> None:
    agent, wholes, last = Paced(), [], (0, 0)
    async with served(App({"paced": agent}, storage=storage)) as url:
        async with sent(url, "POST", "/agui", body()) as wire:
            await wire.head()
        for turn in range(len(WORDS) + 1):
            # It leaves when it has an id, comes back by that for one frame, and is a new client then.
            so_far = list[bytes]()
            async with sent(url, "GET", where(prelude="1")) as wire:
                await wire.head()
                async for frame in each(wire):
                    so_far.append(frame)
                    if id_of(frame):
                        break
            assert [event_of(frame)["type"] for frame in so_far[:2]] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
            assert place(id_of(so_far[-1])) >= last
            last = place(id_of(so_far[-1]))
            agent.go.release()
            if turn < len(WORDS):
                so_far.append(await first(url, where(prelude="1"), last_event_id=id_of(so_far[-1])))
                assert place(id_of(so_far[-1])) == (last[0] + 1, 0)
            wholes.append(said([*map(event_of, so_far)]))
        assert all(("".join(WORDS) + "done").startswith(text) for text in wholes)
        assert [len(text) for text in wholes] == sorted(len(text) for text in wholes)
        end = (await ask(url, "GET", where(prelude="1"))).events
        plain = (await ask(url, "GET", where())).events
    assert said(end) == said(plain) == "".join(WORDS) + "done"
    assert sum(event["type"] == "TEXT_MESSAGE_CONTENT" for event in end) == 2
    assert end[1]["messages"] == [{"id": "m1", "role": "user", "content": "hel lo"}]
    assert end[-1] == plain[-1]


# --- at any time -----------------------------------------------------------------------------------------------------


async def test_clients_attach_before_the_first_token_in_the_middle_and_after_the_end() -> None:
    stage, begin = Stage(), asyncio.Event()

    async def late(request: RunRequest) -> Items:
        await begin.wait()
        async for piece in stage(request):
            yield piece

    async with served(App({"late": late})) as url, sent(url, "POST", "/agui", body()) as wire:
        await wire.head()
        async with sent(url, "GET", where()) as early, sent(url, "GET", where(prelude="1")) as new:
            frames = [each(early), each(new)]
            assert [(await reader.head())[0] for reader in (early, new)] == [200, 200]
            assert [event_of(await anext(frame))["type"] for frame in frames] == ["RUN_STARTED"] * 2
            begin.set()
            await stage.waiting.wait()
            middle = [asyncio.create_task(ask(url, "GET", where(prelude=new))) for new in ("0", "1")]
            while said([event_of(await anext(frames[0]))]) != "hello":
                pass
            stage.go.set()
            rest = [event_of(frame) async for frame in frames[0]]
            assert said(rest) == " world"
        after = [await ask(url, "GET", where(prelude=new)) for new in ("0", "1")]
        whole = b"".join([frame async for frame in each(wire)])
    for answer in (*[await task for task in middle], *after):
        assert said(answer.events) == "hello world"
        assert answer.events[-1]["type"] == "RUN_FINISHED"
    assert after[0].body == (await middle[0]).body == whole
    assert [event["delta"] for event in after[1].events if "delta" in event] == ["hello world"]


async def test_any_number_of_clients_watch_one_run_from_anywhere(storage: str) -> None:
    stage = Stage()
    async with served(App({"stage": stage}, storage=storage)) as url, sent(url, "POST", "/agui", body()) as wire:
        await wire.head()
        await stage.waiting.wait()
        seen = list[bytes]()
        async for frame in each(wire):
            seen.append(frame)
            if b"hello" in frame:
                break
        paths = [where(), where(prelude="1"), *(where(after=id_of(frame)) for frame in seen)]
        watching = [asyncio.create_task(ask(url, "GET", path)) for path in paths * 20]
        for _ in range(3):
            await ask(url, "GET", "/ping")
        stage.go.set()
        answers = await asyncio.gather(*watching)
        whole = (await ask(url, "GET", where())).body
    for path, answer in zip(paths * 20, answers, strict=True):
        if "prelude" in path:
            assert said(answer.events) == "hello world"
        else:
            assert whole.endswith(answer.body)
            assert said(answer.events) in ("hello world", " world")


@pytest.mark.slow
async def test_a_slow_reader_gets_everything_and_slows_nobody() -> None:
    count, filler = 3000, "x" * 2000

    async def long(request: RunRequest) -> Items:
        for number in range(count):
            yield f"{number} {filler}"

    got = {"slow": list[dict[str, Any]](), "quick": list[dict[str, Any]]()}

    async def read(name: str) -> None:
        async with sent(url, "GET", where()) as wire:
            await wire.head()
            async for frame in each(wire):
                got[name].append(event_of(frame))
                if name == "slow":
                    await asyncio.sleep(0.002)  # noqa: TID251  how slow it is, is the subject

    async with served(App({"long": long})) as url, sent(url, "POST", "/agui", body()) as wire:
        await wire.head()
        slow = asyncio.create_task(read("slow"))
        while not got["slow"]:
            await ask(url, "GET", "/ping")
        async with asyncio.timeout(30):
            await read("quick")
            # The other one is far behind: nobody waited for it.
            assert len(got["slow"]) < count / 2
            assert [event["type"] for event in got["quick"]][-1] == "RUN_FINISHED"
            await slow
    for events in got.values():
        numbers = [int(event["delta"].split()[0]) for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
        assert numbers == [*range(count)]


# --- what was asked for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "flaw"),
    [
        ("r1:99.0", "is beyond"),
        ("r1:2.1", "a frame that there is not"),
        ("r2:2.0", "is not of run 'r1'"),
        ("2.0", "is not of run 'r1'"),
        ("r1:2", "was given out"),
        ("r1:0.0", "was given out"),
    ],
)
async def test_a_cursor_that_the_run_does_not_have_is_refused_before_the_stream_starts(
    storage: str, seen: str, flaw: str
) -> None:
    async with served(App({"echo": echo}, storage=storage)) as url:
        await ask(url, "POST", "/agui", body())
        by_query = await ask(url, "GET", where(after=seen))
        by_head = await ask(url, "GET", where(), last_event_id=seen)
        remedy = await ask(url, "GET", where(prelude="1"), last_event_id=seen)
    for answer in (by_query, by_head):
        status, code, message = refusal(answer)
        assert (status, code) == (409, "cursor_unknown")
        assert flaw in message and repr(seen) in message and "?prelude=1" in message
    assert said(remedy.events) == "hel lo"


async def test_the_header_comes_before_the_query_and_a_cursor_before_a_prelude() -> None:
    async with served(App({"echo": echo})) as url:
        whole = (await ask(url, "POST", "/agui", body())).body
        answers = [
            await ask(url, "GET", where(after="r1:1.0"), last_event_id="r1:3.0"),
            await ask(url, "GET", where(after="r1:3.0", prelude="1")),
            await ask(url, "GET", where(after="", prelude="1"), last_event_id="r1:3.0"),
        ]
        empty = await ask(url, "GET", where(after=""))
    assert {answer.body for answer in answers} == {b"".join(f + b"\n\n" for f in whole.split(b"\n\n")[3:-1])}
    assert empty.body == whole


async def test_a_run_of_somebody_else_and_a_run_that_is_not_there_are_not_told_apart() -> None:
    async with served(App({"echo": echo}, principal=by_header)) as url:
        await ask(url, "POST", "/agui", body(), x_user="ann")
        paths = (where(), where(prelude="1"), where(after="r1:1.0"))
        others = [await ask(url, "GET", path, x_user="bob") for path in paths]
        nobody = [await ask(url, "GET", path.replace("r1", "r2"), x_user="bob") for path in paths]
        stranger = await ask(url, "GET", where())
        own = await ask(url, "GET", where(), x_user="ann")
    assert {refusal(answer) for answer in others} == {(404, "not_found", "there is no run 'r1'")}
    assert {refusal(answer)[0] for answer in nobody} == {404}
    assert stranger.status == 401 and own.status == 200


async def test_the_same_run_id_of_two_users_is_two_runs() -> None:
    async with served(App({"echo": echo}, principal=by_header)) as url:
        for user in ("ann", "bob"):
            await ask(url, "POST", "/agui", body(text=f"I am {user}"), x_user=user)
        for user in ("ann", "bob"):
            for path in (where(after="r1:1.0"), where(prelude="1")):
                assert said((await ask(url, "GET", path, x_user=user)).events) == f"I am {user}"


@pytest.mark.parametrize("run_id", ["a/b", "a:1.0", "ünï 🚀", "r/agui", "q?#%&", ":", "x" * 256])
async def test_any_run_id_can_be_come_back_to(run_id: str) -> None:
    async with served(App({"echo": echo})) as url:
        whole = await ask(url, "POST", "/agui", body(run_id, "t"))
        frames = [frame + b"\n\n" for frame in whole.body.split(b"\n\n")[:-1]]
        assert id_of(frames[1]) == f"{run_id}:2.0"
        for answer in (
            await ask(url, "GET", where(run_id), last_event_id=id_of(frames[1])),
            await ask(url, "GET", where(run_id, after=id_of(frames[1]))),
            await ask(url, "POST", "/agui", body(run_id, "t"), last_event_id=id_of(frames[1])),
        ):
            assert answer.body == b"".join(frames[2:])
        over = await ask(url, "GET", where(run_id), last_event_id=id_of(frames[-1]))
        assert over.status == 204


async def test_a_client_says_in_the_query_what_it_can_read_and_the_default_is_as_the_run_was_started() -> None:
    async with served(App({"paced": (agent := Paced())})) as url:
        for _ in WORDS:
            agent.go.release()
        await ask(url, "POST", "/agui", body())

        async def kinds(path: str, **headers: str) -> set[str]:
            answer = await ask(url, "GET", path, **headers)
            return {event["type"] for event in answer.events if event["type"].startswith(("SUB", "STEP"))}

        steps, lanes = {"STEP_STARTED", "STEP_FINISHED"}, {"SUBAGENT_STARTED", "SUBAGENT_FINISHED"}
        assert await kinds("/runs/r1/agui") == await kinds("/runs/r1/agui?prelude=1") == lanes
        assert await kinds("/runs/r1/agui?protocolVersion=0.0") == steps
        assert await kinds("/runs/r1/agui?subagents=steps") == steps
        assert await kinds("/runs/r1/agui?protocolVersion=1.0") == lanes
        assert await kinds("/runs/r1/agui?protocolVersion=1.0&subagents=steps") == steps
        assert await kinds("/runs/r1/agui", x_anabranch_subagents="native") == lanes
        wrong = await ask(url, "GET", "/runs/r1/agui?subagents=lanes")
        # A cursor outlives a change of client.
        rest = await ask(url, "GET", "/runs/r1/agui?protocolVersion=1.0", last_event_id="r1:4.0")
    assert refusal(wrong)[0] == 422
    assert said(rest.events) == "".join(WORDS[1:]) + "done"


async def test_a_head_request_does_not_watch_a_run() -> None:
    stage = Stage()
    app = App({"stage": stage}, on_disconnect="cancel")
    async with served(app) as url, sent(url, "POST", "/agui", body()) as wire:
        await stage.waiting.wait()
        head = await ask(url, "HEAD", where())
        stage.go.set()
        await wire.head()
        assert b"RUN_FINISHED" in b"".join(await wire.chunks())
    assert head.status in (404, 405)


# --- the same request again ------------------------------------------------------------------------------------------


async def test_a_request_that_is_sent_again_goes_on_where_its_client_was() -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url:
        async with sent(url, "POST", "/agui", body()) as wire:
            await wire.head()
            async for frame in each(wire):
                if b"hello" in frame:
                    break
        again = asyncio.create_task(ask(url, "POST", "/agui", body(), last_event_id=id_of(frame)))
        whole = asyncio.create_task(ask(url, "POST", "/agui", body()))
        stage.go.set()
        assert said((await again).events) == " world"
        assert said((await whole).events) == "hello world"
        over = await ask(url, "POST", "/agui", body(), last_event_id=id_of((await whole).body.split(b"\n\n")[-2]))
        beyond = await ask(url, "POST", "/agui", body(), last_event_id="r1:99.0")
    assert (over.status, over.body) == (204, b"")
    assert refusal(beyond)[:2] == (409, "cursor_unknown")


async def test_a_client_that_comes_back_starts_nothing_and_one_with_the_id_of_another_run_does() -> None:
    calls = list[str]()

    async def counted(request: RunRequest) -> Items:
        calls.append(request.run_id)
        yield "x"

    async with served(App({"counted": counted})) as url:
        gone = await ask(url, "POST", "/agui", body("r1"), last_event_id="r1:3.0")
        new = await ask(url, "POST", "/agui", body("r2"), last_event_id="r1:3.0")
    assert refusal(gone)[:2] == (404, "not_found")
    assert said(new.events) == "x" and calls == ["r2"]


async def test_what_was_shown_is_there_after_a_restart_of_the_server(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'a.db'}"
    async with served(App({"echo": echo}, storage=storage)) as url:
        whole = await ask(url, "POST", "/agui", body(text="one two three"))
        new: Answer = await ask(url, "GET", where(prelude="1"))
    frames = [frame + b"\n\n" for frame in whole.body.split(b"\n\n")[:-1]]
    async with asyncio.timeout(WAIT_S), served(App({"echo": echo}, storage=storage)) as url:
        for number, frame in enumerate(frames[:-1], 1):
            assert (await ask(url, "GET", where(), last_event_id=id_of(frame))).body == b"".join(frames[number:])
        assert (await ask(url, "GET", where(prelude="1"))).body == new.body
        assert (await ask(url, "GET", where(), last_event_id=id_of(frames[-1]))).status == 204
