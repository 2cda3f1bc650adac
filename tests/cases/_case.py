"""What a case is, and short words to write one in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anabranch import events as ev

Items = list[ev.Event]


@dataclass(frozen=True)
class Case:
    """One run as a source tells it, with local ids, after its ``RunStarted``.

    ``text`` is what a reader has read in the end, by the agent's local id; ``repairs`` what the grammar had to mend;
    ``terminal`` the outcome of ``RunFinished`` or the code of ``RunFailed``. ``reported`` names the public report of a
    bug that the case stands for.
    """

    name: str
    items: Items
    text: Mapping[str, str] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    terminal: str = "success"
    reported: str = ""


DONE = ev.RunFinished()


def says(id: str, *deltas: str, agent: str = "", phase: ev.Phase = "answer") -> Items:
    """A whole message."""
    return [
        ev.MessageStarted(agent=agent, message_id=id, phase=phase),
        *text(id, *deltas, agent=agent),
        ev.MessageFinished(agent=agent, message_id=id, finish_reason="stop"),
    ]


def text(id: str, *deltas: str, agent: str = "") -> Items:
    """Pieces of a message's text."""
    return [ev.TextDelta(agent=agent, message_id=id, delta=delta) for delta in deltas]


def thinks(id: str, *deltas: str, agent: str = "", encrypted: str | None = None) -> Items:
    """A whole reasoning."""
    return [
        ev.ReasoningStarted(agent=agent, reasoning_id=id),
        *(ev.ReasoningDelta(agent=agent, reasoning_id=id, delta=delta) for delta in deltas),
        ev.ReasoningFinished(agent=agent, reasoning_id=id, encrypted=encrypted),
    ]


def calls(id: str, name: str, *fragments: str, turn: str = "t1", agent: str = "", client: bool = False) -> Items:
    """A tool call with all of its arguments."""
    executor = "client" if client else "server"
    return [
        ev.ToolCallStarted(agent=agent, call_id=id, name=name, message_id=turn, executor=executor),
        *args(id, *fragments, agent=agent),
        ev.ToolCallFinished(agent=agent, call_id=id),
    ]


def args(id: str, *fragments: str, agent: str = "") -> Items:
    """Pieces of a call's arguments."""
    return [ev.ToolArgsDelta(agent=agent, call_id=id, delta=fragment) for fragment in fragments]


def returns(id: str, content: str, agent: str = "", error: str | None = None) -> ev.Event:
    """A tool's result."""
    return ev.ToolReturned(agent=agent, call_id=id, content=content, is_error=error is not None, error=error)


def lane(agent: str, name: str, items: Iterable[ev.Event], call: str | None = None, parent: str = "") -> Items:
    """A sub-agent from its start to its end."""
    return [
        ev.AgentStarted(agent=agent, name=name, parent=parent, call_id=call),
        *items,
        ev.AgentFinished(agent=agent),
    ]


def woven(*lanes: Iterable[ev.Event]) -> Items:
    """Items of several lanes, one of each in turn, as parallel work arrives."""
    out: Items = []
    queues = [list(items) for items in lanes]
    while any(queues):
        out += [queue.pop(0) for queue in queues if queue]
    return out
