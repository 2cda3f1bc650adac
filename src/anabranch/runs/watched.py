"""One run as its reader sees it: what ``sinks._gate`` calls a watched run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from ..errors import NotFound
from ..log._base import Bounds, Checkpoint, Entry
from ..request import Message
from ._base import RunRecord
from .continuing import next_run
from .runs import Runs
from .threads import Turn, conversation


class Watched:
    """A run that its caller may read."""

    def __init__(self, runs: Runs, record: RunRecord) -> None:
        self._runs, self._log, self.record = runs, runs.log, record

    @property
    def run_id(self) -> str:
        """The caller's id of it."""
        return self.record.run_id

    @property
    def thread_id(self) -> str:
        """The caller's id of its thread."""
        return self.record.thread_id

    @property
    def dialect(self) -> str:
        """``RunRequest.dialect`` of the request that started it."""
        return self.record.dialect

    @property
    def task_id(self) -> str:
        """The id of its task."""
        return self.record.task_id

    @property
    def agent(self) -> str:
        """The agent that it is a run of."""
        return self.record.agent

    @property
    def status(self) -> str:
        """What it was when it was looked up."""
        return self.record.status

    @property
    def changed_ms(self) -> int:
        """``RunRecord.changed_ms``."""
        return self.record.changed_ms

    def watch(self, after: int = 0) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Entry]]]:
        """``Runs.watch``."""
        return self._runs.watch(self.record, after)

    async def bounds(self) -> Bounds:
        """``RunLog.bounds``."""
        return await self._log.bounds(self.record.key)

    async def read(self, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """``RunLog.read``."""
        return await self._log.read(self.record.key, after, limit)

    async def history(self) -> tuple[Message, ...]:
        """The conversation before what this run wrote."""
        key = self.record.key
        turns = await self._runs.table.turns(self.record.principal, self.record.thread_id)
        return conversation([replace(turn, outcome=None) if turn.record.key == key else turn for turn in turns], key)

    async def given(self) -> tuple[Message, ...]:
        """The messages that it was given."""
        return (await self._turn()).given

    async def asked(self) -> Sequence[str]:
        """The ids of the questions that it ended with."""
        return _asked(await self._turn())

    async def answers(self) -> Sequence[str]:
        """The ids of the questions that the run ended with which it continues, also when that is no longer kept."""
        table, continues = self._runs.table, self.record.continues
        before = await table.find(self.record.principal, continues) if continues is not None else None
        turn = await table.turn(before.key) if before is not None else None
        return _asked(turn) if turn is not None else []

    async def goes_on(self) -> bool:
        """Whether another run continues it, or may."""
        if not await self.asked():
            return False
        turns = await self._runs.table.turns(self.record.principal, self.record.thread_id)
        after = next_run(turns, self.record)
        return after is None or after.continues == self.run_id

    async def continued(self) -> Watched | None:
        """``Runs.continuation``."""
        found = await self._runs.continuation(self.record)
        return None if found is None else Watched(self._runs, found)

    async def require(self) -> None:
        """Raises ``NotFound`` when it is no longer kept."""
        found = await self._runs.table.find(self.record.principal, self.run_id)
        if found is None or found.key != self.record.key or found.forgotten:
            raise NotFound(f"there is no run {self.run_id!r}")

    async def _turn(self) -> Turn:
        turn = await self._runs.table.turn(self.record.key)
        if turn is None:
            raise NotFound(f"there is no run {self.run_id!r}")
        return turn

    async def checkpoint(self, reader: str, upto: int) -> Checkpoint | None:
        """``RunLog.checkpoint``."""
        return await self._log.checkpoint(self.record.key, reader, upto)

    def keep_checkpoint(self, reader: str, checkpoint: Checkpoint) -> None:
        """``RunLog.keep_checkpoint``."""
        self._log.keep_checkpoint(self.record.key, reader, checkpoint)


def _asked(turn: Turn) -> Sequence[str]:
    return [question.interrupt_id for question in turn.outcome.asked] if turn.outcome else []
