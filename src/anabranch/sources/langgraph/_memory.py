"""What a graph is asked to do: the conversation, or the news of one that it has, or answers to its questions.

A graph without a checkpointer gets all messages of the request. One with a checkpointer has the conversation itself,
one for each ``memory_key``: it gets what it has not seen, and a result for each call that an ended run left open. What
such a run did not come to is dropped and not caught up on: nothing runs again by itself.

A *cancelled* question is never answered in the user's place. LangChain's human-in-the-loop middleware is told that its
calls are rejected. Any other question is withdrawn: what asked it does not go on, its call gets an error for a result,
and the model reads that; without a call there is nobody to tell, and the run ends. Only where other questions are
answered at the same time, ``interrupt()`` returns None for the cancelled ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.graph import END
from langgraph.types import Command

from ...errors import ClientError, Conflict
from ...request import Resume, RunRequest
from .._foreign import entry, listed
from ._history import conversation, mended, restated, unseen
from .translate import BREAKPOINT

NOTHING = object()
"""The graph is not to be run."""

_WITHDRAWN = "Error: the user cancelled the question that this call had asked, so the call was not made."
_REJECTED = {"type": "reject", "message": "The user cancelled the question."}


async def given(graph: Any, request: RunRequest, config: Any) -> tuple[Any, list[BaseMessage]]:
    """The input of ``graph`` for ``request``, or ``NOTHING``; and results of calls that the graph does not tell itself.

    Raises ``ClientError`` when a question is answered that the graph has not asked.
    """
    checkpointed = bool(getattr(graph, "checkpointer", None))
    if request.resume:
        return await _answers(graph, request.resume, config, checkpointed)
    messages = request.messages
    stored = await _settled(graph, config) if checkpointed else []
    before = [*restated(messages, stored), *mended(stored, messages)]
    news = conversation(unseen(messages, stored, request.news) if stored else messages, stored)
    if request.news == 0:  # the model is not asked to write on what it said, which many providers refuse to do
        while news and news[-1].type == "ai":
            news.pop()
    return {"messages": [*before, *news]}, []


async def _answers(
    graph: Any, answers: Sequence[Resume], config: Any, checkpointed: bool
) -> tuple[Any, list[BaseMessage]]:
    if not checkpointed:
        message = "This agent keeps no checkpoints, so it cannot go on: compile it with a checkpointer."
        raise ClientError(message, code="not_resumable", status=409)
    state = await graph.aget_state(config)
    asked = {interrupt.id: interrupt.value for interrupt in state.interrupts}
    if state.next and not asked:
        asked = {BREAKPOINT: None}
    for answer in answers:
        if answer.interrupt_id not in asked:
            known = ", ".join(map(repr, asked)) or "none"
            raise Conflict(
                f"There is no open question {answer.interrupt_id!r}; open: {known}.", code="unknown_interrupt"
            )
    values = {each.interrupt_id: _value(each, asked[each.interrupt_id]) for each in answers}
    if all(each.status == "cancelled" for each in answers) and None in values.values():
        results = mended(await _settled(graph, config), otherwise=_WITHDRAWN)
        return {"messages": results} if results else NOTHING, [each for each in results if each.id is None]
    return None if BREAKPOINT in asked else Command(resume=values), []


def _value(answer: Resume, question: Any) -> Any:
    """What ``interrupt()`` returns."""
    if answer.status == "resolved":
        return answer.payload
    if entry(question, "type") == "tool_approval":
        return _REJECTED
    requests = entry(question, "action_requests")
    return {"decisions": [_REJECTED] * len(requests)} if isinstance(requests, list) else None


async def _settled(graph: Any, config: Any) -> list[BaseMessage]:
    """The messages that the graph has, once nothing is under way in it any more: what is done counts, the rest is not.

    New input alone would lose the results of parallel calls that were done when another one of them was stopped.
    """
    state = await graph.aget_state(config)
    if state.tasks:  # `next` leaves out those that are done and not saved
        await graph.aupdate_state(config, None, as_node=END)
        state = await graph.aget_state(config)
    return [message for message in listed(entry(state.values, "messages")) if isinstance(message, BaseMessage)]
