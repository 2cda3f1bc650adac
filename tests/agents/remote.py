"""A raw A2A 1.0 agent (JSON-RPC, no SDK) that does what the SDK would not, by the word ``mode=...`` in the message.

Every answer is a list of steps decided by :func:`steps`: stream results, and acts like KILL. ``GET /sent`` tells what
was asked of this process: ``requests`` (messages sent to it), ``messages``, ``cancels`` (task ids) and the exact
``text`` of the last answer.

    python -m tests.agents.remote --port 0 [--name remote] [--mode ok] [--rate 200]
"""

import asyncio
import enum
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from anabranch.demo._process import command_line, serve
from tests.agents.wire import frame, pause, torn

Json = dict[str, Any]
TOKENS = ["## Höhe", " 🚀", "\r", "\n\n", "ha ", "ha ", " ", "𝔸lpha", "\n", "👩‍", "🚀", " fin."]
HUGE = "é" * (1 << 20)

HTTP_MODES = ("http_500", "rpc_error", "html")
FRAMINGS = ("crlf", "multi_data_lines", "comments", "split")
NO_TEXT = ("killed_before", "rejected", "empty", "data_part", "input_required")
HALF = ("killed_mid", "failed", "canceled", "rpc_error_mid", "hang")
WHOLE = (
    *("ok", "killed_end", "no_terminal", "message_only", "status_text", "cumulative", "append_first", "final_recap"),
    *("slow_start", "echo_user"),
)
MODES = (*HTTP_MODES, *FRAMINGS, *NO_TEXT, *HALF, *WHOLE, "huge")

ENDS: dict[str, tuple[str, str | None] | None] = {
    "no_terminal": None,
    "failed": ("FAILED", "the cluster does not answer"),
    "rejected": ("REJECTED", "not my business"),
    "canceled": ("CANCELED", None),
    "input_required": ("INPUT_REQUIRED", "Which cluster?"),
    "final_recap": ("COMPLETED", "".join(TOKENS)),
}


class Act(enum.Enum):
    """What a step can do instead of sending a result."""

    KILL = "SIGKILL to this process"
    PAUSE = "half a second of silence"
    HANG = "silence until the task is cancelled"
    ERROR = "a JSON-RPC error in the stream"


def pieces(mode: str) -> list[str]:
    """The text of the answer in `mode`, token by token, as far as it gets."""
    if mode == "huge":
        return [HUGE]
    return [] if mode in NO_TEXT else TOKENS[: len(TOKENS) // 2] if mode in HALF else TOKENS


class Ask:
    """One message sent to the agent, and the task that answers it."""

    def __init__(self, number: int, message: Json) -> None:
        self.message = message
        self.ids = {"taskId": f"task-{number}", "contextId": message.get("contextId") or f"context-{number}"}
        self.canceled = asyncio.Event()

    def words(self, text: str, n: int = 0) -> Json:
        """A message of the agent."""
        return {"messageId": f"{self.ids['taskId']}-{n}", "role": "ROLE_AGENT", "parts": [{"text": text}], **self.ids}

    def status(self, state: str, text: str | None = None, n: int = 0) -> Json:
        """A status update, with a message when there is a `text`."""
        message = {} if text is None else {"message": self.words(text, n)}
        return {"statusUpdate": {**self.ids, "status": {"state": f"TASK_STATE_{state}", **message}}}

    def artifact(self, part: Json, append: bool = False, last: bool = False) -> Json:
        """An artifact update; false flags are absent, as protobuf writes them."""
        flags = {key: True for key, on in (("append", append), ("lastChunk", last)) if on}
        return {"artifactUpdate": {**self.ids, "artifact": {"artifactId": "answer", "parts": [part]}, **flags}}

    def task(self, *history: Json) -> Json:
        """The task as it is first announced."""
        task = {"id": self.ids["taskId"], "contextId": self.ids["contextId"]}
        return {"task": {**task, "status": {"state": "TASK_STATE_SUBMITTED"}, "history": list(history)}}


def steps(mode: str, ask: Ask) -> Iterator[Json | Act]:
    """Everything the agent does in `mode`, in order."""
    text = pieces(mode)
    if mode == "message_only":
        yield {"message": ask.words("".join(text))}
        return
    yield ask.task(ask.message, ask.words("I am on it.")) if mode == "echo_user" else ask.task()
    yield ask.status("WORKING")
    yield from {"slow_start": [Act.PAUSE], "killed_before": [Act.KILL]}.get(mode, [])
    for n, token in enumerate(text):
        if mode == "status_text":
            yield ask.status("WORKING", token, n + 1)
        elif mode == "cumulative":
            yield ask.artifact({"text": "".join(text[: n + 1])})
        else:
            yield ask.artifact({"text": token}, n > 0 or mode == "append_first", token is text[-1] and mode not in HALF)
    if mode == "data_part":
        yield ask.artifact({"data": {"clusters": [{"name": "prod-eu-1", "nodes": 42}]}}, last=True)
    acts = {"killed_mid": Act.KILL, "killed_end": Act.KILL, "hang": Act.HANG, "rpc_error_mid": Act.ERROR}
    if mode in acts:
        yield acts[mode]
    elif (end := ENDS.get(mode, ("COMPLETED", None))) is not None:
        yield ask.status(*end)


def framed(mode: str, value: Json) -> list[bytes]:
    """The writes that carry one JSON-RPC response as an SSE event."""
    data = frame(value, "\r\n" if mode == "crlf" else "\n", 1 if mode == "multi_data_lines" else None)
    return torn(data) if mode == "split" else [b": ping\n\n", data] if mode == "comments" else [data]


def _rpc(request_id: Any, **outcome: Any) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, **outcome}


