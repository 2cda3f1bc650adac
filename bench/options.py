"""What every measure is told, and what it says about its figures."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from .processes import SERVER_CPU, Child, started, written

MEMORY = "memory://"
"""Where logs are kept, unless keeping them is what is measured."""


class Options(NamedTuple):
    """``quick`` is a smoke run: every figure is there, and means nothing. The rest are settings of the servers."""

    quick: bool = False
    loop: str = "auto"
    tune_gc: bool = True
    listeners: int = 32

    def pick(self, full: int, quick: int) -> int:
        """A size for this kind of run."""
        return quick if self.quick else full

    @contextlib.asynccontextmanager
    async def server(self, config: str, storage: str = MEMORY) -> AsyncIterator[Child]:
        """Our server on ``config`` (YAML), the bare one (``"bare"``) or the A2A SDK's, where servers are measured."""
        flags = ["--loop", self.loop, "--listeners", str(self.listeners), *([] if self.tune_gc else ["--no-gc"])]
        with written(f"storage: {storage}\n{config}") as path:
            target = config if config in ("bare", "sdk") else path
            async with started("bench.server", target, *flags, cpu=SERVER_CPU) as child:
                yield child


class Row(NamedTuple):
    """One line of the table. ``ours`` and ``beside`` are paths into the figures, ``python.bare.token_us``.

    ``limit`` is the most that ours may be, ``ratio`` the most that it may be in multiples of what is beside it. A
    figure that is true or false should be true.
    """

    label: str
    ours: str
    beside: str = ""
    unit: str = ""
    limit: float | None = None
    ratio: float | None = None
