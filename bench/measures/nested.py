"""How late a token is behind three lanes at once, and behind two of our servers, one the agent of the other.

The agents are those of ``relay``, on the A2A SDK, 50 tokens a second each. ``parallel`` are three that a request names
and that are streamed with no model turn; ``supervised`` are three that the graph's tools ask; ``levels`` is one agent
behind a supervisor behind a supervisor, direct at both, and ``levels_supervised`` with model turns at both. Both
servers are on the CPU of the servers.

``calls`` are the model turns of one supervised question to one agent and to two, by answer policy, as the scripted
model counts them (it writes no plan here, which would be one more), and of one that goes past the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import aiohttp

from anabranch.demo.client import ask

from ..options import Options, Row
from ..processes import LOAD_CPU, Child, started
from ..workload import Command
from .relay import Heard, read_direct, sent

_RATE = 50.0
_ROUNDS = 2
_NAMES = ("alpha", "beta", "gamma")


async def measure(options: Options) -> dict[str, Any]:
    """Lag of each way, warm, and the model's turns by policy."""
    command = Command(options.pick(150, 40), _RATE)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        model = await enter(started("anabranch.demo.model", "--pace", "0", cpu=LOAD_CPU))
        agents = [await enter(started("bench.sdk_agent", cpu=LOAD_CPU)) for _ in _NAMES]
        connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=60)
        http = await enter(aiohttp.ClientSession(connector=connector, timeout=timeout))
        known = dict(zip(_NAMES, agents, strict=True))

        async def level(over: dict[str, Child], routing: str = "on", answer: str = "synthesize") -> Child:
            return await enter(options.server(_config(model, over, routing, answer)))

        free, bound = await level(known), await level(known, "off")
        outer, outer_bound = await level({"platform": free}), await level({"platform": bound}, "off")
        all_three = "alpha, beta and gamma: {}"
        ways: dict[str, tuple[Child | None, str, Sequence[Child]]] = {
            "direct": (None, "{}", agents),
            "parallel": (free, all_three, agents),
            "supervised": (bound, all_three, agents),
            "levels": (outer, "@platform alpha: {}", agents[:1]),
            "levels_supervised": (outer_bound, "platform and alpha: {}", agents[:1]),
        }
        heard = {way: Heard() for way in ways}
        for each in (Command(10, _RATE), *[command] * options.pick(_ROUNDS, 1)):  # the first one warms up
            for way, (server, text, asked) in ways.items():
                pieces = await (_lanes(server, text.format(each)) if server else read_direct(http, asked, each))
                if each is command:
                    texts = ["".join(text for text, _ in lane) for lane in pieces]
                    heard[way].check(texts, [await sent(http, agent) for agent in asked], each.tokens, pieces)
        figures: dict[str, Any] = {way: each.figures() for way, each in heard.items()}
        thrifty = await enter(started("anabranch.demo.model", "--pace", "0", "--no-plan", cpu=LOAD_CPU))

        async def turns(routing: str, answer: str) -> dict[str, int]:
            async with options.server(_config(thrifty, known, routing, answer)) as server:
                return await _calls(http, thrifty, server)

        figures["calls"] = {}
        for policy in ("forward", "auto", "synthesize"):
            figures["calls"][policy] = await turns("off", policy)
        figures["calls"]["past"] = await turns("on", "auto")
    return figures


def _config(model: Child, agents: dict[str, Child], routing: str, answer: str) -> str:
    lines = "".join(f'  {name}: {{a2a: "{agent.url}", description: "{name}"}}\n' for name, agent in agents.items())
    supervisor = f"supervisor: {{agents: [{', '.join(agents)}], routing: {routing}, answer: {answer}}}"
    return f'model: {{name: scripted, base_url: "{model.url}/v1"}}\nagents:\n{lines}{supervisor}\n'


async def _lanes(server: Child, question: str) -> list[list[tuple[str, int]]]:
    """The pieces of each lane at the bottom, with when they were read."""
    lanes: dict[str, list[tuple[str, int]]] = {}
    above: set[str] = set()
    async with asyncio.timeout(60):
        async for at_ns, event in ask(server.url, question):
            if event["type"] == "SUBAGENT_STARTED":
                above.add(event.get("parentSubagentRunId") or "")
            elif event["type"] == "TEXT_MESSAGE_CONTENT" and (lane := event.get("subagentRunId")):
                lanes.setdefault(lane, []).append((event["delta"], at_ns))
    return [pieces for lane, pieces in lanes.items() if lane not in above]


async def _calls(http: aiohttp.ClientSession, model: Child, server: Child) -> dict[str, int]:
    """Model turns of a question to one agent, and to two."""
    found = {}
    for name, question in (("one", "alpha: {}"), ("two", "alpha and beta: {}")):
        before = await _count(http, model)
        async for _ in ask(server.url, question.format(Command(3, 0))):
            pass
        found[name] = await _count(http, model) - before
    return found


async def _count(http: aiohttp.ClientSession, model: Child) -> int:
    async with http.get(f"{model.url}/calls") as response:
        return int((await response.json())["count"])


def _rows(way: str, label: str) -> tuple[Row, Row]:
    p50 = Row(f"{label}, lag p50", f"{way}.lag.p50_ms", "direct.lag.p50_ms", "ms", limit=3)
    return p50, Row(f"{label}, lag p99", f"{way}.lag.p99_ms", "direct.lag.p99_ms", "ms", limit=15)


ROWS = (
    *_rows("parallel", "three lanes at 50/s, past the model"),
    *_rows("supervised", "three lanes, asked by the supervisor"),
    *_rows("levels", "two levels, past both models"),
    *_rows("levels_supervised", "two levels, asked by both supervisors"),
    Row("a question to one agent, `forward`", "calls.forward.one", unit="model turns"),
    Row("a question to one agent, `auto`", "calls.auto.one", unit="model turns"),
    Row("a question to one agent, `synthesize`", "calls.synthesize.one", unit="model turns"),
    Row("a question to one agent, past the model", "calls.past.one", unit="model turns", limit=0),
    Row("a question to two agents, `forward`", "calls.forward.two", unit="model turns"),
    Row("a question to two agents, `auto`", "calls.auto.two", unit="model turns"),
    Row("a question to two agents, `synthesize`", "calls.synthesize.two", unit="model turns"),
    Row("a question to two agents, past the model", "calls.past.two", unit="model turns", limit=0),
)
