"""The ``python`` source, from generator to bytes on a socket, beside a bare Starlette generator on the same server."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from anabranch.demo.measure import percentile

from ..loadgen import Load
from ..options import Options, Row
from ..processes import Child
from ..workload import Command, summary

CONFIG = 'agents: {tokens: {python: "bench.sources:tokens"}}'
_RATE = 50.0
_STREAMS = {"s100": (100, 5), "s300": (300, 10), "s600": (600, 15), "s1000": (1000, 20)}  # full and quick
_SUSTAINED_MS = 100.0
_MARGIN_S = 0.5


async def measure(options: Options) -> dict[str, Any]:
    """CPU a token of one unpaced stream, CPU a run of one token, and streams at 50 tokens a second."""
    figures: dict[str, Any] = {}
    for name, config in (("ours", CONFIG), ("bare", "bare")):
        async with options.server(config) as server:
            figures[name] = await unpaced(server, options)
            for size, (full, quick) in _STREAMS.items():
                figures[name][size] = await paced(server, options.pick(full, quick), options.pick(2, 1))
    return figures


async def unpaced(server: Child, options: Options) -> dict[str, Any]:
    """CPU a token of one stream, and CPU a run of one token."""
    url = f"{server.url}/agui"
    runs = options.pick(300, 20)
    await _counted(server, Load(url, Command(options.pick(5000, 200), 0)))
    cpu_s, stream = await _counted(server, Load(url, Command(options.pick(100_000, 2000), 0)))
    await _counted(server, Load(url, Command(1, 0), streams=runs, at_once=8))
    runs_s, many = await _counted(server, Load(url, Command(1, 0), streams=runs, at_once=8))
    return {
        "token_us": cpu_s * 1e6 / stream.command.tokens,
        "run_us": runs_s * 1e6 / runs,
        "exact": stream.exact and many.exact,
        "errors": dict(stream.errors + many.errors),
    }


async def _counted(server: Child, load: Load) -> tuple[float, Load]:
    before = server.cpu_s()
    await load.run(within_s=60)
    return server.cpu_s() - before, load


async def paced(server: Child, streams: int, seconds: int) -> dict[str, Any]:
    """CPU a token and delays while all streams are open, from a moment after the last one was to open, or was let in.

    Streams that are let in so late that they never are open all at once are not sustained. The reader's share of its
    CPU tells whether it, and not the server, was the limit.
    """
    ramp_s = streams / 200
    command = Command(int((ramp_s + 2 * _MARGIN_S + seconds) * _RATE), _RATE)
    load = Load(f"{server.url}/agui", command, streams=streams, ramp_s=ramp_s, end_together=True)
    reading = asyncio.create_task(load.run(within_s=60))
    await asyncio.sleep(ramp_s + _MARGIN_S)
    began_ns, cpu_s, own_s = time.monotonic_ns(), server.cpu_s(), time.process_time()
    await asyncio.sleep(seconds)
    ended_ns, cpu_s, own_s = time.monotonic_ns(), server.cpu_s() - cpu_s, time.process_time() - own_s
    await reading
    delays = load.samples.delays_ms(load.together_ns + int(_MARGIN_S * 1e9), load.apart_ns)
    shown = summary(delays or load.samples.delays_ms())
    return {
        "streams": streams,
        "tokens": len(load.samples),
        **shown,
        "together": bool(delays),
        "sustained": bool(delays) and load.exact and shown["p99_ms"] < _SUSTAINED_MS,
        "first_byte_p99_ms": percentile(load.first_ms, 0.99),
        "token_us": cpu_s * 1e6 / max(1, load.samples.read_in(began_ns, ended_ns)),
        "server_cpu": cpu_s * 1e9 / (ended_ns - began_ns),
        "reader_cpu": own_s * 1e9 / (ended_ns - began_ns),
        "lost": load.lost,
        "repeated": load.repeated,
        "errors": dict(load.errors),
    }


ROWS = (
    Row("one unpaced stream, CPU a token", "ours.token_us", "bare.token_us", "us", ratio=4),
    Row("one-token runs, CPU a run", "ours.run_us", "bare.run_us", "us", ratio=3),
    Row("100 streams at 50/s, CPU a token", "ours.s100.token_us", "bare.s100.token_us", "us", ratio=1.6),
    Row("300 streams at 50/s, p99 delay", "ours.s300.p99_ms", "bare.s300.p99_ms", "ms", limit=10, ratio=3),
    Row("300 streams at 50/s, CPU a token", "ours.s300.token_us", "bare.s300.token_us", "us"),
    Row("600 streams at 50/s, sustained", "ours.s600.sustained", "bare.s600.sustained"),
    Row("600 streams at 50/s, p99 delay", "ours.s600.p99_ms", "bare.s600.p99_ms", "ms", limit=100),
    Row("1000 streams at 50/s, p99 delay", "ours.s1000.p99_ms", "bare.s1000.p99_ms", "ms"),
    Row(
        "1000 streams in 5 s, first byte p99",
        "ours.s1000.first_byte_p99_ms",
        "bare.s1000.first_byte_p99_ms",
        "ms",
        ratio=1.5,
    ),
)
