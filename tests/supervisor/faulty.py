"""A remote agent that fails in one way at one stage, a healthy one beside it, and the server that has both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from serving import ask, body, served

from anabranch.app import App
from anabranch.config import parse
from anabranch.demo.model import build
from tests.sources.a2a._cases import DONE, TASK, WORKING, says, status, tokens
from tests.sources.a2a._raw import Json, Request, card, raw

WAIT_S = 30
TOKEN = "s3cret-t0ken-of-komodor"
HALF, REST = ("Nodes: ", "4"), ("2. ", "Fin.")
SIBLING = ("Apps", " are", " in", " sync.")
RESULTS = [TASK, WORKING, *tokens(*HALF, *REST), DONE]
STAGES = {"begun": 0, "task": 1, "text": 4, "end": 6}
"""How much of the answer has come when the agent fails, for those stages that are inside of it."""
ASKS = status("INPUT_REQUIRED", says("Which cluster?"))
DRIP_S = 0.05

CONFIG = """
model: {name: scripted, base_url: "%(model)s/v1"}
agents:
  komodor:
    a2a: "%(komodor)s"
    timeout: {connect: 1500ms, first_byte: %(wait)s, idle: %(wait)s%(more)s}
    auth: {bearer_env: KOMODOR_TOKEN}
  argocd: {a2a: "%(argocd)s"}
