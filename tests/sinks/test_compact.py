"""What a compacted run says: the same, in fewer entries."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from cases import CASES, Case

from anabranch import events as ev
from anabranch.log._base import Entry
from anabranch.sinks._compact import JOINED, Compactor
from sinks.watching import lawful, logged

M, R, C, A = "m", "r", "c", "a"


def compacted(entries: Iterable[Entry]) -> list[Entry]:
    compactor = Compactor()
    compactor.feed(entries)
    return [*compactor.entries()]


def told(*events: ev.Event) -> list[ev.Event]:
    return [entry.event for entry in compacted(logged(events))]


def text(delta: str, id: str = M, agent: str = "") -> ev.Event:
    return ev.TextDelta(agent=agent, message_id=id, delta=delta)


def change(path: str, value: object, op: str = "replace", id: str = A) -> ev.ActivityDelta:
    return ev.ActivityDelta(activity_id=id, kind="plan", patch=[{"op": op, "path": path, "value": value}])


def test_the_fragments_of_a_part_are_one_in_the_place_of_the_first() -> None:
    call, result = ev.ToolCallStarted(call_id=C, name="look"), ev.ToolReturned(call_id=C, content="seen")
    entries = logged(
        [
            ev.MessageStarted(message_id=M),
            text("a"),
            call,
            ev.ToolArgsDelta(call_id=C, delta="{"),
            text("b"),
            ev.ReasoningDelta(reasoning_id=M, delta="x"),
            ev.ToolArgsDelta(call_id=C, delta="}"),
            result,
            text("c"),
            ev.ReasoningDelta(reasoning_id=M, delta="y"),
        ]
    )
    out = compacted(entries)
    assert [entry.event for entry in out] == [
        ev.MessageStarted(message_id=M),
        text("abc"),
        call,
        ev.ToolArgsDelta(call_id=C, delta="{}"),
        ev.ReasoningDelta(reasoning_id=M, delta="xy"),
        result,
    ]
    # Each is in the place, and of the time, of its first piece.
    assert [(entry.seq, entry.at_ms) for entry in out] == [
        (e.seq, e.at_ms) for e in entries if e.seq not in (5, 7, 9, 10)
    ]


def test_parts_are_told_apart_by_id_kind_and_agent() -> None:
    events = [text("a"), text("b", "n"), text("c", agent="x"), ev.ReasoningDelta(reasoning_id=M, delta="d")]
    assert told(*events) == events


def test_a_text_that_would_be_too_long_for_one_frame_is_several() -> None:
    half = "x" * (JOINED // 2)
    pieces = [event.delta for event in told(*[text(half)] * 5, text("y")) if isinstance(event, ev.TextDelta)]
    assert [len(piece) for piece in pieces] == [JOINED, JOINED, JOINED // 2 + 1]
    assert "".join(pieces) == half * 5 + "y"


def test_the_output_of_a_tool_is_joined_as_far_as_it_is_text() -> None:
    def output(content: object, id: str = C) -> ev.Event:
        return ev.ToolOutputDelta(call_id=id, content=content)

    assert told(
        output("a"), output("b"), output({"n": 1}), output({"n": 2}), output("c"), output("d"), output("e", "o")
    ) == [
        output("ab"),
        output({"n": 1}),
        output({"n": 2}),
        output("cd"),
        output("e", "o"),
    ]


def test_a_value_that_is_overwritten_at_once_is_only_the_last_one() -> None:
    first = ev.ActivityDelta(
        activity_id=A,
        kind="plan",
        patch=[{"op": "add", "path": "/x", "value": 1}, {"op": "add", "path": "/todos/1", "value": "w"}],
    )
    other = change("/todos/0", "z", id="other")
    out = told(first, change("/todos/1", "wr"), other, change("/todos/1", "write"), change("/todos/2", "t", "add"))
    joined = ev.ActivityDelta(
        activity_id=A, kind="plan", patch=[first.patch[0], {"op": "add", "path": "/todos/1", "value": "write"}]
    )
    assert out == [joined, other, change("/todos/2", "t", "add")]
    assert first.patch[1]["value"] == "w", "an entry is never changed"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (change("/todos/0", "a"), change("/todos/1", "b")),
        (change("/todos/-", "a", "add"), change("/todos/-", "b")),
        (change("/todos/0", "a"), change("/todos/0", "b", "add")),
        (change("/todos/0", "a", "test"), change("/todos/0", "b")),
        (
            change("/todos/0", "a"),
            ev.ActivityDelta(activity_id=A, kind="plan", patch=[{"op": "replace", "path": "/todos/0"}]),
        ),
        (ev.ActivityDelta(activity_id=A, kind="plan", patch=[]), change("/todos/0", "b")),
        (change("/todos/0", "a"), ev.ActivityDelta(activity_id=A, kind="plan", patch=[])),
        (
            ev.ActivityDelta(activity_id=A, kind="plan", patch=[{}]),
            ev.ActivityDelta(activity_id=A, kind="plan", patch=[{}]),
        ),
    ],
)
def test_other_changes_stay_as_they_are(before: ev.Event, after: ev.Event) -> None:
    assert told(before, after) == [before, after]


def test_what_changes_after_a_new_snapshot_is_another_value() -> None:
    snapshot = ev.ActivitySnapshot(activity_id=A, kind="plan", content={"todos": ["a"]})
    events = [change("/todos/0", "b"), snapshot, change("/todos/0", "c")]
    assert told(*events) == events


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_says_the_same_in_no_more_entries_than_it_has_parts(case: Case) -> None:
    entries = logged(lawful(case.items))
    for upto in range(len(entries) + 1):
        out = compacted(entries[:upto])
        deltas = [e.event for e in out if isinstance(e.event, ev.TextDelta | ev.ReasoningDelta | ev.ToolArgsDelta)]
        assert len({(type(d), *texts([d])) for d in deltas}) == len(deltas)
        assert texts(e.event for e in out) == texts(e.event for e in entries[:upto])
        others = [e for e in entries[:upto] if not hasattr(e.event, "delta") and not is_joined(e.event)]
        assert [e for e in out if not hasattr(e.event, "delta") and not is_joined(e.event)] == others
        assert [e.seq for e in out] == sorted(e.seq for e in out)


def is_joined(event: ev.Event) -> bool:
    return isinstance(event, ev.ToolOutputDelta | ev.ActivityDelta)


def texts(events: Iterable[ev.Event]) -> dict[str, str]:
    out: dict[str, str] = {}
    for event in events:
        if isinstance(event, ev.TextDelta | ev.ReasoningDelta | ev.ToolArgsDelta):
            id = next(
                getattr(event, name) for name in ("message_id", "reasoning_id", "call_id") if hasattr(event, name)
            )
            out[id] = out.get(id, "") + event.delta
    return out
