"""``anabranch chat`` with A2A agents, as a process: ours, and those on the official SDKs of 1.0 and 0.3."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a_serving import SCHEMA, asking, failing, result, state_of
from auth.asking import guarded, key_of
from cases._case import DONE, calls, lane, returns, says, thinks, woven
from starlette.responses import PlainTextResponse

from anabranch import App
from anabranch import events as ev
from anabranch.cli.chat.a2a import A2aPeer
from anabranch.cli.chat.client import run_input
from anabranch.cli.chat.reading import Reading
from anabranch.cli.chat.trail import ChatError
from anabranch.config import Server
from anabranch.demo._process import started
from anabranch.events import Interrupted
from anabranch.request import RunRequest
from tests import environments
from tests.agents.cut import Way, cutting
from tests.agents.remote import TOKENS
from tests.cli.double import LOST, cable, chat, running, seated
from tests.serving import ask, echo, served
from tests.sources.a2a._raw import Request, card, raw
from tests.sources.a2a._running import sent

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]  # the first one makes an environment

OLD = Path(__file__).parent.parent / "agents" / "old.py"
TEXT = "".join(TOKENS).encode()
LONG = "".join(f"{n} " for n in range(300)).encode()
A2A = ("--protocol", "a2a")
REMOTES = [(), ("--whole",), ("--speaks", "0.3")]

STORY = [
    *thinks("r", "Who knows?"),
    *calls("c1", "ask_komodor", '{"question":', ' "clusters?"}'),
    *calls("c2", "ask_argocd", "{}"),
    *woven(
        lane("k", "komodor", says("m", "three ", "clusters\n", "all well", agent="k"), call="c1"),
        lane("a", "argocd", says("n", "two ", "apps\n", "in sync", agent="a"), call="c2"),
    ),
    *calls("c3", "look", "{}"),
    returns("c1", "three clusters"),
    returns("c2", "two apps"),
    returns("c3", "a lot"),
    *says("i", "Let me see. ", phase="narration"),
    *says("m", "Done.\n\n", "\x1b]0;mine\x07", "All is \U0001f680 well."),
    DONE,
]


async def story(request: RunRequest) -> AsyncGenerator[ev.Event, None]:
    """An agent that has sub-agents."""
    for event in STORY:
        yield event


class Waiting:
    """An agent that says a word and waits until it is stopped, or told to go on."""

    def __init__(self) -> None:
        self.said, self.stopped, self.go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, request: RunRequest) -> AsyncGenerator[str, None]:
        yield "Here "
        self.said.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        yield "we are."


@pytest.fixture(scope="module")
async def modern() -> AsyncIterator[str]:
    """An agent on the official SDK of 1.0."""
    async with started("tests.agents.modern", "--rate", "0") as url:
        yield url


@pytest.fixture(scope="module")
async def old() -> AsyncIterator[str]:
    """An agent on the official SDK of 0.3."""
    async with environments.started(environments.python("a2a-0.3"), OLD, "--rate", "0") as url:
        yield url


# --- which protocol --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/a2a/echo", "/a2a/echo/", "/a2a/echo/.well-known/agent-card.json"])
async def test_the_address_of_an_a2a_agent_or_of_its_card_is_enough(place: str) -> None:
    async with served(App({"echo": echo, "failing": failing})) as url:
        assert await chat(f"{url}{place}", "two words") == (0, b"two words", "")


async def test_a_server_that_speaks_both_is_asked_over_agui_unless_told_otherwise() -> None:
    async with served(App({"echo": echo})) as url:
        for options, protocol in ((), "AG-UI"), (("--protocol", "agui"), "AG-UI"), (("--protocol", "a2a"), "A2A"):
            code, out, _ = await chat(url, "two words", "--output", "ndjson", *options)
            first = json.loads(out.splitlines()[0])
            assert (code, "A2A" if "jsonrpc" in first else "AG-UI") == (0, protocol)


@pytest.mark.parametrize("options", [(), ("--protocol", "a2a")])
async def test_one_of_the_agents_of_a_server_is_asked_by_its_name(options: tuple[str, ...]) -> None:
    async with served(App({"echo": echo, "failing": failing})) as url:
        assert await chat(url, "two words", "--agent", "echo", *options) == (0, b"two words", "")
        code, out, err = await chat(url, "two words", "--agent", "nobody", *options)
    assert (code, out) == (1, b"") and "--agent NAME" in err
    assert "there is no agent 'nobody'; known: echo, failing" in err


@pytest.mark.parametrize("options", [(), A2A])
async def test_a_server_without_a_default_agent_says_which_it_has(options: tuple[str, ...]) -> None:
    async with served(App({"echo": echo, "failing": failing})) as url:
        code, out, err = await chat(url, "two words", *options)
    assert (code, out) == (1, b"")
    assert "there is no default agent; post to /a2a/NAME or /agents/NAME/agui: echo, failing" in err


async def test_an_agent_that_is_not_there_is_never_the_default_one() -> None:
    async with served(App({"echo": echo})) as url:
        code, out, err = await chat(f"{url}/a2a/nobody", "two words", "--header", "X-API-Key: sesame-sesame")
    assert (code, out) == (1, b"")
    assert "there is no agent 'nobody'; known: echo; give the address of an A2A agent" in err


async def test_a_server_that_does_not_know_agui_is_asked_over_a2a(modern: str) -> None:
    before = (await sent(modern))["requests"]
    code, out, err = await chat(modern, "mode=several")
    assert (code, out.split()[-1], err) == (0, b"299", "")
    assert (await sent(modern))["requests"] == before + 1
    code, out, err = await chat(modern, "mode=several", "--protocol", "agui")
    assert (code, out) == (1, b"") and "/agui answered 404" in err and "A2A" not in err


async def test_what_speaks_neither_is_told_so_with_what_was_looked_for() -> None:
    async with served(PlainTextResponse("hello")) as url:
        code, out, err = await chat(url, "hello")
        assert (code, out) == (1, b"") and "is no stream of events" in err and "Over A2A: " in err
        code, out, err = await chat(url, "hello", "--protocol", "a2a")
        assert (code, out) == (1, b"") and "agent card" in err and "give the address of an A2A agent" in err
    code, out, err = await chat(f"{url}/a2a/echo", "hello")
    assert (code, out) == (1, b"") and f"{url}/a2a/echo cannot be reached" in err


async def test_an_agui_server_that_fails_is_not_asked_over_a2a() -> None:
    asked: list[str] = []

    async def busy(request: Request) -> None:
        asked.append(request.path)
        await request.answer(b"{}", status=500)

    async with raw(busy, card()) as server:
        assert (await chat(server.url, "hello")).code == 1
    assert asked == ["/agui"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("http://h/agui", "q", "--protocol", "a2a"), "is an AG-UI endpoint"),
        (("http://h/x?y=1", "q", "--protocol", "a2a"), "has a query"),
        (("http://h/a2a/one", "q", "--agent", "two"), "leave --agent two out"),
        (("http://h/card.json", "q", "--agent", "two"), "leave --agent two out"),
        (("http://u:p@h/a2a/one", "q"), "--header"),
        (("http://h", "q", "--protocol", "acp"), "acp"),
    ],
)
async def test_a_wrong_use_exits_2(arguments: tuple[str, ...], said: str) -> None:
    code, out, err = await chat(*arguments)
    assert (code, out) == (2, b"") and said in err


# --- what is shown ---------------------------------------------------------------------------------------------------


async def test_a_terminal_shows_sub_agents_and_tools_as_it_does_over_agui() -> None:
    rows = []
    async with served(App({"story": story})) as url:
        for address in (url, f"{url}/a2a/story"):
            async with seated(address, "hello") as seat:
                assert await seat.leaves() == 0
                rows.append(seat.rows)
    assert rows[0] == rows[1]
    assert "   komodor | three clusters" in rows[0] and 'ask_komodor({"question": "clusters?"})' in rows[0]


async def test_a_pipe_gets_the_answer_and_no_narration() -> None:
    answer = b"Done.\n\n\x1b]0;mine\x07All is \xf0\x9f\x9a\x80 well."
    async with served(App({"story": story})) as url:
        assert await chat(f"{url}/a2a/story", "hello") == (0, answer, "")
        code, out, _ = await chat(f"{url}/a2a/story", "hello", "--output", "json")
    assert (code, json.loads(out)["text"]) == (0, answer.decode())


async def test_a_pipe_gets_the_answer_while_it_is_written() -> None:
    agent = Waiting()
    async with served(App({"waiting": agent})) as url, running(f"{url}/a2a/waiting", "hello") as process:
        assert await process.stdout.readexactly(5) == b"Here "
        agent.go.set()
        assert await process.stdout.read() == b"we are."
        assert await process.wait() == 0


async def test_ndjson_is_what_the_agent_sent_and_json_names_the_task_and_its_context() -> None:
    async with served(App({"echo": echo})) as url:
        code, out, err = await chat(f"{url}/a2a/echo", "two words", "--output", "ndjson", "--thread", "t1")
        stream = [json.loads(line)["result"] for line in out.splitlines()]
        assert (code, err) == (0, "") and stream[0]["task"]["contextId"] == "t1"
        assert stream[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        code, out, _ = await chat(f"{url}/a2a/echo", "two words", "--output", "json", "--thread", "t1")
        said = json.loads(out)
        run = (await ask(url, "GET", "/threads/t1")).json
    assert (said["text"], said["status"], said["thread_id"]) == ("two words", "success", "t1")
    assert said["run_id"] and "two words" in json.dumps(run)


@pytest.mark.parametrize("agent", ["modern", "old"])
async def test_agents_of_both_versions_of_the_official_sdk_are_read(agent: str, modern: str, old: str) -> None:
    url = {"modern": modern, "old": old}[agent]
    code, out, err = await chat(url, "mode=long")
    assert (code, out, err) == (0, LONG, "")
    code, out, err = await chat(url, "mode=status_text")
    assert (code, out, err) == (0, LONG if agent == "modern" else TEXT, "")
    code, out, err = await chat(url, "mode=failed" if agent == "old" else "mode=crash")
    assert code == 1 and err.startswith("anabranch: ") and "s3cret" not in err


@pytest.fixture(scope="module", params=REMOTES, ids=str)
async def remote(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """An agent without an SDK: of 1.0, one that does not stream, of 0.3."""
    async with started("tests.agents.remote", "--rate", "0", *request.param) as url:
        yield url


@pytest.fixture(scope="module")
async def failing_agent() -> AsyncIterator[str]:
    """One that streams as 1.0 does."""
    async with started("tests.agents.remote", "--rate", "0") as url:
        yield url


@pytest.mark.parametrize("mode", ["message_only", "ok", "cumulative", "final_recap", "slow_start"])
async def test_an_agent_that_says_its_text_in_other_ways_is_read(remote: str, mode: str) -> None:
    reading = Reading()
    for event in await followed(remote, f"mode={mode}"):
        reading.feed(event)
    assert reading.ending is not None and reading.ending.status == "success"
    assert reading.answer.text.encode() == TEXT


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("failed", "the cluster does not answer"),
        ("rejected", "not my business"),
        ("canceled", "the run was cancelled, and not from here"),
        ("rpc_error", "answered with error"),
        ("http_500", "HTTP 500"),
        ("html", "text/html"),
        ("input_required", "the agent asks: Which cluster?"),
    ],
)
async def test_what_does_not_succeed_exits_1_and_says_why(failing_agent: str, mode: str, said: str) -> None:
    code, _, err = await chat(failing_agent, f"mode={mode}")
    assert (code, said in err) == (1, True), err


async def test_a_run_that_fails_says_the_same_as_over_agui() -> None:
    async with served(App({"failing": failing})) as url:
        assert await chat(f"{url}/a2a/failing", "hello") == await chat(url, "hello")


async def test_an_answer_that_is_not_the_one_that_was_promised_exits_1() -> None:
    def tampered(data: bytes) -> bytes:
        return data.replace(b'"text":"two "', b'"text":"too "')

    async with served(App({"echo": echo})) as url, filtered(url, tampered) as bad_url:
        code, out, err = await chat(f"{bad_url}/a2a/echo", "two words")
    assert (code, out) == (1, b"too words") and "not the one of 9 sent" in err


@asynccontextmanager
async def filtered(url: str, change: Any) -> AsyncIterator[str]:
    """A relay to ``url`` that changes what comes from there."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))

        async def up() -> None:
            while data := await reader.read(65536):
                back.write(data)

        sending = asyncio.create_task(up())
        while data := await there.read(65536):
            writer.write(change(data))
        sending.cancel()
        for each in (writer, back):
            each.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


