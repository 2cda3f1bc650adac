"""LangGraph's item to AG-UI bytes (translator, grammar, log entry, encoder), beside the bare ``astream`` loop."""

from __future__ import annotations

from typing import Any

from ..options import Options, Row
from ..processes import computed


async def measure(options: Options) -> dict[str, Any]:
    """CPU a token and a run of one token, of ``create_agent`` and of a deep agent."""
    return await computed("bench.inside", "langgraph", str(options.pick(5000, 200)), str(options.pick(40, 2)))


ROWS = tuple(
    Row(f"{graph}, CPU {what}", f"{graph}.ours.{figure}", f"{graph}.bare.{figure}", "us", ratio=ratio)
    for graph in ("create_agent", "deepagents")
    for what, figure, ratio in (("a token", "token_us", 1.4), ("a run of one token", "run_us", 1.5))
)
