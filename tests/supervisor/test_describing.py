"""What the model is told of each agent when it is called: what the card says now, and that one is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents.middleware.types import ModelRequest
from langchain_core.tools import StructuredTool

from anabranch.sources.a2a import A2ASource
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.describing import describing
from anabranch.supervisor.registry import Registered
from tests.sources.a2a._raw import Request, card, raw
from tests.supervisor.spine import free_port


async def silent(request: Request) -> None:
    await request.answer(status=404)


def request(*tools: Any) -> Any:
    return ModelRequest(model=None, messages=[], tools=list(tools))  # type: ignore[arg-type]


@asynccontextmanager
async def known(url: str, description: str = "") -> AsyncIterator[Registered]:
    agent = Registered("komodor", A2ASource(url, name="komodor"), description=description)
    async with asyncio.timeout(10):
        try:
            yield agent
        finally:
            await agent.aclose()


async def seen(middleware: Any, asked: Any) -> list[str]:
    """The descriptions that the model gets."""

    async def model(given: Any) -> Any:
        return [tool["name"] if isinstance(tool, dict) else tool.description for tool in given.tools]

    found: list[str] = await middleware.awrap_model_call(asked, model)
    return found


async def test_the_description_is_the_cards_once_it_was_seen_and_follows_it() -> None:
    said = card(description="Knows clusters.", skills=[{"name": "list"}])
    async with raw(silent, said) as server, known(server.url) as agent:
        tool = delegate("komodor", agent)
        asked, middleware = request(tool, {"name": "web"}), describing({tool.name: agent})
        assert await seen(middleware, asked) == [tool.description, "web"]
        await agent.refresh()
        assert await seen(middleware, asked) == ["Knows clusters. Its skills: list.", "web"]
        said["description"] = "Knows pods."
        await agent.refresh()
        assert await seen(middleware, asked) == ["Knows pods. Its skills: list.", "web"]
        assert middleware.wrap_model_call(asked, lambda given: given.tools[0].description).startswith("Knows pods.")


async def test_the_operators_description_stands() -> None:
    async with raw(silent, card(description="Knows clusters.")) as server, known(server.url, "Ours.") as agent:
        await agent.refresh()
        tool = delegate("komodor", agent, description="Ours.")
        assert await seen(describing({tool.name: agent}), request(tool)) == ["Ours."]


async def test_an_agent_that_is_not_there_says_so_until_it_is_back() -> None:
    port = free_port()
    async with known(f"http://127.0.0.1:{port}", "Ours.") as agent:
        agent.start()
        while agent.shown()["state"] != "down":  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0)  # noqa: TID251  no time passes
        tool = delegate("komodor", agent, description="Ours.")
        middleware = describing({tool.name: agent})
        [told] = await seen(middleware, request(tool))
        assert told == "Ours.\nNOT AVAILABLE at the moment, a call would fail: it cannot be reached."
        async with raw(silent, card(), port):
            assert await seen(middleware, request(tool)) == ["Ours."]


async def test_nothing_is_made_anew_when_nothing_changed() -> None:
    other = StructuredTool.from_function(lambda: "", name="other", description="Other.")
    async with raw(silent, card(description="Knows clusters.")) as server, known(server.url) as agent:
        tool = delegate("komodor", agent)
        asked, middleware, given = request(tool, other), describing({tool.name: agent}), []
        await agent.refresh()
        for _ in range(2):
            middleware.wrap_model_call(asked, given.append)
        assert given[0].tools[0] is given[1].tools[0] and given[0].tools[1] is other
        middleware.wrap_model_call(request(other), given.append)
        assert given[2].tools == [other]
