"""The log in a SQLite file, beside the log in memory: CPU of the whole server, and how late a relayed token is.

The CPU is that of all threads, with the one that writes the file. The disk's own work is not in it: who waits for that
is in the delays, and how much there is of it is said beside them.
"""

from __future__ import annotations

from typing import Any

from ..options import MEMORY, Options, Row
from ..processes import sqlite
from .python import CONFIG, paced, unpaced
from .relay import heard


async def measure(options: Options) -> dict[str, Any]:
    """CPU a token of one unpaced stream and of 100 paced ones, CPU a run of one token, and lag of the relay."""
    figures: dict[str, Any] = {}
    with sqlite() as file, sqlite() as relayed:
        for name, storage in (("sqlite", file), ("memory", MEMORY)):
            async with options.server(CONFIG, storage) as server:
                figures[name] = await unpaced(server, options)
                before_kb = server.disk_kb()
                many = figures[name]["s100"] = await paced(server, options.pick(100, 5), options.pick(4, 1))
                many["disk_kb"] = (server.disk_kb() - before_kb) / max(1, many["tokens"])
        for name, lags in (await heard(options, {"sqlite": relayed, "memory": MEMORY})).items():
            figures[name]["relay"] = lags
    return figures


ROWS = (
    *(
        Row(f"SQLite log, {what}", f"sqlite.{figure}", f"memory.{figure}", "us", ratio=3)
        for what, figure in (
            ("one unpaced stream, CPU a token", "token_us"),
            ("one-token runs, CPU a run", "run_us"),
            ("100 streams at 50/s, CPU a token", "s100.token_us"),
        )
    ),
    Row("SQLite log, 100 streams at 50/s, p99 delay", "sqlite.s100.p99_ms", "memory.s100.p99_ms", "ms"),
    Row("SQLite log, 100 streams at 50/s, written a token", "sqlite.s100.disk_kb", unit="KB"),
    Row("SQLite log, relay lag p50", "sqlite.relay.lag.p50_ms", "memory.relay.lag.p50_ms", "ms", limit=2),
    Row("SQLite log, relay lag p99", "sqlite.relay.lag.p99_ms", "memory.relay.lag.p99_ms", "ms", limit=10),
)
