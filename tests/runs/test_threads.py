"""Where a request goes in its thread: what is news, what is an edit, what is a fork, and that nothing is said twice."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from anabranch.events import Part
from anabranch.request import Message, ToolCall
from anabranch.runs._base import RunRecord
from anabranch.runs.machine import Status
from anabranch.runs.threads import Place, Turn, conversation, place
from anabranch.transcript import Outcome

DEEP = 20 if os.environ.get("ANABRANCH_DEEP") else 1


def user(id: str, text: str = "", **fields: Any) -> Message:
    return Message(id=id, role="user", content=text or f"question {id}", **fields)


def says(id: str, text: str = "", *calls: str, **fields: Any) -> Message:
    made = tuple(ToolCall(id=call, name="look", origin_id=f"their {call}") for call in calls)
    return Message(id=id, role="assistant", content=text or f"answer {id}", tool_calls=made, **fields)


def result(id: str, call: str, text: str = "seen", **fields: Any) -> Message:
    return Message(id=id, role="tool", content=text, tool_call_id=call, **fields)


def record(key: str, parent: str | None = None, upto: str = "", branch: str = "") -> RunRecord:
    return RunRecord(
        key=key,
        run_id=key,
        principal="ann",
        thread_id="t",
        task_id=key,
        agent="agent",
        status=Status.SUCCEEDED,
        digest="",
        created_ms=0,
        parent=parent,
        upto=upto,
        branch=branch,
    )


class Thread:
    """A thread and the runs that requests make in it."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def asked(self, *messages: Message, writes: Iterable[Message] = (), key: str = "", **outcome: Any) -> Place:
        """A whole run: where it went. A run that is placed is a run whose conversation is the one it was placed in."""
        found = place(self.turns, messages)
        key = key or f"run {len(self.turns) + 1}"
        assert not (found.forks and found.branch)
        branch = key if found.forks else found.branch
        live = Turn(record=record(key, found.parent, found.upto, branch), given=found.given)
        assert conversation([*self.turns, live]) == found.history + found.given
        self.turns.append(replace(live, outcome=Outcome(messages=tuple(writes), **outcome)))
        return found

    def conversation(self) -> list[str]:
        return ids(conversation(self.turns))


def ids(messages: Iterable[Message]) -> list[str]:
    return [message.id for message in messages]


def seen(found: Place) -> tuple[list[str], list[str]]:
    return ids(found.history), ids(found.given)


U1, U2, U3, A1, A2 = user("u1"), user("u2"), user("u3"), says("a1"), says("a2")


@pytest.fixture
def thread() -> Thread:
    """Two questions with their answers."""
    thread = Thread()
    thread.asked(U1, writes=[A1])
    thread.asked(U1, A1, U2, writes=[A2])
    return thread


# --- going on ------------------------------------------------------------------------------------------------------


def test_the_first_run_of_a_thread_is_given_everything_and_follows_nothing() -> None:
    assert place([], [U1, A1, U2]) == Place(given=(U1, A1, U2))
    assert place([], []) == Place()
    assert conversation([]) == ()


def test_a_client_that_sends_its_whole_copy_adds_only_what_is_new(thread: Thread) -> None:
    found = thread.asked(U1, A1, U2, A2, U3)
    assert found == Place(parent="run 2", history=(U1, A1, U2, A2), given=(U3,), before="run 2")


def test_a_client_that_sends_only_what_is_new_loses_nothing_of_the_thread(thread: Thread) -> None:
    assert thread.asked(U3) == Place(parent="run 2", history=(U1, A1, U2, A2), given=(U3,), before="run 2")
    assert thread.asked() == Place(parent="run 3", history=(U1, A1, U2, A2, U3), before="run 3")


@pytest.mark.parametrize("copy", [(A2, U3), (U2, U3), (U2, A2, U3), (A1, U2, A2, U3), (U1, A2, U3)])
def test_a_client_that_dropped_the_beginning_goes_on_at_the_end(thread: Thread, copy: tuple[Message, ...]) -> None:
    found = thread.asked(*copy)
    assert (found.parent, found.forks, seen(found)) == ("run 2", False, (["u1", "a1", "u2", "a2"], ["u3"]))


