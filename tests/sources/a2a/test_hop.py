"""A remote agent that is one of ours: the source reads what its server sends, also when the connection breaks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator

import pytest
from serving import served

from anabranch import events as ev
from anabranch.app import App
from anabranch.request import RunRequest
from tests.agents.cut import Way, cutting

from ._running import run, source_of

WORDS = [f"{n} ".replace("7", "ha ha") for n in range(200)]
TEXT = "".join(WORDS)


async def words(request: RunRequest) -> AsyncGenerator[str, None]:
    """An agent that says its words as fast as it can."""
    for word in WORDS:
        yield word


async def slow_words(request: RunRequest) -> AsyncGenerator[str, None]:
    """An agent that is not over before it is asked to go on."""
    for word in WORDS:
        yield word
        await asyncio.sleep(0.001)  # noqa: TID251 - its pace is the subject


async def changes_its_mind(request: RunRequest) -> AsyncGenerator[ev.Event, None]:
    """An agent whose first answer was void."""
    yield ev.MessageStarted(message_id="1")
    yield ev.TextDelta(message_id="1", delta="draft")
    yield ev.MessageFinished(message_id="1")
    yield ev.MessageReset(message_id="1", superseded_by="2")
    yield ev.MessageStarted(message_id="2")
    yield ev.TextDelta(message_id="2", delta="final")
    yield ev.MessageFinished(message_id="2")


@pytest.mark.parametrize("way", ["reset", "inside", "close", "end"])
async def test_a_stream_of_an_agent_of_our_own_is_cut_anywhere_and_its_text_is_exact(way: Way) -> None:
    chance = random.Random(way)
    async with served(App({"fast": words, "slow": slow_words})) as url:
        for name in ("fast", "fast", "fast", "slow"):
            places = chance.randint(2, 100), chance.randint(1, 5), chance.randint(1, 5)
            async with cutting(url, *places, way=way) as cut, source_of(f"{cut.url}/a2a/{name}", idle_s=5) as source:
                done = await run(source)
            assert (done.text, done.shown, done.end) == (TEXT, TEXT, "success"), places
            assert name == "fast" or cut.streams > 1, "nobody asked for what follows"


@pytest.mark.parametrize("place", [None, 2, 3, 4, 5, 6, 7, 8])
async def test_what_an_agent_of_our_own_took_back_is_not_in_the_answer(place: int | None) -> None:
    places = [] if place is None else [place]
    async with (
        served(App({"agent": changes_its_mind})) as url,
        cutting(url, *places) as cut,
        source_of(cut.url, idle_s=5) as source,
    ):
        done = await run(source)
    assert (done.text, done.shown, done.end) == ("final", "final", "success")
