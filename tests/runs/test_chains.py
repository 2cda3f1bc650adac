"""A run that asked something, and the run that goes on with the answer: one task, and the source's own names."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from anabranch.errors import Conflict, NotFound
from anabranch.events import Interrupted, RunStarted
from anabranch.identity import LOCAL
from anabranch.request import Message, Resume, RunRequest
from anabranch.runs.machine import Status
from anabranch.runs.runs import Runs
from anabranch.sources.python import PythonSource

from .staging import WAIT_S, Signal, begun, followed, said

Items = AsyncGenerator[Any, None]


async def asks(request: RunRequest) -> Items:
    if not request.resume:
        yield "May I?"
        yield Interrupted(interrupt_id="one", reason="confirmation", message="May I?")
        yield Interrupted(interrupt_id="two", reason="confirmation", message="And this?")
    else:
        yield ";".join(f"{each.interrupt_id}={each.payload}" for each in request.resume)


def answer(run_id: str, *answers: tuple[str, Any], messages: tuple[Message, ...] = ()) -> RunRequest:
    resume = tuple(Resume(interrupt_id=id, payload=payload) for id, payload in answers)
    return RunRequest(run_id=run_id, thread_id="t", messages=messages, resume=resume)


async def questioned(runs: Runs) -> list[str]:
    """Let an agent ask twice; the public ids of its questions."""
    record = await begun(runs, asks, RunRequest(run_id="r1", thread_id="t", messages=(user("u1"),)))
    entries = await followed(runs, record)
    return [entry.event.interrupt_id for entry in entries if isinstance(entry.event, Interrupted)]


def user(id: str) -> Message:
    return Message(id=id, role="user", content="go")


@pytest.mark.parametrize("public", [True, False])
async def test_the_answer_goes_on_as_the_same_task_under_the_sources_own_names(public: bool) -> None:
    runs = Runs()
    ids = await questioned(runs) if public else (await questioned(runs), ["one", "two"])[1]
    record = await begun(runs, asks, answer("r2", (ids[1], "yes"), (ids[0], "no")))
    first = (await followed(runs, record))[0].event
    assert said(await followed(runs, record)) == "two=yes;one=no"
    before = (await runs.thread("t", LOCAL))[0].record
    assert before.status is Status.INTERRUPTED
    assert (record.continues, record.task_id, record.branch) == ("r1", before.task_id, before.branch)
    assert isinstance(first, RunStarted) and (first.continues, first.task_id) == ("r1", before.task_id)


async def test_an_answer_goes_on_from_the_question_whatever_copy_comes_with_it() -> None:
    runs = Runs()
    ids = await questioned(runs)
    record = await begun(runs, asks, answer("r2", (ids[0], 1), messages=(user("u1"),)))
    assert (record.parent, record.branch) == ((await runs.thread("t", LOCAL))[0].record.key, "")


async def test_a_question_that_nobody_asked_cannot_be_answered() -> None:
    runs = Runs()
    await questioned(runs)
    with pytest.raises(Conflict, match="no open question 'three'") as raised:
        await begun(runs, asks, answer("r2", ("three", 1)))
    assert raised.value.code == "unknown_interrupt"
    await followed(runs, await begun(runs, asks, answer("r2", ("one", 1))))
    with pytest.raises(Conflict, match="open: none"):
        await begun(runs, asks, answer("r3", ("one", 1)))


async def test_where_nothing_is_known_the_answer_is_the_sources_to_judge() -> None:
    runs = Runs()
    assert said(await followed(runs, await begun(runs, asks, answer("r1", ("one", 1))))) == "one=1"


async def test_who_says_something_else_instead_of_answering_begins_a_new_task() -> None:
    runs = Runs()
    await questioned(runs)
    record = await begun(runs, asks, RunRequest(run_id="r2", thread_id="t", messages=(user("u2"),)))
    assert record.continues is None
    assert record.task_id != (await runs.thread("t", LOCAL))[0].record.task_id


async def test_the_answer_to_another_agent_is_no_answer() -> None:
    runs = Runs()
    ids = await questioned(runs)
    with pytest.raises(Conflict, match="waits for an answer to the agent 'agent', not to 'other'") as refused:
        await runs.start(PythonSource(asks), answer("r2", (ids[0], "yes")), LOCAL, agent="other")
    assert refused.value.code == "unknown_interrupt"


async def test_who_waits_for_an_answer_hears_that_there_will_be_none() -> None:
    runs = Runs()
    await questioned(runs)
    asked = await runs.get("r1", LOCAL)
    waiting = asyncio.create_task(runs.continuation(asked))
    await asyncio.sleep(0)  # noqa: TID251 (a turn, in which it begins to wait)
    await followed(runs, await begun(runs, asks, RunRequest(run_id="r2", thread_id="t", messages=(user("u2"),))))
    async with asyncio.timeout(WAIT_S):
        assert await waiting is None and await runs.continuation(asked) is None
        waiting = asyncio.create_task(runs.continuation(await runs.get("r2", LOCAL)))
        await asyncio.sleep(0)  # noqa: TID251 (the same)
        await runs.delete_thread("t", LOCAL)
        for each in (waiting, runs.continuation(asked)):
            with pytest.raises(NotFound):
                await each


async def test_a_question_is_withdrawn_also_when_its_caller_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, made, go = Runs(), Signal(), asyncio.Event()
    await questioned(runs)
    create = runs.table.create

    async def slowly(*args: Any) -> Any:
        record = await create(*args)
        made.set()
        await go.wait()
        return record

    monkeypatch.setattr(runs.table, "create", slowly)
    leaving = asyncio.create_task(runs.withdraw(PythonSource(asks), "r1", LOCAL))
    await made.wait()
    leaving.cancel()
    await asyncio.wait((leaving,))
    go.set()
    await followed(runs, await runs.get("r1:withdrawn", LOCAL))
    assert (await runs.get("r1:withdrawn", LOCAL)).status is Status.CANCELLED
