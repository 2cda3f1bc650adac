"""What the tests of the bug catalogue stand on: the whole system, the ways to an answer, and all clients.

Agents and model are processes of their own. ``komodor`` has no SDK, ``argocd`` is on that of A2A 0.3 and ``jira`` on
that of 1.0. Of the server there is one for each answer policy.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from a2a.types import StreamResponse
from a2a_serving import event, message, request
from google.protobuf.json_format import ParseDict
from langgraph.checkpoint.memory import InMemorySaver
from serving import ask, body, served
from sinks.a2a.assembling import Cli, Slack, Web

from anabranch.app import App
from anabranch.config import parse
from anabranch.demo._process import started
from anabranch.sources.a2a import EXTENSION, A2ASource
from anabranch.supervisor.answers import Policy, forwarding, forwards
from anabranch.supervisor.delegate import delegate, tool_name
from anabranch.supervisor.graph import supervisor_graph
from anabranch.supervisor.source import Delegated, SupervisorSource
from tests import environments
from tests.agents.remote import TOKENS
from tests.agents.test_old import SCRIPT
from tests.supervisor.showing import Json, Shown, Task

RUNS = 3
TEXT = "".join(TOKENS)

CONFIG = """
model: {{name: scripted, base_url: "{model}/v1"}}
agents:
  komodor: {{a2a: "{komodor}", timeout: {{idle: 5s}}}}
  argocd: {{a2a: "{argocd}", timeout: {{idle: 5s}}}}
  jira: {{a2a: "{jira}"}}
supervisor: {{agents: [komodor, argocd, jira], answer: {policy}}}
storage: memory://
"""


class Way(NamedTuple):
    """How an answer comes about, and the calls of the model that it costs; ``forwards``: it is the agents' own."""

    name: str
    policy: str = "auto"
    calls: int = 0
    forwards: bool = True

    def __str__(self) -> str:
        return self.name if self.name != "supervised" else f"{self.name}, {self.policy}"

    def pin(self, agents: Sequence[str]) -> Json:
        """What a request says beside its text to go this way."""
        return {"anabranch": {"agent": "supervisor" if self.name == "supervised" else [*agents]}}

    def question(self, agents: Sequence[str], mode: str) -> str:
        """The scripted model asks those that are named in it."""
        return f"{' and '.join(agents)}, please mode={mode}"


DIRECT, PARALLEL = Way("direct"), Way("parallel")
FORWARD = Way("supervised", "forward", 2)
# The scripted model's plan has more than one step, so under `auto` it answers itself.
SYNTHESIZE, AUTO = (Way("supervised", policy, 3, forwards=False) for policy in ("synthesize", "auto"))
ALL = (DIRECT, PARALLEL, FORWARD, SYNTHESIZE, AUTO)
"""Only the parallel one needs two agents."""
WAYS = ALL[:-1]
"""Those that differ in what happens here."""
ONE_EACH = (DIRECT, PARALLEL, SYNTHESIZE)


def agents_of(way: Way) -> tuple[str, ...]:
    """Whom a test asks on this way."""
    return ("komodor", "argocd") if way.name == "parallel" else ("komodor",)


