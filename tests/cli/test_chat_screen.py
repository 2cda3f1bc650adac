"""What is on screen, from frames alone."""

import re
import time
from collections import Counter

import pytest
from cases import CASES, Case
from cases._case import DONE, args, calls, lane, returns, says, text, thinks, woven

from anabranch import events as ev
from anabranch.cli.chat.screen import Line, Screen, visible
from tests.cli.double import event, events_of, frames

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def shown(items, screen: Screen | None = None) -> list[Line]:
    """The lines of a run, once it is over."""
    screen = screen or Screen()
    lines = [line for each in events_of(frames(items)) for line in screen.feed(each)]
    return lines + screen.close()


def written(lines: list[Line]) -> list[str]:
    """Lines as a reader sees them, without their place."""
    return [f"{line.lane}: {line.head}{line.text}" if line.lane else line.head + line.text for line in lines]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_text_of_any_lane_is_lost_and_no_control_character_reaches_the_screen(case: Case) -> None:
    lines = shown(case.items)
    assert not any(CONTROL.search(line.text + line.head + line.lane) for line in lines)
    if any(isinstance(item, ev.MessageReset) for item in case.items):
        return
    stream = events_of(frames(case.items))
    mine = {e["messageId"] for e in stream if e["type"] == "TEXT_MESSAGE_START" and e["role"] == "assistant"}
    said = "".join(e["delta"] for e in stream if e["type"] == "TEXT_MESSAGE_CONTENT" and e["messageId"] in mine)
    on_screen = "".join(line.text for line in lines if line.kind == "text")
    assert Counter(on_screen.replace(" ", "")) == Counter(re.sub(r"[ \n]", "", visible(said.replace("\r\n", "\n"))))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_after_every_frame_the_finished_and_the_growing_lines_hold_all_that_came(case: Case) -> None:
    screen, finished, so_far = Screen(), 0, 0
    users: set[str] = set()
    for each in events_of(frames(case.items)):
        if each["type"] == "TEXT_MESSAGE_START" and each["role"] != "assistant":
            users.add(each["messageId"])
        lines = screen.feed(each)
        if each.get("name") in ("anabranch.message_reset", "anabranch.run_resumed"):
            return
        if each["type"] == "TEXT_MESSAGE_CONTENT" and each["messageId"] not in users:
            so_far += len(re.sub(r"\s", "", visible(each["delta"]).replace("\\r", "")))
        finished += sum(_size(line) for line in lines)
        assert finished + sum(map(_size, screen.open)) == so_far


def _size(line: Line) -> int:
    return len(re.sub(r"\s", "", line.text).replace("\\r", "")) if line.kind == "text" else 0


def test_lanes_write_side_by_side_and_each_line_says_whose_it_is() -> None:
    both = woven(
        lane("k", "komodor", says("m", "three ", "clusters\n", "all ", "well", agent="k"), call="c1"),
        lane("a", "argocd", says("n", "two ", "apps\n", "in sync", agent="a"), call="c2"),
    )
    asked = [*calls("c1", "ask_komodor"), *calls("c2", "ask_argocd")]
    items = [*asked, *both, returns("c1", "three"), returns("c2", "two"), *says("r", "Done."), DONE]
    screen, grown = Screen(), []
    for each in events_of(frames(items)):
        grown += [written(screen.open)]
        screen.feed(each)
    assert ["komodor: three ", "argocd: two "] in grown
    lines = shown(items)
    assert written(lines) == [
        "ask_komodor()",
        "ask_argocd()",
        "komodor: three clusters",
        "argocd: two apps",
        "argocd: in sync",
        "komodor: all well",
        "Done.",
    ]
    assert {(line.lane, line.depth) for line in lines} == {("", 0), ("komodor", 1), ("argocd", 1)}


def test_two_lanes_of_one_agent_and_a_lane_below_another_are_told_apart() -> None:
    items = [
        *lane("a", "komodor", says("m", "one", agent="a")),
        ev.AgentStarted(agent="b", name="komodor"),
        *lane("c", "pods", says("m", "deep", agent="c"), parent="b"),
        *says("m", "two", agent="b"),
        ev.AgentFinished(agent="b"),
        DONE,
    ]
    lines = shown(items)
    assert written(lines) == ["komodor: one", "pods: deep", "komodor #2: two"]
    assert [line.depth for line in lines] == [1, 2, 1]


