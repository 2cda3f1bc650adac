"""What the known clients of A2A agents send to ``host:port/``, and what they get.

Each case is a file in ``cases/a2a_requests``: a request with its headers, and what its answer says. With ``given``, a
task comes first, of that text, whose ids are put in for ``{task}`` and ``{context}``. Then the same requests with what
goes wrong on the way.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.compat.v0_3 import types as old
from a2a_serving import SCHEMA, STREAM, legacy, result
from pydantic import BaseModel
from serving import WAIT_S, Answer, ask, served

from anabranch.app import App
from anabranch.events import Interrupted
from anabranch.request import RunRequest

CASES = {
    file.stem: json.loads(file.read_text("utf-8"))
    for file in sorted((Path(__file__).parent / "cases" / "a2a_requests").glob("*.json"))
}
POSTED = {name: case for name, case in CASES.items() if case["request"]["method"] == "POST"}
MODELS: dict[str, type[BaseModel]] = {
    "message/send": old.SendMessageResponse,
    "message/stream": old.SendStreamingMessageResponse,
    "tasks/get": old.GetTaskResponse,
    "tasks/cancel": old.CancelTaskResponse,
    "tasks/resubscribe": old.SendStreamingMessageResponse,
}
"""What 0.3 says that each method answers."""

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


async def chat(request: RunRequest) -> AsyncGenerator[Any, None]:
    """An agent that does what it is told: waits, fails, asks, says how it was answered, or says it again."""
    text = "".join(part.text for part in request.messages[-1].parts) or request.last_user_text()
    if request.resume:
        yield json.dumps(request.resume[0].payload)
    elif text == "ask":
        yield Interrupted(interrupt_id="q", reason="confirmation", message="May I?", schema=SCHEMA)
    elif text == "wait":
        yield "begun "
        await asyncio.Event().wait()
    elif text == "fail":
        yield "so far "
        raise RuntimeError("a secret inside")
    else:
        yield text


async def given(url: str, text: str) -> dict[str, Any]:
    """The task that such a message starts, when the agent has said what it says before it waits."""
    said = {"message": legacy(text), "configuration": {"blocking": text != "wait"}}
    task = await result(url, "message/send", said, version="")
    while text == "wait" and "artifacts" not in task:
        task = await result(url, "tasks/get", {"id": task["id"]}, version="")
    return dict(task)


def headed(case: dict[str, Any]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in case["request"]["headers"].items()}


async def asked(url: str, case: dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
    """The answer, and the body that was sent."""
    request = case["request"]
    body = json.dumps(request.get("body"), ensure_ascii=False)
    if "given" in case:
        task = await given(url, case["given"])
        body = body.replace("{task}", task["id"]).replace("{context}", task["contextId"])
    sent = body.encode() if "body" in request else None
    headers = headed(case) | {"host": url.removeprefix("http://")}
    async with asyncio.timeout(WAIT_S):
        return await ask(url, request["method"], request["path"], sent, **headers), json.loads(body)


@every_case
async def test_a_request_as_it_is_sent_is_answered_as_its_client_reads_it(case: dict[str, Any]) -> None:
    expected = case["answer"]
    async with served(App({"chat": chat})) as url:
        answer, sent = await asked(url, case)
    if expected["kind"] == "card":
        card = old.AgentCard.model_validate(answer.json)
        assert (card.name, card.url.rstrip("/"), card.capabilities.streaming) == ("chat", url, True)
        assert not card.supports_authenticated_extended_card and card.preferred_transport == "JSONRPC"
        return
    if expected["kind"] == "error":
        assert answer.status == 200 and old.JSONRPCErrorResponse.model_validate(answer.said).id == sent["id"]
        assert answer.said["error"]["code"] == expected["code"]
        return
    responses = streamed(answer) if expected["kind"] == "stream" else [answer.json]
    for response in responses:
        assert MODELS[sent["method"]].model_validate(response).model_dump(exclude_none=True, by_alias=True) == response
        assert response["id"] == sent["id"] and type(response["id"]) is type(sent["id"])
    check([response["result"] for response in responses], expected)


def streamed(answer: Answer) -> list[dict[str, Any]]:
    """The responses in a stream, read as simple clients do: by its lines, and what those begin with."""
    assert (answer.status, answer.headers["content-type"]) == (200, STREAM)
    lines = answer.body.decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def check(results: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    """What a client shows that adds texts by artifact, unless it is told to replace them."""
    texts: dict[str, str] = {}
    states = []
    for said in results:
        if said["kind"] == "artifact-update":
            artifact = said["artifact"]
            before = texts.get(artifact["artifactId"], "") if said["append"] else ""
            texts[artifact["artifactId"]] = before + text_of(artifact)
            continue
        states.append(said["status"]["state"])
        assert said.get("final", False) is (said is results[-1] and said["kind"] == "status-update")
        texts |= {artifact["artifactId"]: text_of(artifact) for artifact in said.get("artifacts", ())}
    assert states == expected.get("states", [expected.get("state")])
    assert "".join(texts.values()) == expected["text"]
    status = results[-1]["status"]
    assert expected.get("says", "") in (text_of(status["message"]) if "message" in status else "")
    assert "message" in status or "says" not in expected


def text_of(holder: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in holder["parts"])


async def test_a_chat_that_could_not_stream_sends_the_same_message_again_and_finds_its_task() -> None:
    ran = []

    async def once(request: RunRequest) -> AsyncGenerator[str, None]:
        ran.append(request.run_id)
        yield "once"

    first, again = copy.deepcopy((CASES["chat_cli_stream"], CASES["chat_cli_send"]))
    again["request"]["body"]["params"] = first["request"]["body"]["params"]
    async with served(App({"once": once})) as url:
        streams, sent = (await asked(url, first))[0], (await asked(url, again))[0]
    assert sent.json["result"]["id"] == streamed(streams)[0]["result"]["id"]
    assert text_of(sent.json["result"]["artifacts"][0]) == "once" and len(ran) == 1


async def test_a_client_that_reads_text_in_the_charset_of_the_response_reads_it_right() -> None:
    case = CASES["slack_stream"]["request"]
    async with served(App({"chat": chat})) as url, httpx.AsyncClient(default_encoding="latin-1") as client:
        response = await client.post(url, json=case["body"], headers=case["headers"])
        said = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: ")]
        texts = [text_of(each["result"]["artifact"]) for each in said if "artifact" in each["result"]]
        assert "".join(texts) == "déjà vu 🏛"


# --- what goes wrong on the way --------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], Any]


def put(*path: Any, value: Any) -> Change:
    """Put ``value`` there in the body; nothing, when there is no such place."""

    def change(body: dict[str, Any]) -> Any:
        holder: Any = body
        for name in path[:-1]:
            if not isinstance(holder, dict) or name not in holder:
                return None
            holder = holder[name]
        holder[path[-1]] = value
        return body

    return change


def without(*path: str) -> Change:
    """Leave out what is there."""

    def change(body: dict[str, Any]) -> Any:
        holder = body
        for name in path[:-1]:
            holder = holder.get(name, {})
        return body if holder.pop(path[-1], None) is not None else None

    return change


def raw(change: Callable[[bytes], bytes]) -> Change:
    """Change the bytes of the body."""
    return lambda body: change(json.dumps(body, ensure_ascii=False).encode())


MESSAGE = ("params", "message")
REQUEST, PARAMS, PARSE, METHOD = -32600, -32602, -32700, -32601
OF_MESSAGES: dict[str, Change] = {
    "no messageId": without(*MESSAGE, "messageId"),
    "a messageId of null": put(*MESSAGE, "messageId", value=None),
    "an empty messageId": put(*MESSAGE, "messageId", value=""),
    "a messageId that is a number": put(*MESSAGE, "messageId", value=5),
    "a messageId without end": put(*MESSAGE, "messageId", value="m" * 100_000),
    "no message": without(*MESSAGE),
    "a message that is text": put(*MESSAGE, value="hi"),
    "a message that is a list": put(*MESSAGE, value=[]),
    "no role": without(*MESSAGE, "role"),
    "a role of the agent": put(*MESSAGE, "role", value="agent"),
    "a role that is none": put(*MESSAGE, "role", value="system"),
    "a role that is an object": put(*MESSAGE, "role", value={}),
    "no parts": without(*MESSAGE, "parts"),
    "empty parts": put(*MESSAGE, "parts", value=[]),
    "parts that are text": put(*MESSAGE, "parts", value="hi"),
    "a part that is null": put(*MESSAGE, "parts", value=[None]),
    "a part that is text": put(*MESSAGE, "parts", value=["hi"]),
    "a part without anything": put(*MESSAGE, "parts", value=[{"kind": "text"}]),
    "a part whose text is a number": put(*MESSAGE, "parts", value=[{"kind": "text", "text": 5}]),
    "a part whose file is nothing": put(*MESSAGE, "parts", value=[{"kind": "file", "file": {}}]),
    "a part whose file is no base64": put(*MESSAGE, "parts", value=[{"kind": "file", "file": {"bytes": "no!"}}]),
    "a part of two kinds": put(*MESSAGE, "parts", value=[{"text": "a", "data": {}}]),
    "a part of two other kinds": put(*MESSAGE, "parts", value=[{"text": "a", "file": {"uri": "https://x.test"}}]),
    "a part of another kind than it has": put(*MESSAGE, "parts", value=[{"kind": "text", "data": {}}]),
    "a context that is a number": put(*MESSAGE, "contextId", value=5),
    "a context with a line break": put(*MESSAGE, "contextId", value="a\nb"),
    "metadata that is text": put(*MESSAGE, "metadata", value="me"),
    "a configuration that is a list": put("params", "configuration", value=[]),
    "a blocking that is text": put("params", "configuration", value={"blocking": "yes"}),
    "a history length that is text": put("params", "configuration", value={"historyLength": "3"}),
    "output modes that are text": put("params", "configuration", value={"acceptedOutputModes": "text"}),
}
OF_0_3 = {
    "a blocking that is text",
    "a part whose file is nothing",
    "a part whose file is no base64",
    "a part of two other kinds",
    "a part of another kind than it has",
}
"""What is about fields that 1.0 does not know, and so ignores."""
OF_TASKS: dict[str, Change] = {
    "no id": without("params", "id"),
    "an id of null": put("params", "id", value=None),
    "an id that is a number": put("params", "id", value=5),
    "an empty id": put("params", "id", value=""),
}
OF_ALL: dict[str, tuple[Change, tuple[int, ...]]] = {
    "params of null": (put("params", value=None), (PARAMS,)),
    "no params": (without("params"), (PARAMS,)),
    "params that are a list": (put("params", value=[1]), (PARAMS,)),
    "params that are text": (put("params", value="x"), (PARAMS,)),
    "a batch": (lambda body: [body, body], (REQUEST,)),
    "an empty batch": (lambda body: [], (REQUEST,)),
    "null": (lambda body: b"null", (REQUEST,)),
    "a text": (lambda body: b'"hi"', (REQUEST,)),
    "an id that is an object": (put("id", value={}), (REQUEST,)),
    "an id that is a list": (put("id", value=[1]), (REQUEST,)),
    "an id that is a truth": (put("id", value=True), (REQUEST,)),
    "no version of JSON-RPC": (without("jsonrpc"), (REQUEST,)),
    "another version of JSON-RPC": (put("jsonrpc", value="1.0"), (REQUEST,)),
    "a version of JSON-RPC that is a number": (put("jsonrpc", value=2.0), (REQUEST,)),
    "no method": (without("method"), (REQUEST,)),
    "a method that is a number": (put("method", value=5), (REQUEST,)),
    "a method that is none": (put("method", value="tasks/send"), (METHOD,)),
    "nothing": (raw(lambda body: b""), (PARSE,)),
    "half of it": (raw(lambda body: body[: len(body) // 2]), (PARSE,)),
    "more after it": (raw(lambda body: body + b"}"), (PARSE,)),
    "bytes that are no UTF-8": (raw(lambda body: body.replace(b'"2.0"', b'"2.\xff"')), (PARSE,)),
    "a form": (raw(lambda body: b"jsonrpc=2.0&method=message%2Fsend"), (PARSE,)),
    "a nesting without end": (raw(lambda body: b'{"jsonrpc":' + b"[" * 200_000), (PARSE,)),
}

every_posted = pytest.mark.parametrize("case", POSTED.values(), ids=POSTED)


@every_posted
async def test_a_request_that_is_wrong_gets_a_clear_error_under_its_own_id(case: dict[str, Any]) -> None:
    method = case["request"]["body"]["method"]
    own = OF_MESSAGES if method.startswith("message/") else OF_TASKS if "pushNotification" not in method else {}
    changes = OF_ALL | {name: (change, (PARAMS,)) for name, change in own.items()}
    headers = headed(case)
    tried = 0
    async with served(App({"chat": chat})) as url, asyncio.timeout(WAIT_S):
        for name, (change, numbers) in changes.items():
            body = change(copy.deepcopy(case["request"]["body"]))
            if body is None:
                continue
            tried += 1
            if "pushNotification" in method and PARAMS in numbers:
                numbers = (-32003,)
            answer = await ask(url, "POST", "/", body, **headers)
            refused(answer, numbers, name)
            known = isinstance(body, dict) and isinstance(body["id"], str | int) and body["id"] is not True
            assert answer.said["id"] == (body["id"] if known else None), name
        assert tried >= 20
        assert await given(url, "hello"), "the server goes on"


def refused(answer: Answer, numbers: tuple[int, ...], name: str) -> None:
    assert answer.status == 200, (name, answer)
    old.JSONRPCErrorResponse.model_validate(answer.said)
    said = answer.said["error"]
    assert said["code"] in numbers, (name, said)
    assert len(said["message"]) > 10 and "Traceback" not in said["message"] and ".py" not in said["message"], name


@pytest.mark.parametrize("path", ["/message:send", "/message:stream", "/v1/message:send", "/v1/message:stream"])
async def test_a_message_that_is_wrong_gets_a_clear_error_over_rest_too(path: str) -> None:
    old_one = path.startswith("/v1")
    async with served(App({"chat": chat})) as url, asyncio.timeout(WAIT_S):
        for name, change in OF_MESSAGES.items():
            if name in OF_0_3 and not old_one:
                continue
            said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
            params = change({"params": {"message": said}})["params"]
            if isinstance(params.get("message"), dict) and "parts" in params["message"] and old_one:
                params["message"]["content"] = params["message"].pop("parts")
            answer = await ask(url, "POST", path, params, **({} if old_one else {"a2a_version": "1.0"}))
            error = json.loads(answer.body)["error"]
            assert (answer.status, error["details"][0]["reason"]) == (400, "INVALID_PARAMS"), (name, answer)
        for body in (b"", b"{", b"[]", b"null", b'"hi"', b"\xff", b"[" * 100_000):
            answer = await ask(url, "POST", path, body, **({} if old_one else {"a2a_version": "1.0"}))
            assert answer.status == 400, (body[:9], answer)


@every_posted
async def test_a_request_that_is_too_large_or_of_another_type_has_its_http_status_too(case: dict[str, Any]) -> None:
    headers = headed(case)
    body = case["request"]["body"]
    async with served(App({"chat": chat})) as url, asyncio.timeout(WAIT_S):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            answer = await ask(url, "POST", "/", body, **headers | {"content_type": kind})
            assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (415, -32005, None)
        for kind in ("application/json; charset=utf-8", "Application/JSON", "application/a2a+json"):
            answer = await ask(url, "POST", "/", b"{", **headers | {"content_type": kind})
            assert (answer.status, answer.json["error"]["code"]) == (200, PARSE)
    large = b'{"jsonrpc":"2.0","id":1,"padding":"' + b"x" * 10 * 2**20 + b'"}'
    async with served(App({"chat": chat})) as url, httpx.AsyncClient() as client, asyncio.timeout(WAIT_S):
        told = await client.post(url, content=large, headers={"content-type": "application/json"})
        assert (told.status_code, told.json()["error"]["code"]) == (413, REQUEST)


@pytest.mark.parametrize("name", ["chat_cli_send", "page_sdk_stream"])
async def test_what_json_leaves_open_is_read_and_never_an_error_of_the_server(name: str) -> None:
    body = json.dumps(CASES[name]["request"]["body"])
    text = '"text": "' + {"chat_cli_send": "Which", "page_sdk_stream": "by user"}[name]
    assert body.count(text) == 1
    variants = {
        "a key twice": body.replace('"jsonrpc": "2.0"', '"jsonrpc": "1.0", "jsonrpc": "2.0"'),
        "a method twice": body.replace('"method": ', '"method": "tasks/get", "method": '),
        "half of a pair": body.replace(text, '"text": "\\ud800'),
        "a zero": body.replace(text, '"text": "\\u0000'),
        "white space": f"\r\n\t {body} \n",
        "escapes": body.replace("message", "\\u006dessage"),
        "fields of tomorrow": body.replace('"params": {', '"params": {"tenant": "", "\\u2028": [1e400], "x": null, '),
        "large numbers": body.replace('"params": {', '"params": {"metadata": {"n": 1' + "0" * 400 + "}, "),
    }
    async with served(App({"chat": chat})) as url, asyncio.timeout(WAIT_S):
        for number, (what, said) in enumerate(variants.items()):
            said = said.replace('essageId": "', f'essageId": "{number}-').replace("ctx-", f"{number}-")
            answer = await ask(url, "POST", "/", said.encode(), accept="text/event-stream")
            stream = answer.headers["content-type"] == STREAM
            last = streamed(answer)[-1] if stream else answer.json
            if "error" in last:
                assert last["error"]["code"] in (PARSE, PARAMS), (what, last)
                assert what in ("large numbers", "fields of tomorrow"), (what, last)
            else:
                assert last["result"]["status"]["state"] == "completed", (what, last)
