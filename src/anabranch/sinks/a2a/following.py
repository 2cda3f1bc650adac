"""The runs of a task, read: folded to what they come to, and followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from ...errors import AnabranchError
from ...events import RunFailed, RunStarted
from ...log._base import Entry
from .._base import Cursor, Encoder
from .._follow import Follower
from .._gate import TaskRun
from .._remnant import Remnant
from . import caipe
from .encode import A2aEncoder, reader
from .parse import Call
from .prelude import Snapshot
from .profile import Profile
from .task import TaskFold

_Fold = TypeVar("_Fold", bound=TaskFold)

LIVE = frozenset({"queued", "running"})
"""The statuses of a run that is not over."""


def modern(profile: Profile) -> Profile:
    """``profile`` in 1.0: what is told is put into the words of 0.3 by its binding."""
    return replace(profile, version="1.0")


def _encoding(profile: Profile) -> type[A2aEncoder]:
    return caipe.CaipeEncoder if profile.caipe else A2aEncoder


def _folding(profile: Profile) -> type[TaskFold]:
    return caipe.CaipeFold if profile.caipe else TaskFold


@asynccontextmanager
async def chained(call: Call, run: TaskRun, follower: Follower) -> AsyncGenerator[AsyncIterator[bytes], None]:
    """The frames of a run, and of those that continue it."""
    async with follower.frames() as frames, aclosing(_onward(call, run, frames)) as frames_of_all:
        yield frames_of_all


async def _onward(call: Call, run: TaskRun, frames: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for piece in frames:
        yield piece
    try:
        while call.profile.version == "1.0" and await run.goes_on():
            after = await run.continued()
            if after is None:
                return
            run = after
            async with run.watch() as batches:  # until the end: who only looks and leaves is a watcher who left
                await anext(batches, None)
                # The client has the task that the first frame tells.
                follower = await followed(call, (), run, Cursor(1, 0).text(run.run_id))
                async with follower.frames() as more:
                    async for piece in more:
                        yield piece
    except AnabranchError as error:
        for frame in A2aEncoder(call.profile, call.envelope).close(error):
            yield frame


async def followed(call: Call, earlier: Sequence[TaskRun], run: TaskRun, seen: str) -> Follower:
    """The run that continues the ``earlier`` ones, from its start or after what was ``seen`` of it."""
    before = (await folded(earlier, call.profile)).task(modern(call.profile)) if earlier else None
    follower = _follower(call, run, _encoding(call.profile)(call.profile, call.envelope, await run.given(), before))
    if seen and not await follower.resume(Cursor.parse(seen, run.run_id)):
        return await snapshot(call, earlier, run)
    return follower


def _follower(call: Call, run: TaskRun, encoder: Encoder) -> Follower:
    restored = partial(_encoding(call.profile).restored, call.profile, call.envelope)
    return Follower(run, reader(call.profile), encoder, restored)


async def snapshot(call: Call, earlier: Sequence[TaskRun], run: TaskRun) -> Follower:
    """The task as it is, then what comes after that."""
    new = _folding(call.profile)(run.task_id, run.thread_id)
    fold = await folded(earlier, call.profile) if earlier else new
    fold.given(await run.given())
    bounds = await run.bounds()
    encoder: Encoder = _encoding(call.profile)(call.profile, call.envelope)
    if bounds.first > 1:
        encoder = Remnant(encoder)
    started = RunStarted(run_id=run.run_id, thread_id=run.thread_id, task_id=run.task_id)
    follower = _follower(call, run, encoder)
    follower.begin(Snapshot(encoder, fold, call.profile, call.envelope, started), bounds)
    return follower


async def folded(runs: Sequence[TaskRun], profile: Profile) -> TaskFold:
    """The task as it is now, as such clients are told of it. Raises ``NotFound`` when a run of it goes meanwhile."""
    return await _fed(_folding(profile)(runs[-1].task_id, runs[-1].thread_id), runs)


async def caipe_folded(runs: Sequence[TaskRun]) -> caipe.CaipeFold:
    """The same, with what its questions want to know."""
    return await _fed(caipe.CaipeFold(), runs)


async def _fed(fold: _Fold, runs: Sequence[TaskRun]) -> _Fold:
    for run in runs:
        fold.given(await run.given())
        after, bounds = 0, await run.bounds()
        while after < bounds.last and (batch := await run.read(after)):
            for entry in batch:
                fold.feed(entry)
            after = batch[-1].seq
            await asyncio.sleep(0)
        if bounds.ended and after >= bounds.last:
            continue
        await run.require()
        if run.status == "failed":  # its log could not take the end
            lost = RunFailed(code="log_failed", message="The log of this run cannot be written.")
            fold.feed(Entry(after + 1, 1, run.changed_ms, lost))
    return fold


async def over(run: TaskRun) -> None:
    """Watch the run to its end."""
    async with run.watch((await run.bounds()).last) as batches:
        async for _ in batches:
            pass


async def is_over(run: TaskRun) -> bool:
    """Whether the task whose newest run this is can come to nothing else."""
    return run.status not in LIVE and not (run.status == "interrupted" and await run.goes_on())
