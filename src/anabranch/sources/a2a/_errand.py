"""What of a request is sent to an agent, and where: into a task that waits, a context, or neither. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from ...errors import Cancelled
from ...events import Part, Remote
from ...request import RunRequest


class Errand(NamedTuple):
    """``text`` and ``data`` (``UNSET``: none) are what is said, ``more`` what is sent with it.

    ``is_answer``: the task had asked, and what it told before that is known.
    """

    text: str
    context_id: str
    task_id: str
    data: Any
    more: list[Part]
    is_answer: bool

    @property
    def message(self) -> dict[str, Any]:
        """For ``wire.user_message``."""
        return {"context_id": self.context_id, "task_id": self.task_id, "data": self.data, "more": self.more}


def errand(request: RunRequest, context_id: str = "", task_id: str = "", data: Any = UNSET) -> Errand:
    """What ``request`` sends; what is named beside it counts more. Raises ``Cancelled`` for a cancelled question."""
    waiting = None if task_id else _waiting(request)
    if waiting is None:
        context_id = context_id or request.contexts.get("", "")
        more = request.last_user_parts()
        return Errand(request.last_user_text(), context_id, task_id, data, more, is_answer=False)
    remote, payload = waiting
    if isinstance(payload, str):
        return Errand(payload, remote.context_id, remote.task_id, UNSET, [], is_answer=True)
    text = msgspec.json.encode(payload).decode()
    return Errand(text, remote.context_id, remote.task_id, payload, [], is_answer=True)


def _waiting(request: RunRequest) -> tuple[Remote, Any] | None:
    """The task that waits for an answer of this request, and the answer."""
    answers = {answer.interrupt_id: answer for answer in request.resume}
    for question in request.asked:
        answer = answers.get(question.origin_id) or answers.get(question.interrupt_id)
        if answer is None or question.remote is None or not question.remote.task_id:
            continue
        if answer.status == "cancelled":
            raise Cancelled("The question was cancelled.")
        return question.remote, answer.payload
    return None
