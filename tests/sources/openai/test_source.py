"""Endpoints that behave, misbehave and break off: what is asked, read, kept and cancelled."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal

import aiohttp
import pytest
from referee import judged
from serving import served

from anabranch import events as ev
from anabranch.demo import model as scripted
from anabranch.errors import ClientError, ConfigError, MissingExtra, SourceError
from anabranch.grammar import Grammar
from anabranch.request import Message, RunRequest, ToolSpec
from anabranch.sources.openai import OpenAISource
from tests.agents import model as misbehaving

from ..a2a._raw import Raw, Request, raw
from ._cases import CALLED, CASES, COUNTS, DONE, HI, STOP, USAGE, A, Case, frames, goes_on, texts

Json = dict[str, Any]
Answers = Callable[[Request], Coroutine[Any, Any, None]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = frames([*HI, STOP, USAGE, DONE])
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "number"}}})


End = Literal["end", "close", "reset", "hang"]


def script(*pieces: bytes, end: End = "end", head: bytes = HEAD) -> Answers:
    """An endpoint that answers with these bytes, each in a write of its own, and then ends its stream, or breaks it."""

    async def answer(request: Request) -> None:
        await request.send(head)
        for piece in filter(None, pieces):
            await (request.piece(piece) if b"chunked" in head else request.send(piece))
            await asyncio.sleep(0)  # noqa: TID251 - lets the bytes go before the next ones
        if end == "hang":
            await request.gone.wait()
        elif end == "reset":
            await asyncio.sleep(0.02)  # noqa: TID251 - a reset may overtake what was written
            request.reset()
        else:
            if end == "end" and b"chunked" in head:
                await request.end()
            request.writer.close()

    return answer


def asks(text: str = "hi", *tools: ToolSpec) -> RunRequest:
    return RunRequest(run_id="r", thread_id="t", messages=(Message(id="1", role="user", content=text),), tools=tools)


class Run:
    """One run of a source through translator and grammar, to its end."""

    def __init__(self, events: list[ev.Event], items: list[bytes], error: Exception | None) -> None:
        self.events, self.items, self.error = events, items, error
        self.last: Any = events[-1]
        self.end = self.last.code if isinstance(self.last, ev.RunFailed) else self.last.outcome
        self.text = "".join(event.delta for event in events if isinstance(event, ev.TextDelta))
        self.calls = [(event.name, event.executor) for event in events if isinstance(event, ev.ToolCallStarted)]
        self.args = "".join(event.delta for event in events if isinstance(event, ev.ToolArgsDelta))


async def run(source: OpenAISource, request: RunRequest | None = None) -> Run:
    request = request or asks()
    grammar, items, error = Grammar(), list[bytes](), None
    translator = source.translator(request)
    events = grammar.feed(ev.RunStarted(run_id="r", thread_id="t"))
    try:
        async with asyncio.timeout(20), aclosing(source.open(request)) as stream:
            async for item in stream:
                items.append(item)
                events += [legal for event in translator.feed(item) for legal in grammar.feed(event)]
                if grammar.ended:
                    break
    except SourceError as failure:
        error = failure
    events += [legal for event in translator.close(error) for legal in grammar.feed(event)]
    events += grammar.close(error)
    judged(events)
    assert grammar.repairs == {}
    return Run(events, items, error)


@asynccontextmanager
async def source_of(url: str, **options: Any) -> AsyncIterator[OpenAISource]:
    source = OpenAISource(url, **{"model": "m", **options})
    try:
        yield source
    finally:
        async with asyncio.timeout(10):
            await source.aclose()


@asynccontextmanager
async def endpoint(answer: Answers, **options: Any) -> AsyncIterator[tuple[OpenAISource, Raw]]:
    async with raw(answer, None) as server, source_of(f"{server.url}/v1", **options) as source:
        yield source, server


# --- what is read ------------------------------------------------------------------------------------------------


async def test_an_endpoint_is_asked_once_and_its_answer_is_exact() -> None:
    async with endpoint(script(WHOLE)) as (source, server):
        done = await run(source)
    assert (done.text, done.end, len(server.requests)) == ("Hi", "success", 1)
    assert done.last.usage == (ev.Usage(model="m", input=10, output=4, reasoning=1, cached=6),)
    assert [json.loads(item) for item in done.items[:-1]] == [*HI, STOP, USAGE] and done.items[-1] == b"[DONE]"


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_an_answer_may_come_in_pieces_of_any_size(size: int) -> None:
    stream = frames([*texts("ü", "🚀", "\r\n"), A, goes_on(0, '{"ü": '), goes_on(0, '"🚀"}'), CALLED, DONE])
    pieces = [stream[n : n + size] for n in range(0, len(stream), size)]
    async with endpoint(script(*pieces)) as (source, _):
        done = await run(source, asks("hi", ADD))
    assert (done.text, done.args, done.end) == ("ü🚀\r\n", '{"ü": "🚀"}', "success")


@pytest.mark.parametrize("case", [case for case in CASES if not case.message], ids=lambda case: case.name)
async def test_every_dialect_comes_over_http_as_it_is(case: Case) -> None:
    tools = [ToolSpec(name=name) for name in ("add", "sub", "get_weather", "now")]
    async with endpoint(script(case.stream)) as (source, _):
        done = await run(source, asks("hi", *tools))
    assert (done.text, done.end) == ("".join(text for _, text in case.said), case.end)
    assert done.args == "".join(args for _, _, args, _, _ in case.calls) or len(case.calls) > 1


@pytest.mark.parametrize("end", ["end", "close", "reset"])
@pytest.mark.parametrize(
    ("stream", "text", "ended"),
    [
        (b"", "", "model_truncated"),
        (frames(HI), "Hi", "model_truncated"),
        (frames(HI) + frames([STOP])[:20], "Hi", "model_disconnected"),
        (frames([*HI, STOP]), "Hi", "success"),
        (frames([*HI, STOP]) + b"data: [DONE]\n", "Hi", "success"),
        (frames([*HI, STOP]) + frames([USAGE])[:20], "Hi", "success"),
    ],
    ids=["nothing", "text", "a piece of an event", "no [DONE]", "half of [DONE]", "a piece of the usage"],
)
async def test_text_is_kept_when_an_answer_breaks_off_and_only_a_finished_one_is_a_success(
    stream: bytes, text: str, ended: str, end: End
) -> None:
    async with endpoint(script(stream, end=end)) as (source, server):
        done = await run(source)
    ended = "model_disconnected" if end != "end" and ended != "success" else ended
    assert (done.text, done.end, len(server.requests)) == (text, ended, 1)
    if isinstance(done.last, ev.RunFailed):
        assert (done.last.retryable, done.last.partial) == (True, bool(text))


BODY = {
    "id": "c",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": COUNTS,
}


@pytest.mark.parametrize(
    ("answer", "text", "end"),
    [
        (BODY, "Hi", "success"),
        ({**BODY, "choices": []}, "", "model_truncated"),
        ({"error": "no"}, "", "model_error"),
        ([], "", "model_truncated"),
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", ""])
@pytest.mark.parametrize("before", [b"", b"\n \n", b"\xef\xbb\xbf"])
async def test_an_endpoint_that_does_not_stream_is_read_whole_whatever_it_calls_its_answer(
    answer: Any, text: str, end: str, kind: str, before: bytes
) -> None:
    head = HEAD.replace(b"content-type: text/event-stream\r\n", f"content-type: {kind}\r\n".encode() if kind else b"")
    data = before + json.dumps(answer).encode()
    async with endpoint(script(data[:3], data[3:30], data[30:], head=head)) as (source, _):
        done = await run(source)
    assert (done.text, done.end) == (text, end)


@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream", ""])
async def test_a_stream_is_read_as_one_whatever_it_calls_itself(kind: str) -> None:
    head = HEAD.replace(b"content-type: text/event-stream\r\n", f"content-type: {kind}\r\n".encode() if kind else b"")
    async with endpoint(script(WHOLE, head=head)) as (source, _):
        assert (await run(source)).text == "Hi"


@pytest.mark.parametrize("kind", [b"text/html", b"text/plain", b"text/event-stream"])
async def test_a_page_is_a_typed_error(kind: bytes) -> None:
    head = HEAD.replace(b"text/event-stream", kind)
    async with endpoint(script(b"<!doctype html><p>Hi</p>", head=head)) as (source, _):
        done = await run(source)
    assert (done.text, done.end) == ("", "model_protocol")
    assert done.last.message == f"The model m answered with {kind.decode()}, which is not the OpenAI protocol."


async def test_an_event_over_16_mib_and_a_body_over_16_mib_are_typed_errors() -> None:
    huge = frames(texts("x" * 17 * 2**20))
    async with endpoint(script(huge)) as (source, _):
        assert (await run(source)).end == "protocol"
    async with endpoint(script(huge.removeprefix(b"data: "))) as (source, _):
        assert (await run(source)).end == "model_protocol"


async def test_a_stream_that_is_over_is_read_to_its_end_if_that_is_near() -> None:
    gone: list[bool] = []

    async def answer(request: Request) -> None:
        await request.begin()
        await request.piece(WHOLE)
        await asyncio.sleep(0.05)  # noqa: TID251 - the end of a stream comes a little after the last event
        gone.append(request.gone.is_set())
        await request.gone.wait()

    async with endpoint(answer) as (source, server), asyncio.timeout(5):
        assert (await run(source)).end == "success"
        await server.requests[0].gone.wait()
    assert gone == [False]


@pytest.mark.parametrize("close", [False, True])
async def test_a_reader_that_is_cancelled_at_the_end_of_a_stream_leaves_no_connection(close: bool) -> None:
    async with endpoint(script(WHOLE, end="hang")) as (source, server), asyncio.timeout(5):
        last = asyncio.Event()

        async def read() -> None:
            async with aclosing(source.open(asks())) as items:
                async for item in items:
                    if item == b"[DONE]":
                        last.set()
                        if close:
                            break

        task = asyncio.create_task(read())
        await last.wait()
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        await server.requests[0].gone.wait()


async def test_blanks_before_an_answer_are_not_kept() -> None:
    async with endpoint(script(*[b"\r\n" * 100_000] * 100, WHOLE)) as (source, _):
        began = time.process_time()
        assert (await run(source)).text == "Hi"
    assert time.process_time() - began < 5


async def test_the_items_end_with_the_stream_whoever_reads_them() -> None:
    async with endpoint(script(WHOLE, frames(texts("more")), end="hang")) as (source, _), asyncio.timeout(5):
        items = [item async for item in source.open(asks())]
    assert items[-1] == b"[DONE]" and len(items) == 5


# --- what fails --------------------------------------------------------------------------------------------------

OVERLOADED = {"error": {"message": "overloaded, password=hunter2", "type": "server_error", "code": "busy"}}


@pytest.mark.parametrize(
    ("http", "answer", "end", "retryable", "message"),
    [
        (401, OVERLOADED, "model_auth", False, "The model m refused our credentials (HTTP 401)."),
        (403, b"<html>", "model_auth", False, "The model m refused our credentials (HTTP 403)."),
        (429, OVERLOADED, "model_rate_limited", True,
         "The model m takes no more requests now: overloaded, password=*** (busy)"),
        (429, {"error": {"message": "pay", "type": "insufficient_quota"}}, "model_rate_limited", False,
         "The model m takes no more requests now: pay (insufficient_quota)"),
        (429, b"", "model_rate_limited", True,
         "The model m takes no more requests now: its endpoint answered with HTTP 429."),
        (400, {"error": {"message": "no such field"}}, "model_error", False, "The model m failed: no such field"),
        (404, {"detail": "Not Found"}, "model_error", False, "The model m failed: Not Found"),
        (422, {"detail": [{"loc": ["body"]}]}, "model_error", False, 'The model m failed: [{"loc": ["body"]}]'),
        (408, b"", "model_error", True, "The model m failed: its endpoint answered with HTTP 408."),
        (500, {"error": "boom"}, "model_error", True, "The model m failed: boom"),
        (502, b"<html>", "model_error", True, "The model m failed: its endpoint answered with HTTP 502."),
        (503, [OVERLOADED], "model_error", True, "The model m failed: overloaded, password=*** (busy)"),
        (529, OVERLOADED, "model_error", True, "The model m failed: overloaded, password=*** (busy)"),
        (302, b"", "model_protocol", False,
         "The model m is elsewhere (HTTP 302); configure the address that it redirects to."),
    ],
)  # fmt: skip
async def test_an_http_error_is_a_typed_error_in_the_providers_words_and_is_not_asked_again(
    http: int, answer: Any, end: str, retryable: bool, message: str
) -> None:
    async def answers(request: Request) -> None:
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        await request.answer(content, http, location="https://elsewhere.example/")

    async with endpoint(answers) as (source, server):
        done = await run(source)
    assert (done.end, done.last.retryable, done.last.message) == (end, retryable, message)
    assert len(server.requests) == 1


async def test_the_operator_finds_what_the_provider_said_of_the_key_and_no_key() -> None:
    async def answers(request: Request) -> None:
        await request.answer({"error": {"message": "no access from here", "key": "sk-0123456789abcdef"}}, 403)

    async with endpoint(answers) as (source, _):
        done = await run(source)
    assert done.error is not None and "no access" not in str(done.error)
    assert "no access from here" in str(done.error.__cause__) and "sk-0123" not in str(done.error.__cause__)


async def test_an_endpoint_that_repeats_the_key_is_quoted_without_it() -> None:
    async def answers(request: Request) -> None:
        await request.answer({"error": {"message": "what is open-sesame?"}}, 400)

    async with endpoint(answers, api_key="open-sesame") as (source, _):
        done = await run(source)
    assert done.last.message == "The model m failed: what is ***?"
    assert "sesame" not in f"{done.error!r} {done.error.__cause__!r}"


@pytest.mark.parametrize("http", [400, 422])
async def test_an_endpoint_that_does_not_know_usage_is_asked_without_it_and_not_again_with_it(http: int) -> None:
    async def answers(request: Request) -> None:
        if "stream_options" in request.call:
            await request.answer({"error": {"message": "Unrecognized argument: stream_options"}}, http)
        else:
            await script(WHOLE)(request)

    async with endpoint(answers) as (source, server):
        for _ in range(2):
            assert (await run(source)).text == "Hi"
    options = [request.call.get("stream_options") for request in server.requests]
    assert options == [{"include_usage": True}, None, None]
    assert [{**request.call, "stream_options": 0} for request in server.requests[1:]] == [
        {**server.requests[0].call, "stream_options": 0}
    ] * 2


@pytest.mark.parametrize("http", [400, 500])
async def test_no_other_refusal_is_a_reason_to_ask_again(http: int) -> None:
    async def answers(request: Request) -> None:
        await request.answer({"error": {"message": "stream_options" if http == 500 or dropped else "no"}}, http)

    dropped = False
    async with endpoint(answers) as (source, server):
        assert (await run(source)).end == "model_error"
        assert len(server.requests) == 1
        dropped = True  # from now on it says so to each request, with and without the option
        await run(source)
        assert len(server.requests) == (3 if http == 400 else 2)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def test_an_endpoint_that_is_not_there_is_tried_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, tries = aiohttp.TCPConnector.connect, 0

    async def counted(*args: Any, **more: Any) -> Any:
        nonlocal tries
        tries += 1
        return await connect(*args, **more)

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", counted)
    async with source_of(f"http://127.0.0.1:{free_port()}/v1") as source:
        done = await run(source)
    assert (done.end, done.last.retryable, tries) == ("model_unreachable", True, 3)
    assert done.last.message == "The model m cannot be reached."


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_request_that_may_have_been_read_is_not_sent_again(end: End) -> None:
    async with endpoint(script(end=end, head=b"")) as (source, server):
        done = await run(source)
    assert (done.end, done.last.retryable, len(server.requests)) == ("model_disconnected", True, 1)


@pytest.mark.parametrize("head", [b"", HEAD], ids=["nothing comes", "only the head comes"])
async def test_an_endpoint_that_does_not_begin_to_answer_is_given_up(head: bytes) -> None:
    async with endpoint(script(end="hang", head=head), first_byte_s=0.2) as (source, server):
        assert (await run(source)).end == "model_timeout_first_byte"
        async with asyncio.timeout(5):
            await server.requests[0].gone.wait()
        assert len(server.requests) == 1


async def test_an_endpoint_that_falls_silent_is_given_up_unless_it_had_finished() -> None:
    for stream, end in ((frames(HI), "model_timeout_idle"), (frames([*HI, STOP]), "success")):
        async with endpoint(script(stream, end="hang"), idle_s=0.2) as (source, server):
            done = await run(source)
            assert (done.text, done.end) == ("Hi", end)
            async with asyncio.timeout(5):
                await server.requests[0].gone.wait()


async def test_something_that_is_no_http_is_a_typed_error() -> None:
    async with endpoint(script(b"220 mail.example ESMTP\r\n", head=b"")) as (source, _):
        assert (await run(source)).end == "model_protocol"


# --- cancelling --------------------------------------------------------------------------------------------------


async def test_closing_the_stream_breaks_the_connection_off_at_once() -> None:
    async with endpoint(script(frames(HI), end="hang")) as (source, server), asyncio.timeout(5):
        items = source.open(asks())
        await anext(items)
        assert not server.requests[0].gone.is_set()
        await items.aclose()
        await server.requests[0].gone.wait()


@pytest.mark.parametrize("head", [b"", HEAD], ids=["before the head", "after it"])
async def test_cancelling_the_reader_breaks_the_connection_off_at_once(head: bytes) -> None:
    asked = asyncio.Event()

    async def answers(request: Request) -> None:
        asked.set()
        await script(frames(HI) if head else b"", end="hang", head=head)(request)

    async with endpoint(answers) as (source, server), asyncio.timeout(5):
        reader = asyncio.create_task(run(source))
        await asked.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await server.requests[0].gone.wait()


async def test_an_error_in_the_stream_ends_the_connection() -> None:
    async with endpoint(script(frames([*HI, OVERLOADED]), end="hang")) as (source, server), asyncio.timeout(5):
        assert (await run(source)).end == "model_error"
        await server.requests[0].gone.wait()


# --- what is asked -----------------------------------------------------------------------------------------------


async def test_the_request_is_exactly_this() -> None:
    tool = {"type": "web_search"}
    options = {"temperature": 0, "tools": [tool], "tool_choice": "auto"}
    async with endpoint(script(WHOLE), api_key="k", instructions="Be brief.", options=options) as (source, server):
        await run(source, asks("hi", ADD))
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer k"
    assert "gzip" not in request.headers["accept-encoding"]
    function = {"name": "add", "description": "Adds.", "parameters": ADD.parameters}
    assert request.call == {
        "temperature": 0,
        "tool_choice": "auto",
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [tool, {"type": "function", "function": function}],
    }


async def test_without_tools_a_key_and_options_none_are_sent() -> None:
    async with endpoint(script(WHOLE)) as (source, server):
        await run(source)
    assert server.requests[0].call.keys() == {"model", "messages", "stream", "stream_options"}
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("", "/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/openai?api-version=1#x", "/openai/chat/completions?api-version=1"),
    ],
)
async def test_completions_are_below_the_address(given: str, path: str) -> None:
    async with raw(script(WHOLE), None) as server, source_of(server.url + given, headers={"api-key": "k"}) as source:
        assert (await run(source)).text == "Hi"
    assert (server.requests[0].path, server.requests[0].headers["api-key"]) == (path, "k")


async def test_a_redirect_is_not_followed_because_it_would_carry_the_key_away() -> None:
    async with raw(script(WHOLE), None) as other:

        async def answers(request: Request) -> None:
            await request.answer(b"", 307, location=f"{other.url}/v1/chat/completions")

        async with endpoint(answers, api_key="k") as (source, _):
            assert (await run(source)).end == "model_protocol"
        assert other.requests == []


@pytest.mark.parametrize(
    "url", ["host:80/v1", "ftp://host", "http://", "ws://u:hunter2@host", "http://[zz/", "http://host:70000", "/v1"]
)
def test_an_address_that_cannot_be_one_is_refused_when_it_is_configured(url: str) -> None:
    with pytest.raises(ConfigError, match="must be an http:// or https:// URL") as raised:
        OpenAISource(url, model="m")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "wrong", [{"api_key": "sesame\n"}, {"headers": {"X-A": "sesame\r\nX-B: 1"}}, {"headers": {"X A": "sesame"}}]
)
def test_a_header_that_cannot_be_sent_is_refused_when_it_is_configured(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"The header '(Authorization|X.A)' cannot be sent") as raised:
        OpenAISource("http://host/v1", model="m", **wrong)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize("name", ["messages", "model", "n", "stream", "stream_options"])
def test_an_option_that_the_source_decides_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"may not hold {name}: remove it"):
        OpenAISource("http://host/v1", model="m", options={name: 1, "temperature": 0})


async def test_a_run_without_anything_to_answer_is_the_callers_mistake() -> None:
    async with endpoint(script(WHOLE)) as (source, server):
        with pytest.raises(ClientError, match="send a message"):
            await anext(source.open(RunRequest(run_id="r", thread_id="t")))
        assert server.requests == []


async def test_a_missing_client_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "aiohttp", None)
    source = OpenAISource("http://127.0.0.1:1", model="m")
    with pytest.raises(MissingExtra, match=r"pip install '.\[openai\]'"):
        await anext(source.open(asks()))


# --- whole servers -----------------------------------------------------------------------------------------------


async def test_two_hundred_runs_at_once_are_each_exact() -> None:
    async with served(scripted.build(0)) as url, source_of(f"{url}/v1") as source:
        runs = await asyncio.gather(*(run(source, asks(f"question {n}")) for n in range(200)))
    assert {(done.text, done.end) for done in runs} == {(scripted._ALONE, "success")}


@pytest.mark.parametrize("kind", sorted(misbehaving.DIALECTS))
async def test_the_misbehaving_model_is_understood_in_every_dialect(kind: str) -> None:
    asked = ToolSpec(name="ask_komodor", parameters={"type": "object"})
    async with served(misbehaving.build(0)) as url, source_of(f"{url}/v1") as source:
        plain = await run(source, asks("komodor?", asked))
        odd = await run(source, asks(f"komodor? fault={kind}", asked))
    assert (odd.end, odd.calls) == (plain.end, plain.calls) == ("success", [("ask_komodor", "client")])
    assert json.loads(odd.args) == {"question": f"komodor? fault={kind}"}


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("http_500", "model_error"),
        ("http_401", "model_auth"),
        ("error_first", "model_error"),
        ("error_text", "model_error"),
        ("error_args", "model_error"),
        ("cut_first", "model_truncated"),
        ("cut_text", "model_truncated"),
        ("cut_args", "model_truncated"),
        ("drop_text", "model_disconnected"),
        ("drop_args", "model_disconnected"),
        ("length_args", "model_truncated"),
        ("garbage", "model_error"),
    ],
)
async def test_a_fault_of_the_misbehaving_model_is_a_typed_error_and_is_asked_once(kind: str, end: str) -> None:
    assert kind in misbehaving.FAULTS
    tools = [ToolSpec(name=name, parameters={"type": "object"}) for name in ("ask_komodor", "write_todos")]
    async with served(misbehaving.build(0)) as url, source_of(f"{url}/v1") as source:
        done = await run(source, asks(f"fault={kind}", *tools))
        async with aiohttp.ClientSession() as http, http.get(f"{url}/calls") as response:
            count = (await response.json())["count"]
    assert (done.end, count) == (end, 1)
    assert len(done.text) > 0 or kind.endswith(("first", "500", "401"))
