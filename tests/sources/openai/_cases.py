"""Dialects of the chat completions protocol, as data: what an endpoint sends, and what a reader must have read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

TOOLS = ("add", "sub", "get_weather", "now")
"""What the client offers in every case."""


def chunk(delta: Any, finish: Any = None, **more: Any) -> Json:
    """A chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**base, "choices": [choice], **more}


def texts(*pieces: Any) -> list[Json]:
    """Chunks of text."""
    return [chunk({"content": piece}) for piece in pieces]


def piece(args: Any = None, *, index: Any = None, id: Any = None, name: Any = None) -> Json:
    """A piece of a call, with the fields that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    return {key: value for key, value in (("index", index), ("id", id), ("function", function)) if value is not None}


def calls(*pieces: Json, **more: Any) -> Json:
    """A chunk with pieces of calls."""
    return chunk({"tool_calls": list(pieces), **more})


def opens(index: Any, id: Any, name: Any, args: Any = "") -> Json:
    """A chunk that begins a call as OpenAI does."""
    return calls(piece(args, index=index, id=id, name=name))


def goes_on(index: Any, args: Any) -> Json:
    """A chunk with more arguments as OpenAI sends them."""
    return calls(piece(args, index=index))


def frames(chunks: Iterable[Json | bytes]) -> bytes:
    """The stream of these chunks; bytes are written as they are."""
    return b"".join(
        each if isinstance(each, bytes) else b"data: %b\n\n" % json.dumps(each, ensure_ascii=False).encode()
        for each in chunks
    )


ROLE = chunk({"role": "assistant", "content": ""})
STOP, CALLED = chunk({}, "stop"), chunk({}, "tool_calls")
DONE = b"data: [DONE]\n\n"
COUNTS = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "total_tokens": 14,
    "prompt_tokens_details": {"cached_tokens": 6},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
USAGE = chunk({}) | {"choices": [], "usage": COUNTS}
SPENT = (10, 4, 1, 6)


@dataclass(frozen=True)
class Case:
    """A stream, and what comes of it.

    ``said`` are phase and text of each message, ``calls`` the (local id, name, arguments, who executes it, its result)
    of each call, in the order they began; ``usage`` is (input, output, reasoning, cached). ``reported`` names the
    public report or the measured server that the case stands for.
    """

    name: str
    chunks: list[Json | bytes]
    said: list[tuple[str, str]] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, str, str, str | None]] = field(default_factory=list)
    usage: tuple[int, int, int, int] | None = None
    end: str = "success"
    retryable: bool = False
    message: str = ""
    finish: str | None = "stop"
    reported: str = ""

    @property
    def stream(self) -> bytes:
        return frames(self.chunks)


def answer(name: str, chunks: list[Json | bytes], text: str, **more: Any) -> Case:
    """A case of one message."""
    return Case(name, [*chunks, DONE], [("answer", text)], **more)


def one(name: str, chunks: list[Json | bytes], args: str = '{"a": 1}', id: str = "A", **more: Any) -> Case:
    """A case of one call of the client's."""
    return Case(name, [*chunks, CALLED, DONE], calls=[(id, "add", args, "client", None)], **more)


def two(name: str, chunks: list[Json | bytes], ids: tuple[str, str] = ("A", "B"), **more: Any) -> Case:
    """A case of two calls of the client's."""
    first, second = (ids[0], "add", '{"a": 1}', "client", None), (ids[1], "sub", '{"b": 2}', "client", None)
    return Case(name, [*chunks, CALLED, DONE], calls=[first, second], **more)


def fails(name: str, chunks: list[Json | bytes], end: str, message: str, **more: Any) -> Case:
    """A case that fails, retryable unless it says otherwise."""
    return Case(name, chunks, end=end, message=message, **{"retryable": True, **more})


A, B = opens(0, "A", "add"), opens(1, "B", "sub")
A_ARGS, B_ARGS = [goes_on(0, '{"a"'), goes_on(0, ": 1}")], [goes_on(1, '{"b"'), goes_on(1, ": 2}")]
A_WHOLE, B_WHOLE = '{"a": 1}', '{"b": 2}'
ERROR = {"message": "the model is overloaded, api_key=hunter2", "type": "server_error", "param": None, "code": "busy"}
HI = [ROLE, *texts("Hi")]

