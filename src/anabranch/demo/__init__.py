"""What `make demo` runs: a scripted model and two A2A agents (a process each), and the terminal that shows them."""

from __future__ import annotations

import importlib.util
import sys

from ..errors import MissingExtra

WARM_UP = "Warm up:"
"""A question that begins so is answered by the demo's model and agents at once, without their pace."""

_PACKAGES = {"aiohttp": "aiohttp", "a2a": "a2a-sdk", "deepagents": "deepagents", "langchain_openai": "langchain-openai"}
"""What the extra ``demo`` brings: what to import, and what it is called."""


def complete() -> None:
    """Raise what ``missing`` gives unless everything is installed that the demo's processes need."""
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise missing(package)


def missing(package: str) -> SystemExit:
    """Write the line that names ``package`` and the remedy; what a command that cannot go on without it raises."""
    sys.stderr.write(f"demo: {MissingExtra(package, 'demo')}\n")
    return SystemExit(2)
