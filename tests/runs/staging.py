"""Agents that end in every way, and a reader that checks that each run has one end, the last."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, Literal

from referee import judged

from anabranch.errors import Fenced
from anabranch.events import Event, RunFailed, RunFinished, Terminal, TextDelta
from anabranch.identity import LOCAL, Principal
from anabranch.log._base import Entry
from anabranch.log.memory import MemoryLog
from anabranch.request import Message, RunRequest
from anabranch.runs._base import RunRecord
from anabranch.runs.runs import Runs
from anabranch.sources.python import PythonSource, PythonTranslator

WAIT_S = 10
ANN, BOB = Principal("ann"), Principal("bob")

Agent = Callable[[RunRequest], AsyncGenerator[Any, None]]


def asked(run_id: str = "r1", thread_id: str = "", text: str = "hello") -> RunRequest:
    """A request; each run has a thread of its own unless one is named."""
    message = Message(id="m1", role="user", content=text)
    return RunRequest(run_id=run_id, thread_id=thread_id or f"thread of {run_id}", messages=(message,))


async def begun(
    runs: Runs, agent: Agent, request: RunRequest | None = None, who: Principal = LOCAL, **options: Any
) -> RunRecord:
    """A run of an async generator function."""
    return await runs.start(PythonSource(agent), request or asked(), who, agent="agent", **options)


async def followed(runs: Runs, record: RunRecord, after: int = 0) -> list[Entry]:
    """What a watcher gets until the run is over."""
    got: list[Entry] = []
    async with asyncio.timeout(WAIT_S), runs.watch(record, after) as batches:
        async for batch in batches:
            got += batch
    return got


async def outcome(runs: Runs, agent: Agent, **options: Any) -> tuple[str, Terminal]:
    """Run the agent to its end: its text, and its terminal event."""
    record = await begun(runs, agent, **options)
    return ended(await followed(runs, record))


def ended(entries: Sequence[Entry]) -> tuple[str, Terminal]:
    """The root's text and the terminal event of a whole, lawful run."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    end = judged(entry.event for entry in entries).terminal
    assert isinstance(end, RunFinished | RunFailed)
    return said(entries), end


def said(entries: Iterable[Entry]) -> str:
    """The text of all messages."""
    return "".join(entry.event.delta for entry in entries if isinstance(entry.event, TextDelta))


class Signal(asyncio.Event):
    """An event that is not waited for for ever."""

    async def wait(self) -> Literal[True]:
        async with asyncio.timeout(WAIT_S):
            return await super().wait()


class Stage:
    """An agent that says ``hello``, waits until it may go on, and says `` world``; it notes what happens to it."""

    def __init__(self, *, cleanup: Callable[[], Any] | None = None) -> None:
        self.waiting, self.go, self.left = Signal(), asyncio.Event(), Signal()
        self._cleanup = cleanup

    async def __call__(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        try:
            yield "hello"
            self.waiting.set()
            await self.go.wait()
            yield " world"
        finally:
            if self._cleanup:
                await self._cleanup()
            self.left.set()


class Own(PythonSource):
    """A source of text with a translator of its own."""

    def __init__(self, agent: Agent, translator: type[PythonTranslator]) -> None:
        super().__init__(agent)
        self._made = translator

    def translator(self, request: RunRequest) -> PythonTranslator:
        return self._made()


class BreakingLog(MemoryLog):
    """Takes what comes before the first entry that ``breaks`` says yes to, and fails from then on."""

    def __init__(self, breaks: Callable[[Event], bool]) -> None:
        super().__init__()
        self._breaks, self.broken = breaks, False

    async def append(self, run_id: str, entries: Sequence[Entry]) -> None:
        self.broken = self.broken or any(self._breaks(entry.event) for entry in entries)
        if self.broken:
            raise Fenced("the disk is full")
        await super().append(run_id, entries)


class SlowLog(MemoryLog):
    """Appends only while ``open`` is set, one batch at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.sizes = asyncio.Event(), list[int]()

    async def append(self, run_id: str, entries: Sequence[Entry]) -> None:
        await self.open.wait()
        self.sizes.append(len(entries))
        await super().append(run_id, entries)
