"""AG-UI over HTTP: ``POST /agui``, ``POST /agents/{name}/agui`` and ``GET /runs/{run_id}/agui``."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from ...events import RunStarted
from ...transports.http import BODY_LIMIT, json_body
from ...transports.stream import KEEP_ALIVE_S, FrameStream
from .._base import Cursor, CursorUnknown, Encoder
from .._follow import Follower
from .._gate import Gate, Watched
from .._remnant import Remnant
from .encode import AguiEncoder, reader
from .parse import parse, readable
from .prelude import Prelude
from .profile import Profile


def routes(gate: Gate, *, keep_alive_s: float = KEEP_ALIVE_S, body_limit: int = BODY_LIMIT) -> list[Route]:
    """The sink's routes. A request is answered by a stream that ends with exactly one terminal event, or by a 4xx.

    An attach to a finished run of which the client has everything is a 204, which an EventSource does not repeat.
    """

    def answer(follower: Follower) -> FrameStream | Response:
        return Response(status_code=204) if follower.over else FrameStream(follower.frames(), keep_alive_s=keep_alive_s)

    async def run(request: Request) -> FrameStream | Response:
        principal = await gate.identify(request)
        asked, profile = parse(await json_body(request, body_limit), request.headers, request.query_params)
        seen = _last_event_id(request)
        if seen.rpartition(":")[0] != asked.run_id:
            seen = ""  # of a run before this one
        if seen:
            await gate.find(principal, asked.run_id)  # who comes back has no run started
        asked = replace(asked, dialect=profile.dialect)
        watched = await gate.start(principal, request.path_params.get("name"), asked)
        return answer(await attached(watched, profile, seen))

    async def attach(request: Request) -> FrameStream | Response:
        principal = await gate.identify(request)
        query = request.query_params
        watched = await gate.find(principal, request.path_params["run_id"])
        profile = readable(request.headers, query, watched.dialect)
        # An EventSource that comes back repeats its address, and says in the header what it has meanwhile.
        seen = _last_event_id(request) or query.get("after", "")
        return answer(await attached(watched, profile, seen, prelude=query.get("prelude") == "1"))

    attaching = Route("/runs/{run_id:path}/agui", attach, methods=["GET"])
    attaching.methods = {"GET"}  # not HEAD, which would watch the run and see nothing
    return [*[Route(path, run, methods=["POST"]) for path in ("/agui", "/agents/{name}/agui")], attaching]


async def attached(watched: Watched, profile: Profile, seen: str = "", *, prelude: bool = False) -> Follower:
    """Where the client goes on who has the frame with the id ``seen`` (``""``: none).

    Without such a frame it begins at the start, or with a ``prelude``; so it does when entries are gone that it has
    not seen. Raises ``CursorUnknown``, except when a prelude was asked for, which is the remedy.
    """
    try:
        follower = _follower(watched, profile, AguiEncoder(profile))
        if seen and await follower.resume(Cursor.parse(seen, watched.run_id)):
            return follower
    except CursorUnknown:
        if not prelude:
            raise
    bounds = await watched.bounds()
    whole = bounds.first <= 1
    encoder: Encoder = AguiEncoder(profile) if whole else Remnant(AguiEncoder(profile))
    follower = _follower(watched, profile, encoder)
    if prelude or not whole:
        started = RunStarted(run_id=watched.run_id, thread_id=watched.thread_id)
        history = await watched.history()
        follower.begin(Prelude(encoder, profile, started, history, gone=0 if whole else bounds.first - 1), bounds)
    return follower


def _follower(watched: Watched, profile: Profile, encoder: Encoder) -> Follower:
    return Follower(watched, reader(profile), encoder, partial(AguiEncoder.restored, profile))


def _last_event_id(caller: HTTPConnection) -> str:
    """What an EventSource says it has: its header is UTF-8, whatever the rules for headers are."""
    said = caller.headers.get("last-event-id", "").encode("latin-1")
    return said.decode(errors="replace")