def test_a_client_that_lost_an_answer_or_its_end_goes_on_after_the_whole_of_it(thread: Thread) -> None:
    found = thread.asked(U1, replace(A1, content=" answ"), U2, U3)
    assert not found.forks
    assert found.history == (U1, A1, U2, A2)
    assert found.given == (U3,)


def test_a_client_that_lost_all_of_the_last_answer_is_not_answered_again(thread: Thread) -> None:
    found = thread.asked(U1, A1, U2, replace(A2, content=""))
    assert (found.forks, seen(found)) == (False, (["u1", "a1", "u2", "a2"], []))


def test_text_that_we_hold_void_is_no_edit() -> None:
    thread = Thread()
    call = replace(says("a1", "", "c1"), content="")
    thread.asked(U1, writes=[call])
    assert thread.asked(U1, replace(call, content="The anser"), U2).history == (U1, call)


def test_space_around_a_text_is_no_edit(thread: Thread) -> None:
    found = thread.asked(replace(U1, content=" question u1\n"), replace(A1, content="answer a1\n"), U2, A2, U3)
    assert (found.forks, found.history) == (False, (U1, A1, U2, A2))


def test_ours_are_given_to_the_source_with_what_no_client_sends_back() -> None:
    thread = Thread()
    link = Part(kind="file", url="https://x.test/a.png")
    ours = (says("a1", "look", "c1", parts=(link,)), result("t1", "c1", parts=(link,)), says("a2"))
    thread.asked(U1, writes=ours)
    copy = [
        replace(message, parts=(), tool_calls=(ToolCall(id="c1", name="look"),) * (n == 0))
        for n, message in enumerate(ours)
    ]
    assert thread.asked(U1, *copy, U2).history == (U1, *ours)


def test_a_question_is_the_same_whether_its_text_is_a_string_or_a_part(thread: Thread) -> None:
    part = Part(kind="text", text=U2.content)
    assert not thread.asked(U1, A1, replace(U2, content="", parts=(part,)), A2, U3).forks
    picture = Part(kind="file", url="https://x.test/a.png")
    assert thread.asked(U1, A1, replace(U2, parts=(picture,)), U3).forks


def test_system_and_developer_messages_are_no_part_of_the_thread() -> None:
    thread = Thread()
    rules = [Message(id=role, role=role, content="be kind") for role in ("system", "developer")]  # type: ignore[arg-type]
    thread.asked(rules[0], U1, rules[1], writes=[A1])
    assert seen(thread.asked(*rules, U1, A1, U2)) == (["u1", "a1"], ["u2"])


def test_void_messages_are_neither_history_nor_news_nor_missing() -> None:
    thread = Thread()
    thread.asked(U1, writes=[A1], void=("x1", "x2", "x3"))
    stale = [says("x1", "The anser"), result("x2", "c0"), says("x3", " ")]
    found = thread.asked(U1, stale[0], A1, *stale[1:], U2)
    assert (found.forks, seen(found)) == (False, (["u1", "a1"], ["u2"]))
    assert not thread.asked(U1, A1, U2, *stale).forks


def test_an_id_that_comes_again_counts_once_and_an_answer_without_content_not_at_all(thread: Thread) -> None:
    found = thread.asked(U1, U1, A1, U2, A2, A2, U3, Message(id="a9", role="assistant"), replace(U3, content="else"))
    assert (found.forks, found.given) == (False, (U3,))


def test_a_message_without_an_id_is_always_news() -> None:
    thread = Thread()
    for number in range(3):
        found = thread.asked(user("", f"one {number}"), user("", f"two {number}"))
        assert (found.forks, len(found.history)) == (False, 2 * number)
        assert [message.content for message in found.given] == [f"one {number}", f"two {number}"]
    assert len({*thread.conversation()}) == 6


def test_runs_that_failed_are_history_and_one_that_is_not_over_is_not() -> None:
    thread = Thread()
    thread.asked(U1)
    assert seen(thread.asked(U1, writes=[A1])) == (["u1"], [])
    thread.turns.append(replace(thread.turns[-1], record=replace(thread.turns[-1].record, key="live"), outcome=None))
    found = place(thread.turns, [U1, A1, U2])
    assert (found.parent, found.before) == ("run 2", "live")
    assert place(thread.turns[-1:], [U1]) == Place(given=(U1,), before="live")


