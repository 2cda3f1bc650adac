"""The ``python`` agents that are measured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from anabranch.request import RunRequest

from . import workload


def tokens(request: RunRequest) -> AsyncIterator[str]:
    """The tokens that the prompt asks for."""
    return workload.tokens(workload.parse(request.last_user_text()))


async def stalled(request: RunRequest) -> AsyncIterator[str]:
    """The tokens that the prompt asks for, and then nothing for ever."""
    async for text in tokens(request):
        yield text
    await asyncio.Event().wait()


async def silent(request: RunRequest) -> AsyncIterator[str]:
    """One word, and then nothing for ever."""
    yield "Wait. "
    await asyncio.Event().wait()
