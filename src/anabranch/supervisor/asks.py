"""What the agents of one run are asked, and how: each in its context of this conversation, or in its task that waits.

Pure: a view of the run's request, and which contexts are in use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..encodable import whole
from ..events import Interrupted, Part
from ..request import Asked, Message, Resume, RunRequest

KEY = "__anabranch_asks"
"""Where a graph's tools find the ``Asks`` of their run, in its ``configurable``."""


class Asks:
    """One run's. ``RunRequest()`` fields it reads: ``contexts``, ``asked``, ``resume``."""

    def __init__(self, request: RunRequest) -> None:
        self._contexts = request.contexts
        self._asked = [asked for asked in request.asked if asked.remote is not None]
        self._answers = {answer.interrupt_id: answer for answer in request.resume}
        self._busy: set[str] = set()

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> Asks:
        """Those of the run that a graph's tool with this config belongs to; none, outside of ours."""
        found = ((config or {}).get("configurable") or {}).get(KEY)
        return found if isinstance(found, Asks) else cls(RunRequest(run_id="", thread_id=""))

    def open(self, name: str, call_id: str) -> Asked | None:
        """What the agent ``name`` wants to know of the user, which this call had asked in the run before.

        Told once. A call that its provider named like another one is known by its agent alone.
        """
        mine = [asked for asked in self._asked if asked.name == name]
        found = next((asked for asked in mine if asked.call_id == call_id), mine[0] if len(mine) == 1 else None)
        if found is not None:
            self._asked.remove(found)
        return found

    def answer(self, asked: Asked) -> Resume | None:
        """The user's answer to it, if this run brings one."""
        return self._answers.get(asked.origin_id) or self._answers.get(asked.interrupt_id)

    def withdrawn(self) -> list[Asked]:
        """The questions that the user does not want to answer: their tasks wait for nothing."""
        return [asked for asked in self._asked if self.is_withdrawn(asked)]

    def is_withdrawn(self, asked: Asked) -> bool:
        """Whether this run says that there will be no answer."""
        answer = self.answer(asked)
        return answer is not None and answer.status == "cancelled"

    @contextmanager
    def question(self, name: str, call_id: str, text: str, parts: Sequence[Part] = ()) -> Iterator[RunRequest]:
        """The request that asks the agent ``name``: ``text`` and what the user sent with it.

        While it is open, another one begins a context of its own.
        """
        context_id = "" if name in self._busy else self._contexts.get(name, "")
        mine = name not in self._busy
        self._busy.add(name)
        try:
            yield RunRequest(
                run_id=call_id,
                thread_id=call_id,
                messages=(Message(id=f"{call_id}-question", role="user", content=whole(text), parts=tuple(parts)),),
                contexts={"": context_id} if context_id else {},
            )
        finally:
            if mine:
                self._busy.discard(name)

    @contextmanager
    def follow_up(self, asked: Asked, call_id: str, payload: Any) -> Iterator[RunRequest]:
        """The request that brings the user's answer to the task that waits for it."""
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        self._busy.add(asked.name)
        try:
            yield RunRequest(
                run_id=call_id,
                thread_id=call_id,
                messages=(Message(id=f"{call_id}-answer", role="user", content=whole(text), is_answer=True),),
                asked=(asked,),
                resume=(Resume(interrupt_id=asked.interrupt_id, payload=payload),),
            )
        finally:
            self._busy.discard(asked.name)


def put(questions: tuple[Interrupted, ...], agent: str) -> Interrupted:
    """What the user is asked, in the place of all that the agent called ``agent`` asks at once.

    Of a question that comes from further down ``metadata.path`` names the agents on the way to it.
    """
    first = questions[0]
    said = [question.message or question.reason for question in questions]
    about = {key: value for question in questions for key, value in (question.metadata or {}).items()}
    return Interrupted(
        interrupt_id=first.interrupt_id,
        reason=first.reason,
        message="\n".join(said),
        schema=first.schema if len(questions) == 1 else None,
        expires_at=first.expires_at,
        remote=first.remote,
        metadata={**about, **_path(agent, about), "agent": agent},
    )


def _path(agent: str, about: dict[str, Any]) -> dict[str, Any]:
    below = about.get("path", about.get("agent"))
    names = below if isinstance(below, list) else [below]
    return {"path": [agent, *names]} if below and all(isinstance(name, str) for name in names) else {}