# --- stopping --------------------------------------------------------------------------------------------------------


async def test_ctrl_c_cancels_the_task_and_exits_130() -> None:
    agent = Waiting()
    async with served(App({"waiting": agent})) as url, running(f"{url}/a2a/waiting", "hello") as process:
        assert await process.stdout.readexactly(5) == b"Here "
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        assert (process.returncode, out, err) == (130, b"", b"anabranch: cancelled\n")
        await agent.stopped.wait()


@pytest.mark.parametrize("agent", ["modern", "old"])
async def test_ctrl_c_cancels_the_task_of_an_agent_on_the_official_sdk(agent: str, modern: str, old: str) -> None:
    url = {"modern": modern, "old": old}[agent]
    before = len((await sent(url))["cancels"])
    async with running(url, "mode=hang") as process:
        assert await process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert (process.returncode, err) == (130, b"anabranch: cancelled\n")
    assert len((await sent(url))["cancels"]) == before + 1


async def test_an_agent_that_does_not_stream_cannot_be_told_to_stop_and_is_left() -> None:
    arrived = asyncio.Event()

    async def hangs(request: Request) -> None:
        arrived.set()
        await request.gone.wait()

    async with raw(hangs, card(streaming=False)) as server, running(server.url, "hello", *A2A) as process:
        await arrived.wait()
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert process.returncode == 130 and b"cannot be told to stop" in err


