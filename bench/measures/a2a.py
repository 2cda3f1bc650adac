"""One unpaced stream of an A2A agent, 2,000 and 20,000 tokens of a chunk each, beside the A2A SDK's own server.

The SDK's server is as its documentation has it: default request handler, tasks in memory, an executor that appends
each token to its artifact. It copies the whole task for each chunk, so that a token costs the more the longer
the answer is, and 20,000 take half a minute. Both are asked by the same reader, SendStreamingMessage over JSON-RPC,
and run on the same loop with the same settings. That the SDK's server drops tokens, if it does, is a figure, no flaw.

A client that subscribes to a task which goes on is first told all of it, so that this costs by the token, too.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

from ..bare import asked
from ..loadgen import A2aLoad, Load, posted
from ..options import Options, Row
from ..processes import Child
from ..workload import Command, Ledger, Samples

_CONFIG = 'agents: {tokens: {python: "bench.sources:tokens"}, stalled: {python: "bench.sources:stalled"}}'
_SIZES = {"k2": (2000, 200), "k20": (20_000, 600)}  # tokens, full and quick
_LONGEST_S = 120.0  # of one stream
_TASK = re.compile(rb'"task":\{"id":"([^"]+)"')
_TOKEN = re.compile(rb"k=\d+;t=\d+; ")


async def measure(options: Options) -> dict[str, Any]:
    """CPU a token by length of the stream, ours, the SDK's and the bare one's; CPU a token told to a subscriber."""
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(options.server(config))
            for name, config in (("ours", _CONFIG), ("sdk", "sdk"), ("bare", "bare"))
        }
        for name, server in servers.items():
            await _streamed(name, server, Command(200, 0), 2)  # warms up
        figures: dict[str, Any] = {name: {} for name in servers}
        for size, tokens in _SIZES.items():
            command = Command(options.pick(*tokens), 0)
            for name, server in servers.items():
                times = 1 if name == "sdk" else options.pick(100_000, 1000) // command.tokens
                figures[name][size] = await _streamed(name, server, command, times)
        for size, tokens in _SIZES.items():
            figures["ours"][size] |= await _subscribed(servers["ours"], options.pick(*tokens), options.pick(20, 2))
    return figures


async def _streamed(name: str, server: Child, command: Command, times: int) -> dict[str, Any]:
    """So many streams, one after the other."""
    load: Load
    if name == "bare":
        load = Load(f"{server.url}/agui", command, streams=times, at_once=1)
    else:
        load = A2aLoad(f"{server.url}{'/a2a/tokens' if name == 'ours' else '/'}", command, streams=times, at_once=1)
    before = server.cpu_s()
    await load.run(within_s=_LONGEST_S)
    token_us = (server.cpu_s() - before) * 1e6 / max(1, len(load.samples))
    whole = load.exact and (name == "bare" or load.pieces == command.tokens * times)
    if name == "sdk":
        return {"token_us": token_us, "whole": whole}
    return {"token_us": token_us, "exact": whole, "errors": dict(load.errors)}


async def _subscribed(server: Child, tokens: int, times: int) -> dict[str, Any]:
    """CPU a token of SubscribeToTask to a task that has said so many and goes on, up to the task as it is."""
    where = urlsplit(f"{server.url}/a2a/stalled")
    reader, writer = await _opened(where, asked(str(Command(tokens, 0))))
    told = await reader.readuntil(b"k=%d;" % (tokens - 1))
    found = _TASK.search(told)
    assert found
    request = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": found[1].decode()}}
    exact, before = True, server.cpu_s()
    for _ in range(times):
        attached, leaving = await _opened(where, request)
        first = await attached.readuntil(b"\n\n")
        leaving.transport.abort()
        ledger = Ledger(Samples())
        ledger.take(b"".join(_TOKEN.findall(first)).decode(), 0)
        ledger.close(tokens)
        exact &= not (ledger.lost or ledger.repeated)
    told_us = (server.cpu_s() - before) * 1e6 / (tokens * times)
    writer.transport.abort()
    return {"subscribe_us": told_us, "subscribed": {"exact": exact}}


async def _opened(where: Any, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 25)
    writer.write(posted(where, body, "a2a-version: 1.0\r\n"))
    return reader, writer


ROWS = (
    Row("A2A, a stream of 2,000 tokens, CPU a token", "ours.k2.token_us", "sdk.k2.token_us", "us", ratio=0.1),
    Row("A2A, a stream of 20,000 tokens, CPU a token", "ours.k20.token_us", "sdk.k20.token_us", "us", ratio=0.1),
    Row("A2A, 20,000 tokens, beside 2,000, CPU a token", "ours.k20.token_us", "ours.k2.token_us", "us", ratio=1.2),
    Row("A2A, 20,000, beside a bare AG-UI stream", "ours.k20.token_us", "bare.k20.token_us", "us", ratio=15),
    Row("A2A, 20,000 tokens, every chunk came", "ours.k20.exact", "sdk.k20.whole"),
    Row("A2A, subscribe to 20,000, beside 2,000, CPU a token", "ours.k20.subscribe_us", "ours.k2.subscribe_us", "us"),
)
