"""What each method does, whatever its binding: finds runs, folds them to tasks, follows them. Decides little.

A *task* is a chain of runs: one that stopped to ask something is continued by the run that answers it. All that is
known of a task is in the logs of its runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from ...errors import ClientError, Conflict, NotFound
from ...identity import Principal
from ...request import RunRequest
from .._gate import Gate, TaskRun
from . import caipe, listing, messages, wire
from .following import LIVE, caipe_folded, chained, folded, followed, is_over, modern, over, snapshot
from .parse import Call
from .profile import Profile
from .task import TaskFold

Payload = dict[str, Any]
Frames = AbstractAsyncContextManager[AsyncIterator[bytes]]

_LOOKS = 5  # at a task whose runs are being forgotten

CANCEL_S = 5.0
"""How long a CancelTask waits for the end of the run."""

_STATUSES = {
    wire.SUBMITTED: ("queued",),
    wire.WORKING: ("running",),
    wire.COMPLETED: ("succeeded",),
    wire.FAILED: ("failed",),
    wire.CANCELED: ("cancelled",),
    wire.INPUT_REQUIRED: ("interrupted",),
    wire.AUTH_REQUIRED: ("interrupted",),
    wire.REJECTED: (),
}


class Caller(NamedTuple):
    """Who asks which agent, and the id of the last event that they have of the stream they ask for (``""``: none)."""

    principal: Principal
    agent: str
    seen: str = ""


class Methods:
    """The methods. Each raises ``ClientError`` for what ``refusals`` knows; tasks are told in the JSON of 1.0."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.single = {
            "SendMessage": self.send,
            "GetTask": self.get,
            "CancelTask": self.cancel,
            "ListTasks": self.list,
        }
        self.streaming = {"SendStreamingMessage": self.stream, "SubscribeToTask": self.subscribe}

    # --- one answer --------------------------------------------------------------------------------------------

    async def send(self, caller: Caller, call: Call) -> Payload:
        """The task that the message starts, or goes on with: when it is over or asks something, or at once."""
        sent = _sent(call)
        run = (await self._started(caller, call, sent))[-1]
        if not sent.at_once:
            await over(run)
        fold = await self._now(caller, run.task_id, call.profile)
        return fold.task(modern(call.profile), sent.history_length)

    async def get(self, caller: Caller, call: Call) -> Payload:
        """The task as it is."""
        fold = await self._now(caller, call.params.id, call.profile)
        return fold.task(modern(call.profile), call.params.history_length)

    async def cancel(self, caller: Caller, call: Call) -> Payload:
        """The task after its end, or as it is when that takes too long."""
        run: TaskRun | None = (await self._task(caller, call.params.id))[-1]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                while run is not None:
                    run = await self._stopped(caller, run)
        fold = await self._now(caller, call.params.id, call.profile)
        return fold.task(modern(call.profile))

    async def list(self, caller: Caller, call: Call) -> Payload:
        """A page of the caller's tasks with the agent, those that changed last first."""
        asked = listing.listing(call.params)
        page, total = await self._gate.tasks(
            caller.principal,
            agent=caller.agent,
            thread_id=asked.context_id,
            statuses=None if asked.state is None else _STATUSES[asked.state],
            since_ms=asked.since_ms,
            before=asked.before,
            limit=asked.size + 1,
        )
        shown, profile = page[: asked.size], modern(call.profile)
        folds = []
        for run in shown:
            with contextlib.suppress(NotFound):  # it is gone by now
                folds.append(await self._now(caller, run.task_id, profile))
        if asked.state in wire.INTERRUPTED:  # the table does not tell these two apart
            folds = [fold for fold in folds if fold.state == asked.state]
        tasks = [fold.task(profile, asked.history_length, asked.artifacts) for fold in folds]
        more = listing.page_token(shown[-1].changed_ms, shown[-1].task_id) if len(page) > len(shown) else ""
        return {"tasks": tasks, "nextPageToken": more, "pageSize": len(tasks), "totalSize": total}

    # --- streams -----------------------------------------------------------------------------------------------

    async def stream(self, caller: Caller, call: Call) -> Frames:
        """The run that the message starts, from its start, or after what the caller has seen of it."""
        *earlier, run = await self._started(caller, call, _sent(call))
        seen = caller.seen if caller.seen.rpartition(":")[0] == run.run_id else ""
        return (await followed(call, earlier, run, seen)).frames()

    async def subscribe(self, caller: Caller, call: Call) -> Frames:
        """The task as it is, then what comes after that; or only what comes after what the caller has seen.

        To its end, also when it asks something meanwhile; a client of 0.3 takes a question for the end.
        """
        runs = await self._task(caller, call.params.id)
        owner = caller.seen.rpartition(":")[0]
        at = next((number for number, run in enumerate(runs) if run.run_id == owner), None)
        if at is not None:
            follower = await followed(call, runs[:at], runs[at], caller.seen)
            if not follower.over or at + 1 < len(runs):
                return chained(call, runs[at], follower)
        if await is_over(runs[-1]):
            raise _unsupported(f"task {call.params.id!r} is over: get it instead")
        return chained(call, runs[-1], follower if at is not None else await snapshot(call, runs[:-1], runs[-1]))

    # --- tasks -------------------------------------------------------------------------------------------------

    async def _task(self, caller: Caller, task_id: str) -> Sequence[TaskRun]:
        """The runs of the caller's task with the agent, oldest first."""
        runs = await self._gate.task(caller.principal, task_id)
        if runs[-1].agent != caller.agent:
            raise NotFound(f"there is no task {task_id[:80]!r}")
        return runs

    async def _now(self, caller: Caller, task_id: str, profile: Profile) -> TaskFold:
        """The task as it is, of what is kept of it."""
        for _ in range(_LOOKS):
            runs = await self._task(caller, task_id)
            with contextlib.suppress(NotFound):  # an older run of it went meanwhile
                return await folded(runs, profile)
        return await folded(await self._task(caller, task_id), profile)

    async def _stopped(self, caller: Caller, run: TaskRun) -> TaskRun | None:
        """Cancel a run of a task and wait for its end; the run that is to be cancelled after it.

        There is one when the task came to a question, or its question was answered, just before.
        """
        try:
            await over(await self._gate.cancel(caller.principal, run.run_id))
        except Conflict as flaw:
            newest = (await self._task(caller, run.task_id))[-1]
            if (newest.run_id, newest.status) == (run.run_id, run.status):
                text = f"task {run.task_id!r} cannot be cancelled: {flaw}"
                raise ClientError(text, code="run_over") from None
            return newest
        newest = (await self._task(caller, run.task_id))[-1]
        return newest if newest.status in LIVE or newest.status == "interrupted" else None

    async def _started(self, caller: Caller, call: Call, sent: messages.Sent) -> Sequence[TaskRun]:
        """The run that answers the message, last, and before it the runs that it continues."""
        task_id = sent.task_id
        if task_id is None and call.profile.caipe and sent.context_id:
            task_id = await self._waiting(caller, sent)
        if task_id is None:
            return [await self._start(caller, sent, sent.request())]
        runs = await self._task(caller, task_id)
        context_id = runs[-1].thread_id
        if sent.context_id not in (None, context_id) and not call.profile.caipe:
            text = f"message.contextId cannot be used: the task is in {context_id!r}; send that or none"
            raise ClientError(text, code="bad_input")
        again = next((number for number, run in enumerate(runs) if run.run_id == sent.run_id), None)
        if again is not None:
            questions = await runs[again].answers()
        elif runs[-1].status in LIVE:
            raise _unsupported(f"task {task_id!r} is busy: wait until it asks something, or cancel it")
        elif not (questions := await runs[-1].asked()):
            raise _unsupported(f"task {task_id!r} is over: send the message without a taskId")
        earlier, request = runs[:again], sent.request(context_id, questions)
        if questions and call.profile.caipe:
            request = caipe.resumed(request, (await caipe_folded(earlier)).asked)
        return [*earlier, await self._start(caller, sent, request)]

    async def _waiting(self, caller: Caller, sent: messages.Sent) -> str | None:
        """The task in the message's context that waits for an answer, or has got this one."""
        page, _ = await self._gate.tasks(caller.principal, agent=caller.agent, thread_id=sent.context_id, limit=1)
        runs = await self._task(caller, page[0].task_id) if page else ()
        if any(run.run_id == sent.run_id for run in runs) or (runs and await runs[-1].asked()):
            return page[0].task_id
        return None

    async def _start(self, caller: Caller, sent: messages.Sent, request: RunRequest) -> TaskRun:
        try:
            return await self._gate.start(caller.principal, caller.agent, request)
        except Conflict as flaw:
            if flaw.code == "run_id_taken":
                text = (
                    f"message.messageId cannot be used: {sent.message.id[:80]!r} was sent before with another content"
                )
                raise ClientError(f"{text}, or to another agent; send a new one", code=flaw.code) from None
            if flaw.code == "thread_busy":
                text = (
                    f"context {request.thread_id!r} is busy with another message: wait for its end, or use another one"
                )
                raise Conflict(text, code=flaw.code) from None
            raise


def _sent(call: Call) -> messages.Sent:
    """The message that a call sends."""
    return caipe.sent(call.params) if call.profile.caipe else messages.sent(call.params)


def _unsupported(text: str) -> ClientError:
    return ClientError(text, code="unsupported")
