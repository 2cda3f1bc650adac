"""A remote A2A agent as a tool of your own LangGraph graph: its tokens come while it writes, and it may ask you.

In one terminal `python examples/remote_tool.py`, an agent; in another
`python examples/remote_tool.py http://127.0.0.1:8000`, the graph. The model is a fake that calls the tool once, so that
it runs without a key; use any chat model in its place, and any A2A agent in the place of this one.
"""

import asyncio
import sys

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import anabranch
from anabranch.events import Interrupted
from anabranch.langchain import RemoteA2ATool


async def komodor(request):
    if not request.resume:
        yield "Looking for clusters. "
        yield Interrupted(interrupt_id="which", reason="input_required", message="Which one, prod or test?")
        return
    for word in ("All ", "pods ", "of ", f"{request.resume[0].payload} ", "run."):
        yield word


app = anabranch.App({"komodor": komodor})


class Model(FakeMessagesListChatModel):
    """Answers from a list, and takes tools without looking at them."""

    def bind_tools(self, tools, **options):
        return self


async def talk(url: str, answer: str = "prod") -> list[str]:
    """Each piece of text of the agent, its question, and what the model was told in the end."""
    tool = await RemoteA2ATool.from_card(url)
    call = {"name": tool.name, "args": {"question": "Do all pods run?"}, "id": "call_1"}
    model = Model(responses=[AIMessage("", tool_calls=[call]), AIMessage("Done.")])
    graph = create_agent(model, [tool], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    heard, asked = [], {"messages": "Do all pods run?"}
    while asked is not None:
        again = None
        async for mode, item in graph.astream(asked, config, stream_mode=["custom", "updates"]):
            if mode == "custom" and item.get("type") == "a2a" and item["event"]["type"] == "text_delta":
                heard.append(item["event"]["delta"])
            elif mode == "updates" and "__interrupt__" in item:
                heard.append(item["__interrupt__"][0].value["message"])
                again = Command(resume=answer)
            elif mode == "updates" and "tools" in item:
                heard.append(item["tools"]["messages"][0].content)
        asked = again
    await tool.aclose()
    return heard


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*asyncio.run(talk(sys.argv[1])), sep="\n")
    else:
        app.run(port=8000)
