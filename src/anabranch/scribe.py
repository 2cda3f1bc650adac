"""Writes the public events of a run, and closes what is open when something ends. Pure.

``grammar.Grammar`` decides; every event leaves through here, where the ledger takes its effect.

**Ends.** When an agent or the run ends, everything in it ends before, innermost first. A call is owed a result: when
its agent ends first it gets an error result, except when the agent waits for an answer, or when the call is complete,
the client's to execute, and the end is no failure.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from . import events as ev
from . import owed
from .encodable import is_encodable, split_held, whole
from .errors import scrub
from .law import ABSENT, AGENT, CALL, CLOSE, CLOSED, DONE, MESSAGE, OPEN, STEP, SUBJECT
from .ledger import Ledger
from .parts import Part

_OUTCOMES = {"success": "success", "suspended": "interrupted", "cancelled": "cancelled"}


class Scribe:
    """Writes into ``out``. ``repairs`` counts what was mended, by rule."""

    def __init__(self, ledger: Ledger) -> None:
        self.out: list[ev.Event] = []
        self.repairs: Counter[str] = Counter()
        self._ledger = ledger
        self._parts = ledger.parts

    def count(self, rule: str, event: object) -> None:
        """Count a repair (or refusal) that ``event`` made necessary."""
        self.repairs[f"{rule}:{type(event).__name__}"] += 1

    def write(self, event: Any, part: Part | None = None, state: str = ABSENT) -> None:
        """Let ``event``, which is public and no delta, out; it leaves its part in ``state``."""
        self._ledger.take(event, part, state)
        self.out.append(event)

    # --- text --------------------------------------------------------------------------------------------------

    def fragment(self, part: Part, delta: str) -> None:
        """The next piece of the text of ``part``, in whole characters."""
        if part.held or not is_encodable(delta):
            delta, part.held = split_held(part.held + delta)
        if delta:
            self._say(part, delta)

    def release(self, part: Part) -> None:
        """Let go of half a character whose other half never came."""
        if part.held:
            held, part.held = part.held, ""
            self._say(part, whole(held))

    def _say(self, part: Part, delta: str) -> None:
        event: ev.Event
        if part.kind == MESSAGE:
            event = ev.TextDelta(agent=part.owner, message_id=part.public, delta=delta)
        elif part.kind != CALL:
            event = ev.ReasoningDelta(agent=part.owner, reasoning_id=part.public, delta=delta)
        elif part.state == OPEN:
            event = ev.ToolArgsDelta(agent=part.owner, call_id=part.public, delta=delta)
        else:
            event = ev.ToolOutputDelta(agent=part.owner, call_id=part.public, content=delta)
        self._ledger.hear(part, delta)
        self.out.append(event)

    # --- starts ------------------------------------------------------------------------------------------------

    def start(self, part: Part) -> None:
        """Open a part that its source forgot to open."""
        turn = self._parts.turn(part.agent) if part.kind == CALL else None
        self.write(owed.start(part, turn), part, OPEN)

    def renew(self, part: Part) -> Part:
        """Open a continuation of a closed part: same local id, a new public one."""
        fresh = self._parts.successor(part)
        place = {SUBJECT[type(part.start)][1]: fresh.public}
        if part.kind == AGENT:
            place |= {"parent": fresh.owner, "continues": part.public}
        else:
            place |= {"agent": fresh.owner}
        self.write(replace(part.start, **place), fresh, OPEN)
        return fresh

    # --- ends --------------------------------------------------------------------------------------------------

    def finish(self, part: Part) -> None:
        """Close an open message, reasoning, call or step in its source's place."""
        self.release(part)
        self.write(owed.finish(part), part, ABSENT if part.kind == STEP else CLOSED)

    def end_agent(self, agent: Part, end: ev.AgentFinished | ev.AgentFailed) -> None:
        """The end of an agent, after what it left open, and after its own sub-agents."""
        why = "failed" if isinstance(end, ev.AgentFailed) else _OUTCOMES[end.outcome]
        for part in reversed(self._parts.owed_within(agent)):
            self._shut(part, why, end)
        self.write(end, agent, CLOSED)

    def end(self, terminal: ev.Terminal) -> None:
        """The end of the run, after everything that is open."""
        why = "failed" if isinstance(terminal, ev.RunFailed) else terminal.outcome
        for part in reversed(self._parts.owed()):
            self._shut(part, why, terminal)
        ledger = self._ledger
        usage = ledger.usage() or terminal.usage
        if isinstance(terminal, ev.RunFailed):
            text = whole(scrub(terminal.message))
            self.write(replace(terminal, agent=ev.ROOT, message=text, partial=ledger.shown, usage=usage))
            return
        lasting = why != "cancelled"
        self.write(
            replace(
                terminal,
                agent=ev.ROOT,
                interrupt_ids=tuple(ledger.asked) if why == "interrupted" else (),
                answer=ledger.answer() if lasting else None,
                pending_call_ids=ledger.pending() if lasting else (),
                usage=usage,
            )
        )

    def _shut(self, part: Part, why: str, cause: ev.Event) -> None:
        """Close ``part`` because its agent or the run ended by ``why``."""
        cut = part.state == OPEN
        waits = part.kind == CALL and self._waits(part, why, cut, cause)
        if why == "success" and not waits:
            self.count(CLOSE, cause)
        if part.kind == AGENT:
            self.write(owed.agent_end(part, why), part, CLOSED)
            return
        if cut:
            self.finish(part)
        self.release(part)
        if part.kind == CALL and not waits:
            self.write(owed.result(part, self._parts.mint(), why, cut), part, DONE)

    def _waits(self, call: Part, why: str, cut: bool, cause: ev.Event) -> bool:
        """Whether ``call`` stays without a result: somebody has yet to give it, or its agent has ended before."""
        if not self._parts.is_live(call):
            return True
        if call.start.executor == "client":
            return not cut and (why == "interrupted" or (why == "success" and call.owner == cause.agent))
        return why == "interrupted"