def test_the_answers_of_agents_may_be_missing_where_only_they_are(thread: Thread) -> None:
    lane = [says("s1", agent="k"), user("s2", agent="k")]
    thread.asked(U3, writes=[says("a3", "", "c1"), result("t1", "c1"), *lane])
    copy = [U1, A1, U2, A2, U3, says("a3", "", "c1")]
    assert seen(thread.asked(*copy)) == (["u1", "a1", "u2", "a2", "u3", "a3", "t1", "s1", "s2"], [])


# --- forks -----------------------------------------------------------------------------------------------------------


def test_an_edited_question_forks_before_it(thread: Thread) -> None:
    edited = replace(U2, content="something else")
    found = thread.asked(U1, A1, edited, writes=[says("b2")])
    assert found == Place(parent="run 1", forks=True, history=(U1, A1), given=(edited,), before="run 2")
    # The same id with its other content is on the other path.
    assert seen(thread.asked(U1, A1, edited, says("b2"), U3)) == (["u1", "a1", "u2", "b2"], ["u3"])
    found = thread.asked(U1, A1, U2, A2, user("v3"), writes=[says("a3")])
    assert (found.parent, found.forks, found.branch) == ("run 2", False, "")


def test_an_edited_first_question_begins_the_conversation_anew(thread: Thread) -> None:
    edited = replace(U1, content="something else")
    assert thread.asked(edited) == Place(forks=True, given=(edited,), before="run 2")
    assert thread.conversation() == ["u1"]


def test_what_the_client_keeps_after_its_edit_is_given_again_as_we_know_it() -> None:
    thread = Thread()
    ours = (says("a1", "look", "c1"), result("t1", "c1"), says("a2", "The whole answer"))
    thread.asked(U1, writes=ours)
    edited = replace(U1, content="else")
    found = thread.asked(edited, *ours[:2], says("a2", "The who"), U2)
    assert (found.forks, found.given) == (True, (edited, *ours, U2))
    again = replace(U1, content="and else")
    assert thread.asked(again, says("a2", "Mine"), U2).given == (again, says("a2", "Mine"), U2)


def test_an_edited_answer_is_an_edit_and_a_shorter_one_is_not(thread: Thread) -> None:
    mine = says("a1", "My own words")
    found = thread.asked(U1, mine, U2, A2, U3)
    assert (found.parent, found.upto, found.forks) == ("run 1", "u1", True)
    assert found.given == (mine, U2, A2, U3)


def test_a_question_between_known_messages_is_an_edit_there(thread: Thread) -> None:
    found = thread.asked(U1, A1, U3, A2)
    assert (found.parent, found.upto, found.forks, seen(found)) == ("run 1", "", True, (["u1", "a1"], ["u3", "a2"]))


def test_a_question_behind_a_call_is_asked_after_its_result() -> None:
    thread = Thread()
    thread.asked(U1, writes=[says("a1", "", "c1"), result("t1", "c1"), A2])
    assert seen(thread.asked(U1, says("a1"), U2, A2)) == (["u1", "a1", "t1"], ["u2", "a2"])


def test_a_question_before_all_known_ones_is_news(thread: Thread) -> None:
    found = thread.asked(user("u0"), U1, A1, U2, A2, U3)
    assert (found.forks, seen(found)) == (False, (["u1", "a1", "u2", "a2"], ["u0", "u3"]))


def test_who_goes_back_forks_and_the_other_way_stays(thread: Thread) -> None:
    found = thread.asked(U1, A1, U3, writes=[says("a3")])
    assert found == Place(parent="run 1", forks=True, history=(U1, A1), given=(U3,), before="run 2")
    assert thread.conversation() == ["u1", "a1", "u3", "a3"]
    assert ids(conversation(thread.turns, "run 2")) == ["u1", "a1", "u2", "a2"]
    assert place(thread.turns, [U1, A1, U3, says("a3"), user("u4")]).branch == "run 3"


