"""The A2A server as the official JavaScript clients see it: 1.3, which speaks 1.0 and 0.3, and 0.3.14."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import oracles
import pytest
from a2a_serving import asking, failing, legacy, message
from oracles import a2a
from oracles.a2a import Client
from runs.staging import Stage
from serving import WAIT_S, echo, served

from anabranch.app import App

pytestmark = [pytest.mark.oracle, pytest.mark.process]

every_client = pytest.mark.parametrize(
    ("name", "binding"), [(name, binding) for name in a2a.CLIENTS for binding in a2a.BINDINGS]
)

PIECES = [
    "\U0001f3db",
    " ",
    " ",
    "\r\n",
    "\r",
    "\n\n",
    "\u2028\u2029",
    "data: {}\n\n",
    "e\u0301",
    "\U0001d11e\U0001d11e",
]
PIECES += ["\0\x7f", "\ufeff", '"\\"', "</script>", "  end  "]
TEXT = "".join(PIECES)


async def says(request: Any) -> AsyncGenerator[str, None]:
    """An agent whose text is hard on whatever carries it."""
    for piece in PIECES:
        yield piece


class Shown:
    """What somebody sees who applies the events of a stream, of either version.

    ``deaf``: the client does not say which updates append to what was there. Whoever uses it has to take all for that.
    """

    def __init__(self, deaf: bool = False) -> None:
        self._deaf = deaf
        self.task: dict[str, Any] = {}
        self.states: list[str] = []
        self.texts: dict[str, str] = {}
        self.updates = 0

    async def follow(self, events: AsyncIterator[dict[str, Any]]) -> Shown:
        """Apply all events."""
        async for event in events:
            self.take(event)
        return self

    def take(self, event: dict[str, Any]) -> None:
        """Apply one."""
        kind, said = _event(event)
        if kind == "artifactUpdate":
            self.updates += 1
            assert not (self._deaf and "append" in said)
            artifact = said["artifact"]
            appends = said.get("append") or self._deaf
            before = self.texts.get(artifact["artifactId"], "") if appends else ""
            self.texts[artifact["artifactId"]] = before + text_of(artifact)
            return
        if kind == "task":
            self.task = said
            self.texts = {made["artifactId"]: text_of(made) for made in said.get("artifacts", ())}
        self.states.append(state_of(said))

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.texts.values())


def _event(event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if "kind" in event:
        head, _, rest = event["kind"].partition("-")
        return head + rest.title(), event
    [(kind, said)] = event.items()
    return kind, said


def text_of(holder: dict[str, Any]) -> str:
    """The text of an artifact, of a message, or of a task's artifacts."""
    parts = [part for made in holder.get("artifacts", (holder,)) for part in made.get("parts", ())]
    return "".join(part.get("text", "") for part in parts)


def state_of(said: dict[str, Any]) -> str:
    """The state of a task or an update, by its name in 1.0."""
    return str(said["status"]["state"]).removeprefix("TASK_STATE_").replace("-", "_").upper()


def sending(name: str, text: str = "go", id: str = "", **more: Any) -> dict[str, Any]:
    """What the client called ``name`` sends."""
    return {"message": (legacy if name == "0.3.14" else message)(text, id, **more)}


def shown_by(client: Client) -> Shown:
    """What is shown of a stream by ``client``: both generations lose ``append`` over the REST binding of 0.3."""
    return Shown(deaf=client.binding == "HTTP+JSON" and client.name != "1.3")


async def streamed(client: Client, given: dict[str, Any]) -> Shown:
    """What is shown of a message that is streamed to its end."""
    return await shown_by(client).follow(client.stream("stream", given))


@pytest.fixture(autouse=True)
def clients() -> None:
    oracles.require()


@every_client
async def test_text_is_shown_as_it_was_said(name: str, binding: str) -> None:
    app = App({"says": says, "echo": echo}, default="echo")
    async with served(app) as url, a2a.client(name, binding, f"{url}/a2a/says") as client, asyncio.timeout(WAIT_S):
        card = await client.call("card")
        assert card["name"] == "says"
        shown = await streamed(client, sending(name, id="m"))
        assert shown.states == ["SUBMITTED", "WORKING", "COMPLETED"]
        assert shown.text == TEXT and len(PIECES) <= shown.updates <= len(PIECES) + 1
        got = await client.call("get", {"id": shown.task["id"]})
        assert (state_of(got), text_of(got)) == ("COMPLETED", TEXT)
        assert [said["messageId"] for said in got["history"]] == ["m"]
        sent = await client.call("send", sending(name))
        assert (state_of(sent), text_of(sent)) == ("COMPLETED", TEXT) and sent["id"] != got["id"]
        async with a2a.client(name, binding, url) as root:
            again = await streamed(root, sending(name, TEXT))
            assert again.text == TEXT and text_of(again.task["history"][0]) == TEXT


