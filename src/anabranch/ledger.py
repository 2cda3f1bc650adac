"""What a run has told: the effect of each public event, and what the terminal event makes of them all. Pure.

The same effects are taken from an event when it leaves the grammar and when it is read back from a log, so a grammar
that was rebuilt knows what the first one knew.
"""

from __future__ import annotations

from typing import Any

from . import events as ev
from .answering import Answering
from .law import ABSENT, CALL, DONE, MESSAGE, OPEN, OPENERS, UNLAWFUL
from .parts import Part, Parts

_MOST = 2**53 - 1  # token counts stay numbers that every JSON reader can hold


class Ledger:
    """The state of one run: its place in the law, its parts, and what its terminal event will say."""

    def __init__(self) -> None:
        self.run = ABSENT
        self.parts = Parts()
        self.asked: dict[str, None] = {}
        """Ids of the open questions."""
        self.shown = False
        """Whether some message has text."""
        self._usage: dict[str, ev.Usage] = {}
        self._answering = Answering(self.parts)
        self.answer = self._answering.answer

    # --- effects -----------------------------------------------------------------------------------------------

    def take(self, event: Any, part: Part | None = None, state: str = ABSENT) -> None:
        """Take the effect of a public event other than a delta, which leaves its part in ``state``."""
        match event:
            case ev.RunStarted():
                self.run, self.parts.run_id = OPEN, event.run_id
            case ev.RunResumed():
                for void in self.void(event):
                    self.parts.move(void, DONE)
                    self.parts.forget(void)
            case ev.RunFinished() | ev.RunFailed():
                self.run = DONE
            case ev.UsageReported():
                self._spend(event.usage)
            case ev.Interrupted():
                self.asked[event.interrupt_id] = None
            case ev.InterruptResolved():
                self.asked.pop(event.interrupt_id, None)
        if part is not None:
            self._touch(part, event)
            self.parts.move(part, state)

    def hear(self, part: Part, delta: str) -> None:
        """Take the effect of a fragment of ``part``."""
        if part.kind == MESSAGE:
            self.shown = True
            if part.text is not None:
                part.text.append(delta)

    def void(self, event: ev.RunResumed) -> list[Part]:
        """The parts that ``event`` declares void."""
        claimed = [(MESSAGE, id) for id in event.voided_message_ids] + [(CALL, id) for id in event.voided_call_ids]
        parts = [self.parts.named(id, kind) for kind, id in claimed]
        return [part for part in parts if part and part.start]

    def _touch(self, part: Part, event: Any) -> None:
        if type(event) in OPENERS:
            part.start = event
        match event:
            case ev.MessageStarted() if event.role == "assistant":
                self.parts.turns[part.agent] = part
                self._answering.message(part)
            case ev.MessageFinished() if event.phase != "answer":
                part.text = None
            case ev.ToolCallStarted():
                if turn := self.parts.named(event.message_id, MESSAGE):
                    self.parts.turns[part.agent] = turn
            case ev.AgentStarted():
                self.parts.barred.discard(part.id)
                self._answering.agent(part)
            case ev.AgentFailed():
                self._answering.failed(part)
                if event.code == UNLAWFUL:
                    self.parts.barred.add(part.id)
            case ev.ToolReturned():
                self.parts.turns.pop(part.agent, None)  # the model's next words are another turn

    def _spend(self, new: ev.Usage) -> None:
        seen = self._usage.get(new.model) or ev.Usage(model=new.model)
        fields = ("input", "output", "reasoning", "cached")
        sums = {field: min(getattr(seen, field) + getattr(new, field), _MOST) for field in fields}
        self._usage[new.model] = ev.Usage(model=new.model, **sums)

    # --- the end -----------------------------------------------------------------------------------------------

    def usage(self) -> tuple[ev.Usage, ...]:
        """Tokens spent, by model."""
        return tuple(self._usage.values())

    def pending(self) -> tuple[str, ...]:
        """The finished calls that wait for the client to execute them, once everything open was closed."""
        owed = self.parts.owed()
        return tuple(part.public for part in owed if part.kind == CALL and part.start.executor == "client")