TEXT: list[Case] = [
    answer("text, token by token", [ROLE, *texts("Hel", "lo", " ", "🚀", "\n"), STOP, USAGE], "Hello 🚀\n",
           usage=SPENT),
    answer("all in one chunk", [chunk({"role": "assistant", "content": "Hi"}, "stop", usage=COUNTS)], "Hi",
           usage=SPENT),
    answer("nulls everywhere", [chunk({"role": None, "content": None, "tool_calls": None, "function_call": None,
           "refusal": None, "reasoning_content": None}), *texts("Hi", None, ""), chunk(None), STOP], "Hi"),
    answer("empty choices", [{**ROLE, "choices": []}, *HI, {**ROLE, "choices": None}, STOP], "Hi", reported="Azure"),
    answer("usage before the finish reason", [*HI, USAGE, STOP], "Hi", usage=SPENT),
    answer("usage beside the finish reason and again after it", [*HI, {**STOP, "usage": COUNTS}, USAGE], "Hi",
           usage=SPENT),
    answer("usage that grows with each chunk", [*[{**each, "usage": {**COUNTS, "completion_tokens": n,
           "total_tokens": 10 + n}} for n, each in enumerate(HI)], {**STOP, "usage": COUNTS}], "Hi", usage=SPENT,
           reported="vLLM, continuous_usage_stats"),
    answer("usage in the choice", [*HI, chunk({}) | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop",
           "usage": COUNTS}]}], "Hi", usage=SPENT, reported="Moonshot"),
    answer("reasoning counted in the total only", [*HI, STOP, {**USAGE, "usage": {"prompt_tokens": 32,
           "completion_tokens": 9, "total_tokens": 135, "completion_tokens_details": {"reasoning_tokens": 94}}}], "Hi",
           usage=(32, 103, 94, 0), reported="xAI"),
    answer("usage that is none", [*HI, STOP, {**USAGE, "usage": "much"}], "Hi"),
    answer("usage that counts nothing", [*HI, STOP, {**USAGE, "usage": {"prompt_tokens": None, "completion_tokens": -1,
           "total_tokens": [], "prompt_tokens_details": []}}], "Hi", usage=(0, 0, 0, 0)),
    answer("comments and other fields", [b": OPENROUTER PROCESSING\n\n", b"event: message\nid: 7\nretry: 100\n", *HI,
           b": keep-alive\n\n", STOP], "Hi", reported="OpenRouter"),
    answer("CRLF", [frames([ROLE, *texts("a\r", "\nb"), STOP]).replace(b"\n", b"\r\n")], "a\r\nb"),
    answer("a byte order mark", [b"\xef\xbb\xbf", *HI, STOP], "Hi"),
    answer("data over several lines", [ROLE, frames(texts("Hi")).replace(b'"choices"', b'\ndata: "choices"'), STOP],
           "Hi"),
    answer("empty data", [b"data:\n\n", *HI, b"data:  \n\n", STOP], "Hi"),
    answer("null data", [b"data: null\n\n", *HI, STOP], "Hi"),
    answer("halves of a character", [ROLE, frames(texts("x", "y", "z")).replace(b'"x"', b'"\\ud83d"')
           .replace(b'"y"', b'"\\ude80"').replace(b'"z"', b'"\\ud83d!"'), STOP], "🚀\ufffd!"),
    answer("bytes that are not UTF-8", [ROLE, frames(texts("a?")).replace(b"?", b"\xff"), STOP], "a\ufffd"),
    answer("content in parts", [chunk({"content": [{"type": "text", "text": "a"}, "b", None, {"type": "text", "text":
           {"value": "c"}}]}), STOP], "abc"),
    answer("a refusal", [ROLE, chunk({"refusal": "I must "}), chunk({"refusal": "not."}), STOP], "I must not."),
    answer("text after the finish reason", [*HI, STOP, *texts("!")], "Hi!"),
    answer("a finish reason in every chunk", [chunk({"content": "H"}, "stop"), chunk({"content": "i"}, "stop")], "Hi"),
    answer("a finish reason that is cleared", [*HI, STOP, chunk({}, None), chunk({}, "")], "Hi"),
    answer("several choices", [chunk({}) | {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": None},
           {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}, STOP], "Hi"),
    answer("a choice without an index", [chunk({}) | {"choices": [{"delta": {"content": "Hi"}}]}, STOP], "Hi"),
    answer("choices that are none", [chunk({}) | {"choices": ["Hi", 5, {}, {"delta": "Hi"}]}, *HI, STOP], "Hi"),
    answer("one choice that is no list", [chunk({}) | {"choices": {"delta": {"content": "Hi"}}}, STOP], "Hi"),
    answer("a whole message after the stream", [*HI, chunk({}) | {"choices": [{"index": 0, "finish_reason": "stop",
           "message": {"role": "assistant", "content": "Hi"}}]}], "Hi"),
    answer("ids and models that change or are none", [chunk({"content": "H"}, id=None, model=None),
           chunk({"content": "i"}, id=7, model="m"), STOP | {"id": "other"}], "Hi"),
    answer("null errors", [{**ROLE, "error": None}, *HI, {**STOP, "error": {}}], "Hi"),
    answer("what follows the end", [*HI, STOP, DONE, *texts("more"), frames([{"error": ERROR}])], "Hi"),
    answer("a limit", [*HI, chunk({}, "length")], "Hi", finish="length"),
    answer("a content filter", [*HI, chunk({}, "content_filter")], "Hi", finish="content_filter"),
    answer("a finish reason that nobody knows", [*HI, chunk({}, {"type": "eos"})], "Hi", finish='{"type": "eos"}'),
    Case("no [DONE]", [*HI, STOP, USAGE], [("answer", "Hi")], usage=SPENT),
    Case("an answer that says nothing", [ROLE, STOP, DONE]),
]  # fmt: skip

