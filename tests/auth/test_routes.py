"""The table of identity over every route that the server has: who is let in where, and what everybody else is told.

A route that is not in the table fails the first test.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

import httpx
import pytest

from anabranch.app import App
from auth.asking import (
    INVALID,
    KINDS,
    VISITOR,
    Agent,
    Sent,
    ask,
    cookie_of,
    guarded,
    leaks,
    legacy_rest,
    message,
    numbers,
    outcome,
    rpc,
    shows,
    visitor,
)

NO_TASK = -32001


class Row(NamedTuple):
    """A route for callers that are known: what the owner of what it names is answered, and what anybody else is.

    ``body`` makes what is sent, of the task that is asked for.
    """

    own: int
    other: int
    body: Callable[[str], Any] = lambda task: None


def started(task: str) -> Any:
    number = next(numbers)
    said = {"id": "m", "role": "user", "content": "hello"}
    return {"runId": f"r-{number}", "threadId": f"t-{number}", "messages": [said]}


HEALTH = ("/", "/ping", "/ping/", "/health", "/health/", "/ready", "/ready/")
CARDS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
AGENTS = ("", "/a2a/{name}")  # where A2A is

# What monitors and clients read before they know how to identify themselves. It tells the names of the agents.
OPEN = {
    (method, path)
    for path in (*HEALTH, *(under + card for under in AGENTS for card in CARDS))
    for method in ("GET", "HEAD")
}

RPC = Row(200, NO_TASK, lambda task: rpc("GetTask", {"id": task}))

PUSH = "/tasks/{id}/pushNotificationConfigs"
REST = {
    ("POST", "/message:send"): Row(200, 200, lambda task: message()),
    ("POST", "/message:stream"): Row(200, 200, lambda task: message()),
    ("POST", "/tasks/{id}:cancel"): Row(400, 404),  # it is over
    ("GET", "/tasks/{id}:subscribe"): Row(400, 404),
    ("POST", "/tasks/{id}:subscribe"): Row(400, 404),
    ("GET", "/tasks/{id}"): Row(200, 404),
    ("POST", PUSH): Row(400, 400),  # for nobody
    ("GET", PUSH): Row(400, 400),
    ("GET", PUSH + "/{push_id}"): Row(400, 400),
    ("DELETE", PUSH + "/{push_id}"): Row(400, 400),
    ("GET", "/extendedAgentCard"): Row(400, 400),
}
OLD = REST | {
    ("POST", "/message:send"): Row(200, 200, lambda task: legacy_rest()),
    ("POST", "/message:stream"): Row(200, 200, lambda task: legacy_rest()),
    ("GET", "/card"): Row(400, 400),
}
A2A = {
    **{(method, path): row for (method, path), row in REST.items()},
    ("GET", "/tasks"): Row(200, 200),
    **{(method, f"/v1{path}"): row for (method, path), row in OLD.items()},
}
GUARDED: dict[tuple[str, str], Row] = {
    ("POST", "/agui"): Row(200, 200, started),
    ("POST", "/agents/{name}/agui"): Row(200, 200, started),
    ("GET", "/runs/{run_id:path}/agui"): Row(200, 404),
    ("GET", "/agents"): Row(200, 200),
    ("HEAD", "/agents"): Row(200, 200),
    ("GET", "/runs"): Row(200, 200),
    ("HEAD", "/runs"): Row(200, 200),
    ("GET", "/runs/{run_id:path}"): Row(200, 404),
    ("HEAD", "/runs/{run_id:path}"): Row(200, 404),
    ("GET", "/runs/{run_id:path}/events"): Row(200, 404),
    ("HEAD", "/runs/{run_id:path}/events"): Row(200, 404),
    ("POST", "/runs/{run_id:path}/cancel"): Row(409, 404),  # it is over
    ("GET", "/threads/{thread_id:path}"): Row(200, 404),
    ("HEAD", "/threads/{thread_id:path}"): Row(200, 404),
    ("DELETE", "/threads/{thread_id:path}"): Row(204, 404),
    **{("POST", path): RPC for path in ("/", "/a2a/{name}", "/a2a/{name}/")},
    **{(method, under + path): row for under in AGENTS for (method, path), row in A2A.items()},
}
STREAMS = ("agui", ":stream")
each_guarded = pytest.mark.parametrize(("method", "path"), sorted(GUARDED))


class Owned(NamedTuple):
    """A user and what is theirs."""

    who: Sent
    task: str


class Server(NamedTuple):
    """The server under test: ``users`` have a run, a thread and a task each, under the same names where they choose."""

    app: App
    http: httpx.AsyncClient
    users: dict[str, Owned] = {}


@pytest.fixture(scope="module")
async def closed(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Server, None]:
    """A server for known users only."""
    async with guarded(tmp_path_factory.mktemp("closed"), {"agent": Agent()}) as (app, http):
        yield Server(app, http)


@pytest.fixture(scope="module")
async def lenient(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Server, None]:
    """A server for everybody."""
    async with guarded(tmp_path_factory.mktemp("lenient"), {"agent": Agent()}, anonymous=True) as (app, http):
        users = {kind: shows(kind, "ann") for kind in KINDS} | {"anonymous": await visitor(http)}
        yield Server(app, http, {kind: await owning(http, who) for kind, who in users.items()})


async def owning(http: httpx.AsyncClient, who: Sent) -> Owned:
    """Have ``who`` make what the routes are asked for."""
    said = {"id": "m", "role": "user", "content": "a secret"}
    for run_id, thread_id in (("run", "thread"), ("going", "gone")):
        answer = await ask(http, "POST", "/agui", who, {"runId": run_id, "threadId": thread_id, "messages": [said]})
        assert answer.status_code == 200 and "RUN_FINISHED" in answer.text
    answer = await ask(http, "POST", "/message:send", who, message("a secret"))
    return Owned(who, answer.json()["task"]["id"])


def at(method: str, path: str, task: str = "task", name: str = "agent") -> str:
    """A real path of a route."""
    thread = "gone" if method == "DELETE" else "thread"
    known = {"{name}": name, "{run_id:path}": "run", "{thread_id:path}": thread, "{id}": task, "{push_id}": "p"}
    for name, value in known.items():
        path = path.replace(name, value)
    return path


async def test_every_route_is_in_the_table(closed: Server) -> None:
    for app in (closed.app, App({"agent": Agent()})):
        routes: Any = app._asgi.routes
        found = {(method, route.path) for route in routes for method in route.methods}
        assert found == OPEN | set(GUARDED) and not OPEN & set(GUARDED)


@pytest.mark.parametrize(("method", "path"), sorted(OPEN))
async def test_health_and_cards_are_open_to_everybody_and_look_at_nobody(
    closed: Server, lenient: Server, method: str, path: str
) -> None:
    for server in (closed, lenient):
        for who in ([], INVALID["bearer expired"], INVALID["session garbage"], [("Cookie", f"{VISITOR}=x")]):
            answer = await ask(server.http, method, at(method, path), who)
            assert answer.status_code == 200
            assert "set-cookie" not in answer.headers


@each_guarded
async def test_who_is_nobody_is_a_401_before_anything_else_is_looked_at(
    closed: Server, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = at(method, path, name="nobody") + "?limit=x&after=x&pageSize=x&prelude=7"
    wrong: Sent = [("content-type", "text/plain"), ("A2A-Version", "7")]
    with caplog.at_level(logging.DEBUG):
        for row, sent in {"no credential": [], **INVALID}.items():
            place = at(method, path) if row in ("no credential", "bearer expired") else unknown
            answer = await closed.http.request(
                method, place, headers=httpx.Headers([*wrong, *sent]), content=b"{" if method == "POST" else None
            )
            told = f"{row}: {answer.status_code} {answer.text}"
            assert answer.status_code == 401, told
            assert answer.headers["www-authenticate"] == "Bearer", told
            assert answer.headers["cache-control"] == "no-store" and "set-cookie" not in answer.headers, told
            assert answer.headers["content-type"] == "application/json", told
            if method != "HEAD":
                assert answer.json()["error"].keys() == {"code", "message"}, told
                assert answer.json()["error"]["code"] == "unauthorized", told
            assert not leaks(f"{answer.text}{answer.headers}", sent), told
    # The client's own records are about what it sends.
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert not [record for record in ours if record.levelno > logging.INFO]
    assert not [row for record in ours for row, sent in INVALID.items() if leaks(record.getMessage(), sent)]


@each_guarded
async def test_what_a_route_names_is_there_for_its_owner_and_for_nobody_else(
    lenient: Server, method: str, path: str
) -> None:
    row = GUARDED[method, path]
    for kind, (who, task) in lenient.users.items():
        real = at(method, path, task)
        others = [shows(other, "eve") for other in KINDS]
        for other in [*others, await visitor(lenient.http)]:
            answer = await ask(lenient.http, method, real, other, row.body(task))
            assert outcome(answer) == row.other, f"{kind}: {answer.status_code} {answer.text}"
            assert "secret" not in answer.text
        answer = await ask(lenient.http, method, real, who, row.body(task))
        assert outcome(answer) == row.own, f"{kind}: {answer.status_code} {answer.text}"
        assert "set-cookie" not in answer.headers
    if method == "DELETE" and "threads" in path:
        for kind, (who, _) in lenient.users.items():
            assert (await ask(lenient.http, "GET", "/threads/gone", who)).status_code == 404, kind


@each_guarded
async def test_without_a_credential_everybody_is_somebody_new(lenient: Server, method: str, path: str) -> None:
    row, (_, task) = GUARDED[method, path], lenient.users["anonymous"]
    first = await ask(lenient.http, method, at(method, path, task), [], row.body(task))
    assert outcome(first) == row.other and "secret" not in first.text
    cookie = cookie_of(first)
    assert "no-store" in first.headers["cache-control"]
    again = await ask(lenient.http, method, at(method, path, task), [("Cookie", cookie)], row.body(task))
    assert outcome(again) == row.other and "set-cookie" not in again.headers
    mine = (await ask(lenient.http, "GET", "/runs", [("Cookie", cookie)])).json()["runs"]
    assert len(mine) == 2 * (row.other == 200 and path.endswith((*STREAMS, ":send")))


@each_guarded
async def test_a_cookie_that_the_server_did_not_make_is_a_401_that_takes_it_away(
    lenient: Server, method: str, path: str
) -> None:
    [(_, good)] = lenient.users["anonymous"].who
    other = cookie_of(await ask(lenient.http, "GET", "/runs", []))
    for value in (good[:-1] + ("A" if good[-1] != "A" else "E"), f"{VISITOR}=", f"{VISITOR}=x.1.y", f"{good}; {other}"):
        answer = await ask(lenient.http, method, at(method, path), [("Cookie", value)], GUARDED[method, path].body("x"))
        assert answer.status_code == 401
        if ";" not in value:
            assert cookie_of(answer) == f"{VISITOR}=" and "Max-Age=0" in answer.headers["set-cookie"]
        assert not leaks(f"{answer.text}{answer.headers}", [("Cookie", value.replace(VISITOR, ""))])


async def test_an_invalid_credential_makes_nobody_an_anonymous_caller(lenient: Server) -> None:
    [cookie] = lenient.users["anonymous"].who
    for row, sent in INVALID.items():
        for who in (sent, [*sent, cookie]):
            answer = await ask(lenient.http, "POST", "/agui", who, started(""))
            assert answer.status_code == 401 and "set-cookie" not in answer.headers, row
