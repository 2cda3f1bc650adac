"""Time, and agents that end and come back: what is bounded, what is told meanwhile, what is remembered."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import ask, body, served

from anabranch.app import App
from anabranch.config import parse
from anabranch.demo._process import started
from anabranch.request import RunRequest
from anabranch.sources import relay
from tests.agents.remote import pieces
from tests.sources.a2a._cases import DONE, TASK, artifact
from tests.sources.a2a._raw import Request
from tests.supervisor.faulty import CONFIG, TOKEN, WAYS, Faulty, modelled, system
from tests.supervisor.spine import free_port
from tests.supervisor.test_failures import (
    APPS,
    QUESTION,
    failures,
    goes_on,
    kept_apart,
    on_all_ways,
    routes,
    text,
)
from tests.supervisor.test_failures_hop import until

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
async def model(anyio_backend: str) -> AsyncIterator[str]:
    async with modelled() as url:
        yield url


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMODOR_TOKEN", TOKEN)


class Talker(Faulty):
    """An agent that says something again and again: ``times``, or without an end."""

    def __init__(self, times: int | None = None, every_s: float = 0.05) -> None:
        super().__init__()
        self.times, self.every_s = times, every_s

    async def _answers(self, request: Request, *, asks: bool) -> None:
        if not self.every_s:
            return await super()._answers(request, asks=asks)
        await request.begin()
        await request.event(TASK)
        for n in itertools.count() if self.times is None else range(self.times):
            await request.event(artifact("ha ", append=n > 0))
            await asyncio.sleep(self.every_s)  # noqa: TID251  the pace is the subject
        await request.event(DONE)
        await request.end()

    def heals(self) -> None:
        super().heals()
        self.every_s = 0


async def test_the_total_time_ends_an_agent_that_talks_without_an_end_and_cancels_its_task(model: str) -> None:
    talker = Talker()
    async with system(talker, more=", total: 1s", model=model) as them:
        for way, events in (await on_all_ways(them)).items():
            kept_apart(way, events, ("agent_timeout_total", "The agent komodor did not finish within 1 s."))
            assert "ha ha ha" in text(events, "komodor")
        await until(lambda: talker.calls.count("CancelTask") == len(WAYS))
        assert len(talker.sent) == len(WAYS)
        await goes_on(them)


async def test_an_agent_that_goes_on_talking_may_take_much_longer_than_it_may_be_silent(model: str) -> None:
    async with system(Talker(times=12, every_s=0.1), wait="600ms", model=model) as them:
        begun = time.monotonic()
        events = await them.turn("t", QUESTION, "direct")
        assert time.monotonic() - begun > 1.1
        assert failures(events) == [] and text(events, "komodor") == "ha " * 12


@pytest.mark.parametrize("way", WAYS)
async def test_that_an_agent_is_silent_is_told_while_it_is_waited_for(
    model: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(relay, "SILENCE_S", 0.1)
    async with system(Faulty("task", "hang"), wait="500ms", model=model) as them:
        events = await them.turn("t", QUESTION, way)
    names = {event["subagentRunId"]: event["name"] for event in events if event["type"] == "SUBAGENT_STARTED"}
    silent = [event for event in events if event.get("name") == relay.SILENT]
    told = [event["value"]["seconds"] for event in silent if names[event["subagentRunId"]] == "komodor"]
    assert len(told) >= 2 and told == pytest.approx([0.1 * n for n in range(1, len(told) + 1)])
    last = max(n for n, event in enumerate(events) if event in silent)
    assert last < next(n for n, event in enumerate(events) if event["type"] == "SUBAGENT_ERROR")


@pytest.mark.parametrize("way", ["direct", "supervised"])
async def test_a_cancel_goes_down_two_levels_to_both_agents_and_comes_up_as_one(model: str, way: str) -> None:
    """A supervisor behind a supervisor; the agents at the bottom are told, though one of them does not answer."""
    bottom = [Faulty("text", "hang"), Faulty("text", "hang")]
    bottom[1].cancel = "hang"
    async with asyncio.timeout(30), AsyncExitStack() as stack, system(bottom[0], model=model) as first:
        second = await stack.enter_async_context(system(bottom[1], model=model))
        given = {"model": model, "komodor": first.faulty_url, "argocd": second.faulty_url, "wait": "20s", "more": ""}
        inner = await stack.enter_async_context(served(App.from_config(parse(CONFIG % given))))
        given |= {"komodor": f"{inner}/a2a/supervisor", "argocd": f"{inner}/a2a/supervisor"}
        outer = await stack.enter_async_context(served(App.from_config(parse(CONFIG % given))))
        asked = body("r", "t", "komodor and argocd, please", forwardedProps={"anabranch": {"agent": WAYS[way]}})
        turn = asyncio.create_task(ask(outer, "POST", "/agui", asked))
        lanes = 1 if way == "direct" else 2
        await until(lambda: all(agent.reached == lanes for agent in bottom))
        begun = time.monotonic()
        assert (await ask(outer, "POST", "/runs/r/cancel")).status == 202
        events = (await turn).events
        assert time.monotonic() - begun < 2, "the run waits for the agent that does not answer"
        ends = [event for event in events if event["type"] in ("RUN_FINISHED", "RUN_ERROR")]
        assert [end.get("outcome") for end in ends] == [{"type": "cancelled"}] and events[-1] is ends[0]
        await until(lambda: all(agent.calls.count("CancelTask") == lanes for agent in bottom))
        assert [len(agent.sent) for agent in bottom] == [lanes, lanes]


# --- agents that end and come back: real processes -------------------------------------------------------------------


async def killed(marker: str) -> None:
    """Kill the child process whose command line has ``marker``, as a crash would."""
    [child] = [each for each in psutil.Process().children() if marker in " ".join(each.cmdline())]
    child.kill()
    await asyncio.to_thread(psutil.wait_procs, [child], timeout=10)


@pytest.mark.process
@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_that_is_started_late_killed_and_started_again_is_used_by_the_next_run(
    model: str, way: str
) -> None:
    port = free_port()

    def agent() -> Any:
        return started("tests.agents.remote", "--name", "komodor", "--rate", "0", port=port)

    async with system(Faulty(), url=f"http://127.0.0.1:{port}", wait="5s", model=model) as them:
        events = await them.turn("t", QUESTION, way)
        assert {name for name, *_ in failures(events)} == {"komodor"}, "it is not there yet"
        async with agent():
            events = await them.turn("t", QUESTION, way)
            assert failures(events) == [] and text(events, "komodor") == "".join(pieces("ok"))
            events = await them.turn("t", f"{QUESTION} mode=killed_mid", way)
            kept_apart(
                way,
                events,
                ("agent_disconnected", "The agent komodor closed the connection in the middle of its answer."),
            )
            assert text(events, "komodor") == "".join(pieces("killed_mid"))
        async with agent():
            events = await them.turn("t", QUESTION, way)
            assert failures(events) == [] and text(events, "komodor") == "".join(pieces("ok"))
            assert len(routes(events)) == 1 and (way == "direct" or text(events, "argocd") == APPS)


async def remembers(request: RunRequest) -> AsyncIterator[str]:
    """An agent that says what the user has told it in this conversation."""
    yield " | ".join(message.content for message in request.messages if message.role == "user")


@pytest.mark.process
async def test_an_agent_that_is_killed_and_started_again_goes_on_in_the_conversation_it_had(
    model: str, tmp_path: Path
) -> None:
    config = tmp_path / "komodor.yaml"
    config.write_text(
        'agents: {komodor: {python: "tests.supervisor.test_budgets:remembers"}}\n'
        f'storage: "sqlite:///{tmp_path / "komodor.db"}"\n'
    )
    port = free_port()
    async with system(Faulty(), url=f"http://127.0.0.1:{port}", wait="5s", model=model) as them:
        async with started("anabranch.demo.server", str(config), port=port):
            assert text(await them.turn("t", "one", "direct"), "komodor") == "one"
            await killed(str(config))
        events = await them.turn("t", "nobody hears this", "direct")
        assert routes(events)[1:] == [("supervisor", "direct")] and {name for name, *_ in failures(events)} == {
            "komodor"
        }
        async with started("anabranch.demo.server", str(config), port=port):
            assert text(await them.turn("t", "two", "direct"), "komodor") == "one | two"
            assert text(await them.turn("another", "three", "direct"), "komodor") == "three"
