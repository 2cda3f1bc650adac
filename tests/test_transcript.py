"""What a run leaves behind is what the official clients show of it, and what they send back is recognised."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import oracles
import pytest
from cases import CASES, Case
from cases._case import DONE, Items, calls, lane, returns, says, thinks
from msgspec.structs import replace
from test_cases import ASKED, MODERN, OLD, frames, lawful, logged, mixture, runs

from anabranch import events as ev
from anabranch.errors import Cancelled, SourceError
from anabranch.request import Message, ToolCall
from anabranch.runs._base import RunRecord
from anabranch.runs.machine import Status
from anabranch.runs.threads import Turn, place
from anabranch.sinks.agui.parse import parse
from anabranch.sinks.agui.profile import Profile
from anabranch.transcript import Asked, Outcome, Transcript

READERS = [(MODERN, "1.0.0"), (OLD, "0.0.59"), (ASKED, "0.0.59")]


def outcome(events: Iterable[ev.Event]) -> Outcome:
    transcript = Transcript()
    for event in events:
        transcript.feed(event)
    return transcript.outcome()


def left(*items: Items | ev.Event, error: BaseException | None = None) -> Outcome:
    """What a run leaves behind whose source says ``items``."""
    flat = [event for item in items for event in (item if isinstance(item, list) else [item])]
    return outcome(lawful(flat, error))


def told(found: Outcome) -> list[str]:
    return [f"{message.role}: {message.content}" for message in found.messages]


# --- what the clients show -------------------------------------------------------------------------------------------


def every_run() -> Iterator[tuple[str, Sequence[ev.Event]]]:
    for case in CASES:
        for name, _, events in runs(case):
            yield f"{case.name}, {name}", events
    for seed in range(100):
        yield f"seed {seed}", lawful(*mixture(seed))


QUESTION, NEXT = Message(id="u1", role="user", content="?"), Message(id="u2", role="user", content="And?")


@pytest.mark.oracle
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("profile", "client"), READERS, ids=["1.0", "before 1.0", "before 1.0, with sub-agents"])
def test_what_the_official_clients_send_back_is_what_the_transcript_has(profile: Profile, client: str) -> None:
    oracles.require()
    found = {b"".join(frames(logged(events), profile)): (name, events) for name, events in every_run()}
    asked = {"messages": [{"id": QUESTION.id, "role": "user", "content": QUESTION.content}]}
    jobs = [{"client": client, "runs": [{"body": body.decode(), "input": asked}]} for body in found]
    for (name, events), seen in zip(found.values(), oracles.sessions(jobs), strict=True):
        left, copy = outcome(events), sent_back(seen)
        if not name.startswith("seed"):  # what an unlawful source says may become void between two of its parts
            theirs = [plain(message) for message in copy if message.id not in left.void]
            assert theirs == [QUESTION, *map(plain, left.messages)], name
        again = place([turn(left)], [*copy, NEXT])
        assert (again.forks, again.history, again.given) == (False, (QUESTION, *left.messages), (NEXT,)), name


def sent_back(seen: oracles.Seen) -> tuple[Message, ...]:
    """The client's messages as the server reads them in its next request."""
    body = json.dumps({"threadId": "thread-1", "runId": "run-2", "messages": seen.messages})
    return parse(body.encode())[0].messages


def plain(message: Message) -> Message:
    """``message`` without what no client sends back: parts, a sub-agent's name, the source's own ids."""
    calls = tuple(replace(call, origin_id="") for call in message.tool_calls)
    return replace(message, parts=(), name=None, tool_calls=calls)


def turn(left: Outcome) -> Turn:
    record = RunRecord(
        key="k1",
        run_id="run-1",
        principal="ann",
        thread_id="thread-1",
        task_id="k1",
        agent="supervisor",
        status=Status.SUCCEEDED,
        digest="",
        created_ms=0,
    )
    return Turn(record=record, given=(QUESTION,), outcome=left)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_transcript_of_any_beginning_can_go_on(case: Case) -> None:
    events = lawful(case.items)
    transcript = Transcript()
    for number, event in enumerate(events, 1):
        transcript.feed(event)
        assert transcript.outcome() == outcome(events[:number])
    assert transcript.outcome() == outcome(entry.event for entry in logged(events))
    found = transcript.outcome()
    ids = [*(message.id for message in found.messages), *found.void]
    assert len(ids) == len({*ids})


