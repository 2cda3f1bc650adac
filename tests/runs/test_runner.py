"""One run: whatever its source does, it has exactly one end, the last, and its partial text stays."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from anabranch.errors import SourceError
from anabranch.events import (
    ActivityDelta,
    Event,
    MessageFinished,
    RunFailed,
    RunFinished,
    Terminal,
)
from anabranch.identity import LOCAL
from anabranch.request import RunRequest
from anabranch.runs.machine import status_of
from anabranch.runs.runs import Runs
from anabranch.sources.python import PythonSource, PythonTranslator

from .staging import Agent, Own, Stage, asked, ended, followed, outcome, said

SECRET = "sk-live-0123456789abcdef"
Items = AsyncGenerator[Any, None]


# --- ends of a source ------------------------------------------------------------------------------------------------


async def returns(request: RunRequest) -> Items:
    yield "hello"
    yield " "
    yield request.last_user_text()


async def says_nothing(request: RunRequest) -> Items:
    return
    yield


async def raises(request: RunRequest) -> Items:
    yield "hello"
    raise ValueError(f"the key {SECRET} is wrong")


async def raises_at_once(request: RunRequest) -> Items:
    raise KeyError(SECRET)
    yield


async def fails_by_name(request: RunRequest) -> Items:
    yield "hello"
    raise SourceError("The model is overloaded.", code="model_busy", retryable=True)


async def yields_rubbish(request: RunRequest) -> Items:
    yield "hello"
    yield 42


async def yields_an_unlawful_event(request: RunRequest) -> Items:
    yield "hello"
    yield ActivityDelta(activity_id="plan", kind="plan", patch=[])


async def yields_its_failure(request: RunRequest) -> Items:
    yield "hello"
    yield RunFailed(code="quota", message="No more today.")
    yield "never read"


async def yields_its_end(request: RunRequest) -> Items:
    yield "hello"
    yield RunFinished(result={"answer": 42})
    raise ValueError("after the end")


async def raises_in_its_cleanup(request: RunRequest) -> Items:
    try:
        yield "hello"
        yield RunFinished()
        yield "never read"
    finally:
        raise ValueError("in the cleanup")


async def cancels_itself(request: RunRequest) -> Items:
    yield "hello"
    raise asyncio.CancelledError


async def exits(request: RunRequest) -> Items:
    yield "hello"
    raise SystemExit(3)


async def is_interrupted(request: RunRequest) -> Items:
    yield "hello"
    raise KeyboardInterrupt


async def exits_in_its_cleanup(request: RunRequest) -> Items:
    try:
        yield "hello"
        raise ValueError
    finally:
        raise SystemExit(3)


def exits_when_it_is_called(request: RunRequest) -> Any:
    raise SystemExit(3)


class OwnError(BaseException):
    pass


async def raises_no_exception(request: RunRequest) -> Items:
    yield "hello"
    raise OwnError


def is_no_generator(request: RunRequest) -> Any:
    return 42


EXITED = RunFailed(code="agent_failed", message="The agent tried to end the process (SystemExit).")
INTERRUPTED = RunFailed(code="agent_failed", message="The agent tried to end the process (KeyboardInterrupt).")

ENDS: list[tuple[Any, str, Terminal]] = [
    (returns, "hello hello", RunFinished()),
    (says_nothing, "", RunFinished()),
    (raises, "hello", RunFailed(code="agent_failed", message="The agent failed with ValueError.")),
    (raises_at_once, "", RunFailed(code="agent_failed", message="The agent failed with KeyError.")),
    (fails_by_name, "hello", RunFailed(code="model_busy", message="The model is overloaded.", retryable=True)),
    (yields_rubbish, "hello", RunFailed(code="agent_protocol", message="The agent yielded int")),
    (yields_an_unlawful_event, "hello", RunFailed(code="unlawful", message="The agent sent ActivityDelta")),
    (yields_its_failure, "hello", RunFailed(code="quota", message="No more today.")),
    (yields_its_end, "hello", RunFinished(result={"answer": 42})),
    (raises_in_its_cleanup, "hello", RunFinished()),
    (cancels_itself, "hello", RunFailed(code="agent_cancelled", message="The agent stopped itself")),
    (exits, "hello", EXITED),
    (is_interrupted, "hello", INTERRUPTED),
    (exits_in_its_cleanup, "hello", EXITED),
    (exits_when_it_is_called, "", EXITED),
    (raises_no_exception, "hello", RunFailed(code="agent_failed", message="The agent failed with OwnError.")),
    (is_no_generator, "", RunFailed(code="agent_failed", message="The agent failed with TypeError.")),
]


@pytest.mark.parametrize(("agent", "text", "expected"), ENDS, ids=lambda value: getattr(value, "__name__", ""))
async def test_however_a_source_ends_its_run_has_one_end(
    agent: Agent, text: str, expected: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs()
    got, end = await outcome(runs, agent)
    assert got == text
    assert_like(end, expected)
    record = await runs.get("r1", LOCAL)
    assert record.status is status_of(expected)
    assert record.ended_ms is not None and record.ended_ms >= record.created_ms


def assert_like(end: Terminal, expected: Terminal) -> None:
    assert type(end) is type(expected)
    if isinstance(end, RunFailed) and isinstance(expected, RunFailed):
        assert (end.code, end.side, end.retryable) == (expected.code, expected.side, expected.retryable)
        assert end.message.startswith(expected.message)
        assert SECRET not in end.message
    elif isinstance(end, RunFinished) and isinstance(expected, RunFinished):
        assert (end.outcome, end.result) == (expected.outcome, expected.result)


async def test_what_an_agent_raised_is_told_to_the_operator_only(caplog: pytest.LogCaptureFixture) -> None:
    _, end = await outcome(Runs(), raises)
    assert SECRET not in repr(end)
    assert SECRET in caplog.text


async def test_the_cause_of_a_failure_is_told_to_the_operator_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def unreachable(request: RunRequest) -> Items:
        raise SourceError("It cannot be reached.", code="agent_unreachable") from OSError("no host\n at 10.0.0.1")
        yield

    await outcome(Runs(), unreachable)
    told = [message for message in caplog.messages if "10.0.0.1" in message]
    assert [message.partition(": ")[2] for message in told] == [
        "agent_unreachable, because of OSError: no host at 10.0.0.1"
    ]


# --- translators -----------------------------------------------------------------------------------------------------


class Endless(PythonTranslator):
    def close(self, error: BaseException | None) -> Iterable[Event]:
        return ()


class FailsToFeed(PythonTranslator):
    def feed(self, item: Any) -> Iterable[Event]:
        if item == " ":
            raise LookupError("no translation")
        return super().feed(item)


class FailsToClose(PythonTranslator):
    def close(self, error: BaseException | None) -> Iterable[Event]:
        yield MessageFinished(message_id="text 1")
        raise LookupError("no end")


class Exits(PythonTranslator):
    def __init__(self) -> None:
        raise SystemExit(3)


class FailsToBegin(PythonTranslator):
    def __init__(self) -> None:
        raise LookupError("no beginning")


@pytest.mark.parametrize(
    ("translator", "text", "code", "message"),
    [
        (Endless, "hello hello", "no_end", "The agent's stream stopped without an end."),
        (FailsToFeed, "hello", "agent_failed", "The agent failed with LookupError."),
        (FailsToClose, "hello hello", "agent_failed", "The agent failed with LookupError."),
        (Exits, "", "agent_failed", "The agent tried to end the process (SystemExit)."),
        (FailsToBegin, "", "agent_failed", "The agent failed with LookupError."),
    ],
)
async def test_a_translator_that_fails_ends_the_run(
    translator: type[PythonTranslator], text: str, code: str, message: str
) -> None:
    runs = Runs()
    record = await runs.start(Own(returns, translator), asked(), LOCAL, agent="a")
    got, end = ended(await followed(runs, record))
    assert isinstance(end, RunFailed)
    assert (got, end.code, end.message) == (text, code, message)


async def test_a_cancelled_run_is_cancelled_though_its_translator_fails_to_close() -> None:
    runs, stage = Runs(), Stage()
    record = await runs.start(Own(stage, FailsToClose), asked(), LOCAL, agent="a")
    await stage.waiting.wait()
    await runs.cancel("r1", LOCAL)
    text, end = ended(await followed(runs, record))
    assert (text, end) == ("hello", RunFinished(outcome="cancelled"))


# --- several runs of one source --------------------------------------------------------------------------------------


async def test_runs_of_one_source_do_not_mix() -> None:
    async def echo(request: RunRequest) -> Items:
        for piece in request.last_user_text():
            await asyncio.sleep(0)  # noqa: TID251  lets the other runs in
            yield piece

    runs, source = Runs(), PythonSource(echo)
    records = [await runs.start(source, asked(f"r{n}", text=f"{n} " * 20), LOCAL, agent="a") for n in range(50)]
    for n, entries in enumerate(await asyncio.gather(*(followed(runs, record) for record in records))):
        assert said(entries) == f"{n} " * 20
        assert ended(entries)[1].__class__ is RunFinished
