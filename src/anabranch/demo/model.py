"""A scripted OpenAI-compatible chat endpoint: no model, no intelligence, the same output for the same request.

It exists so that the demo and the tests have a supervisor that plans, delegates in parallel and answers, at no cost.
What it says is decided by :func:`script`, a pure function; the rest is the HTTP shell. It reads a conversation as
strictly as the strictest provider does (:func:`refusal`), so a broken history shows here first.

    python -m anabranch.demo.model --port 0 [--pace 0.02] [--no-plan]
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from anabranch.demo import WARM_UP
from anabranch.demo._process import command_line, serve

MODEL = "scripted"
_ASK = "ask_"
_TODOS = "write_todos"
_ALONE = "This is the scripted model. It knows one sentence, and you have just read it."

Json = dict[str, Any]


def script(messages: list[Json], tools: list[Json], plans: bool = True) -> list[Json]:
    """The deltas of the next assistant message: text, tool calls, or text then tool calls.

    With tools called ``ask_<agent>`` a question takes three turns: a plan (when it ``plans`` and ``write_todos`` is
    offered), parallel questions to the agents named in it (all of them when none is), an answer. Only
    messages after the last user message decide which turn it is. Call ids are a digest of the conversation, so they
    never repeat within it.
    """
    offered = [tool["function"]["name"] for tool in tools]
    agents = [name.removeprefix(_ASK) for name in offered if name.startswith(_ASK)]
    question, recent = last_question(messages)
    results = _results(recent)
    asked = _named_in(question, agents)
    call_id = f"call_{_digest(messages)}_"
    if not agents:
        return _words(_ALONE)
    if plans and _TODOS in offered and _TODOS not in results:
        todos = [f"Ask {agent} → {question}" for agent in asked] + ["Answer in one piece ✍️"]
        plan = [{"content": todo, "status": "pending" if n else "in_progress"} for n, todo in enumerate(todos)]
        narration = f"I make a plan first, then I ask {' and '.join(asked)} – in parallel, if there are several. "
        return _words(narration) + _calls([(_TODOS, {"todos": plan})], call_id, 6)
    if not any(name.startswith(_ASK) for name in results):
        return _calls([(_ASK + agent, {"question": question}) for agent in asked], call_id, 5)
    return _words(_answer({n.removeprefix(_ASK): text for n, text in results.items() if n.startswith(_ASK)}))


def _digest(messages: list[Json]) -> str:
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:12]


def last_question(messages: list[Json]) -> tuple[str, list[Json]]:
    """The text of the last user message and the messages after it."""
    last = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=-1)
    return _text(messages[last]) if last >= 0 else "", messages[last + 1 :]


def _text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _results(recent: list[Json]) -> dict[str, str]:
    calls = [call for message in recent for call in message.get("tool_calls") or ()]
    names = {call["id"]: call["function"]["name"] for call in calls}
    return {names[message["tool_call_id"]]: _text(message) for message in recent if message["role"] == "tool"}


def _named_in(question: str, agents: list[str]) -> list[str]:
    def named(agent: str) -> bool:
        return bool(re.search(rf"(?<!\w){re.sub('[-_]', '[-_ ]', re.escape(agent))}(?!\w)", question, re.IGNORECASE))

    return [agent for agent in agents if named(agent)] or agents


def _answer(results: dict[str, str]) -> str:
    said = [
        f"{agent} failed, so its part is missing."
        if text.startswith("Error")
        else f"{agent} answered with {len(text)} characters, shown above as it wrote them."
        for agent, text in results.items()
    ]
    tail = "Nothing was shortened or rewritten on the way: this scripted model only counts what the agents gave it. ✅"
    return " ".join(["Here is what came back.", *said, tail])


def _words(text: str) -> list[Json]:
    return [{"content": word} for word in re.findall(r"\S+\s*", text)]


def _calls(calls: list[tuple[str, Json]], id_prefix: str, size: int) -> list[Json]:
    """Every call announced, then their arguments in fragments of `size` characters, one of each call in turn."""
    opened = [
        {"index": n, "id": f"{id_prefix}{n}", "type": "function", "function": {"name": name, "arguments": ""}}
        for n, (name, _) in enumerate(calls)
    ]
    arguments = [json.dumps(value, ensure_ascii=False) for _, value in calls]
    fragments = [
        {"index": n, "function": {"arguments": text[at : at + size]}}
        for at in range(0, max(map(len, arguments)), size)
        for n, text in enumerate(arguments)
        if at < len(text)
    ]
    return [{"tool_calls": [entry]} for entry in opened + fragments]


def refusal(body: Any) -> str | None:
    """What a strict provider would refuse this request for, or None. Names the place and the offence."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return "the request must be a JSON object with a string 'model'"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "'messages' must be a list that is not empty"
    seen: set[str] = set()
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        where = f"messages[{n}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "developer", "user", "assistant", "tool"):
            return f"{where}.role {role!r} is unknown"
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in open_calls:
                why = "was already answered" if call_id in seen else "answers no tool call of the message before"
                return f"{where}.tool_call_id {call_id!r} {why}"
            open_calls.remove(call_id)
            continue
        if open_calls:
            break
        for call in message.get("tool_calls") or ():
            if offence := _refused_call(call, seen):
                return f"{where}.tool_calls {offence}"
            open_calls.append(call["id"])
    return f"tool calls without a tool message: {', '.join(open_calls)}" if open_calls else None