def test_the_same_question_again_asks_for_another_answer(thread: Thread) -> None:
    found = thread.asked(U1, A1, U2, writes=[says("b2")])
    assert found == Place(parent="run 2", upto="u2", forks=True, history=(U1, A1, U2), before="run 2")
    assert thread.conversation() == ["u1", "a1", "u2", "b2"]
    assert thread.asked(U1).forks


def test_another_answer_of_a_sub_agent_that_answered_alone() -> None:
    thread = Thread()
    thread.asked(U1, writes=[says("s1", agent="k")])
    assert thread.asked(U1).forks


def test_a_fork_keeps_a_call_and_its_results_together(thread: Thread) -> None:
    thread.asked(U3, writes=[says("a3", "", "c1", "c2"), result("t1", "c1"), result("t2", "c2"), says("a4")])
    for copy in ([A2, U3, says("a3")], [A2, U3, says("a3"), result("t1", "c1")]):
        found = place(thread.turns, copy)
        assert (found.upto, seen(found)) == ("t2", (["u1", "a1", "u2", "a2", "u3", "a3", "t1", "t2"], []))


def test_going_on_where_another_run_went_on_before_is_a_fork_also_without_a_cut(thread: Thread) -> None:
    thread.asked(U1, A1, U2, A2, U3, writes=[says("a3")])
    found = thread.asked(U1, A1, U2, A2, user("u4"))
    assert (found.parent, found.upto, found.forks) == ("run 2", "", True)


def test_old_copies_go_on_where_they_were(thread: Thread) -> None:
    edited = replace(U1, content="else")
    thread.asked(edited, A1, U2, writes=[says("b2")])
    found = thread.asked(U1, A1, U2, A2, U3)
    assert (found.parent, found.branch, found.history) == ("run 2", "", (U1, A1, U2, A2))
    found = thread.asked(edited, A1, U2, says("b2"), user("v3"))
    assert (found.parent, found.branch, found.history[0]) == ("run 3", "run 3", edited)
    # What both paths have says nothing: the newest counts, unless the copy shows that it is of the other one.
    found = place(thread.turns, [A1, user("v4")])
    assert (found.parent, ids(found.history)) == ("run 3", ["u1", "a1"])
    found = place(thread.turns, [U1, A1, user("v4")])
    assert (found.parent, found.history) == ("run 1", (U1, A1))


# --- tools of the client ---------------------------------------------------------------------------------------------


def calling(**outcome: Any) -> Thread:
    thread = Thread()
    thread.asked(U1, writes=[says("a1", "", "c1", "c2"), result("t2", "c2")], **outcome)
    return thread


MINE = result("mine", "c1", "Error: foo")


@pytest.mark.parametrize("place_of_it", [2, 3])
def test_the_clients_result_is_given_wherever_it_stands(place_of_it: int) -> None:
    copy = [U1, says("a1", "", "c1"), result("t2", "c2")]
    copy.insert(place_of_it, MINE)
    found = calling().asked(*copy)
    assert (found.forks, found.given) == (False, (MINE,))


def test_a_late_result_for_an_open_call_is_given_and_one_for_an_unknown_call_is_not() -> None:
    thread = calling()
    thread.asked(U1, says("a1"), U2, writes=[A2])
    found = thread.asked(U1, says("a1"), MINE, result("lost", "c9"), U2, A2, U3)
    assert (found.forks, found.given) == (False, (MINE, U3))


def test_a_second_result_for_a_call_is_no_news() -> None:
    thread = calling()
    found = thread.asked(MINE, result("more", "c1"), result("theirs", "c2"), U2)
    assert seen(found)[1] == ["mine", "u2"]
    assert seen(thread.asked(U1, says("a1"), result("again", "c1"), U3))[1] == ["u3"]


def test_an_edited_result_of_the_client_forks_and_ours_is_not_the_clients_to_edit() -> None:
    thread = calling()
    thread.asked(MINE, writes=[A2])
    found = thread.asked(U1, says("a1"), result("t2", "c2", "other"), MINE, A2, U2)
    assert not found.forks
    found = thread.asked(U1, says("a1"), result("t2", "c2"), replace(MINE, content="bar"), U3)
    assert (found.forks, seen(found)) == (True, (["u1", "a1", "t2"], ["mine", "u3"]))


