"""What is asked of an A2A server, by hand and by the official client, and what comes back."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse, Task
from serving import Answer, Wire, ask, sent

from anabranch.events import Interrupted
from anabranch.request import RunRequest

Items = AsyncGenerator[Any, None]
_ids = itertools.count(1)

BINDINGS = ["JSONRPC", "HTTP+JSON"]
SCHEMA = {"type": "boolean"}
STREAM = "text/event-stream; charset=utf-8"


def message(text: str = "hel lo", id: str = "", **more: Any) -> dict[str, Any]:
    """A message of the user in 1.0; each has an id of its own unless one is given."""
    return {"messageId": id or f"m{next(_ids)}", "role": "ROLE_USER", "parts": [{"text": text}]} | more


def legacy(text: str = "hel lo", id: str = "", **more: Any) -> dict[str, Any]:
    """The same in 0.3."""
    said = {"kind": "message", "messageId": id or f"m{next(_ids)}", "role": "user"}
    return said | {"parts": [{"kind": "text", "text": text}]} | more


def request(method: str, params: Any, id: Any = "q") -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def rpc(url: str, method: str, params: Any, path: str = "/", version: str = "1.0", **headers: str) -> Answer:
    """Send one to the end."""
    return await ask(url, "POST", path, request(method, params), **versioned(version), **headers)


def versioned(version: str) -> dict[str, str]:
    return {"a2a_version": version} if version else {}


async def result(url: str, method: str, params: Any, version: str = "1.0", **headers: str) -> Any:
    """The result of one that succeeds."""
    answer = await rpc(url, method, params, version=version, **headers)
    assert answer.status == 200 and answer.json.keys() == {"jsonrpc", "id", "result"}, answer
    return answer.json["result"]


async def refused(url: str, method: str, params: Any, version: str = "1.0", **headers: str) -> int:
    """The number of the error of one that is refused, which tells nothing of the inside."""
    return error(await rpc(url, method, params, version=version, **headers))["code"]


def error(answer: Answer) -> Any:
    """The error in an answer."""
    assert answer.status in (200, 413, 415) and answer.said.keys() == {"jsonrpc", "id", "error"}, answer
    said = answer.said["error"]
    assert said.keys() == {"code", "message", "data"}
    [info] = said["data"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo" and info["domain"] == "a2a-protocol.org"
    assert "Traceback" not in said["message"] and ".py" not in said["message"]
    return said


async def send(url: str, said: dict[str, Any], version: str = "1.0", **headers: str) -> Any:
    """The task that a blocking SendMessage gives."""
    return (await result(url, "SendMessage", {"message": said}, version, **headers))["task"]


@asynccontextmanager
async def streamed(
    url: str, method: str, params: Any, version: str = "1.0", **headers: str
) -> AsyncIterator[AsyncGenerator[dict[str, Any], None]]:
    """The events of a stream as they come, each with the id of its frame as ``cursor``."""
    asked = request(method, params)
    async with sent(url, "POST", "/", asked, **versioned(version), **headers) as wire:
        status, given = await wire.head()
        assert (status, given["content-type"]) == (200, STREAM), await wire.exactly(int(given.get("content-length", 0)))
        yield events(wire)


async def events(wire: Wire) -> AsyncGenerator[dict[str, Any], None]:
    """What the frames say."""
    rest = b""
    async for chunk in wire:
        *frames, rest = (rest + chunk).split(b"\n\n")
        for frame in frames:
            if not frame.startswith(b":"):
                yield event(frame)
    assert not rest


def event(frame: bytes) -> dict[str, Any]:
    """What one frame says."""
    lines = [line.partition(b": ")[::2] for line in frame.split(b"\n")]
    assert [name for name, _ in lines] in ([b"id", b"data"], [b"event", b"data"]), frame
    said = json.loads(lines[1][1])
    if lines[0][0] == b"event":
        return {"error": said.get("error", said)}
    return {"cursor": lines[0][1].decode()} | (said["result"] if "jsonrpc" in said else said)


async def whole(url: str, method: str, params: Any, version: str = "1.0", **headers: str) -> list[dict[str, Any]]:
    """A stream to its end."""
    async with streamed(url, method, params, version, **headers) as stream:
        return [each async for each in stream]


def text_of(stream: list[dict[str, Any]]) -> str:
    """The text of the artifacts of a stream of 1.0, in its order."""
    parts = [
        part for each in stream if "artifactUpdate" in each for part in each["artifactUpdate"]["artifact"]["parts"]
    ]
    return "".join(part.get("text", "") for part in parts)


def text_in(task: dict[str, Any]) -> str:
    """The text of a task's artifacts."""
    return "".join(part.get("text", "") for made in task.get("artifacts", ()) for part in made["parts"])


def state_of(said: dict[str, Any]) -> str:
    """The state that an event, or a task, tells."""
    holder = said.get("statusUpdate") or said.get("task") or said
    return str(holder["status"]["state"]).removeprefix("TASK_STATE_")


def states(stream: list[dict[str, Any]]) -> list[str]:
    """The states that a stream tells."""
    return [state_of(each) for each in stream if "artifactUpdate" not in each]


# --- agents ----------------------------------------------------------------------------------------------------------


async def asking(request: RunRequest) -> Items:
    """An agent that asks until it is told "stop", and then says what it heard."""
    heard = [answer.payload for answer in request.resume]
    yield f"heard {json.dumps(heard)} "
    if heard != ["stop"]:
        yield Interrupted(interrupt_id="q", reason="confirmation", message="May I?", schema=SCHEMA)


async def failing(request: RunRequest) -> Items:
    """An agent that says something and fails."""
    yield "so far "
    raise RuntimeError("a secret inside")


def counting(number: int) -> Any:
    """An agent that says that many numbers as fast as it can."""

    async def agent(request: RunRequest) -> Items:
        for count in range(number):
            yield f"{count} "

    return agent


def numbers(count: int) -> str:
    """What such an agent says."""
    return "".join(f"{number} " for number in range(count))


# --- the official client ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def official(url: str, binding: str = "JSONRPC", streaming: bool = True, **headers: str) -> AsyncIterator[Client]:
    """The client of a2a-sdk, which reads the card at ``url`` first."""
    timeout = httpx.Timeout(10, read=10)
    async with httpx.AsyncClient(timeout=timeout, headers=headers) as http:
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
        client = await ClientFactory(config).create_from_url(url)
        yield client


def sending(text: str, id: str = "", **more: Any) -> SendMessageRequest:
    """A message for it."""
    said = Message(message_id=id or f"m{next(_ids)}", role=Role.ROLE_USER, parts=[Part(text=text)], **more)
    return SendMessageRequest(message=said)


class Held:
    """What a client holds that applies what it reads: the text of each artifact, and the states it was told."""

    def __init__(self) -> None:
        self.task = Task()
        self.states: list[int] = []
        self.texts: dict[str, str] = {}

    def take(self, said: StreamResponse) -> None:
        """Apply one event."""
        kind = said.WhichOneof("payload")
        if kind == "artifact_update":
            artifact = said.artifact_update.artifact
            before = self.texts.get(artifact.artifact_id, "") if said.artifact_update.append else ""
            self.texts[artifact.artifact_id] = before + "".join(part.text for part in artifact.parts)
            return
        if kind == "task":
            self.task = said.task
            self.texts = {made.artifact_id: "".join(part.text for part in made.parts) for made in said.task.artifacts}
        self.states.append(said.task.status.state if kind == "task" else said.status_update.status.state)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.texts.values())