class System:
    """The servers by their policy, and the agents and the model behind them."""

    def __init__(self, http: aiohttp.ClientSession, model: str, agents: dict[str, str]) -> None:
        self.http, self.model, self.agents = http, model, agents
        self.urls: dict[str, str] = {}
        self.last: Shown
        """The last run over AG-UI."""
        self._runs = itertools.count(1)

    async def get(self, url: str) -> Any:
        async with self.http.get(url) as response:
            return await response.json()

    async def sent(self, agent: str) -> Any:
        """What was asked of an agent so far."""
        return await self.get(f"{self.agents[agent]}/sent")

    async def counts(self) -> dict[str, int]:
        """How often each agent was asked and told to cancel, and how often the model was called."""
        told = {name: await self.sent(name) for name in ("komodor", "argocd")}
        found = {f"{name} {what}": _count(told[name][what]) for name in told for what in ("requests", "cancels")}
        return found | {"model": (await self.get(f"{self.model}/calls"))["count"]}

    @asynccontextmanager
    async def counting(self, way: Way, times: int = 1, calls: int | None = None) -> AsyncIterator[None]:
        """Inside are so many runs. Each agent is asked once by each, and the model as the way says, or ``calls``.

        No agent is told to cancel.
        """
        before = await self.counts()
        yield
        after = await self.counts()
        asked = {f"{agent} requests": times for agent in agents_of(way)}
        asked |= {"model": times * (way.calls if calls is None else calls)}
        grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        assert grown == {name: count for name, count in asked.items() if count}

    def body(self, way: Way, text: str | None, agents: Sequence[str], thread: str = "", **more: Any) -> Json:
        """A RunAgentInput of its own; without a text, of an answer."""
        run = f"r{next(self._runs)}"
        said = [] if text is None else [{"id": f"{run}-m", "role": "user", "content": text}]
        return body(run, thread or f"t-{run}", messages=said, forwardedProps=way.pin(agents)) | more

    async def runs(self, way: Way, mode: str, agents: Sequence[str] = ()) -> Shown:
        """One run over AG-UI, to its end."""
        agents = agents or agents_of(way)
        return await self.shown(way, self.body(way, way.question(agents, mode), agents))

    async def shown(self, way: Way, asked: Json) -> Shown:
        async with asyncio.timeout(20):
            self.last = Shown((await ask(self.urls[way.policy], "POST", "/agui", asked)).events)
        return self.last

    async def streams(self, way: Way, mode: str, profile: str = "standard") -> list[Json]:
        """One run over A2A, to its end."""
        text = way.question(agents_of(way), mode)
        said = request("SendStreamingMessage", {"message": message(text, metadata=way.pin(agents_of(way)))})
        async with asyncio.timeout(20):
            answer = await ask(self.urls[way.policy], "POST", f"/?profile={profile}", said, a2a_version="1.0")
        frames = [frame for frame in answer.body.split(b"\n\n") if frame and not frame.startswith(b":")]
        return [event(frame) for frame in frames]

    async def everywhere(self, way: Way, mode: str) -> dict[str, tuple[str, str]]:
        """What each client has after a run of its own: the answer, and how it ended. These are ``RUNS`` runs."""
        shown, task = await self.runs(way, mode), Task(await self.streams(way, mode))
        ends = {"success": "COMPLETED", "interrupt": "INPUT_REQUIRED", "cancelled": "CANCELED"}
        found = {"AG-UI": (shown.answer, ends.get(shown.ended, "FAILED")), "A2A": (task.answer, task.state)}
        return found | {
            type(client).__name__: (client.answer, client.states[-1]) for client in await self.assembled(way, mode)
        }

    async def assembled(self, way: Way, mode: str) -> list[Web | Slack | Cli]:
        """What the clients of the Platform Engineer have of one run."""
        clients = [Web(), Slack(), Cli()]
        for said in await self.streams(way, mode, "caipe"):
            response = ParseDict({key: value for key, value in said.items() if key != "cursor"}, StreamResponse())
            for client in clients:
                client.take(response)
        return clients


def _count(told: Any) -> int:
    return len(told) if isinstance(told, list) else int(told)


def summed_up(*texts: str) -> str:
    """What the scripted model answers when its agents said ``texts``: it counts their characters."""
    names = ("komodor", "argocd")
    said = [
        f"{name} answered with {len(text)} characters, shown above as it wrote them."
        for name, text in zip(names, texts, strict=False)
    ]
    tail = "Nothing was shortened or rewritten on the way: this scripted model only counts what the agents gave it. ✅"
    return " ".join(["Here is what came back.", *said, tail])


def expected(way: Way, text: str = TEXT) -> str:
    """The answer when each agent says ``text``."""
    texts = [text] * len(agents_of(way))
    return "".join(texts) if way.forwards else summed_up(*texts)


@asynccontextmanager
async def running() -> AsyncIterator[System]:
    """All of it."""
    old = environments.python("a2a-0.3")
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        made = [
            started("tests.agents.model"),
            started("tests.agents.remote", "--name", "komodor", "--rate", "0"),
            environments.started(old, SCRIPT, "--rate", "0"),
            started("tests.agents.asking"),
        ]
        model, *agents = await asyncio.gather(*(stack.enter_async_context(process) for process in made))
        system = System(http, model, dict(zip(("komodor", "argocd", "jira"), agents, strict=True)))
        for policy in ("auto", "forward", "synthesize"):
            config = parse(CONFIG.format(model=model, policy=policy, **system.agents))
            system.urls[policy] = await stack.enter_async_context(served(App.from_config(config)))
        yield system


@asynccontextmanager
async def scripted(chat: Any, agents: Mapping[str, str], policy: Policy = "synthesize") -> AsyncIterator[str]:
    """A server whose supervisor is this model, with the agents at these addresses."""
    names = [tool_name(name) for name in agents]
    sources = {name: A2ASource(url, name=name, extensions=(EXTENSION,), idle_s=5) for name, url in agents.items()}

    def answers(state: Any) -> bool:
        return forwards(policy, state, names)

    async def graph() -> Any:
        tools = [delegate(name, source, answers=answers) for name, source in sources.items()]
        return supervisor_graph(chat, tools, middleware=[forwarding(policy, names)], checkpointer=InMemorySaver())

    supervisor = SupervisorSource([Delegated(name=name, source=source) for name, source in sources.items()], graph)
    try:
        async with served(App({"supervisor": supervisor})) as url:
            yield url
    finally:
        for source in sources.values():
            await source.aclose()


def frames(data: bytes) -> list[Json]:
    """The events of AG-UI in a piece of a stream."""
    return [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
