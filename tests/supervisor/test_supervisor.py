"""The spine, whole and for real: AG-UI over HTTP, a deepagents graph, an OpenAI-compatible model, A2A agents.

Every part is an operating-system process of its own. One agent (``komodor``) is a raw one that misbehaves on demand,
the other (``argocd``) is on the official SDK.
"""

import asyncio
import json
import uuid

import pytest

from anabranch.demo.agents import tokens
from tests import oracles
from tests.agents.remote import pieces
from tests.supervisor.spine import running

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
async def spine(anyio_backend, tmp_path_factory):
    async with running(tmp_path_factory.mktemp("spine")) as spine:
        yield spine


def by_lane(events):
    """The text of each agent, and the sub-agents by name."""
    lanes = {e["subagentRunId"]: e["name"] for _, e in events if e["type"] == "SUBAGENT_STARTED"}
    texts = dict.fromkeys([*lanes.values(), ""], "")
    for _, event in events:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            texts[lanes.get(event.get("subagentRunId"), "")] += event["delta"]
    return texts


def only(events, *types):
    return [event for _, event in events if event["type"] in types]


def judged(events):
    """The events, once every official client has accepted them."""
    ends = only(events, "RUN_FINISHED", "RUN_ERROR")
    assert len(ends) == 1 and events[-1][1] is ends[0]
    if oracles.missing() is None:
        oracles.accept([event for _, event in events])
    return events


async def test_tokens_of_both_agents_arrive_live_exact_and_attributed(spine):
    async with spine.komodor("--rate", "100") as komodor:
        events = judged(await spine.events("komodor and argocd, please"))
        sent = {"komodor": await spine.get(f"{komodor}/sent"), "argocd": await spine.get(f"{spine.argocd}/sent")}
    texts = by_lane(events)
    assert texts["komodor"] == sent["komodor"]["text"] == "".join(pieces("ok"))
    assert texts["argocd"] == sent["argocd"]["text"] == "".join(tokens("argocd"))
    calls = {event["toolCallName"]: event["toolCallId"] for event in only(events, "TOOL_CALL_START")}
    for lane in only(events, "SUBAGENT_STARTED"):
        assert lane["parentToolCallId"] == calls["ask_" + lane["name"]]
    # Live: the first token was read before the agent had published its last one.
    lane = next(lane["subagentRunId"] for lane in only(events, "SUBAGENT_STARTED") if lane["name"] == "argocd")
    first_ns = next(at for at, e in events if e["type"] == "TEXT_MESSAGE_CONTENT" and e.get("subagentRunId") == lane)
    assert first_ns < sent["argocd"]["stamps"][-1][1]
    assert only(events, "RUN_FINISHED")[0]["outcome"] == {"type": "success"}


async def test_two_delegates_in_parallel_interleave(spine):
    async with spine.komodor("--rate", "100"):
        events = await spine.events("komodor and argocd, please")
    spoke = [e["subagentRunId"] for _, e in events if e["type"] == "TEXT_MESSAGE_CONTENT" and "subagentRunId" in e]
    assert sum(a != b for a, b in zip(spoke, spoke[1:], strict=False)) > 10


async def test_the_model_reads_what_the_user_read(spine):
    async with spine.komodor():
        events = await spine.events("komodor and argocd, please")
    names = {event["toolCallId"]: event["toolCallName"] for event in only(events, "TOOL_CALL_START")}
    texts = by_lane(events)
    for result in only(events, "TOOL_CALL_RESULT"):
        agent = names[result["toolCallId"]].removeprefix("ask_")
        assert agent == "write_todos" or result["content"] == texts[agent]
    assert "komodor" in texts[""] and "argocd" in texts[""]  # the scripted model says whom it heard


async def test_the_plan_shows_while_it_is_written_and_is_then_the_state(spine):
    async with spine.komodor():
        events = await spine.events("komodor and argocd, please")
    kinds = [event["type"] for _, event in events]
    assert kinds.index("ACTIVITY_SNAPSHOT") < kinds.index("ACTIVITY_DELTA") < kinds.index("TOOL_CALL_END")
    snapshot = only(events, "STATE_SNAPSHOT")[0]["snapshot"]
    assert len(snapshot["todos"]) == 3 and kinds.index("STATE_SNAPSHOT") > kinds.index("TOOL_CALL_END")


@pytest.mark.parametrize("moment", ["before", "mid", "end"])
async def test_an_agent_that_is_killed_fails_in_its_lane_and_its_sibling_finishes(spine, moment):
    async with spine.komodor():
        events = judged(await spine.events(f"komodor and argocd, please mode=killed_{moment}"))
    texts = by_lane(events)
    assert texts["argocd"] == "".join(tokens("argocd"))
    assert texts["komodor"] == "".join(pieces(f"killed_{moment}") if moment != "before" else [])
    [failed] = only(events, "SUBAGENT_ERROR")
    assert failed["code"] == "agent_disconnected"
    [error] = [r for r in only(events, "TOOL_CALL_RESULT") if r.get("metadata", {}).get("anabranch", {}).get("isError")]
    assert error["content"].startswith("Error: the agent komodor failed (agent_disconnected)")
    assert events[-1][1]["type"] == "RUN_FINISHED" and "failed" in texts[""]


