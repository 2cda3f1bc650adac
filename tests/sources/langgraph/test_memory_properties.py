"""Whatever happens to the runs of a thread, its next run works: the model is never given what a provider refuses."""

from __future__ import annotations

import asyncio
import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from deepagents import create_deep_agent
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from msgspec.structs import replace

from anabranch.errors import Conflict, SourceError
from anabranch.events import Part
from anabranch.identity import LOCAL
from anabranch.request import Message, Resume, RunRequest, ToolCall
from anabranch.runs.runs import Runs
from anabranch.runs.threads import conversation
from anabranch.sources.langgraph import LangGraphSource

from .graphs import Turn, asks_for, model, says
from .strict import Strict, Thread

# --- any conversation, without a memory ------------------------------------------------------------------------------

IDS = st.sampled_from(["", "c1", "c1#2", "c2", "run-1:7", "x" * 41, "call_é", "\ud83d"])
TEXTS = st.sampled_from(["", " \n", "hello", "half of it\ud83d", "🚀"])
CALLS = st.builds(
    ToolCall,
    id=IDS,
    name=st.sampled_from(["ask", "", "a.b c", "n" * 70]),
    arguments=st.sampled_from(["", "{}", '{"q": 1', "[1]", "null", '{"a": NaN}', '{"q": "\\ud83d"}', "[" * 2000]),
    origin_id=IDS,
)
PARTS = st.lists(
    st.sampled_from(
        [
            Part(kind="text", text="from a part"),
            Part(kind="json", data={"a": 1}),
            Part(kind="file", url="https://example.org/a.png", mime_type="image/png"),
        ]
    ),
    max_size=2,
).map(tuple)
MESSAGES = st.lists(
    st.builds(
        Message,
        id=st.sampled_from(["", *"abcdefgh"]),
        role=st.sampled_from(["system", "developer", "user", "assistant", "assistant", "tool", "tool"]),
        content=TEXTS,
        parts=PARTS,
        tool_calls=st.lists(CALLS, max_size=3).map(tuple),
        tool_call_id=st.none() | IDS,
        error=st.none() | TEXTS,
        agent=st.sampled_from(["", "", "", "sub"]),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(messages=MESSAGES, news=st.none() | st.integers(0, 2))
def test_a_model_reads_any_conversation(messages: list[Message], news: int | None) -> None:
    asked = Message(id="question", role="user", content="and now?")
    strict = Strict(turns=list(model(says("fine")).turns))
    request = RunRequest(run_id="r", thread_id="t", messages=(*messages, asked), news=news)

    async def run() -> None:
        async with asyncio.timeout(20):
            async for _ in LangGraphSource(create_agent(strict, [])).open(request):
                pass

    asyncio.run(run())
    [heard] = strict.heard
    assert heard[-1].text == "and now?"
    texts = [m.content or "".join(part.text for part in m.parts) for m in messages if m.role == "user" and not m.agent]
    assert sum(m.type == "human" for m in heard) >= sum(bool(text.strip()) for text in texts) + 1


# --- a thread with a memory ------------------------------------------------------------------------------------------


@tool
async def works(x: int) -> str:
    """Work."""
    return f"worked {x}"


@tool
async def fails(x: int) -> str:
    """Fail."""
    raise ValueError("no")


@tool
async def asks(x: int) -> str:
    """Ask."""
    return f"the answer is {interrupt('sure?')}"


NAMES = ("works", "works", "fails", "asks")


class Chance:
    """What the models, the user and the machine do next."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self._turns = 0

    def of(self, *choices: Any) -> Any:
        return self._data.draw(st.sampled_from(choices))

    def turn(self, _: Any) -> Turn:
        """Text, calls, both; whole or broken off."""
        self._turns += 1
        text = [*says("a ", "few ", "words")] if self.of(True, False) else []
        again = self.of(True, False)  # providers may use an id again
        calls = [
            (f"c{n}" if again else f"c{n}-{self._turns}", self.of(*NAMES), json.dumps({"x": n}))
            for n in range(self.of(0, 0, 1, 2, 3))
        ]
        called = asks_for(*calls) if calls else []
        if not (text or called) or self.of(*[False] * 5, True):
            return [*(text or says("hm")), SourceError("the model broke off", code="model_error")]
        [whole] = model([*text, *called]).turns
        return list(whole)


@pytest.mark.parametrize("make", [create_agent, create_deep_agent], ids=["agent", "deep agent"])
@settings(max_examples=40, deadline=None, phases=[Phase.reuse, Phase.generate])  # to shrink one takes minutes
@given(data=st.data())
def test_a_thread_survives_whatever_happens_to_its_runs(make: Any, data: st.DataObject) -> None:
    asyncio.run(lives(make, Chance(data)))


async def lives(make: Any, chance: Chance) -> None:
    strict, saver = Strict(turns=[], say=chance.turn, repeats=True), InMemorySaver()
    thread = Thread(make(strict, [works, fails, asks], checkpointer=saver))
    thread.durability = chance.of("async", "sync", "exit")
    said: list[str] = []
    kept = copy.deepcopy((saver.storage, saver.writes, saver.blobs))
    for number in range(5):
        if chance.of(*[False] * 4, True):  # a crash: the memory is an older one, the log is not
            saver.storage, saver.writes, saver.blobs = copy.deepcopy(kept)
        if chance.of(True, False):
            kept = copy.deepcopy((saver.storage, saver.writes, saver.blobs))
        stop = chance.of(None, None, 1, 3, 6, 10, 14, 18, 25, 40)
        parts = iter(range(1, 10_000))
        until = None if stop is None else lambda part, parts=parts, stop=stop: next(parts) == stop
        if thread.asked and chance.of(True, False):
            answers = [Resume(interrupt_id=id, status=chance.of("resolved", "cancelled")) for id in thread.asked]
            await thread.answers(*answers[: chance.of(1, 2, 3)], until=until)
            continue
        said.append(f"question {number}")
        before = len(strict.heard)
        await thread.says(said[-1], until=until)
        for heard in strict.heard[before:]:
            assert [message.text for message in heard if message.type == "human"] == said


# --- a thread whose client sends any copy of it ----------------------------------------------------------------------


@pytest.mark.parametrize("memory", [False, True], ids=["without a memory", "with a memory"])
@settings(max_examples=40, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(data=st.data())
def test_a_thread_survives_whatever_its_client_sends(memory: bool, data: st.DataObject) -> None:
    asyncio.run(copies(memory, Chance(data)))


def sent(copy: list[Message], chance: Chance, number: int) -> list[Message]:
    """What a client may make of its copy of a thread."""
    at = chance.of(0, 1, 2, 3, 5, 8)
    match chance.of("all", "nothing", "shortened", "edited", "with a hole", "turned round", "with calls undone"):
        case "nothing":
            return []
        case "shortened":
            return copy[: -at or None]
        case "edited":
            edited = [replace(message, content=f"edit {number}") for message in copy[at : at + 1]]
            return [*copy[:at], *edited, *copy[at + 1 :]]
        case "with a hole":
            return copy[:at] + copy[at + 2 :]
        case "turned round":
            return copy[::-1]
        case "with calls undone":
            return [message for message in copy if message.role != "tool"]
    return copy


async def copies(memory: bool, chance: Chance) -> None:
    strict = Strict(turns=[], say=chance.turn, repeats=True)
    graph = create_agent(strict, [works, fails, asks], checkpointer=InMemorySaver() if memory else None)
    runs, source = Runs(), LangGraphSource(graph)
    for number in range(5):
        turns = await runs.table.turns(LOCAL.id, "t")
        copy = sent(list(conversation(turns)), chance, number)
        copy.append(Message(id=f"u{number}", role="user", content=f"question {number}"))
        before = len(strict.heard)
        request = RunRequest(run_id=f"r{number}", thread_id="t", messages=tuple(copy))
        record = await runs.start(source, request, LOCAL, agent="a")
        left = chance.of(None, None, 1, 4, 9, 16)
        async with asyncio.timeout(20), runs.watch(record) as batches:
            async for batch in batches:
                if left is not None and batch[-1].seq >= left:
                    left = None
                    with suppress(Conflict):
                        await runs.cancel(record.run_id, LOCAL)
        assert not strict.refused, strict.refused
        for heard in strict.heard[before:]:
            said = [message.text for message in heard if message.type == "human"]
            assert said[-1] == f"question {number}" and len(set(said)) == len(said)
    await runs.stop(0)