async def test_a_task_that_takes_too_long_is_cancelled() -> None:
    agent = Waiting()
    async with served(App({"waiting": agent})) as url:
        code, out, err = await chat(f"{url}/a2a/waiting", "hello", "--timeout", "1")
        assert (code, out) == (1, b"Here ") and "took longer than 1 s" in err
        await agent.stopped.wait()


async def test_a_task_whose_reader_has_left_is_cancelled_without_a_word() -> None:
    left, stopped = asyncio.Event(), asyncio.Event()

    async def agent(request: RunRequest) -> AsyncGenerator[str, None]:
        yield "word\n"
        await left.wait()
        yield "more\n"
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with served(App({"agent": agent})) as url, running(f"{url}/a2a/agent", "q") as process:
        await process.stdout.readline()
        process._transport.get_pipe_transport(1).close()  # as `head -n 1` does
        left.set()
        assert (await process.stderr.read(), await process.wait()) == (b"", 141)
        await stopped.wait()


# --- turns and questions ---------------------------------------------------------------------------------------------


async def remembering(request: RunRequest) -> AsyncGenerator[str, None]:
    """An agent that says all that it was asked in its thread."""
    yield " | ".join(message.content for message in request.messages if message.role == "user")


async def test_every_turn_goes_to_the_same_context_and_the_next_process_may_name_it() -> None:
    async with served(App({"remembering": remembering})) as url:
        place = f"{url}/a2a/remembering"
        async with seated(place) as seat:
            await seat.sees("> ")
            seat.type(b"one\r")
            await seat.sees("thread ")
            await seat.sees("> ", 2)
            seat.type(b"two\r")
            await seat.sees("one | two")
            await seat.sees("> ", 3)
            seat.type(b"\x04")
            assert await seat.leaves() == 0
        [told] = [row for row in seat.rows if "thread " in row]
        assert await chat(place, "three", "--thread", told.rpartition(" ")[2]) == (0, b"one | two | three", "")


