"""A2A over plain HTTP: a method for each path. Those of 0.3 are under ``/v1``."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...errors import AnabranchError
from ...transports.http import json_body
from ...transports.stream import FrameStream
from .._gate import Gate
from . import legacy, parse, refusals
from .methods import Caller, Methods, Payload
from .parse import Call
from .payload import to_json
from .profile import Name, Version
from .rpc import Endpoint, Stream, activated, headers_of, last_event_id, unless_left

_SEND = ("SendMessage", "SendStreamingMessage")
_PUSH = "/tasks/{id}/pushNotificationConfigs"
_PATHS = (
    ("POST", "/message:send", "SendMessage"),
    ("POST", "/message:stream", "SendStreamingMessage"),
    ("POST", "/tasks/{id}:cancel", "CancelTask"),
    ("GET", "/tasks/{id}:subscribe", "SubscribeToTask"),
    ("POST", "/tasks/{id}:subscribe", "SubscribeToTask"),
    ("GET", "/tasks", "ListTasks"),
    ("GET", "/tasks/{id}", "GetTask"),
    ("POST", _PUSH, "CreateTaskPushNotificationConfig"),
    ("GET", _PUSH, "ListTaskPushNotificationConfigs"),
    ("GET", _PUSH + "/{push_id}", "GetTaskPushNotificationConfig"),
    ("DELETE", _PUSH + "/{push_id}", "DeleteTaskPushNotificationConfig"),
    ("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
)
_OLD_PATHS = (*(path for path in _PATHS if path[2] != "ListTasks"), ("GET", "/card", "GetExtendedAgentCard"))


def routes(
    gate: Gate, methods: Methods, under: str, *, keep_alive_s: float, body_limit: int, profile: Name
) -> list[Route]:
    """The routes of one agent, which is the one named in the path ``under``, or the default one.

    ``profile`` is for clients that name none.
    """

    def endpoint(method: str, version: Version) -> Endpoint:
        async def answer(request: Request) -> Response | FrameStream:
            principal = await gate.identify(request)
            agent = gate.present(request.path_params.get("name")).name
            try:
                headers = headers_of(request)
                parse.expect(version, headers, request.query_params)
                said = await _said(request, method, body_limit)
                asked = (headers, request.query_params, profile)
                call = parse.rest_call(method, said, version, *asked, text=method not in _SEND)
                caller = Caller(principal, agent, last_event_id(request))
                if streaming := methods.streaming.get(method):
                    frames = await streaming(caller, call)
                    return Stream(frames, call.profile, partial(_refused, version), keep_alive_s=keep_alive_s)
                told = await unless_left(request, methods.single[method](caller, call))
                return _json(_told(call, told), version, headers=activated(call.profile))
            except AnabranchError as error:
                return _refused(version, error)

        return answer

    modern = [(verb, path, endpoint(method, "1.0")) for verb, path, method in _PATHS]
    old = [(verb, f"/v1{path}", endpoint(method, "0.3")) for verb, path, method in _OLD_PATHS]
    made = [Route(under + path, answer, methods=[verb]) for verb, path, answer in (*modern, *old)]
    for route in made:
        assert route.methods is not None
        route.methods.discard("HEAD")  # which would subscribe and see nothing
    return made


async def _said(request: Request, method: str, body_limit: int) -> object:
    if method in _SEND:
        return parse.decode(await json_body(request, body_limit))
    said = dict(request.query_params)
    return said | {"id": request.path_params["id"]} if "id" in request.path_params else said


def _told(call: Call, told: Payload) -> Payload:
    old = call.profile.version == "0.3"
    if call.method == "SendMessage":
        return legacy.rest_event({"task": told}) if old else {"task": told}
    return legacy.rest_task(told) if old else told


def _refused(version: Version, error: AnabranchError) -> Response:
    body, status = refusals.rest(error)
    return _json(body, version, status)


def _json(said: Payload, version: Version, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    kind = "application/a2a+json" if version == "1.0" else "application/json"
    return Response(to_json(said), status, headers, media_type=kind)
