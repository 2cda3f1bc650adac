"""What a sink needs from the rest: runs to start, to find and to watch. ``app`` provides it.

So sinks know nothing of the middle.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from starlette.requests import HTTPConnection

from ..identity import Principal
from ..log._base import Bounds, Checkpoint, Entry
from ..request import Message, RunRequest

Batches = AbstractAsyncContextManager[AsyncIterator[Sequence[Entry]]]
"""A watched run: entered while somebody watches."""


class Watched(Protocol):
    """One run that a caller may read, from any point and any number of times."""

    @property
    def run_id(self) -> str:
        """The caller's id of it."""

    @property
    def thread_id(self) -> str:
        """The caller's id of its thread."""

    @property
    def dialect(self) -> str:
        """``RunRequest.dialect`` of the request that started it."""

    def watch(self, after: int = 0) -> Batches:
        """Follow it from the entry after ``after`` to its end. Whoever leaves before that is a watcher who left."""

    async def bounds(self) -> Bounds:
        """Which entries there are."""

    async def read(self, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """At most ``limit`` entries after ``after``, without watching."""

    async def history(self) -> tuple[Message, ...]:
        """The conversation that it goes on from, with the messages it was given, without those it wrote."""

    async def checkpoint(self, reader: str, upto: int) -> Checkpoint | None:
        """``RunLog.checkpoint``."""

    def keep_checkpoint(self, reader: str, checkpoint: Checkpoint) -> None:
        """``RunLog.keep_checkpoint``."""


class TaskRun(Watched, Protocol):
    """A run with what is known of its task: the runs that have its ``task_id``, each of which continues the last."""

    @property
    def task_id(self) -> str:
        """The id of its task."""

    @property
    def agent(self) -> str:
        """The agent that it is a run of."""

    @property
    def status(self) -> str:
        """What it was when it was looked up: queued, running, succeeded, interrupted, cancelled or failed."""

    @property
    def changed_ms(self) -> int:
        """Since when, Unix time in milliseconds."""

    async def given(self) -> tuple[Message, ...]:
        """The messages that it was given."""

    async def asked(self) -> Sequence[str]:
        """The ids of the questions that it ended with: none unless it is interrupted."""

    async def answers(self) -> Sequence[str]:
        """The ids of the questions that the run ended with which it continues, also when that is no longer kept."""

    async def goes_on(self) -> bool:
        """Whether another run continues it, or may: it asked something, and its thread went no other way."""

    async def continued(self) -> TaskRun | None:
        """The run that continues it, once there is one; None once that cannot be any more.

        Raises ``NotFound`` once its thread is gone, ``ServerStopping`` when it is not waited for longer.
        """

    async def require(self) -> None:
        """Raises ``NotFound`` when it is no longer kept: what was read of it may lack something."""


class Presented(NamedTuple):
    """An agent as callers may know it."""

    name: str
    description: str


class Gate(Protocol):
    """Runs, for callers that the gate identifies. Every method raises ``ClientError`` for a 4xx."""

    async def identify(self, caller: HTTPConnection) -> Principal:
        """Who is asking; first, so that nothing is read of a stranger's request. Raises ``ClientError`` 401."""

    def present(self, agent: str | None) -> Presented:
        """The agent of that name (None: the default one). Raises ``NotFound``."""

    async def start(self, principal: Principal, agent: str | None, request: RunRequest) -> TaskRun:
        """Start a run of ``agent`` (None: the default one), or find the one that the same request started."""

    async def find(self, principal: Principal, run_id: str) -> Watched:
        """The caller's run of that id. Raises ``NotFound``, also when it is no longer kept."""

    async def task(self, principal: Principal, task_id: str) -> Sequence[TaskRun]:
        """The runs of the caller's task, oldest first. Raises ``NotFound``."""

    async def tasks(
        self,
        principal: Principal,
        *,
        agent: str,
        thread_id: str | None = None,
        statuses: Collection[str] | None = None,
        since_ms: int = 0,
        before: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> tuple[Sequence[TaskRun], int]:
        """``RunTable.tasks``: a page of the caller's tasks, and how many there are on all pages."""

    async def cancel(self, principal: Principal, run_id: str) -> TaskRun:
        """Cancel the caller's run, or what it asks; the run that ends so, soon. Raises ``NotFound``, ``Conflict``."""
