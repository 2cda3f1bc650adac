"""A LangGraph tool that streams a sub-agent while it runs, seen as events: python examples/tool_lane.py

The model is a fake that calls the tool once, so that it runs without a key; use any chat model in its place.
"""

import asyncio

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

import anabranch
from anabranch.app import as_source
from anabranch.events import TextDelta
from anabranch.identity import LOCAL
from anabranch.request import Message, RunRequest
from anabranch.runs.runs import Runs


@tool
async def search(query: str) -> str:
    """Search, showing each hit as it is found."""
    lane = anabranch.current().lane("searcher")
    hits = [f"hit {n} for {query}. " for n in (1, 2, 3)]
    for hit in hits:
        lane.emit(TextDelta(message_id="hits", delta=hit))
    lane.finish()
    return "".join(hits)


class Model(FakeMessagesListChatModel):
    """Answers from a list, and takes tools without looking at them."""

    def bind_tools(self, tools, **options):
        return self


def graph():
    call = {"name": "search", "args": {"query": "anabranch"}, "id": "call_1"}
    return create_agent(Model(responses=[AIMessage("", tool_calls=[call]), AIMessage("Done.")]), [search])


async def main() -> None:
    runs = Runs()
    question = Message(id="m1", role="user", content="Search for anabranch.")
    run = await runs.start(
        as_source(graph()), RunRequest(run_id="r1", thread_id="t1", messages=(question,)), LOCAL, agent="search"
    )
    async with runs.watch(run) as batches:
        async for batch in batches:
            for entry in batch:
                print(entry.seq, entry.event)


if __name__ == "__main__":
    asyncio.run(main())
