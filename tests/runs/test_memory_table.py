"""The table of runs in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anabranch.storage import Storage, open_storage

from .conformance import TableConformance


class TestMemoryTable(TableConformance):
    @asynccontextmanager
    async def driver(self) -> AsyncIterator[Storage]:
        yield open_storage("memory://")
