"""What the whole server costs a relayed token, and how many lanes one CPU carries.

A lane is one delegate of one supervised run, 50 tokens a second, from a remote agent through the supervisor's tool to
AG-UI bytes. Every run has two delegates, but for the single lane. All runs are set up before their agents speak (a
model turn costs far more than a token), so that the steady figure is the relay's own; the other has everything in it.

Beside it is a relay without supervisor, log or law: a generator that reads the agent and writes AG-UI bytes. A single
lane is dear for both: each token wakes an idle machine.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import aiohttp

from ..loadgen import Load
from ..options import Options, Row
from ..processes import LOAD_CPU, Child, started
from ..workload import Command, summary
from .relay import CONFIG

_RATE = 50.0
_KEPT_UP_MS = 100.0
_MARGIN_S = 0.5  # of tokens before and after the window


async def measure(options: Options) -> dict[str, Any]:
    """CPU a token, delay and losses at 1, 20 and 80 lanes (quick: 1, 2 and 4), ours and the barest relay's."""
    sizes = {"one": 1, "some": options.pick(20, 2), "many": options.pick(80, 4)}
    seconds = options.pick(2, 1)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(started("anabranch.demo.model", "--pace", "0", cpu=LOAD_CPU))
        agent = await stack.enter_async_context(started("bench.lean_agent", cpu=LOAD_CPU))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        figures: dict[str, Any] = {}
        for name, config in (
            ("ours", CONFIG.format(model=model.url, alpha=agent.url, beta=agent.url)),
            ("bare", "bare"),
        ):
            async with options.server(config) as server:
                run = _supervised if name == "ours" else _bare
                await _loaded(http, server, agent, run(server, agent, 2, 0.1), 0.1)  # warms up
                figures[name] = {
                    size: await _loaded(http, server, agent, run(server, agent, lanes, seconds), seconds)
                    for size, lanes in sizes.items()
                }
    return figures


def _supervised(server: Child, agent: Child, lanes: int, seconds: float) -> Load:
    each = min(lanes, 2)
    asked, runs = "alpha and beta: " if each == 2 else "alpha: ", lanes // each
    return Load(f"{server.url}/agui", _command(seconds), streams=runs, lanes=each, ramp_s=runs * 0.1, asked=asked)


def _bare(server: Child, agent: Child, lanes: int, seconds: float) -> Load:
    return Load(f"{server.url}/relay?agent={agent.url}", _command(seconds), streams=lanes)


def _command(seconds: float) -> Command:
    return Command(int((seconds + 2 * _MARGIN_S) * _RATE), _RATE)


async def _loaded(
    http: aiohttp.ClientSession, server: Child, agent: Child, load: Load, seconds: float
) -> dict[str, Any]:
    lanes = load.streams * (load.lanes or 1)
    cpu_s = [server.cpu_s()]
    reading = asyncio.create_task(load.run(within_s=60 + seconds))
    await _all_held(http, agent, lanes, load, reading)
    cpu_s.append(server.cpu_s())
    async with http.post(f"{agent.url}/go"):
        pass
    await asyncio.sleep(_MARGIN_S)
    load_s = time.process_time() + agent.cpu_s()
    began_ns, began_s = time.monotonic_ns(), server.cpu_s()
    await asyncio.sleep(seconds)
    ended_ns, ended_s = time.monotonic_ns(), server.cpu_s()
    load_s = time.process_time() + agent.cpu_s() - load_s
    await reading
    cpu_s.append(server.cpu_s())
    wall_s = (ended_ns - began_ns) / 1e9
    delays = summary(load.samples.delays_ms(began_ns, ended_ns))
    return {
        "lanes": lanes,
        "runs": load.streams,
        "token_us": (ended_s - began_s) * 1e6 / max(1, load.samples.read_in(began_ns, ended_ns)),
        "token_us_with_setup": (cpu_s[-1] - cpu_s[0]) * 1e6 / max(1, len(load.samples)),
        "setup_ms": (cpu_s[1] - cpu_s[0]) * 1e3 / load.streams,
        "server_cpu": (ended_s - began_s) / wall_s,
        "load_cpu": load_s / wall_s,
        **delays,
        "kept_up": load.exact and load.lanes_seen == lanes and delays["p99_ms"] < _KEPT_UP_MS,
        "lost": load.lost,
        "repeated": load.repeated,
        "foreign": load.foreign,
        "errors": dict(load.errors),
    }


async def _all_held(
    http: aiohttp.ClientSession, agent: Child, lanes: int, load: Load, reading: asyncio.Task[None]
) -> None:
    """Wait until every lane's agent is ready to speak."""
    async with asyncio.timeout(60):
        while not reading.done():
            async with http.get(f"{agent.url}/held") as response:
                if (await response.json())["held"] >= lanes:
                    return
            await asyncio.sleep(0.05)
    raise RuntimeError(f"runs ended before their agents spoke: {dict(load.errors)}")


ROWS = (
    Row("1 lane at 50/s, CPU a relayed token", "ours.one.token_us", "bare.one.token_us", "us"),
    Row("20 lanes, CPU a relayed token", "ours.some.token_us", "bare.some.token_us", "us", limit=250),
    Row("80 lanes, CPU a relayed token", "ours.many.token_us", "bare.many.token_us", "us", limit=250),
    Row("80 lanes, with the set-up of their runs", "ours.many.token_us_with_setup", unit="us"),
    Row("80 lanes, p99 delay", "ours.many.p99_ms", "bare.many.p99_ms", "ms", limit=100),
    Row("80 lanes on one CPU, kept up", "ours.many.kept_up", "bare.many.kept_up"),
    Row("CPU of a run's set-up (three model turns)", "ours.many.setup_ms", unit="ms"),
)
