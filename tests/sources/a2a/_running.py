"""Runs of a source against agents, through translator and grammar, to their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
from referee import judged

from anabranch import events as ev
from anabranch.errors import SourceError
from anabranch.grammar import Grammar
from anabranch.request import Message, RunRequest
from anabranch.sources.a2a import A2ASource, A2ATranslator


def asks(text: str) -> RunRequest:
    earlier = Message(id="0", role="user", content="an earlier question")
    return RunRequest(run_id="r", thread_id="t", messages=(earlier, Message(id="1", role="user", content=text)))


class Run:
    """One run of a source through translator and grammar, to its end.

    ``shown`` is what a reader has of the answer, ``progress`` what was beside it.
    """

    def __init__(self, translator: A2ATranslator, events: list[ev.Event], error: Exception | None) -> None:
        self.text, self.parts, self.remote, self.error = translator.text, translator.parts, translator.remote, error
        self.last = events[-1]
        self.end = self.last.code if isinstance(self.last, ev.RunFailed) else self.last.outcome  # type: ignore[union-attr]
        texts: dict[str, list[str]] = {}
        beside = set()
        for event in events:
            if isinstance(event, ev.TextDelta):
                texts.setdefault(event.message_id, []).append(event.delta)
            elif isinstance(event, ev.MessageReset):
                texts.pop(event.message_id)
            elif isinstance(event, ev.MessageFinished) and event.phase == "progress":
                beside.add(event.message_id)
        self.shown = "".join("".join(pieces) for id, pieces in texts.items() if id not in beside)
        self.progress = "".join("".join(pieces) for id, pieces in texts.items() if id in beside)


async def run(source: A2ASource, text: str = "hi", **options: str) -> Run:
    request, grammar, error = asks(text), Grammar(), None
    translator = source.translator(request)
    events = grammar.feed(ev.RunStarted(run_id="r", thread_id="t"))
    try:
        async with asyncio.timeout(20), aclosing(source.open(request, **options)) as items:
            async for item in items:
                events += [legal for event in translator.feed(item) for legal in grammar.feed(event)]
                if grammar.ended:
                    break
    except SourceError as failure:
        error = failure
    events += [legal for event in translator.close(error) for legal in grammar.feed(event)]
    events += grammar.close(error)
    judged(events)
    assert grammar.repairs == {}
    return Run(translator, events, error)


@asynccontextmanager
async def source_of(url: str, **options: Any) -> AsyncIterator[A2ASource]:
    source = A2ASource(url, **options)
    try:
        yield source
    finally:
        async with asyncio.timeout(10):
            await source.aclose()


async def sent(url: str) -> dict[str, Any]:
    """What an agent says that it was asked and has sent."""
    async with aiohttp.ClientSession() as client, client.get(f"{url}/sent") as response:
        return dict(await response.json())
