"""Streams that end before their tasks do: what is asked then, how often, and when it is given up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from anabranch import events as ev
from anabranch.sources.a2a import A2ASource, _follow, tape

from ._cases import DONE, TASK, artifact, error, holds, result, says, status, task
from ._raw import Raw, Request, card, raw
from ._running import Run, asks, run, source_of

Json = dict[str, Any]
Answer = Callable[[Request], Coroutine[Any, Any, None]]
OLD_CARD = {"name": "old", "url": "http://0.0.0.0/rpc", "capabilities": {"streaming": True}}


def streams(*items: bytes, cut: bool = False, ids: str = "") -> Answer:
    """An event stream, cut off or ended; with ``ids`` each event has one."""

    async def answer(request: Request) -> None:
        await request.begin()
        for n, item in enumerate(items):
            await request.piece((f"id: {ids}{n}.0\n" if ids else "").encode() + b"data: " + item + b"\n\n")
        if cut:
            request.reset()
        else:
            await request.end()

    return answer


def says_what(item: bytes) -> Answer:
    """A whole answer: what ``item`` says the task is, as ``GetTask`` says it."""
    said = json.loads(item)
    body = said if "error" in said else said | {"result": said["result"]["task"]}

    async def answer(request: Request) -> None:
        await request.answer(body)

    return answer


async def resets(request: Request) -> None:
    request.reset()


async def hangs(request: Request) -> None:
    await request.gone.wait()


async def begins(request: Request) -> None:
    await request.begin()
    await request.gone.wait()


class Script:
    """What a server answers to each method, call by call; the last answer again and again."""

    def __init__(self, **answers: list[Answer] | Answer) -> None:
        self.answers = {name: each if isinstance(each, list) else [each] for name, each in answers.items()}
        self.methods: list[str] = []

    async def __call__(self, request: Request) -> None:
        method = request.call["method"]
        self.methods.append(method)
        answers = self.answers.get(method.replace("/", "_"))
        if answers is None:
            return await request.answer(error(-32601, "no such method"))
        await (answers.pop(0) if len(answers) > 1 else answers[0])(request)


@asynccontextmanager
async def served(script: Script, known: Json | None = None, **options: Any) -> AsyncIterator[tuple[Raw, A2ASource]]:
    async with asyncio.timeout(20), raw(script, known or card()) as server, source_of(server.url, **options) as source:
        yield server, source


async def done(script: Script, known: Json | None = None, **options: Any) -> Run:
    async with served(script, known, **options) as (_, source):
        return await run(source)


HEL = (TASK, artifact("Hel"))
WHOLE = task("COMPLETED", holds("Hello"))


# --- what is asked -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "ended"])
async def test_a_task_that_is_over_when_its_stream_broke_off_is_looked_up_and_nothing_else(cut: bool) -> None:
    script = Script(SendStreamingMessage=streams(*HEL, cut=cut), GetTask=says_what(WHOLE))
    said = await done(script)
    assert (said.text, said.shown, said.end) == ("Hello", "Hello", "success")
    assert script.methods == ["SendStreamingMessage", "GetTask"]


async def test_a_task_that_goes_on_is_listened_to_and_no_token_comes_twice_or_never() -> None:
    waits = asyncio.Event()

    async def tail(request: Request) -> None:
        await request.begin()
        await request.event(task("WORKING", holds("Hello")))  # as servers do: what follows repeats some of it
        await request.event(artifact("lo", append=True))
        await waits.wait()
        await request.event(artifact(" wor", append=True))
        await request.event(artifact("ld", append=True))
        await request.event(DONE)
        await request.end()

    async def looks(request: Request) -> None:
        await says_what(task("WORKING", holds("Hello" if script.methods.count("GetTask") > 1 else "Hel")))(request)
        if script.methods.count("GetTask") == 2:
            waits.set()

    script = Script(SendStreamingMessage=streams(*HEL, cut=True), GetTask=looks, SubscribeToTask=tail)
    said = await done(script)
    assert (said.text, said.shown, said.end) == ("Hello world", "Hello world", "success")
    assert script.methods == ["SendStreamingMessage", "GetTask", "SubscribeToTask", "GetTask"]


async def test_an_agent_that_is_older_is_looked_at_and_never_subscribed_to() -> None:
    looks = [task("WORKING", holds(text)) for text in ("Hel", "Hello", "Hello wo")] + [
        task("COMPLETED", holds("Hello!"))
    ]
    script = Script(message_stream=streams(*HEL, cut=True), tasks_get=[says_what(look) for look in looks])
    said = await done(script, OLD_CARD)
    assert said.end == "agent_disconnected", "the last one does not continue the one before it"
    assert said.text == "Hello wo"
    assert script.methods == ["message/stream", *["tasks/get"] * 4, "tasks/cancel"][: len(script.methods)]
    looks[-1] = task("COMPLETED", holds("Hello world"))
    script = Script(message_stream=streams(*HEL, cut=True), tasks_get=[says_what(look) for look in looks])
    said = await done(script, OLD_CARD)
    assert (said.text, said.end) == ("Hello world", "success")
    assert script.methods == ["message/stream", *["tasks/get"] * 4]


async def test_an_older_agent_is_spoken_to_in_its_own_words() -> None:
    script = Script(message_stream=streams(*HEL, cut=True), tasks_get=says_what(WHOLE))
    async with served(script, OLD_CARD) as (server, source):
        await run(source, "and now?", context_id="c7")
        question, look = server.requests
    assert question.call["params"]["message"] == {
        "kind": "message",
        "messageId": question.call["params"]["message"]["messageId"],
        "role": "user",
        "parts": [{"kind": "text", "text": "and now?"}],
        "contextId": "c7",
    }
    assert look.call["params"] == {"id": "t"}
    assert not any("a2a-version" in request.headers for request in server.requests)


@pytest.mark.parametrize("speaks", ["1.0", "0.3"])
async def test_an_agent_that_answers_with_a_task_that_goes_on_is_asked_until_it_is_over(speaks: str) -> None:
    looks = [says_what(task("WORKING")), says_what(task("WORKING", holds("Hel"))), says_what(WHOLE)]

    async def answers(request: Request) -> None:
        await request.answer(TASK)

    async def refuses(request: Request) -> None:
        await request.answer(error(-32004, "no streaming"))

    calls = {"SendMessage": answers, "GetTask": looks, "SubscribeToTask": refuses}
    older = {"message_send": answers, "tasks_get": looks}
    script = Script(**(calls if speaks == "1.0" else older))
    known = card(streaming=False) if speaks == "1.0" else OLD_CARD | {"capabilities": {}}
    said = await done(script, known)
    assert (said.text, said.end) == ("Hello", "success")
    assert script.methods.count("SendMessage") + script.methods.count("message/send") == 1


async def test_a_question_of_the_agent_that_came_while_nobody_listened_is_asked() -> None:
    asked = task("INPUT_REQUIRED", holds("Hello"), message=says("Which one?", id="q"))
    said = await done(Script(SendStreamingMessage=streams(*HEL, cut=True), GetTask=says_what(asked)))
    assert (said.text, said.end) == ("Hello", "interrupted")


# --- an agent of our own kind --------------------------------------------------------------------------------------


async def test_an_agent_whose_events_have_cursors_is_asked_for_what_follows_the_last_one() -> None:
    tails = [
        streams(artifact("lo", append=True), cut=True, ids="run:9:12"),
        streams(artifact(" world", append=True), DONE, ids="run:9:13"),
    ]
    script = Script(SendStreamingMessage=streams(*HEL, cut=True, ids="run:9:11"), SubscribeToTask=tails)
    async with served(script) as (server, source):
        said = await run(source)
        assert [request.headers.get("last-event-id") for request in server.requests] == [
            None,
            "run:9:111.0",
            "run:9:120.0",
        ]
    assert (said.text, said.end) == ("Hello world", "success")
    assert script.methods == ["SendStreamingMessage", "SubscribeToTask", "SubscribeToTask"]


@pytest.mark.parametrize("ids", ["", "run:9:11", "zzz:12", "x"], ids=["none", "the same", "of another run", "foreign"])
async def test_an_agent_that_does_not_go_on_after_the_cursor_is_looked_at_as_any_other(ids: str) -> None:
    script = Script(
        SendStreamingMessage=streams(*HEL, cut=True, ids="run:9:11"),
        SubscribeToTask=streams(artifact("Hel", append=True), DONE, ids=ids),
        GetTask=says_what(WHOLE),
    )
    said = await done(script)
    assert (said.text, said.end) == ("Hello", "success")


@pytest.mark.parametrize("ids", ["run:" + "9" * 5000, "run:٣"], ids=["out of range", "other digits"])
async def test_an_id_that_only_looks_like_a_cursor_is_none(ids: str) -> None:
    script = Script(SendStreamingMessage=streams(*HEL, cut=True, ids=ids), GetTask=says_what(WHOLE))
    said = await done(script)
    assert (said.text, said.end) == ("Hello", "success")
    assert "SubscribeToTask" not in script.methods[:2]


PARTING = b'{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"This reader is too slow."}}'


def parts(*items: bytes) -> Answer:
    """A stream that the agent does not go on with, and says so."""

    async def answer(request: Request) -> None:
        await request.begin()
        for n, item in enumerate(items):
            await request.piece(b"id: run:1%d.0\ndata: %b\n\n" % (n, item))
        await request.piece(b"event: error\ndata: %b\n\n" % PARTING)
        await request.end()

    return answer


async def test_a_reader_that_was_too_slow_for_an_agent_of_our_own_kind_reads_on() -> None:
    rest = streams(artifact("lo", append=True), DONE, ids="run:2")
    said = await done(Script(SendStreamingMessage=parts(*HEL), SubscribeToTask=rest))
    assert (said.text, said.end) == ("Hello", "success")


async def test_what_an_agent_of_our_own_kind_says_when_it_breaks_off_is_the_error_if_it_does_not_go_on() -> None:
    said = await done(Script(SendStreamingMessage=parts(*HEL)))
    assert said.last == ev.RunFailed(
        code="agent_disconnected",
        message="The agent raw broke its stream off: This reader is too slow.",
        retryable=True,
        partial=True,
    )


async def test_an_error_of_any_other_agent_is_the_end() -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        await request.event(TASK)
        await request.piece(b"event: error\ndata: %b\n\n" % PARTING)
        await request.end()

    script = Script(SendStreamingMessage=answer)
    assert (await done(script)).end == "agent_failed"
    assert script.methods == ["SendStreamingMessage"]


# --- when it is given up -------------------------------------------------------------------------------------------


BROKEN = "The agent raw closed the connection in the middle of its answer."


@pytest.mark.parametrize(
    "look",
    [says_what(error(-32601, "no such method")), says_what(error(-32001, "no such task")), streams(b"<html>")],
    ids=["it cannot", "it has forgotten", "it is no agent any more"],
)
async def test_an_agent_that_does_not_know_its_task_is_not_asked_twice_and_the_first_error_stays(look: Answer) -> None:
    script = Script(SendStreamingMessage=streams(*HEL, cut=True), GetTask=look)
    said = await done(script)
    assert said.last == ev.RunFailed(code="agent_disconnected", message=BROKEN, retryable=True, partial=True)
    assert script.methods == ["SendStreamingMessage", "GetTask", "CancelTask"]


async def test_an_agent_that_is_gone_for_a_moment_is_asked_again() -> None:
    async def busy(request: Request) -> None:
        await request.answer(b"", 503)

    looks = [resets, busy, says_what(WHOLE)]
    said = await done(Script(SendStreamingMessage=streams(*HEL, cut=True), GetTask=looks))
    assert (said.text, said.end) == ("Hello", "success")


async def test_an_agent_that_is_gone_is_asked_four_times() -> None:
    script = Script(SendStreamingMessage=streams(*HEL, cut=True), GetTask=resets)
    said = await done(script)
    assert (said.text, said.end) == ("Hel", "agent_disconnected")
    assert script.methods.count("GetTask") == 4 and script.methods.count("SendStreamingMessage") == 1


@pytest.mark.parametrize("look", [says_what(task("WORKING", holds("Hel"))), hangs], ids=["nothing new", "no answer"])
@pytest.mark.parametrize(("cut", "end"), [(True, "agent_disconnected"), (False, "no_end")])
@pytest.mark.parametrize("tail", [begins, hangs, streams(cut=True), streams()], ids=["silent", "hangs", "cut", "ended"])
async def test_a_task_that_does_not_change_is_given_up_in_time(look: Answer, cut: bool, end: str, tail: Answer) -> None:
    script = Script(SendStreamingMessage=streams(*HEL, cut=cut), GetTask=look, SubscribeToTask=tail)
    before = time.monotonic()
    said = await done(script, idle_s=0.4)
    assert (said.text, said.end) == ("Hel", end)
    assert 0.3 < time.monotonic() - before < 3
    assert script.methods.count("SubscribeToTask") <= 5 and script.methods.count("GetTask") <= 5
    assert ("CancelTask" in script.methods) is cut


@pytest.mark.parametrize(
    ("speaks", "cut", "limit"), [("1.0", False, "_ENDED_S"), ("0.3", False, "_ENDED_S"), ("0.3", True, "_CRASHED_S")]
)
async def test_what_is_no_good_sign_is_given_up_sooner(
    monkeypatch: pytest.MonkeyPatch, speaks: str, cut: bool, limit: str
) -> None:
    monkeypatch.setattr(_follow, limit, 0.3)
    first, look = streams(*HEL, cut=cut), says_what(task("WORKING", holds("Hel")))
    script = Script(SendStreamingMessage=first, GetTask=look, message_stream=first, tasks_get=look)
    before = time.monotonic()
    said = await done(script, card() if speaks == "1.0" else OLD_CARD, idle_s=8)
    assert said.text == "Hel" and time.monotonic() - before < 4


async def test_an_agent_that_lets_nobody_listen_is_asked_for_that_once() -> None:
    looks = [says_what(task("WORKING", holds("Hello"[: n + 3]))) for n in range(3)] + [says_what(WHOLE)]
    script = Script(
        SendStreamingMessage=streams(*HEL, cut=True), GetTask=looks, SubscribeToTask=streams(error(-32004, "no"))
    )
    said = await done(script)
    assert (said.text, said.end) == ("Hello", "success")
    assert script.methods.count("SubscribeToTask") == 1


async def test_a_stream_that_breaks_again_and_again_is_replaced_five_times_and_the_rest_is_looked_up() -> None:
    words = [f"{n} " for n in range(40)]

    async def looks(request: Request) -> None:
        nonlocal told
        told = min(told + 2, len(words))
        await says_what(task("WORKING" if told < len(words) else "COMPLETED", holds("".join(words[:told]))))(request)

    told = 1
    first = streams(TASK, artifact(words[0]), cut=True)
    script = Script(SendStreamingMessage=first, GetTask=looks, SubscribeToTask=streams(TASK, cut=True))
    said = await done(script)
    assert (said.text, said.end) == ("".join(words), "success")
    assert script.methods.count("SubscribeToTask") == 5


@pytest.mark.parametrize(
    "items", [(), (result(message=says("Hi")),), (result(message=says("Hi") | {"taskId": "t"}),)], ids=len
)
async def test_what_has_no_task_is_not_followed(items: tuple[bytes, ...]) -> None:
    script = Script(SendStreamingMessage=streams(*items, cut=True), GetTask=says_what(WHOLE))
    assert (await done(script)).end == "agent_disconnected"
    assert "GetTask" not in script.methods


async def test_a_silence_is_no_broken_stream() -> None:
    async def answer(request: Request) -> None:
        await request.begin()
        await request.event(TASK)
        await request.gone.wait()

    script = Script(SendStreamingMessage=answer, GetTask=says_what(WHOLE))
    assert (await done(script, idle_s=0.3)).end == "agent_timeout_idle"
    assert script.methods == ["SendStreamingMessage", "CancelTask"]


async def test_a_status_that_says_nothing_new_is_still_a_sign_of_life() -> None:
    async def tail(request: Request) -> None:
        await request.begin()
        for _ in range(5):
            await asyncio.sleep(0.2)  # noqa: TID251 - the pace of the agent is the subject
            await request.event(status("WORKING"))
        await request.event(DONE)
        await request.gone.wait()

    looks = says_what(task("WORKING", holds("Hel")))
    script = Script(SendStreamingMessage=streams(*HEL, cut=True), GetTask=looks, SubscribeToTask=tail)
    said = await done(script, idle_s=0.5)
    assert (said.text, said.end) == ("Hel", "success")


@pytest.mark.parametrize("speaks", ["1.0", "0.3"])
async def test_who_leaves_while_a_task_is_followed_cancels_it(speaks: str) -> None:
    looked = asyncio.Event()

    async def looks(request: Request) -> None:
        await says_what(task("WORKING", holds("Hello")))(request)
        looked.set()

    first = streams(*HEL, cut=True)
    script = Script(
        **(
            {"SendStreamingMessage": first, "GetTask": looks, "SubscribeToTask": begins}
            if speaks == "1.0"
            else {"message_stream": first, "tasks_get": looks}
        )
    )
    async with served(script, card() if speaks == "1.0" else OLD_CARD) as (server, source):
        reader = asyncio.create_task(run(source))
        await looked.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await source.aclose()
        assert script.methods[-1] == ("CancelTask" if speaks == "1.0" else "tasks/cancel")
        assert server.requests[-1].call["params"] == {"id": "t"}


async def test_a_run_that_was_followed_can_be_replayed() -> None:
    looks = [says_what(task("WORKING", holds("Hello"))), says_what(task("COMPLETED", holds("Hello world")))]
    script = Script(SendStreamingMessage=streams(*HEL, cut=True), GetTask=looks)
    async with served(script) as (_, source):
        items = [item async for item in source.open(asks("hi"))]
    again = source.translator(asks("hi"))
    read = tape.loader().item
    events = [event for item in items for event in again.feed(read(source.dump(item)))]
    assert again.text == "Hello world" and isinstance(events[-1], ev.RunFinished)
