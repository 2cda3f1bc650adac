"""The routes that speak no agent protocol: agents, runs, threads and health, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from . import __version__
from .errors import ClientError
from .identity import Principal
from .log._base import Entry
from .runs._base import RunRecord
from .runs.runs import Runs
from .runs.threads import Turn, conversation
from .sinks.agui.messages import written

PAGE = 100
"""Runs on a page, and entries, unless the caller asks for another number."""
PAGE_LIMIT = 1000

_SHOWN = ("run_id", "thread_id", "task_id", "agent", "status", "created_ms", "ended_ms", "continues", "parent_run_id")


class Desk(Protocol):
    """What the routes need. ``app`` provides it."""

    runs: Runs

    @property
    def agents(self) -> Sequence[str]:
        """The names of the agents."""

    async def identify(self, caller: HTTPConnection) -> Principal:
        """Who is asking."""

    def roster(self) -> Sequence[Mapping[str, Any]]:
        """The agents and how they are, as far as callers may know them."""


def routes(desk: Desk) -> list[Route]:
    """The routes. Whatever is not the caller's is a 404."""

    async def listed(request: Request) -> Response:
        who, query = await desk.identify(request), request.query_params
        limit = _number(query, "limit", PAGE, 1, PAGE_LIMIT)
        found = await desk.runs.table.list(
            who.id, thread_id=query.get("thread"), before=query.get("before"), limit=limit + 1
        )
        more = {"before": found[limit - 1].run_id} if len(found) > limit else {}
        return JSONResponse({"runs": [shown(record) for record in found[:limit]]} | more)

    async def one(request: Request) -> Response:
        return JSONResponse(shown(await desk.runs.get(_run_id(request), await desk.identify(request))))

    async def events(request: Request) -> Response:
        record = await desk.runs.get(_run_id(request), await desk.identify(request))
        after = _number(request.query_params, "after", 0, 0, 2**53)
        limit = _number(request.query_params, "limit", PAGE, 1, PAGE_LIMIT)
        entries = await desk.runs.log.read(record.key, after, limit)
        bounds = await desk.runs.log.bounds(record.key)
        last = entries[-1].seq if entries else after
        said = {"events": [_entry(entry) for entry in entries], "after": last, "last": bounds.last}
        return _json(said | {"ended": bounds.ended})

    async def cancel(request: Request) -> Response:
        record = await desk.runs.cancel(_run_id(request), await desk.identify(request))
        return JSONResponse(shown(record) | {"cancelling": True}, status_code=202)

    async def thread(request: Request) -> Response:
        turns = await desk.runs.thread(request.path_params["thread_id"], await desk.identify(request))
        key = _at(turns, request.query_params.get("run"))
        said: dict[str, Any] = {"thread_id": turns[0].record.thread_id, "messages": written(conversation(turns, key))}
        names = {turn.record.key: turn.record.run_id for turn in turns}
        return _json(said | {"runs": [_branching(turn.record, names) for turn in turns]})

    async def delete(request: Request) -> Response:
        await desk.runs.delete_thread(request.path_params["thread_id"], await desk.identify(request))
        return Response(status_code=204)

    return [
        Route("/runs", listed, methods=["GET"]),
        Route("/runs/{run_id:path}/events", events, methods=["GET"]),
        Route("/runs/{run_id:path}/cancel", cancel, methods=["POST"]),
        Route("/runs/{run_id:path}", one, methods=["GET"]),
        Route("/threads/{thread_id:path}", thread, methods=["GET"]),
        Route("/threads/{thread_id:path}", delete, methods=["DELETE"]),
        *_states(desk),
    ]


def _states(desk: Desk) -> list[Route]:
    """How the agents are, for callers; and how the server is, for everybody."""

    async def agents(request: Request) -> Response:
        await desk.identify(request)
        return _json({"agents": desk.roster()})

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "name": "anabranch", "version": __version__})

    async def ready(request: Request) -> Response:
        if desk.runs.stopping:
            return JSONResponse({"status": "stopping"}, status_code=503)
        return JSONResponse({"status": "ready", "agents": list(desk.agents)})

    return [
        Route("/agents", agents, methods=["GET"]),
        *[Route(path, health, methods=["GET"]) for path in ("/", "/ping", "/ping/", "/health", "/health/")],
        *[Route(path, ready, methods=["GET"]) for path in ("/ready", "/ready/")],
    ]


def listed(name: str, source: Any, description: str, is_default: bool) -> dict[str, Any]:
    """An agent as callers may know it: no address, no secret."""
    said: dict[str, Any] = {"name": name, "kind": getattr(source, "kind", "python")}
    if hasattr(source, "shown"):
        said |= source.shown()
    else:
        # What runs in this process is there; nobody looks at a model's endpoint.
        said["state"] = "unknown" if said["kind"] == "openai" else "up"
        said |= {"description": description} if description else {}
    return said | {"default": is_default}


def shown(record: RunRecord) -> dict[str, Any]:
    """A run as its owner may see it."""
    fields = {name: value for name in _SHOWN if (value := getattr(record, name)) is not None}
    return fields | ({"error": {"code": record.code, "message": record.message}} if record.code else {})


def _branching(record: RunRecord, names: Mapping[str, str]) -> dict[str, Any]:
    """A run of a thread, with the one it follows, and the message where it leaves that one."""
    after = names.get(record.parent or "")
    said = {"follows": after, "upto": record.upto or None, "forgotten": record.forgotten or None}
    return shown(record) | {name: value for name, value in said.items() if value is not None}


def _at(turns: Sequence[Turn], run_id: str | None) -> str | None:
    if run_id is None:
        return None
    for turn in turns:
        if turn.record.run_id == run_id:
            return turn.record.key
    raise ClientError(f"run={run_id[:80]!r}: the thread has no such run", code="not_found", status=404)


def _run_id(request: Request) -> str:
    run_id: str = request.path_params["run_id"]
    return run_id


def _entry(entry: Entry) -> dict[str, Any]:
    return {"seq": entry.seq, "epoch": entry.epoch, "at_ms": entry.at_ms, "event": entry.event}


def _json(said: Any) -> Response:
    return Response(msgspec.json.encode(said), media_type="application/json")


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or not least <= int(text) <= most:
        raise ClientError(f"{name}={text[:40]!r}: give a whole number from {least} to {most}", status=422)
    return int(text)
