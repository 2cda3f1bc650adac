"""How code inside a tool reaches its run."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch import events as ev
from anabranch.grammar import Grammar
from anabranch.scope import Scope, current, entered, join, under

names = st.sampled_from(["", "a", "b", "a/b", "x"])
scoped = st.one_of(
    st.builds(ev.TextDelta, agent=names, message_id=names, delta=names),
    st.builds(ev.AgentStarted, agent=names, name=names, parent=names),
    st.builds(ev.AgentFinished, agent=names),
)


@given(names, names, names)
def test_joining_is_associative_and_the_root_changes_nothing(a: str, b: str, c: str) -> None:
    assert join(join(a, b), c) == join(a, join(b, c))
    assert join("", a) == join(a, "") == a


@given(names, names, scoped)
def test_an_event_seen_through_two_scopes_is_seen_through_their_join(a: str, b: str, event: Any) -> None:
    assert under(a, under(b, event)) == under(join(a, b), event)
    assert under("", event) == event


def test_only_whose_an_event_is_changes_on_the_way_up() -> None:
    event = ev.AgentStarted(agent="b", name="n", parent="", call_id="c")
    assert under("a", event) == ev.AgentStarted(agent="a/b", name="n", parent="a", call_id="c")
    assert under("a", ev.TextDelta(message_id="m", delta="x")) == ev.TextDelta(agent="a", message_id="m", delta="x")


def test_there_is_no_run_outside_a_run() -> None:
    with pytest.raises(LookupError, match="inside a tool or agent"):
        current()
    assert anabranch.current is current


def test_entered_scopes_nest_and_are_left_on_an_error_too() -> None:
    outer, inner = Scope([].append), Scope([].append, "a")
    with entered(outer) as given_back:
        assert current() is outer is given_back
        with pytest.raises(ZeroDivisionError), entered(inner):
            assert current() is inner
            raise ZeroDivisionError
        assert current() is outer
    with pytest.raises(LookupError):
        current()


def test_a_scope_entered_in_one_context_is_not_seen_in_another() -> None:
    elsewhere = contextvars.copy_context()
    with entered(Scope([].append)), pytest.raises(LookupError):
        elsewhere.run(current)


def test_what_is_emitted_in_a_scope_is_relative_to_it() -> None:
    taken: list[ev.Event] = []
    Scope(taken.append, "a").emit(ev.TextDelta(agent="b", message_id="m", delta="x"))
    Scope(taken.append).emit(ev.TextDelta(message_id="m", delta="y"))
    assert [event.agent for event in taken] == ["a/b", ""]


def test_a_lane_announces_its_agent_and_ends_it() -> None:
    taken: list[ev.Event] = []
    scope = Scope(taken.append, "a")
    remote = ev.Remote(url="u")
    one = scope.lane("komodor", call_id="c", remote=remote)
    two = scope.lane("komodor", id="second")
    one.emit(ev.TextDelta(message_id="m", delta="x"))
    inner = one.lane("inner")
    inner.finish()
    one.finish("suspended")
    two.fail("lost", "connection lost")
    assert taken == [
        ev.AgentStarted(agent="a/komodor", name="komodor", parent="a", call_id="c", remote=remote),
        ev.AgentStarted(agent="a/second", name="komodor", parent="a"),
        ev.TextDelta(agent="a/komodor", message_id="m", delta="x"),
        ev.AgentStarted(agent="a/komodor/inner", name="inner", parent="a/komodor"),
        ev.AgentFinished(agent="a/komodor/inner"),
        ev.AgentFinished(agent="a/komodor", outcome="suspended"),
        ev.AgentFailed(agent="a/second", code="lost", message="connection lost"),
    ]


def test_lanes_are_lawful_one_after_the_other_and_side_by_side() -> None:
    grammar = Grammar()
    out = grammar.feed(ev.RunStarted(run_id="r", thread_id="t"))
    scope = Scope(lambda event: out.extend(grammar.feed(event)))
    for _ in range(2):
        lane = scope.lane("a", id="one")
        other = scope.lane("a")
        for place in (lane, other):
            place.emit(ev.MessageStarted(message_id="m"))
        for place in (lane, other, lane):
            place.emit(ev.TextDelta(message_id="m", delta="x"))
        for place in (other, lane):
            place.emit(ev.MessageFinished(message_id="m"))
            place.finish()
    out += grammar.feed(ev.RunFinished())
    assert not grammar.repairs
    lanes = [event.agent for event in out if isinstance(event, ev.AgentStarted)]
    texts = [event.agent for event in out if isinstance(event, ev.TextDelta)]
    assert texts == [lanes[0], lanes[1], lanes[0], lanes[2], lanes[3], lanes[2]]


def test_lanes_of_one_scope_stay_apart_whatever_they_are_called() -> None:
    taken: list[ev.Event] = []
    scope = Scope(taken.append)
    for name in ("a", "a", "a 2", "a", "a/b", "a-b", ""):
        scope.lane(name)
    scope.lane("other", id="x")
    scope.lane("x")
    scope.lane("a").lane("a")
    ids = [event.agent for event in taken]
    assert ids == ["a", "a 2", "a 2 2", "a 3", "a-b", "a-b 2", "agent", "x", "x 2", "a 4", "a 4/a"]
    assert [event.name for event in taken if isinstance(event, ev.AgentStarted)][:4] == ["a", "a", "a 2", "a"]


def test_lanes_opened_on_many_threads_have_different_ids() -> None:
    taken: list[ev.Event] = []
    scope = Scope(taken.append)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(scope.lane, "a")
    assert len({event.agent for event in taken}) == len(taken) == 400
