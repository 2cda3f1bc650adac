"""The scripted model with one fault or one dialect, named in the last user message.

``fault=KIND [turn=N]``: a fault shows once, at model turn N (1, 2, ...) since the user's message, by default at the
first turn that can show it. A dialect applies to every turn unless ``turn=N`` says which. Everything else is the good
stream of `anabranch.demo.model`.

    python -m tests.agents.model --port 0 [--pace 0]
"""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from anabranch.demo._process import command_line, serve
from anabranch.demo.model import chunks, last_question, refusal, refused
from tests.agents.wire import frame, pause, reset, torn

Json = dict[str, Any]
RESET = b""
DONE = b"data: [DONE]\n\n"

FAULTS = (
    *("http_500", "http_401", "error_first", "error_text", "error_args", "cut_first", "cut_text", "cut_args"),
    *("drop_text", "drop_args", "length_args", "garbage"),
)


def _delta(chunk: Json) -> Json:
    return chunk["choices"][0]["delta"] if chunk["choices"] else {}


def _with(chunk: Json, **delta: Any) -> Json:
    return {**chunk, "choices": [{**chunk["choices"][0], "delta": {**_delta(chunk), **delta}}]}


def _id_name_every_delta(good: list[Json]) -> list[Json]:
    calls = {e["index"]: e for chunk in good for e in _delta(chunk).get("tool_calls", ()) if "id" in e}

    def repeated(entry: Json) -> Json:
        first = calls[entry["index"]]
        function = {"name": first["function"]["name"], "arguments": entry["function"]["arguments"]}
        return {**first, "function": function}

    return [
        _with(chunk, role=None, content=None, tool_calls=[repeated(e) for e in _delta(chunk)["tool_calls"]])
        if "tool_calls" in _delta(chunk)
        else chunk
        for chunk in good
    ]


def _by_call(good: list[Json]) -> tuple[list[Json], list[list[Json]], list[Json]]:
    """What comes before the calls, the chunks of each call, and what comes after."""
    at = [n for n, chunk in enumerate(good) if "tool_calls" in _delta(chunk)]
    calls: dict[int, list[Json]] = {}
    for n in at:
        calls.setdefault(_delta(good[n])["tool_calls"][0]["index"], []).append(good[n])
    return (good[: at[0]], list(calls.values()), good[at[-1] + 1 :]) if at else (good, [], [])


def _no_index(good: list[Json]) -> list[Json]:
    before, calls, after = _by_call(good)
    entries = [(chunk, _delta(chunk)["tool_calls"][0]) for call in calls for chunk in call]
    return [
        *before,
        *(_with(c, tool_calls=[{k: v for k, v in entry.items() if k != "index"}]) for c, entry in entries),
        *after,
    ]


def _whole_calls(good: list[Json]) -> list[Json]:
    before, calls, after = _by_call(good)
    whole = []
    for call in calls:
        entries = [_delta(chunk)["tool_calls"][0] for chunk in call]
        arguments = "".join(entry["function"]["arguments"] for entry in entries)
        whole.append({**entries[0], "function": {"name": entries[0]["function"]["name"], "arguments": arguments}})
    return [*before, *([_with(calls[0][0], tool_calls=whole)] if whole else []), *after]


def _empty_choices(good: list[Json]) -> list[Json]:
    return [item for chunk in good for item in ({**good[0], "choices": []}, chunk)]


def _null_content(good: list[Json]) -> list[Json]:
    def nulled(chunk: Json) -> Json:
        return chunk if _delta(chunk).get("content") or not chunk["choices"] else _with(chunk, content=None)

    return [item for chunk in good[:-2] for item in (nulled(chunk), _with(good[0], content=""))] + good[-2:]


def _reasoning(good: list[Json]) -> list[Json]:
    thoughts = ("First ", "things ", "first… ", "🤔", "", None)
    return [good[0], *(_with(good[0], content=None, reasoning_content=thought) for thought in thoughts), *good[1:]]