@every_client
async def test_tasks_are_listed_where_the_version_can(name: str, binding: str) -> None:
    async with served(App({"echo": echo})) as url, a2a.client(name, binding, url) as client, asyncio.timeout(WAIT_S):
        ids = [(await client.call("send", sending(name, text)))["id"] for text in ("a", "b", "c")]
        if name != "1.3":
            with pytest.raises(a2a.Refused):
                await client.call("list", {})
            return
        listed = await client.call("list", {"pageSize": 2, "includeArtifacts": True})
        assert ([task["id"] for task in listed["tasks"]], listed["totalSize"]) == ([ids[2], ids[1]], 3)
        assert [text_of(task) for task in listed["tasks"]] == ["c", "b"]
        rest = await client.call("list", {"pageSize": 2, "pageToken": listed["nextPageToken"]})
        assert [task["id"] for task in rest["tasks"]] == ids[:1] and not rest.get("nextPageToken")
        wanted = {"contextId": listed["tasks"][0]["contextId"], "status": "TASK_STATE_COMPLETED"}
        assert [task["id"] for task in (await client.call("list", wanted))["tasks"]] == [ids[2]]


@every_client
async def test_a_cancel_is_the_last_that_every_stream_shows(name: str, binding: str) -> None:
    stage = Stage()
    async with served(App({"stage": stage})) as url, a2a.client(name, binding, url) as client, asyncio.timeout(WAIT_S):
        first = shown_by(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(first.follow(client.stream("stream", sending(name))))
            await stage.waiting.wait()
            while not first.task:
                await client.call("card")
            id = {"id": first.task["id"]}
            others = []
            for _ in range(3):
                events, shown = client.stream("subscribe", id), shown_by(client)
                shown.take(await anext(events))
                others.append(group.create_task(shown.follow(events)))
            cancelled = await client.call("cancel", id)
        assert (state_of(cancelled), text_of(cancelled)) == ("CANCELED", "hello")
        for shown in (first, *(other.result() for other in others)):
            assert (shown.states[-1], shown.text) == ("CANCELED", "hello")
        assert [other.result().states for other in others] == [["WORKING", "CANCELED"]] * 3
        with pytest.raises(a2a.Refused, match=r"(?i)cancel"):
            await client.call("cancel", id)
        with pytest.raises(a2a.Refused):
            await anext(client.stream("subscribe", id))


@every_client
async def test_a_question_is_asked_and_answered(name: str, binding: str) -> None:
    app = App({"asking": asking})
    async with served(app) as url, a2a.client(name, binding, url) as client, asyncio.timeout(WAIT_S):
        asked = await streamed(client, sending(name))
        assert asked.states == ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
        task_id, context_id = asked.task["id"], asked.task["contextId"]
        got = await client.call("get", {"id": task_id})
        assert text_of(got["status"]["message"]) == "May I?"
        again = await client.call("send", sending(name, "once", taskId=task_id))
        assert (state_of(again), text_of(again)) == ("INPUT_REQUIRED", 'heard [] heard ["once"] ')
        done = await streamed(client, sending(name, "stop", taskId=task_id, contextId=context_id))
        assert (done.task["id"], done.task["contextId"], done.states[-1]) == (task_id, context_id, "COMPLETED")
        assert done.text == 'heard [] heard ["once"] heard ["stop"] '
        with pytest.raises(a2a.Refused, match=r"over|not supported"):
            await client.call("send", sending(name, taskId=task_id))


@every_client
async def test_a_failure_does_not_look_like_success(name: str, binding: str) -> None:
    app = App({"failing": failing})
    async with served(app) as url, a2a.client(name, binding, url) as client, asyncio.timeout(WAIT_S):
        shown = await streamed(client, sending(name))
        assert (shown.states[-1], shown.text) == ("FAILED", "so far ")
        sent = await client.call("send", sending(name))
        got = await client.call("get", {"id": shown.task["id"]})
        for task in (sent, got):
            assert (state_of(task), text_of(task)) == ("FAILED", "so far ")
            why = text_of(task["status"]["message"])
            assert "RuntimeError" in why and "secret" not in why
        for method in ("get", "cancel"):
            with pytest.raises(a2a.Refused, match=r"(?i)no task|not ?found"):
                await client.call(method, {"id": "unknown"})