# --- messages --------------------------------------------------------------------------------------------------------


def test_text_and_calls_of_one_turn_are_one_message_with_the_models_own_ids() -> None:
    found = left(
        says("m1", "Let ", "me look."), calls("c1", "look", '{"a"', ":1}", turn="m1"), returns("c1", "seen"), DONE
    )
    call = ToolCall(id="run-1:2", name="look", arguments='{"a":1}', origin_id="c1")
    assert found == Outcome(
        messages=(
            Message(id="run-1:1", role="assistant", content="Let me look.", tool_calls=(call,)),
            Message(id="run-1:3", role="tool", content="seen", tool_call_id="run-1:2"),
        )
    )


def test_text_that_begins_after_the_calls_of_its_turn_is_in_their_message() -> None:
    found = left(calls("c1", "look", turn="m1"), says("m1", "Looking."), returns("c1", "seen"), DONE)
    assert told(found) == ["assistant: Looking.", "tool: seen"]
    assert len(found.messages[0].tool_calls) == 1


def test_a_result_stands_behind_the_message_that_called_however_late_it_comes() -> None:
    found = left(
        calls("c1", "look"),
        calls("c2", "look"),
        says("m1", "Meanwhile."),
        returns("c2", "two"),
        returns("c1", "one"),
        DONE,
    )
    assert told(found) == ["assistant: ", "tool: two", "tool: one", "assistant: Meanwhile."]


def test_a_result_says_its_error_and_keeps_the_parts_that_are_not_in_its_text() -> None:
    link = ev.Part(kind="file", url="https://x.test/a.png")
    rows = ev.Part(kind="json", data={"rows": 1})
    found = left(
        calls("c1", "look"),
        ev.ToolReturned(call_id="c1", parts=(rows, link), is_error=True, error="cut"),
        calls("c2", "look"),
        ev.ToolReturned(call_id="c2", content="seen", parts=(rows,), is_error=True),
        DONE,
    )
    one, two = [message for message in found.messages if message.role == "tool"]
    assert (one.content, one.error, one.parts) == ('{"rows":1}\ncut', "cut", (link,))
    assert (two.content, two.error, two.parts) == ("seen", "seen", (rows,))


def test_parts_belong_to_their_message_and_can_be_all_of_it() -> None:
    link = ev.Part(kind="file", url="https://x.test/a.png")
    found = left(ev.PartAdded(message_id="m1", part=link), DONE)
    assert found.messages == (Message(id="run-1:1", role="assistant", parts=(link,)),)


def test_a_role_that_clients_do_not_know_is_the_assistants() -> None:
    roles = ["user", "system", "developer", "assistant", "tool", "critic"]
    items = [
        [ev.MessageStarted(message_id=role, role=role), ev.TextDelta(message_id=role, delta="x")] for role in roles
    ]
    assert [message.role for message in left(*items, DONE).messages] == roles[:4] + ["assistant"] * 2


def test_a_call_in_the_message_of_a_user_makes_a_message_of_its_own() -> None:
    found = left(
        ev.MessageStarted(message_id="m1", role="user"),
        ev.TextDelta(message_id="m1", delta="Hi"),
        calls("c1", "look", turn="m1"),
        returns("c1", "seen"),
        DONE,
    )
    assert told(found) == ["user: Hi", "assistant: ", "tool: seen"]
    assert found.messages[1].id == found.messages[1].tool_calls[0].id


def test_what_sub_agents_say_is_theirs_by_invocation() -> None:
    found = left(
        calls("c1", "k"), lane("k", "komodor", says("m1", "Two.", agent="k"), call="c1"), returns("c1", "2"), DONE
    )
    assert [(message.content, message.agent) for message in found.messages] == [
        ("", ""),
        ("2", ""),
        ("Two.", "run-1:3"),
    ]


