"""Every scenario through the grammar and the AG-UI encoder: whole, cut anywhere, ended in any way, resumed anywhere."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence

import oracles
import pytest
from cases import CASES, Case
from referee import Referee
from sinks.watching import ASKED, MODERN, OLD, START, frames, lawful, logged

from anabranch import events as ev
from anabranch.encodable import whole
from anabranch.errors import Cancelled, SourceError
from anabranch.grammar import Grammar
from anabranch.sinks.agui.encode import AguiEncoder
from anabranch.sinks.agui.profile import Profile

READERS = {MODERN: ("1.0.0",), OLD: oracles.CLIENTS, ASKED: oracles.CLIENTS}
"""What reads each profile: a client before 1.0 cannot take what only a client of 1.0 is sent."""

ENDINGS: tuple[BaseException | None, ...] = (
    None,
    SourceError("The agent failed."),
    Cancelled("The run was cancelled."),
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def heard(items: Iterable[ev.Event]) -> Iterator[ev.Event]:
    """The items that come before the end of the run, and of their agent if it fails as unlawful."""
    grammar, referee = Grammar(), Referee()
    referee.see(grammar.feed(START))
    for item in items:
        silenced = referee.silenced(item.agent)
        referee.see(grammar.feed(item))
        if grammar.ended:
            return
        if not silenced:
            yield item


def said(items: Iterable[ev.Event]) -> dict[str, str]:
    """What a reader has read of a source's items, by agent: the law says that no text is lost, repeated or moved."""
    texts: dict[tuple[str, str], str] = {}
    for item in heard(items):
        if isinstance(item, ev.TextDelta):
            texts[item.agent, item.message_id] = texts.get((item.agent, item.message_id), "") + item.delta
        elif isinstance(item, ev.MessageReset):
            texts.pop((item.agent, item.message_id), None)
    return by_agent((agent, whole(text)) for (agent, _), text in texts.items())


def shown(stream: Iterable[bytes], events: Iterable[ev.Event]) -> dict[str, str]:
    """What a reader of frames has read, by the source's own name for each agent."""
    agents = {ev.ROOT: ev.ROOT}
    origins: dict[str, tuple[str, str]] = {}
    for event in events:
        if isinstance(event, ev.AgentStarted):
            agents[event.agent] = event.origin_id
        elif isinstance(event, ev.MessageStarted):
            origins[event.message_id] = (agents[event.agent], event.origin_id)
    texts: dict[tuple[str, str], str] = {}
    for event in oracles.events(stream):
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            origin = origins[event["messageId"]]
            texts[origin] = texts.get(origin, "") + event["delta"]
        elif event.get("name") == "anabranch.message_reset":
            texts.pop(origins[event["value"]["messageId"]], None)
    return by_agent((agent, text) for (agent, _), text in texts.items())


