"""``anabranch chat`` at a terminal: what stays on it, and the conversation."""

from typing import Any

import pytest
from cases._case import DONE, calls, lane, returns, says, thinks, woven

from anabranch import App
from anabranch import events as ev
from anabranch.request import RunRequest
from tests.cli.double import Double, cable, event, events_of, first, frames, seated
from tests.serving import ask, served

pytestmark = pytest.mark.process

STREAM = frames(
    [
        *thinks("r", "Who knows?"),
        *calls("c1", "ask_komodor", '{"question":', ' "clusters?"}'),
        *calls("c2", "ask_argocd", "{}"),
        *woven(
            lane("k", "komodor", says("m", "three ", "clusters\n", "all well", agent="k"), call="c1"),
            lane("a", "argocd", says("n", "two ", "apps\n", "in sync", agent="a"), call="c2"),
        ),
        returns("c1", "three clusters"),
        returns("c2", "two apps"),
        *says("m", "Done.\n\n", "\x1b]0;mine\x07", "All is \U0001f680 well."),
        DONE,
    ]
)
ON_SCREEN = [
    "Who knows?",
    'ask_komodor({"question": "clusters?"})',
    "ask_argocd({})",
    "   komodor | three clusters",
    "    argocd | two apps",
    "   komodor | all well",
    "    argocd | in sync",
    "Done.",
    "",
    "\\x1b]0;mine\\x07All is \U0001f680 well.",
    "",
]


async def test_a_terminal_keeps_every_line_once_with_whose_it_is() -> None:
    async with served(Double(STREAM).app) as url, seated(url, "hello") as seat:
        assert await seat.leaves() == 0
        assert seat.rows == ON_SCREEN
    assert b"\x1b]" not in seat.seen and b"\x07" not in seat.seen
    assert seat.seen.rstrip().endswith(b"\x1b[?25h")  # the cursor is back


async def test_lines_grow_side_by_side_until_they_are_finished() -> None:
    growing = [n for n, each in enumerate(events_of(STREAM)) if each.get("delta") == "two "][0] + 1
    double = Double(STREAM, hold=growing)
    async with served(double.app) as url, seated(url, "hello") as seat:
        await seat.sees("two ")
        assert seat.rows[-2:] == ["   komodor | three", "    argocd | two"] or seat.rows[-3:-1] == [
            "   komodor | three",
            "    argocd | two",
        ]
        double.go.set()
        assert await seat.leaves() == 0
        assert seat.rows == ON_SCREEN


async def test_reasoning_can_be_hidden() -> None:
    async with served(Double(STREAM).app) as url, seated(url, "hello", "--hide-reasoning") as seat:
        assert await seat.leaves() == 0
        assert seat.rows == ON_SCREEN[1:]


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
async def test_there_is_no_colour_where_none_is_wanted(environ: dict[str, str], coloured: bool) -> None:
    async with served(Double(STREAM).app) as url, seated(url, "hello", **environ) as seat:
        assert await seat.leaves() == 0
        assert seat.rows == ON_SCREEN
    assert (b"\x1b[36m" in seat.seen) is coloured


async def test_a_connection_that_breaks_is_told_above_what_grows() -> None:
    async with (
        served(Double(STREAM).app) as url,
        cable(url, first(STREAM[14][:-9])) as bad_url,
        seated(bad_url, "hello") as seat,
    ):
        assert await seat.leaves() == 0
        told = "anabranch: the connection was lost; following the run again"
        assert [row for row in seat.rows if row != told] == ON_SCREEN
        assert seat.rows.count(told) == 1


async def test_a_signal_keeps_what_was_said_on_the_screen() -> None:
    double = Double(STREAM, hold=len(STREAM) - 3)
    async with served(double.app) as url, seated(url, "hello") as seat:
        await seat.sees("Done.")
        seat.type(b"\x03")
        assert await seat.leaves() == 130
        assert seat.rows[-5:] == ["Done.", "", "\\x1b]0;mine\\x07", "anabranch: cancelled", ""]
    assert double.cancelled.is_set()


async def test_a_second_ctrl_c_leaves_the_cursor_as_it_was() -> None:
    double = Double(STREAM, hold=len(STREAM) - 3)
    double.stubborn = True
    async with served(double.app) as url, seated(url, "hello") as seat:
        await seat.sees("Done.")
        seat.type(b"\x03")
        await double.cancelled.wait()
        seat.type(b"\x03")
        assert await seat.leaves() == 130
        double.go.set()
    assert seat.seen.rindex(b"\x1b[?25h") > seat.seen.rindex(b"\x1b[?25l")


# --- the conversation ------------------------------------------------------------------------------------------------


async def test_a_conversation_sends_what_was_said_so_far_and_ends_with_ctrl_d() -> None:
    double = Double(frames([*says("m", "Answer."), DONE]))
    async with served(double.app) as url, seated(url, "--thread", "t") as seat:
        await seat.sees("> ")
        seat.type(b"one\n")
        await seat.sees("Answer.")
        await seat.sees("> ", 2)
        seat.type(b"\ntwo\n")
        await seat.sees("Answer.", 2)
        await seat.sees("> ", 4)
        seat.type(b"\x04")
        assert await seat.leaves() == 0
    one, two = double.bodies
    assert one["threadId"] == two["threadId"] == "t" and one["runId"] != two["runId"]
    assert two["messages"][0] == one["messages"][0]
    assert [(m["role"], m["content"]) for m in two["messages"]] == [
        ("user", "one"),
        ("assistant", "Answer."),
        ("user", "two"),
    ]
    assert len({message["id"] for message in two["messages"]}) == 3