def _error(request_id: Any, code: int, message: str) -> Response:
    return JSONResponse(_rpc(request_id, error={"code": code, "message": message}))


class Agent:
    """The agent of one process: its counters and its JSON-RPC methods."""

    def __init__(self, mode: str, rate: float) -> None:
        self.asks: list[Ask] = []
        self.cancels: list[str] = []
        self.text = ""
        self._mode = mode
        self._gap_s = 1 / rate if rate else 0.0

    async def rpc(self, request: Request) -> Response:
        """Dispatch by method name."""
        body = await request.json()
        if request.headers.get("a2a-version") != "1.0":
            return _error(body.get("id"), -32009, "this agent needs the header A2A-Version: 1.0")
        if body["method"] == "CancelTask":
            return self._cancel(body)
        if body["method"] != "SendStreamingMessage":
            return _error(body["id"], -32601, f"method {body['method']!r} not found")
        return self._send(body)

    def _cancel(self, body: Json) -> Response:
        task_id = body["params"]["id"]
        self.cancels.append(task_id)
        ask = next((ask for ask in self.asks if ask.ids["taskId"] == task_id), None)
        if ask is None:
            return _error(body["id"], -32001, f"task {task_id!r} not found")
        ask.canceled.set()
        status = {"state": "TASK_STATE_CANCELED"}
        return JSONResponse(_rpc(body["id"], result={**ask.task()["task"], "status": status}))

    def _send(self, body: Json) -> Response:
        message = body["params"]["message"]
        said = "".join(part.get("text", "") for part in message["parts"])
        named = re.search(r"mode=(\w+)", said)
        mode = named[1] if named else self._mode
        ask = Ask(len(self.asks) + 1, message)
        self.asks.append(ask)
        if mode not in MODES:
            return _error(body["id"], -32602, f"mode={mode} does not exist; known: {', '.join(MODES)}")
        if mode == "http_500":
            return PlainTextResponse("out of order", status_code=500)
        if mode == "rpc_error":
            return _error(body["id"], -32603, "the agent refuses")
        if mode == "html":
            return HTMLResponse("<html><body>Please log in</body></html>")
        self.text = "".join(pieces(mode))
        return StreamingResponse(self._stream(mode, ask, body["id"]), media_type="text/event-stream")

    async def _stream(self, mode: str, ask: Ask, request_id: Any) -> AsyncIterator[bytes]:
        for step in steps(mode, ask):
            if ask.canceled.is_set():
                break
            if step is Act.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            elif step is Act.PAUSE:
                await pause(0.5)
            elif step is Act.HANG:
                await ask.canceled.wait()
            elif step is Act.ERROR:
                error = {"code": -32603, "message": "the agent broke down"}
                yield b"event: error\n" + frame(_rpc(request_id, error=error))
            else:
                for data in framed(mode, _rpc(request_id, result=step)):
                    yield data
                    await pause(0.002 if mode == "split" else 0)
                await pause(self._gap_s)
        if ask.canceled.is_set():
            yield frame(_rpc(request_id, result=ask.status("CANCELED")))


def card(name: str, url: str) -> Json:
    """The agent card, as JSON."""
    return {
        "name": name,
        "description": f"The test agent {name}.",
        "version": "1",
        "supportedInterfaces": [{"url": f"{url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "test", "name": "test", "description": "Misbehaves on request.", "tags": ["test"]}],
    }


def build(name: str, mode: str, rate: float, url: str) -> Starlette:
    """The agent as an ASGI app."""
    agent = Agent(mode, rate)

    async def agent_card(_request: Request) -> Response:
        return JSONResponse(card(name, url))

    async def sent(_request: Request) -> Response:
        messages = [ask.message for ask in agent.asks]
        facts = {"requests": len(messages), "messages": messages, "cancels": agent.cancels, "text": agent.text}
        return JSONResponse(facts)

    return Starlette(
        routes=[
            Route("/", agent.rpc, methods=["POST"]),
            Route("/.well-known/agent-card.json", agent_card),
            Route("/sent", sent),
        ]
    )


def main() -> None:
    """Parse the command line and serve."""
    parser = command_line("A raw A2A agent that misbehaves on request.")
    parser.add_argument("--name", default="remote", help="the name on its card")
    parser.add_argument("--mode", default="ok", choices=MODES, help="when the message names none")
    parser.add_argument("--rate", type=float, default=200.0, help="steps a second (default 200, 0 for no pace)")
    options = parser.parse_args()
    serve(lambda url: build(options.name, options.mode, options.rate, url), options)


if __name__ == "__main__":
    main()
