"""Streams of agents on the official SDK of A2A 1.0 that are cut: the text is exact, from a server that repeats some."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from anabranch import events as ev
from anabranch.demo._process import started
from tests.agents.cut import Way, cutting
from tests.agents.modern import words
from tests.sources.a2a._running import run, sent, source_of

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=["0", "2000"], ids=["unpaced", "paced"])
async def modern(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """An agent that does what the question says."""
    async with started("tests.agents.modern", "--rate", request.param) as url:
        yield url


@pytest.mark.parametrize("way", ["reset", "inside", "close", "end"])
@pytest.mark.parametrize("mode", ["long", "same", "several", "status_text"])
async def test_a_stream_is_cut_anywhere_and_the_next_one_too_and_the_text_is_exact(
    modern: str, mode: str, way: Way
) -> None:
    text, chance = "".join(words(mode)), random.Random(f"{mode} {way}")
    before = (await sent(modern))["requests"]
    for _ in range(3):
        places = chance.randint(2, 250), chance.randint(0, 40)
        async with cutting(modern, *places, way=way) as cut, source_of(cut.url, idle_s=5) as source:
            done = await run(source, f"mode={mode}")
        assert (done.text, done.shown, done.end) == (text, text, "success"), places
    assert (await sent(modern))["requests"] == before + 3


async def test_a_crash_is_told_by_the_agent_and_nothing_is_asked_again(modern: str) -> None:
    async with source_of(modern) as source:
        done = await run(source, "mode=crash")
    assert "".join(words("crash")).startswith(done.text)
    assert isinstance(done.last, ev.RunFailed) and done.last.code == "agent_failed"


async def test_an_agent_that_stops_and_does_not_say_so_has_no_end(modern: str) -> None:
    async with source_of(modern, idle_s=0.5) as source:
        done = await run(source, "mode=no_terminal")
    assert (done.text, done.end) == ("".join(words("no_terminal")[:20]), "no_end")