supervisor: {agents: [komodor, argocd]}
storage: "memory://"
"""
WAYS: dict[str, Any] = {"direct": "komodor", "parallel": ["komodor", "argocd"], "supervised": "supervisor"}
"""How the three of them are pinned."""


class Faulty:
    """An agent that does ``fault`` at ``stage``: ``card``, ``first`` (in place of an answer), or one of ``STAGES``.

    ``cancel`` and ``look`` are what it does when it is told to cancel or asked what a task is. ``asking``: a message
    without a task is answered with a question.
    """

    def __init__(self, stage: str = "", fault: str = "") -> None:
        self.stage, self.fault = stage, fault
        self.cancel = self.look = ""
        self.asking = False
        self.card: Json | bytes = card()
        self.sent: list[Json] = []
        self.reached = 0  # how many answers have come to their stage
        self.calls: list[str] = []

    async def __call__(self, request: Request) -> None:
        if request.method == "GET":
            return await (fails(request, self.fault) if self.stage == "card" else request.answer(self.card))
        method = request.call["method"]
        self.calls.append(method)
        if method in ("CancelTask", "GetTask"):
            unknown = {"jsonrpc": "2.0", "id": "1", "error": {"code": -32001, "message": "no such task"}}
            fault = self.cancel if method == "CancelTask" else self.look
            return await (fails(request, fault) if fault else request.answer(unknown))
        self.sent.append(request.call["params"]["message"])
        await self._answers(request, asks=self.asking and "taskId" not in self.sent[-1])

    async def _answers(self, request: Request, *, asks: bool) -> None:
        if asks:
            return await streams(request, [TASK, ASKS])
        if self.stage == "first":
            return await fails(request, self.fault)
        if self.stage not in STAGES:
            return await streams(request, RESULTS)
        await streams(request, RESULTS[: STAGES[self.stage]], ends=False)
        self.reached += 1
        await breaks(request, self.fault)

    def heals(self) -> None:
        """From now on it answers."""
        self.stage = self.cancel = self.look = ""
        self.asking = False
        self.card = card()


async def streams(request: Request, items: list[bytes], *, ends: bool = True) -> None:
    """These results as a stream."""
    await request.begin()
    for item in items:
        await request.event(item)
    if ends:
        await request.end()


async def fails(request: Request, fault: str) -> None:
    """In place of an answer. A number is an HTTP status."""
    if fault.isdigit():
        secret = f"{request.headers.get('authorization')} at {request.path} is not welcome".encode()
        return await request.answer(secret, status=int(fault), kind="text/plain", location=request.path)
    if fault == "rpc_error":
        told = f"the token {TOKEN} has expired"
        return await request.answer({"jsonrpc": "2.0", "id": "1", "error": {"code": -32603, "message": told}})
    if fault == "html":
        return await request.answer(b"<html>Please log in</html>", kind="text/html")
    if fault == "drip":
        await request.send(b"HTTP/1.1 200 OK\r\nx-slow: ")
        return await drips(request, b"a")
    if fault == "drip_body":
        await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n")
        return await drips(request, b" ")
    if fault == "garbage":
        return await request.send(b"\x00\xff\x16\x03 220 smtp ready\r\n\r\n")
    await breaks(request, fault)


async def breaks(request: Request, fault: str) -> None:
    """Inside a stream."""
    if fault == "hang":
        await request.gone.wait()
    elif fault == "drip":
        await drips(request, b"1\r\na\r\n")
    elif fault == "garbage":
        await request.event(b'{"jsonrpc": "2.0", "resu')
        await request.gone.wait()
    elif fault == "framing":
        await request.send(b"\x00\xff not a chunk\r\n")
        await request.gone.wait()
    elif fault == "end":
        await request.end()
    elif fault == "close":
        request.writer.close()
    else:
        assert fault == "reset"
        request.reset()


async def drips(request: Request, piece: bytes) -> None:
    """Some bytes now and then that never make a whole."""
    while not request.gone.is_set():
        await request.send(piece)
        await asyncio.sleep(DRIP_S)  # noqa: TID251  the pace is the subject


class System:
    """The server, its two agents, and a client. ``wire`` is all that the client was sent."""

    def __init__(self, url: str, faulty: Faulty) -> None:
        self.url, self.faulty = url, faulty
        self.wire = b""
        self.runs: list[str] = []
        self.faulty_url = ""

    async def turn(self, thread: str, text: str | None, way: str = "", *, answers: Any = ()) -> list[Json]:
        """One turn of a thread, to its end: a message, or answers to questions."""
        sent = self.input(thread, text, way)
        resume = [{"interruptId": id, "status": "resolved", "payload": payload} for id, payload in answers]
        answer = await ask(self.url, "POST", "/agui", sent | ({"resume": resume} if resume else {}))
        self.wire += answer.body
        events = answer.events
        assert sum(event["type"] in ENDS for event in events) == 1 and events[-1]["type"] in ENDS
        return events

    def input(self, thread: str, text: str | None, way: str = "") -> Json:
        """What is sent for such a turn."""
        run = f"r{len(self.runs) + 1}"
        self.runs.append(run)
        sent = body(run, thread, text or "", forwardedProps={"anabranch": {"agent": WAYS[way]}} if way else {})
        sent["messages"] = [] if text is None else [{"id": f"{run}-m", "role": "user", "content": text}]
        return sent


ENDS = ("RUN_FINISHED", "RUN_ERROR")


@asynccontextmanager
async def modelled() -> AsyncIterator[str]:
    """The scripted model. It closes its connections after each answer: nobody closes those of LangChain's clients."""
    scripted = build(0, plans=False)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def closing(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = message | {"headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await scripted(scope, receive, closing)

    async with served(app) as url:
        yield url


@asynccontextmanager
async def system(
    faulty: Faulty, *, url: str = "", wait: str = "400ms", more: str = "", model: str = ""
) -> AsyncIterator[System]:
    """All of it. ``url``: komodor is there, and not where ``faulty`` is."""

    async def sibling(request: Request) -> None:
        await streams(request, [TASK, *tokens(*SIBLING), DONE])

    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        await enter(asyncio.timeout(WAIT_S))
        model = model or await enter(modelled())
        komodor, argocd = await enter(raw(faulty, None)), await enter(raw(sibling, card()))
        given = {"model": model, "komodor": url or komodor.url, "argocd": argocd.url, "wait": wait, "more": more}
        app = App.from_config(parse(CONFIG % given))
        them = System(await enter(served(app)), faulty)
        them.faulty_url = komodor.url
        yield them