async def test_an_agent_that_is_not_there_fails_in_its_lane(spine):
    events = judged(await spine.events("komodor and argocd, please"))
    [failed] = only(events, "SUBAGENT_ERROR")
    assert failed["code"] == "agent_unavailable" and str(spine.port) not in failed["message"]
    assert by_lane(events)["argocd"] == "".join(tokens("argocd"))
    assert events[-1][1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize(
    ("mode", "code"),
    [("no_terminal", "no_end"), ("failed", "agent_failed"), ("rejected", "agent_rejected"), ("html", "agent_protocol")],
)
async def test_an_agent_that_does_not_complete_is_no_success(spine, mode, code):
    async with spine.komodor() as komodor:
        events = judged(await spine.events(f"only komodor, please mode={mode}"))
        assert (await spine.get(f"{komodor}/sent"))["requests"] == 1  # asked once
    [failed] = only(events, "SUBAGENT_ERROR")
    assert failed["code"] == code
    assert events[-1][1]["type"] == "RUN_FINISHED"


async def test_an_empty_answer_is_an_answer_and_not_asked_again(spine):
    async with spine.komodor() as komodor:
        events = judged(await spine.events("only komodor, please mode=empty"))
        assert (await spine.get(f"{komodor}/sent"))["requests"] == 1
    assert only(events, "SUBAGENT_FINISHED") and not only(events, "SUBAGENT_ERROR")


MODEL_FAULTS = [
    ("http_500", 1, "model_error"),
    ("http_401", 1, "model_error"),
    ("error_first", 1, "model_error"),
    ("error_text", 3, "model_error"),
    ("error_args", 2, "model_error"),
    ("cut_first", 1, "model_truncated"),
    ("cut_text", 3, "model_truncated"),
    ("cut_args", 2, "model_truncated"),
    ("length_args", 2, "model_truncated"),
    ("drop_text", 3, "model_disconnected"),
    ("drop_args", 2, "model_disconnected"),
    ("garbage", 3, "model_error"),
]


@pytest.mark.parametrize(("fault", "turn", "code"), MODEL_FAULTS, ids=[fault for fault, *_ in MODEL_FAULTS])
async def test_a_model_that_fails_ends_the_run_with_a_typed_error(spine, fault, turn, code):
    async with spine.komodor() as komodor:
        events = judged(await spine.events(f"only komodor, please fault={fault} turn={turn}"))
        asked = (await spine.get(f"{komodor}/sent"))["requests"]
    error = events[-1][1]
    assert error["type"] == "RUN_ERROR" and error["code"] == code
    assert "Traceback" not in json.dumps(error)
    # No tool runs with half its arguments: the delegate is only asked when the fault comes after its turn.
    assert asked == (1 if turn == 3 else 0)
    shown = by_lane(events)[""]
    assert shown if turn > 1 or "text" in fault else not shown


async def test_two_runs_on_one_thread_show_two_messages(spine):
    thread, history, seen = uuid.uuid4().hex, [], []
    async with spine.komodor():
        for turn in ("first", "second"):
            history.append({"id": turn, "role": "user", "content": f"only komodor, {turn}"})
            body = {"threadId": thread, "runId": turn, "protocolVersion": "1.0", "messages": history}
            async with spine.http.post(f"{spine.url}/agui", json=body) as response:
                events = list(oracles.events(await response.read()))
            assert events[-1]["type"] == "RUN_FINISHED" and events[0]["threadId"] == thread
            starts = [e for e in events if e["type"] == "TEXT_MESSAGE_START"]
            seen += [e["messageId"] for e in starts]
            # A client sends back everything it shows, the sub-agent's messages too: the model must not be confused.
            texts = {
                e["messageId"]: {"id": e["messageId"], "role": "assistant", "content": "", **_owner(e)} for e in starts
            }
            for event in events:
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    texts[event["messageId"]]["content"] += event["delta"]
            history += texts.values()
    assert len(seen) == len(set(seen))


def _owner(event):
    return {"subagentRunId": event["subagentRunId"]} if "subagentRunId" in event else {}


@pytest.mark.oracle
async def test_both_generations_of_the_official_client_run_the_question(spine):
    oracles.require()
    async with spine.komodor():
        asked = {"messages": [{"id": "q", "role": "user", "content": "komodor and argocd, please"}]}
        seen = await asyncio.to_thread(oracles.accept_url, f"{spine.url}/agui", asked)
    for session in seen.values():
        texts = [m.get("content") for m in session.messages if m["role"] == "assistant"]
        assert "".join(pieces("ok")) in texts and "".join(tokens("argocd")) in texts
