"""What is asked as a form, and every way in which clients of the Platform Engineer fill it in."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.errors import ClientError
from anabranch.events import Interrupted, Part
from anabranch.request import Message
from anabranch.sinks.a2a.caipe.form import answers, form


def asked(id: str = "i", schema: Any = None, tools: int = 0) -> Interrupted:
    requests = [{"name": f"tool-{n}", "args": {}} for n in range(tools)]
    metadata = {"value": {"action_requests": requests}} if tools else None
    return Interrupted(interrupt_id=id, reason="tool_call" if tools else "ask", schema=schema, metadata=metadata)


def texted(text: str) -> Message:
    return Message(id="m", role="user", content=text)


def sent(data: Any, *, text: str = "") -> Message:
    parts = [Part(kind="text", text=text)] if text else []
    return Message(id="m", role="user", parts=(*parts, Part(kind="json", data=data)))


OBJECT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "n": {"type": "integer"}, "ok": {"type": "boolean"}},
}
TAGS = {"type": "object", "properties": {"tags": {"type": "array"}}}
BOOLEAN = {"type": "boolean"}


@pytest.mark.parametrize(
    ("question", "message", "payload"),
    [
        (asked(), texted("the red one"), "the red one"),
        (asked(schema=BOOLEAN), texted("Yes"), True),
        (asked(schema=BOOLEAN), texted("answer: no"), False),
        (asked(schema=BOOLEAN), texted("perhaps"), "perhaps"),
        (asked(schema=OBJECT), texted("name: a: b\r\nN: 3\n\nok: yes"), {"name": "a: b", "n": 3, "ok": True}),
        (asked(schema=OBJECT), texted("n: three"), {"n": "three"}),
        (asked(schema=OBJECT), texted("by user: a@x.test\nname: a"), {"name": "a"}),
        (asked(), texted("by user: a@x.test\n\nthe red one"), "the red one"),
        (asked(), texted("by user: nobody"), "by user: nobody"),
        (asked(schema=OBJECT), texted("name a"), "name a"),
        (asked(schema=OBJECT), texted("colour: red"), "colour: red"),
        (asked(schema=OBJECT), sent({"name": "a", "n": 3}), {"name": "a", "n": 3}),
        (asked(schema=OBJECT), sent({"other": 1}), {"other": 1}),
        (asked(schema=TAGS), texted("tags: a, b"), {"tags": ["a", "b"]}),
        (asked(schema=TAGS), texted('tags: ["a"]'), {"tags": ["a"]}),
        (asked(schema=TAGS), texted("a, b"), {"tags": ["a", "b"]}),
        (asked(), sent([1]), [1]),
        (asked(tools=1), texted("approve"), {"decisions": [{"type": "approve"}]}),
        (asked(tools=2), texted("decision: reject"), {"decisions": [{"type": "reject"}] * 2}),
        (asked(tools=1), sent({"resume": {"decisions": [{"type": "accept"}]}}), {"decisions": [{"type": "approve"}]}),
        (
            asked(tools=2),
            sent({"resume": {"decisions": [{"type": "reject"}]}}),
            {"decisions": [{"type": "reject"}] * 2},
        ),
        (
            asked(tools=1),
            sent({"resume": {"decisions": [{"type": "edit", "args": {"action": "rm", "args": {"f": 1}}}]}}),
            {"decisions": [{"type": "edit", "edited_action": {"name": "rm", "args": {"f": 1}}}]},
        ),
        (
            asked(tools=1),
            sent({"resume": {"decisions": [{"type": "reject", "message": "no"}]}}, text="so"),
            {"decisions": [{"type": "reject", "message": "no"}]},
        ),
        (asked(schema=BOOLEAN), sent({"resume": {"decisions": [{"type": "approve"}]}}), True),
        (asked(schema=BOOLEAN), sent({"resume": {"decisions": [{"type": "reject"}]}}), False),
        (asked(), sent({"resume": {"decisions": [{"type": "response", "args": "the red one"}]}}), "the red one"),
    ],
)
def test_an_answer_in_any_form_is_what_the_agent_gets(question: Interrupted, message: Message, payload: Any) -> None:
    assert answers(message, [question]) == {"i": payload}


def test_two_questions_are_one_form_and_each_gets_its_own_answer() -> None:
    both = [
        asked("i", BOOLEAN),
        asked("j", {"properties": {"answer": {"type": "integer"}, "name": {}}}),
        asked("k", tools=2),
    ]
    names = [field["field_name"] for field in form(both)["input_fields"]]
    assert names == ["answer", "answer_2", "name", "decision"]
    assert answers(texted("answer: yes\nanswer_2: 7\ndecision: approve"), both) == {
        "i": True,
        "j": {"answer": 7},
        "k": {"decisions": [{"type": "approve"}] * 2},
    }
    decided = [{"type": "accept"}, {"type": "response", "args": {"answer": 1}}, {"type": "approve"}, {"type": "reject"}]
    assert answers(sent({"resume": {"decisions": decided}}), both) == {
        "i": True,
        "j": {"answer": 1},
        "k": {"decisions": [{"type": "approve"}, {"type": "reject"}]},
    }
    assert answers(texted("whatever"), both) == dict.fromkeys("ijk", "whatever")


@pytest.mark.parametrize(
    ("message", "flaw"),
    [
        (texted("answer: yes"), "decision is not answered; send a line"),
        (sent({"resume": {"decisions": [{"type": "approve"}] * 4}}), "there are 4; send 3, or one for all"),
        (sent({"resume": {"decisions": []}}), "there are 0; send 3"),
        (sent({"resume": "approve"}), "resume cannot be used: send"),
        (sent({"resume": {"decisions": ["approve"]}}), "resume cannot be used: send"),
    ],
)
def test_who_does_not_answer_all_that_is_asked_is_told_what_to_send(message: Message, flaw: str) -> None:
    with pytest.raises(ClientError, match=flaw) as error:
        answers(message, [asked("i", BOOLEAN), asked("k", tools=2)])
    assert error.value.code == "bad_input"


def test_a_form_says_what_may_be_chosen() -> None:
    fields = form([asked(tools=1), asked("j", {"enum": ["a", "b"], "title": "Which"})])["input_fields"]
    assert [field["field_values"] for field in fields] == [["approve", "reject"], ["a", "b"]]
    assert [field["field_description"] for field in fields] == ["tool_call", "ask"]
