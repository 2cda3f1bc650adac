"""Agents that misbehave, as tools of a supervisor: what the user reads in their lanes and what the model is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from serving import ask, body, served

from anabranch.app import App
from anabranch.config import Server
from anabranch.demo._process import started
from anabranch.sources.a2a import A2ASource
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.graph import supervisor_graph
from tests import environments
from tests.agents import remote
from tests.agents.cut import cutting
from tests.agents.test_old import HALF, LONG, MODES, SCRIPT
from tests.sources.langgraph.graphs import asks_for, model, says

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]  # the first one makes the environment


@pytest.fixture(scope="module")
async def old() -> AsyncIterator[str]:
    """An agent on the SDK of 0.3."""
    async with environments.started(environments.python("a2a-0.3"), SCRIPT, "--rate", "0") as url:
        yield url


@asynccontextmanager
async def supervised(agent: str, mode: str) -> AsyncIterator[str]:
    """A server whose supervisor asks ``agent`` once."""
    source = A2ASource(agent, name="old", idle_s=1)
    chat = model(asks_for(("c1", "ask_old", f'{{"question": "mode={mode}"}}')), says("done"))
    app = App({"agent": supervisor_graph(chat, [delegate("old", source)])}, server=Server(stop_grace=0))
    try:
        async with asyncio.timeout(20), served(app) as url:
            yield url
    finally:
        await source.aclose()


async def told(agent: str, mode: str) -> tuple[str, str]:
    """The text in the agent's lane, without what was beside the answer, and what the model is told."""
    async with supervised(agent, mode) as url:
        events = (await ask(url, "POST", "/agui", body())).events
    lane = [event for event in events if "subagentRunId" in event]
    texts: dict[str, str] = {}
    for event in lane:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
    results = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert len(results) == 1 and events[-1]["type"] == "RUN_FINISHED", "the failure of an agent is not the run's"
    return "".join(texts.values()), results[0]


PLAIN = [mode for mode, right in MODES.items() if right.end == "success" and not right.progress and right.text]


@pytest.mark.parametrize("mode", PLAIN)
async def test_an_old_agent_that_answers_is_read_once_and_the_model_is_told_the_same(old: str, mode: str) -> None:
    assert await told(old, mode) == (MODES[mode].text,) * 2


@pytest.mark.parametrize("mode", ["caipe", "heartbeat", "echo_user"])
async def test_what_an_old_agent_says_beside_its_answer_is_not_told_to_the_model(old: str, mode: str) -> None:
    shown, result = await told(old, mode)
    assert result == MODES[mode].text
    assert len(shown) == len(MODES[mode].text + MODES[mode].progress)


@pytest.mark.parametrize(
    ("mode", "said", "why"),
    [
        ("failed", HALF, "the cluster does not answer"),
        ("rejected", "", "not my business"),
        ("error_completed", "", "no access to the cluster"),
        ("no_terminal", MODES["ok"].text, "stream ended before its task did"),
    ],
)
async def test_an_old_agent_that_fails_tells_the_model_why_and_what_it_had_said(
    old: str, mode: str, said: str, why: str
) -> None:
    _, result = await told(old, mode)
    assert result.startswith("Error: the agent old failed") and why in result
    assert result.endswith(said)


async def test_a_lane_whose_connection_breaks_goes_on_and_the_model_is_told_the_whole(old: str) -> None:
    async with cutting(old, 150) as cut:
        assert await told(cut.url, "long") == (LONG, LONG)


@pytest.mark.parametrize("mode", [mode for mode in remote.WHOLE if mode not in ("killed_end", "no_terminal")])
async def test_an_agent_of_1_0_that_misbehaves_tells_the_model_its_text_once(mode: str) -> None:
    async with started("tests.agents.remote", "--rate", "0", "--name", "old") as url:
        assert (await told(url, mode))[1] == "".join(remote.TOKENS)