async def test_a_question_is_asked_and_the_answer_goes_to_the_same_task() -> None:
    async with served(App({"asking": asking})) as url, seated(f"{url}/a2a/asking", "go") as seat:
        await seat.sees("the agent asks: May I? [y/n]")
        await seat.sees("answer> ")
        seat.type(b"y\r")
        await seat.sees("answer> ", 2)
        seat.type(b'"stop"\r')
        assert await seat.leaves() == 0
        said = [row for row in seat.rows if row.startswith("heard")]
        listed = await result(url, "ListTasks", {})
    assert said == ["heard []", "heard [true]", 'heard ["stop"]']
    assert [state_of(task) for task in listed["tasks"]] == ["COMPLETED"]


async def test_a_question_that_is_not_answered_cancels_its_task() -> None:
    async with served(App({"asking": asking})) as url, seated(f"{url}/a2a/asking", "go") as seat:
        await seat.sees("answer> ")
        seat.type(b"\x04")
        assert await seat.leaves() == 1
        assert any("its question was not answered" in row for row in seat.rows)
        listed = await result(url, "ListTasks", {})
    assert [state_of(task) for task in listed["tasks"]] == ["CANCELED"]


@pytest.mark.parametrize("options", [(), ("--speaks", "0.3")], ids=str)
async def test_an_answer_names_the_task_and_the_context_of_the_question(options: tuple[str, ...]) -> None:
    async with (
        started("tests.agents.remote", "--rate", "0", *options) as url,
        seated(url, "mode=input_required") as seat,
    ):
        await seat.sees("the agent asks: Which cluster?")
        await seat.sees("answer> ")
        seat.type(b"mode=ok\r")
        assert await seat.leaves() == 0
        first, second = (await sent(url))["messages"]
    assert "taskId" not in first and (second["taskId"], second["contextId"]) == ("task-1", "context-1")


