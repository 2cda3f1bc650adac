"""A scripted chat model for real graphs, the chunks it says, and tools for it to call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from anabranch import events as ev
from anabranch.scope import Lane
from anabranch.sources.langgraph import scope_of

Item = AIMessageChunk | Exception | asyncio.Event
Turn = list[Item]


def says(*words: str) -> Turn:
    """Text, a chunk a word."""
    return [AIMessageChunk(content=word) for word in words]


def thinks(*words: str) -> Turn:
    """Reasoning, as OpenAI-compatible providers send it."""
    return [AIMessageChunk(content="", additional_kwargs={"reasoning_content": word}) for word in words]


def fragment(index: int | None, id: str | None, name: str | None, args: str) -> dict[str, Any]:
    """One tool call chunk."""
    return {"index": index, "id": id, "name": name, "args": args, "type": "tool_call_chunk"}


def asks_for(*calls: tuple[str, str, str], size: int = 7) -> Turn:
    """Calls ``(id, name, arguments)``: all announced, then their arguments in fragments, one of each call in turn."""
    first = [fragment(n, id, name, "") for n, (id, name, _) in enumerate(calls)]
    rest = [
        fragment(n, None, None, args[at : at + size])
        for at in range(0, max(len(args) for *_, args in calls), size)
        for n, (*_, args) in enumerate(calls)
        if at < len(args)
    ]
    return [AIMessageChunk(content="", tool_call_chunks=[piece]) for piece in first + rest]


def stops(reason: str = "stop", tokens: int = 3) -> Turn:
    """The provider's end: a finish reason, then the usage."""
    usage = {"input_tokens": 10, "output_tokens": tokens, "total_tokens": 10 + tokens}
    return [
        AIMessageChunk(content="", response_metadata={"finish_reason": reason, "model_name": "scripted-1"}),
        AIMessageChunk(content="", usage_metadata=usage),  # type: ignore[arg-type]
    ]


class Scripted(BaseChatModel):
    """Says turn n of its script when the conversation has n answers since the last question. An event is waited for."""

    turns: list[Any]
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Scripted:
        return self

    def _turn(self, messages: list[Any]) -> Turn:
        self.calls += 1
        last = max((n for n, message in enumerate(messages) if message.type == "human"), default=-1)
        answers = sum(message.type == "ai" for message in messages[last + 1 :])
        return self.turns[min(answers, len(self.turns) - 1)]

    async def _astream(self, messages: list[Any], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for item in self._turn(messages):
            if isinstance(item, asyncio.Event):
                await item.wait()
            elif isinstance(item, Exception):
                raise item
            else:
                yield ChatGenerationChunk(message=item.model_copy(deep=True))

    def _stream(self, messages: list[Any], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for item in self._turn(messages):
            if isinstance(item, Exception):
                raise item
            assert isinstance(item, AIMessageChunk)
            yield ChatGenerationChunk(message=item.model_copy(deep=True))

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError


class Whole(Scripted):
    """The same script from a model that cannot stream."""

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:  # pragma: no cover
        raise NotImplementedError
        yield

    def _should_stream(self, **_: Any) -> bool:
        return False

    async def _agenerate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        chunks = [item for item in self._turn(messages) if isinstance(item, AIMessageChunk)]
        merged = sum(chunks[1:], chunks[0])
        assert isinstance(merged, AIMessageChunk)
        message = AIMessage(
            merged.content,
            tool_calls=merged.tool_calls,
            additional_kwargs=merged.additional_kwargs,
            response_metadata=merged.response_metadata,
            usage_metadata=merged.usage_metadata,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def model(*turns: Turn) -> Scripted:
    """A streaming model with this script; a turn without an end of its own gets one."""
    return Scripted(turns=[_ended(turn) for turn in turns])


def _ended(turn: Turn) -> Turn:
    last = turn[-1] if turn else None
    if isinstance(last, Exception) or (isinstance(last, AIMessageChunk) and last.usage_metadata):
        return turn
    called = any(isinstance(item, AIMessageChunk) and item.tool_call_chunks for item in turn)
    return turn + stops("tool_calls" if called else "stop")


TOKENS = ("one ", "🚀", "\n\n", "two ", "two ", " ")
"""What a remote agent says: blanks, lines, and the same token twice."""


async def stream_into(lane: Lane, *tokens: str) -> str:
    """What a tool does that streams another agent: each token as it comes, in its own coroutine."""
    lane.emit(ev.MessageStarted(agent=ev.ROOT, message_id="m", phase="answer"))
    for token in tokens:
        lane.emit(ev.TextDelta(message_id="m", delta=token))
        await asyncio.sleep(0)  # noqa: TID251 - lets the sibling's tokens in between
    lane.emit(ev.MessageFinished(message_id="m", phase="answer"))
    lane.finish()
    return "".join(tokens)


@tool
async def ask(agent: str, runtime: ToolRuntime) -> str:
    """Ask a remote agent."""
    return await stream_into(scope_of(runtime).lane(agent), *TOKENS)


@tool
async def add(a: int, b: int) -> str:
    """Add."""
    return str(a + b)


@tool
async def explode(why: str) -> str:
    """Fail."""
    raise ValueError(f"secret {why}")


def text_of(part: Any) -> Any:
    """What a part of a model's message says."""
    return part["data"][0].content if part["type"] == "messages" else None


def two_asks(name: str = "ask") -> Turn:
    """Parallel calls of one tool, for komodor (``c1``) and for argocd (``c2``)."""
    return asks_for(("c1", name, '{"agent": "komodor"}'), ("c2", name, '{"agent": "argocd"}'))


def graph_of_tool(*tools: Any, script: Any = None, **options: Any) -> Any:
    """An agent that calls its tool once and then says what came of it."""
    script = script or (asks_for(("c1", tools[0].name, "{}")), says("done"))
    return create_agent(model(*script), list(tools), **options)


def sub_agent(name: str, *script: Turn, tools: Sequence[Any] = ()) -> dict[str, Any]:
    """A sub-agent of deepagents with a script."""
    return {"name": name, "description": name, "system_prompt": name, "tools": list(tools), "model": model(*script)}


def deep(*subs: Any, script: Sequence[Turn], **options: Any) -> Any:
    """A supervisor of deepagents with a script."""
    return create_deep_agent(model(*script), subagents=list(subs), name="supervisor", **options)


def to_both() -> Turn:
    """The calls that give a task to komodor (``c1``) and to argocd (``c2``)."""
    return asks_for(
        *(
            (id, "task", f'{{"description": "x", "subagent_type": "{name}"}}')
            for id, name in (("c1", "komodor"), ("c2", "argocd"))
        )
    )
