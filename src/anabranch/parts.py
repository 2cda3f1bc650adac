"""The parts of a run and their ids: what is open, where it belongs, what it is called in public.

Pure bookkeeping for ``grammar.Grammar``, which alone decides what happens to a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .events import ROOT
from .law import ABSENT, AGENT, CALL, CLOSED, MESSAGE, OPEN, STEP


class Part:
    """One part's place in the law. ``agent`` and ``id`` are local ids; ``owner`` and ``public`` are the public ones.

    An agent's ``agent`` is its parent. ``start`` is the public event that opened the part, ``held`` is half of a
    surrogate pair that waits for its other half, ``text`` collects what may be the run's answer.
    """

    __slots__ = ("agent", "held", "id", "kind", "owner", "public", "start", "state", "text")

    def __init__(self, kind: str, agent: str, id: str, public: str, owner: str) -> None:
        self.kind, self.agent, self.id, self.public, self.owner = kind, agent, id, public, owner
        self.state = ABSENT
        self.held = ""
        self.start: Any = None
        self.text: list[str] | None = None

    @property
    def home(self) -> str:
        """The public id of the invocation that readers know it in, even after a continuation took it over."""
        return self.start.agent if self.start else self.owner


class Parts:
    """All parts of one run, by local and by public id, and those that are owed something, in the order they opened."""

    def __init__(self) -> None:
        self.run_id = ""
        self.minted = 0
        self.turns: dict[str, Part] = {}
        """The message of each agent's current model turn."""
        self.barred: set[str] = set()
        """Local ids of the agents that failed as unlawful, and were not called again since."""
        self._local: dict[tuple[str, str, str], Part] = {}
        self._public: dict[str, Part] = {}
        self._owed: dict[Part, None] = {}

    # --- ids ---------------------------------------------------------------------------------------------------

    def mint(self) -> str:
        """The next public id of the run."""
        self.minted += 1
        return f"{self.run_id}:{self.minted}"

    def find(self, kind: str, agent: str, id: str) -> Part | None:
        """The part with these local ids, if it is known."""
        return self._local.get((kind, agent, id))

    def named(self, public: str, kind: str) -> Part | None:
        """The part with this public id, if it is known and of this kind. Steps have none."""
        part = self._public.get(public)
        return part if part is not None and part.kind == kind else None

    def lane(self, agent: str) -> Part | None:
        """The newest invocation of the agent with this local id, if it is known."""
        return self._local.get((AGENT, ROOT, agent))

    def owner(self, agent: str) -> str:
        """The public id of the agent's newest invocation, which must be known."""
        return ROOT if agent == ROOT else self._local[AGENT, ROOT, agent].public

    def claim(self, kind: str, agent: str, id: str) -> Part:
        """The part with these local ids; a new one, absent and with a minted id, when it is not known.

        A step's name is what clients see, so it is its own public id.
        """
        part = self.find(kind, ROOT if kind == AGENT else agent, id)
        return part or self.adopt(Part(kind, agent, id, id if kind == STEP else self.mint(), self.owner(agent)))

    def again(self, lane: Part, parent: str) -> Part:
        """A new invocation, absent, of an agent that was called before."""
        self.vacate(lane.id)
        return self.adopt(Part(AGENT, parent, lane.id, self.mint(), self.owner(parent)))

    def successor(self, part: Part) -> Part:
        """A new part, absent, that takes over the local ids of ``part``."""
        return self.adopt(Part(part.kind, part.agent, part.id, self.mint(), self.owner(part.agent)))

    def adopt(self, part: Part, *, public: bool = True) -> Part:
        """Put ``part`` in the place of whatever had its local ids. The public id of an earlier question is not ours."""
        self._local[self._key(part)] = part
        return self.publish(part) if public else part

    def publish(self, part: Part) -> Part:
        """Make ``part`` known by its public id alone."""
        if part.kind != STEP:
            self._public[part.public] = part
        return part

    def forget(self, part: Part) -> None:
        """Free the local ids of ``part`` for a part that has nothing to do with it."""
        if self._local.get(self._key(part)) is part:
            del self._local[self._key(part)]
        if self.turns.get(part.agent) is part:
            del self.turns[part.agent]

    def vacate(self, agent: str) -> None:
        """Free every local id in the agent: it is called again, which has nothing to do with the time before."""
        for part in [part for part in self._local.values() if part.agent == agent and part.kind != AGENT]:
            self.forget(part)

    def turn(self, agent: str) -> Part:
        """The message of the agent's current model turn; a new one, known by no local id, when there is none."""
        if agent not in self.turns or self.turns[agent].home != self.owner(agent):
            self.turns[agent] = self.publish(Part(MESSAGE, agent, "", self.mint(), self.owner(agent)))
        return self.turns[agent]

    @staticmethod
    def _key(part: Part) -> tuple[str, str, str]:
        return part.kind, ROOT if part.kind == AGENT else part.agent, part.id

    # --- what is open ------------------------------------------------------------------------------------------

    def move(self, part: Part, state: str) -> None:
        """Put ``part`` in ``state``. It is owed its end while it is open, a call its result too."""
        part.state = state
        if state == OPEN or (state == CLOSED and part.kind == CALL):
            self._owed[part] = None
        else:
            self._owed.pop(part, None)

    def rehome(self, part: Part, owner: str) -> None:
        """Let the invocation ``owner`` take ``part`` over: it ends before its new owner does."""
        if part.owner != owner:
            part.owner = owner
            if part in self._owed:
                del self._owed[part]
                self._owed[part] = None

    def owed(self) -> list[Part]:
        """The parts that are owed something, oldest first."""
        return list(self._owed)

    def owed_within(self, agent: Part) -> list[Part]:
        """What is owed something in ``agent`` and its open sub-agents, oldest first; not ``agent`` itself."""
        lanes = {agent.id}
        within = []
        for part in self._owed:  # an agent opens after the one above it, and before what is in it
            if part.agent in lanes:
                within.append(part)
                if part.kind == AGENT:
                    lanes.add(part.id)
        return within

    def lanes(self, part: Part) -> list[Part]:
        """The invocations that ``part`` was opened in, innermost first, without the root."""
        lanes: list[Part] = []
        lane = self.named(part.home, AGENT)
        while lane is not None:
            lanes.append(lane)
            lane = self.named(lane.start.parent, AGENT)
        return lanes

    def is_live(self, part: Part) -> bool:
        """Whether the invocation that ``part`` belongs to has not ended."""
        lane = self.lane(part.agent)
        return part.owner == ROOT or (lane is not None and lane.public == part.owner and lane.state == OPEN)

    def is_barred(self, agent: str) -> bool:
        """Whether the agent or one above it is barred. Above one that is not known is what its id begins with."""
        while self.barred and agent != ROOT:
            if agent in self.barred:
                return True
            lane = self.lane(agent)
            agent = lane.agent if lane else agent.rpartition("/")[0]
        return False

    def lineage(self, agent: str) -> Iterator[str]:
        """``agent`` and the agents above it, as local ids, without the root."""
        while agent != ROOT:
            yield agent
            lane = self.lane(agent)
            agent = lane.agent if lane else ROOT
