"""Values that are legal in a user's graph and are no JSON: they are shown as far as they can be, and end no run."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.tools import tool
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from anabranch import current
from anabranch import events as ev
from anabranch.grammar import Grammar
from anabranch.sources._foreign import json_text, label, plain, prose
from anabranch.sources.langgraph import LangGraphTranslator

from .parts import Part, part
from .seen import START as STARTED
from .seen import run


class Hostile:
    """Answers nothing, as an array does that is asked for its truth."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("no")

    __bool__ = __eq__ = __ne__ = __str__ = __repr__ = __len__ = __iter__ = __getattr__ = __call__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class BadDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")


def cycle() -> Any:
    inner: dict[Any, Any] = {}
    inner["again"] = [inner]
    return inner


def deep(levels: int = 3000) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


ODD = [
    {(1, 2): 3},
    cycle(),
    deep(),
    Hostile(),
    SimpleNamespace(type=Hostile(), id=Hostile(), tool_call_id=Hostile(), value=Hostile(), status=Hostile()),
    BadDict(a=1),
    datetime(2026, 1, 1, tzinfo=UTC),
    {1, 2},
    b"\xff",
    float("nan"),
    10**5000,
    "\ud83d",
    {None: 1, 2: 3, True: 4, "\ud83d": "\ud83d"},
    [5, None, "x", {"description": 5}],
]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(range(len(ODD))).map(lambda n: ODD[n]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.sampled_from(["text", "thinking", "type", "name", "id", "args", "content"]), inner, max_size=3
        )
        | st.dictionaries(st.text(max_size=2) | st.integers() | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(values)
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_has_a_text_that_is_json(value: Any) -> None:
    json.loads(json_text(value), parse_constant=pytest.fail)
    json.loads(json_text(plain(value)))
    assert isinstance(label(value), str) and isinstance(prose(value), str)


def test_what_is_json_stays_as_it_is() -> None:
    value = {"a": [1, 2.5, "é", None, True], "b": {"1": {}}}
    assert plain(value) == value and json.loads(json_text(value)) == value


def test_what_is_not_json_is_named_by_its_type_only() -> None:
    assert (
        json_text({(1, 2): {3}, "at": datetime(2026, 1, 1, tzinfo=UTC)}) == '{"<tuple>": "<set>", "at": "<datetime>"}'
    )
    assert json_text(cycle()) == '{"again": ["<dict>"]}'


names = st.sampled_from(["add", "write_todos"])
arguments = st.text() | st.builds(lambda status: json_text({"todos": [{"status": status}]}), values)


def raw(kind: type[Any], **fields: Any) -> Any:
    """A message that nobody has validated, as code leaves it that changes one."""
    return kind.model_construct(**fields)


@st.composite
def parts(draw: st.DrawFn) -> Part:
    v = lambda: draw(values)  # noqa: E731
    calls = [{"id": v(), "name": v(), "args": v()} for _ in range(draw(st.integers(0, 2)))]
    chunk = {"id": draw(st.sampled_from(["c1", None, ""])), "name": draw(names), "args": draw(arguments), "index": 0}
    metadata = {"finish_reason": v(), "model_name": v(), "stop_reason": v()}
    usage = {"input_tokens": v(), "output_tokens": v(), "output_token_details": v(), "input_token_details": v()}
    known: dict[str, Any] = {"id": "m1", "content": draw(st.just("x") | st.lists(values, max_size=3))}
    known |= {"additional_kwargs": {"reasoning_content": v()}, "response_metadata": metadata, "usage_metadata": usage}
    written = raw(AIMessage, **known, tool_calls=calls, invalid_tool_calls=v())
    streamed = raw(
        AIMessageChunk, **known, tool_call_chunks=[chunk], chunk_position=draw(st.sampled_from([None, "last"]))
    )
    returned = raw(ToolMessage, id="t", tool_call_id="c1", content=v(), name=v(), status=v(), artifact=v())
    said = [written, streamed, returned][draw(st.integers(0, 2))]
    meta = {"langgraph_checkpoint_ns": "n:1", "lc_agent_name": v(), "ls_model_name": v(), "lc_source": v()}
    output = [returned, Command(update={"messages": [returned]}), v()][draw(st.integers(0, 2))]
    asked = SimpleNamespace(id="i1", value=draw(values | st.builds(lambda x: {"action_requests": x}, values)))
    begun = {"id": "t1", "name": "n", "input": draw(values | st.just({"messages": [written]})), "metadata": v()}
    todos = draw(values | st.lists(st.dictionaries(st.sampled_from(["content", "status"]), values), max_size=2))
    every: list[Callable[[], Part]] = [
        *[lambda: part("messages", (said, meta))] * 4,
        lambda: part("tools", {"event": "tool-started", "tool_call_id": v(), "tool_name": v(), "input": v()}),
        lambda: part("tools", {"event": "tool-output-delta", "tool_call_id": "c1", "delta": v()}),
        lambda: part("tools", {"event": "tool-finished", "tool_call_id": "c1", "output": output}),
        lambda: part("custom", v()),
        lambda: part("tasks", begun),
        lambda: part("tasks", {"id": "t1", "name": "n", "error": None, "interrupts": [asked], "result": v()}),
        lambda: part("tasks", {"id": "t1", "name": "n", "error": ValueError(v()), "interrupts": [], "result": {}}),
        lambda: part("updates", {"n": {"messages": v(), "todos": todos}}),
        lambda: part("updates", {"n": v(), "__metadata__": draw(st.just({"cached": True}) | values)}),
        lambda: part("updates", {"__interrupt__": (asked,)}),
    ]
    return every[draw(st.integers(0, len(every) - 1))]()


@given(st.lists(parts(), max_size=4), st.booleans())
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_value_in_a_part_of_any_kind_ends_a_run(items: list[Part], resumed: bool) -> None:
    translator, grammar = LangGraphTranslator(resumed=resumed), Grammar()
    out = grammar.feed(STARTED)
    for item in items:
        for event in translator.feed(item):
            out += grammar.feed(event)
            assert not isinstance(out[-1], ev.RunFailed), (event, out[-1])
    for event in translator.close(None):
        out += grammar.feed(event)
    failed = out[-1].code if isinstance(out[-1], ev.RunFailed) else None
    assert failed in (None, "model_truncated")


def graph(node: Any, state: Any = MessagesState, **options: Any) -> Any:
    builder = StateGraph(state)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(**options)


@pytest.mark.parametrize("value", [{(1, 2): 3}, cycle()], ids=["tuple keys", "cycle"])
async def test_a_tool_of_a_node_may_take_and_return_anything(value: Any) -> None:
    @tool
    async def odd(x: Any) -> Any:
        """Return what it got."""
        return x

    async def node(state: MessagesState) -> Any:
        await odd.ainvoke({"x": value})
        return {"messages": [AIMessage("ok")]}

    seen = await run(graph(node))
    assert seen.text() == "ok" and isinstance(seen.terminal, ev.RunFinished)
    assert [json.loads(call.result or "") for call in seen.calls.values()] == [plain(value)]


async def test_a_channel_called_todos_need_not_be_a_plan() -> None:
    class State(MessagesState):
        todos: Any

    seen = await run(graph(lambda state: {"todos": 5, "messages": [AIMessage("ok")]}, State))
    assert seen.text() == "ok" and isinstance(seen.terminal, ev.RunFinished) and not seen.of(ev.StateSnapshot)


@pytest.mark.parametrize(
    "value", [{"action_requests": ["x"]}, {"action_requests": 5}, {"message": 5, "schema": 9}, [1]]
)
async def test_a_question_may_have_any_shape(value: Any) -> None:
    seen = await run(graph(lambda state: interrupt(value), checkpointer=InMemorySaver()))
    assert isinstance(seen.terminal, ev.RunFinished) and seen.terminal.outcome == "interrupted"
    assert [event.metadata for event in seen.of(ev.Interrupted)] == [{"value": value}]


async def test_a_reason_that_is_no_text_and_calls_without_ids_are_shown() -> None:
    calls: Any = [{"id": None, "name": "a", "args": {}}, {"id": "", "name": "b", "args": {"at": datetime.now(UTC)}}]
    message = AIMessage("ok", tool_calls=calls, response_metadata={"finish_reason": 5, "model_name": 7})
    seen = await run(graph(lambda state: {"messages": [message]}))
    assert isinstance(seen.terminal, ev.RunFinished)
    assert [(call.name, call.arguments) for call in seen.calls.values()] == [("a", "{}"), ("b", '{"at": "<datetime>"}')]
    assert [event.finish_reason for event in seen.of(ev.MessageFinished)] == ["5"]


async def test_a_scope_in_a_thread_without_the_nodes_context_says_what_to_do() -> None:
    import threading

    caught: list[str] = []

    def node(state: MessagesState) -> Any:
        scope = current()

        def work() -> None:
            try:
                scope.emit(ev.Custom(name="mine"))
            except LookupError as error:
                caught.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(5)
        return {"messages": [AIMessage("ok")]}

    seen = await run(graph(node))
    assert "copy_context" in caught[0] and seen.text() == "ok"
