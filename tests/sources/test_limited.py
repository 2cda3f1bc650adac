"""An agent that gets so much time for a run, and no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from runs.staging import Signal

from anabranch.errors import SourceError
from anabranch.request import RunRequest
from anabranch.sources.limited import Limited
from anabranch.sources.python import PythonSource

REQUEST = RunRequest(run_id="r", thread_id="t")


async def read(agent: Any, total_s: float) -> list[Any]:
    limited = Limited(PythonSource(agent), total_s, "slow")
    async with asyncio.timeout(10):
        return [item async for item in limited.open(REQUEST)]


async def test_an_agent_that_is_in_time_is_not_touched() -> None:
    async def agent(request: RunRequest) -> Any:
        yield "a"
        yield "b"

    assert await read(agent, 5) == ["a", "b"]


async def test_an_agent_that_is_busy_all_the_time_is_stopped_all_the_same() -> None:
    stopped = Signal()

    async def agent(request: RunRequest) -> Any:
        try:
            while True:
                yield "tick"
                await asyncio.sleep(0)  # noqa: TID251  # the agent lets others run, it does not wait
        finally:
            stopped.set()

    with pytest.raises(SourceError, match=r"The agent slow did not finish within 0\.05 s\.") as caught:
        await read(agent, 0.05)
    assert caught.value.code == "agent_timeout_total" and caught.value.retryable
    assert stopped.is_set()


async def test_a_timeout_of_the_agents_own_is_its_own() -> None:
    async def agent(request: RunRequest) -> Any:
        yield "a"
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await read(agent, 5)


def test_everything_else_is_the_agents() -> None:
    source = PythonSource(lambda request: None)  # type: ignore[arg-type,return-value]  # never called
    limited = Limited(source, 1, "slow")
    assert limited.kind == "python" and not hasattr(limited, "withdraw")
    assert type(limited.translator(REQUEST)) is type(source.translator(REQUEST))
