"""A supervisor behind a supervisor: one tree, one answer, whatever the route at each level; a circle ends clearly."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from contextlib import AsyncExitStack
from typing import Any

import pytest
from serving import ask, sent, served

from anabranch.app import App
from anabranch.config import parse
from tests import oracles
from tests.a2a_serving import message, result, send, states, text_in, text_of, whole
from tests.supervisor.nesting import SCHEMA, Far, Told, config, nest, ours, scripted, to
from tests.supervisor.spine import free_port

pytestmark = pytest.mark.faults

OUTER = {"direct": ["platform"], "parallel": ["platform", "mirror"], "supervisor": ["supervisor"]}
INNER = {
    "direct": "komodor clusters",
    "parallel": "komodor clusters and argocd apps",
    "supervisor": "compare komodor clusters with argocd apps",
}


async def run(url: str, given: dict[str, Any]) -> Told:
    return Told((await ask(url, "POST", "/agui", given)).events)


# --- the tree --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
async def test_the_whole_tree_comes_through_both_levels(outer: str, inner: str) -> None:
    async with nest() as them:
        told = await run(them.url, to(*OUTER[outer], text=INNER[inner]))
        assert told.end["outcome"] == {"type": "success"}
        middles = ["/platform"] if outer == "direct" else ["/platform", "/mirror"]
        leaves = ["komodor"] if inner == "direct" else ["komodor", "argocd"]
        paths = [path for middle in middles for path in (middle, *(f"{middle}/{leaf}" for leaf in leaves))]
        assert sorted(map(told.path, told.lanes)) == sorted(paths)
        for lane in told.lanes.values():
            call = told.calls[lane["parentToolCallId"]]
            assert call["toolCallName"] == f"ask_{lane['name']}"
            assert call.get("subagentRunId") == lane.get("parentSubagentRunId")
        for path in paths:
            if path not in middles:
                assert told.said_by(path) == them.far[path.rpartition("/")[2]].text
        looks = [told.path(call["subagentRunId"]) for call in told.calls.values() if call["toolCallName"] == "look"]
        assert sorted(looks) == sorted(set(paths) - set(middles))
        thoughts = [told.path(event["subagentRunId"]) for event in told.only("REASONING_MESSAGE_CONTENT")]
        assert sorted(thoughts) == sorted(looks)
        assert {event["toolCallId"] for event in told.only("TOOL_CALL_RESULT")} == told.calls.keys()
        assert told.routes() == {"": outer, **dict.fromkeys(middles, inner)}
        asked = [len(far.heard) for far in them.far.values()]
        assert asked == [len(middles), len(middles) if inner != "direct" else 0], "each is asked once"
    if oracles.missing() is None:
        oracles.accept(told.events)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
async def test_there_is_one_answer_and_it_is_told_whose(outer: str, inner: str) -> None:
    async with nest() as them:
        told = await run(them.url, to(*OUTER[outer], text=INNER[inner]))
    answer, said_by = told.answer()
    middles = ["/platform"] if outer == "direct" else ["/platform", "/mirror"]
    leaves = {"direct": ["/komodor"], "parallel": ["/komodor", "/argocd"], "supervisor": [""]}[inner]
    expected = {""} if outer == "supervisor" else {middle + leaf for middle in middles for leaf in leaves}
    assert said_by == expected
    assert hashlib.sha256(answer.encode()).hexdigest() == ours(told.end)["answer"]["sha256"]
    if inner != "supervisor" and outer != "supervisor":
        texts = [them.far[leaf[1:]].text for leaf in leaves]
        assert answer == "".join(texts * len(middles))
    else:
        assert "came back" in answer and "I make a plan" not in answer
    narrated = [id for id, text in told.texts.items() if text.startswith("I make a plan")]
    assert all(told.phases[id] == "narration" for id in narrated)
    assert bool(narrated) == ("supervisor" in (inner, outer))


@pytest.mark.parametrize("policy", ["forward", "synthesize"])
async def test_the_policies_of_the_two_levels_are_their_own(policy: str) -> None:
    other = "synthesize" if policy == "forward" else "forward"
    async with nest(inner_answer=policy, outer_answer=other) as them:
        text = "compare komodor clusters with argocd apps, platform"
        told = await run(them.url, to("supervisor", text=text))
    answer, said_by = told.answer()
    if policy == "forward":  # and the outer one writes its own
        assert said_by == {""} and answer.startswith("Here is what came back. platform")
    else:  # the outer one forwards what the inner one wrote
        assert said_by == {"/platform"} and answer.startswith("Here is what came back. komodor")


async def test_what_an_inner_agent_says_is_read_while_it_speaks() -> None:
    async with nest() as them:
        given = to("platform", text="komodor, wait")
        async with sent(them.url, "POST", "/agui", given) as wire:
            await wire.head()
            read = b""
            async for chunk in wire:
                read += chunk
                if b'"delta":"komodor "' in read and not them.far["komodor"].go_on.is_set():
                    them.far["komodor"].go_on.set()
    assert b"RUN_FINISHED" in read, "the agent was told to go on by the client that had read its first word"


@pytest.mark.parametrize("route", ["direct", "supervisor"])
async def test_an_agent_that_fails_at_the_bottom_is_named_at_the_top(route: str) -> None:
    async with nest() as them:
        told = await run(them.url, to(*OUTER[route], text="komodor, fail"))
    failed = {told.path(event["subagentRunId"]): event["code"] for event in told.only("SUBAGENT_ERROR")}
    assert failed["/platform/komodor"] == failed["/platform"] != "agent_protocol"
    assert told.said_by("/platform/komodor") == them.far["komodor"].text
    assert "secret" not in json.dumps(told.events)
    if route == "direct":
        assert (told.end["type"], told.end["code"]) == ("RUN_ERROR", failed["/platform"])
    else:
        assert told.end["outcome"] == {"type": "success"} and "platform failed" in told.answer()[0]


# --- plain clients of A2A --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", INNER)
async def test_a_plain_client_of_a2a_sees_a_valid_task_with_one_answer(inner: str) -> None:
    async with nest() as them:
        stream = await whole(them.url, "SendStreamingMessage", {"message": message(f"@platform {INNER[inner]}")})
        shown = json.dumps(stream)
        assert states(stream) == ["SUBMITTED", "WORKING", "COMPLETED"]
        assert "extensions/attribution" not in shown and "look" not in shown
        promised = stream[-1]["statusUpdate"]["metadata"]["anabranch"]["answer"]
        updates = [each["artifactUpdate"] for each in stream if "artifactUpdate" in each]
        answer = "".join(
            part.get("text", "")
            for update in updates
            if update["artifact"]["artifactId"] in promised["messageIds"]
            for part in update["artifact"]["parts"]
        )
        assert hashlib.sha256(answer.encode()).hexdigest() == promised["sha256"]
        begun: set[str] = set()
        for update in updates:
            id = update["artifact"]["artifactId"]
            assert bool(update.get("append")) == (id in begun)
            begun.add(id)
        told = {id: text_of([each for each in stream if _is_of(each, id)]) for id in begun}
        beside = "".join(text for id, text in told.items() if id not in promised["messageIds"])
        assert beside.count("I make a plan") == (inner == "supervisor") and "came back" not in beside
        if inner == "direct":
            assert text_of(stream) == answer == them.far["komodor"].text
        task = await result(them.url, "GetTask", {"id": stream[0]["task"]["id"]})
        assert sorted(text_in(task)) == sorted("".join(told.values()))
        again = await send(them.url, message(f"@platform {INNER[inner]}"))
        assert sorted(text_in(again)) == sorted(text_in(task))


def _is_of(said: dict[str, Any], artifact_id: str) -> bool:
    return "artifactUpdate" in said and said["artifactUpdate"]["artifact"]["artifactId"] == artifact_id


# --- questions and cancel --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["direct", "supervisor"])
@pytest.mark.parametrize("outer", ["direct", "supervisor"])
async def test_a_question_from_the_bottom_is_answered_there_through_both(outer: str, inner: str) -> None:
    text = "komodor, ask me" if inner == "direct" else "if needed, komodor, ask me"
    text += ", platform" if outer == "supervisor" else ""
    async with nest() as them:
        first = await run(them.url, to(*OUTER[outer], text=text))
        [asked] = first.end["outcome"]["interrupts"]
        assert (asked["message"], asked["responseSchema"]) == ("komodor: which?", SCHEMA)
        assert asked["metadata"]["agent"] == "platform" and asked["metadata"]["path"] == ["platform", "komodor"]
        assert first.routes() == {"": outer, "/platform": inner}
        answer = {"interruptId": asked["id"], "status": "resolved", "payload": "blue"}
        given = to(text="", run="r2", messages=[], resume=[answer])
        second = await run(them.url, given)
        assert second.end["outcome"] == {"type": "success"}
        assert second.said_by("/platform/komodor") == "komodor got ['blue']"
        heard = them.far["komodor"].heard
        assert [answers for *_, answers in heard] == [[], ["blue"]]
        assert len({thread for thread, *_ in heard}) == 1


@pytest.mark.parametrize("inner", ["direct", "parallel", "supervisor"])
@pytest.mark.parametrize("outer", OUTER)
async def test_a_cancel_reaches_the_bottom(outer: str, inner: str) -> None:
    async with nest() as them:
        given = to(*OUTER[outer], text=f"{INNER[inner]} hang")
        names = ["komodor"] if inner == "direct" else ["komodor", "argocd"]
        async with sent(them.url, "POST", "/agui", given) as wire:
            await wire.head()
            for name in names:
                await them.far[name].begun.wait()
            assert (await ask(them.url, "POST", "/runs/r1/cancel")).status == 202
            last = (await wire.chunks())[-1]
        assert b'"cancelled"' in last
        for name in names:
            await them.far[name].cancelled.wait()


async def test_a_platform_keeps_its_conversation_and_so_do_its_agents() -> None:
    async with nest() as them:
        for number in range(3):
            await run(them.url, to("platform", text="komodor clusters", run=f"r{number}"))
        await run(them.url, to("platform", text="komodor clusters", run="other", thread="u"))
        threads = [thread for thread, *_ in them.far["komodor"].heard]
    assert len({*threads[:3]}) == 1 and threads[3] != threads[0]


# --- circles ---------------------------------------------------------------------------------------------------------


async def ring(stack: AsyncExitStack, count: int, *, text: str = "", back: bool = True, host: str = "") -> str:
    """Servers that each ask the next one, ``next``, and the last one the first, or else an agent that answers."""
    ports = [free_port() for _ in range(count)]
    model = await stack.enter_async_context(scripted())
    end = await stack.enter_async_context(served(App({"end": Far("end")})))
    for n, port in enumerate(ports):
        following = f"http://127.0.0.1:{ports[(n + 1) % count]}" if back or n + 1 < count else end
        public = f", public_url: http://{host}:{port}" if host else ""
        app = App.from_config(parse(config(model, {"next": following}, routing=text or "on", server=public)))
        await stack.enter_async_context(served(app, port))
    return f"http://127.0.0.1:{ports[0]}"


@pytest.mark.parametrize("host", ["", "servers.example"], ids=["", "whose cards name another host"])
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_circle_of_servers_ends_in_a_clear_error(
    count: int, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda name, *more, **options: look_up(name.replace(host or "-", "127.0.0.1"), *more, **options),
    )
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        url = await ring(stack, count, host=host)
        told = await run(url, to("next", text="next: hello"))
    assert (told.end["type"], told.end["code"]) == ("RUN_ERROR", "cycle")
    assert "circle" in told.end["message"]
    assert len(told.lanes) == count, "nobody was asked twice"
    assert {event["code"] for event in told.only("SUBAGENT_ERROR")} == {"cycle"}


async def test_a_circle_of_supervisors_is_told_to_their_models_and_the_run_goes_on() -> None:
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        url = await ring(stack, 2, text="off")
        told = await run(url, to(text="next: hello"))
    assert told.end["outcome"] == {"type": "success"}
    [failed] = told.only("SUBAGENT_ERROR")
    assert (told.path(failed["subagentRunId"]), failed["code"]) == ("/next/next", "cycle")
    assert told.said_by("/next").endswith(
        "next failed, so its part is missing. Nothing was shortened or rewritten on "
        "the way: this scripted model only counts what the agents gave it. ✅"
    )


@pytest.mark.parametrize(("count", "arrives"), [(8, True), (9, False), (11, False)])
async def test_a_request_goes_through_eight_servers_and_no_further(count: int, arrives: bool) -> None:
    async with asyncio.timeout(40), AsyncExitStack() as stack:
        url = await ring(stack, count - 1, back=False)  # and the one at the end
        told = await run(url, to("next", text="next: hello"))
    if arrives:
        assert told.end["outcome"] == {"type": "success"}
        assert told.answer() == (Far("end").text, {"/next" * (count - 1)})
    else:
        assert (told.end["type"], told.end["code"]) == ("RUN_ERROR", "cycle")
        assert "8 servers" in told.end["message"]
