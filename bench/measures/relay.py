"""How late a remote agent's token is when it comes through the supervisor's tool, beside reading that agent itself.

Two agents on the A2A SDK speak at once, 50 tokens a second each. ``lag`` begins right before a token is given to the
SDK, ``delay`` when it was due; both end when it was read. The two ways are read by the same code, one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import aiohttp

from anabranch.demo.client import ask
from anabranch.transports.sse import Parser

from ..bare import asked, said
from ..options import MEMORY, Options, Row
from ..processes import LOAD_CPU, Child, started
from ..workload import Command, Ledger, Samples, summary

CONFIG = """
model: {{name: scripted, base_url: "{model}/v1"}}
agents:
  alpha: {{a2a: "{alpha}", description: "Says numbered tokens."}}
  beta: {{a2a: "{beta}", description: "Says numbered tokens, too."}}
supervisor: {{agents: [alpha, beta], routing: off, answer: synthesize}}
"""
_RATE = 50.0
_ROUNDS = 2


class Heard:
    """What one way of reading gave: samples, and whether every text was what its agent sent."""

    def __init__(self) -> None:
        self.samples = Samples()
        self.exact = True

    def check(self, texts: list[str], sent: list[str], tokens: int, reads: list[list[tuple[str, int]]]) -> None:
        """Take one round: each text, the digests of what was sent, and the pieces as they were read."""
        self.exact &= sorted(hashlib.sha256(text.encode()).hexdigest() for text in texts) == sorted(sent)
        for pieces in reads:
            ledger = Ledger(self.samples)
            for text, at_ns in pieces:
                ledger.take(text, at_ns)
            ledger.close(tokens)
            self.exact &= not (ledger.lost or ledger.repeated or ledger.foreign)

    def figures(self) -> dict[str, Any]:
        """Lags, delays, and whether all was exact."""
        lags, delays = summary(self.samples.lags_ms()), summary(self.samples.delays_ms())
        return {"lag": lags, "delay": delays, "exact": self.exact, "tokens": len(self.samples)}


async def measure(options: Options) -> dict[str, Any]:
    """Lag of the supervised and of the direct way, warm."""
    return await heard(options, {"ours": MEMORY, "direct": None})


async def heard(options: Options, ways: Mapping[str, str | None]) -> dict[str, Any]:
    """Lag of each way, warm: supervised with the log in that storage, or direct (None)."""
    command = Command(options.pick(150, 40), _RATE)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(started("anabranch.demo.model", "--pace", "0", cpu=LOAD_CPU))
        agents = [await stack.enter_async_context(started("bench.sdk_agent", cpu=LOAD_CPU)) for _ in range(2)]
        config = CONFIG.format(model=model.url, alpha=agents[0].url, beta=agents[1].url)
        servers = {
            way: await stack.enter_async_context(options.server(config, storage)) if storage else None
            for way, storage in ways.items()
        }
        # A round lasts as long as servers keep an idle connection: none is used twice, so that none is lost in between.
        connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=60)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector, timeout=timeout))

        async def read(server: Child | None, command: Command) -> list[list[tuple[str, int]]]:
            return await (_supervised(server, command) if server else read_direct(http, agents, command))

        for server in servers.values():
            await read(server, Command(10, _RATE))  # warms up
        figures = {way: Heard() for way in ways}
        for _ in range(options.pick(_ROUNDS, 1)):
            for way, server in servers.items():
                pieces = await read(server, command)
                texts = ["".join(text for text, _ in lane) for lane in pieces]
                figures[way].check(texts, [await sent(http, agent) for agent in agents], command.tokens, pieces)
    return {way: each.figures() for way, each in figures.items()}


async def _supervised(server: Child, command: Command) -> list[list[tuple[str, int]]]:
    """The pieces of each lane, with when they were read."""
    lanes: dict[str, list[tuple[str, int]]] = {}
    async for at_ns, event in ask(server.url, f"alpha and beta: {command}"):
        if event["type"] == "TEXT_MESSAGE_CONTENT" and (lane := event.get("subagentRunId")):
            lanes.setdefault(lane, []).append((event["delta"], at_ns))
    return list(lanes.values())


async def read_direct(
    http: aiohttp.ClientSession, agents: Sequence[Child], command: Command
) -> list[list[tuple[str, int]]]:
    """The pieces of each agent, read without us, with when they were read."""

    async def pieces(agent: Child) -> list[tuple[str, int]]:
        return [piece async for piece in _read(http, agent.url, str(command))]

    return list(await asyncio.gather(*map(pieces, agents)))


async def _read(http: aiohttp.ClientSession, url: str, prompt: str) -> AsyncIterator[tuple[str, int]]:
    parser = Parser()
    async with http.post(f"{url}/", json=asked(prompt), headers={"A2A-Version": "1.0"}) as response:
        response.raise_for_status()
        async for chunk in response.content.iter_any():
            at_ns = time.monotonic_ns()
            for event in parser.feed(chunk):
                if text := said(event.data):
                    yield text, at_ns


async def sent(http: aiohttp.ClientSession, agent: Child) -> str:
    """The SHA-256 of what the agent said last."""
    async with http.get(f"{agent.url}/sent") as response:
        return str((await response.json())["sha256"])


ROWS = (
    Row("relay lag p50, two agents at 50/s", "ours.lag.p50_ms", "direct.lag.p50_ms", "ms", limit=2, ratio=2),
    Row("relay lag p99", "ours.lag.p99_ms", "direct.lag.p99_ms", "ms", limit=10, ratio=2),
    Row("relay lag, largest", "ours.lag.max_ms", "direct.lag.max_ms", "ms"),
)
