"""The table of the translator: parts, and what a reader knows after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command, Interrupt

from anabranch import events as ev

from .graphs import fragment
from .parts import (
    LANE,
    SUB,
    A,
    B,
    Part,
    asks_whole,
    chunk,
    emits,
    ends,
    fails,
    finishes,
    in_lane,
    last,
    part,
    result,
    runs,
    shown,
    starts,
    tool_call,
    turn,
    updates,
    works,
)
from .seen import Seen


@dataclass
class Case:
    """Parts, and what they come to: ``calls`` are (local id, name, arguments, result, is an error) of the root."""

    name: str
    parts: list[Part]
    said: list[tuple[str, str]] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, str, str | None, bool]] = field(default_factory=list)
    lanes: dict[str, tuple[str, str, str | None]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    terminal: str = "success"
    resumed: bool = False
    check: Callable[[Seen], object] = lambda seen: None


ONE = ("A", "add", '{"a": 1}', "3", False)
TWO = ("B", "add", '{"b": 2}', "3", False)


def lane_event(kind: Any, agent: str = "komodor", **fields: Any) -> ev.Event:
    return kind(agent=agent, **fields)


REMOTE = [
    lane_event(ev.AgentStarted, name="komodor"),
    lane_event(ev.MessageStarted, message_id="m"),
    lane_event(ev.TextDelta, message_id="m", delta="remote"),
    lane_event(ev.MessageFinished, message_id="m"),
    lane_event(ev.AgentFinished),
]

CASES = [
    Case("text", [chunk("Hel"), chunk("lo"), chunk(""), *last()], said=[("Hello", "answer")]),
    Case("content in blocks", [chunk([{"type": "text", "text": "a"}, "b"]), *last()], said=[("ab", "answer")]),
    Case("a refusal is an answer", [chunk([{"type": "refusal", "refusal": "no"}]), *last()], said=[("no", "answer")]),
    Case("a turn that says nothing", last(), said=[]),
    Case(
        "the first chunk has the response's id, the others the run's",
        [chunk(id="resp_1"), chunk("Hi", id="run-1"), *last(id="run-1")],
        said=[("Hi", "answer")],
    ),
    Case(
        "[AG-41] reasoning beside text, empty and null",
        [
            chunk(additional_kwargs={"reasoning_content": "let me "}),
            chunk(additional_kwargs={"reasoning_content": ""}),
            chunk(additional_kwargs={"reasoning_content": None}),
            chunk("Hi", additional_kwargs={"reasoning_content": "see"}),
            *last(),
        ],
        said=[("Hi", "answer")],
        thought=["let me see"],
        check=lambda seen: seen.of(ev.ReasoningStarted)[0].origin_id != seen.of(ev.MessageStarted)[0].origin_id,
    ),
    Case(
        "reasoning in the blocks of each provider",
        [
            chunk([{"type": "thinking", "thinking": "a", "index": 0}]),
            chunk([{"type": "reasoning", "reasoning": "b"}]),
            chunk([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "c"}]}]),
            chunk([{"type": "reasoning_content", "reasoning_content": {"text": "d"}}]),
            chunk([{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "x"}]),
            *last(),
        ],
        said=[("Hi", "answer")],
        thought=["abcd"],
    ),
    Case(
        "reasoning that comes back is a second one",
        [
            chunk(additional_kwargs={"reasoning_content": "a"}),
            chunk("b"),
            chunk(additional_kwargs={"reasoning_content": "c"}),
            chunk("d"),
            *last(),
        ],
        said=[("bd", "answer")],
        thought=["a", "c"],
    ),
    Case(
        "text before a call is narration",
        [chunk("I look. "), *turn([fragment(0, "A", "add", '{"a": 1}')], ids=("A",))],
        said=[("I look. ", "narration")],
        calls=[ONE],
    ),
    Case(
        "[AG-1] one call after the other",
        turn(
            [fragment(0, "A", "add", "")],
            [fragment(0, None, None, '{"a": 1}')],
            [fragment(1, "B", "add", "")],
            [fragment(1, None, None, '{"b": 2}')],
            ids=("A", "B"),
        ),
        calls=[ONE, TWO],
    ),
    Case(
        "[AG-3] interleaved by index",
        turn(
            [fragment(0, "A", "add", ""), fragment(1, "B", "add", "")],
            [fragment(0, None, None, '{"a":')],
            [fragment(1, None, None, '{"b":'), fragment(0, None, None, " 1}")],
            [fragment(1, None, None, " 2}")],
            ids=("A", "B"),
        ),
        calls=[ONE, TWO],
    ),
    Case(
        "[AG-3] without an index, the last call that had an id",
        turn(
            [fragment(None, "A", "add", "")],
            [fragment(None, None, None, '{"a": 1}')],
            [fragment(None, "B", "add", "")],
            [fragment(None, None, None, '{"b":')],
            [fragment(None, "B", None, " 2}")],
            ids=("A", "B"),
        ),
        calls=[ONE, TWO],
    ),
    Case(
        "[F32] id and name on every fragment",
        turn(*[[fragment(0, "A", "add", piece)] for piece in ("", '{"a":', " 1}")], ids=("A",)),
        calls=[ONE],
    ),
    Case(
        "two whole calls in one chunk",
        turn([fragment(0, "A", "add", '{"a": 1}'), fragment(1, "B", "add", '{"b": 2}')], ids=("A", "B")),
        calls=[ONE, TWO],
    ),
    Case(
        "a new id with a name at a used index is a new call",
        turn([fragment(0, "A", "add", '{"a": 1}')], [fragment(0, "B", "add", '{"b": 2}')], ids=("A", "B")),
        calls=[ONE, TWO],
    ),
    Case(
        "an id that changes without a name is the same call, known by both",
        turn([fragment(0, "A", "add", '{"a":')], [fragment(0, "A__thought__", None, " 1}")], ids=("A__thought__",)),
        calls=[ONE],
    ),
    Case(
        "an id that comes late",
        turn([fragment(0, None, "add", '{"a":')], [fragment(0, "A", None, " 1}")], ids=("A",)),
        calls=[("m1:0", *ONE[1:])],
    ),
    Case(
        "a provider's call id that comes again in a later turn is a new call",
        [
            *asks_whole(A),
            *runs(A, "t0"),
            *asks_whole(A, id="m2"),
            *runs(A, "t1", returns="4"),
            chunk("ok", id="m3"),
            *last(id="m3"),
        ],
        said=[("ok", "answer")],
        calls=[("A", "add", "{}", "3", False), ("A#2", "add", "{}", "4", False)],
        check=lambda seen: seen.call("A").turn != seen.call("A#2").turn,
    ),
    Case(
        "usage in several chunks is one report",
        [
            chunk(
                "Hi",
                usage_metadata={"input_tokens": 7, "output_tokens": 0, "total_tokens": 7},
                meta={"ls_model_name": "m"},
            ),
            chunk(
                usage_metadata={
                    "input_tokens": 0,
                    "output_tokens": 5,
                    "total_tokens": 5,
                    "input_token_details": {"cache_read": 2},
                    "output_token_details": {"reasoning": 3},
                }
            ),
            *last(),
        ],
        said=[("Hi", "answer")],
        check=lambda seen: (
            [event.usage for event in seen.of(ev.UsageReported)]
            == [ev.Usage(model="m", input=7, output=5, cached=2, reasoning=3)]
        ),
    ),
    Case(
        "[F4] a message that a node returns after it was streamed is not repeated",
        [
            chunk("Hi"),
            *last(),
            shown(AIMessage("Hi", id="m1")),
            updates(node="model", messages=[AIMessage("Hi", id="m1")]),
        ],
        said=[("Hi", "answer")],
    ),
    Case(
        "a message that was never streamed is shown whole, once",
        [
            shown(AIMessage("Hi", id="m9")),
            shown(AIMessage("Hi", id="m9")),
            updates(messages=[AIMessage("Hi", id="m9")]),
        ],
        said=[("Hi", "answer")],
    ),
    Case(
        "what people say is not echoed",
        [shown(HumanMessage("hello", id="u1")), chunk("Hi"), *last()],
        said=[("Hi", "answer")],
    ),
    Case(
        "a summary made inside is not shown",
        [chunk("secret", id="s", lane="-", meta={"lc_source": "summarization"}), chunk("Hi"), *last()],
        said=[("Hi", "answer")],
    ),
    Case(
        "an internal model call of middleware is not shown",
        [chunk("secret", id="s", lane="-", meta={"lc_internal_call": "x"}), chunk("Hi"), *last()],
        said=[("Hi", "answer")],
    ),
    Case(
        "[F16] one result, though three modes report it",
        [*asks_whole(A), *runs(A, "t0")],
        calls=[("A", "add", "{}", "3", False)],
        check=lambda seen: len(seen.of(ev.ToolReturned)) == 1,
    ),
    Case(
        "an error waits for the message that the model reads",
        [
            *asks_whole(A),
            works("t0", given=[A]),
            starts("A"),
            fails("A", "Traceback: secret"),
            shown(result("A", "please retry", status="error")),
            ends("t0"),
        ],
        calls=[("A", "add", "{}", "please retry", True)],
    ),
    Case(
        "an error that no message follows is told without its text",
        [*asks_whole(A), works("t0", given=[A]), starts("A"), fails("A", "Traceback: secret")],
        calls=[("A", "add", "{}", "Error: the tool add failed.", True)],
    ),
    Case(
        "[F15] an unknown tool has only a message",
        [
            *asks_whole(A),
            works("t0", given={"tool_call": A}),
            shown(result("A", "no such tool", status="error")),
            ends("t0"),
        ],
        calls=[("A", "add", "{}", "no such tool", True)],
    ),
    Case(
        "[AG-13] a result of an earlier run is not shown",
        [shown(result("c0", "old")), *asks_whole(A), *runs(A, "t0")],
        calls=[("A", "add", "{}", "3", False)],
    ),
    Case(
        "[AG-18] a message without a name, on resumption, for a call of the run before",
        [shown(result("c0", "no", status="error", name=None)), chunk("ok"), *last()],
        said=[("ok", "answer")],
        calls=[("c0", "unknown", "", "no", True)],
        resumed=True,
    ),
    Case(
        "[AG-19] lists of text blocks are one text, other lists are JSON",
        [
            *asks_whole(A, B),
            *runs(A, "t0", returns=[{"type": "text", "text": "a"}, "b"]),  # type: ignore[arg-type]
            *runs(B, "t1", returns=[{"type": "image", "url": "u"}]),  # type: ignore[arg-type]
        ],
        calls=[("A", "add", "{}", "ab", False), ("B", "add", "{}", '[{"type": "image", "url": "u"}]', False)],
    ),
    Case(
        "[AG-21] a Command with several ToolMessages",
        [
            *asks_whole(A),
            works("t0", given=[A]),
            starts("A"),
            finishes("A", Command(update={"messages": [result("A", "one"), result("extra", "two", name="second")]})),
            shown(result("A", "one")),
            ends("t0"),
        ],
        calls=[("A", "add", "{}", "one", False), ("extra", "second", "", "two", False)],
    ),
    Case(
        "a node that runs several calls reports each as it ends",
        [
            *asks_whole(A, B),
            works("t0", given={"messages": [AIMessage("", tool_calls=[A, B])]}),
            starts("A"),
            starts("B"),
            finishes("B", result("B", "b")),
            finishes("A", result("A", "a")),
            updates(messages=[result("A", "a"), result("B", "b")]),
            ends("t0"),
        ],
        calls=[("A", "add", "{}", "a", False), ("B", "add", "{}", "b", False)],
        check=lambda seen: [event.content for event in seen.of(ev.ToolReturned)] == ["b", "a"],
    ),
    Case(
        "a tool that the graph's own code calls",
        [
            works("t0", name="node", given={}),
            starts("uuid", name="search", q="é"),
            finishes("uuid", {"hits": [1]}),
            ends("t0", name="node"),
        ],
        calls=[("uuid", "search", '{"q": "é"}', '{"hits": [1]}', False)],
    ),
    Case(
        "output of a tool that is no event of ours",
        [*asks_whole(A), *runs(A, "t0", emits("A", {"tok": 1}), emits("A", "two"))],
        calls=[("A", "add", "{}", "3", False)],
        check=lambda seen: seen.call("A").output == [{"tok": 1}, "two"],
    ),
    Case(
        "a sub-agent is a lane of its call",
        in_lane(chunk("sub", *LANE, id="s1", lane="A"), *last(*LANE, id="s1")),
        calls=[("A", "task", "{}", "3", False)],
        lanes={"A": ("komodor", "", "A")},
        texts={"A": "sub"},
    ),
    Case(
        "a result that a sub-agent hands to the graph above is told where it belongs",
        in_lane(
            works("i", *LANE, given=[tool_call("I", "hand_over")]),
            starts("I", *LANE, name="hand_over"),
            finishes("I", result("I", "handed over"), *LANE),
        ),
        calls=[("A", "task", "{}", "3", False)],
        lanes={"A": ("komodor", "", "A")},
        check=lambda seen: seen.call("I", "A").result == "handed over",
    ),
    Case(
        "a sub-agent without a name is called what the call asks for",
        in_lane(chunk("sub", *LANE, id="s1", lane="A"), *last(*LANE, id="s1"), name=None),
        calls=[("A", "task", "{}", "3", False)],
        lanes={"A": ("komodor", "", "A")},
        texts={"A": "sub"},
    ),
    Case(
        "a sub-agent without any name is called like its tool",
        in_lane(chunk("sub", *LANE, id="s1", lane="A"), *last(*LANE, id="s1"), name=None, call=A),
        calls=[("A", "add", "{}", "3", False)],
        lanes={"A": ("add", "", "A")},
        texts={"A": "sub"},
    ),
    Case(
        "[F6] a model inside a tool body",
        [
            *asks_whole(A),
            *runs(
                A,
                "t0",
                chunk("inner", id="s1", at="tools:t0", lane="A"),
                chunk(id="s1", at="tools:t0", chunk_position="last"),
            ),
        ],
        calls=[("A", "add", "{}", "3", False)],
        lanes={"A": ("add", "", "A")},
        texts={"A": "inner"},
    ),
    Case(
        "[F18] a namespace that no task announced is an agent that nobody announced",
        [
            chunk("lost", "tools:unknown", id="s1", lane="tools:unknown"),
            *last("tools:unknown", id="s1"),
            chunk("Hi"),
            *last(),
        ],
        said=[("Hi", "answer")],
        lanes={"tools:unknown": ("unattributed", "", None)},
        texts={"tools:unknown": "lost"},
        repairs={"open:MessageStarted": 1, "close:RunFinished": 1},
    ),
    Case(
        "events of a tool go into lanes of its call",
        [*asks_whole(A), *runs(A, "t0", *[emits("A", event) for event in REMOTE])],
        calls=[("A", "add", "{}", "3", False)],
        lanes={"A/komodor": ("komodor", "", "A")},
        texts={"A/komodor": "remote"},
    ),
    Case(
        "lanes of the same name in parallel calls do not collide",
        [
            *asks_whole(A, B),
            works("t0", given=[A]),
            works("t1", given=[B]),
            starts("A"),
            starts("B"),
            *[emits(id, event) for event in REMOTE for id in ("A", "B")],
            *runs(A, "t0")[3:],
            *runs(B, "t1")[3:],
        ],
        calls=[("A", "add", "{}", "3", False), ("B", "add", "{}", "3", False)],
        lanes={"A/komodor": ("komodor", "", "A"), "B/komodor": ("komodor", "", "B")},
        texts={"A/komodor": "remote", "B/komodor": "remote"},
    ),
    Case(
        "lanes inside lanes",
        [
            *asks_whole(A),
            *runs(
                A,
                "t0",
                emits("A", REMOTE[0]),
                emits("A", ev.AgentStarted(agent="komodor/deep", name="deep", parent="komodor")),
                emits("A", ev.TextDelta(agent="komodor/deep", message_id="m", delta="x")),
                emits("A", ev.MessageFinished(agent="komodor/deep", message_id="m")),
                emits("A", ev.AgentFinished(agent="komodor/deep")),
                emits("A", REMOTE[-1]),
            ),
        ],
        calls=[("A", "add", "{}", "3", False)],
        lanes={"A/komodor": ("komodor", "", "A"), "A/komodor/deep": ("deep", "A/komodor", None)},
        texts={"A/komodor/deep": "x"},
        repairs={"open:TextDelta": 1},
    ),
    Case(
        "a lane that its tool forgot to end ends with the call",
        [*asks_whole(A), *runs(A, "t0", *[emits("A", event) for event in REMOTE[:-1]])],
        calls=[("A", "add", "{}", "3", False)],
        lanes={"A/komodor": ("komodor", "", "A")},
        texts={"A/komodor": "remote"},
        check=lambda seen: seen.agents["A/komodor"].end == "success",
    ),
    Case(
        "a tool cannot end the run that called it",
        [*asks_whole(A), *runs(A, "t0", emits("A", ev.RunFailed(code="x", message="y")), emits("A", ev.RunFinished()))],
        calls=[("A", "add", "{}", "3", False)],
    ),
    Case(
        "custom data, and an event of a node",
        [
            part("custom", {"step": 1}),
            part("custom", ev.Custom(name="mine", value=2)),
            part("custom", ev.RunFinished()),
        ],
        check=lambda seen: (
            [(event.name, event.value) for event in seen.of(ev.Custom)] == [("langgraph", {"step": 1}), ("mine", 2)]
        ),
    ),
    Case(
        "[F12] a question is asked once, though it is reported in every namespace",
        [
            *asks_whole(SUB),
            works("t0", given=[SUB]),
            starts("A", name="task"),
            works("x", *LANE, given=[tool_call("I", "danger")], agent="komodor"),
            starts("I", *LANE, name="danger"),
            part("updates", {"__interrupt__": (Interrupt("sure?", id="i1"),)}, *LANE),
            ends("x", *LANE, interrupts=[{"id": "i1", "value": "sure?"}]),
            part("updates", {"__interrupt__": (Interrupt("sure?", id="i1"),)}),
            ends("t0", interrupts=[{"id": "i1", "value": "sure?"}]),
        ],
        calls=[("A", "task", "{}", None, False)],
        lanes={"A": ("komodor", "", "A")},
        terminal="interrupted",
        check=lambda seen: (
            [(event.message, event.metadata, event.call_id is not None) for event in seen.of(ev.Interrupted)]
            == [("sure?", {"value": "sure?"}, True)]
        ),
    ),
    Case(
        "a question that no task reports is asked at the end",
        [
            part(
                "updates",
                {"__interrupt__": (Interrupt({"message": "m", "reason": "confirmation", "schema": {}}, id="i1"),)},
            )
        ],
        terminal="interrupted",
        check=lambda seen: (
            [(event.reason, event.message, event.schema) for event in seen.of(ev.Interrupted)]
            == [("confirmation", "m", {})]
        ),
    ),
    Case(
        "a node's result from a cache is shown, for no other mode tells it",
        [part("updates", {"node": {"messages": [AIMessage("cached", id="m7")]}, "__metadata__": {"cached": True}})],
        said=[("cached", "answer")],
    ),
    Case(
        "what a checkpoint restores on resumption was told by the run before",
        [
            part("updates", {"tools": {"messages": [result("A", "old")]}, "__metadata__": {"cached": True}}),
            chunk("Hi"),
            *last(),
        ],
        said=[("Hi", "answer")],
        resumed=True,
    ),
    Case(
        "a message that broke off though the stream ended is a failure",
        [chunk("half"), part("updates", {"model": None})],
        said=[("half", "undetermined")],
        terminal="model_truncated",
    ),
    Case(
        "a part of a kind that is not known",
        [part("values", {"messages": []}), chunk("Hi"), *last()],
        said=[("Hi", "answer")],
    ),
]
