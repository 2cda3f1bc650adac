"""What holds for every stream, lawful or not. ``ANABRANCH_DEEP=1`` looks twenty times as long."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from referee import Referee, judged

from anabranch import events as ev
from anabranch.errors import Cancelled, ServerError, SourceError
from anabranch.grammar import Grammar

DEEP = 20 if os.environ.get("ANABRANCH_DEEP") else 1
STARTED = ev.RunStarted(run_id="r", thread_id="t")


def examples(count: int) -> Any:
    return settings(
        max_examples=count * DEEP,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


# --- any stream ----------------------------------------------------------------------------------------------------

# Few ids, so that parts collide within an agent, across agents and across kinds, and so that ids look like public ones.
agents = st.sampled_from(["", "a", "b", "a/b", "r:1"])
sub_agents = st.sampled_from(["a", "b", "a/b", "r:1"])
ids = st.sampled_from(["1", "2", "a", "r:2"])
some_id = st.none() | ids
pieces = st.sampled_from(
    ["x", " ", "\n", "\r", "\r\n", "", "é", "\U0001f600", "\ud83d", "\ude00", "\ud83d\ude00", "x\ud83d"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | pieces,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(pieces | st.integers(0, 3), inner, max_size=2),
    max_leaves=4,
)
usages = st.builds(ev.Usage, model=st.sampled_from(["", "m"]), input=st.integers(0, 9), cached=st.integers(0, 9))
patches = st.just([{"op": "replace", "path": "/n", "value": 1}])
phases = st.sampled_from(["answer", "narration", "progress", "undetermined"])
parts = st.builds(ev.Part, kind=st.just("json"), data=json_values)


def of(kind: type, /, **fields: Any) -> st.SearchStrategy[Any]:
    return st.builds(kind, **({"agent": agents} | fields))


MENDABLE = {
    "agent started": of(
        ev.AgentStarted, agent=sub_agents, name=pieces, parent=st.just(""), call_id=some_id, answers=st.booleans()
    ),
    "agent finished": of(
        ev.AgentFinished, agent=sub_agents, outcome=st.sampled_from(["success", "suspended", "cancelled"])
    ),
    "agent failed": of(ev.AgentFailed, agent=sub_agents, code=pieces | st.just("unlawful"), message=pieces),
    "message started": of(ev.MessageStarted, message_id=ids, role=st.sampled_from(["assistant", "user"]), phase=phases),
    "text": of(ev.TextDelta, message_id=ids, delta=pieces),
    "more text": of(ev.TextDelta, message_id=ids, delta=pieces),
    "message finished": of(ev.MessageFinished, message_id=ids, phase=phases),
    "message reset": of(ev.MessageReset, message_id=ids, superseded_by=ids | st.just("")),
    "part": of(ev.PartAdded, message_id=ids, part=parts),
    "annotation": of(ev.Annotated, message_id=ids, annotation=json_values),
    "reasoning started": of(ev.ReasoningStarted, reasoning_id=ids),
    "reasoning": of(ev.ReasoningDelta, reasoning_id=ids, delta=pieces),
    "reasoning finished": of(ev.ReasoningFinished, reasoning_id=ids, encrypted=st.none() | pieces),
    "call started": of(
        ev.ToolCallStarted,
        call_id=ids,
        name=pieces,
        message_id=ids | st.just(""),
        executor=st.sampled_from(["server", "client"]),
    ),
    "arguments": of(ev.ToolArgsDelta, call_id=ids, delta=pieces),
    "call finished": of(ev.ToolCallFinished, call_id=ids),
    "output": of(ev.ToolOutputDelta, call_id=ids, content=json_values),
    "returned": of(ev.ToolReturned, call_id=ids, content=pieces, parts=st.tuples(parts), message_id=ids),
    "state": of(ev.StateSnapshot, value=json_values),
    "state delta": of(ev.StateDelta, patch=patches),
    "activity": of(ev.ActivitySnapshot, activity_id=ids, kind=pieces, content=st.just({"n": 0})),
    "interrupted": of(ev.Interrupted, interrupt_id=ids, reason=pieces, call_id=some_id),
    "resolved": of(ev.InterruptResolved, interrupt_id=ids),
    "routed": of(ev.Routed, route=st.just("direct"), agents=st.just(("a",)), reason=pieces),
    "remote known": of(ev.RemoteKnown, remote=st.just(ev.Remote(context_id="c"))),
    "usage": of(ev.UsageReported, usage=usages),
    "step started": of(ev.StepStarted, name=ids),
    "step finished": of(ev.StepFinished, name=ids),
    "custom": of(ev.Custom, name=pieces, value=json_values),
    "unknown": of(ev.Unknown, name=pieces, value=json_values),
    "started again": of(ev.RunStarted, run_id=ids, thread_id=ids),
    "resumed": of(
        ev.RunResumed,
        epoch=st.integers(1, 3),
        voided_message_ids=st.lists(st.integers(1, 9).map("r:{}".format), max_size=2).map(tuple),
        voided_call_ids=st.lists(st.integers(1, 9).map("r:{}".format), max_size=2).map(tuple),
    ),
    "ends in a sub-agent": of(ev.RunFinished, agent=sub_agents)
    | of(ev.RunFailed, agent=sub_agents, code=pieces, message=pieces),
}
REFUSABLE = {
    "agent nested": of(ev.AgentStarted, name=pieces, parent=agents, call_id=some_id, answers=st.booleans()),
    "bad patch": of(ev.StateDelta, patch=st.just([{"op": "put", "path": "/n"}])),
    "activity delta": of(ev.ActivityDelta, activity_id=ids, kind=pieces, patch=patches),
    "finished": of(
        ev.RunFinished, outcome=st.sampled_from(["success", "interrupted", "cancelled"]), result=json_values
    ),
    "failed": of(ev.RunFailed, code=pieces, message=pieces),
}
mendable = st.one_of(list(MENDABLE.values()))
anything = st.one_of([*MENDABLE.values(), *REFUSABLE.values()])
errors = st.sampled_from([None, Cancelled("c"), SourceError("s\ud83d"), ServerError("x"), ValueError("v"), "none"])
streams = st.lists(mendable, max_size=40) | st.lists(anything, max_size=40)


def run(stream: list[ev.Event], error: Any = None, *, started: bool = True) -> tuple[Grammar, list[ev.Event]]:
    grammar = Grammar()
    out = grammar.feed(STARTED) if started else []
    for event in stream:
        out += grammar.feed(event)
    return grammar, out + grammar.close(None if error == "none" else error)


@settings(max_examples=1, database=None)
@given(st.tuples(*MENDABLE.values(), *REFUSABLE.values()))
def test_the_streams_here_hold_every_type_of_event(one_of_each: tuple[ev.Event, ...]) -> None:
    assert {type(event) for event in one_of_each} | {ev.RunFinished, ev.RunFailed} == set(ev.EVENT_TYPES)


@examples(400)
@given(streams, errors)
def test_any_stream_cut_anywhere_and_closed_anyhow_is_legal_and_ends_once(stream: list[ev.Event], error: Any) -> None:
    grammar, out = run(stream, error)
    judged(out)
    assert grammar.ended
    assert grammar.close() == grammar.close(ValueError()) == []
    assert grammar.feed(ev.TextDelta(message_id="1", delta="late")) == []


@examples(100)
@given(streams, errors)
def test_a_stream_that_never_started_is_one_terminal_event(stream: list[ev.Event], error: Any) -> None:
    _, out = run([event for event in stream if not isinstance(event, ev.RunStarted)], error, started=False)
    assert len(out) == 1
    judged(out)


@examples(100)
@given(streams, errors)
def test_the_same_events_always_give_the_same_events(stream: list[ev.Event], error: Any) -> None:
    one, out = run(stream, error)
    two, again = run(stream, error)
    assert out == again
    assert one.repairs == two.repairs


# --- text ----------------------------------------------------------------------------------------------------------


def loosely(text: str) -> str:
    """``text``, with no difference between a whole character and its two halves, each alone or replaced."""
    halves = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return re.sub("[\ud800-\udfff\ufffd]|[\U00010000-\U0010ffff]", lambda m: "??" if m[0] > "\uffff" else "?", halves)


def fed_texts(stream: list[ev.Event]) -> dict[tuple[str, str, str], str]:
    """What was fed as text while the run lasted and its agent was heard, by kind, agent and local id."""
    grammar, referee = Grammar(), Referee()
    referee.see(grammar.feed(STARTED))
    texts: defaultdict[tuple[str, str, str], str] = defaultdict(str)
    for event in stream:
        if grammar.ended:
            break
        silenced = referee.silenced(event.agent)
        referee.see(grammar.feed(event))
        if silenced:
            continue
        if isinstance(event, ev.TextDelta):
            texts["message", event.agent, event.message_id] += event.delta
        elif isinstance(event, ev.ReasoningDelta):
            texts["reasoning", event.agent, event.reasoning_id] += event.delta
    return {key: text for key, text in texts.items() if text}


def shown_texts(referee: Referee) -> dict[tuple[str, str, str], str]:
    """What a client has, by kind, agent and local id: a part's continuations belong to it."""
    local = {ev.ROOT: ev.ROOT} | {id: lane.origin_id for id, lane in referee.lanes.items()}
    texts: defaultdict[tuple[str, str, str], str] = defaultdict(str)
    for id, start in referee.starts.items():
        if not isinstance(start, ev.ToolCallStarted) and referee.texts[id]:
            kind = "message" if isinstance(start, ev.MessageStarted) else "reasoning"
            texts[kind, local[start.agent], start.origin_id] += referee.texts[id]
    return texts