def test_a_tool_call_is_one_line_that_grows_with_its_arguments() -> None:
    screen = Screen()
    grown = []
    for each in events_of(frames([*calls("c", "look", '{"q":', '"che\\n', 'ese"}'), returns("c", "found it"), DONE])):
        lines = screen.feed(each)
        grown += [written(screen.open)] if screen.open else []
        if lines:
            grown.append(written(lines))
    assert grown == [
        ["look("],
        ['look({"q":'],
        ['look({"q":"che\\n'],
        ['look({"q":"che\\nese"}'],
        ['look({"q":"che\\nese"})'],
        ["look: found it"],
    ]


def test_the_result_of_a_tool_that_called_an_agent_is_not_said_twice() -> None:
    items = [
        *calls("c", "ask_komodor", "{}"),
        *lane("k", "komodor", says("m", "clusters", agent="k"), call="c"),
        returns("c", "clusters"),
        DONE,
    ]
    assert written(shown(items)) == ["ask_komodor({})", "komodor: clusters"]


def test_who_answers_and_why_is_a_line_of_its_own() -> None:
    items = [
        ev.Routed(route="direct", agents=("komodor",), reason="only \x1b komodor is named"),
        ev.Routed(route="supervisor", agents=(), reason="komodor could not be asked", fallback_from="direct"),
        DONE,
    ]
    assert written(shown(items)) == [
        "To komodor (direct): only \\x1b komodor is named",
        "To the supervisor: komodor could not be asked",
    ]


def test_a_failed_tool_and_a_failed_agent_say_so() -> None:
    items = [
        *calls("c", "look", "{}"),
        returns("c", "", error="no cheese"),
        ev.AgentStarted(agent="k", name="komodor"),
        *text("m", "half a wo", agent="k"),
        ev.AgentFailed(agent="k", code="agent_disconnected", message="The connection broke."),
        DONE,
    ]
    lines = shown(items)
    assert written(lines) == [
        "look({})",
        "look failed: no cheese",
        "komodor: half a wo",
        "komodor: failed: The connection broke.",
    ]
    assert [line.kind for line in lines if "failed" in line.head + line.text] == ["error", "error"]


def test_reasoning_is_shown_as_such_or_not_at_all() -> None:
    items = [*thinks("r", "I thi", "nk\n", "so"), *says("m", "Yes."), DONE]
    assert [(line.text, line.kind) for line in shown(items)] == [
        ("I think", "reasoning"),
        ("so", "reasoning"),
        ("Yes.", "text"),
    ]
    assert [line.text for line in shown(items, Screen(reasoning=False))] == ["Yes."]


def test_what_a_running_tool_reports_is_shown_while_it_runs() -> None:
    items = [
        *calls("c", "look", "{}"),
        ev.ToolOutputDelta(call_id="c", content="shelf 1\nshe"),
        ev.ToolOutputDelta(call_id="c", content="lf 2"),
        returns("c", "found"),
        DONE,
    ]
    assert written(shown(items)) == ["look({})", "look: shelf 1", "look: shelf 2", "look: found"]


def test_a_retry_says_that_what_was_shown_is_void() -> None:
    items = [
        *says("m1", "The anser\nis wro")[:-1],
        ev.MessageReset(message_id="m1", superseded_by="m2", reason="retry"),
        *says("m2", "The answer"),
        DONE,
    ]
    assert written(shown(items))[-2:] == ["(void: what was said last is said again)", "The answer"]


def test_no_escape_sequence_of_an_agent_reaches_the_terminal() -> None:
    evil = "\x1b]0;root\x07\x1b[2J\x9b31m\rfake\x08"
    items = [
        *says("m", evil),
        *calls("c", f"tool{evil}", evil),
        returns("c", evil),
        *lane("k", f"agent{evil}", says("m", evil, agent="k")),
        ev.AgentStarted(agent="l", name="l"),
        ev.AgentFailed(agent="l", code="x", message=evil),
        DONE,
    ]
    lines = shown(items)
    assert len(lines) >= 5
    assert not CONTROL.search("".join(line.lane + line.head + line.text for line in lines))
    assert lines[0].text == "\\x1b]0;root\\x07\\x1b[2J\\x9b31m\\rfake\\x08"


