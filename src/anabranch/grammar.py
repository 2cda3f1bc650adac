"""The law of a stream: which event may follow which, and what happens to one that may not.

A run is a tree of agents; each agent has *parts*: messages, reasoning, tool calls, steps, activities, interrupts. Many
may be open at once. Every part is keyed by ``(kind, agent, local id)`` and is in one state:

    ABSENT --> OPEN --> CLOSED --> DONE

A message opens, takes text and closes. A tool call opens, takes argument fragments, closes when they are complete, and
is done when the tool returned. An agent opens and closes.

``law.LAW`` says, for a part's kind and state, what each event does. There are three outcomes:

*pass*      the event is legal and moves the part to its next state.
*repair*    the event is made legal, and counted in ``Grammar.repairs`` as ``rule:EventType``: ``open`` opens what the
            source forgot to open, ``close`` closes what it forgot to close, ``renew`` opens a continuation under a new
            id for late content, ``drop`` removes a duplicate, ``ask`` ends a run as interrupted that left a question
            open.
*refuse*    no row: the event cannot be repaired without losing or inventing content. Its agent fails at once, with the
            code ``unlawful`` and a message that names the event and what is wrong with it. Only the root's failure is
            the run's; a sub-agent fails alone, after it was opened or continued if it was not open.

Content is never dropped, except what a finished call says again (a stray fragment after its arguments ended, output
after its result), what follows the end of the run, and what an agent that failed as ``unlawful`` sends after that, or
the agents below it. Duplicates are found by id, never by comparing text.

**Agents.** What comes from an ended agent opens a continuation of it (``AgentStarted.continues``), which takes its
parts over; one that failed as ``unlawful`` (also by its source's own word) has none. An ended agent that is *announced*
again is a new invocation, however it ended: its local ids start afresh. An agent nobody announced becomes a visible
``unattributed`` lane, never the root. A sub-agent that ends the *run* ends itself alone.

**The end.** Exactly one terminal event leaves, last, on every path, after everything open was closed, children before
parents. Public ids are minted here and nowhere else; the machine has no clock, no random and no I/O, so the same items
always give the same events. ``Grammar.from_log`` restores it on another replica: it goes on as if it had never stopped,
except that it does not know half characters that were held back, and counts repairs from zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from . import events as ev
from . import owed
from .encodable import checked
from .errors import Cancelled, SourceError, describe, scrub
from .law import (
    ABSENT,
    ADD,
    AGENT,
    CALL,
    CLOSE,
    DELTAS,
    DONE,
    DROP,
    LANE,
    LAW,
    OPEN,
    OPENERS,
    PASS,
    REFERENCES,
    RENEW,
    RUN,
    SCOPE,
    SUBJECT,
    TEXTS,
    UNLAWFUL,
    Unlawful,
    ruling,
)
from .ledger import Ledger
from .parts import Part
from .recall import recall
from .scribe import Scribe


class Grammar:
    """One run's law. ``feed`` each event of a source in order, then ``close``; both return the legal events to log.

    Neither raises: what is wrong with a stream becomes its last event. ``repairs`` counts, by rule, what had to be
    mended; ``ended`` is true once the terminal event has left.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._parts = self._ledger.parts
        self._scribe = Scribe(self._ledger)

    @classmethod
    def from_log(cls, events: Iterable[ev.Event]) -> Grammar:
        """The grammar that let ``events`` out, ready to go on: same ids, same open parts, same answer."""
        return cls(recall(events))

    @property
    def repairs(self) -> Counter[str]:
        """How often what was mended, by ``rule:EventType``."""
        return self._scribe.repairs

    @property
    def ended(self) -> bool:
        """Whether the terminal event has left."""
        return self._ledger.run == DONE

    def feed(self, event: ev.Event) -> list[ev.Event]:
        """The legal events that ``event`` becomes: itself with public ids, none, or several."""
        out = self._scribe.out = []
        try:
            if not self._continue(event):
                self._obey(event)
        except Unlawful as flaw:
            self._refuse(event, checked(owed.refusal(event, flaw)))
        return out

    def close(self, error: BaseException | None = None) -> list[ev.Event]:
        """End the run: because of ``error``, or because the source stopped without a terminal event (also an error)."""
        out = self._scribe.out = []
        if not self.ended:
            text = "The agent's stream stopped without an end."
            flaw = SourceError(text, code="no_end") if error is None else describe(error)
            cancelled = isinstance(flaw, Cancelled)
            self._scribe.end(ev.RunFinished(outcome="cancelled") if cancelled else owed.failure(flaw))
        return out

    # --- deciding ----------------------------------------------------------------------------------------------

    def _continue(self, event: Any) -> bool:
        """The hot path: a fragment of something open needs no other check, for its agent must be open too."""
        spot = DELTAS.get(type(event))
        if spot is None:
            return False
        try:
            part = self._parts.find(spot[0], event.agent, getattr(event, spot[1]))
        except Exception:  # whatever a wrong id raises when it is hashed; the other path checks ids
            return False
        if part is None or part.state != OPEN or type(event.delta) is not str:
            return False
        self._scribe.fragment(part, event.delta)
        return True

    def _obey(self, event: Any) -> None:
        row = LAW[RUN, self._ledger.run].get(type(event))
        if row is None and not self.ended:
            raise Unlawful("the run has not started" if type(event) in ev.EVENT_TYPES else "it is not an event")
        if row is None or row[0] == DROP:
            self._scribe.count(DROP, event)
            return
        event = checked(event)
        if self._parts.is_barred(event.parent if isinstance(event, ev.AgentStarted) else event.agent):
            self._scribe.count(DROP, event)
        elif isinstance(event, ev.RunFinished | ev.RunFailed):
            self._finished(event)
        elif isinstance(event, ev.RunResumed):
            self._resumed(event)
        elif isinstance(event, ev.RunStarted):
            self._scribe.write(replace(event, agent=ev.ROOT))
        elif SUBJECT[type(event)][0] == SCOPE:
            self._scribe.write(replace(event, agent=self._enter(event.agent, event)))
        elif type(event) not in DELTAS or event.delta:
            self._scoped(event)

    def _refuse(self, event: Any, end: ev.AgentFailed) -> None:
        barred = self._parts.is_barred(end.agent)
        self._scribe.count(DROP if barred else "refuse", event)
        if end.agent == ev.ROOT or self._ledger.run != OPEN:
            self._scribe.end(owed.failure(SourceError(end.message, code=UNLAWFUL)))
        elif not barred:
            self._enter(end.agent, event)
            self._scoped(end)

    def _scoped(self, event: Any) -> None:
        """An event about a part of some agent: what the law of the part says, once the agent is open."""
        kind, field = SUBJECT[type(event)]
        lane, id = event.agent, getattr(event, field)
        if kind == AGENT:
            lane = event.parent if isinstance(event, ev.AgentStarted) else ev.ROOT
        part = self._parts.find(kind, ev.ROOT if kind == AGENT else lane, id)
        if part is None and isinstance(event, ev.InterruptResolved):
            part = self._parts.named(id, kind)  # whoever answers knows the public id
        outcome, state = ruling(kind, part.state if part else ABSENT, event)
        if outcome == DROP:
            self._scribe.count(DROP, event)
            return
        if kind == AGENT and (not id or id in self._parts.lineage(lane)):
            raise Unlawful("an agent is started and ended by the agents above it, the root agent by the run")
        owner = self._enter(lane, event)
        if part is None and isinstance(event, ev.InterruptResolved):
            part = self._parts.adopt(Part(kind, lane, id, id, owner), public=False)  # asked in an earlier run
        elif part is None:
            part = self._parts.claim(kind, lane, id)
        elif kind == AGENT:
            part = self._parts.again(part, lane) if isinstance(event, ev.AgentStarted) else part
        else:
            self._parts.rehome(part, owner)
        while outcome != PASS:
            self._scribe.count(outcome, event)
            part = self._mended(outcome, part)
            outcome, state = ruling(kind, part.state, event)
        self._pass(part, event, state)

    def _enter(self, agent: str, event: ev.Event) -> str:
        """The public id of ``agent``, which is open afterwards, as are the agents above it."""
        lane = self._parts.lane(agent)
        if lane is not None and lane.state == OPEN:
            return lane.public
        for local in reversed([*self._parts.lineage(agent)]):
            lane = self._parts.claim(AGENT, ev.ROOT, local)
            outcome = LANE[lane.state]
            if outcome != PASS:
                self._scribe.count(outcome, event)
                self._mended(outcome, lane)
        return self._parts.owner(agent)

    def _mended(self, outcome: str, part: Part) -> Part:
        """The part that ``part`` is, or that goes on from it, when the law says ``outcome``."""
        if outcome == RENEW:
            return self._scribe.renew(part)
        if outcome == ADD:
            self._scribe.start(part)
        else:
            self._scribe.finish(part)
        return part

    # --- passing -----------------------------------------------------------------------------------------------

    def _pass(self, part: Part, event: Any, state: str) -> None:
        text = getattr(event, TEXTS.get(type(event), ""), None)
        if isinstance(text, str):
            self._scribe.fragment(part, text)
            return
        if part.kind == CALL or state != part.state:
            self._scribe.release(part)
        event = self._published(part, event)
        if isinstance(event, ev.AgentFinished | ev.AgentFailed):
            self._scribe.end_agent(part, event)
        else:
            self._scribe.write(event, part, state)

    def _published(self, part: Part, event: Any) -> Any:
        """``event`` with public ids in the place of local ones, and what only the grammar knows."""
        changes: dict[str, Any] = {SUBJECT[type(event)][1]: part.public}
        if part.kind != AGENT:
            changes["agent"] = part.owner
        if type(event) in OPENERS:
            changes["origin_id"] = part.id
        if type(event) in REFERENCES:
            changes |= self._named(part, event)
        match event:
            case ev.AgentStarted():
                changes |= {"parent": part.owner, "continues": None}
            case ev.AgentFailed():
                changes["message"] = scrub(event.message)
            case ev.MessageFinished() if event.phase == "undetermined":
                changes["phase"] = part.start.phase
            case ev.ToolReturned():
                changes["message_id"] = self._parts.mint()
        return replace(event, **changes)

    def _named(self, part: Part, event: Any) -> dict[str, Any]:
        """The public id of a part that ``event`` names beside its own, and the local one while that is not open."""
        field, kind, scope = REFERENCES[type(event)]
        if local := getattr(event, field):
            if isinstance(event, ev.MessageReset) and local == part.id:
                named = self._parts.successor(part)  # the retry streams under the same local id
            else:
                named = self._parts.claim(kind, getattr(event, scope), local)
            if isinstance(event, ev.ToolCallStarted) and named.home != part.owner:
                named = self._parts.successor(named)  # a call cannot be in a message of an invocation that has ended
            return {field: named.public, "ref_origin_id": local if named.state == ABSENT else ""}
        if isinstance(event, ev.ToolCallStarted):
            return {field: self._parts.turn(event.agent).public, "ref_origin_id": ""}
        return {"ref_origin_id": ""}

    # --- the run -----------------------------------------------------------------------------------------------

    def _finished(self, event: ev.Terminal) -> None:
        if event.agent != ev.ROOT:
            self._scribe.count(CLOSE, event)
            self._scoped(owed.agent_end_of(event))
            return
        if isinstance(event, ev.RunFinished):
            if event.outcome == "success" and self._ledger.asked:
                self._scribe.count("ask", event)
                event = replace(event, outcome="interrupted")
            if event.outcome == "interrupted" and not self._ledger.asked:
                raise Unlawful("it ends interrupted and no question is open")
        self._scribe.end(event)

    def _resumed(self, event: ev.RunResumed) -> None:
        void = dict.fromkeys(self._ledger.void(event))
        for part in reversed(void):
            if part.state == OPEN:
                self._scribe.finish(part)
        messages = tuple(part.public for part in void if part.kind != CALL)
        calls = tuple(part.public for part in void if part.kind == CALL)
        self._scribe.write(replace(event, agent=ev.ROOT, voided_message_ids=messages, voided_call_ids=calls))