@examples(300)
@given(streams, errors)
def test_no_text_is_lost_repeated_changed_or_shown_as_anothers(stream: list[ev.Event], error: Any) -> None:
    _, out = run(stream, error)
    shown = {key: loosely(text) for key, text in shown_texts(judged(out)).items()}
    assert shown == {key: loosely(text) for key, text in fed_texts(stream).items()}


CUTS = ["", "\U0001f600", "a\r\nb", " ", "\n", "\t", "xx", "x", "\ud83d", "\ude00", "\u200d\U0001f469", "\ufffd", "é"]


@pytest.mark.parametrize("kind", ["text", "reasoning", "arguments", "output"])
@examples(150)
@given(data=st.data(), text=st.lists(st.sampled_from(CUTS), max_size=8).map("".join))
def test_however_text_is_cut_it_is_the_same_text(kind: str, data: st.DataObject, text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    bounds = data.draw(st.lists(st.integers(0, len(units) // 2), max_size=6).map(sorted))
    edges = [0, *bounds, len(units) // 2]
    chunks = [units[2 * a : 2 * b].decode("utf-16-be", "surrogatepass") for a, b in zip(edges, edges[1:], strict=False)]
    expected = units.decode("utf-16-be", "replace")
    start, delta, end = {
        "text": (
            [ev.MessageStarted(message_id="1")],
            lambda piece: ev.TextDelta(message_id="1", delta=piece),
            [ev.MessageFinished(message_id="1")],
        ),
        "reasoning": (
            [ev.ReasoningStarted(reasoning_id="1")],
            lambda piece: ev.ReasoningDelta(reasoning_id="1", delta=piece),
            [ev.ReasoningFinished(reasoning_id="1")],
        ),
        "arguments": (
            [ev.ToolCallStarted(call_id="1", name="t")],
            lambda piece: ev.ToolArgsDelta(call_id="1", delta=piece),
            [ev.ToolCallFinished(call_id="1"), ev.ToolReturned(call_id="1")],
        ),
        "output": (
            [ev.ToolCallStarted(call_id="1", name="t"), ev.ToolCallFinished(call_id="1")],
            lambda piece: ev.ToolOutputDelta(call_id="1", content=piece),
            [ev.ToolReturned(call_id="1")],
        ),
    }[kind]
    grammar, out = run([*start, *map(delta, chunks), *end, ev.RunFinished()])
    judged(out)
    assert "".join(getattr(event, "delta", None) or getattr(event, "content", "") for event in out) == expected
    assert grammar.repairs == Counter()


# --- a log ---------------------------------------------------------------------------------------------------------

whole_pieces = {
    name: strategy.map(lambda event: _without_halves(event)) for name, strategy in {**MENDABLE, **REFUSABLE}.items()
}


def _without_halves(event: Any) -> Any:
    text = getattr(event, "delta", getattr(event, "content", None))
    if not isinstance(text, str) or isinstance(event, ev.ToolReturned):
        return event
    field = "delta" if hasattr(event, "delta") else "content"
    return type(event)(**{name: getattr(event, name) for name in event.__struct_fields__} | {field: text + "."})


@examples(150)
@given(st.lists(st.one_of(list(whole_pieces.values())), max_size=25), errors)
def test_a_grammar_restored_from_its_log_goes_on_as_if_it_had_never_stopped(stream: list[Any], error: Any) -> None:
    _, whole = run(stream, error)
    for stop in range(len(stream) + 1):
        grammar = Grammar()
        log = grammar.feed(STARTED)
        for event in stream[:stop]:
            log += grammar.feed(event)
        restored = Grammar.from_log(ev.decode(ev.encode(event)) for event in log)
        for event in stream[stop:]:
            log += restored.feed(event)
        assert log + restored.close(None if error == "none" else error) == whole


@examples(60)
@given(streams, st.lists(mendable, max_size=8), errors)
def test_a_log_that_stops_inside_one_step_is_continued_lawfully(
    stream: list[ev.Event], more: list[ev.Event], error: Any
) -> None:
    _, whole = run(stream, error)
    for stop in range(len(whole) + 1):
        grammar = Grammar.from_log(whole[:stop])
        out = whole[:stop]
        for event in more if stop else [STARTED, *more]:
            out += grammar.feed(event)
        judged(out + grammar.close(None if error == "none" else error))


# --- lawful sources ------------------------------------------------------------------------------------------------


class LawfulSource:
    """Does at random what a good source may do. ``draw(n)`` chooses among ``n`` things."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._count = 0
        self.events: list[ev.Event] = []
        self.open: list[tuple[str, str, str]] = []  # kind, agent, id

    def _choose(self, items: list[Any]) -> Any:
        return items[self._draw(len(items))]

    def _id(self) -> str:
        self._count += 1
        return f"{self._draw(3)}-{self._count}"

    def lanes(self) -> list[str]:
        return ["", *(id for kind, _, id in self.open if kind == "agent")]

    def step(self) -> None:
        agent = self._choose(self.lanes())
        inside = [part for part in self.open if part[1] == agent]
        if inside and self._draw(3):
            self._touch(*self._choose(inside))
        else:
            self._begin(agent)

    def _begin(self, agent: str) -> None:
        kind = self._choose(["agent", "message", "reasoning", "call", "step", "activity", "question", "loose"])
        id = f"{agent}/{self._id()}" if kind == "agent" else self._id()
        match kind:
            case "agent":
                calls = [part[2] for part in self.open if part[:2] == ("running", agent)]
                call, answers = self._choose([None, *calls]), bool(self._draw(2))
                self.events.append(ev.AgentStarted(agent=id, name="n", parent=agent, call_id=call, answers=answers))
            case "message":
                phase = self._choose(["answer", "undetermined", "narration"])
                self.events.append(ev.MessageStarted(agent=agent, message_id=id, phase=phase))
            case "reasoning":
                self.events.append(ev.ReasoningStarted(agent=agent, reasoning_id=id))
            case "call":
                messages = [part[2] for part in self.open if part[:2] == ("message", agent)]
                turn = self._choose(["", "turn", *messages])
                self.events.append(ev.ToolCallStarted(agent=agent, call_id=id, name="t", message_id=turn))
            case "step":
                self.events.append(ev.StepStarted(agent=agent, name=id))
            case "activity":
                self.events.append(ev.ActivitySnapshot(agent=agent, activity_id=id, kind="k", content={}))
            case "question":
                self.events.append(ev.Interrupted(agent=agent, interrupt_id=id, reason="r"))
            case "loose":
                self.events.append(ev.UsageReported(agent=agent, usage=ev.Usage(model="m", input=1)))
                return
        self.open.append((kind, agent, id))

    def _touch(self, kind: str, agent: str, id: str) -> None:
        if self._draw(3) == 0:
            self._end(kind, agent, id)
            return
        match kind:
            case "message":
                self.events.append(ev.TextDelta(agent=agent, message_id=id, delta="x"))
            case "reasoning":
                self.events.append(ev.ReasoningDelta(agent=agent, reasoning_id=id, delta="x"))
            case "call":
                self.events.append(ev.ToolArgsDelta(agent=agent, call_id=id, delta="x"))
            case "running":
                self.events.append(ev.ToolOutputDelta(agent=agent, call_id=id, content={"n": 1}))
            case "activity":
                self.events.append(ev.ActivityDelta(agent=agent, activity_id=id, kind="k", patch=[]))

    def _end(self, kind: str, agent: str, id: str) -> None:
        while kind == "agent" and (inside := [part for part in self.open if part[1] == id]):
            self._end(*inside[-1])
        self.open.remove((kind, agent, id))
        match kind:
            case "agent":
                self.events.append(ev.AgentFinished(agent=id))
            case "message":
                self.events.append(ev.MessageFinished(agent=agent, message_id=id))
                if self._draw(4) == 0:
                    self.events.append(ev.MessageReset(agent=agent, message_id=id, superseded_by=id))
                    self.events.append(ev.MessageStarted(agent=agent, message_id=id))
                    self.open.append((kind, agent, id))
            case "reasoning":
                self.events.append(ev.ReasoningFinished(agent=agent, reasoning_id=id))
            case "call":
                self.events.append(ev.ToolCallFinished(agent=agent, call_id=id))
                self.open.append(("running", agent, id))
            case "running":
                self.events.append(ev.ToolReturned(agent=agent, call_id=id))
            case "step":
                self.events.append(ev.StepFinished(agent=agent, name=id))
            case "question":
                self.events.append(ev.InterruptResolved(agent=agent, interrupt_id=id))

    def finish(self) -> None:
        while self.open:
            self._end(*self.open[-1])
        self.events.append(ev.RunFinished())


@examples(200)
@given(st.integers(0, 60), st.lists(st.integers(0, 2**16), max_size=200))
def test_a_lawful_source_is_never_repaired(length: int, choices: list[int]) -> None:
    choice = iter(choices)
    source = LawfulSource(lambda count: next(choice, 1) % count)
    for _ in range(length):
        source.step()
    source.finish()
    grammar, out = run(source.events)
    judged(out)
    assert grammar.repairs == Counter()
    assert [type(event) for event in out] == [type(event) for event in [STARTED, *source.events]]


# --- garbage -------------------------------------------------------------------------------------------------------


class Text(str):
    """What some frameworks send for text."""

    __slots__ = ()


class Hostile:
    """Raises whenever it is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")


class Model:
    """Looks like a model that can be dumped, and cannot."""

    def model_dump(self, mode: str) -> Any:
        raise ValueError(mode)


class Number(int):
    """A framework's number."""


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(3000):
        value = [value]
    return value


@dataclass
class Friend:
    """One of a crowd in which each knows all."""

    friends: list[Friend]


def crowd() -> Friend:
    """Has more ways through it than anybody can walk."""
    friends: list[Friend] = []
    friends += [Friend(friends) for _ in range(20)]
    for friend in friends:
        friend.friends = [*friends]
    return friends[0]


GARBAGE: list[Any] = [
    None,
    True,
    7,
    -1,
    2**70,
    10**5000,
    float("nan"),
    float("inf"),
    b"bytes",
    "",
    "\ud800",
    Text("t"),
    Text("\udfff"),
    Number(3),
    [],
    [Text("t")],
    {},
    {2: 1, None: 3, True: 4, 1.5: 5, (1, 2): 6, Text("k"): 7, "\ud800": 8, "big": 10**5000},
    {"self": cyclic()},
    cyclic(),
    deep(),
    {"a": deep(), 1: float("nan")},
    crowd(),
    MappingProxyType({"self": cyclic()}),
    {1, 2},
    object(),
    object,
    Hostile(),
    {"in": [Hostile()]},
    Model(),
    msgspec.Raw(b"{not json"),
    msgspec.UNSET,
    ValueError("secret"),
    ev.Usage(model="m"),
    ev.RunFinished(),
    datetime(2026, 1, 1),
    UUID(int=1),
    Decimal("1.5"),
    [{"op": "add", "path": "no pointer", "value": 1}],
    [{"op": [], "path": "/"}],
]
garbage = st.integers(0, len(GARBAGE) - 1).map(GARBAGE.__getitem__)  # not sampled_from: some of it has no repr


@st.composite
def spoiled(draw: Any) -> Any:
    """An event with garbage in one field, or no event at all."""
    event = draw(anything)
    field = draw(st.sampled_from([None, *event.__struct_fields__]))
    value = draw(garbage)
    if field is None:
        return value
    return type(event)(**{name: getattr(event, name) for name in event.__struct_fields__} | {field: value})


@examples(400)
@given(st.lists(spoiled() | mendable, max_size=12), errors)
def test_garbage_never_raises_and_what_comes_out_is_legal(stream: list[Any], error: Any) -> None:
    _, out = run(stream, error)
    judged(out)


@pytest.mark.parametrize("kind", ev.EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_no_value_is_too_strange_for_any_field(kind: type[ev.Event]) -> None:
    fields = msgspec.structs.fields(kind)
    lawful = {field.name: "1" for field in fields if field.required}
    for field in fields:
        for value in GARBAGE:
            event = kind(**lawful | {field.name: value})
            judged(run([event])[1])
            judged(run([event], started=False)[1])