REASONING: list[Case] = [
    answer("reasoning_content", [ROLE, *[chunk({"content": None, "reasoning_content": each}) for each in ("Hm", "",
           None, ", ")], *texts("Hi"), STOP], "Hi", thought=["Hm, "], reported="ag-ui#1251"),
    answer("reasoning", [chunk({"reasoning": "Hm", "content": ""}), *texts("Hi"), STOP], "Hi", thought=["Hm"],
           reported="OpenRouter"),
    answer("both fields with the same reasoning", [chunk({"reasoning": "Hm", "reasoning_content": "Hm"}), *texts("Hi"),
           STOP], "Hi", thought=["Hm"]),
    answer("reasoning and text in one chunk", [chunk({"content": "Hi", "reasoning_content": "Hm"}), STOP], "Hi",
           thought=["Hm"], reported="ag-ui#1251"),
    answer("thinking in parts of the content", [chunk({"content": [{"type": "thinking", "thinking": [{"type": "text",
           "text": "Hm"}]}, {"type": "text", "text": "Hi"}]}), STOP], "Hi", thought=["Hm"], reported="Mistral"),
    answer("reasoning twice", [chunk({"reasoning_content": "1"}), *texts("H"), chunk({"reasoning_content": "2"}),
           *texts("i"), STOP], "Hi", thought=["1", "2"]),
    one("reasoning before a call", [chunk({"reasoning_content": "Hm"}), opens(0, "A", "add", A_WHOLE)], thought=["Hm"]),
    Case("reasoning alone", [chunk({"reasoning_content": "Hm"}), STOP, DONE], thought=["Hm"]),
]  # fmt: skip

EXECUTED = "The endpoint executed this tool and did not show its result."

