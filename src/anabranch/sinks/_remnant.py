"""A run whose first entries are gone, as far as it can still be told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import events as ev
from ..law import AGENT, OPENERS, SCOPE, SUBJECT
from ..log._base import Entry
from ._base import Encoder

_STARTS = OPENERS | {ev.StepStarted, ev.StateSnapshot}
_STATE = frozenset({ev.StateSnapshot, ev.StateDelta})


class Remnant:
    """An encoder in front of ``encoder`` that keeps from it what began in the entries that are gone.

    What it writes depends on where it was begun, so its state is nobody else's.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._lanes = {ev.ROOT}
        self._begun: set[tuple[str, str, str]] = set()

    @property
    def ended(self) -> bool:
        """Whether the last frame has been written."""
        return self._encoder.ended

    def feed(self, entry: Entry) -> Sequence[bytes]:
        """The frames of ``entry``; none when its part began before."""
        return self._encoder.feed(entry) if self._is_whole(entry.event) else ()

    def state(self) -> bytes:
        """What the encoder knows."""
        return self._encoder.state()

    def close(self, error: BaseException | None = None) -> Iterable[bytes]:
        """What the encoder owes."""
        return self._encoder.close(error)

    def _is_whole(self, fact: ev.Event) -> bool:
        if type(fact) not in SUBJECT:
            return True  # of the run
        kind, field = SUBJECT[type(fact)]
        lane = fact.agent
        if kind == AGENT:
            lane = fact.parent if isinstance(fact, ev.AgentStarted) else ev.ROOT
        if lane not in self._lanes:
            return False
        if kind == SCOPE and type(fact) not in _STATE:
            return True
        # The parts of an agent that ended may go on in another one; steps and states are told apart by agent.
        named = lane if kind == SCOPE or isinstance(fact, ev.StepStarted | ev.StepFinished) else ""
        part = (kind, named, getattr(fact, field))
        if type(fact) in _STARTS:
            self._begun.add(part)
            if isinstance(fact, ev.AgentStarted):
                self._lanes.add(fact.agent)
        return part in self._begun
