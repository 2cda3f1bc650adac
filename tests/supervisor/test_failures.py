"""A remote agent that fails, in each way and at each stage: who is told what, and nobody else is hurt.

Each case is asked for on the three ways at once (direct, parallel with a healthy sibling, by the supervisor's model),
and then again, when the agent is well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from serving import ask

from tests.sources.a2a._raw import Json, card
from tests.supervisor.faulty import HALF, REST, SIBLING, TOKEN, WAYS, Faulty, System, modelled, system

pytestmark = pytest.mark.faults

QUESTION = "komodor and argocd, please"
ANSWER, APPS = "".join((*HALF, *REST)), "".join(SIBLING)

STATUS = {
    "401": ("agent_auth", "refused our credentials (HTTP 401)."),
    "403": ("agent_auth", "refused our credentials (HTTP 403)."),
    "500": ("agent_failed", "failed (HTTP 500)."),
    "503": ("agent_unreachable", "is not available now (HTTP 503)."),
    "429": ("agent_unreachable", "is not available now (HTTP 429)."),
    "302": ("agent_protocol", "is elsewhere (HTTP 302); configure the address that it redirects to."),
}
LATE, SLOW = (
    ("agent_timeout_first_byte", "did not begin to answer in time."),
    ("agent_timeout_idle", "sends too slowly."),
)
LOST = ("agent_disconnected", "closed the connection before it answered.")
WHOLE = STATUS | {
    "hang": LATE,
    "drip": LATE,
    "drip_body": SLOW,
    "garbage": ("agent_protocol", "does not speak HTTP as expected."),
    "reset": LOST,
    "close": LOST,
}
FIRST = WHOLE | {
    "html": ("agent_protocol", "answered with text/html, which is not A2A."),
    "rpc_error": ("agent_failed", "answered with error -32603: the token *** has expired"),
}
BEGUN = {
    "hang": LATE,
    "drip": SLOW,
    "garbage": ("agent_protocol", "sent something that is not a JSON-RPC response."),
    "reset": LOST,
    "close": LOST,
    "end": ("no_end", "'s stream ended without an answer."),
}
CUT = ("agent_disconnected", "closed the connection in the middle of its answer.")
BROKEN = BEGUN | {
    "hang": ("agent_timeout_idle", "fell silent."),
    "reset": CUT,
    "close": CUT,
    "end": ("no_end", "'s stream ended before its task did."),
}
SOME = {fault: BROKEN[fault] for fault in ("hang", "garbage", "reset", "end")}
STAGES = {"first": FIRST, "begun": BEGUN, "task": SOME, "text": BROKEN, "end": SOME}
CASES = [(stage, fault, *told) for stage, faults in STAGES.items() for fault, told in faults.items()]


@pytest.fixture(scope="module")
async def model(anyio_backend: str) -> AsyncIterator[str]:
    async with modelled() as url:
        yield url


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMODOR_TOKEN", TOKEN)


def lanes(events: list[Json]) -> dict[str, str]:
    """The names of the sub-agents by their ids."""
    return {event["subagentRunId"]: event["name"] for event in events if event["type"] == "SUBAGENT_STARTED"}


def text(events: list[Json], agent: str) -> str:
    names = lanes(events)
    said = [event for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    return "".join(event["delta"] for event in said if names.get(event.get("subagentRunId", ""), "") == agent)


def failures(events: list[Json]) -> list[tuple[str, str, str]]:
    """The agents that failed: name, code, message."""
    names = lanes(events)
    failed = [event for event in events if event["type"] == "SUBAGENT_ERROR"]
    return [(names[event["subagentRunId"]], event["code"], event["message"]) for event in failed]


def routes(events: list[Json]) -> list[tuple[str, str | None]]:
    """Who got the turn, and from whom the supervisor took over."""
    told = [event["value"] for event in events if event.get("name") == "anabranch.routed"]
    return [(value["route"], value.get("fallbackFrom")) for value in told]


async def on_all_ways(them: System) -> dict[str, list[Json]]:
    turns = await asyncio.gather(*(them.turn(way, QUESTION, way) for way in WAYS))
    return dict(zip(WAYS, turns, strict=True))


def kept_apart(way: str, events: list[Json], error: tuple[str, str]) -> None:
    """The failure is told once in its lane and to the model that asked; the sibling has answered; the end is true."""
    code, message = error
    assert failures(events) == [("komodor", code, message)]
    results = {event["toolCallId"]: event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"}
    names = {event["toolCallId"]: event["toolCallName"] for event in events if event["type"] == "TOOL_CALL_START"}
    told = {names[id]: content for id, content in results.items()}
    assert names.keys() == results.keys() and told["ask_komodor"].startswith("Error: the agent komodor failed (")
    assert f"({code}): {message}" in told["ask_komodor"]
    if way == "direct":
        assert (events[-1]["type"], events[-1]["code"], events[-1]["message"]) == ("RUN_ERROR", code, message)
        return
    assert events[-1]["type"] == "RUN_FINISHED" and events[-1]["outcome"] == {"type": "success"}
    assert text(events, "argocd") == told["ask_argocd"] == APPS
    kinds = [(event["type"], lanes(events).get(event.get("subagentRunId", ""))) for event in events]
    if "timeout" in code:
        assert kinds.index(("SUBAGENT_FINISHED", "argocd")) < kinds.index(("SUBAGENT_ERROR", "komodor"))
    if way == "supervised":
        assert "komodor failed, so its part is missing. argocd answered with" in text(events, "")


async def goes_on(them: System) -> None:
    """The next turns of those conversations, each by another way; the scripted model refuses a broken history."""
    them.faulty.heals()
    before = len(them.faulty.sent)
    for way, other in (("direct", "supervised"), ("supervised", "parallel")):
        events = await them.turn(way, QUESTION, other)
        assert events[-1]["type"] == "RUN_FINISHED" and failures(events) == []
        assert text(events, "komodor") == ANSWER and len(routes(events)) == 1
    assert len(them.faulty.sent) == before + 2


def shows_no_secret(them: System) -> None:
    for secret in (TOKEN, "127.0.0.1", "localhost", "aiohttp", "Traceback", ".py", "authorization", "/rpc"):
        assert secret.encode() not in them.wire


@pytest.mark.parametrize(("stage", "fault", "code", "message"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
async def test_an_agent_that_fails_is_named_with_the_cause_and_asked_once_and_its_sibling_answers(
    model: str, stage: str, fault: str, code: str, message: str
) -> None:
    said = f"The agent komodor{'' if message.startswith(chr(39)) else ' '}{message}"
    async with system(Faulty(stage, fault), model=model) as them:
        for way, events in (await on_all_ways(them)).items():
            kept_apart(way, events, (code, said))
            assert len(routes(events)) == 1
            assert text(events, "komodor") == {"text": "".join(HALF), "end": ANSWER}.get(stage, "")
        assert len(them.faulty.sent) == len(WAYS), "it is asked once, whatever comes of it"
        await goes_on(them)
        shows_no_secret(them)


# --- nothing was sent ------------------------------------------------------------------------------------------------

CARDS: dict[str, tuple[Any, str]] = {
    "html": (b"<html>", "has an agent card that cannot be read"),
    "huge": (b" " * (2**20 + 1), "sent more than 1048576 bytes at once"),
    "not an object": (b"[]", "has an agent card that cannot be read"),
    "another agent's": (
        card() | {"supportedInterfaces": [{"url": "http://other.example/rpc", "protocolBinding": "JSONRPC"}]},
        "has an agent card that names another address, and credentials are not sent there; "
        "configure that address if it is right",
    ),
    "0.3 without an address": ({"name": "k", "protocolVersion": "0.3.0"}, "has an agent card without an interface"),
    "0.3 with wrong types": ({"url": "/", "capabilities": "yes"}, "has an agent card that cannot be read"),
    "0.3 over gRPC": (
        {"url": "/", "protocolVersion": "0.3.0", "preferredTransport": "GRPC"},
        "speaks A2A over GRPC only; JSONRPC is needed",
    ),
    "of a later version": ({"url": "/", "protocolVersion": "2.0"}, "speaks another A2A than 1.0 and 0.3"),
    "with a bad address": (
        {"url": "ftp://k/", "protocolVersion": "0.3.0"},
        "has an agent card without a usable address",
    ),
}


async def falls_back(them: System, reason: str) -> None:
    """Nothing was sent, so the supervisor takes a direct turn over and says so; everything else is as ever."""
    for way, events in (await on_all_ways(them)).items():
        assert failures(events) and {name for name, *_ in failures(events)} == {"komodor"}
        for _, code, message in failures(events):
            assert code in ("agent_unavailable", "agent_timeout_first_byte") or reason in message
            assert message.startswith("The agent komodor") and reason in message
        assert routes(events)[1:] == ([("supervisor", "direct")] if way == "direct" else [])
        assert events[-1]["type"] == "RUN_FINISHED" and events[-1]["outcome"] == {"type": "success"}
        assert way == "direct" or text(events, "argocd") == APPS
        if way != "parallel":
            assert "komodor failed, so its part is missing." in text(events, "")
    assert them.faulty.sent == []


@pytest.mark.parametrize("fault", WHOLE)
async def test_an_agent_whose_card_cannot_be_had_is_asked_nothing_and_the_supervisor_takes_over(
    model: str, fault: str
) -> None:
    async with system(Faulty("card", fault), model=model) as them:
        await falls_back(them, WHOLE[fault][1].rstrip("."))
        if fault in ("hang", "drip", "drip_body"):  # the look that is under way began when it was not well
            them.faulty.heals()
            while b'"down"' in (await ask(them.url, "GET", "/agents")).body:
                pass
        await goes_on(them)
        shows_no_secret(them)


@pytest.mark.parametrize("what", CARDS)
async def test_an_agent_with_a_wrong_card_is_asked_nothing_and_the_supervisor_takes_over(model: str, what: str) -> None:
    faulty = Faulty()
    faulty.card, reason = CARDS[what]
    async with system(faulty, model=model) as them:
        await falls_back(them, reason)
        await goes_on(them)
        shows_no_secret(them)