CALLS: list[Case] = [
    one("a call in fragments", [ROLE, A, *A_ARGS]),
    Case("text, then a call", [*HI, A, *A_ARGS, CALLED, USAGE, DONE], [("narration", "Hi")],
         calls=[("A", "add", A_WHOLE, "client", None)], usage=SPENT, finish="tool_calls"),
    Case("text after a call of the client's", [A, *A_ARGS, *texts("Hi"), CALLED, DONE], [("narration", "Hi")],
         calls=[("A", "add", A_WHOLE, "client", None)], finish="tool_calls"),
    two("one call after the other", [A, *A_ARGS, B, *B_ARGS], reported="ag-ui#1776"),
    two("fragments interleaved", [A, B, A_ARGS[0], B_ARGS[0], A_ARGS[1], B_ARGS[1]], reported="ag-ui#1016"),
    two("two calls interleaved in one chunk", [calls(piece("", index=0, id="A", name="add"), piece("", index=1, id="B",
        name="sub")), calls(piece('{"a"', index=0), piece('{"b"', index=1)), calls(piece(": 2}", index=1), piece(": 1}",
        index=0))], reported="continue#13223"),
    two("whole calls in one chunk", [calls(piece(A_WHOLE, index=0, id="A", name="add"), piece(B_WHOLE, index=1, id="B",
        name="sub"))]),
    two("whole calls, each in its own chunk", [opens(0, "A", "add", A_WHOLE), opens(1, "B", "sub", B_WHOLE)]),
    two("no index", [calls(piece("", id="A", name="add")), calls(piece('{"a"')), calls(piece(": 1}")),
        calls(piece("", id="B", name="sub")), calls(piece('{"b"')), calls(piece(": 2}"))], reported="continue#13223"),
    two("no index, ids on every fragment", [calls(piece("", id="A", name="add")), calls(piece("", id="B", name="sub")),
        calls(piece('{"a"', id="A")), calls(piece('{"b"', id="B")), calls(piece(": 1}", id="A")),
        calls(piece(": 2}", id="B"))]),
    two("an index that is text", [opens("0", "A", "add", A_WHOLE), opens("1", "B", "sub", B_WHOLE)]),
    two("one index for all, whole", [opens(0, "A", "add", A_WHOLE), opens(0, "B", "sub", B_WHOLE)], reported="Ollama"),
    two("one index for all, in fragments", [A, *A_ARGS, opens(0, "B", "sub"), goes_on(0, '{"b"'), goes_on(0, ": 2}")]),
    two("one index and no ids", [opens(0, "", "add", A_WHOLE), opens(0, "", "sub", B_WHOLE)], ("call-1", "call-2"),
        reported="Gemini"),
    two("neither index nor ids", [calls(piece(A_WHOLE, name="add"), piece(B_WHOLE, name="sub"))], ("call-1", "call-2")),
    two("one id for all", [opens(0, "A", "add", A_WHOLE), opens(1, "A", "sub", B_WHOLE)], ("A", "A#2")),
    two("ids that are numbers", [opens(0, 1, "add", A_WHOLE), opens(1, 2, "sub", B_WHOLE)], ("1", "2")),
    one("a call without an id", [opens(0, None, "add"), *A_ARGS], id="call-1"),
    one("an id that comes late", [calls(piece("", index=0, name="add")), calls(piece(A_WHOLE, index=0, id="A"))]),
    one("an id that is rewritten", [A, A_ARGS[0], calls(piece(": 1}", index=0, id="A__thought__x"))],
        reported="Gemini"),
    one("id and name on every fragment", [opens(0, "A", "add", each) for each in ("", '{"a"', ": 1}", "")],
        reported="llama.cpp server"),
    one("name on every fragment", [opens(0, None, "add", each) for each in ("", '{"a"', ": 1}", "")], id="call-1"),
    one("a legacy call beside each fragment", [chunk({"role": None, "content": None, "function_call": {"name": "add",
        "arguments": each}, "tool_calls": [piece(each, index=0, id="A", name="add") | {"type": "function"}]})
        for each in ("", '{"a"', ": 1}")], reported="llama.cpp server"),
    one("a legacy call after the call", [A, *A_ARGS, chunk({"function_call": {"name": "add", "arguments": A_WHOLE}})]),
    Case("a legacy call alone", [*[chunk({"function_call": each}) for each in ({"name": "add", "arguments": ""},
         {"arguments": '{"a"'}, {"arguments": ": 1}"})], chunk({}, "function_call"), DONE],
         calls=[("call-1", "add", A_WHOLE, "client", None)]),
    one("a name in pieces", [calls(piece(index=0, id="A", name="a")), calls(piece(index=0, name="dd")), *A_ARGS]),
    two("names in pieces, interleaved", [opens(0, "A", "a"), opens(1, "B", "s"), calls(piece(index=0, name="dd"),
        piece(index=1, name="ub")), *A_ARGS, *B_ARGS]),
    one("a name in pieces with the id on each", [opens(0, "A", "ad"), opens(0, "A", "d"), *A_ARGS]),
    one("arguments before the name", [calls(piece('{"a"', index=0, id="A")), calls(piece(": 1}", index=0,
        name="add"))]),
    one("arguments as an object", [opens(0, "A", "add", {"a": 1})]),
    one("arguments of characters that are not ASCII", [A, goes_on(0, '{"ü": "'), goes_on(0, '🚀"}')], '{"ü": "🚀"}'),
    one("empty fragments", [A, goes_on(0, ""), *A_ARGS, goes_on(0, ""), goes_on(0, None), calls()]),
    one("fragments that are none", [chunk({"tool_calls": ["x", None, 5]}), A, *A_ARGS]),
    one("nulls beside the fragments", [calls(piece(A_WHOLE, index=0, id="A", name="add"), content=None, role=None)]),
    Case("a call without arguments", [opens(0, "A", "now"), CALLED, DONE], calls=[("A", "now", "", "client", None)]),
    Case("a call that ends as an answer does", [A, *A_ARGS, STOP, DONE], calls=[("A", "add", A_WHOLE, "client", None)],
         reported="Gemini"),
    Case("a call that the endpoint executed", [*texts("Let me see."), opens(0, "S", "web_search", '{"q": 1}'),
         *texts("It ", "rains."), STOP, DONE], [("narration", "Let me see."), ("answer", "It rains.")],
         calls=[("S", "web_search", '{"q": 1}', "server", EXECUTED)]),
    Case("a call that the endpoint executed, without text before it", [opens(0, "S", "web_search", "{}"),
         *texts("Rain."), STOP, DONE], [("answer", "Rain.")],
         calls=[("S", "web_search", "{}", "server", EXECUTED)]),
    Case("a call of a tool that nobody offered, beside one that was", [opens(0, "A", "add", A_WHOLE),
         opens(1, "X", "fly", "{}"), CALLED, DONE], calls=[("A", "add", A_WHOLE, "client", None),
         ("X", "fly", "{}", "server", "Error: this tool was not offered, so nobody executed it.")]),
]  # fmt: skip

