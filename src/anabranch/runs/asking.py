"""A request on its way to become a run: where it belongs in its thread, and what its source is then asked."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from ..errors import Conflict
from ..request import Resume, RunRequest
from ._base import OnDisconnect, RunRecord
from .machine import Status
from .threads import Place, Turn, contexts, conversation, place


class Planned(msgspec.Struct, frozen=True):
    """A run that may be created, its place in the thread, and the request that its source gets."""

    record: RunRecord
    place: Place
    request: RunRequest


class Asking:
    """One caller's request. ``digest`` is of what is asked of whom: the same run id with another one is a conflict."""

    def __init__(self, request: RunRequest, principal: str, agent: str, on_disconnect: OnDisconnect) -> None:
        self.request, self.principal = request, principal
        self._agent, self._on_disconnect = agent, on_disconnect
        # The order of keys in a JSON object is no difference, and how the answer is read is none either.
        said = msgspec.json.encode(replace(request, dialect=""), order="sorted")
        self.digest = hashlib.sha256(agent.encode() + b"\0" + said).hexdigest()

    def after(self, turns: Sequence[Turn], at_ms: int) -> Planned:
        """The run that it makes in a thread with ``turns``.

        Raises ``Conflict`` ``unknown_interrupt`` when it answers a question that is not open, or was another agent's.
        """
        asked = self.request
        found = place(turns, asked.messages)
        answered = turns[-1] if asked.resume and turns else None
        if answered is not None:
            _refuse_if_of_another(answered.record, self._agent)
            found = _onward(found, answered, turns)
        key = uuid.uuid4().hex
        branch = key if found.forks else found.branch
        record = RunRecord(
            key=key,
            run_id=asked.run_id,
            principal=self.principal,
            thread_id=asked.thread_id,
            task_id=answered.record.task_id if answered else uuid.uuid4().hex,
            agent=self._agent,
            status=Status.QUEUED,
            digest=self.digest,
            created_ms=at_ms,
            continues=answered.record.run_id if answered else None,
            on_disconnect=self._on_disconnect,
            parent=found.parent,
            upto=found.upto,
            branch=branch,
            parent_run_id=asked.parent_run_id,
            dialect=asked.dialect,
            size=len(msgspec.json.encode(found.given)),
        )
        told = {message.id for message in found.history}
        rules = [each for each in asked.messages if each.role in ("system", "developer") and each.id not in told]
        request = replace(
            asked,
            messages=(*rules, *found.history, *found.given),
            news=len(found.given),
            resume=_named(asked.resume, answered),
            asked=answered.outcome.asked if answered and answered.outcome else (),
            contexts=contexts(turns, found.parent),
            memory_key=memory_key(record),
        )
        return Planned(record, found, request)


def _refuse_if_of_another(asked: RunRecord, agent: str) -> None:
    """What one agent has asked, no other understands the answer to."""
    if asked.agent != agent:
        problem = f"thread {asked.thread_id!r} waits for an answer to the agent {asked.agent!r}, not to {agent!r}"
        raise Conflict(problem, code="unknown_interrupt")


def memory_key(record: RunRecord) -> str:
    """The name of the conversation that a run belongs to; no two branches, threads or principals share one."""
    thread = f"{quote(record.principal, safe='')}:{record.thread_id}"
    return f"{record.branch}@{thread}" if record.branch else thread


def _onward(found: Place, answered: Turn, turns: Sequence[Turn]) -> Place:
    """An answer goes on from the run that asked, whatever the client's copy of the conversation looks like."""
    if not found.forks and found.parent == answered.record.key and not found.upto:
        return found
    known = {message.id for message in conversation(turns)}
    return place(turns, [message for message in found.given if message.id not in known])


def _named(answers: Sequence[Resume], turn: Turn | None) -> tuple[Resume, ...]:
    """``answers`` with the names that the source gave its questions."""
    if turn is None:
        return tuple(answers)
    asked = turn.outcome.asked if turn.outcome else ()
    names = {each.origin_id: each.origin_id for each in asked} | {each.interrupt_id: each.origin_id for each in asked}
    for answer in answers:
        if answer.interrupt_id not in names:
            known = ", ".join(repr(each.interrupt_id) for each in asked) or "none"
            problem = f"thread {turn.record.thread_id!r} has no open question {answer.interrupt_id!r}; open: {known}"
            raise Conflict(problem, code="unknown_interrupt")
    return tuple(replace(each, interrupt_id=names[each.interrupt_id] or each.interrupt_id) for each in answers)
