"""The bug catalogue, B-22: users who ask at once, on every way, share nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from serving import ask, body, by_header, served

from anabranch.app import App
from anabranch.config import parse
from anabranch.demo._process import started
from anabranch.request import RunRequest
from tests.supervisor.catalogue import (
    DIRECT,
    FORWARD,
    PARALLEL,
    Way,
)
from tests.supervisor.showing import Shown

pytestmark = [pytest.mark.faults, pytest.mark.process]
USERS, WAYS = 30, (DIRECT, PARALLEL, FORWARD)
NAMES = re.compile(r"user-\d+-secret")

CONFIG = """
model: {{name: scripted, base_url: "{model}/v1"}}
agents:
  komodor: {{a2a: "{far}/a2a/komodor"}}
  argocd: {{a2a: "{far}/a2a/argocd"}}
supervisor: {{agents: [komodor, argocd], answer: forward}}
storage: memory://
"""


class Remote:
    """An agent that says the question back, once so many have asked."""

    def __init__(self, name: str, together: int) -> None:
        self.name, self.together = name, asyncio.Barrier(together)
        self.heard: list[tuple[str, str]] = []

    async def __call__(self, request: RunRequest) -> AsyncIterator[str]:
        said = request.last_user_text()
        self.heard.append((request.thread_id, said))
        assert len(request.messages) % 2, "a question, and each one before it with its answer"
        async with asyncio.timeout(20):
            await self.together.wait()
        for word in re.findall(r"\S+\s*", f"{self.name}: {said}"):
            yield word


def agents_of(way: Way) -> list[str]:
    return ["komodor", "argocd"] if way is PARALLEL else ["komodor"]


async def test_thirty_users_at_once_with_the_same_ids_get_their_own_and_nothing_else() -> None:
    remotes = {"komodor": Remote("komodor", USERS), "argocd": Remote("argocd", USERS // len(WAYS))}

    async def turn(url: str, user: int, number: int) -> list[dict[str, Any]]:
        way = WAYS[user % len(WAYS)]
        secret = f"user-{user}-secret"
        text = f"{' and '.join(agents_of(way))}, turn {number} of {secret}"
        asked = body(f"r{number}", "t", text, forwardedProps=way.pin(agents_of(way)))
        asked["messages"][0]["id"] = f"m{number}"
        answer = await ask(url, "POST", "/agui", asked, x_user=f"u{user}")
        assert set(NAMES.findall(answer.body.decode())) == {secret}
        shown = Shown(answer.events)
        assert (shown.ended, shown.failed) == ("success", {})
        assert shown.answer == "".join(f"{agent}: {text}" for agent in agents_of(way))
        assert [shown.results[f"ask_{agent}"] for agent in agents_of(way)] == [
            [(f"{agent}: {text}", False)] for agent in agents_of(way)
        ]
        return answer.events

    async with asyncio.timeout(50), started("tests.agents.model") as model, served(App(dict(remotes))) as far:
        app = App.from_config(parse(CONFIG.format(model=model, far=far)), principal=by_header)
        async with served(app) as url:
            for number in (1, 2):
                await asyncio.gather(*(turn(url, user, number) for user in range(USERS)))
            heard = (await ask(model, "GET", "/heard")).json["heard"]
            task = "/runs/r1/agui"
            assert set(NAMES.findall((await ask(url, "GET", task, x_user="u7")).body.decode())) == {"user-7-secret"}
    for conversation in heard:
        assert len(set(NAMES.findall(json.dumps(conversation)))) == 1, "a model reads one user's conversation"
    assert len(heard) == USERS // len(WAYS) * 2 * FORWARD.calls
    for remote in remotes.values():
        contexts = Counter(thread for thread, _ in remote.heard)
        assert set(contexts.values()) == {2}, "each user has a context at each agent, and keeps it"
        owners = {(thread, *NAMES.findall(said)) for thread, said in remote.heard}
        assert len(owners) == len(contexts), "and nobody else is in it"
