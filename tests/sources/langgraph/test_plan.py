"""The todo list while it is written, and when it is executed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware

from anabranch import events as ev

from .graphs import asks_for, deep, model, says, sub_agent
from .seen import Seen, run

TODOS = (
    {"content": "ask komodor → 🚀", "status": "in_progress"},
    {"content": "ask argocd / ~now", "status": "pending"},
)


def shown(seen: Seen) -> list[Any]:
    """Each state of the activity, by applying the patches as a client does."""
    states: list[Any] = []
    for event in seen.events:
        if isinstance(event, ev.ActivitySnapshot):
            states.append(json.loads(json.dumps(event.content)))
        elif isinstance(event, ev.ActivityDelta):
            states.append(patched(json.loads(json.dumps(states[-1])), event.patch))
    return states


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_it_grows_while_its_arguments_stream_and_is_state_once_executed(size: int) -> None:
    write = asks_for(("c1", "write_todos", json.dumps({"todos": TODOS}, ensure_ascii=False)), size=size)
    graph = create_agent(model(write, says("planned")), [], middleware=[TodoListMiddleware()])
    seen = await run(graph)
    states = shown(seen)
    assert states[-1] == {"todos": list(TODOS)}
    assert len(seen.of(ev.ActivitySnapshot)) == 1
    if size == 1:
        assert len(states) > 20 and states[0]["todos"][0].keys() == {"content"}
    assert all(a["op"] in ("add", "replace") for e in seen.of(ev.ActivityDelta) for a in e.patch)
    assert [event.value for event in seen.of(ev.StateSnapshot)] == [{"todos": list(TODOS)}]
    assert seen.repairs == {}


async def test_a_second_plan_changes_the_first_in_place() -> None:
    second = [{**TODOS[0], "status": "completed"}]
    write = [asks_for((f"c{n}", "write_todos", json.dumps({"todos": t}))) for n, t in ((1, TODOS), (2, second))]
    seen = await run(create_agent(model(*write, says("ok")), [], middleware=[TodoListMiddleware()]))
    states = shown(seen)
    assert len(seen.of(ev.ActivitySnapshot)) == 1
    planned = states.index({"todos": list(TODOS)})
    assert {state["todos"][0]["content"] for state in states[planned:]} == {TODOS[0]["content"]}  # no flicker
    lengths = [len(state["todos"]) for state in states]
    assert lengths[:-1] == sorted(lengths[:-1])  # an unfinished list takes nothing away
    assert states[-2]["todos"] == [*second, TODOS[1]] and states[-1] == {"todos": second}
    assert [event.patch for event in seen.of(ev.StateDelta)] == [[{"op": "replace", "path": "/todos", "value": second}]]


async def test_a_plan_that_was_refused_is_put_back() -> None:
    wrong = '{"todos": [{"content": "never", "status": "someday"}]}'
    write = asks_for(("c1", "write_todos", json.dumps({"todos": TODOS})))
    graph = create_agent(
        model(write, asks_for(("c2", "write_todos", wrong)), says("ok")), [], middleware=[TodoListMiddleware()]
    )
    seen = await run(graph)
    assert seen.call("c2").is_error
    states = shown(seen)
    assert states[-2]["todos"][0]["content"] == "never"
    assert states[-1] == {"todos": list(TODOS)}


async def test_a_sub_agents_plan_is_its_own_activity_and_not_the_runs_state() -> None:
    write = asks_for(("p", "write_todos", json.dumps({"todos": TODOS})))
    planner = {
        **sub_agent("komodor", write, says("done")),
        "middleware": [TodoListMiddleware()],
    }
    task = asks_for(("c1", "task", '{"description": "x", "subagent_type": "komodor"}'))
    seen = await run(deep(planner, script=(task, says("end"))))
    [lane] = {event.agent for event in seen.of(ev.ActivitySnapshot)}
    assert lane and shown(seen)[-1] == {"todos": list(TODOS)}
    assert seen.of(ev.StateSnapshot) == [] and seen.repairs == {}


def patched(document: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902, as much of it as plans use."""
    for operation in patch:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = document
        for part in path:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if isinstance(target, list):
            assert operation["op"] == "add" and int(last) == len(target)
            target.append(operation["value"])
        else:
            assert (last in target) is (operation["op"] == "replace"), operation
            target[last] = operation["value"]
    return document
