"""The conversation that an endpoint is sent: valid for the strictest of them, and nothing in it twice or lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.demo.model import refusal
from anabranch.events import Part
from anabranch.request import Message, ToolCall, ToolSpec
from anabranch.sources.openai._history import conversation, tools


def says(role: Any, content: str = "", **more: Any) -> Message:
    return Message(id="m", role=role, content=content, **more)


def asks(*calls: ToolCall, content: str = "") -> Message:
    return says("assistant", content, tool_calls=calls)


def call(id: str, name: str = "add", arguments: str = "{}", **more: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments, **more)


def returns(id: str, content: str = "1", **more: Any) -> Message:
    return says("tool", content, tool_call_id=id, **more)


def sent(*messages: Message, instructions: str = "") -> list[dict[str, Any]]:
    out = conversation(messages, instructions)
    assert refusal({"model": "m", "messages": out}) is None or not out
    return out


def test_a_conversation_is_sent_whole_and_in_order() -> None:
    asked = asks(call("A", arguments='{"a": 1}'))
    assert sent(says("user", "1 + 1?"), asked, returns("A", "2"), says("assistant", "2")) == [
        {"role": "user", "content": "1 + 1?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "A", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "A", "content": "2"},
        {"role": "assistant", "content": "2"},
    ]


def test_rules_are_one_message_at_the_beginning_the_instructions_first() -> None:
    rules = [says("system", "Be brief."), says("user", "Hi"), says("developer", "Be kind."), says("system", "")]
    assert sent(*rules, instructions="You count.") == [
        {"role": "system", "content": "You count.\n\nBe brief.\n\nBe kind."},
        {"role": "user", "content": "Hi"},
    ]
    assert sent(says("user", "Hi")) == [{"role": "user", "content": "Hi"}]


def test_a_result_follows_its_call_directly_wherever_it_was() -> None:
    out = sent(
        says("user", "go"),
        asks(call("A"), call("B")),
        says("user", "never mind"),
        returns("B", "2"),
        asks(call("C")),
        returns("A", "1"),
    )
    assert [message.get("tool_call_id") or message["role"] for message in out] == [
        *("user", "assistant", "A", "B", "user", "assistant", "C")
    ]


def test_a_call_without_a_result_gets_one_that_says_so_and_a_result_without_a_call_is_dropped() -> None:
    out = sent(says("user", "go"), asks(call("A")), returns("Z"), says("tool", "lost"))
    assert out[2:] == [{"role": "tool", "tool_call_id": "A", "content": "Error: this tool reported no result."}]


def test_a_failed_tool_says_so() -> None:
    out = sent(asks(call("A"), call("B")), returns("A", "", error="no such city"), returns("B", "gone", error="x"))
    assert [message["content"] for message in out[1:]] == ["no such city", "gone"]


def test_what_sub_agents_wrote_is_left_out() -> None:
    inner = [says("assistant", "2 clusters", agent="k"), returns("A", "inner", agent="k")]
    out = sent(says("user", "go"), asks(call("A")), *inner, returns("A", "outer"))
    assert [message["content"] for message in out] == ["go", None, "outer"]


def test_what_one_side_says_twice_in_a_row_is_one_message() -> None:
    image = Part(kind="file", url="https://a.example/x.png", mime_type="image/png")
    out = sent(says("user", "one"), says("user", "two"), says("user", parts=(image,)), says("user", "three"))
    assert out == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "one\n\ntwo"},
                {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}},
                {"type": "text", "text": "three"},
            ],
        }
    ]
    assert sent(says("assistant", "a"), says("assistant", "b")) == [{"role": "assistant", "content": "a\n\nb"}]


def test_messages_that_say_nothing_are_left_out() -> None:
    assert sent(says("user", ""), says("assistant", ""), says("user", "Hi")) == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("calls", "ids"),
    [
        ([call("run:3", origin_id="call_abc")], ["call_abc"]),
        ([call("run:3", origin_id="functions.add:0")], ["functions.add:0"]),
        ([call("call_of_the_client")], ["call_of_the_client"]),
        ([call("run:3")], ["call00000"]),
        ([call("x" * 41)], ["call00000"]),
        ([call("ok", origin_id="x" * 41)], ["call00000"]),
        ([call(id, origin_id="A") for id in "123"], ["A", "call00001", "call00002"]),
        ([call("call00001"), call("a:b")], ["call00001", "call00002"]),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["in one message", "in several"])
def test_a_call_is_named_as_its_model_named_it_unless_no_endpoint_would_take_that(
    calls: list[ToolCall], ids: list[str], apart: bool
) -> None:
    messages = [asks(each) for each in calls] if apart else [asks(*calls)]
    out = sent(*messages, *(returns(each.id, each.id) for each in calls))
    assert [each["id"] for message in out for each in message.get("tool_calls", ())] == ids
    results = {message["tool_call_id"]: message["content"] for message in out if message["role"] == "tool"}
    assert results == dict(zip(ids, (each.id for each in calls), strict=True))


def test_ids_of_earlier_calls_stay_the_same_when_the_conversation_grows() -> None:
    turns = [each for n in range(4) for each in (asks(call(f"r:{n}", origin_id="call_0")), returns(f"r:{n}"))]
    whole = sent(*turns)
    assert [sent(*turns[:n]) for n in range(0, 8, 2)] == [whole[:n] for n in range(0, 8, 2)]


@pytest.mark.parametrize("arguments", ["", '{"a"', "[1]", "5", "[" * 100_000, '{"a": NaN}'])
def test_arguments_that_are_no_object_are_an_empty_one(arguments: str) -> None:
    (message, _) = sent(asks(call("A", arguments=arguments)))
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(("name", "told"), [("a.b c/ü", "a_b_c__"), ("", "unknown"), ("x" * 65, "x" * 64)])
def test_the_name_of_a_tool_that_no_endpoint_would_take_is_put_right(name: str, told: str) -> None:
    (message, _) = sent(asks(call("A", name)))
    assert message["tool_calls"][0]["function"]["name"] == told


@pytest.mark.parametrize(
    ("part", "note"),
    [
        (Part(kind="text", text="a"), "a"),
        (Part(kind="json", data={"ü": 1}), '{"ü": 1}'),
        (Part(kind="file", url="https://a.example/x.pdf", mime_type="application/pdf", name="x.pdf"),
         "[file x.pdf application/pdf https://a.example/x.pdf]"),
        (Part(kind="file", url="data:text/csv;base64,AAAA", mime_type="text/csv"), "[file text/csv]"),
        (Part(kind="file", data={"file": "f-1"}, mime_type="image/png"), "[file image/png]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_what_is_no_text_and_no_image_is_a_note_in_the_text(part: Part, note: str, role: Any) -> None:
    message = returns("A", "", parts=(part,)) if role == "tool" else says(role, parts=(part,))
    assert sent(asks(call("A")), message)[-1]["content"] == note
    if part.kind != "text":
        with_text = returns("A", "see", parts=(part,)) if role == "tool" else says(role, "see", parts=(part,))
        assert sent(asks(call("A")), with_text)[-1]["content"] == f"see\n{note}"


def test_an_image_is_shown_to_the_model_with_the_text_around_it() -> None:
    parts = (
        Part(kind="text", text="What is"),
        Part(kind="file", url="data:image/png;base64,AAAA", mime_type="image/png"),
        Part(kind="json", data=[1]),
    )
    assert sent(says("user", parts=parts))[0]["content"] == [
        {"type": "text", "text": "What is"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "[1]"},
    ]


def test_tools_are_functions_with_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number"}}}
    specs = [ToolSpec(name="add", description="Adds.", parameters=schema), ToolSpec(name="now")]
    assert [tool["function"] for tool in tools(specs)] == [
        {"name": "add", "description": "Adds.", "parameters": schema},
        {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
    ]
    assert {tool["type"] for tool in tools(specs)} == {"function"}


IDS = st.sampled_from(["A", "B", "r:1", "x" * 50])
NAMES, ARGUMENTS = st.sampled_from(["add", "a.b"]), st.sampled_from(["", "{}", "{"])
CALLS = st.builds(call, IDS, NAMES, ARGUMENTS, origin_id=IDS | st.just(""))
HISTORIES = st.lists(
    st.builds(says, st.sampled_from(["user", "system", "assistant"]), st.sampled_from(["", "Hi"]))
    | st.builds(lambda calls: asks(*calls), st.lists(CALLS, max_size=3))
    | st.builds(returns, IDS),
    max_size=8,
)


@settings(deadline=None, database=None)
@given(HISTORIES)
def test_whatever_a_conversation_holds_the_strictest_endpoint_takes_it(messages: list[Message]) -> None:
    out = sent(*messages)
    roles = [message["role"] for message in out]
    assert "system" not in roles[1:]
    plain = [(a, b) for a, b in zip(roles, roles[1:], strict=False) if a == b and a in ("user", "system")]
    assert plain == []
    assert all(len(each["id"]) <= 40 for message in out for each in message.get("tool_calls", ()))
    said = sum(len(message.tool_calls) for message in messages)
    assert sum(len(message.get("tool_calls", ())) for message in out) == said
    json.dumps(out)
