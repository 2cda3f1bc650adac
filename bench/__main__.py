"""``make bench``: what anabranch costs, beside the barest code that does the same, in one sitting.

    make bench                                  everything, three passes
    make bench ARGS="lanes python --repeat 5"   some of it, more often
    make bench ARGS="relay --loop asyncio"      under another event loop

Prints a table and writes every figure to bench/results.json. Exits 1 when a token was lost, repeated or changed, never
because something was slow. The machine should have nothing else to do; ratios travel to other machines, times do not.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anabranch

from .options import Options
from .processes import LOAD_CPU, ROOT, SERVER_CPU, pin
from .report import flaws, middle, table

MEASURES = (
    "relay",
    "nested",
    "lanes",
    "python",
    "a2a",
    "langgraph",
    "micro",
    "start",
    "memory",
    "storage",
    "reconnect",
)
_LONGEST_S = 240  # of one measure; then something hangs
_PACKAGES = ("a2a-sdk", "aiohttp", "deepagents", "httptools", "langgraph", "msgspec", "starlette", "uvicorn", "uvloop")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"of {', '.join(MEASURES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="a smoke run: one pass, tiny sizes, figures mean nothing")
    parser.add_argument("--repeat", type=int, default=3, help="passes; the table has the medians")
    parser.add_argument(
        "--loop", choices=("auto", "asyncio", "uvloop"), default="auto", help="event loop of the servers"
    )
    parser.add_argument("--no-gc", action="store_true", help="servers leave garbage collection as Python has it")
    parser.add_argument("--listeners", type=int, default=32, help="connections a server accepts a turn under uvloop")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results.json")
    asked = parser.parse_args()
    if unknown := set(asked.measures) - set(MEASURES):
        parser.error(f"there is no measure {', '.join(sorted(unknown))}; known: {', '.join(MEASURES)}")
    options = Options(quick=asked.quick, loop=asked.loop, tune_gc=not asked.no_gc, listeners=asked.listeners)
    names = [name for name in MEASURES if name in (asked.measures or MEASURES)]
    began = datetime.now(UTC)
    passes = _passes(names, options, 1 if asked.quick else max(1, asked.repeat))
    figures = {name: middle(each) for name, each in passes.items()}
    modules = {name: importlib.import_module(f"bench.measures.{name}") for name in names}
    print(table([(row, figures[name], passes[name]) for name in names for row in modules[name].ROWS]))
    if options.quick:
        print("\nA smoke run: sizes were not those that are named, and the figures mean nothing.")
    report = {**_about(began, options), "figures": figures, "passes": passes}
    asked.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\n{_where()}\nAll figures: {os.path.relpath(asked.out)}")
    if found := list(flaws(figures)):
        sys.exit("not exact: " + "; ".join(found))


def _passes(names: list[str], options: Options, count: int) -> dict[str, list[dict[str, Any]]]:
    """Every measure once, then every measure again: what disturbs the machine for a while disturbs one pass."""
    pin(0, LOAD_CPU)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(count):
        for name in names:
            print(f"pass {number + 1} of {count}: {name} ...", end="", file=sys.stderr, flush=True)
            began = time.perf_counter()
            module = importlib.import_module(f"bench.measures.{name}")
            results[name].append(_run(module.measure(options)))
            print(f" {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return results


def _run(measure: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    async def bounded() -> dict[str, Any]:
        async with asyncio.timeout(_LONGEST_S):
            return await measure

    try:
        import uvloop
    except ImportError:
        return asyncio.run(bounded())
    figures: dict[str, Any] = uvloop.run(bounded())
    return figures


def _about(began: datetime, options: Options) -> dict[str, Any]:
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = None
    return {
        "date": began.isoformat(timespec="seconds"),
        "anabranch": anabranch.__version__,
        "python": platform.python_version(),
        "packages": packages,
        "machine": {"cpu": _cpu(), "cpus": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
        "options": {**options._asdict(), "server_cpu": SERVER_CPU, "load_cpu": LOAD_CPU},
    }


def _where() -> str:
    pinned = "not pinned" if SERVER_CPU is None else f"server on CPU {SERVER_CPU}, load on CPU {LOAD_CPU}"
    return f"{_cpu()}, {os.cpu_count()} CPUs ({pinned}), Python {platform.python_version()}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown CPU"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


if __name__ == "__main__":
    main()
