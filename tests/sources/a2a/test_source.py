"""Remote agents in other processes and servers that misbehave: what is read, asked, kept and cancelled."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from typing import Any

import aiohttp
import pytest

from anabranch import events as ev
from anabranch.demo._process import started
from anabranch.errors import ConfigError, MissingExtra, SourceError
from anabranch.sources.a2a import A2ASource
from anabranch.sources.a2a._card import WELL_KNOWN
from tests.agents.remote import HUGE, TOKENS

from ._cases import DONE, TASK, artifact, error, result, says, task
from ._raw import Request, card, raw
from ._running import asks, run, sent, source_of

TEXT = "".join(TOKENS)
HALF = "".join(TOKENS[: len(TOKENS) // 2])


@pytest.fixture(scope="module")
async def remote() -> AsyncIterator[str]:
    """A raw agent that does what the question says."""
    async with started("tests.agents.remote", "--rate", "0") as url:
        yield url


@pytest.fixture(scope="module", params=["1.0", "0.3", "0.2"])
async def speaking(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Such an agent of some version."""
    async with started("tests.agents.remote", "--rate", "0", "--speaks", request.param) as url:
        yield url


@pytest.fixture(scope="module", params=["1.0", "0.3"])
async def speaking_at_the_end(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Such an agent that answers with the whole task at its end."""
    async with started("tests.agents.remote", "--rate", "0", "--speaks", request.param, "--whole") as url:
        yield url


# --- what is read ------------------------------------------------------------------------------------------------


@pytest.mark.process
async def test_tokens_of_an_agent_on_the_official_sdk_arrive_while_it_still_sends_and_exactly() -> None:
    async with started("anabranch.demo.agents", "komodor", "--rate", "100") as url, source_of(url) as source:
        request, arrived, said = asks("show me clusters"), [], 0
        translator = source.translator(request)
        async with asyncio.timeout(20), aclosing(source.open(request)) as items:
            async for item in items:
                for event in translator.feed(item):
                    if isinstance(event, ev.TextDelta):
                        said += len(event.delta)
                        arrived.append((said, time.monotonic_ns()))
        agent = await sent(url)
    assert translator.text == agent["text"]
    assert translator.remote.task_id == agent["task_id"]
    # A2A-19: each token on its own and soon, not one batch at the end.
    assert [size for size, _ in arrived] == [size for size, _ in agent["stamps"]]
    later = zip(arrived, agent["stamps"][10:], strict=False)
    assert sum(at < sent_at for (_, at), (_, sent_at) in later) > len(arrived) / 2, "most came ten tokens late"


WHOLE = [
    *("ok", "crlf", "multi_data_lines", "comments", "split", "message_only", "status_text", "cumulative"),
    *("append_first", "final_recap", "echo_user", "slow_start", "last_early", "pause_between", "new_ids"),
    *("terminal_twice", "heartbeat", "caipe", "status_then_artifact"),
]


ENDS_OF = [
    *((mode, TEXT, "success") for mode in WHOLE),
    ("empty", "", "success"),
    ("data_part", "", "success"),
    ("huge", HUGE, "success"),
    ("failed", HALF, "agent_failed"),
    ("rejected", "", "agent_rejected"),
    ("canceled", HALF, "cancelled"),
    ("input_required", "", "interrupted"),
    ("rpc_error", "", "agent_failed"),
    ("http_500", "", "agent_failed"),
    ("html", "", "agent_protocol"),
    ("error_completed", "", "agent_failed"),
]
STREAMED = [("no_terminal", TEXT, "no_end"), ("rpc_error_mid", HALF, "agent_failed")]


async def asked_once(remote: str, mode: str, text: str, end: str) -> None:
    before = await sent(remote)
    async with source_of(remote) as source:
        done = await run(source, f"mode={mode}")
    after = await sent(remote)
    assert (done.text, done.end) == (text, end)
    assert done.shown == text
    assert after["requests"] - before["requests"] == 1
    assert after["cancels"] == before["cancels"], "a task that is over was cancelled"


@pytest.mark.process
@pytest.mark.parametrize(("mode", "text", "end"), ENDS_OF + STREAMED)
async def test_an_agent_of_any_version_is_asked_once_and_its_text_and_end_are_exact(
    speaking: str, mode: str, text: str, end: str
) -> None:
    await asked_once(speaking, mode, text, end)


@pytest.mark.process
@pytest.mark.parametrize(("mode", "text", "end"), [case for case in ENDS_OF if case[0] != "status_text"])
async def test_an_agent_that_answers_as_a_whole_is_asked_once_and_its_text_and_end_are_exact(
    speaking_at_the_end: str, mode: str, text: str, end: str
) -> None:
    await asked_once(speaking_at_the_end, mode, text, end)


ADDRESSES = ["http://0.0.0.0:9/", "http://localhost:9/", "http://127.0.0.1:9", "http://[::1]:9/", "/", "", "."]


@pytest.mark.process
@pytest.mark.parametrize("speaks", ["1.0", "0.3", "0.2"])
async def test_an_agent_whose_card_has_a_wrong_address_is_found_where_it_was_configured(speaks: str) -> None:
    for address in ADDRESSES if speaks == "0.3" else ADDRESSES[:1]:
        options = ("--rate", "0", "--speaks", speaks, "--address", address)
        async with started("tests.agents.remote", *options) as url, source_of(url) as source:
            assert (await run(source)).text == TEXT, address


@pytest.mark.process
@pytest.mark.parametrize(("mode", "text"), [("killed_before", ""), ("killed_mid", HALF), ("killed_end", TEXT)])
async def test_the_text_of_an_agent_that_was_killed_is_kept_and_its_end_is_a_typed_error(mode: str, text: str) -> None:
    async with started("tests.agents.remote") as url, source_of(url, name="komodor") as source:
        done = await run(source, f"mode={mode}")
    assert (done.text, done.shown, done.end) == (text, text, "agent_disconnected")
    assert done.last == ev.RunFailed(
        code="agent_disconnected",
        message="The agent komodor closed the connection in the middle of its answer.",
        retryable=True,
        partial=bool(text),
    )


@pytest.mark.process
async def test_two_hundred_runs_at_once_are_each_exact(remote: str) -> None:
    before = await sent(remote)
    async with source_of(remote) as source:
        runs = await asyncio.gather(*(run(source, "mode=ok") for _ in range(200)))
    assert {(done.text, done.end) for done in runs} == {(TEXT, "success")}
    assert len({done.remote.task_id for done in runs}) == 200
    assert (await sent(remote))["requests"] - before["requests"] == 200


# --- cancelling --------------------------------------------------------------------------------------------------


async def until_half(source: A2ASource, items: AsyncIterator[bytes]) -> str:
    """Read until the agent falls silent in the middle; the id of its task."""
    translator = source.translator(asks(""))
    async for item in items:
        list(translator.feed(item))
        if translator.text == HALF:
            return translator.remote.task_id
    raise AssertionError("the stream ended")


@pytest.mark.process
async def test_closing_the_stream_cancels_the_remote_task(remote: str) -> None:
    async with asyncio.timeout(10):
        async with source_of(remote) as source, aclosing(source.open(asks("mode=hang"))) as items:
            task_id = await until_half(source, items)
            assert task_id not in (await sent(remote))["cancels"]
        assert (await sent(remote))["cancels"].count(task_id) == 1


@pytest.mark.process
async def test_cancelling_the_reader_cancels_the_remote_task(remote: str) -> None:
    known: asyncio.Queue[str] = asyncio.Queue()

    async def read() -> None:
        async with aclosing(source.open(asks("mode=hang"))) as items:
            known.put_nowait(await until_half(source, items))
            async for _ in items:
                pass

    async with asyncio.timeout(10):
        async with source_of(remote) as source:
            reader = asyncio.create_task(read())
            task_id = await known.get()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        assert (await sent(remote))["cancels"].count(task_id) == 1


async def cancelled(reader: asyncio.Task[Any]) -> None:
    """Cancel a task, which must end at once."""
    reader.cancel()
    before = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert time.monotonic() - before < 1


async def read_all(source: A2ASource) -> None:
    async with aclosing(source.open(asks(""))) as items:
        async for _ in items:
            pass


def methods(requests: list[Request]) -> list[str]:
    return [request.call["method"] for request in requests]


async def test_nobody_waits_for_an_agent_that_is_told_to_cancel_but_the_close_of_its_source_does() -> None:
    begun, told, free, canceled = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        if request.call["method"] == "SendStreamingMessage":
            await request.begin()
            await request.event(TASK)
            begun.set()
            await request.gone.wait()
        else:
            told.set()
            await free.wait()
            await request.answer({"jsonrpc": "2.0", "id": "1", "result": {}})
            canceled.set()

    async with asyncio.timeout(10), raw(answer, card()) as server, source_of(server.url) as source:
        reader = asyncio.create_task(read_all(source))
        await begun.wait()
        await cancelled(reader)
        await told.wait()
        assert server.requests[0].gone.is_set(), "the stream is closed first"
        closing = asyncio.create_task(source.aclose())
        assert not (await asyncio.wait({closing}, timeout=0.1))[0]
        free.set()
        await closing
        assert canceled.is_set()
    assert server.requests[-1].call["params"] == {"id": "t"}
    assert server.requests[-1].headers["a2a-version"] == "1.0"


async def test_an_agent_that_does_not_answer_a_cancellation_holds_nobody_up_for_long() -> None:
    async def answer(request: Request) -> None:
        if request.call["method"] == "SendStreamingMessage":
            await request.begin()
            await request.event(TASK)
        await request.gone.wait()

    async with asyncio.timeout(10), raw(answer, card()) as server, source_of(server.url) as source:
        items = source.open(asks(""))
        await anext(items)
        before = time.monotonic()
        await items.aclose()
        assert time.monotonic() - before < 1
        await source.aclose()
        assert 1.5 < time.monotonic() - before < 4


@pytest.mark.parametrize("begun", ["nothing", "the head", "a message"])
async def test_a_task_that_gets_its_name_after_the_reader_has_left_is_cancelled(begun: str) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        if request.call["method"] == "CancelTask":
            return await request.answer({"jsonrpc": "2.0", "id": "1", "result": {}})
        if begun != "nothing":
            await request.begin()
        if begun == "a message":
            await request.event(result(message=says("wait")))
        asked.set()
        await left.wait()
        if begun == "nothing":
            await request.begin()
        await request.event(TASK)
        await request.gone.wait()

    async with asyncio.timeout(10), raw(answer, card()) as server:
        async with source_of(server.url) as source:
            reader = asyncio.create_task(read_all(source))
            await asked.wait()
            await cancelled(reader)
            left.set()
        assert methods(server.requests) == ["SendStreamingMessage", "CancelTask"]
        assert server.requests[-1].call["params"] == {"id": "t"}


async def test_an_agent_that_answers_as_a_whole_is_told_to_cancel_when_its_answer_names_a_task_that_goes_on() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        asked.set()
        await left.wait()
        await request.answer(task("WORKING"))

    async with asyncio.timeout(10), raw(answer, card(streaming=False)) as server:
        async with source_of(server.url) as source:
            reader = asyncio.create_task(read_all(source))
            await asked.wait()
            await cancelled(reader)
            left.set()
        assert methods(server.requests) == ["SendMessage", "CancelTask"]


@pytest.mark.parametrize("items", [[DONE], [result(message=says("Hello"))], []], ids=["over", "a message", "nothing"])
async def test_there_is_nothing_to_cancel_in_an_answer_without_a_task_that_goes_on(items: list[bytes]) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        asked.set()
        await left.wait()
        await streams(*items)(request)

    async with asyncio.timeout(10), raw(answer, card()) as server:
        async with source_of(server.url) as source:
            reader = asyncio.create_task(read_all(source))
            await asked.wait()
            await cancelled(reader)
            left.set()
        assert methods(server.requests) == ["SendStreamingMessage"]


async def test_an_agent_that_never_names_its_task_is_left_after_two_seconds() -> None:
    begun = asyncio.Event()

    async def answer(request: Request) -> None:
        await request.begin()
        begun.set()
        await request.gone.wait()

    async with asyncio.timeout(10), raw(answer, card()) as server, source_of(server.url) as source:
        reader = asyncio.create_task(read_all(source))
        await begun.wait()
        before = time.monotonic()
        await cancelled(reader)
        await server.requests[0].gone.wait()
        assert 1.5 < time.monotonic() - before < 4


async def test_a_question_that_was_not_sent_when_its_reader_left_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    connecting, free = asyncio.Event(), asyncio.Event()
    connect = aiohttp.TCPConnector.connect

    async def slowly(*args: Any, **more: Any) -> Any:
        if server.cards:
            connecting.set()
            await free.wait()
        return await connect(*args, **more)

    async def answer(request: Request) -> None:
        await request.gone.wait()

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", slowly)
    async with asyncio.timeout(10), raw(answer, card()) as server, source_of(server.url) as source:
        reader = asyncio.create_task(read_all(source))
        await connecting.wait()
        await cancelled(reader)
        free.set()
        await source.aclose()
        assert server.requests == []


ENDS = """
import asyncio, sys
sys.path[:0] = {path!r}
from anabranch.sources.a2a import A2ASource
from sources.a2a._cases import TASK
from sources.a2a._raw import card, raw
from sources.a2a._running import asks

async def answer(request):
    method = request.call["method"]
    if len(server.requests) == 1:
        await request.begin()
        await request.event(TASK)
    asked.set()
    await request.gone.wait()

async def main():
    global server
    server = await whole.__aenter__()
    items = source_of(server.url).open(asks(""))
    await anext(items)
    asked.clear()
    await items.aclose()
    await asked.wait()  # CancelTask is not answered
    asked.clear()
    unnamed = asyncio.create_task(anext(sources[0].open(asks(""))))
    await asked.wait()  # and this one is not begun
    unnamed.cancel()
    await asyncio.wait([unnamed])

def source_of(url):
    sources.append(A2ASource(url))
    return sources[0]

sources, asked, whole = [], asyncio.Event(), raw(answer, card())
asyncio.run(main())
"""


@pytest.mark.process
def test_a_loop_that_ends_while_agents_are_told_to_cancel_ends_cleanly_and_soon() -> None:
    before = time.monotonic()
    code = ENDS.format(path=[path for path in sys.path if path])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert time.monotonic() - before < 10
    told = done.stderr.replace("Unclosed client session", "")  # the source was not closed, which is its owner's fault
    assert done.returncode == 0 and "Traceback" not in told and "Task" not in told, done.stderr


# --- time --------------------------------------------------------------------------------------------------------


@pytest.mark.process
async def test_an_agent_that_falls_silent_is_given_up_with_its_text_kept_and_told_so(remote: str) -> None:
    async with source_of(remote, idle_s=0.3) as source:
        done = await run(source, "mode=hang")
        assert (done.text, done.end) == (HALF, "agent_timeout_idle")
    assert done.remote.task_id in (await sent(remote))["cancels"]


async def test_a_keep_alive_comment_is_a_sign_of_life() -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        await request.event(TASK)
        for _ in range(5):
            await asyncio.sleep(0.15)  # noqa: TID251 - the pace of the comments is the subject
            await request.piece(b": ping\n\n")
        await request.event(DONE)
        await request.end()

    async with raw(answer, card()) as server, source_of(server.url, idle_s=0.4) as source:
        assert (await run(source)).end == "success"


@pytest.mark.parametrize("head", [False, True], ids=["nothing comes", "only the head comes"])
async def test_an_agent_that_does_not_begin_to_answer_is_given_up_and_not_asked_again(head: bool) -> None:
    async def answer(request: Request) -> None:
        if head:
            await request.begin()
        await request.gone.wait()

    async with raw(answer, card()) as server, source_of(server.url, first_byte_s=0.3) as source:
        assert (await run(source)).end == "agent_timeout_first_byte"
        assert len(server.requests) == 1


async def test_the_first_byte_has_its_own_time_and_the_bytes_after_it_have_theirs() -> None:
    async def answer(request: Request) -> None:
        await asyncio.sleep(0.2)  # noqa: TID251 - the pace of the agent is the subject
        await request.begin()
        await asyncio.sleep(0.2)  # noqa: TID251
        await request.event(TASK)
        await asyncio.sleep(0.8)  # noqa: TID251
        await request.event(DONE)
        await request.end()

    async with raw(answer, card()) as server:
        async with source_of(server.url, first_byte_s=0.6, idle_s=5) as source:
            assert (await run(source)).end == "success"
        async with source_of(server.url, first_byte_s=5, idle_s=0.4) as source:
            assert (await run(source)).end == "agent_timeout_idle"


# --- what fails before and after a byte --------------------------------------------------------------------------


def streams(*items: bytes, broken: bool = False) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """An answer of these items, which the connection breaks off or which ends by itself."""

    async def answer(request: Request) -> None:
        await request.begin()
        for item in items:
            await request.event(item)
        if broken:
            request.reset()
        else:
            await request.end()

    return answer


def refusing(monkeypatch: pytest.MonkeyPatch, then: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Do ``then`` with the number of connections that were refused so far, after each of them."""
    connect, refused = aiohttp.TCPConnector.connect, 0

    async def noticed(*args: Any, **more: Any) -> Any:
        nonlocal refused
        try:
            return await connect(*args, **more)
        except aiohttp.ClientConnectorError:
            refused += 1
            await then(refused)
            raise

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", noticed)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def test_a_connection_that_is_refused_is_tried_again_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:

        async def start(refused: int) -> None:
            if refused == 2:
                await stack.enter_async_context(raw(streams(TASK, artifact("Hi"), DONE), card(), port))

        refusing(monkeypatch, start)
        async with source_of(f"http://127.0.0.1:{port}") as source:
            assert (await run(source)).text == "Hi"


async def test_an_agent_that_refuses_connections_is_given_up_after_three_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[int] = []

    async def count(refused: int) -> None:
        tries.append(refused)

    refusing(monkeypatch, count)
    async with source_of(f"http://127.0.0.1:{free_port()}") as source:
        assert (await run(source)).end == "agent_unreachable"
    assert tries == [1, 2, 3]


@pytest.mark.parametrize("hard", [True, False], ids=["reset", "closed"])
async def test_a_request_that_was_read_is_never_sent_again_when_its_connection_ends_without_an_answer(
    hard: bool,
) -> None:
    async def answer(request: Request) -> None:
        if hard:
            request.reset()
        else:
            request.writer.close()

    async with raw(answer, card()) as server, source_of(server.url) as source:
        done = await run(source)
        assert (done.end, len(server.requests), server.cards) == ("agent_disconnected", 1, 1)
        await run(source)
        assert server.cards == 2, "the agent may have moved"
    assert done.last.message == "The agent raw closed the connection before it answered."  # type: ignore[union-attr]


@pytest.mark.parametrize("items", [(), (TASK,), (TASK, artifact("Hi"))], ids=len)
async def test_nothing_is_asked_again_once_an_answer_has_begun(items: tuple[bytes, ...]) -> None:
    async with raw(streams(*items, broken=True), card()) as server, source_of(server.url) as source:
        done = await run(source)
    asked = [request for request in server.requests if request.call["method"] == "SendStreamingMessage"]
    assert (done.end, len(asked)) == ("agent_disconnected", 1)


async def test_an_empty_answer_is_never_a_reason_to_ask_again() -> None:
    async with raw(streams(TASK, DONE), card()) as server, source_of(server.url) as source:
        assert ((await run(source)).text, len(server.requests)) == ("", 1)
    async with raw(streams(), card()) as server, source_of(server.url) as source:
        assert ((await run(source)).end, len(server.requests)) == ("no_end", 1)


async def test_an_agent_that_is_not_there_is_an_error_that_names_it_and_no_address() -> None:
    async with source_of(f"http://me:hunter2@127.0.0.1:{free_port()}", name="komodor") as source:
        done = await run(source)
    assert done.last == ev.RunFailed(
        code="agent_unreachable", message="The agent komodor cannot be reached.", retryable=True
    )


@pytest.mark.parametrize("together", [True, False], ids=["in one piece", "in two pieces"])
async def test_a_flaw_in_the_framing_ends_a_stream_at_once_and_what_came_before_it_is_read(together: bool) -> None:
    asked, good = asyncio.Event(), b"data: " + artifact("Hi") + b"\n\n"

    async def answer(request: Request) -> None:
        await request.begin()
        await request.event(TASK)
        await asked.wait()
        piece = b"%x\r\n%b\r\n" % (len(good), good)
        if together:
            piece += b"ZZZ\r\n"
        await request.send(piece)
        if not together:
            await request.send(b"ZZZ\r\n")
        await request.gone.wait()

    async with asyncio.timeout(5), raw(answer, card()) as server, source_of(server.url) as source:
        items = source.open(asks(""))
        assert await anext(items) == TASK
        asked.set()
        await server.requests[0].gone.wait()  # the reader is slower than the connection
        assert await anext(items) == artifact("Hi")
        with pytest.raises(SourceError, match="does not speak HTTP as expected"):
            await anext(items)


async def test_a_flaw_in_the_framing_is_noticed_by_a_reader_that_waits() -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        await request.event(TASK)
        await read.wait()
        await request.send(b"ZZZ\r\n")
        await request.gone.wait()

    read = asyncio.Event()
    async with asyncio.timeout(5), raw(answer, card()) as server, source_of(server.url) as source:
        with pytest.raises(SourceError, match="does not speak HTTP as expected"):
            async for _ in source.open(asks("")):
                read.set()


async def test_a_stream_that_is_cut_inside_an_event_is_broken_off() -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        await request.event(TASK)
        await request.piece(b"data: " + DONE)
        await request.end()

    async with raw(answer, card()) as server, source_of(server.url) as source:
        assert (await run(source)).end == "agent_disconnected"


async def test_an_event_over_16_mib_is_a_typed_error() -> None:
    async def answer(request: Request) -> None:
        await streams(TASK, artifact("x" * 17 * 2**20))(request)

    async with raw(answer, card()) as server, source_of(server.url) as source:
        assert (await run(source)).end == "protocol"


async def test_a_whole_answer_over_16_mib_is_a_typed_error() -> None:
    async def answer(request: Request) -> None:
        await request.answer(result(message=says("x" * 17 * 2**20)))

    async with raw(answer, card(streaming=False)) as server, source_of(server.url) as source:
        assert (await run(source)).end == "agent_protocol"


async def test_an_item_that_is_no_json_rpc_response_ends_the_run_and_cancels_the_task() -> None:
    async with (
        raw(streams(TASK, b"TASK_STATE_WHAT", artifact("Hi")), card()) as server,
        source_of(server.url) as source,
    ):
        assert (await run(source)).end == "agent_protocol"
    assert [request.call["method"] for request in server.requests] == ["SendStreamingMessage", "CancelTask"]


async def test_something_that_is_no_http_is_a_typed_error() -> None:
    async def answer(request: Request) -> None:
        await request.send(b"220 mail.example ESMTP\r\n")
        request.writer.close()

    async with raw(answer, card()) as server, source_of(server.url) as source:
        assert (await run(source)).end == "agent_protocol"
        assert len(server.requests) == 1


@pytest.mark.process
async def test_a_limit_of_connections_makes_the_next_run_fail_in_time_and_not_wait_for_ever(remote: str) -> None:
    async with source_of(remote, pool=1, connect_s=0.3) as source, aclosing(source.open(asks("mode=hang"))) as items:
        async with asyncio.timeout(10):
            await anext(items)
            assert (await run(source)).end == "agent_unreachable"


@pytest.mark.parametrize(
    ("http", "end", "retryable"),
    [
        (401, "agent_auth", False),
        (403, "agent_auth", False),
        (302, "agent_protocol", False),
        (404, "agent_protocol", False),
        (429, "agent_unreachable", True),
        (503, "agent_unreachable", True),
        (500, "agent_failed", False),
    ],
)
@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_an_http_status_is_a_typed_error_and_is_not_asked_again(
    http: int, end: str, retryable: bool, kind: str
) -> None:
    async def answer(request: Request) -> None:
        await request.answer({"detail": "no"}, http, kind)

    async with raw(answer, card()) as server, source_of(server.url) as source:
        done = await run(source)
    assert isinstance(done.last, ev.RunFailed)
    assert (done.end, done.last.retryable, len(server.requests)) == (end, retryable, 1)
    assert str(http) in done.last.message


@pytest.mark.parametrize("http", [200, 400, 500])
async def test_a_json_rpc_error_is_understood_under_any_status(http: int) -> None:
    async def answer(request: Request) -> None:
        await request.answer(error(-32602, "bad params"), http)

    async with raw(answer, card()) as server, source_of(server.url) as source:
        done = await run(source)
    assert done.end == "agent_protocol"
    assert "bad params" in done.last.message  # type: ignore[union-attr]


# --- what is asked -----------------------------------------------------------------------------------------------


async def test_only_the_newest_question_is_sent_in_the_context_that_is_named_and_with_the_headers() -> None:
    headers = {"Authorization": "Bearer x"}
    async with raw(streams(TASK, DONE), card()) as server, source_of(server.url, headers=headers) as source:
        await run(source, "and now?")
        await run(source, "and then?", context_id="c7", task_id="t7")
    first, second = server.requests
    assert (first.method, first.path, first.call["method"]) == ("POST", "/rpc", "SendStreamingMessage")
    assert first.headers["authorization"] == "Bearer x"
    assert first.headers["a2a-version"] == "1.0"
    assert "gzip" not in first.headers["accept-encoding"]
    message = first.call["params"]["message"]
    assert (message["role"], message["parts"]) == ("ROLE_USER", [{"text": "and now?"}])
    assert not {"contextId", "taskId"} & message.keys()
    named = second.call["params"]["message"]
    assert (named["contextId"], named["taskId"]) == ("c7", "t7")
    assert named["messageId"] != message["messageId"]


@pytest.mark.parametrize(
    ("body", "text", "end"),
    [
        (task("COMPLETED", {"artifactId": "a", "parts": [{"text": "All of it"}]}), "All of it", "success"),
        (result(message=says("Hello")), "Hello", "success"),
        (task("FAILED"), "", "agent_failed"),
    ],
)
async def test_an_agent_that_does_not_stream_is_asked_for_the_whole(body: bytes, text: str, end: str) -> None:
    async def answer(request: Request) -> None:
        await asyncio.sleep(0.3)  # noqa: TID251 - its work takes longer than a first byte may
        await request.answer(body)

    async with raw(answer, card(streaming=False)) as server, source_of(server.url, first_byte_s=0.1) as source:
        done = await run(source)
    assert (done.text, done.end) == (text, end)
    assert [request.call["method"] for request in server.requests] == ["SendMessage"]


async def test_the_tenant_of_the_card_is_named_in_every_call() -> None:
    known = card()
    known["supportedInterfaces"][0]["tenant"] = "acme"
    async with raw(streams(TASK, broken=True), known) as server, source_of(server.url) as source:
        assert (await run(source)).end == "agent_disconnected"
    assert set(methods(server.requests)) == {"SendStreamingMessage", "GetTask", "CancelTask"}
    assert {request.call["params"]["tenant"] for request in server.requests} == {"acme"}


async def test_each_request_has_a_connection_of_its_own_and_a_stream_that_is_over_is_read_to_its_end() -> None:
    peers, whole = [], []

    async def answer(request: Request) -> None:
        peers.append(request.writer.get_extra_info("peername"))
        await request.begin()
        await request.event(DONE)
        await asyncio.sleep(0.05)  # noqa: TID251 - the end of a stream comes a little after the last event
        whole.append(not request.gone.is_set())
        await request.end()

    async with raw(answer, card()) as server, source_of(server.url) as source:
        for _ in range(3):
            assert (await run(source)).end == "success"
    assert (len(set(peers)), whole) == (3, [True] * 3)


async def test_credentials_never_reach_another_address_that_a_card_names(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **named: resolve("127.0.0.1", *more, **named))
    async with raw(streams(TASK, DONE), card()) as other:
        elsewhere = card()
        elsewhere["supportedInterfaces"][0]["url"] = other.url.replace("127.0.0.1", "elsewhere.example")
        async with raw(streams(), elsewhere) as server:
            async with source_of(server.url, headers={"Authorization": "Bearer hunter2"}) as source:
                done = await run(source)
            assert (done.end, other.requests) == ("agent_protocol", [])
            assert {request.method for request in server.requests} == {"GET"}, "the question was sent"
            assert "configure that address" in done.last.message  # type: ignore[union-attr]
            async with source_of(server.url) as source:
                assert (await run(source)).end == "success"
            assert "authorization" not in other.requests[0].headers


@pytest.mark.parametrize("here", [None, b"{}", error(-32001, "no such task")])
async def test_an_address_that_a_user_gave_is_asked_if_an_agent_answers_there_and_else_that_of_the_card(
    here: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **named: resolve("127.0.0.1", *more, **named))

    async def answer(request: Request) -> None:
        if request.call["method"] == "GetTask":
            await request.answer(here or b"", 404 if here is None else 200)
        else:
            await streams(TASK, DONE)(request)

    async with raw(streams(TASK, DONE), card()) as other:
        elsewhere = card()
        elsewhere["supportedInterfaces"][0]["url"] = other.url.replace("127.0.0.1", "elsewhere.example") + "/rpc"
        async with raw(answer, elsewhere) as server, source_of(server.url, typed=True) as source:
            assert (await run(source)).end == "success"
    answers = here not in (None, b"{}")
    assert [request.path for request in server.requests] == ["/rpc", "/rpc"][: 1 + answers]
    assert len(other.requests) == (0 if answers else 1)


async def test_a_card_is_fetched_once_and_again_after_a_failure() -> None:
    async def answer(request: Request) -> None:
        await request.answer(b"", 503 if len(server.requests) == 2 else 200, "text/event-stream")

    async with raw(answer, card()) as server, source_of(server.url) as source:
        await asyncio.gather(run(source))
        assert server.cards == 1
        await run(source)
        assert server.cards == 1
        await run(source)
        assert server.cards == 2


async def test_all_who_wait_for_the_card_share_one_answer_and_the_next_one_asks_again() -> None:
    asked, free = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        if len(server.requests) > 1:
            return await (streams(TASK, DONE)(request) if request.method == "POST" else request.answer(card()))
        asked.set()
        await free.wait()
        await request.answer(b"", 503)

    async with asyncio.timeout(10), raw(answer, None) as server, source_of(server.url) as source:
        runs = [asyncio.create_task(run(source)) for _ in range(12)]
        await asked.wait()
        free.set()
        assert {done.end for done in await asyncio.gather(*runs)} == {"agent_unreachable"}
        assert len(server.requests) == 1
        assert (await run(source)).end == "success"
    assert [request.method for request in server.requests] == ["GET", "GET", "POST"]


async def test_the_first_one_who_waits_for_the_card_can_give_up_without_ending_it_for_the_others() -> None:
    asked, free = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        if request.method == "POST":
            return await streams(TASK, DONE)(request)
        asked.set()
        await free.wait()
        await request.answer(card())

    async with asyncio.timeout(10), raw(answer, None) as server, source_of(server.url) as source:
        first, second = (asyncio.create_task(run(source)) for _ in range(2))
        await asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        free.set()
        assert (await second).end == "success"
    assert [request.method for request in server.requests] == ["GET", "POST"]


async def test_closing_the_source_ends_the_search_for_its_card_with_an_error_for_those_who_wait() -> None:
    asked = asyncio.Event()

    async def answer(request: Request) -> None:
        asked.set()
        await request.gone.wait()

    async with asyncio.timeout(10), raw(answer, None) as server, source_of(server.url) as source:
        waiting = asyncio.create_task(run(source))
        await asked.wait()
        await source.aclose()
        assert (await waiting).end == "agent_disconnected"
        await server.requests[0].gone.wait()


async def test_the_card_of_an_older_agent_is_found_where_it_is() -> None:
    async def answer(request: Request) -> None:
        if request.path == "/.well-known/agent-card.json":
            await request.answer(b"<html>", kind="text/html")
        elif request.path == "/.well-known/agent.json":
            await request.answer(card())
        else:
            await streams(TASK, DONE)(request)

    async with raw(answer, None) as server, source_of(server.url) as source:
        assert (await run(source)).end == "success"


@pytest.mark.parametrize(
    ("http", "end", "message"),
    [
        (404, "agent_protocol", "has no agent card: neither /.well-known/agent-card.json nor /.well-known/agent.json"),
        (401, "agent_auth", "refused our credentials"),
        (503, "agent_unreachable", "is not available now"),
    ],
)
async def test_an_agent_without_a_card_is_a_typed_error(http: int, end: str, message: str) -> None:
    async def answer(request: Request) -> None:
        await request.answer(b"", http)

    async with raw(answer, None) as server, source_of(server.url, name="komodor") as source:
        done = await run(source)
    assert done.end == end
    assert f"The agent komodor {message}" in done.last.message  # type: ignore[union-attr]


def at(path: str, *cards: str) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """An agent that takes messages at ``path`` and has its card in the places ``cards``; elsewhere there is nothing."""

    async def answer(request: Request) -> None:
        if request.method == "GET" and request.path in cards:
            named = card()
            named["supportedInterfaces"][0]["url"] = f"http://0.0.0.0{path}"
            return await request.answer(named)
        if request.method == "POST" and request.path == path:
            return await streams(TASK, artifact("Hi"), DONE)(request)
        await request.answer({"error": {"code": "not_found", "message": "there is no agent 'nope'; known: a, b"}}, 404)

    return answer


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("place", ["/a2a/nope", "/a2a/nope/", "/a2a/nope/card.json"])
async def test_another_agent_of_the_same_server_is_never_asked_instead(place: str, bound: bool) -> None:
    headers = {"Authorization": "Bearer hunter2hunter2"} if bound else {}
    forwarded = {"X-Tenant": "secret-tenant"}
    async with (
        raw(at("/", WELL_KNOWN[0]), None) as server,
        source_of(
            server.url + place, name="rbad", headers=headers, bound=bound, forward=lambda: forwarded if bound else {}
        ) as source,
    ):
        done = await run(source)
    assert {request.method for request in server.requests} == {"GET"}, "another agent was asked"
    assert not any("x-tenant" in request.headers for request in server.requests)
    assert done.last == ev.RunFailed(
        code="agent_protocol",
        message="The agent rbad was not found: there is no agent 'nope'; known: a, b; "
        "configure the address of an agent, or of its card.",
    )


async def test_without_a_word_of_its_server_a_missing_agent_is_an_error_with_the_remedy() -> None:
    async def answer(request: Request) -> None:
        found = request.path == WELL_KNOWN[0]
        await request.answer(card() if found else b"Not Found", 200 if found else 404)

    async with raw(answer, None) as server, source_of(f"{server.url}/a2a/nope", name="rbad") as source:
        done = await run(source)
    assert {request.method for request in server.requests} == {"GET"}
    assert "another agent's; configure the address of an agent" in done.last.message  # type: ignore[union-attr]


@pytest.mark.parametrize("place", ["", "/", "/rpc", "/rpc/", WELL_KNOWN[0]])
@pytest.mark.parametrize("known", WELL_KNOWN)
async def test_an_agent_whose_card_is_at_the_root_is_found_by_the_address_it_takes_messages_at(
    place: str, known: str
) -> None:
    headers = {"Authorization": "Bearer hunter2hunter2"}
    async with (
        raw(at("/rpc", known, WELL_KNOWN[0]), None) as server,
        source_of(server.url + place, headers=headers) as source,
    ):
        done = await run(source)
    assert (done.end, done.text) == ("success", "Hi")
    assert (
        server.requests[-1].path == "/rpc" and server.requests[-1].headers["authorization"] == headers["Authorization"]
    )


@pytest.mark.parametrize(
    ("http", "end"), [(401, "agent_auth"), (403, "agent_auth"), (400, "agent_protocol"), (503, "agent_unreachable")]
)
@pytest.mark.parametrize("asked", ["card", "message"])
async def test_a_refusal_has_the_servers_own_reason_and_no_credentials(http: int, end: str, asked: str) -> None:
    reason = "the key hunter2hunter2 of secret-tenant is not known to this server"

    async def answer(request: Request) -> None:
        await request.answer({"error": {"code": "unauthorized", "message": reason}}, http)

    async with (
        raw(answer, card() if asked == "message" else None) as server,
        source_of(
            server.url, headers={"X-API-Key": "hunter2hunter2"}, forward=lambda: {"X-Tenant": "secret-tenant"}
        ) as source,
    ):
        done = await run(source)
    assert done.end == end
    tenant = "***" if asked == "message" else "secret-tenant"  # which the server was not sent for the card
    said = f"(HTTP {http}): the key *** of {tenant} is not known to this server."
    assert done.last.message.endswith(said)  # type: ignore[union-attr]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"error": {"message": 1}}', b'{"error": "no"}', b"[" * 100_000])
async def test_a_refusal_without_a_reason_is_one_all_the_same(body: bytes) -> None:
    async def answer(request: Request) -> None:
        await request.answer(body, 401)

    async with raw(answer, card()) as server, source_of(server.url) as source:
        done = await run(source)
    assert done.last == ev.RunFailed(code="agent_auth", message="The agent raw refused our credentials (HTTP 401).")


async def test_a_reason_that_does_not_come_is_not_waited_for() -> None:
    async def answer(request: Request) -> None:
        await request.send(b"HTTP/1.1 401 X\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")
        await request.gone.wait()

    async with asyncio.timeout(10), raw(answer, card()) as server, source_of(server.url) as source:
        assert (await run(source)).end == "agent_auth"


async def test_a_redirect_is_not_followed_because_it_would_carry_the_headers_away() -> None:
    async def answer(request: Request) -> None:
        await request.answer(b"", 307, location="/elsewhere")

    async with raw(answer, card()) as server, source_of(server.url) as source:
        done = await run(source)
    assert (done.end, len(server.requests)) == ("agent_protocol", 1)
    assert "configure the address that it redirects to" in done.last.message  # type: ignore[union-attr]


async def test_cookies_of_one_run_are_not_sent_with_the_next() -> None:
    async def answer(request: Request) -> None:
        await request.answer(DONE, set_cookie="user=a; path=/")

    # By name: clients keep no cookies of bare addresses anyway.
    async with raw(answer, card()) as server, source_of(server.url.replace("127.0.0.1", "localhost")) as source:
        await run(source)
        await run(source)
    assert ["cookie" in request.headers for request in server.requests] == [False, False]


@pytest.mark.parametrize(
    "url", ["komodor:8001", "ftp://komodor", "http://", "ws://u:hunter2@komodor", "http://[zz/", "http://komodor:70000"]
)
def test_an_address_that_cannot_be_one_is_refused_when_it_is_configured(url: str) -> None:
    with pytest.raises(ConfigError, match="must be an http:// or https:// URL") as raised:
        A2ASource(url)
    assert "hunter2" not in str(raised.value)


async def test_a_missing_client_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "aiohttp", None)
    source = A2ASource("http://127.0.0.1:1")
    with pytest.raises(MissingExtra, match=r"pip install '.\[a2a\]'"):
        await anext(source.open(asks("")))
