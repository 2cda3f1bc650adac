"""The bug catalogue: what leaks into an answer (B-19 to B-23), and failure and control (B-24 to B-32)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from a2a_serving import message, send, streamed
from serving import ask, body, echo, sent, served

from anabranch.app import App
from tests.agents.asking import LOOKING, QUESTION
from tests.agents.remote import pieces
from tests.sources.langgraph.graphs import asks_for, model, says
from tests.supervisor.catalogue import (
    DIRECT,
    FORWARD,
    ONE_EACH,
    PARALLEL,
    SYNTHESIZE,
    TEXT,
    WAYS,
    System,
    Way,
    agents_of,
    expected,
    frames,
    running,
    scripted,
    summed_up,
)
from tests.supervisor.showing import Json, Shown, Task

pytestmark = [pytest.mark.faults, pytest.mark.process, pytest.mark.timeout(300)]  # the first one makes the environment
HALF = "".join(pieces("hang"))
CLIENTS = ("AG-UI", "A2A", "Web", "Slack", "Cli")
PLAN = "I make a plan first, then I ask komodor – in parallel, if there are several. "

every_way = pytest.mark.parametrize("way", WAYS, ids=str)
one_each = pytest.mark.parametrize("way", ONE_EACH, ids=str)


@pytest.fixture(scope="module")
async def system(anyio_backend: str) -> AsyncIterator[System]:
    async with running() as system:
        yield system


# --- leaks -----------------------------------------------------------------------------------------------------------


# B-19
@pytest.mark.parametrize("way", [FORWARD, SYNTHESIZE], ids=str)
async def test_what_is_said_on_the_way_to_an_answer_is_narration_for_every_client(system: System, way: Way) -> None:
    shown, task = await system.runs(way, "ok"), Task(await system.streams(way, "ok"))
    assert shown.of("", "narration") == PLAN and shown.answer == expected(way)
    assert [task.texts[id] for id, phase in task.phases.items() if phase == "narration"] == [PLAN]
    assert task.answer == expected(way)
    web, *_ = await system.assembled(way, "ok")
    assert PLAN in "".join(web.thinking.values())  # type: ignore[union-attr]
    assert "".join(web.bubble.values()) in ("", expected(way))  # type: ignore[union-attr]


# B-20: what looks like a mark of somebody's protocol. B-28, B-31: what sounds like a failure, and is none.
SAYINGS = {
    "B-20 the answer is marked": "[FINAL ANSWER] done [/FINAL ANSWER] is_task_complete=yes ",
    "B-20 a plan": "\u27e6plan: one\u27e7 🔧 Calling Agent X ",
    "B-20 an object": 'As JSON: {"status": "completed", "is_task_complete": true} ',
    "B-20 an event": "event: RUN_FINISHED\ndata: {}\n\nthat was it ",
    "B-28 an error": "Error: the agent komodor failed (agent_failed): the build failed ",
    "B-31 a refusal": "The request was rejected, cancelled and denied; input-required. ",
}


@pytest.mark.parametrize("said", SAYINGS.values(), ids=SAYINGS.keys())
async def test_whatever_a_text_looks_like_it_is_a_text(said: str) -> None:
    async with served(App({"echo": echo})) as far:
        agents = {name: f"{far}/a2a/echo" for name in ("komodor", "argocd")}
        both = asks_for(*((f"c{n}", f"ask_{name}", json.dumps({"question": said})) for n, name in enumerate(agents)))
        async with scripted(model(both, says(*said.split(" "))), agents, "forward") as url:
            for pin in ("komodor", ["komodor", "argocd"], "supervisor"):
                options = {"anabranch": {"agent": pin}}
                shown = Shown(
                    (await ask(url, "POST", "/agui", body(f"r-{len(pin)}", text=said, forwardedProps=options))).events
                )
                async with streamed(
                    url, "SendStreamingMessage", {"message": message(said, metadata=options)}
                ) as stream:
                    task = Task([each async for each in stream])
                times = 1 if pin == "komodor" else 2
                assert shown.answer == task.answer == task.text == said * times
                assert (shown.ended, task.state, shown.failed) == ("success", "COMPLETED", {})
                assert [result for results in shown.results.values() for result in results] == [(said, False)] * times


# B-20
async def test_neither_is_a_mark_in_the_words_of_the_model() -> None:
    words = ["[FINAL", " ANSWER]", " \u27e6", "x\u27e7", ' {"status":', ' "completed"}']
    async with scripted(model(says(*words)), {}) as url:
        shown = Shown((await ask(url, "POST", "/agui", body())).events)
    assert shown.answer == "".join(words) and [*shown.deltas.values()] == [words]


# B-23
@every_way
async def test_that_an_agent_still_works_is_not_in_its_answer(system: System, way: Way) -> None:
    assert await system.everywhere(way, "heartbeat") == dict.fromkeys(CLIENTS, (expected(way), "COMPLETED"))
    for agent in agents_of(way):
        assert system.last.results[f"ask_{agent}"] == [(TEXT, False)]
        assert "still working" in system.last.of(agent, "progress")


# --- failure and control ---------------------------------------------------------------------------------------------


async def until_half(wire: Any, agents: tuple[str, ...]) -> list[Json]:
    """Read until each agent has said half of its text and is silent."""
    events: list[Json] = []
    async for chunk in wire:
        events += frames(chunk)
        shown = Shown([*events, {"type": "RUN_FINISHED"}])
        if all(shown.of(agent) == HALF for agent in agents):
            return events
    raise AssertionError("the stream has ended")


# B-24
@every_way
async def test_a_thread_goes_on_after_a_cancel_in_the_middle_of_its_agents(system: System, way: Way) -> None:
    agents, url = agents_of(way), system.urls[way.policy]
    asked = system.body(way, way.question(agents, "hang"), agents, thread := f"cancelled-{way}")
    before = await system.counts()
    async with asyncio.timeout(20), sent(url, "POST", "/agui", asked) as wire:
        await wire.head()
        events = await until_half(wire, agents)
        assert (await ask(url, "POST", f"/runs/{asked['runId']}/cancel")).status == 202
        events += [each for chunk in await wire.chunks() for each in frames(chunk)]
    shown = Shown(events)
    assert (shown.ended, shown.failed) == ("cancelled", dict.fromkeys(agents, "cancelled"))
    assert all(is_error for agent in agents for _, is_error in shown.results[f"ask_{agent}"])
    async with asyncio.timeout(10):
        for agent in agents:
            while (await system.counts())[f"{agent} cancels"] == before[f"{agent} cancels"]:
                pass
    # The model refuses a conversation in which a call has no result.
    again = await system.shown(
        SYNTHESIZE._replace(policy=way.policy), system.body(SYNTHESIZE, "komodor, mode=ok", agents, thread)
    )
    assert again.ended == "success" and again.results["ask_komodor"] == [(TEXT, False)]
    heard = (await system.get(f"{system.model}/heard"))["heard"][-1]
    assert [said["content"] for said in heard if said["role"] == "user"] == [
        asked["messages"][0]["content"],
        "komodor, mode=ok",
    ]


# B-25, B-26
@pytest.mark.parametrize("way", [DIRECT, PARALLEL, FORWARD, SYNTHESIZE], ids=str)
async def test_a_question_is_no_failure_and_its_answer_starts_no_agent_again(system: System, way: Way) -> None:
    agents = ("jira", "komodor") if way == PARALLEL else ("jira",)
    thread, before = f"asked-{way}", await system.counts()
    known = len((await system.sent("jira"))["messages"])
    first = await system.shown(way, system.body(way, way.question(agents, "ok"), agents, thread))
    assert (first.ended, first.failed) == ("interrupt", {}) and "ask_jira" not in first.results
    [asked] = first.end["outcome"]["interrupts"]
    assert asked["message"] == QUESTION
    answer = [{"interruptId": asked["id"], "status": "resolved", "payload": "prod"}]
    second = await system.shown(way, system.body(way, None, agents, thread, resume=answer))
    assert (second.ended, second.failed) == ("success", {})
    said = (await system.sent("jira"))["messages"][known:]
    assert len(said) == 2 and said[1]["text"] == "prod"
    assert [said[1][id] for id in ("taskId", "contextId")] == [said[0][id] for id in ("taskId", "contextId")]
    after = await system.counts()
    assert after["komodor requests"] - before["komodor requests"] == (way == PARALLEL)
    assert after["model"] - before["model"] == way.calls
    # `Shown` accepts no word of an agent that was not announced in its own stream: the lane is opened again.
    assert "jira" in second.agents.values() and second.of("jira").endswith("In prod: 3 pods.")
    assert first.of("jira") == LOOKING and second.results["ask_jira"][0][1] is False


# B-25
@pytest.mark.parametrize("way", [DIRECT, FORWARD, SYNTHESIZE], ids=str)
async def test_a_plain_client_answers_the_question_of_an_agent_by_its_task(system: System, way: Way) -> None:
    known, url = len((await system.sent("jira"))["messages"]), system.urls[way.policy]
    asked = await send(url, message(way.question(["jira"], "ok"), metadata=way.pin(["jira"])))
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert asked["status"]["message"]["parts"][0]["text"] == QUESTION
    done = await send(url, message("prod", taskId=asked["id"], metadata=way.pin(["jira"])))
    assert (done["id"], done["status"]["state"]) == (asked["id"], "TASK_STATE_COMPLETED")
    assert [said["text"] for said in (await system.sent("jira"))["messages"][known:]][1:] == ["prod"]


# B-25
async def test_a_question_two_servers_down_is_asked_once_and_answered_where_it_was_asked(system: System) -> None:
    chat = model(asks_for(("c1", "ask_platform", '{"question": "jira, please mode=ok"}')), says("done"))
    before = len((await system.sent("jira"))["messages"])
    async with scripted(chat, {"platform": system.urls["synthesize"]}) as url:
        first = Shown((await ask(url, "POST", "/agui", body("r1", "t", "go"))).events)
        [asked] = first.end["outcome"]["interrupts"]
        assert asked["message"] == QUESTION and first.failed == {}
        resume = [{"interruptId": asked["id"], "status": "resolved", "payload": "prod"}]
        second = Shown((await ask(url, "POST", "/agui", body("r2", "t", messages=[], resume=resume))).events)
    assert (second.ended, second.answer, second.failed) == ("success", "done", {})
    assert [said["text"] for said in (await system.sent("jira"))["messages"][before:]][1:] == ["prod"]


# B-29
@every_way
async def test_a_run_that_succeeds_is_no_failure_in_any_log_and_cancels_nothing(
    system: System, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    async with system.counting(way):
        await system.runs(way, "ok")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


# B-32
@every_way
async def test_a_blocking_call_gives_what_a_stream_gives_and_no_text_of_others(system: System, way: Way) -> None:
    agents = agents_of(way)
    task = await send(system.urls[way.policy], message(way.question(agents, "ok"), metadata=way.pin(agents)))
    texts = ["".join(part["text"] for part in made["parts"]) for made in task["artifacts"]]
    answers = [TEXT] * len(agents) if way.forwards else [summed_up(TEXT)]
    assert texts == [*[PLAN] * (way.calls > 0), *answers]


# B-32
@pytest.mark.parametrize("policy", ["forward", "synthesize"])
async def test_what_a_supervisor_is_told_of_another_one_is_that_ones_answer(system: System, policy: str) -> None:
    far = "@supervisor komodor, please mode=ok"
    chat = model(asks_for(("c1", "ask_platform", json.dumps({"question": far}))), says("done"))
    answer = TEXT if policy == "forward" else summed_up(TEXT)
    async with scripted(chat, {"platform": system.urls[policy]}, "forward") as url:
        for pin, run in (("supervisor", "r1"), ("platform", "r2")):
            options = {"anabranch": {"agent": pin}}
            shown = Shown((await ask(url, "POST", "/agui", body(run, text=far, forwardedProps=options))).events)
            assert shown.answer == answer
            assert shown.results["ask_platform"] == [(answer, False)], pin
            assert shown.of("komodor") == TEXT
