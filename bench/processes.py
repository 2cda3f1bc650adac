"""Processes of the bench: each pinned to one CPU, its CPU time and memory read from outside.

What is measured has the first CPU; whatever makes or reads its load has the second. With one CPU nothing is pinned.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
_CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
SERVER_CPU, LOAD_CPU = (_CPUS[0], _CPUS[1]) if len(_CPUS) > 1 else (None, None)


class Child:
    """A running process."""

    def __init__(self, pid: int, url: str = "") -> None:
        self.pid, self.url = pid, url

    def cpu_s(self) -> float:
        """Seconds of CPU, user and system, all its threads."""
        if sys.platform == "linux":
            # The clock of another process (clock_getcpuclockid(3)): nanoseconds, where /proc counts ticks of 10 ms.
            return time.clock_gettime((~self.pid << 3) | 2)
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system

    def rss_kb(self) -> float:
        """Resident memory in KiB."""
        return psutil.Process(self.pid).memory_info().rss / 1024

    def disk_kb(self) -> float:
        """KiB that it has written to a disk so far; 0 on systems that do not count it by process."""
        counters = getattr(psutil.Process(self.pid), "io_counters", None)
        return counters().write_bytes / 1024 if counters else 0.0


def pin(pid: int, cpu: int | None) -> None:
    """Keep a process on one CPU (None: anywhere). Threads it has already are left where they are."""
    if cpu is not None:
        os.sched_setaffinity(pid, {cpu})


@contextlib.asynccontextmanager
async def spawned(*command: str, cpu: int | None, quiet: bool = False) -> AsyncIterator[asyncio.subprocess.Process]:
    """``python`` with ``command``, on ``cpu``; killed on exit: nothing here has anything to hand over."""
    paths = [str(ROOT), *(path or "." for path in sys.path)]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        stdin=asyncio.subprocess.PIPE,  # held open: its end tells the child that we are gone
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL if quiet else None,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LANGSMITH_TRACING": "false"},
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        pin(child.pid, cpu)
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, 9)
        async with asyncio.timeout(10):
            await child.wait()


@contextlib.asynccontextmanager
async def started(module: str, *arguments: str, cpu: int | None) -> AsyncIterator[Child]:
    """A server that announces its URL on stdout, as ``anabranch.demo._process`` does."""
    async with spawned("-m", module, "--die-with-parent", *arguments, cpu=cpu) as child:
        assert child.stdout is not None
        async with asyncio.timeout(60):
            line = await child.stdout.readline()
        if not line:
            raise SystemExit(f"{module} did not start; its own words are above")
        yield Child(child.pid, json.loads(line)["url"])


async def computed(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that ``python -m module arguments`` prints, run where servers run."""
    async with spawned("-m", module, *arguments, cpu=SERVER_CPU) as child, asyncio.timeout(180):
        assert child.stdout is not None
        said = await child.stdout.read()
    if not said:
        raise SystemExit(f"{module} {' '.join(arguments)} failed; its own words are above")
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result


@contextlib.contextmanager
def sqlite() -> Iterator[str]:
    """The storage URL of a temporary SQLite file."""
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        yield f"sqlite:///{folder}/bench.db"


@contextlib.contextmanager
def written(text: str) -> Iterator[str]:
    """The path of a temporary configuration file."""
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        path = Path(folder, "anabranch.yaml")
        path.write_text(text, encoding="utf-8")
        yield str(path)