async def test_an_agent_on_the_sdk_of_0_3_goes_on_with_its_task(old: str) -> None:
    async with seated(old, "mode=input_required") as seat:
        await seat.sees("answer> ")
        seat.type(b"mode=message_only\r")  # what it tells of a task that goes on, this server takes for its end
        assert await seat.leaves() == 0
        assert "\n".join(seat.rows).count("fin.") == 1


@pytest.mark.parametrize("again", [False, True])
async def test_a_task_that_is_told_first_as_it_was_is_not_asking_again(again: bool) -> None:
    asking = {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"role": "ROLE_AGENT", "parts": [{"text": "Which?"}]}}
    where = {"taskId": "t", "contextId": "c"}
    before = {"id": "t", "contextId": "c", "status": asking, "artifacts": [piece("a", "First. ")]}

    async def agent(request: Request) -> None:
        said = request.call
        if said["method"] == "GetTask":
            return await request.answer({"jsonrpc": "2.0", "id": "1", "result": before})
        await request.begin()
        goes_on = said["params"]["message"].get("taskId") == "t"
        items: list[Any] = [{"task": before}]
        if goes_on and not again:
            items += [
                {"artifactUpdate": where | {"artifact": piece("b", "Second.")}},
                {"statusUpdate": where | {"status": {"state": "TASK_STATE_COMPLETED"}}},
            ]
        for item in items:
            await request.event(json.dumps({"jsonrpc": "2.0", "id": "1", "result": item}).encode())
        await request.end()

    async with raw(agent, card()) as server, seated(server.url, "go", *A2A) as seat:
        await seat.sees("answer> ")
        seat.type(b"this\r")
        if again:
            await seat.sees("answer> ", 2)
            return
        assert await seat.leaves() == 0
        assert seat.seen.count(b"First. ") == 1 and "Second." in seat.rows


