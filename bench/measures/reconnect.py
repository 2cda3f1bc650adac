"""What it costs when a client comes back, over a real server: it has all but the last ten frames of a finished run.

The cost should be that of what it missed, whatever the length of the run. It does depend on how many entries lie
between the encoder's last note and the client's place, for those are folded again: the runs have such lengths that it
is the same number for each, 226 of at most 256. Each answer has to be, byte for byte, the end of the first one.

Beside it is a bare stream of about as many frames. Without a note a run is folded from its start: so it is for a kind
of client (a profile) that is the first to come. After a restart the server has everything from the file.

A client of A2A that comes back sends its message again, with the id of the last frame that it has.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..bare import asked
from ..loadgen import Chunks, posted
from ..options import MEMORY, Options, Row
from ..processes import Child, sqlite
from ..workload import Command
from .python import CONFIG

_SIZES = {"k1": (1000, 100), "k10": (9960, 356), "k100": (99_816, 612)}  # tokens, full and quick: see above
_MISSED = 10
# Of clients, as yet unseen. One that declares no version is taken for the one that started the run.
_KINDS = tuple(
    f"protocolVersion={kind}" for kind in ("1.0&subagents=steps", "0.0&subagents=steps", "0.0&subagents=native")
)


class _Run(NamedTuple):
    """A finished run: its id, the id of the frame after which the client comes back, and what it has missed."""

    run_id: str
    seen: str
    missed: bytes


async def measure(options: Options) -> dict[str, Any]:
    """CPU and time of an attach, by length of the run and storage; the first ones after a restart of the server."""
    figures: dict[str, Any] = {}
    async with options.server("bare") as server:
        bare = await _repeated(options, server, {"stream": _asked(server, "", Command(_MISSED - 2, 0))}, {})
        figures["bare"] = bare["stream"]
    with sqlite() as file:
        for name, storage in (("memory", MEMORY), ("sqlite", file)):
            async with options.server(CONFIG, storage) as server:
                runs = {size: await _ran(server, options.pick(*tokens)) for size, tokens in _SIZES.items()}
                attaches = {size: _attach(server, run) for size, run in runs.items()}
                figures[name] = await _repeated(options, server, attaches, runs)
                if storage == MEMORY:
                    tasks = {size: await _tasked(server, options.pick(*tokens)) for size, tokens in _SIZES.items()}
                    again = {
                        size: _sent(server, task.run_id, options.pick(*_SIZES[size]), task.seen)
                        for size, task in tasks.items()
                    }
                    figures["a2a"] = await _repeated(options, server, again, tasks)
                for size in ("k1", "k100"):
                    figures[name][size]["unseen_cpu_ms"] = await _unseen(server, runs[size])
        figures["restarted"] = await _restarted(options, file, runs)
    return figures


async def _ran(server: Child, tokens: int) -> _Run:
    run_id = uuid.uuid4().hex
    whole, _ = await _answer(server, _asked(server, run_id, Command(tokens, 0)))
    return _cut(run_id, whole)


async def _tasked(server: Child, tokens: int) -> _Run:
    """The same over A2A: its id is that of the message."""
    message_id = uuid.uuid4().hex
    whole, _ = await _answer(server, _sent(server, message_id, tokens))
    return _cut(message_id, whole)


def _cut(run_id: str, whole: bytes) -> _Run:
    frames = whole.split(b"\n\n")[:-1]
    return _Run(
        run_id,
        frames[-_MISSED - 1].partition(b"\n")[0].removeprefix(b"id: ").decode(),
        b"".join(frame + b"\n\n" for frame in frames[-_MISSED:]),
    )


async def _repeated(
    options: Options, server: Child, requests: dict[str, bytes], runs: dict[str, _Run]
) -> dict[str, Any]:
    """Of each request, the median CPU and time. They take turns, so that what disturbs one disturbs all."""
    rounds, batch = options.pick(30, 2), options.pick(10, 2)
    cpu_ms: dict[str, list[float]] = {name: [] for name in requests}
    took_ms: dict[str, list[float]] = {name: [] for name in requests}
    exact = True
    for number in range(rounds + 1):
        for name, request in requests.items():
            before, times = server.cpu_s(), []
            for _ in range(batch):
                answer, took_s = await _answer(server, request)
                times.append(took_s * 1e3)
                exact &= name not in runs or answer == runs[name].missed
            if number:  # the first ones warm up
                cpu_ms[name].append((server.cpu_s() - before) * 1e3 / batch)
                took_ms[name] += times
    figures: dict[str, Any] = {
        name: {"cpu_ms": statistics.median(cpu_ms[name]), "ms": statistics.median(took_ms[name])} for name in requests
    }
    return figures | {"exact": exact}


async def _unseen(server: Child, run: _Run) -> float:
    """CPU of the first attach by a kind of client that has not watched the run, in milliseconds."""
    cpu_ms = []
    for kind in _KINDS:
        before = server.cpu_s()
        await _answer(server, _attach(server, run, kind))
        cpu_ms.append((server.cpu_s() - before) * 1e3)
    return statistics.median(cpu_ms)


async def _restarted(options: Options, file: str, runs: dict[str, _Run]) -> dict[str, Any]:
    """The first attach after a restart, and later ones; several restarts for each run."""
    figures: dict[str, Any] = {"exact": True}
    for size in ("k1", "k100"):
        firsts: list[float] = []
        later: list[float] = []
        for _ in range(options.pick(5, 1)):
            async with options.server(CONFIG, file) as server:
                await _answer(server, _got(server, "/ready"))
                for number in range(options.pick(10, 2)):
                    answer, took_s = await _answer(server, _attach(server, runs[size]))
                    (later if number else firsts).append(took_s * 1e3)
                    figures["exact"] &= answer == runs[size].missed
        figures[size] = {"first_ms": statistics.median(firsts), "later_ms": statistics.median(later)}
    return figures


def _attach(server: Child, run: _Run, kind: str = "protocolVersion=1.0") -> bytes:
    return _got(server, f"/runs/{run.run_id}/agui?{kind}", f"last-event-id: {run.seen}\r\n")


def _got(server: Child, target: str, headers: str = "") -> bytes:
    host = urlsplit(server.url).netloc
    return f"GET {target} HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n".encode()


def _asked(server: Child, run_id: str, command: Command) -> bytes:
    message = {"id": "m", "role": "user", "content": str(command)}
    ids = {"threadId": run_id, "runId": run_id}
    return posted(urlsplit(f"{server.url}/agui"), {**ids, "protocolVersion": "1.0", "messages": [message]})


def _sent(server: Child, message_id: str, tokens: int, seen: str = "") -> bytes:
    body = asked(str(Command(tokens, 0)), message_id)
    again = f"last-event-id: {seen}\r\n" if seen else ""
    return posted(urlsplit(f"{server.url}/"), body, f"a2a-version: 1.0\r\n{again}")


async def _answer(server: Child, request: bytes) -> tuple[bytes, float]:
    """The body of the answer, over a connection of its own, and how many seconds it took to its end."""
    where = urlsplit(server.url)
    began = time.perf_counter()
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(request)
        data = await reader.read()
        took_s = time.perf_counter() - began
        writer.close()
    chunks = Chunks()
    body = chunks.feed(data)
    if chunks.status != 200:
        raise RuntimeError(f"{request[:80]!r} was answered with {data[:400]!r}")
    return body, took_s


def _rows(log: str, name: str) -> tuple[Row, ...]:
    """Of one storage."""
    k1, k10, k100 = f"{log}.k1", f"{log}.k10", f"{log}.k100"
    return (
        Row(f"{name} log, attach to 1,000 tokens, CPU", f"{k1}.cpu_ms", "bare.cpu_ms", "ms"),
        Row(f"{name} log, to 10,000, beside 1,000, CPU", f"{k10}.cpu_ms", f"{k1}.cpu_ms", "ms", ratio=1.5),
        Row(f"{name} log, to 100,000, beside 1,000, CPU", f"{k100}.cpu_ms", f"{k1}.cpu_ms", "ms", ratio=1.5),
        Row(f"{name} log, to 100,000, beside 1,000, time", f"{k100}.ms", f"{k1}.ms", "ms", ratio=1.5),
        Row(f"{name} log, to 100,000 without a note, CPU", f"{k100}.unseen_cpu_ms", f"{k100}.cpu_ms", "ms"),
    )


ROWS = (
    *_rows("memory", "memory"),
    *_rows("sqlite", "SQLite"),
    Row("A2A, come back to 1,000 tokens, CPU", "a2a.k1.cpu_ms", "memory.k1.cpu_ms", "ms"),
    Row("A2A, to 100,000, beside 1,000, CPU", "a2a.k100.cpu_ms", "a2a.k1.cpu_ms", "ms", ratio=1.5),
    *(
        Row(
            f"restarted, {which} attach to 100,000, beside 1,000",
            f"restarted.k100.{ms}",
            f"restarted.k1.{ms}",
            "ms",
            ratio=1.5,
        )
        for which, ms in (("first", "first_ms"), ("later", "later_ms"))
    ),
)
