"""The table is complete, has no dead corner, and every repair gets somewhere."""

from __future__ import annotations

import pytest
from msgspec.structs import fields

from anabranch import events as ev
from anabranch.law import (
    ABSENT,
    ACTIVITY,
    ADD,
    AGENT,
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
    SUBJECT,
    TEXTS,
)

RUN_EVENTS = {ev.RunStarted, ev.RunResumed, ev.RunFinished, ev.RunFailed}
PARTS = {spot: row for spot, row in LAW.items() if spot[0] != RUN}
REPAIRS = [
    (kind, state, event)
    for (kind, state), row in PARTS.items()
    for event, (outcome, _) in row.items()
    if outcome in (ADD, CLOSE, RENEW)
]


def test_every_event_is_about_the_run_or_about_a_part() -> None:
    assert set(SUBJECT) | RUN_EVENTS == set(ev.EVENT_TYPES)
    assert not set(SUBJECT) & RUN_EVENTS


def test_every_event_is_lawful_in_a_run_and_dropped_after_it() -> None:
    assert set(LAW[RUN, OPEN]) == set(LAW[RUN, DONE]) == set(ev.EVENT_TYPES)
    assert {outcome for outcome, _ in LAW[RUN, DONE].values()} == {DROP}
    assert set(LAW[RUN, ABSENT]) == {ev.RunStarted}


def test_a_row_names_only_events_about_its_kind_of_part() -> None:
    for (kind, _), row in PARTS.items():
        assert {SUBJECT[event][0] for event in row} == {kind}


def test_the_only_event_refused_for_the_state_of_its_part_changes_an_activity_nobody_has_shown() -> None:
    refused = {
        (kind, state, event)
        for (kind, state) in PARTS
        for event, (subject, _) in SUBJECT.items()
        if subject == kind and event not in LAW[kind, state]
    }
    assert refused == {(ACTIVITY, ABSENT, ev.ActivityDelta)}


def test_every_state_in_the_table_is_reached_and_no_other() -> None:
    reached = {(kind, ABSENT) for kind, _ in LAW}
    frontier = set(reached)
    while frontier:
        frontier = {(kind, state) for kind, at in frontier for _, state in LAW[kind, at].values()} - reached
        reached |= frontier
    assert reached == set(LAW)


@pytest.mark.parametrize(("kind", "state", "event"), REPAIRS, ids=lambda value: getattr(value, "__name__", value))
def test_a_repair_leads_to_a_state_where_its_event_passes_in_the_end(kind: str, state: str, event: type) -> None:
    seen = {state}
    outcome, state = LAW[kind, state][event]
    while outcome != PASS:
        assert state not in seen
        seen.add(state)
        outcome, state = LAW[kind, state][event]
        assert outcome != DROP


def test_a_drop_changes_no_state() -> None:
    for (_, state), row in LAW.items():
        assert {after for outcome, after in row.values() if outcome == DROP} <= {state}


def test_every_state_of_an_agent_says_what_happens_to_an_event_in_it() -> None:
    assert set(LANE) == {state for kind, state in LAW if kind == AGENT}


def test_the_fields_that_the_tables_name_exist() -> None:
    named = [(event, field) for event, (_, field) in SUBJECT.items()]
    named += [(event, field) for event, (field, _, scope) in REFERENCES.items() for field in (field, scope)]
    named += [*TEXTS.items(), *((event, "origin_id") for event in OPENERS)]
    named += [(event, "ref_origin_id") for event in REFERENCES]
    for event, field in named:
        assert field in {known.name for known in fields(event)}, (event, field)


def test_a_fragment_is_about_the_part_it_adds_to() -> None:
    assert {event: SUBJECT[event] for event in DELTAS} == DELTAS