def piece(id: str, text: str) -> dict[str, Any]:
    return {"artifactId": id, "parts": [{"text": text}]}


async def two_questions(request: RunRequest) -> AsyncGenerator[Any, None]:
    """An agent that has two questions."""
    if request.resume:
        yield f"heard {[answer.payload for answer in request.resume]}"
        return
    for id in ("q1", "q2"):
        yield Interrupted(interrupt_id=id, reason="confirmation", message=f"May I {id}?", schema=SCHEMA)


@pytest.mark.parametrize("second", ["y", "n"])
async def test_answers_that_differ_are_not_sent_because_a2a_takes_one_for_all(second: str) -> None:
    async with served(App({"two": two_questions})) as url, seated(f"{url}/a2a/two", "go") as seat:
        await seat.sees("May I q1? [y/n]")
        seat.type(b"y\r")
        await seat.sees("May I q2? [y/n]")
        await seat.sees("answer> ", 2)
        seat.type(f"{second}\r".encode())
        assert await seat.leaves() == (0 if second == "y" else 1)
        listed = await result(url, "ListTasks", {})
    assert ("heard [True, True]" in seat.rows) == (second == "y")
    assert [state_of(task) for task in listed["tasks"]] == ["COMPLETED" if second == "y" else "INPUT_REQUIRED"]


async def test_after_ctrl_c_at_a_terminal_the_conversation_goes_on() -> None:
    agent = Waiting()
    async with served(App({"waiting": agent})) as url, seated(f"{url}/a2a/waiting") as seat:
        await seat.sees("> ")
        seat.type(b"one\r")
        await seat.sees("Here")
        seat.type(b"\x03")
        await agent.stopped.wait()
        await seat.sees("> ", 2)
        agent.go.set()
        seat.type(b"two\r")
        await seat.sees("we are.")
        await seat.sees("> ", 3)
        seat.type(b"\x04")
        assert await seat.leaves() == 0
        assert any("cancelled" in row for row in seat.rows)


# --- credentials -----------------------------------------------------------------------------------------------------


async def test_credentials_go_with_every_request_and_without_them_it_says_what_is_missing(tmp_path: Path) -> None:
    async with guarded(tmp_path, {"asking": asking}) as (_, http):
        place = f"{http.base_url}/a2a/asking"
        code, out, err = await chat(place, "go")
        assert (code, out) == (1, b"") and "(HTTP 401): who is asking? no credential was sent; " in err
        assert '--header "Authorization: Bearer ..."' in err and '--header "X-API-Key: ..."' in err
        key = f"X-API-Key: {key_of('ann')}"
        async with seated(place, "go", "--header", key) as seat:
            await seat.sees("answer> ")
            seat.type(b'"stop"\r')
            assert await seat.leaves() == 0
        code, out, err = await chat(place, "go", ANABRANCH_CHAT_HEADERS="X-API-Key: wrong-key")
        assert (code, out) == (1, b"") and "wrong-key" not in err
        assert "the API key is not known to this server" in err and '--header "X-API-Key: ..."' in err


async def test_a_caller_without_a_name_is_the_same_one_in_each_request(tmp_path: Path) -> None:
    async with guarded(tmp_path, {"asking": asking}, anonymous=True) as (_, http):
        for place in (f"{http.base_url}/a2a/asking", f"{http.base_url}"):
            async with seated(place, "go") as seat:
                await seat.sees("answer> ")
                seat.type(b'"stop"\r')
                assert await seat.leaves() == 0, seat.rows