def _refused_call(call: Json, seen: set[str]) -> str | None:
    call_id, function = call.get("id"), call.get("function") or {}
    if not isinstance(call_id, str) or not call_id or not function.get("name"):
        return "holds a call without an id or a name"
    if call_id in seen:
        return f"repeats the id {call_id!r}"
    seen.add(call_id)
    try:
        json.loads(function.get("arguments", ""))
    except ValueError:
        return f"of {call_id!r} holds arguments that are not JSON: {function.get('arguments')!r}"
    return None


def chunks(body: Json, plans: bool = True) -> list[Json]:
    """The whole good stream for a request: role, deltas, finish reason, usage (when asked for)."""
    messages = body["messages"]
    deltas = script(messages, body.get("tools") or [], plans)
    base = {
        "id": f"chatcmpl-{_digest(messages)}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "system_fingerprint": MODEL,
    }
    rows: list[tuple[Json, str | None]] = [({"role": "assistant", "content": ""}, None)]
    rows += [(delta, None) for delta in deltas]
    rows += [({}, "tool_calls" if "tool_calls" in deltas[-1] else "stop")]
    out = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in rows]
    if (body.get("stream_options") or {}).get("include_usage"):
        out.append({**base, "choices": [], "usage": _usage(messages, deltas)})
    return out


def _usage(messages: list[Json], deltas: list[Json]) -> Json:
    prompt = sum(len(_text(message).split()) for message in messages)
    return {"prompt_tokens": prompt, "completion_tokens": len(deltas), "total_tokens": prompt + len(deltas)}


def _completion(body: Json) -> Json:
    *parts, end = chunks({**body, "stream_options": None})
    deltas = [part["choices"][0]["delta"] for part in parts]
    calls: list[Json] = []
    for entry in (entry for delta in deltas for entry in delta.get("tool_calls", ())):
        if "id" in entry:
            calls.append({key: value for key, value in entry.items() if key != "index"})
        else:
            calls[entry["index"]]["function"]["arguments"] += entry["function"]["arguments"]
    message: Json = {"role": "assistant", "content": "".join(delta.get("content", "") for delta in deltas) or None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": end["choices"][0]["finish_reason"]}
    return {**end, "object": "chat.completion", "choices": [choice], "usage": _usage(body["messages"], deltas[1:])}


def build(pace_s: float, plans: bool = True) -> Starlette:
    """The endpoint as an ASGI app; `pace_s` seconds pass between two deltas. It `plans` first, or asks at once."""
    count = 0

    async def about(_request: Request) -> Response:
        return JSONResponse({"model": MODEL, "about": "A scripted stand-in for a model. Nothing here is generated."})

    async def models(_request: Request) -> Response:
        entry = {"id": MODEL, "object": "model", "created": 0, "owned_by": "anabranch demo (scripted)"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def calls(_request: Request) -> Response:
        return JSONResponse({"count": count})

    async def chat(request: Request) -> Response:
        nonlocal count
        try:
            body = await request.json()
            json.dumps(body, ensure_ascii=False).encode()  # half of a surrogate pair has no UTF-8 form
        except ValueError as error:
            return refused(f"the body is not JSON in UTF-8: {error}")
        if offence := refusal(body):
            return refused(offence)
        count += 1
        if not body.get("stream"):
            return JSONResponse(_completion(body))
        warm_up = last_question(body["messages"])[0].startswith(WARM_UP)
        return StreamingResponse(_paced(chunks(body, plans), 0 if warm_up else pace_s), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/", about),
            Route("/calls", calls),
            Route("/v1/models", models),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


def refused(message: str) -> Response:
    """An OpenAI error body, HTTP 400."""
    error = {"message": message, "type": "invalid_request_error", "param": "messages", "code": None}
    return JSONResponse({"error": error}, status_code=400)


async def _paced(stream: list[Json], pace_s: float) -> AsyncIterator[str]:
    for n, chunk in enumerate(stream):
        if n and pace_s:
            await asyncio.sleep(pace_s)
        yield f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
    yield "data: [DONE]\n\n"


def main() -> None:
    """Parse the command line and serve."""
    parser = command_line("A scripted OpenAI-compatible chat endpoint.")
    parser.add_argument("--pace", type=float, default=0.02, help="seconds between deltas (default 0.02, 0 for none)")
    parser.add_argument("--no-plan", action="store_true", help="ask the agents without writing a plan first")
    options = parser.parse_args()
    serve(lambda _url: build(options.pace, not options.no_plan), options)


if __name__ == "__main__":
    main()