def test_the_clients_own_result_takes_the_place_of_what_stood_in_for_it() -> None:
    thread = Thread()
    stand_in = result("t1", "c1", "Error: cancelled", error="Error: cancelled")
    thread.asked(U1, writes=[says("a1", "", "c1"), stand_in], stand_ins=("t1",))
    assert thread.conversation() == ["u1", "a1", "t1"]
    found = thread.asked(U1, says("a1"), stand_in, MINE, writes=[A2])
    assert (found.forks, seen(found)) == (False, (["u1", "a1"], ["mine"]))
    assert thread.conversation() == ["u1", "a1", "mine", "a2"]
    assert seen(thread.asked(replace(U1, content="else"), stand_in, U2))[1] == ["u1", "u2"]


def test_a_result_before_its_call_is_taken_as_it_comes() -> None:
    assert place([], [MINE, says("a1", "", "c1")]).given == (MINE, says("a1", "", "c1"))


# --- size, and odd threads -------------------------------------------------------------------------------------------


def test_long_threads_of_many_runs_and_forks_take_no_longer_than_they_are_long() -> None:
    turns, copy = list[Turn](), list[Message]()
    for number in range(20_000):
        copy += [user(f"u{number}"), says(f"a{number}")]
        turns.append(turn(f"run {number}", f"run {number - 1}", *copy[-2:]))
    for number in range(0, 20_000, 10):
        turns.append(turn(f"fork {number}", f"run {number}", user(f"v{number}"), says(f"b{number}"), f"u{number}"))
    assert place(turns, [*copy, user("new")]).history == (*copy,)
    edited = replace(copy[0], content="else")
    assert place(turns, [edited, *copy[1:]]).given == (edited, *copy[1:])


def turn(key: str, parent: str | None, given: Message, wrote: Message, upto: str = "") -> Turn:
    return Turn(record=record(key, parent, upto), given=(given,), outcome=Outcome(messages=(wrote,)))


def test_a_run_that_follows_a_message_which_is_gone_follows_the_whole_run() -> None:
    turns = [turn("run 1", None, U1, A1), turn("run 2", "run 1", U2, A2, upto="gone")]
    assert ids(conversation(turns)) == ["u1", "a1", "u2", "a2"]


def test_a_run_whose_parent_is_gone_begins_a_conversation() -> None:
    turns = [turn("run 2", "run 1", U2, A2, upto="a1")]
    assert ids(conversation(turns)) == ["u2", "a2"]
    assert seen(place(turns, [U1, A1, U2, A2, U3])) == (["u2", "a2"], ["u1", "u3"])


def test_the_conversation_of_a_run_that_does_not_exist_is_an_error(thread: Thread) -> None:
    with pytest.raises(KeyError, match="run 9"):
        conversation(thread.turns, "run 9")


# --- any client ------------------------------------------------------------------------------------------------------

SHAPES = st.sampled_from(["text", "tool", "client", "lane", "nothing", "again"])


def answer(shape: str, n: int) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """What run number ``n`` writes, and ids that are void."""
    one, call = says(f"a{n}", "", f"c{n}"), result(f"t{n}", f"c{n}")
    match shape:
        case "text":
            return (says(f"a{n}"),), ()
        case "tool":
            return (one, call, says(f"b{n}")), ()
        case "client":
            return (one,), ()
        case "lane":
            return (one, call, says(f"s{n}", agent="k"), result(f"r{n}", f"d{n}", agent="k"), says(f"b{n}")), ()
        case "again":
            return (says(f"a{n}"),), (f"x{n}",)
    return (), (f"x{n}",)


def examples(count: int) -> Any:
    return settings(max_examples=count * DEEP, deadline=None, database=None)


@examples(150)
@given(st.lists(SHAPES, max_size=6), st.booleans())
def test_an_exact_copy_or_only_the_news_always_go_on_with_the_same_history(shapes: list[str], whole: bool) -> None:
    thread = Thread()
    copy: list[Message] = []
    for n, shape in enumerate(shapes):
        found = thread.asked(
            *(copy if whole else ()), user(f"u{n}"), writes=answer(shape, n)[0], void=answer(shape, n)[1]
        )
        void = [says(f"x{k}", "gone") for k in range(n)]
        assert (found.forks, found.given, found.branch) == (False, (user(f"u{n}"),), "")
        assert [*found.history] == [message for message in copy if message not in void]
        copy += [user(f"u{n}"), *(says(id, "gone") for id in answer(shape, n)[1]), *answer(shape, n)[0]]


