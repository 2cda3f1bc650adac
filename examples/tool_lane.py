"""A LangGraph tool that streams a sub-agent while it runs: python examples/tool_lane.py, then post to port 8000.

The model is a fake that calls the tool once, so that it runs without a key; use any chat model in its place.
"""

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

import anabranch
from anabranch.events import TextDelta


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


call = {"name": "search", "args": {"query": "anabranch"}, "id": "call_1"}
model = Model(responses=[AIMessage("", tool_calls=[call]), AIMessage("Done.")])
app = anabranch.App({"search": create_agent(model, [search])})

if __name__ == "__main__":
    app.run(port=8000)
