"""The Task that entries come to: at every moment what a client holds that read the stream so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from a2a.compat.v0_3 import types as legacy_types
from a2a.compat.v0_3.conversions import to_core_task
from a2a.types import Task
from cases import CASES, Case
from google.protobuf.json_format import ParseDict

from anabranch import events as ev
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.request import Message
from anabranch.sinks._remnant import Remnant
from anabranch.sinks.a2a.encode import A2aEncoder
from anabranch.sinks.a2a.prelude import Snapshot
from anabranch.sinks.a2a.profile import Profile
from anabranch.sinks.a2a.task import TaskFold
from sinks.a2a.reading import (
    ATTRIBUTED,
    BARE,
    GIVEN,
    PLAIN,
    RPC,
    Client,
    encoder,
    holding,
    official,
    read,
    responses,
    written,
)
from sinks.watching import AT_MS, START, lawful, logged

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

ASKED = [
    ev.MessageStarted(message_id="m1", phase="answer"),
    ev.TextDelta(message_id="m1", delta="Two of three "),
    ev.TextDelta(message_id="m1", delta="are idle."),
    ev.MessageFinished(message_id="m1"),
    ev.Interrupted(interrupt_id="i1", reason="confirmation", message="Delete them?", schema={"type": "boolean"}),
    ev.RunFinished(outcome="interrupted"),
]
ANSWER = Message(id="u2", role="user", content="Yes")
DELETED = [
    ev.MessageStarted(message_id="m1", phase="answer"),
    ev.TextDelta(message_id="m1", delta="Deleted."),
    ev.MessageFinished(message_id="m1"),
    ev.RunFinished(),
]


def folded(entries: Sequence[Entry], fold: TaskFold | None = None, given: Sequence[Message] = GIVEN) -> TaskFold:
    fold = fold or TaskFold()
    fold.given(given)
    for entry in entries:
        fold.feed(entry)
    return fold


def continued(*items: ev.Event, after_ms: int = 60_000) -> list[Entry]:
    """The run that goes on from ``run-1``."""
    start = ev.RunStarted(run_id="run-2", thread_id="thread-1", task_id="run-1", continues="run-1")
    grammar = Grammar()
    events = [event for item in (start, *items) for event in grammar.feed(item)]
    return [Entry(entry.seq, 1, entry.at_ms + after_ms, entry.event) for entry in logged(events)]


@every_case
def test_a_task_is_what_a_client_holds_after_each_entry(case: Case) -> None:
    for profile in (PLAIN, ATTRIBUTED):
        client, fold, one = Client(), folded([]), encoder(profile)
        for entry in logged(lawful(case.items)):
            for response in responses(one.feed(entry), profile):
                client.take(response)
            fold.feed(entry)
            assert holding(fold.task(profile)) == client.holds(), entry
        assert fold.state == f"TASK_STATE_{client.ended[0]}"


def test_an_artifact_of_which_a_client_was_told_nothing_is_in_no_task_of_its() -> None:
    noted = [ev.MessageStarted(message_id="m"), ev.Annotated(message_id="m", annotation={"url": "https://x.test"})]
    fold = folded(logged(lawful([*noted, ev.RunFinished()])))
    assert "artifacts" not in fold.task(PLAIN) and len(fold.task(ATTRIBUTED)["artifacts"]) == 1


@every_case
@pytest.mark.parametrize("profile", [PLAIN, ATTRIBUTED, Profile("0.3", True)], ids=["plain", "attributed", "0.3"])
def test_a_snapshot_and_what_comes_after_it_are_the_whole_wherever_it_is_taken(case: Case, profile: Profile) -> None:
    entries = logged(lawful(case.items))
    whole = holding(folded(entries).task(Profile("1.0", profile.attributed)))
    places = [frame.id for frame in read(written(entries, profile, RPC))]
    for seen in range(1, len(entries)):
        one = encoder(profile, RPC)
        snapshot = Snapshot(one, folded([]), profile, RPC)
        snapshot.feed(entries[:seen])
        frames = read([*snapshot.frames(), *(frame for entry in entries[seen:] for frame in one.feed(entry))])
        client = Client()
        for frame in frames:
            client.take(official(frame, profile, RPC))
        assert client.holds() == whole, seen
        of_the_last = [place for place in places if place.startswith(f"run-1:{seen}.")]
        assert frames[0].id == [f"run-1:{seen}.0", *of_the_last][-1]
        assert [frame.id for frame in frames[1:]] == places[len(places) - len(frames) + 1 :]


def test_a_snapshot_of_nothing_is_no_frame() -> None:
    assert not [*Snapshot(encoder(), folded([]), PLAIN, BARE).frames()]


def test_of_a_run_whose_first_entries_are_gone_a_snapshot_and_its_tail_tell_what_is_left() -> None:
    items = [*ASKED[:4], *(event for event in DELETED if not isinstance(event, ev.RunFinished)), ev.RunFinished()]
    entries = logged(lawful(items))
    left = entries[3:]  # the message that was cut has lost its start
    one = Remnant(A2aEncoder(PLAIN, BARE))
    snapshot = Snapshot(one, TaskFold(), PLAIN, BARE, START)
    snapshot.feed(left[:3])
    client = Client()
    for response in responses([*snapshot.frames(), *(frame for entry in left[3:] for frame in one.feed(entry))]):
        client.take(response)
    assert [artifact["parts"] for artifact in client.holds()["artifacts"].values()] == [["Deleted."]]
    assert client.ended == ["COMPLETED"] and client.task.id == "run-1"


# --- runs of one task ------------------------------------------------------------------------------------------------


def test_a_task_goes_on_over_its_runs_with_what_was_asked_and_answered_as_its_history() -> None:
    first, second = logged(lawful(ASKED)), continued(*DELETED)
    fold = folded(first)
    waiting = holding(fold.task(PLAIN))
    assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert [said["messageId"] for said in waiting["history"]] == ["u1"]
    done = holding(folded(second, fold, [ANSWER]).task(PLAIN))
    assert (done["id"], done["contextId"]) == ("run-1", "thread-1")
    assert [said["messageId"] for said in done["history"]] == ["u1", "run-1:end", "u2"]
    assert done["history"][1] == waiting["status"]["message"]
    assert [artifact["parts"] for artifact in done["artifacts"].values()] == [["Two of three are idle."], ["Deleted."]]
    assert done["status"] == {"state": "TASK_STATE_COMPLETED", "timestamp": "2023-11-14T22:14:20.005Z"}
    assert done["metadata"]["anabranch"]["answer"]["messageIds"] == [*done["artifacts"]][1:]


@pytest.mark.parametrize("profile", [PLAIN, ATTRIBUTED], ids=["plain", "attributed"])
def test_the_stream_of_a_run_that_goes_on_begins_with_the_task_as_it_was(profile: Profile) -> None:
    first, second = logged(lawful(ASKED)), continued(*DELETED)
    fold = folded(first)
    one = A2aEncoder(profile, BARE, [ANSWER], fold.task(profile))
    folded([], fold, [ANSWER])
    client = Client()
    for entry in second:
        for response in responses(one.feed(entry), profile):
            client.take(response)
            assert client.ended or client.holds()["status"]["state"] == "TASK_STATE_WORKING"
        fold.feed(entry)
        assert client.holds() == holding(fold.task(profile))


# --- what of it is asked for -----------------------------------------------------------------------------------------


def test_a_history_is_as_long_as_asked_and_the_newest_messages_are_in_it() -> None:
    fold = folded([], folded(logged(lawful(ASKED))), [ANSWER])
    lengths = {length: fold.task(PLAIN, length).get("history") for length in (0, 1, 2, 99, None)}
    ids = {length: said and [message["messageId"] for message in said] for length, said in lengths.items()}
    every = ["u1", "run-1:end", "u2"]
    assert ids == {0: None, 1: every[2:], 2: every[1:], 99: every, None: every}


def test_artifacts_are_left_out_when_they_are_not_asked_for() -> None:
    fold = folded(logged(lawful(ASKED)))
    assert "artifacts" in fold.task(PLAIN) and "artifacts" not in fold.task(PLAIN, artifacts=False)


def test_before_its_first_entry_a_task_is_submitted_under_the_ids_that_it_will_have() -> None:
    fold = TaskFold("run-1", "thread-1")
    fold.given(GIVEN)
    task = fold.task(PLAIN)
    assert (task["id"], task["contextId"], task["status"]) == ("run-1", "thread-1", {"state": "TASK_STATE_SUBMITTED"})
    assert (fold.state, fold.at_ms) == ("TASK_STATE_SUBMITTED", 0)
    assert task["history"][0]["taskId"] == "run-1"


def test_a_status_has_the_time_of_the_entry_that_changed_it() -> None:
    entries = logged(lawful(ASKED))
    fold = folded(entries[:4])
    assert (fold.at_ms, fold.task(PLAIN)["status"]["timestamp"]) == (AT_MS + 1, "2023-11-14T22:13:20.001Z")
    for entry in entries[4:]:
        fold.feed(entry)
    assert fold.at_ms == entries[-1].at_ms


@every_case
def test_a_task_of_0_3_is_the_one_of_1_0(case: Case) -> None:
    fold = folded(logged(lawful(case.items)))
    for attributed in (False, True):
        said: Any = fold.task(Profile("0.3", attributed))
        task = legacy_types.Task.model_validate(said)
        assert said["kind"] == "task" and task.model_dump(mode="json", exclude_none=True).keys() == said.keys()
        assert to_core_task(task) == ParseDict(fold.task(Profile("1.0", attributed)), Task())