DIALECTS: dict[str, Callable[[list[Json]], list[Json]]] = {
    "id_name_every_delta": _id_name_every_delta,
    "no_index": _no_index,
    "whole_calls": _whole_calls,
    "empty_choices": _empty_choices,
    "null_content": _null_content,
    "reasoning": _reasoning,
    **dict.fromkeys(("crlf", "utf8_split", "comments"), list),
}


def chosen(messages: list[Json]) -> str | None:
    """The fault or dialect of this turn. Raises ValueError for a kind that does not exist."""
    question, recent = last_question(messages)
    named = re.search(r"fault=(\w+)", question)
    if named is None:
        return None
    kind = named[1]
    if kind not in FAULTS and kind not in DIALECTS:
        raise ValueError(f"fault={kind} does not exist; known: {', '.join((*FAULTS, *DIALECTS))}")
    before = [message for message in recent if message["role"] == "assistant"]
    if turn := re.search(r"turn=(\d+)", question):
        return kind if int(turn[1]) == len(before) + 1 else None
    if kind in DIALECTS:
        return kind
    shows = {"text": "content", "args": "tool_calls"}.get(kind.split("_")[-1], "role")
    return None if any(message.get(shows) for message in before) else kind


def writes(kind: str | None, good: list[Json]) -> list[bytes]:
    """The body of the answer, one item a write; RESET asks for a TCP reset."""
    if kind in DIALECTS:
        frames = [frame(chunk, "\r\n" if kind == "crlf" else "\n") for chunk in DIALECTS[kind](good)] + [DONE]
        if kind == "comments":
            frames = [item for each in frames for item in (b": keep-alive\n\n", each)]
        return [part for each in frames for part in torn(each)] if kind == "utf8_split" else frames
    what, _, where = (kind or "").partition("_")
    text = [n for n, chunk in enumerate(good) if _delta(chunk).get("content")]
    arguments = [n for n, chunk in enumerate(good) if _delta(chunk).get("tool_calls", [{"id": 0}])[0].get("id") is None]
    places = {"first": [-1], "text": text, "args": arguments, "": text + arguments}.get(where, [])
    if not kind or not places:
        return [*map(frame, good), DONE]
    at = places[len(places) // 2] + 1
    head = [frame(chunk) for chunk in good[:at]]
    error = {"message": "the model is overloaded", "type": "server_error", "param": None, "code": "overloaded"}
    cut_off = {**good[0], "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    tail = {
        "error": [frame({"error": error})],
        "cut": [],
        "drop": [RESET],
        "length": [frame(cut_off), *(frame(chunk) for chunk in good if not chunk["choices"]), DONE],
        "garbage": [b'data: {"id": "chatcmpl-broken", "choices": [{"ind\n\n', *map(frame, good[at:]), DONE],
    }
    return head + tail[what]


def build(pace_s: float) -> Starlette:
    """The endpoint; `pace_s` seconds pass between two writes. `GET /heard` tells the conversations it was given."""
    count = 0
    heard: list[list[Json]] = []

    async def calls(_request: Request) -> Response:
        return JSONResponse({"count": count})

    async def chat(request: Request) -> Response:
        nonlocal count
        body = await request.json()
        if offence := refusal(body):
            return refused(offence)
        heard.append(body["messages"])
        try:
            kind = chosen(body["messages"])
        except ValueError as error:
            return refused(str(error))
        count += 1
        if kind and kind.startswith("http_"):
            error_body = {"message": f"asked to fail: {kind}", "type": "server_error", "param": None, "code": None}
            return JSONResponse({"error": error_body}, status_code=int(kind.removeprefix("http_")))

        async def stream() -> AsyncIterator[bytes]:
            for data in writes(kind, chunks(body)):
                if data == RESET:
                    await reset(request)
                    return
                yield data
                await pause(pace_s or (0.002 if kind == "utf8_split" else 0))

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def told(_request: Request) -> Response:
        return JSONResponse({"heard": heard})

    return Starlette(
        routes=[
            Route("/calls", calls),
            Route("/heard", told),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


def main() -> None:
    """Parse the command line and serve."""
    parser = command_line("The scripted model, misbehaving on request.")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds between writes (default 0)")
    options = parser.parse_args()
    serve(lambda _url: build(options.pace), options)


if __name__ == "__main__":
    main()
