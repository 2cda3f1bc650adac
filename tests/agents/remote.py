"""A raw A2A agent (JSON-RPC, no SDK) that does what the SDK would not, by the word ``mode=...`` in the message.

Every answer is a list of steps decided by :func:`steps`: stream results, and acts like KILL. ``GET /sent`` tells what
was asked of this process: ``requests`` (messages sent to it), ``messages``, ``cancels`` (task ids) and the exact
``text`` of the last answer.

It speaks 1.0, or 0.3 (``--speaks``); its card may name another address (``--address``) and say that it does not stream
(``--whole``), and then it answers with the whole task at its end.

    python -m tests.agents.remote --port 0 [--name remote] [--mode ok] [--rate 200]
"""

import argparse
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
from tests.agents.legacy import METHODS, older
from tests.agents.wire import frame, pause, torn

Json = dict[str, Any]
TOKENS = ["## Höhe", " 🚀", "\r", "\n\n", "ha ", "ha ", " ", "𝔸lpha", "\n", "👩‍", "🚀", " fin."]
HUGE = "é" * (1 << 20)

HTTP_MODES = ("http_500", "rpc_error", "html")
FRAMINGS = ("crlf", "multi_data_lines", "comments", "split")
NO_TEXT = ("killed_before", "rejected", "empty", "data_part", "input_required", "error_completed")
HALF = ("killed_mid", "failed", "canceled", "rpc_error_mid", "hang", "cancel_ignored")
WHOLE = (
    *("ok", "killed_end", "no_terminal", "message_only", "status_text", "cumulative", "append_first", "final_recap"),
    *("slow_start", "echo_user", "last_early", "pause_between", "new_ids", "terminal_twice", "heartbeat", "caipe"),
    *("status_then_artifact",),
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
    DEAF = "silence, also when the task is cancelled"
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

    def artifact(
        self, part: Json, append: bool = False, last: bool = False, id: str = "answer", name: str = ""
    ) -> Json:
        """An artifact update; false flags are absent, as protobuf writes them."""
        flags = {key: True for key, on in (("append", append), ("lastChunk", last)) if on}
        named = {"artifactId": id, "parts": [part]} | ({"name": name} if name else {})
        return {"artifactUpdate": {**self.ids, "artifact": named, **flags}}

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
    yield from {"caipe": caipe, "pause_between": pause_between}.get(mode, tokens)(mode, ask, text)
    if mode == "data_part":
        yield ask.artifact({"data": {"clusters": [{"name": "prod-eu-1", "nodes": 42}]}}, last=True)
    if mode == "error_completed":
        yield ask.artifact({"text": "no access to the cluster"}, last=True, name="error_result")
    if mode == "status_then_artifact":
        yield ask.artifact({"text": "".join(text)}, last=True)
    acts = {"killed_mid": Act.KILL, "killed_end": Act.KILL, "hang": Act.HANG, "rpc_error_mid": Act.ERROR}
    acts["cancel_ignored"] = Act.DEAF
    if mode in acts:
        yield acts[mode]
    elif (end := ENDS.get(mode, ("COMPLETED", None))) is not None:
        yield ask.status(*end)
    if mode == "terminal_twice":
        yield ask.status("FAILED", "the connection to the cluster was closed")


def tokens(mode: str, ask: Ask, text: list[str]) -> Iterator[Json | Act]:
    """The text, token by token."""
    for n, token in enumerate(text):
        if mode == "heartbeat":
            yield ask.status("WORKING")
            yield ask.status("WORKING", "still working…", n + 1)
        if mode in ("status_text", "status_then_artifact"):
            yield ask.status("WORKING", token, n + 1)
        elif mode == "cumulative":
            yield ask.artifact({"text": "".join(text[: n + 1])})
        else:
            last = n == 0 if mode == "last_early" else n == len(text) - 1 and mode not in HALF
            id = f"answer-{n}" if mode == "new_ids" else "answer"
            yield ask.artifact({"text": token}, mode == "append_first" or (n > 0 and id == "answer"), last, id)


def caipe(mode: str, ask: Ask, text: list[str]) -> Iterator[Json | Act]:
    """What a sub-agent of the platform engineer sends around its text."""
    yield ask.artifact({"text": "🔧 Calling list"}, id="n1", name="tool_notification_start")
    for n, token in enumerate(text):
        yield ask.artifact({"text": token}, n > 0, id="s", name="streaming_result")
    yield ask.artifact({"text": "✅ list"}, id="n2", name="tool_notification_end")
    yield ask.artifact({"text": ""}, True, True, "s", "streaming_result")
    yield ask.artifact({"text": "".join(text)}, last=True, id="r", name="complete_result")


def pause_between(mode: str, ask: Ask, text: list[str]) -> Iterator[Json | Act]:
    """Two artifacts, and nothing for a while between them."""
    half = len(text) // 2
    for n, token in enumerate(text):
        id = "a" if n < half else "b"
        yield ask.artifact({"text": token}, n not in (0, half), n in (half - 1, len(text) - 1), id)
        if n == half - 1:
            yield Act.PAUSE


def whole(mode: str, ask: Ask) -> Json:
    """The task at its end, as clients fold it."""
    artifacts: dict[str, Json] = {}
    status: Json = {}
    for step in steps(mode, ask):
        if isinstance(step, Act):
            continue
        if "message" in step:
            return step
        if "artifactUpdate" in step:
            update = step["artifactUpdate"]
            one = update["artifact"]
            kept = artifacts.get(one["artifactId"], {"parts": []}) if update.get("append") else {"parts": []}
            artifacts[one["artifactId"]] = kept | one | {"parts": [*kept["parts"], *one["parts"]]}
        elif not str(status.get("state")).endswith("COMPLETED"):
            status = step.get("statusUpdate", step.get("task"))["status"]
    return {"task": ask.task()["task"] | {"status": status, "artifacts": list(artifacts.values())}}


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

    def __init__(self, mode: str, rate: float, speaks: str = "1.0") -> None:
        self.speaks = speaks
        self.asks: list[Ask] = []
        self.cancels: list[str] = []
        self.text = ""
        self._mode = mode
        self._gap_s = 1 / rate if rate else 0.0

    async def rpc(self, request: Request) -> Response:
        """Dispatch by method name."""
        body = await request.json()
        if request.headers.get("a2a-version") not in (["1.0"] if self.speaks == "1.0" else [None, "0.3"]):
            return _error(body.get("id"), -32009, f"this agent needs the header A2A-Version: {self.speaks}")
        method = body["method"] if self.speaks == "1.0" else METHODS.get(body["method"])
        if method == "CancelTask":
            return self._cancel(body)
        if method not in ("SendStreamingMessage", "SendMessage"):
            return _error(body["id"], -32601, f"method {body['method']!r} not found")
        return self._send(body, method)

    def _cancel(self, body: Json) -> Response:
        task_id = body["params"]["id"]
        self.cancels.append(task_id)
        ask = next((ask for ask in self.asks if ask.ids["taskId"] == task_id), None)
        if ask is None:
            return _error(body["id"], -32001, f"task {task_id!r} not found")
        ask.canceled.set()
        status = {"state": "TASK_STATE_CANCELED"}
        task = {**ask.task()["task"], "status": status}
        return JSONResponse(_rpc(body["id"], result=task if self.speaks == "1.0" else older({"task": task})))

    def _said(self, request_id: Any, result: Json) -> Json:
        return _rpc(request_id, result=result if self.speaks == "1.0" else older(result))

    def _send(self, body: Json, method: str) -> Response:
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
        if method == "SendMessage":
            return JSONResponse(self._said(body["id"], whole(mode, ask)))
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
            elif step is Act.DEAF:
                await asyncio.Event().wait()
            elif step is Act.ERROR:
                error = {"code": -32603, "message": "the agent broke down"}
                yield b"event: error\n" + frame(_rpc(request_id, error=error))
            else:
                for data in framed(mode, self._said(request_id, step)):
                    yield data
                    await pause(0.002 if mode == "split" else 0)
                await pause(self._gap_s)
        if ask.canceled.is_set():
            yield frame(self._said(request_id, ask.status("CANCELED")))


def card(name: str, url: str, speaks: str = "1.0", streaming: bool = True) -> Json:
    """The agent card, as JSON. ``url`` is where it says that it takes messages."""
    interfaces: Json = {
        "1.0": {"supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]},
        "0.3": {"url": url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"},
        "0.2": {"url": url},
    }
    return {
        "name": name,
        "description": f"The test agent {name}.",
        "version": "1",
        **interfaces[speaks],
        "capabilities": {"streaming": streaming},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "test", "name": "test", "description": "Misbehaves on request.", "tags": ["test"]}],
    }


def build(options: argparse.Namespace, url: str) -> Starlette:
    """The agent as an ASGI app."""
    agent = Agent(options.mode, options.rate, options.speaks)

    async def agent_card(_request: Request) -> Response:
        address = f"{url}/" if options.address is None else options.address
        return JSONResponse(card(options.name, address, options.speaks, not options.whole))

    async def sent(_request: Request) -> Response:
        messages = [ask.message for ask in agent.asks]
        facts = {"requests": len(messages), "messages": messages, "cancels": agent.cancels, "text": agent.text}
        return JSONResponse(facts)

    return Starlette(
        routes=[
            Route("/", agent.rpc, methods=["POST"]),
            Route(f"/.well-known/{'agent' if options.speaks == '0.2' else 'agent-card'}.json", agent_card),
            Route("/sent", sent),
        ]
    )


def main() -> None:
    """Parse the command line and serve."""
    parser = command_line("A raw A2A agent that misbehaves on request.")
    parser.add_argument("--name", default="remote", help="the name on its card")
    parser.add_argument("--mode", default="ok", choices=MODES, help="when the message names none")
    parser.add_argument("--rate", type=float, default=200.0, help="steps a second (default 200, 0 for no pace)")
    parser.add_argument("--speaks", default="1.0", choices=["0.2", "0.3", "1.0"], help="the version of A2A")
    parser.add_argument("--address", help="where its card says it is (default: where it is)")
    parser.add_argument("--whole", action="store_true", help="its card says that it does not stream")
    options = parser.parse_args()
    serve(lambda url: build(options, url), options)


if __name__ == "__main__":
    main()
