"""The events that the grammar writes in a source's place: starts that were forgotten, ends that are owed. Pure."""

from __future__ import annotations

from typing import Any

from . import events as ev
from .encodable import whole
from .errors import AnabranchError
from .law import CALL, MESSAGE, REASONING, UNLAWFUL
from .parts import Part

UNATTRIBUTED = "unattributed"
"""Name of an agent that nobody announced."""

_UNRETURNED = {
    "success": "this tool reported no result.",
    "cut": "the arguments of this call are incomplete.",
    "failed": "a failure ended the agent before this tool returned.",
    "cancelled": "the agent was cancelled before this tool returned.",
}


def start(part: Part, turn: Part | None) -> Any:
    """The start of an agent, a message, reasoning or a call (in the model turn ``turn``) that has none."""
    if turn is not None:
        id = turn.public
        return ev.ToolCallStarted(
            agent=part.owner, call_id=part.public, name="unknown", message_id=id, origin_id=part.id
        )
    if part.kind == MESSAGE:
        return ev.MessageStarted(agent=part.owner, message_id=part.public, origin_id=part.id)
    if part.kind == REASONING:
        return ev.ReasoningStarted(agent=part.owner, reasoning_id=part.public, origin_id=part.id)
    return ev.AgentStarted(agent=part.public, name=UNATTRIBUTED, parent=part.owner, origin_id=part.id)


def finish(part: Part) -> ev.Event:
    """The end of a message, reasoning, the arguments of a call, or a step."""
    if part.kind == MESSAGE:
        return ev.MessageFinished(agent=part.owner, message_id=part.public, phase=part.start.phase)
    if part.kind == REASONING:
        return ev.ReasoningFinished(agent=part.owner, reasoning_id=part.public)
    if part.kind == CALL:
        return ev.ToolCallFinished(agent=part.owner, call_id=part.public)
    return ev.StepFinished(agent=part.owner, name=part.public)


def result(part: Part, message_id: str, why: str, cut: bool) -> ev.ToolReturned:
    """The result of a call that will have no other: without one the thread's history is invalid for every provider.

    ``why`` is how its agent ended, ``cut`` whether its arguments are incomplete.
    """
    text = f"Error: {_UNRETURNED['cut' if cut and why in ('success', 'interrupted') else why]}"
    return ev.ToolReturned(
        agent=part.owner, call_id=part.public, content=text, message_id=message_id, is_error=True, error=text
    )


def agent_end(part: Part, why: str) -> ev.Event:
    """The end of an agent, when what called it ended by ``why``. Only an end of its own would be a success."""
    if why == "cancelled":
        return ev.AgentFinished(agent=part.public, outcome="cancelled")
    if why == "interrupted":
        return ev.AgentFinished(agent=part.public, outcome="suspended")
    if why == "success" and part.start.name == UNATTRIBUTED:
        return ev.AgentFinished(agent=part.public)
    text = "stopped without an end" if why == "success" else "was stopped: what called it failed"
    return ev.AgentFailed(agent=part.public, code="no_end", message=f"The agent {part.start.name} {text}.")


def agent_end_of(terminal: ev.Terminal) -> ev.Event:
    """The end of a sub-agent that said it ended the run."""
    if isinstance(terminal, ev.RunFailed):
        return ev.AgentFailed(agent=terminal.agent, code=terminal.code, message=terminal.message)
    outcome = "suspended" if terminal.outcome == "interrupted" else terminal.outcome
    return ev.AgentFinished(agent=terminal.agent, outcome=outcome)


def refusal(event: Any, flaw: Exception) -> ev.AgentFailed:
    """The end of the agent that sent ``event``, which has this flaw. What names no sub-agent is the root's."""
    agent = getattr(event, "agent", None) if type(event) in ev.EVENT_TYPES else None
    text = f"The agent sent {type(event).__name__}, which is not lawful here: {flaw}."
    return ev.AgentFailed(agent=agent if isinstance(agent, str) else ev.ROOT, code=UNLAWFUL, message=text)


def failure(error: AnabranchError) -> ev.RunFailed:
    """The end of a run that failed with ``error``."""
    return ev.RunFailed(
        code=whole(str(error.code)), message=str(error), retryable=bool(error.retryable), side=error.side
    )
