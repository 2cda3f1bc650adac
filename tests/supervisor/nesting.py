"""Supervisors behind supervisors: every server is ours and whole, made of a configuration file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from serving import body, served

from anabranch.app import App
from anabranch.config import parse
from anabranch.demo.model import build
from anabranch.events import Interrupted, ReasoningDelta, ToolCallFinished, ToolCallStarted, ToolReturned
from anabranch.request import RunRequest

Events = list[dict[str, Any]]

WORDS = ("one ", "🚀", "\r\n\n", "two ", "two ", " ", "e", "\u0301")
"""What an agent at the bottom says behind its name: blanks, lines, equal neighbours, a letter in two pieces."""
SCHEMA = {"type": "string"}

_LEVEL = """
model: {{name: scripted, base_url: "{model}/v1"}}
agents:
{agents}
supervisor: {{agents: [{names}], routing: {routing}, answer: {answer}}}
storage: memory://
server: {{stop_grace: 0s{server}}}
"""


class Far:
    """An agent at the bottom. It thinks, uses a tool, answers; asked for it, it waits, hangs, asks or fails."""

    def __init__(self, name: str) -> None:
        self.name, self.heard = name, list[tuple[str, str, list[Any]]]()
        self.go_on, self.begun, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def text(self) -> str:
        """Its whole answer."""
        return self.name + " " + "".join(WORDS)

    async def __call__(self, request: RunRequest) -> AsyncIterator[Any]:
        asked, answers = request.last_user_text(), [answer.payload for answer in request.resume]
        self.heard.append((request.thread_id, asked, answers))
        if "ask me" in asked and not answers:
            yield "Well. "
            yield Interrupted(interrupt_id="q", reason="confirm", message=f"{self.name}: which?", schema=SCHEMA)
        elif answers:
            yield f"{self.name} got {answers}"
        else:
            async for item in self._answer(asked):
                yield item

    async def _answer(self, asked: str) -> AsyncIterator[Any]:
        yield ReasoningDelta(reasoning_id="r", delta="hm")
        yield ToolCallStarted(call_id="c", name="look")
        yield ToolCallFinished(call_id="c")
        yield ToolReturned(call_id="c", content="seen")
        yield self.name + " "
        self.begun.set()
        if "hang" in asked:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        if "wait" in asked:
            await self.go_on.wait()
        for word in WORDS:
            yield word
        if "fail" in asked:
            raise RuntimeError("secret")


def config(model: str, agents: dict[str, str], *, routing: str = "on", answer: str = "auto", server: str = "") -> str:
    """The configuration of a supervisor of these agents, by name and address."""
    lines = "\n".join(f'  {name}: {{a2a: "{url}"}}' for name, url in agents.items())
    names = ", ".join(agents)
    return _LEVEL.format(model=model, agents=lines, names=names, routing=routing, answer=answer, server=server)


@asynccontextmanager
async def scripted() -> AsyncIterator[str]:
    """The demo's model, which asks the agents that a question names, or else all."""
    async with served(build(0)) as url:
        yield url


class Nest:
    """``url`` asks ``platform`` and ``mirror``, which are both ``inner``, and that asks the ``far`` ones."""

    def __init__(self, url: str, inner: str, far: dict[str, Far]) -> None:
        self.url, self.inner, self.far = url, inner, far


@asynccontextmanager
async def nest(inner_answer: str = "auto", outer_answer: str = "auto") -> AsyncIterator[Nest]:
    """All of it; the policies are those of the two levels."""
    far = {name: Far(name) for name in ("komodor", "argocd")}
    async with asyncio.timeout(45), AsyncExitStack() as stack:
        enter = stack.enter_async_context
        model, below = await enter(scripted()), await enter(served(App(dict(far))))
        levels = config(model, {name: f"{below}/a2a/{name}" for name in far}, answer=inner_answer)
        inner = await enter(served(App.from_config(parse(levels))))
        levels = config(model, {"platform": inner, "mirror": inner}, answer=outer_answer)
        yield Nest(await enter(served(App.from_config(parse(levels)))), inner, far)


def to(*agents: str, text: str, run: str = "r1", thread: str = "t", **more: Any) -> dict[str, Any]:
    """What asks these agents, by a pin."""
    pin = {"anabranch": {"agent": list(agents)}}
    return body(run, thread, text, forwardedProps=pin, **more)


# --- what came -------------------------------------------------------------------------------------------------------


class Told:
    """A run as an AG-UI client was told of it."""

    def __init__(self, events: Events) -> None:
        self.events, self.end = events, events[-1]
        assert [event["type"] in ("RUN_FINISHED", "RUN_ERROR") for event in events].count(True) == 1
        self.lanes = {event["subagentRunId"]: event for event in self.only("SUBAGENT_STARTED")}
        self.calls = {event["toolCallId"]: event for event in self.only("TOOL_CALL_START")}
        self.texts: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.phases: dict[str, str] = {}
        for event in self.only("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"):
            id = event["messageId"]
            self.texts[id] = self.texts.get(id, "") + event.get("delta", "")
            self.owners.setdefault(id, self.path(event.get("subagentRunId")))
            self.phases[id] = ours(event).get("phase", self.phases.get(id, ""))

    def only(self, *types: str) -> Events:
        """The events of these types."""
        return [event for event in self.events if event["type"] in types]

    def path(self, lane: str | None) -> str:
        """The names from the root to an agent: ``/platform/komodor``, ``""`` for the root."""
        if not lane:
            return ""
        said = self.lanes[lane]
        return self.path(said.get("parentSubagentRunId")) + "/" + said["name"]

    def said_by(self, path: str) -> str:
        """The text of an agent."""
        return "".join(text for id, text in self.texts.items() if self.owners[id] == path)

    def answer(self) -> tuple[str, set[str]]:
        """The answer by the promise of the end, and who said it."""
        promised = ours(self.end)["answer"]
        text = "".join(self.texts[id] for id in promised["messageIds"])
        assert len(text) == promised["length"]
        return text, {self.owners[id] for id in promised["messageIds"]}

    def routes(self) -> dict[str, str]:
        """How each supervisor routed, by its path."""
        found = [event for event in self.only("CUSTOM") if event["name"] == "anabranch.routed"]
        return {self.path(event.get("subagentRunId")): event["value"]["route"] for event in found}


def ours(event: dict[str, Any]) -> Any:
    """What our servers note on an event."""
    return (event.get("metadata") or {}).get("anabranch", {})