FAILED = "Error: a failure ended the agent before this tool returned."

FAILURES: list[Case] = [
    fails("nothing at all", [], "model_truncated", "The model m's answer ended before it began.",
          reported="llama.cpp server"),
    fails("only [DONE]", [DONE], "model_truncated", "The model m's answer ended before it began."),
    fails("[DONE] without a finish reason", [*HI, DONE], "model_truncated",
          "The model m's stream ended without a finish reason.", said=[("undetermined", "Hi")]),
    fails("no finish reason", HI, "model_truncated", "The model m's stream ended without a finish reason.",
          said=[("undetermined", "Hi")], reported="openai SDK"),
    fails("a finish reason of another choice", [*HI, chunk({}) | {"choices": [{"index": 1, "delta": {}, "finish_reason":
          "stop"}]}, DONE], "model_truncated", "The model m's stream ended without a finish reason.",
          said=[("undetermined", "Hi")]),
    fails("no finish reason after reasoning", [chunk({"reasoning": "Hm"})], "model_truncated",
          "The model m's stream ended without a finish reason.", thought=["Hm"]),
    fails("no finish reason after a call", [A, *A_ARGS, DONE], "model_truncated",
          "The model m's stream ended without a finish reason.", calls=[("A", "add", A_WHOLE, "client", FAILED)]),
    fails("a limit inside the arguments", [A, A_ARGS[0], chunk({}, "length"), DONE], "model_truncated",
          "The model m's tool calls were cut off (length).", calls=[("A", "add", '{"a"', "client", FAILED)]),
    fails("a content filter after a call", [A, *A_ARGS, chunk({}, "content_filter"), DONE], "model_truncated",
          "The model m's tool calls were cut off (content_filter).", calls=[("A", "add", A_WHOLE, "client", FAILED)]),
    fails("a limit before any text", [chunk({"reasoning": "Hm"}), chunk({}, "length"), USAGE, DONE], "model_truncated",
          "The model m was stopped before it answered (length).", thought=["Hm"], usage=SPENT),
    fails("a content filter before any text", [ROLE, chunk({}, "content_filter"), DONE], "model_truncated",
          "The model m was stopped before it answered (content_filter)."),
    fails("a finish reason that is an error", [*HI, chunk({}, "error"), DONE], "model_error",
          "The model m gave up (error).", said=[("undetermined", "Hi")]),
    fails("a provider without resources", [*HI, chunk({}, "insufficient_system_resource"), DONE], "model_error",
          "The model m gave up (insufficient_system_resource).", said=[("undetermined", "Hi")], reported="DeepSeek"),
    fails("calls that did not come", [*HI, CALLED, DONE], "model_error",
          "The model m said that it calls a tool, and called none.", said=[("undetermined", "Hi")]),
    fails("arguments that are no JSON", [A, A_ARGS[0], CALLED, DONE], "model_error",
          "The model m called a tool with arguments that are not a JSON object.",
          calls=[("A", "add", '{"a"', "client", FAILED)]),
    fails("arguments that are no object", [opens(0, "A", "add", "[1]"), CALLED, DONE], "model_error",
          "The model m called a tool with arguments that are not a JSON object.",
          calls=[("A", "add", "[1]", "client", FAILED)]),
    fails("a call of a tool that nobody offered", [opens(0, "X", "fly", "{}"), CALLED, DONE], "model_error",
          "The model m called the tool fly, which nobody offered.", calls=[("X", "fly", "{}", "server", FAILED)]),
    fails("a call without a name", [calls(piece("{}", index=0, id="X")), CALLED, DONE], "model_error",
          "The model m called the tool unknown, which nobody offered.",
          calls=[("X", "unknown", "{}", "server", FAILED)]),
    fails("an error object", [*HI, {"error": ERROR}, *texts("more"), STOP, DONE], "model_error",
          "The model m failed: the model is overloaded, api_key=*** (busy)", said=[("undetermined", "Hi")],
          reported="ag-ui#2416"),
    fails("an error object inside the arguments", [A, A_ARGS[0], {"error": ERROR}], "model_error",
          "The model m failed: the model is overloaded, api_key=*** (busy)",
          calls=[("A", "add", '{"a"', "client", FAILED)]),
    fails("an error object beside a chunk", [*HI, chunk({"content": ""}, "error", error={"code": 502, "message": "gone",
          "metadata": {}})], "model_error", "The model m failed: gone", said=[("undetermined", "Hi")],
          reported="OpenRouter"),
    fails("an error in the choice", [*HI, chunk({}) | {"choices": [{"index": 0, "delta": {"content": ""}, "error":
          ERROR}]}], "model_error", "The model m failed: the model is overloaded, api_key=*** (busy)",
          said=[("undetermined", "Hi")]),
    fails("an error that is an object of its own", [{"object": "error", "message": "too long", "type":
          "BadRequestError", "param": None, "code": 400}], "model_error",
          "The model m failed: too long (BadRequestError)", retryable=False, reported="vLLM"),
    fails("an error that is text", [{"error": "model not loaded"}], "model_error",
          "The model m failed: model not loaded", reported="Ollama"),
    fails("an error in a list", [b'data: [{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}]\n\n'],
          "model_error", "The model m failed: busy", reported="Gemini"),
    fails("an error that says nothing", [{"error": {"param": 1}}], "model_error",
          "The model m failed: it did not say why."),
    fails("an error after the finish reason", [*HI, STOP, {"error": ERROR}, DONE], "model_error",
          "The model m failed: the model is overloaded, api_key=*** (busy)", said=[("undetermined", "Hi")]),
    fails("too many requests", [{"error": {"code": 429, "message": "slow down"}}], "model_rate_limited",
          "The model m takes no more requests now: slow down"),
    fails("an empty account", [{"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message":
          "pay"}}], "model_rate_limited", "The model m takes no more requests now: pay (insufficient_quota)",
          retryable=False),
    fails("a wrong key", [{"error": {"type": "invalid_request_error", "code": "invalid_api_key",
          "message": "Incorrect API key provided: abc-123"}}], "model_auth", "The model m refused our credentials.",
          retryable=False),
    fails("too long a conversation", [{"error": {"code": "context_length_exceeded", "message": "8192 tokens at most",
          "type": "invalid_request_error"}}], "model_error",
          "The model m failed: 8192 tokens at most (context_length_exceeded)", retryable=False),
    fails("a chunk that is cut", [*HI, b'data: {"id": "x", "choices": [{"ind\n\n', *texts("more"), STOP, DONE],
          "model_error", "The model m sent something that is no JSON object.", said=[("undetermined", "Hi")],
          reported="openai SDK"),
    fails("a chunk that is no object", [*HI, b"data: 5\n\n"], "model_error",
          "The model m sent something that is no JSON object.", said=[("undetermined", "Hi")]),
    fails("a page", [b"data: <html>\n\n"], "model_error", "The model m sent something that is no JSON object."),
]  # fmt: skip

CASES = [*TEXT, *REASONING, *CALLS, *FAILURES]
assert len({case.name for case in CASES}) == len(CASES), "two cases have one name"