def test_reasoning_activity_state_and_steps_say_nothing_of_the_conversation() -> None:
    others: Items = [
        *thinks("r1", "hm"),
        ev.ActivitySnapshot(activity_id="p1", kind="plan", content={"n": 1}),
        ev.StateSnapshot(value={"n": 1}),
        ev.StepStarted(name="one"),
        ev.Custom(name="tick"),
    ]
    assert left(others, says("m1", "Hi"), DONE) == Outcome(
        messages=(Message(id="run-1:3", role="assistant", content="Hi"),)
    )


# --- what is void ----------------------------------------------------------------------------------------------------


def test_a_message_that_was_reset_is_void_with_its_calls_and_their_results() -> None:
    reset = ev.MessageReset(message_id="m1", superseded_by="m2", reason="retry")
    found = left(
        says("m1", "The anser")[:-1],
        ev.PartAdded(message_id="m1", part=ev.Part(kind="text", text="more")),
        says("m1")[-1],
        calls("c1", "look", turn="m1"),
        calls("c2", "look", turn="m1"),
        returns("c1", "seen"),
        reset,
        returns("c2", "late"),
        says("m2", "The answer"),
        DONE,
    )
    assert told(found) == ["assistant: The answer"]
    assert len(found.void) == 3  # the message, and both results


def test_a_message_that_got_nothing_is_void_until_it_gets_something() -> None:
    events = lawful([ev.MessageStarted(message_id="m1"), ev.TextDelta(message_id="m1", delta="Hi"), DONE])
    assert outcome(events[:2]) == Outcome(void=("run-1:1",))
    assert outcome(events[:3]).void == ()
    assert left(says("m1"), DONE) == Outcome(void=("run-1:1",))


def test_a_recovery_voids_the_messages_and_calls_that_it_names() -> None:
    said = [
        *says("m1", "Whole."),
        *calls("c1", "look", turn="m1"),
        *calls("c2", "look", turn="m1"),
        returns("c2", "seen"),
    ]
    cut = [*said, *thinks("r1", "hm")[:2], *says("m2", "The an")[:-1]]
    public = {event.origin_id: event for event in lawful(cut) if getattr(event, "origin_id", "")}
    resumed = ev.RunResumed(
        epoch=2,
        voided_message_ids=(public["m2"].message_id, public["r1"].reasoning_id),  # type: ignore[union-attr]
        voided_call_ids=(public["c1"].call_id, public["c2"].call_id),  # type: ignore[union-attr]
    )
    found = left(cut, resumed, says("m2", "The answer"), DONE)
    assert told(found) == ["assistant: Whole.", "assistant: The answer"]
    assert found.messages[0].tool_calls == ()
    assert public["m2"].message_id in found.void  # type: ignore[union-attr]


# --- calls of the client, questions ----------------------------------------------------------------------------------


def test_a_call_left_to_the_client_has_no_result_or_one_that_stands_in_for_the_clients() -> None:
    asks = [*calls("c1", "pick", "{}", client=True), *calls("c2", "look", "{}")]
    found = left(asks, returns("c2", "1"), DONE)
    assert (told(found), found.stand_ins) == (["assistant: ", "tool: 1"], ())
    assert left(asks, returns("c1", "by us"), returns("c2", "1"), DONE).stand_ins == ()
    cancelled = left(asks, error=Cancelled("The run was cancelled."))
    results = {message.tool_call_id: message.id for message in cancelled.messages if message.role == "tool"}
    theirs, ours = (call.id for call in cancelled.messages[0].tool_calls)
    assert {*results} == {theirs, ours}
    assert cancelled.stand_ins == (results[theirs],)


def test_the_open_questions_of_a_run_that_ends_with_them_are_kept_by_both_names() -> None:
    ask: Items = [ev.Interrupted(interrupt_id=id, reason="confirmation") for id in ("one", "two")]
    ask += lane("k", "komodor", [ev.Interrupted(agent="k", interrupt_id="three", reason="input")])
    found = left(
        ask, ev.InterruptResolved(interrupt_id="one"), ev.InterruptResolved(interrupt_id="of an earlier run"), DONE
    )
    assert found.asked == (
        Asked(interrupt_id="run-1:2", origin_id="two", reason="confirmation"),
        Asked(interrupt_id="run-1:4", origin_id="three", agent="run-1:3", name="komodor", reason="input"),
    )
    for error in (SourceError("The agent failed."), Cancelled("The run was cancelled.")):
        assert left(ask, error=error).asked == ()
