"""``anabranch chat`` as a process, in a pipe: what it writes where, and how it exits."""

import asyncio
import json
import os
import signal
from typing import Any

import pytest
from cases._case import DONE, calls, lane, returns, says
from typer.testing import CliRunner

from anabranch import App
from anabranch import events as ev
from anabranch.cli.main import app
from anabranch.request import RunRequest
from tests.cli.double import Double, bare, cable, chat, event, first, frames, running
from tests.serving import ask, by_header, served

pytestmark = pytest.mark.process

EVIL = "a\x00b\x1b[31m\r\n\r\x9b\u2028 \U0001f469\u200d\U0001f680 \n\n"
STREAM = frames(
    [
        *says("n", "I look. ", phase="narration"),
        *calls("c", "ask_komodor", "{}"),
        *lane("k", "komodor", says("m", "clusters", agent="k"), call="c"),
        returns("c", "clusters"),
        *says("m", "The ", EVIL, "answer"),
        DONE,
    ]
)
ANSWER = f"The {EVIL}answer".encode()
USAGE = [{"model": "m", "inputTokens": 3, "outputTokens": 4, "totalTokens": 7}]


async def test_a_pipe_gets_the_answer_byte_for_byte_and_nothing_else() -> None:
    async with served(Double(STREAM).app) as url:
        assert await chat(url, "hello") == (0, ANSWER, "")


