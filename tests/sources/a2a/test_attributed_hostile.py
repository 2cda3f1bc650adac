"""What an agent of our own kind says, with text that is no text: it is read as far as it goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch import events as ev
from anabranch.sources.a2a import _wire as wire
from anabranch.sources.a2a.attributed import AttributedTranslator

SUB = {"id": "a", "name": "sub", "callId": "k"}


def item(said: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "1"} | said).encode()


def artifact(id: str | None, text: str, agent: dict[str, Any] | None = None) -> dict[str, Any]:
    about = {"kind": "message"} | ({"agent": agent} if agent else {})
    return {"artifactId": id, "parts": [{"text": text}], "metadata": {wire.EXTENSION: about}}


def texts(events: list[ev.Event]) -> list[tuple[str, str]]:
    return [(event.agent, event.delta) for event in events if isinstance(event, ev.TextDelta)]


@pytest.mark.parametrize("how", ["look", "task"])
@pytest.mark.parametrize("broken", [b"\xff", b"\\ud800"], ids=["no UTF-8", "half a pair"])
@pytest.mark.parametrize("id", ["m", None])
def test_a_snapshot_with_broken_text_is_told_once_with_its_authors(how: str, broken: bytes, id: str | None) -> None:
    task: dict[str, Any] = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    task |= {"artifacts": [artifact(id, "by sub", SUB), artifact("root", "by ~ root")]}
    said = item({"look": {"result": task}} if how == "look" else {"result": {"task": task}})
    translator = AttributedTranslator("agent")
    told = [*translator.feed(said.replace(b"~", broken))]
    assert [(agent, text.startswith("by")) for agent, text in texts(told)] == [("a", True), (ev.ROOT, True)]
    assert not any(isinstance(event, ev.RunFailed) for event in told)


def test_a_route_that_is_no_text_is_no_route() -> None:
    routed = {"route": "\ud800", "agents": ["a"], "reason": "\ud800"}
    status = {
        "taskId": "t",
        "status": {"state": "TASK_STATE_WORKING"},
        "metadata": {wire.EXTENSION: {"routed": routed}},
    }
    told = AttributedTranslator().feed(item({"result": {"statusUpdate": status}}))
    assert [type(event) for event in told] == [ev.RemoteKnown]
