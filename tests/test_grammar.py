"""The law of a stream, rule by rule."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from referee import judged

from anabranch import events as ev
from anabranch.errors import Cancelled, ClientError, ServerStopping, SourceError
from anabranch.grammar import Grammar

STARTED = ev.RunStarted(run_id="r", thread_id="t")


def run(*events: Any, repairs: dict[str, int] | None = None) -> list[Any]:
    """What a run that has started makes of ``events``, without its start; the repairs must be exactly ``repairs``.

    A grammar that is restored anywhere on the way must go on with the same.
    """
    grammar = Grammar()
    steps = [grammar.feed(event) for event in (STARTED, *events)]
    out = [event for step in steps for event in step]
    assert grammar.repairs == Counter(repairs or {})
    if grammar.ended:
        judged(out)
    if len(events) < 30 and not any(ends_in_half(event) for event in events):
        for stop in range(1, len(steps)):
            restored = Grammar.from_log(event for step in steps[:stop] for event in step)
            assert [restored.feed(event) for event in events[stop - 1 :]] == steps[stop:]
    return out[1:]


def ends_in_half(event: Any) -> bool:
    text = getattr(event, "delta", getattr(event, "content", None))
    return isinstance(text, str) and "\ud800" <= text[-1:] <= "\udbff"


def only(kind: type, events: list[Any]) -> Any:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


def text_of(events: list[Any]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ev.TextDelta))


def message(id: str, *deltas: str, agent: str = "", phase: Any = "undetermined", role: str = "assistant") -> list[Any]:
    return [
        ev.MessageStarted(agent=agent, message_id=id, role=role),
        *(ev.TextDelta(agent=agent, message_id=id, delta=delta) for delta in deltas),
        ev.MessageFinished(agent=agent, message_id=id, phase=phase),
    ]


def call(id: str, agent: str = "", **fields: Any) -> list[Any]:
    return [
        ev.ToolCallStarted(agent=agent, call_id=id, name="t", **fields),
        ev.ToolCallFinished(agent=agent, call_id=id),
    ]


RESET = [*message("m", "x"), ev.MessageReset(message_id="m", superseded_by="")]
REASONED = [ev.ReasoningStarted(reasoning_id="m"), ev.ReasoningFinished(reasoning_id="m")]
RETURNED = [*call("c"), ev.ToolReturned(call_id="c", content="1")]
ANSWERED = [ev.Interrupted(interrupt_id="q", reason="r"), ev.InterruptResolved(interrupt_id="q")]


REFUSED = {"refuse:StateDelta": 1}


class TestPass:
    def test_a_lawful_stream_passes_as_it_is_under_public_ids(self) -> None:
        assert run(
            ev.StepStarted(name="think"),
            ev.ReasoningStarted(reasoning_id="m"),
            ev.ReasoningDelta(reasoning_id="m", delta="hm"),
            ev.ReasoningFinished(reasoning_id="m", encrypted="e"),
            ev.StepFinished(name="think"),
            ev.MessageStarted(message_id="m", phase="answer"),
            ev.TextDelta(message_id="m", delta="hello"),
            ev.MessageFinished(message_id="m", finish_reason="stop"),
            ev.RunFinished(result={"ok": True}),
        ) == [
            ev.StepStarted(name="think"),
            ev.ReasoningStarted(reasoning_id="r:1", origin_id="m"),
            ev.ReasoningDelta(reasoning_id="r:1", delta="hm"),
            ev.ReasoningFinished(reasoning_id="r:1", encrypted="e"),
            ev.StepFinished(name="think"),
            ev.MessageStarted(message_id="r:2", phase="answer", origin_id="m"),
            ev.TextDelta(message_id="r:2", delta="hello"),
            ev.MessageFinished(message_id="r:2", finish_reason="stop", phase="answer"),
            ev.RunFinished(
                answer=ev.Answer(message_ids=("r:2",), length=5, sha256=hashlib.sha256(b"hello").hexdigest()),
                result={"ok": True},
            ),
        ]

    def test_parts_that_share_a_local_id_stay_apart_by_agent_and_by_kind(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b"),
            *(ev.MessageStarted(agent=agent, message_id="1") for agent in ("", "a", "b")),
            ev.ReasoningStarted(agent="a", reasoning_id="1"),
            ev.ToolCallStarted(agent="a", call_id="1", name="t"),
            *(ev.TextDelta(agent=agent, message_id="1", delta=agent or "root") for agent in ("a", "", "b", "a", "b")),
            ev.ReasoningDelta(agent="a", reasoning_id="1", delta="hm"),
            ev.ToolArgsDelta(agent="a", call_id="1", delta="{}"),
        )
        deltas = [event for event in out if hasattr(event, "delta")]
        assert deltas == [
            ev.TextDelta(agent="r:1", message_id="r:4", delta="a"),
            ev.TextDelta(message_id="r:3", delta="root"),
            ev.TextDelta(agent="r:2", message_id="r:5", delta="b"),
            ev.TextDelta(agent="r:1", message_id="r:4", delta="a"),
            ev.TextDelta(agent="r:2", message_id="r:5", delta="b"),
            ev.ReasoningDelta(agent="r:1", reasoning_id="r:6", delta="hm"),
            ev.ToolArgsDelta(agent="r:1", call_id="r:7", delta="{}"),
        ]

    def test_equal_neighbouring_and_blank_pieces_are_all_kept(self) -> None:
        assert text_of(run(*message("m", "la", "la", " ", "\n", "\r\n", "\n"))) == "lala \n\r\n\n"

    def test_an_empty_piece_is_nothing_and_opens_nothing(self) -> None:
        assert run(ev.TextDelta(message_id="m", delta=""), ev.ToolArgsDelta(agent="x", call_id="c", delta="")) == []

    def test_ids_are_the_grammars_to_mint_whatever_a_source_writes(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a", origin_id="forged", ref_origin_id="forged", continues="forged"),
            ev.MessageStarted(message_id="r:1", origin_id="forged"),
        )
        assert out == [
            ev.AgentStarted(agent="r:1", name="a", origin_id="a"),
            ev.MessageStarted(message_id="r:2", origin_id="r:1"),
        ]

    def test_a_local_id_may_look_like_a_public_one_or_like_nothing(self) -> None:
        out = run(
            ev.StepStarted(name="r:9"),
            ev.InterruptResolved(interrupt_id="r:8"),
            ev.MessageStarted(message_id="m"),
            ev.MessageStarted(message_id="r:1"),
            ev.MessageStarted(message_id=""),
        )
        assert [event.message_id for event in out[2:]] == ["r:1", "r:2", "r:3"]

    def test_an_agent_its_call_and_the_calls_message_may_share_a_local_id(self) -> None:
        out = run(
            *call("a", message_id="a"),
            ev.AgentStarted(agent="a", name="a", call_id="a"),
            *message("a", agent="a"),
        )
        started = only(ev.ToolCallStarted, out)
        assert only(ev.AgentStarted, out).call_id == started.call_id != started.message_id

    def test_a_step_may_come_again_after_it_finished_and_run_in_two_agents_at_once(self) -> None:
        run(
            ev.AgentStarted(agent="a", name="a"),
            ev.StepStarted(name="s"),
            ev.StepStarted(agent="a", name="s"),
            ev.StepFinished(name="s"),
            ev.StepStarted(name="s"),
        )

    def test_an_activity_is_replaced_and_changed_under_one_id(self) -> None:
        patch = [{"op": "add", "path": "/x", "value": 1}]
        out = run(
            ev.ActivitySnapshot(activity_id="plan", kind="plan", content={}),
            ev.ActivityDelta(activity_id="plan", kind="plan", patch=patch),
            ev.ActivitySnapshot(activity_id="plan", kind="plan", content={"x": 2}),
        )
        assert [event.activity_id for event in out] == ["r:1"] * 3

    def test_events_of_no_part_pass_in_their_agents_place(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.StateSnapshot(value={"n": 1}),
            ev.StateDelta(patch=[{"op": "remove", "path": "/n"}]),
            ev.Routed(route="direct", agents=("a",), reason="named"),
            ev.Custom(agent="a", name="c", value=[1]),
            ev.Unknown(agent="a", name="later"),
        )
        assert [event.agent for event in out] == ["r:1", "", "", "", "r:1", "r:1"]


class TestOpen:
    def test_text_of_a_message_nobody_started_starts_it(self) -> None:
        assert run(ev.TextDelta(message_id="m", delta="x"), repairs={"open:TextDelta": 1}) == [
            ev.MessageStarted(message_id="r:1", origin_id="m"),
            ev.TextDelta(message_id="r:1", delta="x"),
        ]

    @pytest.mark.parametrize(
        ("event", "opened"),
        [
            (ev.PartAdded(message_id="1", part=ev.Part(kind="text")), [ev.MessageStarted]),
            (ev.Annotated(message_id="1", annotation={}), [ev.MessageStarted]),
            (ev.ReasoningDelta(reasoning_id="1", delta="x"), [ev.ReasoningStarted]),
            (ev.ToolArgsDelta(call_id="1", delta="{"), [ev.ToolCallStarted]),
        ],
    )
    def test_whatever_adds_to_a_part_opens_it(self, event: Any, opened: list[type]) -> None:
        out = run(event, repairs={f"open:{type(event).__name__}": 1})
        assert [type(item) for item in out] == [*opened, type(event)]

    def test_a_result_without_a_call_gets_a_call_with_a_turn_of_its_own(self) -> None:
        out = run(
            ev.ToolReturned(call_id="c", content="done"), repairs={"open:ToolReturned": 1, "close:ToolReturned": 1}
        )
        assert out == [
            ev.ToolCallStarted(call_id="r:1", name="unknown", message_id="r:2", origin_id="c"),
            ev.ToolCallFinished(call_id="r:1"),
            ev.ToolReturned(call_id="r:1", content="done", message_id="r:3"),
        ]

    def test_output_of_a_call_nobody_made_is_shown(self) -> None:
        repairs = {"open:ToolOutputDelta": 1, "close:ToolOutputDelta": 1}
        out = run(ev.ToolOutputDelta(call_id="c", content="50%"), repairs=repairs)
        assert [type(event) for event in out] == [ev.ToolCallStarted, ev.ToolCallFinished, ev.ToolOutputDelta]

    def test_an_agent_nobody_announced_is_a_lane_of_its_own_never_the_root(self) -> None:
        out = run(ev.MessageStarted(agent="ghost", message_id="m"), repairs={"open:MessageStarted": 1})
        assert out == [
            ev.AgentStarted(agent="r:1", name="unattributed", origin_id="ghost"),
            ev.MessageStarted(agent="r:1", message_id="r:2", origin_id="m"),
        ]

    def test_an_unknown_parent_is_opened_before_its_child(self) -> None:
        out = run(ev.AgentStarted(agent="a", name="a", parent="p"), repairs={"open:AgentStarted": 1})
        assert [(event.name, event.parent) for event in out] == [("unattributed", ""), ("a", "r:1")]

    def test_an_agent_nobody_announced_need_not_be_ended(self) -> None:
        out = run(
            ev.StepStarted(agent="ghost", name="s"),
            ev.StepFinished(agent="ghost", name="s"),
            ev.RunFinished(),
            repairs={"open:StepStarted": 1, "close:RunFinished": 1},
        )
        assert out[-2:] == [ev.AgentFinished(agent="r:1"), ev.RunFinished()]

    def test_an_agent_nobody_announced_fails_with_the_run(self) -> None:
        out = run(
            ev.StepStarted(agent="ghost", name="s"),
            ev.RunFailed(code="c", message="m"),
            repairs={"open:StepStarted": 1},
        )
        assert isinstance(out[-2], ev.AgentFailed)

    def test_the_failure_of_an_agent_nobody_announced_is_seen(self) -> None:
        out = run(ev.AgentFailed(agent="a", code="c", message="m"), repairs={"open:AgentFailed": 1})
        assert [type(event) for event in out] == [ev.AgentStarted, ev.AgentFailed]


class TestClose:
    def test_what_a_success_leaves_open_is_closed_children_before_parents(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b", parent="a"),
            ev.StepStarted(agent="b", name="s"),
            ev.MessageStarted(agent="b", message_id="m"),
            ev.ReasoningStarted(agent="a", reasoning_id="t"),
            ev.RunFinished(),
            repairs={"close:RunFinished": 5},
        )
        assert out[5:] == [
            ev.ReasoningFinished(agent="r:1", reasoning_id="r:4"),
            ev.MessageFinished(agent="r:2", message_id="r:3"),
            ev.StepFinished(agent="r:2", name="s"),
            ev.AgentFailed(agent="r:2", code="no_end", message="The agent b stopped without an end."),
            ev.AgentFailed(agent="r:1", code="no_end", message="The agent a stopped without an end."),
            ev.RunFinished(),
        ]

    def test_a_tool_that_reports_output_has_all_its_arguments(self) -> None:
        out = run(
            ev.ToolCallStarted(call_id="c", name="t"),
            ev.ToolOutputDelta(call_id="c", content="50%"),
            repairs={"close:ToolOutputDelta": 1},
        )
        assert [type(event) for event in out] == [ev.ToolCallStarted, ev.ToolCallFinished, ev.ToolOutputDelta]

    def test_a_message_is_finished_before_it_is_reset(self) -> None:
        out = run(
            ev.MessageStarted(message_id="m"),
            ev.MessageReset(message_id="m", superseded_by="n"),
            repairs={"close:MessageReset": 1},
        )
        assert [type(event) for event in out] == [ev.MessageStarted, ev.MessageFinished, ev.MessageReset]

    def test_an_agent_ends_after_everything_in_it_and_its_siblings_go_on(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b"),
            ev.AgentStarted(agent="a1", name="a1", parent="a"),
            ev.MessageStarted(agent="b", message_id="m"),
            ev.MessageStarted(agent="a1", message_id="m"),
            ev.AgentFailed(agent="a", code="lost", message="connection lost"),
            ev.TextDelta(agent="b", message_id="m", delta="still here"),
        )
        assert out[5:] == [
            ev.MessageFinished(agent="r:3", message_id="r:5"),
            ev.AgentFailed(agent="r:3", code="no_end", message="The agent a1 was stopped: what called it failed."),
            ev.AgentFailed(agent="r:1", code="lost", message="connection lost"),
            ev.TextDelta(agent="r:2", message_id="r:4", delta="still here"),
        ]

    def test_closing_for_a_failure_is_no_repair(self) -> None:
        run(ev.MessageStarted(message_id="m"), ev.RunFailed(code="c", message="m"))
        run(ev.AgentStarted(agent="a", name="a"), ev.RunFinished(outcome="cancelled"))


class TestRenew:
    def test_late_text_opens_a_continuation_with_the_same_origin(self) -> None:
        out = run(
            ev.MessageStarted(message_id="m", name="n", phase="narration"),
            ev.MessageFinished(message_id="m"),
            ev.TextDelta(message_id="m", delta="late"),
            ev.TextDelta(message_id="m", delta="r"),
            repairs={"renew:TextDelta": 1},
        )
        assert out[2:] == [
            ev.MessageStarted(message_id="r:2", name="n", phase="narration", origin_id="m"),
            ev.TextDelta(message_id="r:2", delta="late"),
            ev.TextDelta(message_id="r:2", delta="r"),
        ]

    @pytest.mark.parametrize("stream", [message("m", "x"), RESET])
    @pytest.mark.parametrize(
        "late",
        [
            ev.TextDelta(message_id="m", delta="x"),
            ev.PartAdded(message_id="m", part=ev.Part(kind="file", url="u")),
            ev.Annotated(message_id="m", annotation={"cites": "u"}),
        ],
    )
    def test_whatever_comes_late_for_a_message_is_continued(self, stream: list[Any], late: Any) -> None:
        out = run(*stream, late, repairs={f"renew:{type(late).__name__}": 1})
        assert [type(event) for event in out[len(stream) :]] == [ev.MessageStarted, type(late)]
        assert out[-1].message_id == out[-2].message_id == "r:2"

    def test_late_reasoning_is_continued(self) -> None:
        out = run(*REASONED, ev.ReasoningDelta(reasoning_id="m", delta="x"), repairs={"renew:ReasoningDelta": 1})
        assert out[-1] == ev.ReasoningDelta(reasoning_id="r:2", delta="x")

    def test_what_comes_from_an_ended_agent_continues_it_visibly(self) -> None:
        out = run(
            *call("c"),
            ev.AgentStarted(agent="a", name="a", call_id="c"),
            *message("m", "x", agent="a"),
            ev.AgentFinished(agent="a"),
            ev.TextDelta(agent="a", message_id="m", delta="late"),
            repairs={"renew:TextDelta": 2},
        )
        assert out[-3:] == [
            ev.AgentStarted(agent="r:5", name="a", call_id="r:1", continues="r:3", origin_id="a"),
            ev.MessageStarted(agent="r:5", message_id="r:6", origin_id="m"),
            ev.TextDelta(agent="r:5", message_id="r:6", delta="late"),
        ]

    def test_the_agents_above_an_ended_agent_are_continued_before_it(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b", parent="a"),
            ev.AgentFinished(agent="b"),
            ev.AgentFinished(agent="a"),
            ev.StepStarted(agent="b", name="s"),
            repairs={"renew:StepStarted": 2},
        )
        assert out[-3:] == [
            ev.AgentStarted(agent="r:3", name="a", continues="r:1", origin_id="a"),
            ev.AgentStarted(agent="r:4", name="b", parent="r:3", continues="r:2", origin_id="b"),
            ev.StepStarted(agent="r:4", name="s"),
        ]

    def test_an_agent_is_continued_under_one_that_is_still_open(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b", parent="a"),
            ev.AgentFinished(agent="b"),
            ev.StepStarted(agent="b", name="s"),
            repairs={"renew:StepStarted": 1},
        )
        assert out[-2] == ev.AgentStarted(agent="r:3", name="b", parent="r:1", continues="r:2", origin_id="b")

    def test_a_new_agent_under_an_ended_one_continues_that(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentFinished(agent="a"),
            ev.AgentStarted(agent="b", name="b", parent="a"),
            repairs={"renew:AgentStarted": 1},
        )
        assert out[-1] == ev.AgentStarted(agent="r:3", name="b", parent="r:2", origin_id="b")

    def test_a_continued_agent_takes_over_its_calls_and_activities(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.ActivitySnapshot(agent="a", activity_id="p", kind="k", content={}),
            *call("c", "a"),
            ev.AgentFinished(agent="a", outcome="suspended"),
            ev.ToolReturned(agent="a", call_id="c", content="after all"),
            ev.ActivityDelta(agent="a", activity_id="p", kind="k", patch=[]),
            repairs={"renew:ToolReturned": 1},
        )
        assert out[-2:] == [
            ev.ToolReturned(agent="r:5", call_id="r:3", content="after all", message_id="r:6"),
            ev.ActivityDelta(agent="r:5", activity_id="r:2", kind="k", patch=[]),
        ]

    def test_a_call_taken_over_may_still_call_an_agent(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            *call("c", "a"),
            ev.AgentFinished(agent="a", outcome="suspended"),
            ev.AgentStarted(agent="b", name="b", parent="a", call_id="c"),
            repairs={"renew:AgentStarted": 1},
        )
        assert out[-1].call_id == only(ev.ToolCallStarted, out).call_id

    def test_a_call_taken_over_gets_its_result_before_its_new_owner_ends(self) -> None:
        run(
            ev.AgentStarted(agent="a", name="a"),
            *call("c", "a"),
            ev.AgentFinished(agent="a", outcome="suspended"),
            ev.ToolOutputDelta(agent="a", call_id="c", content="more"),
            ev.RunFailed(code="c", message="m"),
            repairs={"renew:ToolOutputDelta": 1},
        )


class TestDrop:
    @pytest.mark.parametrize(
        ("stream", "duplicate"),
        [
            ([ev.MessageStarted(message_id="m")], ev.MessageStarted(message_id="m", name="other")),
            (message("m", "x"), ev.MessageStarted(message_id="m")),
            (message("m", "x"), ev.MessageFinished(message_id="m")),
            (RESET, ev.MessageStarted(message_id="m")),
            (RESET, ev.MessageFinished(message_id="m")),
            (RESET, ev.MessageReset(message_id="m", superseded_by="")),
            ([ev.ReasoningStarted(reasoning_id="m")], ev.ReasoningStarted(reasoning_id="m")),
            (REASONED, ev.ReasoningStarted(reasoning_id="m")),
            (REASONED, ev.ReasoningFinished(reasoning_id="m")),
            ([ev.ToolCallStarted(call_id="c", name="t")], ev.ToolCallStarted(call_id="c", name="t")),
            (call("c"), ev.ToolCallStarted(call_id="c", name="t")),
            (call("c"), ev.ToolCallFinished(call_id="c")),
            (call("c"), ev.ToolArgsDelta(call_id="c", delta="}")),
            (RETURNED, ev.ToolCallStarted(call_id="c", name="t")),
            (RETURNED, ev.ToolArgsDelta(call_id="c", delta="}")),
            (RETURNED, ev.ToolCallFinished(call_id="c")),
            (RETURNED, ev.ToolOutputDelta(call_id="c", content="late")),
            (RETURNED, ev.ToolReturned(call_id="c", content="2")),
            ([ev.AgentStarted(agent="a", name="a")], ev.AgentStarted(agent="a", name="b")),
            ([ev.AgentStarted(agent="a", name="a"), ev.AgentFinished(agent="a")], ev.AgentFinished(agent="a")),
            (
                [ev.AgentStarted(agent="a", name="a"), ev.AgentFinished(agent="a")],
                ev.AgentFailed(agent="a", code="c", message="m"),
            ),
            ([ev.StepStarted(name="s")], ev.StepStarted(name="s")),
            ([ev.StepStarted(name="s"), ev.StepFinished(name="s")], ev.StepFinished(name="s")),
            ([ev.Interrupted(interrupt_id="q", reason="r")], ev.Interrupted(interrupt_id="q", reason="r")),
            (ANSWERED, ev.Interrupted(interrupt_id="q", reason="r")),
            (ANSWERED, ev.InterruptResolved(interrupt_id="q")),
            ([], STARTED),
        ],
    )
    def test_a_duplicate_by_id_is_dropped(self, stream: list[Any], duplicate: Any) -> None:
        rule = f"drop:{type(duplicate).__name__}"
        assert run(*stream, duplicate, duplicate, repairs={rule: 2}) == run(*stream)

    @pytest.mark.parametrize(
        "event",
        [
            ev.MessageFinished(agent="x", message_id="m"),
            ev.MessageReset(agent="x", message_id="m", superseded_by="n"),
            ev.ReasoningFinished(agent="x", reasoning_id="m"),
            ev.ToolCallFinished(agent="x", call_id="c"),
            ev.StepFinished(agent="x", name="s"),
            ev.AgentFinished(agent="x"),
        ],
    )
    def test_the_end_of_what_never_began_is_dropped_and_opens_no_agent(self, event: Any) -> None:
        assert run(event, repairs={f"drop:{type(event).__name__}": 1}) == []

    def test_a_late_duplicate_continues_no_agent(self) -> None:
        stream = [
            ev.AgentStarted(agent="a", name="a"),
            *call("c", "a"),
            ev.ToolReturned(agent="a", call_id="c"),
            ev.AgentFinished(agent="a"),
        ]
        late = ev.ToolReturned(agent="a", call_id="c")
        assert run(*stream, late, repairs={"drop:ToolReturned": 1}) == run(*stream)

    def test_what_is_dropped_uses_up_no_id(self) -> None:
        out = run(
            ev.MessageFinished(message_id="x"), ev.MessageStarted(message_id="m"), repairs={"drop:MessageFinished": 1}
        )
        assert out == [ev.MessageStarted(message_id="r:1", origin_id="m")]

    def test_after_the_end_everything_is_dropped_even_what_is_no_event(self) -> None:
        late: list[Any] = [ev.TextDelta(message_id="m", delta="x"), None, ev.RunFailed(code="c", message="m"), STARTED]
        assert run(ev.RunFinished(), *late, repairs={f"drop:{type(event).__name__}": 1 for event in late}) == [
            ev.RunFinished()
        ]


class TestRefuse:
    @pytest.mark.parametrize(
        ("event", "flaw"),
        [
            (ev.ActivityDelta(activity_id="p", kind="k", patch=[]), "its activity is absent"),
            (ev.AgentStarted(agent="", name="n"), "an agent is started and ended by the agents above it"),
            (ev.AgentFailed(agent="", code="c", message="m"), "an agent is started and ended by the agents above it"),
            (ev.StateDelta(patch=[{"op": "put", "path": "/x"}]), "its JSON patch has a bad op"),
            (ev.StateDelta(patch=[{"op": "remove", "path": "x"}]), "its JSON patch has a bad path"),
            (ev.StateDelta(patch=[{"op": "remove", "path": "/~2"}]), "its JSON patch has a bad path"),
            (ev.StateDelta(patch=[{"op": "move", "path": "/x"}]), "its JSON patch has a bad from"),
            (ev.StateDelta(patch=[{"op": "add", "path": "/x"}]), "its JSON patch has a bad value"),
            (ev.RunFinished(outcome="interrupted"), "it ends interrupted and no question is open"),
            (ev.MessageStarted(message_id=5), "its ids must be text"),  # type: ignore[arg-type]  # the point
            (ev.TextDelta(message_id=[], delta="x"), "its ids must be text"),  # type: ignore[arg-type]  # the point
            (ev.Routed(route="no", agents=(), reason=""), "its fields are of the wrong type"),  # type: ignore[arg-type]  # the point
            (None, "it is not an event"),
            ("text", "it is not an event"),
        ],
    )
    def test_what_cannot_be_mended_ends_the_run_and_is_named(self, event: Any, flaw: str) -> None:
        out = run(
            ev.MessageStarted(message_id="m"),
            ev.TextDelta(message_id="m", delta="x"),
            event,
            ev.TextDelta(message_id="m", delta="late"),
            repairs={f"refuse:{type(event).__name__}": 1, "drop:TextDelta": 1},
        )
        failed = only(ev.RunFailed, out)
        assert out[2:] == [ev.MessageFinished(message_id="r:1"), failed]
        assert (failed.code, failed.side, failed.partial) == ("unlawful", "source", True)
        assert failed.message.startswith(f"The agent sent {type(event).__name__}, which is not lawful here: {flaw}")

    def test_an_agent_cannot_be_below_itself(self) -> None:
        below_itself = ev.AgentStarted(agent="a", name="a", parent="a")
        out = run(below_itself, ev.RunFinished(), repairs={"open:AgentStarted": 1, "refuse:AgentStarted": 1})
        assert (out[1].code, out[-1]) == ("unlawful", ev.RunFinished())
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b", parent="a"),
            ev.AgentFinished(agent="b"),
            ev.AgentFinished(agent="a"),
            ev.AgentStarted(agent="a", name="a", parent="b"),
            ev.RunFinished(),
            repairs={"renew:AgentStarted": 1, "refuse:AgentStarted": 1},
        )
        assert (out[-2].code, out[-1]) == ("unlawful", ev.RunFinished())

    def test_text_that_is_no_text_is_refused_on_an_open_message_too(self) -> None:
        wrong: Any = b"bytes"
        out = run(
            ev.MessageStarted(message_id="m"),
            ev.TextDelta(message_id="m", delta=None),  # type: ignore[arg-type]  # the point
            repairs={"refuse:TextDelta": 1},
        )
        assert out[-1].code == "unlawful"
        assert run(ev.TextDelta(message_id=wrong, delta="x"), repairs={"refuse:TextDelta": 1})[-1].code == "unlawful"

    def test_before_the_run_started_nothing_else_is_lawful(self) -> None:
        grammar = Grammar()
        (failed,) = grammar.feed(ev.TextDelta(message_id="m", delta="x"))
        assert failed == ev.RunFailed(
            code="unlawful",
            message="The agent sent TextDelta, which is not lawful here: the run has not started.",
        )
        assert grammar.ended


class TestUnlawfulSubAgents:
    BAD: Any = ev.StateDelta(agent="a", patch=[{"op": "put", "path": "/x"}])
    SAID = "The agent sent StateDelta, which is not lawful here: its JSON patch has a bad op."

    def test_what_a_sub_agent_sends_ends_it_alone_after_what_is_open_in_it_children_first(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="a/b", name="b", parent="a"),
            ev.AgentStarted(agent="c", name="c"),
            ev.MessageStarted(agent="a", message_id="m"),
            ev.MessageStarted(agent="a/b", message_id="m"),
            ev.MessageStarted(agent="c", message_id="m"),
            self.BAD,
            ev.TextDelta(agent="c", message_id="m", delta="x"),
            ev.RunFinished(),
            repairs={"refuse:StateDelta": 1, "close:RunFinished": 2},
        )
        assert out[6:11] == [
            ev.MessageFinished(agent="r:2", message_id="r:5"),
            ev.MessageFinished(agent="r:1", message_id="r:4"),
            ev.AgentFailed(agent="r:2", code="no_end", message="The agent b was stopped: what called it failed."),
            ev.AgentFailed(agent="r:1", code="unlawful", message=self.SAID),
            ev.TextDelta(agent="r:3", message_id="r:6", delta="x"),
        ]
        assert out[-1] == ev.RunFinished()

    @pytest.mark.parametrize(
        ("event", "flaw"),
        [
            (ev.ActivityDelta(agent="a", activity_id="p", kind="k", patch=[]), "its activity is absent"),
            (ev.MessageStarted(agent="a", message_id=5), "its ids must be text"),  # type: ignore[arg-type]  # the point
            (ev.AgentStarted(agent="a", name=5), "its fields are of the wrong type"),  # type: ignore[arg-type]  # the point
            (ev.AgentFinished(agent="a", outcome="no"), "its fields are of the wrong type"),  # type: ignore[arg-type]  # the point
            (ev.RunFailed(agent="a", code="c", message=5), "its fields are of the wrong type"),  # type: ignore[arg-type]  # the point
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, ev._Event) else "",
    )
    def test_the_failure_names_the_event_and_its_flaw(self, event: Any, flaw: str) -> None:
        kind = type(event).__name__
        out = run(ev.AgentStarted(agent="a", name="a"), event, repairs={f"refuse:{kind}": 1})
        assert out[-1].agent == "r:1"
        assert out[-1].code == "unlawful"
        assert out[-1].message.startswith(f"The agent sent {kind}, which is not lawful here: {flaw}")

    def test_an_agent_that_is_not_open_is_opened_or_continued_so_that_its_failure_is_seen(self) -> None:
        out = run(self.BAD, repairs={"open:StateDelta": 1, "refuse:StateDelta": 1})
        assert [type(event) for event in out] == [ev.AgentStarted, ev.AgentFailed]
        ended = [ev.AgentStarted(agent="a", name="a"), ev.AgentFinished(agent="a")]
        out = run(*ended, self.BAD, repairs={"renew:StateDelta": 1, "refuse:StateDelta": 1})
        assert out[2:] == [
            ev.AgentStarted(agent="r:2", name="a", continues="r:1", origin_id="a"),
            ev.AgentFailed(agent="r:2", code="unlawful", message=self.SAID),
        ]

    def test_what_it_and_the_agents_below_it_send_afterwards_is_dropped_and_counted(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b", parent="a"),
            self.BAD,
            ev.TextDelta(agent="a", message_id="m", delta="x"),
            ev.TextDelta(agent="b", message_id="m", delta="x"),
            ev.AgentStarted(agent="a/new", name="new", parent="a"),
            ev.AgentFailed(agent="a/new", code="c", message="m"),
            ev.TextDelta(agent="a/new", message_id="m", delta="x"),
            self.BAD,
            ev.RunFinished(agent="a"),
            ev.RunFinished(),
            repairs={
                "refuse:StateDelta": 1,
                "drop:TextDelta": 3,
                "drop:AgentStarted": 1,
                "drop:AgentFailed": 1,
                "drop:StateDelta": 1,
                "drop:RunFinished": 1,
            },
        )
        assert [type(event) for event in out[2:]] == [ev.AgentFailed, ev.AgentFailed, ev.RunFinished]

    def test_an_agent_whose_own_source_tells_that_it_was_unlawful_is_not_continued_either(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentFailed(agent="a", code="unlawful", message="m"),
            ev.TextDelta(agent="a", message_id="m", delta="x"),
            repairs={"drop:TextDelta": 1},
        )
        assert isinstance(out[-1], ev.AgentFailed)

    def test_when_it_is_called_again_it_is_heard_again(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            self.BAD,
            ev.AgentStarted(agent="a", name="a"),
            ev.TextDelta(agent="a", message_id="m", delta="x"),
            ev.AgentFinished(agent="a"),
            ev.TextDelta(agent="a", message_id="n", delta="y"),
            repairs={
                "refuse:StateDelta": 1,
                "open:TextDelta": 2,
                "close:AgentFinished": 1,
                "renew:TextDelta": 1,
            },
        )
        assert text_of(out) == "xy"

    def test_half_a_character_in_its_id_does_not_hide_it(self) -> None:
        out = run(ev.AgentStarted(agent="\ud83d", name="a"), ev.StateDelta(agent="\ud83d", patch=[{}]), repairs=REFUSED)
        assert (out[-1].agent, out[-1].code) == ("r:1", "unlawful")


class TestTheEnd:
    def test_an_event_that_closes_is_the_last(self) -> None:
        grammar = Grammar()
        grammar.feed(STARTED)
        assert grammar.feed(ev.RunFinished()) == [ev.RunFinished()]
        assert grammar.ended
        assert grammar.close() == grammar.close(ValueError()) == []

    def test_a_stream_that_just_stops_is_a_failure(self) -> None:
        grammar = Grammar()
        grammar.feed(STARTED)
        grammar.feed(ev.MessageStarted(message_id="m", phase="answer"))
        grammar.feed(ev.TextDelta(message_id="m", delta="half an ans"))
        assert grammar.close() == [
            ev.MessageFinished(message_id="r:1", phase="answer"),
            ev.RunFailed(code="no_end", message="The agent's stream stopped without an end.", partial=True),
        ]

    @pytest.mark.parametrize(
        ("error", "failed"),
        [
            (SourceError("The model said no.", code="model"), ev.RunFailed(code="model", message="The model said no.")),
            (
                ServerStopping("The server is stopping."),
                ev.RunFailed(code="server_stopping", message="The server is stopping.", retryable=True, side="server"),
            ),
            (ClientError("Bad."), ev.RunFailed(code="bad_request", message="Bad.", side="client")),
            (ValueError("sk-secret"), ev.RunFailed(code="agent_failed", message="The agent failed with ValueError.")),
            (
                ExceptionGroup("g", [ValueError("x"), ExceptionGroup("h", [SourceError("Inner.", code="inner")])]),
                ev.RunFailed(code="inner", message="Inner."),
            ),
            (
                SourceError("token=abc \ud83d\x1b[31m"),
                ev.RunFailed(code="agent_failed", message="token=*** \ufffd [31m"),
            ),
            (SourceError("x", code=500), ev.RunFailed(code="500", message="x")),  # type: ignore[arg-type]  # the point
        ],
    )
    def test_an_error_becomes_a_typed_failure_fit_to_be_shown(self, error: Exception, failed: ev.RunFailed) -> None:
        grammar = Grammar()
        judged(grammar.feed(STARTED) + (out := grammar.close(error)))
        assert out == [failed]

    @pytest.mark.parametrize("error", [Cancelled("stop"), BaseExceptionGroup("g", [Cancelled("stop")])])
    def test_a_cancelled_run_is_finished_not_failed_and_has_no_answer(self, error: BaseException) -> None:
        grammar = Grammar()
        grammar.feed(STARTED)
        grammar.feed(ev.MessageStarted(message_id="m", phase="answer"))
        grammar.feed(ev.AgentStarted(agent="a", name="a"))
        assert grammar.close(error) == [
            ev.AgentFinished(agent="r:2", outcome="cancelled"),
            ev.MessageFinished(message_id="r:1", phase="answer"),
            ev.RunFinished(outcome="cancelled"),
        ]

    def test_a_failure_that_a_source_tells_is_scrubbed(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentFailed(agent="a", code="c", message="at postgres://u:pw@db"),
            ev.RunFailed(code="c", message="Authorization: Bearer abc"),
        )
        assert [event.message for event in out[1:]] == ["at postgres://***@db", "Authorization: Bearer ***"]

    def test_a_sub_agent_that_ends_the_run_ends_itself(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b"),
            ev.RunFailed(agent="a", code="c", message="m"),
            ev.Interrupted(agent="b", interrupt_id="q", reason="r"),
            ev.RunFinished(agent="b", outcome="interrupted"),
            repairs={"close:RunFailed": 1, "close:RunFinished": 1},
        )
        assert out[2] == ev.AgentFailed(agent="r:1", code="c", message="m")
        assert out[-1] == ev.AgentFinished(agent="r:2", outcome="suspended")

    def test_usage_is_summed_by_model_over_all_agents(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.UsageReported(usage=ev.Usage(model="m", input=1, output=2, reasoning=1, cached=1)),
            ev.UsageReported(agent="a", usage=ev.Usage(model="m", input=10)),
            ev.UsageReported(usage=ev.Usage(model="n", output=5)),
            ev.AgentFinished(agent="a"),
            ev.RunFinished(usage=(ev.Usage(model="ignored", input=9),)),
        )
        assert out[-1].usage == (
            ev.Usage(model="m", input=11, output=2, reasoning=1, cached=1),
            ev.Usage(model="n", output=5),
        )

    def test_usage_told_only_at_the_end_is_kept(self) -> None:
        assert run(ev.RunFinished(usage=(ev.Usage(input=9),)))[-1].usage == (ev.Usage(input=9),)


class TestAgents:
    def test_an_agent_that_is_called_again_starts_afresh(self) -> None:
        out = run(
            *call("c1"),
            ev.AgentStarted(agent="a", name="a", call_id="c1"),
            *message("m", "one", agent="a"),
            ev.AgentFinished(agent="a"),
            ev.ToolReturned(call_id="c1"),
            *call("c2"),
            ev.AgentStarted(agent="a", name="a", call_id="c2"),
            *message("m", "two", agent="a"),
            ev.AgentFinished(agent="a"),
            ev.ToolReturned(call_id="c2"),
            ev.RunFinished(),
        )
        lanes = [event for event in out if isinstance(event, ev.AgentStarted)]
        assert [(lane.agent, lane.call_id, lane.continues) for lane in lanes] == [
            ("r:3", "r:1", None),
            ("r:8", "r:6", None),
        ]
        texts = [event for event in out if isinstance(event, ev.TextDelta)]
        assert [(event.agent, event.delta) for event in texts] == [("r:3", "one"), ("r:8", "two")]
        assert texts[0].message_id != texts[1].message_id

    def test_an_agent_below_one_that_is_called_again_is_continued_in_the_new_invocation(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.AgentStarted(agent="b", name="b", parent="a"),
            ev.AgentFinished(agent="b"),
            ev.AgentFinished(agent="a"),
            ev.AgentStarted(agent="a", name="a"),
            ev.StepStarted(agent="b", name="s"),
            repairs={"renew:StepStarted": 1},
        )
        assert out[-2] == ev.AgentStarted(agent="r:4", name="b", parent="r:3", continues="r:2", origin_id="b")

    def test_an_agent_announced_before_its_call_gets_the_id_that_the_call_will_have(self) -> None:
        out = run(ev.AgentStarted(agent="a", name="a", call_id="c"), *call("c"))
        assert out[0] == ev.AgentStarted(agent="r:1", name="a", call_id="r:2", origin_id="a", ref_origin_id="c")
        assert out[1].call_id == "r:2"

    def test_a_chain_of_agents_of_any_depth_is_continued(self) -> None:
        depth = 1100  # beyond what recursion could reach
        lanes = [ev.AgentStarted(agent=str(n), name="a", parent=str(n - 1) if n else "") for n in range(depth)]
        ends = [ev.AgentFinished(agent=str(n)) for n in reversed(range(depth))]
        late = ev.StepStarted(agent=str(depth - 1), name="s")
        assert len(run(*lanes, *ends, late, repairs={"renew:StepStarted": depth})) == 3 * depth + 1


class TestCalls:
    def test_calls_of_one_turn_share_its_message(self) -> None:
        out = run(
            ev.MessageStarted(message_id="turn"),
            ev.ToolCallStarted(call_id="1", name="t", message_id="turn"),
            ev.ToolCallStarted(call_id="2", name="t", message_id="turn"),
        )
        assert [event.message_id for event in out] == ["r:1"] * 3

    def test_a_turn_without_text_has_a_message_id_all_the_same(self) -> None:
        out = run(
            ev.ToolCallStarted(call_id="1", name="t", message_id="turn"),
            ev.ToolCallStarted(call_id="2", name="t", message_id="turn"),
            ev.MessageStarted(message_id="turn"),
        )
        assert [event.message_id for event in out] == ["r:2"] * 3
        assert [event.ref_origin_id for event in out[:2]] == ["turn", "turn"]

    def test_a_turn_the_source_does_not_name_lasts_until_a_result(self) -> None:
        out = run(
            *message("m"),
            *call("1"),
            *call("2"),
            ev.ToolReturned(call_id="1"),
            ev.ToolReturned(call_id="2"),
            *call("3"),
            *call("4"),
        )
        turns = [event.message_id for event in out if isinstance(event, ev.ToolCallStarted)]
        assert turns[:2] == ["r:1", "r:1"]
        assert turns[2] == turns[3] not in ("r:1", None)

    def test_a_call_of_a_continued_agent_is_in_no_message_of_the_ended_one(self) -> None:
        stream = [ev.AgentStarted(agent="a", name="a"), *message("m", agent="a"), ev.AgentFinished(agent="a")]
        named = run(*stream, *call("c", "a", message_id="m"), repairs={"renew:ToolCallStarted": 1})
        unnamed = run(*stream, *call("c", "a"), repairs={"renew:ToolCallStarted": 1})
        for out in (named, unnamed):
            assert only(ev.ToolCallStarted, out).message_id != only(ev.MessageStarted, out).message_id

    def test_a_message_of_the_user_is_no_models_turn(self) -> None:
        out = run(*message("m"), *message("u", role="user"), *call("c"))
        assert only(ev.ToolCallStarted, out).message_id == out[0].message_id

    def test_each_result_has_a_message_id_of_its_own(self) -> None:
        out = run(
            *call("1"), *call("2"), *(ev.ToolReturned(call_id=id, message_id="tool message") for id in ("1", "2"))
        )
        first, second = [event.message_id for event in out if isinstance(event, ev.ToolReturned)]
        assert first != second

    @pytest.mark.parametrize("executor", ["server", "client"])
    @pytest.mark.parametrize(
        ("end", "said"),
        [
            (ev.RunFailed(code="c", message="m"), "Error: a failure ended the agent before this tool returned."),
            (ev.RunFinished(outcome="cancelled"), "Error: the agent was cancelled before this tool returned."),
        ],
    )
    def test_a_failure_or_cancellation_gives_every_call_a_result(self, executor: Any, end: Any, said: str) -> None:
        out = run(*call("c", executor=executor), ev.ToolCallStarted(call_id="cut", name="t", executor=executor), end)
        results = [event for event in out if isinstance(event, ev.ToolReturned)]
        assert [(event.content, event.error, event.is_error) for event in results] == [(said, said, True)] * 2

    def test_a_success_leaves_complete_calls_of_the_client_pending_in_order(self) -> None:
        out = run(
            *call("1", executor="client"),
            *call("2", executor="client"),
            ev.ToolReturned(call_id="1"),
            *call("3", executor="client"),
            ev.RunFinished(),
        )
        pending = [event.call_id for event in out if isinstance(event, ev.ToolCallStarted)][1:]
        assert list(out[-1].pending_call_ids) == pending

    def test_a_call_of_the_client_with_half_its_arguments_is_not_pending(self) -> None:
        out = run(
            ev.ToolCallStarted(call_id="c", name="t", executor="client"),
            ev.ToolArgsDelta(call_id="c", delta='{"pa'),
            ev.RunFinished(),
            repairs={"close:RunFinished": 1},
        )
        assert only(ev.ToolReturned, out).error == "Error: the arguments of this call are incomplete."
        assert out[-1].pending_call_ids == ()

    def test_a_call_without_a_result_in_a_success_is_repaired(self) -> None:
        out = run(*call("c"), ev.RunFinished(), repairs={"close:RunFinished": 1})
        assert only(ev.ToolReturned, out).error == "Error: this tool reported no result."

    def test_an_interrupted_run_owes_its_calls_nothing_yet(self) -> None:
        out = run(
            *call("1"),
            *call("2", executor="client"),
            ev.Interrupted(interrupt_id="q", reason="r", call_id="1"),
            ev.RunFinished(outcome="interrupted"),
        )
        assert not [event for event in out if isinstance(event, ev.ToolReturned)]
        assert out[-1] == ev.RunFinished(outcome="interrupted", interrupt_ids=("r:4",), pending_call_ids=("r:3",))

    def test_the_calls_of_a_sub_agent_that_fails_get_results_in_its_lane(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            *call("1", "a"),
            *call("2", "a", executor="client"),
            ev.AgentFailed(agent="a", code="c", message="m"),
            ev.RunFinished(),
        )
        results = [event for event in out if isinstance(event, ev.ToolReturned)]
        assert [(event.agent, event.call_id) for event in results] == [("r:1", "r:4"), ("r:1", "r:2")]
        assert out.index(results[-1]) < out.index(only(ev.AgentFailed, out))

    def test_a_call_of_the_client_does_not_outlive_a_sub_agent_that_never_ended(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            *call("1", "a", executor="client"),
            ev.RunFinished(),
            repairs={"close:RunFinished": 2},
        )
        assert only(ev.ToolReturned, out).is_error
        assert out[-1].pending_call_ids == ()

    def test_a_call_of_the_client_outlives_the_success_of_its_sub_agent(self) -> None:
        stream = [
            ev.AgentStarted(agent="a", name="a"),
            *call("1", "a", executor="client"),
            ev.AgentFinished(agent="a"),
        ]
        assert run(*stream, ev.RunFinished())[-1].pending_call_ids == ("r:2",)
        assert not [event for event in run(*stream, ev.RunFailed(code="c", message="m")) if event.agent][4:]


class TestText:
    def test_half_a_character_waits_for_its_other_half(self) -> None:
        out = run(*message("m", "a\ud83d", "\ude00b"))
        assert [event.delta for event in out if isinstance(event, ev.TextDelta)] == ["a", "\U0001f600b"]

    def test_each_part_holds_its_own_half(self) -> None:
        out = run(
            ev.MessageStarted(message_id="1"),
            ev.MessageStarted(message_id="2"),
            ev.TextDelta(message_id="1", delta="\ud83d"),
            ev.TextDelta(message_id="2", delta="\ud83d"),
            ev.TextDelta(message_id="2", delta="\ude01"),
            ev.TextDelta(message_id="1", delta="\ude00"),
        )
        assert [event.delta for event in out[2:]] == ["\U0001f601", "\U0001f600"]

    @pytest.mark.parametrize(
        "end",
        [
            ev.MessageFinished(agent="a", message_id="m"),
            ev.AgentFinished(agent="a"),
            ev.AgentFailed(agent="a", code="c", message="m"),
            ev.RunFinished(outcome="cancelled"),
            ev.RunFinished(),
            ev.RunFailed(code="c", message="m"),
            ev.MessageReset(agent="a", message_id="m", superseded_by=""),
            ev.RunResumed(epoch=2, voided_message_ids=("r:2",)),
            None,
        ],
    )
    def test_half_a_character_that_stays_alone_is_replaced_before_any_end(self, end: Any) -> None:
        grammar = Grammar()
        for event in (
            STARTED,
            ev.AgentStarted(agent="a", name="a"),
            ev.MessageStarted(agent="a", message_id="m"),
            ev.TextDelta(agent="a", message_id="m", delta="\ud83d"),
        ):
            grammar.feed(event)
        assert grammar.feed(end)[:2] == [
            ev.TextDelta(agent="r:1", message_id="r:2", delta="\ufffd"),
            ev.MessageFinished(agent="r:1", message_id="r:2"),
        ]

    def test_a_half_in_front_of_other_text_and_a_wrong_half_are_replaced(self) -> None:
        assert text_of(run(*message("m", "\ude00", "\ud83d", "x", "\ud83d", "\ud83d\ude00"))) == (
            "\ufffd\ufffdx\ufffd\U0001f600"
        )

    def test_halves_of_tool_output_wait_too_and_go_before_what_is_no_text(self) -> None:
        out = run(
            *call("c"),
            ev.ToolOutputDelta(call_id="c", content="\ud83d"),
            ev.ToolOutputDelta(call_id="c", content="\ude00\ud83d"),
            ev.ToolOutputDelta(call_id="c", content={"n": 1}),
            ev.ToolOutputDelta(call_id="c", content="\ud83d"),
            ev.ToolReturned(call_id="c"),
        )
        assert [event.content for event in out[2:]] == ["\U0001f600", "\ufffd", {"n": 1}, "\ufffd", ""]

    def test_half_a_character_of_output_is_replaced_when_the_run_ends(self) -> None:
        out = run(*call("c"), ev.ToolOutputDelta(call_id="c", content="\ud83d"), ev.RunFailed(code="c", message="m"))
        assert out[2] == ev.ToolOutputDelta(call_id="r:1", content="\ufffd")

    def test_a_frameworks_own_kind_of_text_becomes_plain_text(self) -> None:
        class Text(str):
            __slots__ = ()

        out = run(
            ev.MessageStarted(message_id=Text("m"), name=Text("n")),
            ev.TextDelta(message_id=Text("m"), delta=Text("x")),
            ev.TextDelta(message_id="m", delta=Text("y")),
            ev.Custom(name="c", value={Text("k"): [Text("v")]}),
        )
        assert out == [
            ev.MessageStarted(message_id="r:1", name="n", origin_id="m"),
            ev.TextDelta(message_id="r:1", delta="x"),
            ev.TextDelta(message_id="r:1", delta="y"),
            ev.Custom(name="c", value={"k": ["v"]}),
        ]
        assert {type(event.delta) for event in out if isinstance(event, ev.TextDelta)} == {str}


class TestAnswer:
    def test_it_is_the_finished_answer_messages_of_the_root_in_the_order_they_began(self) -> None:
        out = run(
            *message("q", "question", role="user", phase="answer"),
            *message("n", "narration", phase="narration"),
            ev.AgentStarted(agent="a", name="a"),
            *message("m", "a sub-agent's", agent="a", phase="answer"),
            ev.AgentFinished(agent="a"),
            ev.MessageStarted(message_id="1"),
            ev.MessageStarted(message_id="2"),
            ev.TextDelta(message_id="2", delta="zwei\U0001f600"),
            ev.TextDelta(message_id="1", delta="eins"),
            ev.MessageFinished(message_id="2", phase="answer"),
            ev.MessageFinished(message_id="1", phase="answer"),
            ev.RunFinished(),
        )
        started = {event.origin_id: event.message_id for event in out if isinstance(event, ev.MessageStarted)}
        text = "einszwei\U0001f600"
        assert out[-1].answer == ev.Answer(
            message_ids=(started["1"], started["2"]), length=9, sha256=hashlib.sha256(text.encode()).hexdigest()
        )

    def test_without_an_answer_message_there_is_none(self) -> None:
        assert run(*message("m", "x", phase="narration"), ev.RunFinished())[-1].answer is None

    def test_the_start_says_what_the_finish_leaves_open_and_the_finish_has_the_last_word(self) -> None:
        answer = [ev.MessageStarted(message_id="1", phase="answer"), ev.MessageFinished(message_id="1")]
        narration = [
            ev.MessageStarted(message_id="2", phase="answer"),
            ev.MessageFinished(message_id="2", phase="narration"),
        ]
        assert run(*answer, *narration, ev.RunFinished())[-1].answer.message_ids == ("r:1",)

    def test_a_message_and_its_continuation_are_both_the_answer(self) -> None:
        out = run(
            ev.MessageStarted(message_id="m", phase="answer"),
            ev.TextDelta(message_id="m", delta="a"),
            ev.MessageFinished(message_id="m"),
            ev.TextDelta(message_id="m", delta="b"),
            ev.MessageFinished(message_id="m"),
            ev.RunFinished(),
            repairs={"renew:TextDelta": 1},
        )
        assert out[-1].answer == ev.Answer(
            message_ids=("r:1", "r:2"), length=2, sha256=hashlib.sha256(b"ab").hexdigest()
        )


class TestReset:
    def test_a_reset_names_the_message_that_supersedes_it_and_voids_the_answer(self) -> None:
        out = run(
            *message("m", "first", phase="answer"),
            ev.MessageReset(message_id="m", superseded_by="n", reason="retry"),
            *message("n", "second", phase="answer"),
            ev.RunFinished(),
        )
        assert out[3] == ev.MessageReset(message_id="r:1", superseded_by="r:2", reason="retry", ref_origin_id="n")
        assert out[4] == ev.MessageStarted(message_id="r:2", origin_id="n")
        assert out[-1].answer.message_ids == ("r:2",)

    def test_a_retry_may_use_the_same_local_id(self) -> None:
        out = run(
            *message("m", "first", phase="answer"),
            ev.MessageReset(message_id="m", superseded_by="m"),
            *message("m", "second", phase="answer"),
            ev.RunFinished(),
        )
        assert (out[3].message_id, out[3].superseded_by) == ("r:1", "r:2")
        assert out[-1].answer.message_ids == ("r:2",)

    def test_nothing_has_to_replace_a_message(self) -> None:
        out = run(*message("m", "x"), ev.MessageReset(message_id="m", superseded_by=""))
        assert out[-1] == ev.MessageReset(message_id="r:1", superseded_by="")

    def test_late_text_of_a_reset_message_is_not_lost(self) -> None:
        out = run(
            *message("m", "x"),
            ev.MessageReset(message_id="m", superseded_by="n"),
            ev.TextDelta(message_id="m", delta="late"),
            repairs={"renew:TextDelta": 1},
        )
        assert out[-1] == ev.TextDelta(message_id="r:3", delta="late")


class TestInterrupts:
    def test_open_questions_are_told_at_the_end_answered_ones_are_not(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.Interrupted(interrupt_id="1", reason="r"),
            ev.Interrupted(agent="a", interrupt_id="1", reason="r"),
            ev.InterruptResolved(interrupt_id="1"),
            ev.AgentFinished(agent="a", outcome="suspended"),
            ev.RunFinished(outcome="interrupted"),
        )
        assert out[-1] == ev.RunFinished(outcome="interrupted", interrupt_ids=("r:3",))

    def test_a_success_with_an_open_question_is_an_interruption(self) -> None:
        out = run(ev.Interrupted(interrupt_id="q", reason="r"), ev.RunFinished(), repairs={"ask:RunFinished": 1})
        assert out[-1] == ev.RunFinished(outcome="interrupted", interrupt_ids=("r:1",))

    def test_an_interruption_suspends_open_sub_agents(self) -> None:
        out = run(
            ev.AgentStarted(agent="a", name="a"),
            ev.Interrupted(agent="a", interrupt_id="q", reason="r"),
            ev.RunFinished(outcome="interrupted"),
        )
        assert only(ev.AgentFinished, out).outcome == "suspended"

    def test_a_question_of_an_earlier_run_is_resolved_under_the_id_it_had_there(self) -> None:
        assert run(ev.InterruptResolved(interrupt_id="earlier:7"), ev.MessageStarted(message_id="m")) == [
            ev.InterruptResolved(interrupt_id="earlier:7"),
            ev.MessageStarted(message_id="r:1", origin_id="m"),
        ]

    def test_a_question_may_be_resolved_by_its_public_id(self) -> None:
        run(
            ev.Interrupted(interrupt_id="q", reason="r"),
            ev.InterruptResolved(interrupt_id="r:1"),
            ev.InterruptResolved(interrupt_id="q"),
            ev.RunFinished(),
            repairs={"drop:InterruptResolved": 1},
        )


class TestResume:
    def test_voided_parts_are_closed_and_their_local_ids_are_free_again(self) -> None:
        out = run(
            ev.MessageStarted(message_id="m", phase="answer"),
            ev.TextDelta(message_id="m", delta="lost"),
            ev.ToolCallStarted(call_id="c", name="t"),
            ev.MessageStarted(message_id="kept"),
            ev.RunResumed(
                agent="x", epoch=2, voided_message_ids=("r:1", "r:9", "r:1"), voided_call_ids=("r:2", "r:1", "nonsense")
            ),
            *message("m", "again", phase="answer"),
            *call("c"),
            ev.TextDelta(message_id="kept", delta="on"),
            ev.MessageFinished(message_id="kept"),
            ev.ToolReturned(call_id="c"),
            ev.RunFinished(),
        )
        assert out[4:7] == [
            ev.ToolCallFinished(call_id="r:2"),
            ev.MessageFinished(message_id="r:1", phase="answer"),
            ev.RunResumed(epoch=2, voided_message_ids=("r:1",), voided_call_ids=("r:2",)),
        ]
        assert text_of(out[7:]) == "againon"
        assert out[-1].answer.message_ids == ("r:4",)

    def test_of_a_continued_message_each_piece_is_voided_by_itself(self) -> None:
        out = run(
            *message("m", "a", phase="answer"),
            ev.TextDelta(message_id="m", delta="b"),
            ev.RunResumed(epoch=2, voided_message_ids=("r:1",)),
            ev.TextDelta(message_id="m", delta="c"),
            ev.MessageFinished(message_id="m", phase="answer"),
            ev.RunFinished(),
            repairs={"renew:TextDelta": 1},
        )
        assert out[-1].answer.message_ids == ("r:2",)

    def test_a_voided_message_that_had_been_an_answer_is_none(self) -> None:
        out = run(
            *message("m", "x", phase="answer"), ev.RunResumed(epoch=2, voided_message_ids=("r:1",)), ev.RunFinished()
        )
        assert out[-1].answer is None

    def test_only_what_began_and_is_named_as_what_it_is_can_be_voided(self) -> None:
        out = run(
            *message("m"),
            *call("c", message_id="turn"),
            ev.RunResumed(epoch=2, voided_message_ids=("r:2", "r:3"), voided_call_ids=("r:1",)),
            *call("d", message_id="turn"),
        )
        assert ev.RunResumed(epoch=2) in out
        assert out[-2].message_id == out[2].message_id

    def test_a_voided_call_is_owed_nothing(self) -> None:
        out = run(*call("c"), ev.RunResumed(epoch=2, voided_call_ids=("r:1",)), ev.RunFinished())
        assert not [event for event in out if isinstance(event, ev.ToolReturned)]


class TestFromLog:
    def test_a_restored_grammar_goes_on_with_open_parts_ids_usage_and_answer(self) -> None:
        first, second = Grammar(), Grammar()
        begun: list[Any] = [
            STARTED,
            *message("0", "so ", phase="answer"),
            ev.AgentStarted(agent="a", name="a"),
            ev.MessageStarted(agent="a", message_id="m"),
            ev.ToolCallStarted(call_id="c", name="t", message_id="turn"),
            ev.UsageReported(usage=ev.Usage(model="m", input=1)),
            ev.Interrupted(interrupt_id="q", reason="r"),
        ]
        rest: list[Any] = [
            ev.TextDelta(agent="a", message_id="m", delta="x"),
            ev.ToolCallStarted(call_id="d", name="t", message_id="turn"),
            ev.MessageStarted(message_id="turn", phase="answer"),
            ev.TextDelta(message_id="turn", delta="it is"),
            ev.UsageReported(usage=ev.Usage(model="m", input=1)),
            ev.RunFinished(),
        ]
        log = [out for event in begun for out in first.feed(event)]
        restored = Grammar.from_log(ev.decode(ev.encode(event)) for event in log)
        for event in [*begun, *rest]:
            second_out = second.feed(event)
        for event in rest:
            restored_out = restored.feed(event)
        assert restored_out == second_out
        assert restored_out[-1].answer.length == len("so it is")
        assert restored.ended

    def test_an_ended_log_stays_ended(self) -> None:
        grammar = Grammar.from_log([STARTED, ev.RunFinished()])
        assert grammar.ended
        assert grammar.feed(STARTED) == grammar.close() == []

    def test_an_empty_log_is_a_run_that_has_not_started(self) -> None:
        assert Grammar.from_log([]).feed(STARTED) == [STARTED]


class TestPrivateCopies:
    def test_what_was_let_out_does_not_change_with_what_was_fed(self) -> None:
        inner: dict[str, Any] = {"deep": [1]}
        out = run(
            ev.StateSnapshot(value=inner),
            ev.Custom(name="c", value=inner),
            ev.ActivitySnapshot(activity_id="p", kind="k", content=inner),
            *call("c"),
            ev.ToolOutputDelta(call_id="c", content=inner),
            ev.ToolReturned(call_id="c", parts=(ev.Part(kind="json", data=inner),)),
        )
        inner["deep"].append(2)
        kept = [out[0].value, out[1].value, out[2].content, out[-2].content, out[-1].parts[0].data]
        assert kept == [{"deep": [1]}] * 5

    def test_what_is_not_json_becomes_a_placeholder_that_tells_only_its_type(self) -> None:
        class Secret:
            def __repr__(self) -> str:
                return "sk-secret"

        class Model:
            def model_dump(self, mode: str) -> Any:
                return {"mode": mode, "inner": Secret()}

        value: dict[Any, Any] = {
            1: float("nan"),
            None: (Secret(), b"b"),
            "\ud83d": {2},
            (1, 2): 10**5000,
            "m": Model(),
            "c": 1j,
        }
        value["none"] = None
        value["p"] = MappingProxyType({"k": Secret()})
        (out,) = run(ev.StateSnapshot(value=value))
        assert out.value == {
            "1": None,
            "null": ["<Secret>", "Yg=="],
            "\ufffd": [2],
            "<tuple>": "<int>",
            "m": {"mode": "json", "inner": "<Secret>"},
            "c": "<complex>",
            "none": None,
            "p": {"k": "<Secret>"},
        }

    @pytest.mark.parametrize("leaf", [1, 1234567890123456789, float("nan"), "\ud800", object()], ids=repr)
    def test_a_value_is_as_deep_as_every_encoder_can_write(self, leaf: Any) -> None:
        for depth in (90, 100, 300, 700, 950, 1100, 5000):
            value = leaf
            for _ in range(depth):
                value = [value]
            (out,) = run(ev.Custom(name="c", value=value))
            written = ev.encode(out)
            assert written.count(b"[") == min(depth, 99)
            assert (b"<too deep>" in written) == (depth > 99)

    def test_a_wide_value_is_written_whole(self) -> None:
        value = [{"id": n, "tags": ["x", {"n": n}]} for n in range(500)]
        (out,) = run(ev.StateSnapshot(value=value))
        assert out.value == value

    def test_of_a_value_that_holds_itself_what_comes_again_is_a_placeholder(self) -> None:
        @dataclass
        class Node:
            name: str
            peers: list[Any]

        one, two = Node("one", []), Node("two", [])
        one.peers += [two, 5]
        two.peers += [one, float("inf")]
        (out,) = run(ev.Custom(name="c", value={"node": one}))
        peers = ["<repeated>", None]
        assert out.value == {"node": {"name": "one", "peers": [{"name": "two", "peers": peers}, 5]}}
        plain: dict[str, Any] = {}
        plain["self"] = plain
        (part,) = run(*call("c"), ev.ToolReturned(call_id="c", parts=(ev.Part(kind="json", data=plain),)))[-1].parts
        assert part == ev.Part(kind="json", data={"self": "<repeated>"})