async def test_a_pipe_gets_the_answer_while_it_is_written() -> None:
    double = Double(STREAM, hold=len(STREAM) - 3)
    async with served(double.app) as url, running(url, "hello") as process:
        assert await process.stdout.readexactly(4) == b"The "
        double.go.set()
        assert await process.stdout.read() == ANSWER[4:]
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "piped", "asked"),
    [
        (("hello",), None, "hello"),
        ((), b"from the pipe\n", "from the pipe"),
        (("explain:",), b"one\ntwo\n", "explain:\n\none\ntwo"),
        (("h\u00e9llo",), b"", "h\u00e9llo"),
    ],
)
async def test_what_is_asked_is_the_prompt_and_what_is_piped(arguments: Any, piped: bytes | None, asked: str) -> None:
    double = Double(STREAM)
    async with served(double.app) as url:
        assert (await chat(url, *arguments, piped=piped)).code == 0
    (message,) = double.bodies[0]["messages"]
    assert (message["role"], message["content"]) == ("user", asked)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("URL",), "nothing to ask"),
        (("URL", ""), "nothing to ask"),
        (("localhost:1", "q"), "write http://HOST:PORT"),
        (("URL", "q", "--output", "yaml"), "one of text, json and ndjson"),
        (("URL", "q", "--timeout", "0"), "a number of seconds above 0"),
        (("URL", "q", "--timeout", "nan"), "a number of seconds above 0"),
        (("URL", "q", "--thread", "a\nb"), "printable"),
        (("URL", "q", "--header", "Authorization Bearer sesame"), '"Name: value"'),
        (("URL", "q", "--header", "Content-Type: sesame"), "set by this command"),
        (("URL", "q", "--colour"), "No such option"),
        (("URL", "a\udcff"), "not UTF-8"),
        (("URL", "q", "--agent", "a\udcff"), "not UTF-8"),
        ((), "Missing argument"),
    ],
)
def test_a_wrong_use_exits_2_and_asks_nobody(arguments: tuple[str, ...], said: str) -> None:
    # Nobody is at that port, which would be told.
    arguments = tuple("http://127.0.0.1:9" if argument == "URL" else argument for argument in arguments)
    done = CliRunner().invoke(app, ["chat", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    assert (done.exit_code, done.stdout) == (2, "") and said in done.stderr, done.stderr
    assert "cannot be reached" not in done.stderr and "sesame" not in done.stderr


async def test_standard_input_that_is_no_text_is_refused() -> None:
    done = await chat("http://127.0.0.1:9", piped=b"\xff\xfe")
    assert done.code == 2 and "not UTF-8 text: see byte 0" in done.err


async def test_headers_go_with_every_request_and_are_never_said() -> None:
    double = Double(STREAM, hold=9)
    seen: list[dict[str, str]] = []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await double.app(scope, receive, send)

    given = ("--header", "Authorization: Bearer sesame", "--header", "x-user: ann")
    more = {"ANABRANCH_CHAT_HEADERS": "x-tenant: seven\nx-user: nobody\n"}
    async with (
        served(noting) as url,
        cable(url, first(STREAM[4])) as bad_url,
        running(bad_url, "hello", *given, **more) as process,
    ):
        await double.held.wait()
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
    assert sorted(double.asked) == [("GET", "/agui"), ("POST", "/agui"), ("POST", "cancel")]
    for headers in seen:
        assert headers["authorization"] == "Bearer sesame"
        assert (headers["x-user"], headers["x-tenant"]) == ("ann", "seven")
    assert b"sesame" not in out + err and b"seven" not in out + err


async def test_json_is_one_object_with_the_answer_alone() -> None:
    stream = frames(
        [
            ev.MessageStarted(message_id="n"),
            ev.TextDelta(message_id="n", delta="I look. "),
            ev.MessageFinished(message_id="n", phase="narration"),
            *says("m", "The answer"),
            ev.UsageReported(usage=ev.Usage(model="m", input=3, output=4)),
            DONE,
        ]
    )
    double = Double(stream)
    async with served(double.app) as url:
        done = await chat(url, "q", "--output", "json", "--thread", "t-1")
        assert (await chat(url, "q")).out == b"I look. The answer"
    said = json.loads(done.out)
    assert done.out.count(b"\n") == 1 and (done.code, done.err) == (0, "")
    assert double.bodies[0]["threadId"] == "t-1"
    run_id = double.bodies[0]["runId"]
    assert said == {"text": "The answer", "status": "success", "run_id": run_id, "thread_id": "t-1", "usage": USAGE}


async def test_ndjson_is_every_event_as_it_was_received() -> None:
    async with served(Double(STREAM).app) as url:
        done = await chat(url, "q", "--output", "ndjson")
    assert (done.code, done.err) == (0, "")
    assert done.out == b"".join(
        line[6:] + b"\n" for line in b"".join(STREAM).split(b"\n") if line.startswith(b"data: ")
    )


async def test_an_event_over_many_lines_is_one_line_of_ndjson() -> None:
    spread = b'data: {"type": "RUN_FINISHED",\ndata:  "threadId": "t", "runId": "r"}\n\n'
    async with served(Double([spread], ours=False).app) as url:
        done = await chat(url, "q", "--output", "ndjson")
    assert (done.code, json.loads(done.out)["type"]) == (0, "RUN_FINISHED") and done.out.count(b"\n") == 1


FAILED = frames([*says("m", "Half of")[:-1], ev.RunFailed(code="model_error", message="The model broke.")])
CUT = [*STREAM[:-1]]
TAMPERED = [frame.replace(b'"delta":"answer"', b'"delta":"anser"') for frame in STREAM]
SPOILED = frames(
    [
        *says("m1", "The anser")[:-1],
        ev.MessageReset(message_id="m1", superseded_by="m2", reason="retry"),
        *says("m2", "The answer"),
        DONE,
    ]
)
CANCELLED = frames([*says("m", "Half of")[:-1], ev.RunFinished(outcome="cancelled")])
QUESTION = ev.Interrupted(interrupt_id="i", reason="input_required", message="Which\x07 one?")
ASKING = frames([*says("m", "Hm. "), QUESTION, ev.RunFinished(outcome="interrupted")])


@pytest.mark.parametrize(
    ("stream", "out", "said"),
    [
        (FAILED, b"Half of", "The model broke. (model_error)"),
        (CUT, ANSWER, "the stream ended without saying how the run ended (no_end)"),
        (bare(CUT), ANSWER, "the stream ended without saying how the run ended (no_end)"),
        (TAMPERED, ANSWER.replace(b"answer", b"anser"), "is not the one of"),
        (SPOILED, b"The anserThe answer", "the agent began again"),
        (CANCELLED, b"Half of", "the run was cancelled, and not from here"),
        (ASKING, b"Hm. ", "the agent asks: Which\\x07 one?\nanabranch: nobody can be asked here"),
        ([event("TEXT_MESSAGE_START")], b"", "AG-UI requires it"),
    ],
)
async def test_a_run_that_does_not_end_well_exits_1_and_keeps_what_was_said(stream: Any, out: bytes, said: str) -> None:
    async with served(Double(stream).app) as url:
        done = await chat(url, "q")
    assert (done.code, done.out) == (1, out), done
    assert said in done.err and "Traceback" not in done.err and "\x1b" not in done.err, done.err


@pytest.mark.parametrize(
    ("stream", "status", "more"),
    [
        (FAILED, "failed", {"error": {"code": "model_error", "message": "The model broke."}}),
        (CANCELLED, "cancelled", {}),
        (ASKING, "interrupted", {}),
    ],
)
async def test_json_says_how_a_run_ended_that_did_not_end_well(stream: Any, status: str, more: Any) -> None:
    async with served(Double(stream).app) as url:
        done = await chat(url, "q", "--output", "json")
    said = json.loads(done.out)
    assert (done.code, said["status"]) == (1, status) and said | more == said
    assert [asked["id"] for asked in said.get("interrupts", ())] == (["run-1:2"] if status == "interrupted" else [])


async def test_a_server_that_is_not_there_exits_1_at_once() -> None:
    async with served(Double(STREAM).app) as url:
        pass
    done = await chat(url, "q")
    assert (done.code, done.out) == (1, b"")
    assert done.err == f"anabranch: {url}/agui cannot be reached: Connection refused\n"


@pytest.mark.parametrize("number", [0, 3, 9, len(STREAM) - 2])
async def test_a_connection_that_breaks_is_told_and_changes_nothing(number: int) -> None:
    async with served(Double(STREAM).app) as url, cable(url, first(STREAM[number][:-7])) as bad_url:
        done = await chat(bad_url, "q")
    assert done == (0, ANSWER, "anabranch: the connection was lost; following the run again\n")


# --- stopping --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_cancels_the_run_at_the_server_and_keeps_what_was_said(number: int) -> None:
    double = Double(STREAM, hold=len(STREAM) - 3)
    async with served(double.app) as url, running(url, "q") as process:
        assert await process.stdout.readexactly(4) == b"The "
        process.send_signal(number)
        out, err = await process.communicate()
    assert double.cancelled.is_set()
    assert (process.returncode, b"The " + out, err) == (130, b"The " + EVIL.encode(), b"anabranch: cancelled\n")


async def test_a_second_signal_ends_it_at_once() -> None:
    double = Double(STREAM, hold=len(STREAM) - 3)
    double.stubborn = True
    async with served(double.app) as url, running(url, "q") as process:
        await process.stdout.readexactly(4)
        process.send_signal(signal.SIGINT)
        await double.cancelled.wait()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        double.go.set()


async def test_a_server_that_cannot_cancel_is_left() -> None:
    double = Double(bare(STREAM), ours=False, hold=len(STREAM) - 3)
    async with served(double.app) as url, running(url, "q", "--output", "json") as process:
        await double.held.wait()
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        double.go.set()
    assert process.returncode == 130
    assert err == b"anabranch: this server cannot be told to stop a run; leaving it\nanabranch: cancelled\n"
    said = json.loads(out)
    assert (said["text"], said["status"]) == ("The " + EVIL, "cancelled")


async def test_a_run_that_takes_too_long_is_cancelled_and_exits_1() -> None:
    double = Double(STREAM, hold=len(STREAM) - 3)
    async with served(double.app) as url:
        done = await chat(url, "q", "--timeout", "1")
    assert double.cancelled.is_set()
    assert done == (1, b"The " + EVIL.encode(), "anabranch: the run was cancelled: it took longer than 1 s\n")


async def test_a_signal_before_there_is_an_answer_stops_the_run_too() -> None:
    double = Double(STREAM, hold=0)
    async with served(double.app) as url, running(url, "q") as process:
        await double.held.wait()
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
    assert double.cancelled.is_set()
    assert (process.returncode, out, err) == (130, b"", b"anabranch: cancelled\n")


async def test_a_reader_that_leaves_ends_the_run_without_a_word() -> None:
    left = asyncio.Event()

    async def agent(request: RunRequest) -> Any:
        yield "word\n"
        await left.wait()
        yield "more\n"
        await asyncio.Event().wait()

    async with served(App({"agent": agent})) as url, running(url, "q") as process:
        await process.stdout.readline()
        process._transport.get_pipe_transport(1).close()  # as `head -n 1` does
        left.set()
        assert (await process.stderr.read(), await process.wait()) == (b"", 141)
        while (run := (await ask(url, "GET", "/runs")).json["runs"][0])["status"] == "running":
            pass
    assert run["status"] == "cancelled"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full: run it on Linux")
async def test_an_output_that_cannot_be_written_is_told_and_ends_the_run() -> None:
    double = Double(STREAM, hold=len(STREAM) - 3)
    full = os.open("/dev/full", os.O_WRONLY)
    async with served(double.app) as url, running(url, "q", stdout=full) as process:
        os.close(full)
        assert await process.stderr.read() == b"anabranch: standard output cannot be written: No space left on device\n"
        assert await process.wait() == 1
    assert double.cancelled.is_set()


# --- much text, slow readers -----------------------------------------------------------------------------------------

LONG = "0123456789 \u00e9\n" * 50


async def much(request: RunRequest) -> Any:
    """An agent that says five million characters."""
    for _ in range(8_000):
        yield LONG


async def test_a_long_answer_reaches_a_slow_reader_whole() -> None:
    async with served(App({"much": much})) as url, running(url, "q") as process:
        size = 0
        while piece := await process.stdout.read(16_384):
            assert piece in LONG.encode() * 30
            size += len(piece)
        assert await process.stderr.read() == b""
        assert await process.wait() == 0
    assert size == len(LONG.encode()) * 8_000


async def test_a_reader_that_does_not_read_keeps_nobody_from_leaving() -> None:
    reading, writing = os.pipe()
    async with served(App({"much": much})) as url, running(url, "q", stdout=writing) as process:
        os.close(writing)
        while (await ask(url, "GET", "/runs")).json["runs"] == []:
            pass
        process.send_signal(signal.SIGINT)
        while (await ask(url, "GET", "/runs")).json["runs"][0]["status"] == "running":
            pass
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    os.close(reading)


# --- with the real server --------------------------------------------------------------------------------------------


async def test_a_thread_of_the_real_server_goes_on_in_another_process() -> None:
    asked = []

    async def agent(request: RunRequest) -> Any:
        asked.append([(message.role, message.content) for message in request.messages])
        yield f"answer {len(asked)}"

    async with served(App({"agent": agent}, principal=by_header)) as url:
        mine = ("--thread", "t", "--header", "x-user: ann")
        assert await chat(f"{url}/agents/agent/agui", "one", *mine) == (0, b"answer 1", "")
        assert await chat(url, "two", "--agent", "agent", *mine) == (0, b"answer 2", "")
        done = await chat(url, "three")
    assert asked[1] == [("user", "one"), ("assistant", "answer 1"), ("user", "two")]
    assert done.code == 1 and "answered 401" in done.err and "--header" in done.err
