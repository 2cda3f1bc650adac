"""The supervisor's chat model, at an endpoint that says one thing: what careless endpoints send is put right."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI

from anabranch import events as ev
from anabranch.sources._dialect import Router
from anabranch.sources.langgraph.reasoning import chat_model

from .seen import Seen, run

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the client's, of the same flaws

Json = dict[str, Any]


def says(delta: Any, finish: Any = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]} | more


def calls(index: Any, id: Any, args: Any = '{"question": "q"}', name: str = "ask_komodor") -> Json:
    function = {"name": name, "arguments": args}
    return says({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})


STOP, CALLED = says({}, "stop"), says({}, "tool_calls")
DONE = [says({"content": "done"}), STOP]


class Endpoint:
    """Answers the n-th request with the n-th turn; ``bodies`` are the requests."""

    def __init__(self, *turns: list[Json]) -> None:
        self.turns, self.bodies = turns, list[Json]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        turn = self.turns[min(len(self.bodies), len(self.turns)) - 1]
        frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in turn]
        return httpx.Response(
            200, text="".join([*frames, "data: [DONE]\n\n"]), headers={"content-type": "text/event-stream"}
        )


async def answered(*turns: list[Json], ours: bool = True) -> tuple[Seen, list[str], Endpoint]:
    """What is seen of an agent with two tools at that endpoint, the questions they were asked, and the endpoint."""
    asked: list[str] = []

    async def answer(name: str, question: str) -> str:
        asked.append(f"{name}: {question}")
        await asyncio.sleep(0)  # noqa: TID251 - lets the sibling in between
        return f"{name} says {question}"

    @tool
    async def ask_komodor(question: str) -> str:
        """Ask komodor."""
        return await answer("komodor", question)

    @tool
    async def ask_argocd(question: str) -> str:
        """Ask argocd."""
        return await answer("argocd", question)

    endpoint = Endpoint(*turns)
    async with httpx.AsyncClient(transport=httpx.MockTransport(endpoint)) as http:
        options: Any = {"base_url": "http://model/v1", "api_key": "x", "max_retries": 0, "http_async_client": http}
        llm = chat_model(name="m", **options) if ours else ChatOpenAI(model="m", stream_usage=True, **options)
        seen = await run(create_agent(llm, [ask_komodor, ask_argocd]))
    return seen, asked, endpoint


@pytest.mark.parametrize("id", [None, "", "same", 7])
@pytest.mark.parametrize("other", ["ask_komodor", "ask_argocd"])
async def test_parallel_calls_with_one_id_or_none_are_told_apart(id: Any, other: str) -> None:
    args = '{"question": "second"}'
    seen, asked, endpoint = await answered([calls(0, id), calls(1, id, args, other), CALLED], DONE)
    name = other.removeprefix("ask_")
    assert sorted(asked) == sorted(["komodor: q", f"{name}: second"])
    assert [(call.name, call.result, call.is_error) for call in seen.calls.values()] == [
        ("ask_komodor", "komodor says q", False),
        (other, f"{name} says second", False),
    ]
    sent = [message["tool_call_id"] for message in endpoint.bodies[1]["messages"] if message["role"] == "tool"]
    assert len(set(sent)) == 2 and all(sent)
    assert seen.text() == "done" and seen.repairs == {}


async def test_ids_that_are_made_here_differ_between_the_turns_of_a_conversation() -> None:
    turn = [calls(0, None), CALLED]
    seen, asked, _ = await answered(turn, turn, DONE)
    assert len(asked) == 2 and len({id for _, id in seen.calls}) == 2
    assert not any("#" in id for _, id in seen.calls)


@pytest.mark.parametrize("ids", [("same", "same"), ("", ""), (None, None)])
async def test_at_a_model_that_is_not_ours_such_a_turn_fails_before_any_tool_runs(ids: Any) -> None:
    turn = [calls(0, ids[0]), calls(1, ids[1], name="ask_argocd"), CALLED]
    seen, asked, _ = await answered(turn, DONE, ours=False)
    assert asked == [] and isinstance(seen.terminal, ev.RunFailed)
    assert seen.terminal.code == "model_error" and " id" in seen.terminal.message


@pytest.mark.parametrize("ours", [True, False])
async def test_arguments_that_are_no_object_end_the_run_truthfully(ours: bool) -> None:
    seen, asked, _ = await answered([calls(0, "c1", "[1]"), CALLED], DONE, ours=ours)
    assert asked == [] and isinstance(seen.terminal, ev.RunFailed)
    assert seen.terminal.code == "model_error" and "JSON object" in seen.terminal.message


@pytest.mark.parametrize(
    "args", ['{"question": "\ud83d"}', '{"question": "\\ud83d"}'], ids=["in the fragment", "in the JSON"]
)
async def test_half_a_character_in_arguments_does_not_spoil_the_next_request(args: str) -> None:
    seen, _, endpoint = await answered([calls(0, "c1", args), CALLED], DONE)
    call = endpoint.bodies[1]["messages"][-2]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"question": "\ufffd"}
    assert seen.text() == "done"


@pytest.mark.parametrize("index", [None, "0", "x", -1])
@pytest.mark.parametrize("args", ['{"question": "q"}', {"question": "q"}], ids=["text", "object"])
async def test_a_call_of_any_form_is_made(index: Any, args: Any) -> None:
    seen, asked, _ = await answered([calls(index, "c1", args), CALLED], DONE)
    assert asked == ["komodor: q"] and seen.text() == "done"


def block(kind: str, value: Any) -> Json:
    return {"type": kind, kind: value}


@pytest.mark.parametrize(
    ("delta", "text", "thought"),
    [
        ({"content": [block("thinking", [block("text", "hm")])]}, "", "hm"),
        ({"content": [block("thinking", "hm"), block("text", "a"), "b"]}, "ab", "hm"),
        ({"content": [block("text", {"value": "x"})]}, "x", ""),
        ({"content": [block("text", None), None, 5]}, "", ""),
        ({"content": 5}, "", ""),
        ({"content": "a", "role": "tool"}, "a", ""),
        ({"refusal": "I must not."}, "I must not.", ""),
        ({"reasoning": {"text": "hm"}}, "", "hm"),
        ({"reasoning_content": "", "reasoning": "hm"}, "", "hm"),
        (None, "", ""),
        ("x", "", ""),
    ],
)
async def test_text_and_reasoning_of_every_form_are_shown(delta: Any, text: str, thought: str) -> None:
    seen, *_ = await answered([says(delta), says({"content": " end"}), STOP])
    assert isinstance(seen.terminal, ev.RunFinished), seen.terminal
    assert seen.text() == f"{text} end" and "".join(seen.thought()) == thought


@pytest.mark.parametrize(
    ("reason", "shown"), [(1, "1"), ({"type": "stop"}, '{"type": "stop"}'), (True, "true"), (["stop"], '["stop"]')]
)
@pytest.mark.parametrize("ours", [True, False])
async def test_labels_of_a_wrong_type_are_texts(reason: Any, shown: str, ours: bool) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    end = [says({}, reason, model=5), says({}, None, model=5) | {"choices": [], "usage": usage}]
    seen, *_ = await answered([says({"content": "a"}, model=5), *end], ours=ours)
    assert isinstance(seen.terminal, ev.RunFinished), seen.terminal
    assert [event.finish_reason for event in seen.of(ev.MessageFinished)] == [shown]
    assert [usage.model for usage in seen.terminal.usage] == ["5"]


async def test_counts_that_are_no_integers_are_counts() -> None:
    usage = {"prompt_tokens": 1.5, "completion_tokens": 2.5, "total_tokens": None, "prompt_tokens_details": [1]}
    seen, *_ = await answered([*DONE, says({}) | {"choices": [], "usage": usage}])
    assert isinstance(seen.terminal, ev.RunFinished), seen.terminal
    assert [(usage.input, usage.output) for usage in seen.terminal.usage] == [(1, 2)]


def test_without_a_mint_the_router_keeps_the_ids_of_the_server() -> None:
    router = Router()
    assert [router.route(0, None, "a"), router.route(0, "late", None), router.route(1, "late", "b")] == [
        (0, True, None),
        (0, False, "late"),
        (1, True, "late"),
    ]


def test_a_minted_id_is_not_replaced_by_one_that_comes_late_and_repeats_of_a_taken_one_find_their_call() -> None:
    router = Router(iter(["m1", "m2"]).__next__)
    told = [router.route(0, None, "a"), router.route(0, "late", None)]
    told += [router.route(1, "same", "b"), router.route(2, "same", "c"), router.route(2, "same", "c")]
    assert told == [(0, True, "m1"), (0, False, None), (1, True, "same"), (2, True, "m2"), (2, False, None)]
