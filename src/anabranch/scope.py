"""How code inside a tool reaches the run that called it, from any framework.

``current()`` gives the scope of the running tool or agent. A tool that calls another agent opens a *lane* in it::

    lane = current().lane("komodor")
    lane.emit(TextDelta(message_id="m", delta="..."))
    lane.finish()

Events emitted in a scope are relative to it: ``agent=""`` is the agent whose scope it is, and ids are local to it. The
source that runs the agent says how an event travels (``emit``), so that it keeps its place among the framework's own
items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

from msgspec.structs import replace

from .events import ROOT, AgentFailed, AgentFinished, AgentStarted, Event, Remote

Emit = Callable[[Event], None]
"""Takes one event into the run. Never blocks, never raises because of a slow reader."""


class Scope:
    """A place in a run's tree of agents where events can be emitted.

    Inside a LangGraph graph only where the tool's or node's context is; elsewhere on any thread.
    """

    __slots__ = ("_emit", "_numbers", "_taken", "agent")

    def __init__(self, emit: Emit, agent: str = ROOT) -> None:
        self._emit = emit
        self._numbers: dict[str, Iterator[int]] = {}
        self._taken: dict[str, object] = {}
        self.agent = agent

    def emit(self, event: Event) -> None:
        """Emit ``event``, whose ``agent`` is relative to this scope."""
        self._emit(under(self.agent, event))

    def lane(
        self,
        name: str,
        *,
        id: str = "",
        call_id: str | None = None,
        remote: Remote | None = None,
        answers: bool = False,
    ) -> Lane:
        """Announce a sub-agent called ``name`` and return its scope. ``answers``: what it says is this agent's answer.

        ``id`` is its local id. The default is one that this scope has not used: the name, then ``name 2`` and so on.
        Whoever gives ids, or opens lanes of one agent through several scopes, gives different ones to lanes that may be
        open at once. The id of a lane that has ended may be used again: that is a new invocation, in which local ids
        start afresh.
        """
        lane = Lane(self._emit, join(self.agent, self._take(id) if id else self._fresh(name)))
        self._emit(
            AgentStarted(
                agent=lane.agent, name=name, parent=self.agent, call_id=call_id, remote=remote, answers=answers
            )
        )
        return lane

    def _fresh(self, name: str) -> str:
        plain = name.replace("/", "-") or "agent"  # in an id, a slash leads to an agent inside
        numbers = self._numbers.setdefault(plain, count(2))
        mine, id = object(), plain
        while self._taken.setdefault(id, mine) is not mine:
            id = f"{plain} {next(numbers)}"
        return id

    def _take(self, id: str) -> str:
        self._taken[id] = self
        return id


class Lane(Scope):
    """The scope of one sub-agent. End it once, with ``finish`` or ``fail``."""

    def finish(self, outcome: str = "success") -> None:
        """The sub-agent ended without an error; ``outcome`` as in ``AgentFinished``."""
        self._emit(AgentFinished(agent=self.agent, outcome=outcome))  # type: ignore[arg-type]  # checked by the grammar

    def fail(self, code: str, message: str) -> None:
        """The sub-agent failed. ``message`` is shown to users."""
        self._emit(AgentFailed(agent=self.agent, code=code, message=message))


_current: ContextVar[Scope | None] = ContextVar("anabranch_scope", default=None)


def current() -> Scope:
    """The scope of the code that calls this. Raises ``LookupError`` outside a run."""
    scope = _current.get()
    if scope is None:
        raise LookupError("no run: anabranch.current() works inside a tool or agent that anabranch runs")
    return scope


@contextmanager
def entered(scope: Scope) -> Iterator[Scope]:
    """Make ``scope`` the ``current()`` one in this context."""
    token = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(token)


def join(parent: str, agent: str) -> str:
    """The local id of ``agent`` as seen from above ``parent``."""
    return agent if parent == ROOT else f"{parent}/{agent}" if agent else parent


def under(parent: str, event: Event) -> Event:
    """``event`` as seen from above ``parent``: its agent and its agent's parent become relative to the scope above."""
    if parent == ROOT:
        return event
    if isinstance(event, AgentStarted):
        return replace(event, agent=join(parent, event.agent), parent=join(parent, event.parent))
    return replace(event, agent=join(parent, event.agent))