CHANGES = st.tuples(st.sampled_from(["on", "edit", "back", "again", "lose", "old"]), st.integers(0, 99), SHAPES)


@examples(300)
@given(st.lists(CHANGES, max_size=8))
def test_whatever_a_client_changes_it_is_answered_what_it_sees(changes: list[tuple[str, int, str]]) -> None:
    thread = Thread()
    copies: list[list[Message]] = [[]]
    for n, (change, where, shape) in enumerate(changes):
        copy = copies[where % len(copies)] if change == "old" else copies[-1]
        asks = [number for number, message in enumerate(copy) if message.role == "user"]
        at = asks[where % len(asks)] if asks else 0
        new = [user(f"u{n}")]
        sent = copy
        match change:
            case "edit" if asks:
                copy = [
                    *copy[:at],
                    replace(copy[at], content=f"edited {n}"),
                    *(copy[at + 1 :] if where % 3 == 0 else ()),
                ]
                sent, new = copy, []
            case "back" if copy:
                sent = copy = copy[: 1 + where % len(copy)]
            case "again" if asks:
                sent, new = copy[: at + 1], []
                copy = sent
            case "lose":
                sent = [replace(m, content=m.content[:3]) if m.role == "assistant" else m for m in copy]
        found = thread.asked(*sent, *new, writes=answer(shape, n)[0])
        told = [*found.history, *found.given]
        shown = {message.id for message in (*copy, *new)}
        assert [message for message in told if message.id in shown] == copy + new, change
        more = [message.id for message in told if message.id not in shown]
        assert not copy or all(id[0] in "abstr" for id in more), "a question that the client does not have"
        copies.append(told + [*answer(shape, n)[0]])


def said(message: Message) -> tuple[str, str, str]:
    text = message.content + "".join(part.text for part in message.parts)
    return message.id, message.role, text.strip()


def unwritten(n: int) -> set[str]:
    """The ids that the server makes from run number ``n`` on; no client can know one before."""
    return {f"{kind}{number}" for kind in "abcrstx" for number in range(n, 9)}


NAMES = ["u1", "u2", "u3", "a0", "a1", "b1", "t1", "s1", "c1", "x1", "x2", "", "new"]
GARBAGE = st.builds(
    Message,
    id=st.sampled_from(NAMES),
    role=st.sampled_from(["system", "user", "user", "assistant", "tool"]),
    content=st.sampled_from(["", "question u1", "answer a1", "answer", "seen", " "]),
    parts=st.sampled_from([(), (Part(kind="text", text="x"),), (Part(kind="file", url="x:y"),)]),
    tool_calls=st.sampled_from([(), (ToolCall(id="c1", name="look"),), (ToolCall(id="c9", name="look"),)]),
    tool_call_id=st.sampled_from([None, "c1", "c9", "d1"]),
    agent=st.sampled_from(["", "", "k"]),
)


@examples(400)
@given(st.lists(st.tuples(st.lists(GARBAGE, max_size=7), SHAPES), max_size=5))
def test_whatever_is_sent_no_question_is_lost_and_nothing_is_told_twice(
    requests: list[tuple[list[Message], str]],
) -> None:
    thread = Thread()
    void: set[str] = set()
    for n, (guesses, shape) in enumerate(requests):
        sent = [message for message in guesses if message.id not in unwritten(n)]
        wrote, gone = answer(shape, n)
        stand_ins = [message.id for message in wrote if message.id == f"t{n}" and n % 2]
        found = thread.asked(*sent, writes=wrote, void=gone, stand_ins=tuple(stand_ins))
        told = ids(found.history + found.given)
        assert len(set(told)) == len(told)
        first: dict[str, Message] = {}
        for message in sent:
            if message.role != "system" and message.id not in void:
                first.setdefault(message.id, message)
        questions = {said(message) for message in first.values() if message.role == "user" and message.id}
        assert questions <= {said(message) for message in found.history + found.given}
        void |= {*gone}