async def test_credentials_do_not_go_where_a_card_says() -> None:
    async def nothing(request: Request) -> None:
        await request.answer(status=404)

    interface = {"url": "https://elsewhere.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    async with raw(nothing, card() | {"supportedInterfaces": [interface]}) as server:
        code, out, err = await chat(server.url, "go", *A2A, "--header", "Authorization: Bearer sesame")
    assert (code, out) == (1, b"") and "credentials are not sent there" in err and "sesame" not in err
    assert "give that address, https://elsewhere.example/, or leave the credentials out" in err
    assert "message" not in b"".join(request.body for request in server.requests).decode(), "it was asked"


@pytest.mark.parametrize("place", ["", "/a2a/echo", "/a2a/echo/.well-known/agent-card.json"])
@pytest.mark.parametrize("header", [(), ("--header", "X-Key: sesame-sesame")])
async def test_the_address_that_the_user_gave_wins_over_the_servers_public_one(
    place: str, header: tuple[str, ...]
) -> None:
    async with served(App({"echo": echo}, server=Server(public_url="https://public.invalid"))) as url:
        assert await chat(f"{url}{place}", "two words", *A2A, *header) == (0, b"two words", "")


# --- connections that break ------------------------------------------------------------------------------------------


async def followed(url: str, text: str = "hello") -> list[dict[str, Any]]:
    """What is read of a run that is asked for at ``url``, without what was received."""
    body = run_input("", [{"id": "u", "role": "user", "content": text}], runId="r")
    async with asyncio.timeout(20), A2aPeer(url, {}, "t") as peer, aclosing(peer.run(body)) as batches:
        read = [frame.event async for _, batch in batches for frame in batch]
    return [event for event in read if event["type"] != "RAW"]


async def test_nothing_is_lost_repeated_or_asked_twice_wherever_the_connection_is_cut() -> None:
    asked = 0

    async def counted(request: RunRequest) -> AsyncGenerator[ev.Event, None]:
        nonlocal asked
        asked += 1
        for event in STORY:
            yield event

    async with served(App({"story": counted})) as url:
        whole = await followed(f"{url}/a2a/story")
        assert whole[-1]["type"] == "RUN_FINISHED"
        unnamed = 0  # the cuts before the agent had named its task
        for number, cut in enumerate(range(0, 12_000, 83), 2):
            async with cable(url, lambda connection, cut=cut: cut if connection == 1 else None) as bad_url:
                try:
                    assert await followed(f"{bad_url}/a2a/story") == whole, cut
                except ChatError as error:
                    assert error.code == "agent_disconnected" and cut < 1000, cut
                    unnamed += 1
            assert asked == number, cut
        assert unnamed


async def test_a_connection_that_stays_lost_for_seconds_is_tried_again() -> None:
    agent = Waiting()
    tried = 0

    def cuts(connection: int) -> int | bytes | None:
        nonlocal tried
        tried = connection
        agent.go.set()
        return {0: None, 1: b"Here "}.get(connection, LOST if connection < 10 else None)

    async with served(App({"waiting": agent})) as url, cable(url, cuts) as bad_url:
        assert await chat(f"{bad_url}/a2a/waiting", "hello") == (0, b"Here we are.", "")
    assert tried == 10


@pytest.mark.parametrize("way", ["reset", "inside", "close", "end"])
@pytest.mark.parametrize("agent", ["modern", "old"])
async def test_a_task_of_an_agent_on_the_official_sdk_is_followed(agent: str, way: Way, modern: str, old: str) -> None:
    url = {"modern": modern, "old": old}[agent]
    before = (await sent(url))["requests"]
    async with cutting(url, 20, way=way) as cut:
        code, out, err = await chat(cut.url, "mode=long")
    assert (code, out, err) == (0, LONG, "")
    assert cut.streams and (await sent(url))["requests"] == before + 1
