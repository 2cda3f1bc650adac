"""Reading a log back: the ledger of the grammar that wrote it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .events import ROOT, AgentStarted, Event, InterruptResolved, ToolCallStarted, ToolReturned
from .law import AGENT, DELTAS, LAW, MESSAGE, PASS, REFERENCES, SCOPE, STEP, SUBJECT
from .ledger import Ledger
from .parts import Part, Parts


def recall(events: Iterable[Event]) -> Ledger:
    """The ledger after ``events``, which a grammar let out from the beginning of a run."""
    ledger = Ledger()
    for event in events:
        kind, field = SUBJECT.get(type(event), (SCOPE, ""))
        if kind == SCOPE:
            ledger.take(event)
        else:
            _recall(ledger, event, kind, getattr(event, field))
    return ledger


def _recall(ledger: Ledger, event: Any, kind: str, public: str) -> None:
    parts = ledger.parts
    above = event.parent if isinstance(event, AgentStarted) else event.agent
    agent = _local(parts, above)
    if isinstance(event, AgentStarted) and event.continues is None and parts.lane(event.origin_id):
        parts.vacate(event.origin_id)
    foreign = isinstance(event, InterruptResolved)
    part = parts.find(kind, agent, public) if kind == STEP else parts.named(public, kind)
    if part is None:
        part = parts.adopt(Part(kind, agent, getattr(event, "origin_id", public), public, above), public=not foreign)
    elif kind != AGENT:
        parts.rehome(part, above)
    _recall_others(parts, event, agent, above)
    if kind != STEP and not foreign:
        _count(parts, public)
    if type(event) in DELTAS:
        ledger.hear(part, event.delta)
    else:
        ledger.take(event, part, LAW[kind, part.state].get(type(event), (PASS, part.state))[1])


def _recall_others(parts: Parts, event: Any, agent: str, above: str) -> None:
    """The parts that an event names beside its own, when it is the first to name them."""
    if isinstance(event, ToolReturned):
        _count(parts, event.message_id)
    field, kind, _ = REFERENCES.get(type(event), ("", "", ""))
    public = getattr(event, field) if field else None
    if public and parts.named(public, kind) is None:
        _count(parts, public)
        if event.ref_origin_id:
            parts.adopt(Part(kind, agent, event.ref_origin_id, public, above))
        elif isinstance(event, ToolCallStarted):
            parts.publish(Part(MESSAGE, agent, "", public, above))  # a turn that the source did not name


def _count(parts: Parts, public: str) -> None:
    """Mint no id again."""
    run, _, number = public.rpartition(":")
    if run == parts.run_id and number.isdecimal():
        parts.minted = max(parts.minted, int(number))


def _local(parts: Parts, public: str) -> str:
    """The local id of an agent."""
    lane = parts.named(public, AGENT)
    return lane.id if lane else ROOT