async def test_ctrl_c_in_a_conversation_stops_the_run_and_not_the_conversation() -> None:
    double = Double(frames([*says("m", "Half of ", "it."), DONE]), hold=3)
    async with served(double.app) as url, seated(url) as seat:
        await seat.sees("> ")
        seat.type(b"one\n")
        await seat.sees("Half of")
        seat.type(b"\x03")
        await seat.sees("anabranch: cancelled")
        await seat.sees("> ", 2)
        double.cancelled.clear()
        seat.type(b"two\n")
        await seat.sees("it.")
        await seat.sees("> ", 3)
        assert await seat.insists(b"\x03") == 130
    assert [message["content"] for message in double.bodies[1]["messages"]] == ["one", "Half of ", "two"]


async def test_a_question_that_was_never_received_is_not_sent_again() -> None:
    refused = True
    double = Double(frames([*says("m", "Answer."), DONE]))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not refused:
            return await double.app(scope, receive, send)
        await send({"type": "http.response.start", "status": 503, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with served(app) as url, seated(url) as seat:
        await seat.sees("> ")
        seat.type(b"one\n")
        await seat.sees("answered 503")
        await seat.sees("> ", 2)
        refused = False
        seat.type(b"two\n")
        await seat.sees("Answer.")
        await seat.sees("> ", 3)
        seat.type(b"\x04")
        assert await seat.leaves() == 0
    assert [message["content"] for message in double.bodies[0]["messages"]] == ["two"]


async def test_a_conversation_with_the_real_server() -> None:
    told = []

    async def agent(request: RunRequest) -> Any:
        told.append([message.content for message in request.messages])
        yield f"Answer {len(told)}."

    async with served(App({"agent": agent})) as url, seated(url) as seat:
        for number, word in enumerate((b"one", b"two", b"three"), 1):
            await seat.sees("> ", number)
            seat.type(word + b"\n")
            await seat.sees(f"Answer {number}.")
        await seat.sees("> ", 4)
        seat.type(b"\x04")
        assert await seat.leaves() == 0
        assert len((await ask(url, "GET", "/runs")).json["runs"]) == 3
    assert told == [["one"], ["one", "Answer 1.", "two"], ["one", "Answer 1.", "two", "Answer 2.", "three"]]


# --- questions -------------------------------------------------------------------------------------------------------


async def asking(request: RunRequest) -> Any:
    """An agent that asks twice at once, and says what it was answered."""
    if request.resume:
        for answer in request.resume:
            yield f"{answer.status} {answer.payload!r}\n"
        return
    yield "Hm.\n"
    yield ev.Interrupted(interrupt_id="a", reason="input_required", message="Which \x1b[2Jcolour?")
    approved = {"type": "object", "properties": {"approved": {"type": "boolean"}}}
    yield ev.Interrupted(interrupt_id="b", reason="confirmation", message="Sure?", schema=approved)
    yield ev.Interrupted(interrupt_id="c", reason="input_required", message="Why?")


async def test_questions_of_an_agent_are_asked_and_their_answers_go_on_with_the_run() -> None:
    async with served(App({"asking": asking})) as url, seated(url, "go") as seat:
        for number, (question, keys) in enumerate(
            [
                ("the agent asks: Which \\x1b[2Jcolour? (", b"green\n"),
                ("the agent asks: Sure? [y/n]", b"perhaps\n"),
                ("type y or n", b"y\n"),
                ("the agent asks: Why?", b"\x04"),
            ],
            1,
        ):
            await seat.sees(question)
            await seat.sees("answer> ", number)
            seat.type(keys)
        assert await seat.leaves() == 0
        said = [row for row in seat.rows if "resolved" in row or "cancelled" in row]
    assert said == ["resolved 'green'", "resolved {'approved': True}", "cancelled None"]


async def test_nobody_who_types_is_asked_when_the_run_was_stopped() -> None:
    script = [event("RUN_STARTED", threadId="t", runId="r"), event("RUN_FINISHED", threadId="t", runId="r")]
    double = Double(script, ours=False, hold=1)
    async with served(double.app) as url, seated(url, "go") as seat:
        await double.held.wait()
        seat.type(b"\x03")
        await seat.sees("cannot be told to stop a run")
        assert await seat.leaves() == 130
        double.go.set()


async def test_what_is_typed_and_is_no_text_is_sent_as_text() -> None:
    double = Double(STREAM)
    async with served(double.app) as url, seated(url) as seat:
        await seat.sees("> ")
        seat.type(b"a\xffb\r")
        await seat.sees("well.")
        await seat.sees("> ", 2)
        assert await seat.insists(b"\x04") == 0
    assert double.bodies[0]["messages"][0]["content"] == "a\ufffdb"


async def test_arguments_of_millions_of_characters_are_one_row() -> None:
    stream = frames([*calls("c", "write", '{"text": "' + "x" * 5_000_000 + '"}'), returns("c", "ok"), DONE])
    async with served(Double(stream).app) as url, seated(url, "q") as seat:
        assert await seat.leaves() == 0
        (row, *_) = seat.rows
    assert row.startswith('write({"text": "xxx') and len(row) == 100
