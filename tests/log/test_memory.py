"""The log in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anabranch.log._base import RunLog
from anabranch.log.memory import MemoryLog

from .conformance import LogConformance


class TestMemoryLog(LogConformance):
    @asynccontextmanager
    async def driver(self) -> AsyncIterator[RunLog]:
        yield MemoryLog()