def test_line_ends_of_every_system_end_a_line_wherever_they_are_cut() -> None:
    assert [line.text for line in shown([*says("m", "a\r", "\nb\r\n", "\n", "c\td\n"), DONE])] == ["a", "b", "", "c\td"]


PLAN = {"messageId": "p", "activityType": "plan"}


def patched(*operations: dict[str, object]) -> bytes:
    return event("ACTIVITY_DELTA", **PLAN, patch=list(operations))


def test_the_plan_is_on_screen_while_it_is_written_and_told_when_it_changes() -> None:
    screen = Screen()

    def feed(*stream: bytes) -> list[str]:
        return written([line for each in events_of(stream) for line in screen.feed(each)])

    feed(event("TOOL_CALL_START", toolCallId="w", toolCallName="write_todos"))
    feed(event("TOOL_CALL_ARGS", toolCallId="w", delta='{"todos": [{"content": "a'))
    feed(event("ACTIVITY_SNAPSHOT", **PLAN, content={"todos": [{"content": "ask", "status": "in_progress"}]}))
    assert (written(screen.plan), screen.open) == (["[>] ask"], [])
    feed(patched({"op": "add", "path": "/todos/1", "value": {"content": "ans"}}))
    feed(patched({"op": "replace", "path": "/todos/1/content", "value": "answer\x1b"}))
    assert written(screen.plan) == ["[>] ask", "[ ] answer\\x1b"]
    assert feed(event("TOOL_CALL_END", toolCallId="w")) == []
    assert feed(event("STATE_SNAPSHOT", snapshot={"todos": []})) == ["[>] ask", "[ ] answer\\x1b"]
    assert feed(event("TOOL_CALL_RESULT", messageId="x", toolCallId="w", content="Updated")) == []
    feed(patched({"op": "replace", "path": "/todos/0/status", "value": "completed"}))
    feed(patched({"op": "remove", "path": "/todos/1"}, {"op": "add", "path": "/todos/-", "value": {"content": "rest"}}))
    assert feed(event("STATE_DELTA", delta=[])) == ["[x] ask", "[ ] rest"]
    feed(patched({"op": "replace", "path": "/todos", "value": []}))
    assert screen.plan == []


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/todos/x/y"},
        {"op": "remove", "path": "/todos/9"},
        {"op": "add", "path": "/todos/99999999999999999999", "value": {}},
        {"op": "add", "path": 5},
        {"op": "add"},
    ],
)
def test_a_plan_of_another_shape_is_not_shown_and_breaks_nothing(operation) -> None:
    screen = Screen()
    for each in events_of(
        [event("ACTIVITY_SNAPSHOT", **PLAN, content={"todos": [{"content": "a"}]}), patched(operation)]
    ):
        screen.feed(each)
    assert screen.plan == []


def test_text_of_another_role_is_nobodys_answer_and_not_shown() -> None:
    assert shown([*[ev.MessageStarted(message_id="u", role="user"), *text("u", "my question")], DONE]) == []


def test_arguments_that_break_lines_stay_one_line() -> None:
    assert written(shown([*calls("c", "look")[:1], *args("c", '{"a":\n', "1}"), DONE]))[0] == 'look({"a": 1})'


def test_thousands_of_lanes_of_one_name_are_told_apart_in_no_time() -> None:
    screen, began = Screen(), time.process_time()
    for number in range(20_000):
        screen.feed({"type": "SUBAGENT_STARTED", "name": "a", "subagentRunId": str(number)})
    last = {"messageId": "m", "subagentRunId": "19999"}
    screen.feed({"type": "TEXT_MESSAGE_START"} | last)
    (line,) = screen.feed({"type": "TEXT_MESSAGE_CONTENT", "delta": "hi\n"} | last)
    assert (line.lane, line.text) == ("a #20000", "hi")
    assert time.process_time() - began < 5
