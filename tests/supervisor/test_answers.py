"""What a graph with a memory hears of a question that was answered over A2A: the answer, once."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from serving import served

from anabranch.app import App
from tests.a2a_serving import message, send

HEARD: list[list[tuple[str, str]]] = []


def speak(state: MessagesState) -> dict[str, Any]:
    HEARD.append([(said.type, said.text) for said in state["messages"]])
    if state["messages"][-1].text == "ask":
        answer = interrupt("Which cluster?")
        if answer == "fail":
            raise RuntimeError("no such cluster")
        return {"messages": [AIMessage(f"you said {answer}")]}
    return {"messages": [AIMessage("well")]}


def app() -> App:
    HEARD.clear()
    graph = StateGraph(MessagesState)
    graph.add_node("speak", speak)
    graph.add_edge(START, "speak")
    graph.add_edge("speak", END)
    return App({"asks": graph.compile(checkpointer=InMemorySaver())})


async def test_an_answer_is_heard_by_who_asked_and_not_again_with_the_next_message() -> None:
    async with served(app()) as url:
        task = await send(url, message("ask", contextId="c"))
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        answered = await send(url, message("blue", taskId=task["id"]))
        assert [artifact["parts"] for artifact in answered["artifacts"]] == [[{"text": "you said blue"}]]
        for text in ("go on", "and on"):
            assert (await send(url, message(text, contextId="c")))["status"]["state"] == "TASK_STATE_COMPLETED"
    known = [("human", "ask"), ("ai", "you said blue"), ("human", "go on")]
    assert HEARD[2:] == [known, [*known, ("ai", "well"), ("human", "and on")]]


async def test_an_answer_that_nothing_came_of_is_heard_with_the_next_message() -> None:
    async with served(app()) as url:
        task = await send(url, message("ask", contextId="c"))
        failed = await send(url, message("fail", taskId=task["id"]))
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        await send(url, message("go on", contextId="c"))
    assert HEARD[-1] == [("human", "ask"), ("human", "fail"), ("human", "go on")]
