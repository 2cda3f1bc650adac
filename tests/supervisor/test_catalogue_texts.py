"""The bug catalogue: what is said twice or done twice (B-01 to B-08), and what gets lost (B-09 to B-18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from a2a_serving import message, streamed
from serving import ask, body, sent

from tests.agents.model import DIALECTS
from tests.agents.remote import FRAMINGS, pieces
from tests.sources.langgraph.graphs import asks_for, model, says
from tests.supervisor.catalogue import (
    ALL,
    DIRECT,
    FORWARD,
    ONE_EACH,
    PARALLEL,
    RUNS,
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
from tests.supervisor.showing import Shown, Task

pytestmark = [pytest.mark.faults, pytest.mark.process, pytest.mark.timeout(300)]  # the first one makes the environment
HALF = "".join(pieces("hang"))
CLIENTS = ("AG-UI", "A2A", "Web", "Slack", "Cli")

FORWARDING = (DIRECT, PARALLEL, FORWARD)
"""Where the answer is what agents say, to the last character."""

every_way = pytest.mark.parametrize("way", WAYS, ids=str)
one_each = pytest.mark.parametrize("way", ONE_EACH, ids=str)


@pytest.fixture(scope="module")
async def system(anyio_backend: str) -> AsyncIterator[System]:
    async with running() as system:
        yield system


# --- twice -----------------------------------------------------------------------------------------------------------


# B-01
@pytest.mark.parametrize("way", ALL, ids=str)
@pytest.mark.parametrize("mode", ["empty", "data_part", "message_only", "status_text", "error_completed", "failed"])
async def test_an_agent_is_asked_once_whatever_comes_of_it(system: System, way: Way, mode: str) -> None:
    answers = mode not in ("empty", "error_completed", "failed")
    async with system.counting(way, calls=3 if way == FORWARD and not answers else None):
        shown = await system.runs(way, mode)
    fails = mode in ("error_completed", "failed")
    assert shown.failed.keys() == (set(agents_of(way)) if fails else set())
    assert shown.ended == ("agent_failed" if fails and way.calls == 0 else "success")
    if mode == "empty":
        assert [shown.results[f"ask_{agent}"] for agent in agents_of(way)] == [[("", False)]] * len(agents_of(way))


# B-02, B-05 and B-07: the text comes again, whole, as another artifact or status, or each piece holds those before it.
# Two pieces of it are equal and follow each other: nothing may take them for a repetition.
@pytest.mark.parametrize("way", FORWARDING, ids=str)
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("final_recap", id="B-02 the end repeats it"),
        pytest.param("status_then_artifact", id="B-02 chunks and then the artifact"),
        pytest.param("caipe", id="B-05 a result after the chunks"),
        pytest.param("cumulative", id="B-07 each piece with those before it"),
        pytest.param("terminal_twice", id="B-07 two ends"),
    ],
)
async def test_what_an_agent_sends_twice_is_said_once_to_every_client(system: System, way: Way, mode: str) -> None:
    async with system.counting(way, RUNS):
        seen, shown = await system.everywhere(way, mode), system.last
    for agent in agents_of(way):
        assert shown.of(agent) == TEXT and shown.results[f"ask_{agent}"] == [(TEXT, False)]
    assert seen == dict.fromkeys(CLIENTS, (expected(way), "COMPLETED"))


# B-03
@pytest.mark.parametrize("way", ALL, ids=str)
async def test_the_supervisor_does_not_say_again_what_an_agent_said(system: System, way: Way) -> None:
    async with system.counting(way):
        shown = await system.runs(way, "ok")
    own = shown.of("", "", "answer")
    assert own == ("" if way.forwards else expected(way)) and TEXT not in shown.of("")
    assert shown.answer.count(TEXT) == (len(agents_of(way)) if way.forwards else 0)


# B-03
@pytest.mark.parametrize(("policy", "calls"), [("auto", 1), ("forward", 1), ("synthesize", 2)])
async def test_without_a_plan_each_policy_costs_what_it_says(system: System, policy: Any, calls: int) -> None:
    chat = model(asks_for(("c1", "ask_komodor", '{"question": "mode=ok"}')), says("done"))
    async with system.counting(DIRECT), scripted(chat, {"komodor": system.agents["komodor"]}, policy) as url:
        shown = Shown((await ask(url, "POST", "/agui", body(text="hello"))).events)
    assert (shown.answer, chat.calls) == (TEXT if calls == 1 else "done", calls)


# B-04
@pytest.mark.parametrize("way", [PARALLEL, FORWARD, SYNTHESIZE], ids=str)
async def test_the_answers_of_all_agents_are_shown_and_stay_in_order(system: System, way: Way) -> None:
    both = ("argocd", "komodor")
    for _ in range(3):
        shown = await system.runs(way, "ok", both)
        assert {agent: shown.of(agent) for agent in both} == dict.fromkeys(both, TEXT)
        assert shown.answer == (TEXT + TEXT if way.forwards else summed_up(TEXT, TEXT))
        if way == PARALLEL:
            assert [name for name in shown.agents.values() if name] == [*both]


# B-06
@pytest.mark.parametrize(
    ("way", "mode"),
    [*((way, "failed") for way in ALL), *((way, "rpc_error_mid") for way in ALL if way != PARALLEL)],
    ids=str,
)
async def test_what_was_shown_of_an_agent_that_fails_is_kept_and_not_begun_again(
    system: System, way: Way, mode: str
) -> None:
    async with system.counting(way, calls=3 if way == FORWARD else None):
        shown = await system.runs(way, mode)
    said = "".join(pieces(mode))
    for agent in agents_of(way):
        [(result, is_error)] = shown.results[f"ask_{agent}"]
        assert shown.of(agent) == said and result.count(said) == 1 and is_error
    assert said not in shown.answer
    assert (shown.ended != "success") == (way.calls == 0)


# B-08
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_of_any_dialect_says_its_text_once_and_asks_once(system: System, dialect: str) -> None:
    async with system.counting(SYNTHESIZE):
        shown = await system.runs(SYNTHESIZE, f"ok fault={dialect}")
    assert shown.answer == summed_up(TEXT) and shown.results["ask_komodor"] == [(TEXT, False)]
    plan = "I make a plan first, then I ask komodor – in parallel, if there are several. "
    assert shown.of("") == plan + shown.answer


# --- lost ------------------------------------------------------------------------------------------------------------


# B-09
@every_way
async def test_no_blank_line_or_character_of_an_answer_is_lost_or_added_at_any_client(system: System, way: Way) -> None:
    assert await system.everywhere(way, "ok") == dict.fromkeys(CLIENTS, (expected(way), "COMPLETED"))


# B-09
@pytest.mark.parametrize("mode", FRAMINGS)
@pytest.mark.parametrize("way", [DIRECT, FORWARD], ids=str)
async def test_neither_is_one_that_arrives_in_another_framing(system: System, way: Way, mode: str) -> None:
    shown = await system.runs(way, mode)
    assert shown.of("komodor") == shown.answer == TEXT


PLACES = {
    "append_first": "B-10 appended to nothing",
    "new_ids": "B-10 an artifact for each piece",
    "last_early": "B-11 pieces after the last one",
}


@pytest.mark.parametrize(
    ("way", "mode"),
    [
        *(pytest.param(way, mode, id=f"{name}-{way}") for way in FORWARDING for mode, name in PLACES.items()),
        pytest.param(PARALLEL, "pause_between", id="B-11 an artifact long after a finished one"),
    ],
)
async def test_no_piece_is_lost_whatever_an_agent_says_of_its_place(system: System, way: Way, mode: str) -> None:
    assert await system.everywhere(way, mode) == dict.fromkeys(CLIENTS, (expected(way), "COMPLETED"))


# B-12
@pytest.mark.parametrize("policy", ["auto", "forward", "synthesize"])
async def test_an_answer_without_any_tool_is_shown(system: System, policy: Any) -> None:
    async with scripted(model(says("I am ", "fine.")), {"komodor": system.agents["komodor"]}, policy) as url:
        shown = Shown((await ask(url, "POST", "/agui", body(text="hello"))).events)
        async with streamed(url, "SendStreamingMessage", {"message": message("hello")}) as stream:
            task = Task([each async for each in stream])
    assert shown.answer == task.answer == task.text == "I am fine."


# B-13
@pytest.mark.parametrize("arguments", ["{}", '{"question": null}', '{"query": "mode=ok"}', '{"question": {"a": 1}}'])
async def test_a_model_that_leaves_out_what_a_tool_needs_is_told_and_answers(system: System, arguments: str) -> None:
    chat = model(asks_for(("c1", "ask_komodor", arguments)), says("I could not ask."))
    before = await system.counts()
    async with scripted(chat, {"komodor": system.agents["komodor"]}, "forward") as url:
        shown = Shown((await ask(url, "POST", "/agui", body(text="hello"))).events)
    [(told, is_error)] = shown.results["ask_komodor"]
    assert is_error and "question" in told
    assert (shown.answer, shown.ended, chat.calls) == ("I could not ask.", "success", 2)
    assert await system.counts() == before


# B-14
async def test_an_agent_may_be_asked_again_after_another_one_and_after_it_failed(system: System) -> None:
    turns = [("ask_komodor", "failed"), ("ask_argocd", "ok"), ("ask_komodor", "ok"), ("ask_komodor", "empty")]
    script = [asks_for((f"c{n}", name, f'{{"question": "mode={mode}"}}')) for n, (name, mode) in enumerate(turns)]
    chat = model(*script, says("done"))
    agents = {name: system.agents[name] for name in ("komodor", "argocd")}
    async with scripted(chat, agents) as url:
        shown = Shown((await ask(url, "POST", "/agui", body(text="hello"))).events)
    assert [is_error for _, is_error in shown.results["ask_komodor"]] == [True, False, False]
    assert [text for text, _ in shown.results["ask_komodor"]][1:] == [TEXT, ""]
    assert shown.results["ask_argocd"] == [(TEXT, False)]
    assert (shown.answer, chat.calls) == ("done", 5)


# B-15
@pytest.mark.parametrize("way", [FORWARD, SYNTHESIZE], ids=str)
async def test_what_is_said_after_the_plan_is_shown_by_clients_that_follow_one_stream(system: System, way: Way) -> None:
    web, _, cli = await system.assembled(way, "new_ids")
    plan = web.names.index("execution_plan_update")
    assert web.plan and "final_result" in web.names[plan:]  # type: ignore[union-attr]
    assert len(web.bubble) <= 1, "one artifact has all of the answer"  # type: ignore[union-attr]
    assert web.answer == cli.answer == expected(way)


# B-16
@pytest.mark.parametrize(
    ("way", "mode", "why"),
    [
        (DIRECT, "failed", "the cluster does not answer"),
        (PARALLEL, "failed", "the cluster does not answer"),
        (DIRECT, "http_500", "HTTP 500"),
        (FORWARD, "ok fault=error_first", "the model is overloaded"),
        (SYNTHESIZE, "ok fault=drop_text turn=3", "The connection to the model was lost."),
    ],
    ids=str,
)
async def test_a_failure_is_the_end_for_every_client_and_says_why(
    system: System, way: Way, mode: str, why: str
) -> None:
    shown = await system.runs(way, mode)
    assert shown.end["type"] == "RUN_ERROR" and why in shown.end["message"]
    task = Task(await system.streams(way, mode))
    [part] = task.status["message"]["parts"]
    assert task.state == "FAILED" and part["text"] == shown.end["message"]
    assert {client.states[-1] for client in await system.assembled(way, mode)} == {"FAILED"}


# B-17 and B-30: nothing waits in a buffer, neither for what comes next nor for a clock.
@one_each
async def test_all_that_was_said_is_with_the_client_while_an_agent_thinks(system: System, way: Way) -> None:
    asked, events = system.body(way, way.question(agents_of(way), "hang"), agents_of(way)), []
    url = system.urls[way.policy]
    async with asyncio.timeout(4), sent(url, "POST", "/agui", asked) as wire:  # an agent may be silent for 5 s
        await wire.head()
        async with aclosing(aiter(wire)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                events += frames(chunk)
                shown = Shown([*events, {"type": "RUN_FINISHED"}])
                if all(shown.of(agent) == HALF for agent in agents_of(way)):
                    break
        assert (await ask(url, "POST", f"/runs/{asked['runId']}/cancel")).status == 202
    assert shown.of("", "narration").startswith("I make a plan first") or way.calls == 0
    lanes = [list(deltas) for deltas in shown.deltas.values() if "".join(deltas) == HALF]
    assert lanes == [list(pieces("hang"))] * len(agents_of(way)), "each piece came as it was"


# B-18
@every_way
async def test_a_run_that_succeeds_has_a_final_result_and_no_partial_one(system: System, way: Way) -> None:
    for client in await system.assembled(way, "caipe"):
        assert client.names.count("final_result") == 1 and "partial_result" not in client.names
        assert client.names[-1] == "final_result" and client.answer == expected(way)
