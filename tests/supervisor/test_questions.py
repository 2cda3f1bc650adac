"""A question of a remote agent reaches the user as the run's, and the answer goes to the task that asked, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from serving import ask, body, served

from anabranch.app import App
from anabranch.events import Interrupted
from anabranch.request import RunRequest
from anabranch.sources.a2a import EXTENSION, A2ASource
from anabranch.supervisor.answers import forwarding, forwards
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.graph import supervisor_graph
from anabranch.supervisor.source import Delegated, SupervisorSource
from tests.sources.langgraph.graphs import Turn, asks_for, model, says


class Remote:
    """An agent behind A2A that asks something before it answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[tuple[str, str, Any]] = []

    async def __call__(self, request: RunRequest) -> AsyncIterator[Any]:
        answers = [answer.payload for answer in request.resume]
        self.heard.append((request.thread_id, request.last_user_text(), answers))
        if answers == ["again"] or (not answers and "ask" in request.last_user_text()):
            yield "Well. "
            yield Interrupted(
                interrupt_id="q", reason="confirm", message=f"{self.name}: which?", schema={"type": "string"}
            )
        else:
            yield f"{self.name} got {answers or request.last_user_text()}"


class System:
    """Two remote agents behind a supervisor, and a client of it."""

    def __init__(self, url: str, remotes: dict[str, Remote]) -> None:
        self.url, self.remotes = url, remotes
        self.runs = 0

    async def says(self, text: str | None, *answers: tuple[str, Any]) -> list[dict[str, Any]]:
        """One turn of the only thread: a message, or answers to questions by their ids."""
        self.runs += 1
        run = f"r{self.runs}"
        said = body(run, "t", text or "")
        said["messages"] = [] if text is None else [{"id": f"{run}-m", "role": "user", "content": text}]
        resume = [{"interruptId": id, "status": "resolved", "payload": payload} for id, payload in answers]
        return (await ask(self.url, "POST", "/agui", said | ({"resume": resume} if resume else {}))).events


@asynccontextmanager
async def system(*turns: Turn, policy: Any = "synthesize", mode: Any = "on") -> AsyncIterator[System]:
    remotes = {name: Remote(name) for name in ("komodor", "argocd")}
    async with asyncio.timeout(30), served(App(dict(remotes))) as far:
        sources = {name: A2ASource(f"{far}/a2a/{name}", name=name, extensions=(EXTENSION,)) for name in remotes}
        tools = [f"ask_{name}" for name in sources]
        made = [
            delegate(name, source, answers=lambda state: forwards(policy, state, tools))
            for name, source in sources.items()
        ]

        async def graph() -> Any:
            middleware = [forwarding(policy, tools)]
            return supervisor_graph(model(*turns), made, middleware=middleware, checkpointer=InMemorySaver())

        agents = [Delegated(name=name, source=source) for name, source in sources.items()]
        app = App({"supervisor": SupervisorSource(agents, graph, mode=mode)})
        try:
            async with served(app) as url:
                yield System(url, remotes)
        finally:
            for source in sources.values():
                await source.aclose()


def end(events: list[dict[str, Any]]) -> Any:
    assert [event["type"] for event in events].count("RUN_FINISHED") == 1
    return events[-1]["outcome"]


def only(events: list[dict[str, Any]], kind: str, field: str) -> list[Any]:
    return [event[field] for event in events if event["type"] == kind]


def text(events: list[dict[str, Any]]) -> str:
    return "".join(only(events, "TEXT_MESSAGE_CONTENT", "delta"))


def question(text: str, agent: str = "komodor", id: str = "c1") -> tuple[str, str, str]:
    return id, f"ask_{agent}", json.dumps({"question": text})


async def test_a_question_on_the_direct_way_is_answered_where_it_was_asked() -> None:
    async with system() as them:
        first = await them.says("komodor, ask me")
        [asked] = end(first)["interrupts"]
        assert (asked["message"], asked["responseSchema"]) == ("komodor: which?", {"type": "string"})
        assert asked["metadata"]["agent"] == "komodor"
        second = await them.says(None, (asked["id"], "blue"))
        assert end(second) == {"type": "success"} and text(second) == "komodor got ['blue']"
        third = await them.says("komodor again")
        assert text(third) == "komodor got komodor again"
        heard = them.remotes["komodor"].heard
    assert [(said, answers) for _, said, answers in heard] == [
        ("komodor, ask me", []),
        ("blue", ["blue"]),
        ("komodor again", []),
    ]
    assert len({thread for thread, _, _ in heard}) == 1, "one conversation, one context"


async def test_a_question_on_the_supervised_way_is_answered_where_it_was_asked() -> None:
    async with system(asks_for(question("ask me")), says("done")) as them:
        first = await them.says("hello")
        [asked] = end(first)["interrupts"]
        assert (asked["message"], asked["responseSchema"]) == ("komodor: which?", {"type": "string"})
        second = await them.says(None, (asked["id"], "blue"))
        assert end(second) == {"type": "success"}
        assert text(second) == "komodor got ['blue']done"
        assert only(second, "TOOL_CALL_RESULT", "content") == ["komodor got ['blue']"]
        assert [(said, answers) for _, said, answers in them.remotes["komodor"].heard] == [
            ("ask me", []),
            ("blue", ["blue"]),
        ]


@pytest.mark.parametrize("way", ["direct", "supervised"])
async def test_an_agent_may_ask_again_and_again(way: str) -> None:
    async with system(asks_for(question("ask me")), says("done")) as them:
        events = await them.says("komodor, ask me" if way == "direct" else "hello")
        for answer in ("again", "again", "blue"):
            [asked] = end(events)["interrupts"]
            events = await them.says(None, (asked["id"], answer))
        assert text(events).startswith("komodor got ['blue']")
        assert [answers for *_, answers in them.remotes["komodor"].heard] == [[], ["again"], ["again"], ["blue"]]


@pytest.mark.parametrize("way", ["parallel", "supervised"])
async def test_two_questions_at_once_are_both_asked_and_each_answer_finds_its_task(way: str) -> None:
    both = asks_for(question("ask me"), question("ask me", "argocd", "c2"))
    async with system(both, says("done")) as them:
        first = await them.says("komodor and argocd, ask me" if way == "parallel" else "hello")
        asked = {each["message"]: each["id"] for each in end(first)["interrupts"]}
        assert asked.keys() == {"komodor: which?", "argocd: which?"}
        second = await them.says(None, (asked["argocd: which?"], "green"), (asked["komodor: which?"], "blue"))
        assert end(second) == {"type": "success"}
        assert sorted(only(second, "TOOL_CALL_RESULT", "content")) == ["argocd got ['green']", "komodor got ['blue']"]
        assert [len(remote.heard) for remote in them.remotes.values()] == [2, 2]


async def test_one_of_two_that_is_not_answered_is_asked_again_and_its_agent_is_not() -> None:
    both = asks_for(question("ask me"), question("ask me", "argocd", "c2"))
    async with system(both, says("done")) as them:
        asked = {each["message"]: each["id"] for each in end(await them.says("hello"))["interrupts"]}
        second = await them.says(None, (asked["argocd: which?"], "green"))
        [left] = end(second)["interrupts"]
        assert left["message"] == "komodor: which?"
        third = await them.says(None, (left["id"], "blue"))
        assert end(third) == {"type": "success"}
        assert [len(remote.heard) for remote in them.remotes.values()] == [2, 2]