def by_agent(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    out: dict[str, str] = {}
    for agent, text in texts:
        out[agent] = out.get(agent, "") + text
    return {agent: text for agent, text in out.items() if text}


def runs(case: Case) -> Iterator[tuple[str, Sequence[ev.Event], list[ev.Event]]]:
    """The case whole, and cut after each item and ended in each way: a name, the items, what came of them."""
    yield "whole", case.items, lawful(case.items)
    for cut in range(len(case.items)):
        for error in ENDINGS:
            yield f"cut at {cut}, {error!r}", case.items[:cut], lawful(case.items[:cut], error)


@every_case
def test_a_case_gives_its_text_its_end_and_the_repairs_it_declares(case: Case) -> None:
    grammar = Grammar()
    events = [event for item in (START, *case.items) for event in grammar.feed(item)]
    assert grammar.ended
    assert dict(grammar.repairs) == case.repairs
    end = events[-1]
    assert (end.code if isinstance(end, ev.RunFailed) else end.outcome) == case.terminal  # type: ignore[union-attr]
    for profile in READERS:
        assert shown(frames(logged(events), profile), events) == {a: t for a, t in case.text.items() if t}


@every_case
def test_text_is_exact_and_one_terminal_event_comes_last_wherever_a_case_is_cut(case: Case) -> None:
    for name, items, events in runs(case):
        assert [isinstance(event, ev.Terminal) for event in events].index(True) == len(events) - 1, name
        for profile in READERS:
            stream = frames(logged(events), profile)
            assert shown(stream, events) == said(items), name
            types = [event["type"] for event in oracles.events(stream)]
            assert [kind in ("RUN_FINISHED", "RUN_ERROR") for kind in types].index(True) == len(types) - 1, name


@every_case
def test_the_judges_in_python_accept_a_case_wherever_it_is_cut(case: Case) -> None:
    for name, _, events in runs(case):
        for profile in READERS:
            assert oracles.flaws([frames(logged(events), profile)], clients=()) == [[]], (name, profile)


@every_case
def test_an_encoder_goes_on_from_its_state_after_any_entry_as_if_it_had_never_stopped(case: Case) -> None:
    entries = logged(lawful(case.items))
    for profile in READERS:
        encoder = AguiEncoder(profile)
        told = [(encoder.state(), encoder.feed(entry)) for entry in entries]
        for seen in range(len(entries)):
            heir = AguiEncoder.restored(profile, told[seen][0])
            assert heir is not None
            for entry, (state, written) in zip(entries[seen:], told[seen:], strict=True):
                assert heir.state() == state, (seen, entry)
                assert heir.feed(entry) == written, (seen, entry)
            assert heir.ended and not heir.close()
            assert heir.state() == encoder.state()
        last = AguiEncoder.restored(profile, encoder.state())
        assert last is not None and last.ended


@every_case
def test_a_cursor_is_unique_and_not_bound_to_the_kind_of_client_that_got_it(case: Case) -> None:
    entries = logged(lawful(case.items))
    for profile in READERS:
        stream = frames(entries, profile)
        assert len({*cursors(stream)}) == len(stream)
        assert cursors(stream) == cursors(frames(entries, MODERN))


def cursors(stream: Sequence[bytes]) -> list[bytes]:
    return [frame.split(b"\n")[0] for frame in stream]


@every_case
def test_a_grammar_rebuilt_from_any_prefix_of_the_log_goes_on_the_same(case: Case) -> None:
    for cut in range(len(case.items) + 1):
        if cut_inside_a_character(case.items[:cut]):
            continue  # the half is not in the log: it never left
        grammar = Grammar()
        past = [event for item in (START, *case.items[:cut]) for event in grammar.feed(item)]
        heir = Grammar.from_log(entry.event for entry in logged(past))
        for item in case.items[cut:]:
            assert heir.feed(item) == grammar.feed(item), (cut, item)
        assert heir.close() == grammar.close()


def cut_inside_a_character(items: Sequence[ev.Event]) -> bool:
    halves = {}
    for item in items:
        if isinstance(item, ev.TextDelta | ev.ReasoningDelta | ev.ToolArgsDelta) and item.delta:
            halves[item.agent] = "\ud800" <= item.delta[-1] <= "\udbff"
    return any(halves.values())


@pytest.mark.oracle
@pytest.mark.timeout(120)
@pytest.mark.parametrize("profile", READERS, ids=["1.0", "before 1.0", "before 1.0, with sub-agents"])
def test_the_official_clients_accept_every_case_wherever_it_is_cut(profile: Profile) -> None:
    oracles.require()
    streams = {
        b"".join(frames(logged(events), profile)): f"{case.name}, {name}"
        for case in CASES
        for name, _, events in runs(case)
    }
    found = zip(streams.items(), oracles.flaws(list(streams), clients=READERS[profile]), strict=True)
    bad = [f"{name}: {flaws}\n{stream.decode()}" for (stream, name), flaws in found if flaws]
    assert not bad, f"{len(bad)} of {len(streams)} streams, the first:\n{bad[0]}"


def mixture(seed: int) -> tuple[list[ev.Event], BaseException | None]:
    """Items of up to three cases in one run, woven, with some lost, repeated and out of place, and a way to end."""
    rng = random.Random(seed)
    sober = [case for case in CASES if not any(cut_inside_a_character([item]) for item in case.items)]
    queues = [[*case.items] for case in rng.choices(sober, k=rng.randint(1, 3))]
    items: list[ev.Event] = []
    while queues := [queue for queue in queues if queue]:
        items.append(rng.choice(queues).pop(0))
    items = [item for item in items if not isinstance(item, ev.Terminal) or rng.random() < 0.1]
    for _ in range(rng.randint(0, 6) if items else 0):
        item = rng.choice(items) if rng.random() < 0.5 else items.pop(rng.randrange(len(items)))
        items.insert(rng.randrange(len(items) + 1), item)
        if rng.random() < 0.5:
            items.pop(rng.randrange(len(items)))
    if rng.random() < 0.25:
        items.append(ev.RunFinished())
    return items, rng.choice(ENDINGS)


@pytest.mark.oracle
@pytest.mark.timeout(120)
@pytest.mark.parametrize("profile", READERS, ids=["1.0", "before 1.0", "before 1.0, with sub-agents"])
def test_the_official_clients_accept_what_comes_of_an_unlawful_source(profile: Profile) -> None:
    oracles.require()
    streams = {}
    for seed in range(150):
        items, error = mixture(seed)
        events = lawful(items, error)
        stream = b"".join(frames(logged(events), profile))
        assert shown([stream], events) == said(items), seed
        streams[stream] = seed
    found = zip(streams.items(), oracles.flaws(list(streams), strict=False, clients=READERS[profile]), strict=True)
    bad = [f"seed {seed}: {flaws}\n{stream.decode()}" for (stream, seed), flaws in found if flaws]
    assert not bad, f"{len(bad)} of {len(streams)} streams, the first:\n{bad[0]}"


@pytest.mark.oracle
def test_two_runs_of_one_thread_are_two_answers_on_the_screen() -> None:
    oracles.require()
    turns = []
    for run_id in ("run-1", "run-2"):
        grammar = Grammar()
        items = (ev.RunStarted(run_id=run_id, thread_id="t1"), *CASES[0].items)
        stream = frames(logged(event for item in items for event in grammar.feed(item)), MODERN)
        question = {"id": f"ask {run_id}", "role": "user", "content": "?"}
        turns.append({"body": b"".join(stream).decode(), "input": {"runId": run_id, "messages": [question]}})
    for seen in oracles.sessions([{"client": client, "runs": turns} for client in oracles.CLIENTS]):
        assert [run.violation for run in seen.runs] == [None, None]
        assert [(m["role"], m["content"]) for m in seen.messages] == [
            ("user", "?"),
            ("assistant", "Three clusters."),
        ] * 2
        assert len({message["id"] for message in seen.messages}) == 4
        assert json.dumps(seen.sent[1]["messages"]).count("Three clusters.") == 1
