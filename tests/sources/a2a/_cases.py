"""Remote agents' streams, item by item, and what a reader has read of them in the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch import events as ev
from tests.agents.legacy import older

Json = dict[str, Any]
IDS = {"taskId": "t", "contextId": "c"}
STREAMED = ["Höhe", " 🚀", "ha ", "ha ", "\r", "\n\n", " fin."]
TEXT = "".join(STREAMED)


def result(**payload: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "1", "result": payload}).encode()


def parts(*contents: str | Json) -> list[Json]:
    return [{"text": content} if isinstance(content, str) else content for content in contents]


def says(*contents: str | Json, id: str = "m", role: str = "ROLE_AGENT") -> Json:
    return {"messageId": id, "role": role, "parts": parts(*contents)}


def status(state: str, message: Json | None = None, **extra: Any) -> bytes:
    said = {"message": message} if message else {}
    return result(statusUpdate={**IDS, "status": {"state": f"TASK_STATE_{state}", **said}, **extra})


def task(
    state: str = "SUBMITTED", *artifacts: Json, message: Json | None = None, history: Sequence[Json] = ()
) -> bytes:
    said = {"message": message} if message else {}
    known = {"status": {"state": f"TASK_STATE_{state}", **said}, "artifacts": list(artifacts), "history": list(history)}
    return result(task={"id": "t", "contextId": "c", **known})


def holds(*contents: str | Json, id: str = "a", name: str = "") -> Json:
    return {"artifactId": id, "name": name, "parts": parts(*contents)}


def artifact(*contents: str | Json, id: str = "a", name: str = "", **flags: bool) -> bytes:
    return result(artifactUpdate={**IDS, "artifact": holds(*contents, id=id, name=name), **flags})


def tokens(*texts: str, id: str = "a", name: str = "") -> list[bytes]:
    """An artifact in pieces, as agents stream them."""
    return [artifact(text, id=id, name=name, **({"append": True} if n else {})) for n, text in enumerate(texts)]


def thinks(*texts: str) -> list[bytes]:
    """Status updates, each with a message id of its own, as agents stream tokens that have no artifact yet."""
    return [status("WORKING", says(text, id=f"m{n}")) for n, text in enumerate(texts)]


TASK, WORKING, DONE = task(), status("WORKING"), status("COMPLETED")
VOID = result(
    artifactUpdate={**IDS, "artifact": holds("") | {"metadata": {"anabranch": {"void": True}}}, "lastChunk": True}
)
USER = says("show me clusters", id="u", role="ROLE_USER")


def error(code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "1", "error": {"code": code, "message": message}}).encode()


ERROR = error(-32603, "it broke\n token=s3cret")


def in_old_words(item: bytes) -> bytes:
    """The same item of an agent of 0.3; what no version knows stays as it is."""
    try:
        said = json.loads(item)
        return json.dumps(said | {"result": older(said["result"])}).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, AssertionError):
        return item


@dataclass(frozen=True)
class Case:
    """``messages``: phase and text of those that are not void, in order. ``end``: outcome or code."""

    name: str
    items: list[bytes]
    messages: list[tuple[str, str]] = field(default_factory=list)
    end: str = "success"
    parts: list[ev.Part] = field(default_factory=list)


def case(name: str, *items: bytes | list[bytes], messages: Iterable[tuple[str, str]] = (), **extra: Any) -> Case:
    flat = [item for group in items for item in (group if isinstance(group, list) else [group])]
    return Case(name, flat, list(messages), **extra)


def answer(*texts: str) -> list[tuple[str, str]]:
    return [("answer", text) for text in texts]


CLUSTERS = {"clusters": [{"name": "prod-eu-1", "nodes": 42}]}
CASES = [
    # --- artifacts
    case("an artifact in pieces", TASK, WORKING, tokens(*STREAMED), DONE, messages=answer(TEXT)),
    case("append to an unknown artifact creates it", TASK, artifact("a", append=True), DONE, messages=answer("a")),
    case(
        "each update holds the artifact so far",
        *(TASK, [artifact(TEXT[:n]) for n in range(1, len(TEXT) + 1)], artifact(TEXT), DONE),
        messages=answer(TEXT),
    ),
    case(
        "an artifact is replaced by another text",
        *(TASK, tokens("a dra", "ft"), artifact("the final"), artifact(" text", append=True), DONE),
        messages=answer("the final text"),
    ),
    case(
        "an artifact that was sealed in two messages is replaced",
        *(TASK, artifact("a", lastChunk=True), artifact("b", append=True), artifact("c"), DONE),
        messages=answer("c"),
    ),
    case(
        "the last chunk seals an artifact and is not the end (A2A-38)",
        *(TASK, artifact("one", lastChunk=True), artifact("two", id="b", lastChunk=True), DONE),
        messages=answer("one", "two"),
    ),
    case(
        "text for a sealed artifact is a message of its own",
        *(TASK, artifact("one", lastChunk=True), artifact(" more", append=True), DONE),
        messages=answer("one", " more"),
    ),
    case(
        "two artifacts at once keep their texts apart",
        *(TASK, artifact("a", id="1"), artifact("b", id="2")),
        *(artifact("a", id="1", append=True), artifact("b", id="2", append=True), DONE),
        messages=answer("aa", "bb"),
    ),
    case(
        "an artifact without an id",
        *(TASK, artifact("x", id=""), artifact("y", id="", append=True), DONE),
        messages=answer("xy"),
    ),
    case(
        "several parts are one text",
        *(TASK, artifact("a", "b"), artifact("c", "d", append=True), DONE),
        messages=answer("abcd"),
    ),
    case(
        "an artifact that only repeated the status text is replaced",
        *(TASK, thinks("Hello"), artifact("Hello"), artifact("Bye"), DONE),
        messages=answer("Hello", "Bye"),
    ),
    # --- tasks
    case(
        "a task that is over and holds its artifacts",
        task("COMPLETED", holds("one"), holds("two", id="b")),
        messages=answer("one", "two"),
    ),
    case(
        "a snapshot in the middle shows nothing twice, then the rest comes (A2A-11)",
        *(TASK, tokens("Hel", "lo"), task("WORKING", holds("Hello", " wor")), artifact("ld", append=True), DONE),
        messages=answer("Hello world"),
    ),
    case(
        "a late snapshot takes nothing back",
        *(TASK, tokens("Hel", "lo"), task("WORKING", holds("Hel")), artifact("!", append=True), DONE),
        messages=answer("Hello!"),
    ),
    case(
        "a snapshot without artifacts after the first piece (A2A-26)",
        *(artifact("Hel"), task("WORKING"), artifact("lo", append=True), DONE),
        messages=answer("Hello"),
    ),
    case(
        "what the user said and what was said before is not shown (A2A-25)",
        *(task(history=[USER, says("I am on it.", id="h")]), status("SUBMITTED", USER), tokens("Hi"), DONE),
        messages=answer("Hi"),
    ),
    case("no text at all", TASK, WORKING, DONE),
    case("an empty artifact", TASK, artifact("", lastChunk=True), DONE),
    case(
        "an empty piece takes nothing back",
        TASK,
        artifact("a"),
        artifact("", lastChunk=True),
        DONE,
        messages=answer("a"),
    ),
    # --- status text
    case("tokens as status text", TASK, WORKING, thinks(*STREAMED), DONE, messages=answer(TEXT)),
    case(
        "status text, then an artifact of its own",
        *(TASK, thinks("Looking up… "), tokens("Three", " clusters"), thinks("almost"), DONE),
        messages=[("progress", "Looking up… almost"), *answer("Three clusters")],
    ),
    case(
        "artifact and status pieces alternate and each is shown (A2A-30)",
        *(TASK, artifact("a"), thinks("x"), artifact("b", append=True), thinks("y"), DONE),
        messages=[*answer("ab"), ("progress", "xy")],
    ),
    case(
        "tokens as status text, then all of it as an artifact (A2A-25)",
        *(TASK, thinks(*STREAMED), artifact(TEXT, lastChunk=True), DONE),
        messages=answer(TEXT),
    ),
    case(
        "status text, then an artifact with its last message (ADK)",
        *(
            TASK,
            status("SUBMITTED", USER),
            thinks("Let me see. ", "Three clusters."),
            artifact("Three clusters."),
            DONE,
        ),
        messages=answer("Let me see. Three clusters."),
    ),
    case(
        "status tokens of two turns, then an artifact with the last turn (Strands)",
        *(TASK, thinks("Let ", "me ", "see.", "Three", " clusters"), artifact("Three clusters"), DONE),
        messages=answer("Let me see.Three clusters"),
    ),
    case(
        "each token as status text and as a piece of an artifact",
        *(
            TASK,
            *(pair for n, token in enumerate(STREAMED) for pair in (thinks(token), artifact(token, append=n > 0))),
            DONE,
        ),
        messages=answer(TEXT),
    ),
    case(
        "a part of the status text that is no message of it is no recap",
        *(TASK, thinks("Looking up the rate"), tokens("e", "uro"), DONE),
        messages=[("progress", "Looking up the rate"), *answer("euro")],
    ),
    case(
        "status text that an artifact went past is not recapped by it",
        *(TASK, thinks("ok"), tokens("x", "ok"), DONE),
        messages=[("progress", "ok"), *answer("xok")],
    ),
    case(
        "status text that was recapped is the answer beside other artifacts",
        *(TASK, thinks("Hel", "lo"), artifact("Hello"), artifact("more", id="b"), DONE),
        messages=answer("Hello", "more"),
    ),
    case(
        "status text that the end recaps is the answer beside other artifacts",
        *(TASK, artifact("x"), thinks("Hel", "lo"), status("COMPLETED", says("Hello", id="n"))),
        messages=answer("x", "Hello"),
    ),
    case(
        "status text that grows under one id",
        *(TASK, *(status("WORKING", says(text)) for text in ("Hel", "Hello", "Hello")), DONE),
        messages=answer("Hello"),
    ),
    case(
        "status text in pieces under one id",
        *(TASK, *(status("WORKING", says(text)) for text in ("Hel", "lo", " you")), DONE),
        messages=answer("Hello you"),
    ),
    case(
        "equal status tokens under one id",
        *(TASK, *(status("WORKING", says(text)) for text in ("ha ", "ha ", "ha ", "end")), DONE),
        messages=answer("ha ha ha end"),
    ),
    case(
        "equal status tokens under one id, then all of it with the end",
        *(TASK, *(status("WORKING", says(text)) for text in ("ha ", "ha ", "ha ", "end"))),
        status("COMPLETED", says("ha ha ha end")),
        messages=answer("ha ha ha end"),
    ),
    case(
        "an agent whose status text has grown may repeat the next one",
        *(TASK, *(status("WORKING", says(text)) for text in ("Hel", "Hello"))),
        *(*(status("WORKING", says(text, id="n")) for text in (" you", " you")), DONE),
        messages=answer("Hello you"),
    ),
    case(
        "a snapshot that repeats the last of the pieces of status text under one id",
        *(TASK, *(status("WORKING", says(text)) for text in ("ha ", "ha ")), task("WORKING", message=says("ha "))),
        DONE,
        messages=answer("ha ha "),
    ),
    case(
        "a snapshot that repeats the last status text",
        *(TASK, status("WORKING", says("Hi")), task("WORKING", message=says("Hi")), DONE),
        messages=answer("Hi"),
    ),
    # --- the end says it again
    case(
        "tokens, then the whole text with the end (A2A-29)",
        *(TASK, tokens(*STREAMED), status("COMPLETED", says(TEXT))),
        messages=answer(TEXT),
    ),
    case(
        "status tokens, then the whole text with the end",
        *(TASK, thinks(*STREAMED), status("COMPLETED", says(TEXT))),
        messages=answer(TEXT),
    ),
    case(
        "tokens that were cut short, then the whole text with the end",
        *(TASK, tokens("Hel", "lo"), status("COMPLETED", says("Hello world"))),
        messages=answer("Hello", " world"),
    ),
    case(
        "progress, then the answer with the end",
        *(TASK, thinks("Looking up…", "Computing…"), status("COMPLETED", says("42"))),
        messages=[("progress", "Looking up…Computing…"), *answer("42")],
    ),
    case(
        "an artifact, then something else with the end",
        *(TASK, tokens("| report |"), status("COMPLETED", says("I wrote the report."))),
        messages=answer("| report |", "I wrote the report."),
    ),
    case(
        "the end says the last two pieces again, after progress",
        *(TASK, thinks("one ", "two ", "three"), status("COMPLETED", says("two three"))),
        messages=answer("one two three"),
    ),
    # --- CAIPE agents (B-01, B-02, B-11, B-12, B-18)
    case(
        "a CAIPE sub-agent: notifications, tokens, a closing piece, then complete_result",
        *(TASK, status("WORKING", says("🔧 Calling tool: list"), metadata={"tool_notification": True})),
        *(tokens(*STREAMED, id="s", name="streaming_result"), artifact("rows", id="o", name="tool_output")),
        artifact("", id="s", name="streaming_result", append=True, lastChunk=True),
        *(artifact(TEXT, id="r", name="complete_result", lastChunk=True), DONE),
        messages=[("progress", "🔧 Calling tool: list"), *answer(TEXT), ("progress", "rows")],
    ),
    case(
        "a tool notification that comes twice",
        *(TASK, [status("WORKING", says("calling"), metadata={"tool_notification": True})] * 2, DONE),
        messages=[("progress", "calling")],
    ),
    case(
        "two tool notifications under one id",
        *(TASK, *(status("WORKING", says(text), metadata={"tool_notification": True}) for text in ("a", "b")), DONE),
        messages=[("progress", "a"), ("progress", "b")],
    ),
    case(
        "a CAIPE agent with a status line and complete_result",
        *(
            TASK,
            thinks("Looking up Komodor…"),
            tokens(*STREAMED, id="s"),
            artifact(TEXT, id="r", name="complete_result"),
        ),
        DONE,
        messages=[("progress", "Looking up Komodor…"), *answer(TEXT)],
    ),
    case(
        "status text between the tokens and complete_result",
        *(TASK, tokens("a", "b"), thinks("cleaning up"), artifact("ab", id="r", name="complete_result"), DONE),
        messages=[*answer("ab"), ("progress", "cleaning up")],
    ),
    case(
        "only a complete_result",
        *(TASK, artifact("All of it.", name="complete_result", lastChunk=True), DONE),
        messages=answer("All of it."),
    ),
    case(
        "narration and answer in tokens, then the answer as final_result",
        *(
            TASK,
            tokens("I look. ", "Three", " clusters"),
            artifact("Three clusters", id="r", name="final_result"),
            DONE,
        ),
        messages=answer("I look. Three clusters"),
    ),
    case(
        "a partial_result that is not what was streamed",
        *(TASK, tokens("Thr"), artifact("Only two clusters.", id="r", name="partial_result"), DONE),
        messages=answer("Thr", "Only two clusters."),
    ),
    case(
        "an empty current_result",
        TASK,
        tokens("a"),
        artifact("", id="r", name="current_result"),
        DONE,
        messages=answer("a"),
    ),
    case(
        "a tool notification alone is no answer",
        *(
            TASK,
            artifact("Calling…", name="tool_notification_start"),
            artifact("done", id="b", name="tool_notification_end"),
        ),
        DONE,
        messages=[("progress", "Calling…"), ("progress", "done")],
    ),
    # --- messages
    case("a message and nothing else", result(message=says(TEXT)), messages=answer(TEXT)),
    case("a message that names its task", result(message=says("Hi") | IDS), messages=answer("Hi")),
    case("an empty message", result(message=says(""))),
    case(
        "pieces of a message under its id",
        *(result(message=says(text)) for text in ("Hel", "lo", " you")),
        messages=answer("Hello you"),
    ),
    case(
        "a message that grows under its id",
        *(result(message=says(text)) for text in ("Hel", "Hello", "Hello you")),
        messages=answer("Hello you"),
    ),
    case(
        "equal pieces of a message under its id",
        *(result(message=says(text)) for text in ("ha ", "ha ", "ha ", "end")),
        messages=answer("ha ha ha end"),
    ),
    case(
        "a message that grew and comes again",
        *(result(message=says(text)) for text in ("Hel", "Hello", "Hello")),
        messages=answer("Hello"),
    ),
    case(
        "a message that comes again with the end",
        *(TASK, result(message=says("Hi")), status("COMPLETED", says("Hi"))),
        messages=answer("Hi"),
    ),
    case("two messages", result(message=says("a")), result(message=says("b", id="n")), messages=answer("a", "b")),
    case(
        "messages without ids",
        *(result(message=says(text, id="")) for text in ("one", "two")),
        messages=answer("one", "two"),
    ),
    case("the user's message alone is no answer", result(message=USER), end="no_end"),
    case(
        "a message before the task is over is no end",
        TASK,
        result(message=says("Hi")),
        end="no_end",
        messages=answer("Hi"),
    ),
    # --- other parts
    case(
        "data",
        *(TASK, artifact({"data": CLUSTERS}, lastChunk=True), DONE),
        messages=answer(""),
        parts=[ev.Part(kind="json", data=CLUSTERS)],
    ),
    case(
        "data that is null",
        *(TASK, artifact({"data": None}), DONE),
        messages=answer(""),
        parts=[ev.Part(kind="json", data=None)],
    ),
    case(
        "files",
        TASK,
        artifact(
            {"url": "https://x.example/f.png", "mediaType": "image/png", "filename": "f.png"},
            {"raw": "aGk=", "mediaType": "text/plain"},
        ),
        DONE,
        messages=answer(""),
        parts=[
            ev.Part(kind="file", url="https://x.example/f.png", mime_type="image/png", name="f.png"),
            ev.Part(kind="file", url="data:text/plain;base64,aGk=", mime_type="text/plain"),
        ],
    ),
    case(
        "an artifact with data is sent again and grows",
        *(TASK, artifact("t", {"data": 1}), artifact("t", {"data": 1}), artifact("te", {"data": 1}, {"data": 2}), DONE),
        messages=answer("te"),
        parts=[ev.Part(kind="json", data=1), ev.Part(kind="json", data=2)],
    ),
    case(
        "data in a status and in a message",
        *(TASK, status("WORKING", says({"data": 1})), status("COMPLETED", says("ok", {"data": 2}, id="n"))),
        messages=[("progress", ""), *answer("ok")],
        parts=[ev.Part(kind="json", data=1), ev.Part(kind="json", data=2)],
    ),
    case(
        "status text beside data is the text of the answer",
        *(TASK, thinks("Three", " clusters"), artifact({"data": 3}), DONE),
        messages=answer("Three clusters", ""),
        parts=[ev.Part(kind="json", data=3)],
    ),
    # --- other ends
    case(
        "the agent failed",
        *(TASK, tokens("Thr"), status("FAILED", says("the cluster is gone"))),
        messages=answer("Thr"),
        end="agent_failed",
    ),
    case("the agent failed without a word", TASK, status("FAILED"), end="agent_failed"),
    case("the agent refused", TASK, status("REJECTED", says("not my business")), end="agent_rejected"),
    case("a failed task in a plain answer", task("FAILED", message=says("gone")), end="agent_failed"),
    case("cancelled", TASK, tokens("Thr"), status("CANCELED"), messages=answer("Thr"), end="cancelled"),
    case(
        "cancelled, with a reason",
        *(TASK, status("CANCELED", says("it took too long"))),
        messages=[("progress", "it took too long")],
        end="cancelled",
    ),
    case(
        "a question",
        *(TASK, tokens("Two."), status("INPUT_REQUIRED", says("Which cluster?"))),
        messages=answer("Two."),
        end="interrupted",
    ),
    case("a login", TASK, status("AUTH_REQUIRED", says("Log in.")), end="interrupted"),
    case("a question in a plain answer", task("INPUT_REQUIRED", message=says("Which?")), end="interrupted"),
    case("an error in the stream", TASK, tokens("Thr"), ERROR, messages=answer("Thr"), end="agent_failed"),
    case("nothing", end="no_end"),
    case("no end", TASK, tokens("Thr"), messages=answer("Thr"), end="no_end"),
    case("a state that nobody knows", TASK, status("DREAMING", says("zzz")), DONE, messages=answer("zzz")),
    case("what follows the end", TASK, DONE, tokens("late"), status("FAILED")),
    # --- what is wrong, and said to be right
    case(
        "an error in an artifact, and the task is completed (CAIPE)",
        *(TASK, artifact("no access\n token=s3cret", name="error_result", lastChunk=True), DONE),
        messages=[("progress", "no access\n token=s3cret")],
        end="agent_failed",
    ),
    case(
        "an error in pieces after a part of the answer",
        *(TASK, tokens("Thr"), tokens("no", " access", id="e", name="error_result"), DONE),
        messages=[*answer("Thr"), ("progress", "no access")],
        end="agent_failed",
    ),
    case("an error without a word", TASK, artifact("", name="error_result"), DONE, end="agent_failed"),
    case(
        "heartbeats beside an answer",
        *(TASK, [status("WORKING"), status("WORKING", says("still working…", id="h1"))], tokens("a", "b")),
        *(status("WORKING", says("still working…", id="h2")), artifact("c", append=True), DONE),
        messages=[("progress", "still working…still working…"), *answer("abc")],
    ),
    case(
        "completed, and then failed",
        *(TASK, tokens("a"), DONE, status("FAILED", says("the connection was closed"))),
        messages=answer("a"),
    ),
    # --- an agent of our own kind
    case(
        "an artifact that is void, and another one in its place",
        *(TASK, tokens("dra", "ft"), VOID, tokens("final", id="b"), DONE),
        messages=answer("final"),
    ),
    case(
        "a void artifact that begins again",
        *(TASK, tokens("draft"), VOID, tokens("fi", "nal"), DONE),
        messages=answer("final"),
    ),
    case("a void artifact that was never shown", TASK, VOID, tokens("a", id="b"), DONE, messages=answer("a")),
    # --- what is no A2A
    case("not JSON", TASK, tokens("Thr"), b"<html>", messages=answer("Thr"), end="agent_protocol"),
    case("no response", TASK, b'{"jsonrpc": "2.0", "id": "1"}', end="agent_protocol"),
    case("a list", b"[]", end="agent_protocol"),
    case("nested too deeply", b"[" * 100_000, end="agent_protocol"),
    case("text that is a number", result(artifactUpdate={"artifact": {"parts": [{"text": 1}]}}), end="agent_protocol"),
    case("a result that no version knows", TASK, result(taskId="t"), end="agent_protocol"),
    case(
        "null wherever it may be",
        result(task={"id": None, "contextId": None, "status": None, "artifacts": None, "history": None}),
        result(artifactUpdate={"artifact": {"artifactId": None, "name": None, "parts": None}, "append": None}),
        result(artifactUpdate={"artifact": None}),
        result(
            statusUpdate={
                "status": {"state": None, "message": {"messageId": None, "parts": [{"text": None, "data": 1}]}}
            }
        ),
        DONE,
        messages=answer(""),
        parts=[ev.Part(kind="json", data=1)],
    ),
]
