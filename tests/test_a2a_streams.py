"""Many streams of one task, over both bindings of both versions: all tell the same, in the same order, to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import pytest
from a2a_serving import STREAM, counting, numbers, request
from serving import WAIT_S, ask, sent, served

from anabranch.app import App
from anabranch.request import RunRequest

COUNT, GATES = 2000, (1, 700, 1400, 2000)
SAID = "go"


class Dialect(NamedTuple):
    """One binding of one version."""

    version: str
    rest: bool

    @property
    def headers(self) -> dict[str, str]:
        return {"a2a_version": "1.0"} if self.version == "1.0" else {}

    def call(self, method: str, params: dict[str, Any]) -> tuple[str, str, Any]:
        """The verb, the path and the body by which ``method`` (of 1.0) is called."""
        if not self.rest:
            return "POST", "/", request(method if self.version == "1.0" else _OLD[method], params)
        under = "" if self.version == "1.0" else "/v1"
        return "POST", under + _PATHS[method].format(**params), params if "message" in params else None

    def message(self, id: str) -> dict[str, Any]:
        """A message with the same content in each."""
        part = {"text": SAID} if self.rest or self.version == "1.0" else {"kind": "text", "text": SAID}
        parts = "content" if self.rest and self.version == "0.3" else "parts"
        role = "ROLE_USER" if self.rest or self.version == "1.0" else "user"
        return {"message": {"messageId": id, "role": role, parts: [part]}}


_OLD = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "SubscribeToTask": "tasks/resubscribe",
    "CancelTask": "tasks/cancel",
}
_PATHS = {
    "SendMessage": "/message:send",
    "SendStreamingMessage": "/message:stream",
    "SubscribeToTask": "/tasks/{id}:subscribe",
    "CancelTask": "/tasks/{id}:cancel",
}
DIALECTS = [Dialect(version, rest) for version in ("1.0", "0.3") for rest in (False, True)]


class Told(NamedTuple):
    """What a frame says, whatever its dialect."""

    cursor: str
    state: str
    text: str
    append: bool
    last: bool


def told(id: str, said: dict[str, Any]) -> Told:
    """What the event in a frame says."""
    said = said.get("result", said)
    if "kind" not in said:
        [said] = said.values()
    assert said["metadata"]["anabranch"]["cursor"] == id
    if "artifact" in said:
        return Told(id, "", text_of(said["artifact"]), said.get("append", False), said.get("lastChunk", False))
    return Told(id, state_of(said), "".join(map(text_of, said.get("artifacts", ()))), False, False)


def text_of(artifact: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in artifact["parts"])


def state_of(said: dict[str, Any]) -> str:
    """The state, by its name in 1.0."""
    state = str(said["status"]["state"]).removeprefix("TASK_STATE_").upper().replace("-", "_")
    return {"CANCELLED": "CANCELED"}.get(state, state)


class Stream:
    """A stream that is read to its end, from now on."""

    def __init__(
        self, url: str, dialect: Dialect, method: str, params: dict[str, Any], pace_s: float = 0, small: bool = False
    ) -> None:
        self._url, self._dialect, self._call = url, dialect, dialect.call(method, params)
        self._pace_s, self._small = pace_s, small
        self.frames: list[Told] = []
        self.begun = asyncio.Event()

    async def read(self) -> None:
        """To the end."""
        rest = ""
        async with sent(self._url, *self._call, small=self._small, **self._dialect.headers) as wire:
            status, headers = await wire.head()
            assert (status, headers["content-type"]) == (200, STREAM)
            async for chunk in wire:
                *whole, rest = (rest + chunk.decode()).split("\n\n")
                for frame in whole:
                    if not frame.startswith(":"):
                        self.frames.append(self._told(frame))
                    if self._pace_s:
                        await asyncio.sleep(self._pace_s)  # noqa: TID251 - the reader's pace is what is tested
                self.begun.set()
        assert not rest

    def _told(self, frame: str) -> Told:
        id, data = frame.split("\n")
        return told(id.removeprefix("id: "), json.loads(data.removeprefix("data: ")))


class Gated:
    """An agent that says numbers as fast as it can, but for some where it waits to be let on; then it ends somehow."""

    def __init__(self, end: str) -> None:
        self.end = end
        self.waits: asyncio.Queue[int] = asyncio.Queue()
        self.on: asyncio.Queue[None] = asyncio.Queue()

    async def __call__(self, request: RunRequest) -> AsyncGenerator[str, None]:
        for number in range(COUNT):
            yield f"{number} "
            if number + 1 in GATES:
                self.waits.put_nowait(number)
                await self.on.get()
        if self.end == "FAILED":
            raise RuntimeError("a secret inside")
        if self.end == "CANCELED":
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("end", "canceller"), [("COMPLETED", None), ("FAILED", None), *(("CANCELED", each) for each in DIALECTS)], ids=str
)
async def test_every_stream_tells_the_same_in_the_same_order_to_the_same_end(
    end: str, canceller: Dialect | None
) -> None:
    agent = Gated(end)
    streams: list[Stream] = []
    async with served(App({"gated": agent})) as url, asyncio.timeout(3 * WAIT_S), asyncio.TaskGroup() as group:

        async def open(method: str, params: Any) -> None:
            opened = [Stream(url, each, method, params or each.message("m")) for each in DIALECTS]
            for stream in opened:
                group.create_task(stream.read())
                await stream.begun.wait()
            streams.extend(opened)

        await open("SendStreamingMessage", None)
        task_id = await started(url)
        for _ in GATES:
            await agent.waits.get()
            await open("SubscribeToTask", {"id": task_id})
            agent.on.put_nowait(None)
        if canceller:
            answer = await ask(url, *canceller.call("CancelTask", {"id": task_id}), **canceller.headers)
            said = json.loads(answer.body)
            assert state_of(said.get("result", said)) == "CANCELED"
    whole = streams[0].frames
    assert [frame.state for frame in whole if frame.state] == ["SUBMITTED", "WORKING", end]
    assert "".join(frame.text for frame in whole) == numbers(COUNT)
    place = {frame.cursor: number for number, frame in enumerate(whole)}
    assert len(place) == len(whole)
    for stream in streams:
        first, *rest = stream.frames
        after = place[first.cursor] + 1
        assert rest == whole[after:] and rest[-1].state == end
        assert first.text == "".join(frame.text for frame in whole[:after])
    assert len(streams) == 4 * (1 + len(GATES))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "small"), [(3000, False), (500, True)], ids=["many", "with small buffers"])
async def test_slow_readers_get_everything(count: int, small: bool) -> None:
    async with served(App({"count": counting(count)})) as url, asyncio.timeout(50), asyncio.TaskGroup() as group:
        streams = [Stream(url, each, "SendStreamingMessage", each.message("m"), 0.002, small) for each in DIALECTS]
        for stream in streams:
            group.create_task(stream.read())
    for stream in streams:
        assert "".join(frame.text for frame in stream.frames) == numbers(count)
        assert stream.frames == streams[0].frames and len(stream.frames) > count
        assert [frame.state for frame in stream.frames if frame.state] == ["SUBMITTED", "WORKING", "COMPLETED"]


async def started(url: str) -> str:
    """The id of the one task there is."""
    answer = await ask(url, "POST", "/", request("ListTasks", {}), a2a_version="1.0")
    [task] = answer.json["result"]["tasks"]
    return str(task["id"])


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
async def test_a_blocking_send_of_a_run_that_fails_does_not_look_like_success(dialect: Dialect) -> None:
    async def failing(request: RunRequest) -> AsyncGenerator[str, None]:
        yield "so far "
        raise RuntimeError("a secret inside")

    params = dialect.message("m") | {"configuration": {"blocking": True}}
    async with served(App({"failing": failing})) as url:
        answer = await ask(url, *dialect.call("SendMessage", params), **dialect.headers)
    said = json.loads(answer.body)
    task = said.get("result", said)
    task = task.get("task", task)
    assert (answer.status, state_of(task)) == (200, "FAILED")
    told = task["status"]["message"]
    [part] = told.get("parts") or told["content"]
    assert "RuntimeError" in part["text"] and "secret" not in part["text"]
