"""The table of runs in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anabranch.runs._base import RunTable
from anabranch.runs.memory import MemoryTable

from .conformance import TableConformance


class TestMemoryTable(TableConformance):
    @asynccontextmanager
    async def driver(self) -> AsyncIterator[RunTable]:
        yield MemoryTable()
