"""Model turns: the chunks of one model call become a message, reasoning and tool calls. Pure.

A turn is one message id. Its text is one message, opened by its first character and closed when the model said that it
ended; only then it is known whether the text was the answer or narration before tool calls. Tool calls of a turn carry
its message id, also when there is no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...events import (
    Event,
    MessageFinished,
    MessageReset,
    MessageStarted,
    Phase,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    TextDelta,
    ToolArgsDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolReturned,
    Usage,
    UsageReported,
)
from .._dialect import Router
from .._foreign import amount, called, entry, json_text, label, prose, thought
from . import _plan
from ._lanes import Call, Lane

_SUPERSEDED = "Error: the model was asked again, and this call was never made."


class Turn:
    """One model call, as far as it has been streamed."""

    __slots__ = (
        "agent",
        "calls",
        "ended",
        "finish",
        "hidden",
        "id",
        "lane",
        "model",
        "reasoning",
        "router",
        "said",
        "usage",
    )

    def __init__(self, id: str, lane: Lane, model: str) -> None:
        self.id, self.lane, self.agent, self.model = id, lane, lane.path, model
        self.hidden = False
        self.said = False  # its message is open, or was
        self.ended = False
        self.finish: str | None = None
        self.reasoning = 0  # number of the reasoning that is open; negative: of the last that is closed
        self.router = Router()
        self.calls: list[Call] = []
        self.usage: Usage | None = None

    @property
    def cut(self) -> bool:
        """Whether the turn showed something and never said that it ended."""
        return not self.ended and self.finish is None and bool(self.said or self.reasoning or self.calls)

    def close(self, phase: Phase, out: list[Event]) -> None:
        """Nothing more comes of the turn."""
        self.ended = True
        if self.reasoning > 0:
            self.stop_thinking(out)
        if self.said:
            out.append(MessageFinished(agent=self.agent, message_id=self.id, finish_reason=self.finish, phase=phase))
        for call in self.calls:
            if not call.closed:
                call.closed = True
                out.append(ToolCallFinished(agent=self.agent, call_id=call.id))

    def stop_thinking(self, out: list[Event]) -> None:
        """The model has begun to say or do something."""
        out.append(ReasoningFinished(agent=self.agent, reasoning_id=_reasoning_id(self)))
        self.reasoning = -self.reasoning


class Turns:
    """All model turns of one run."""

    def __init__(self) -> None:
        self.by_id: dict[str, Turn] = {}
        self._by_task: dict[str, list[Turn]] = {}

    def begin(self, message: Any, meta: dict[str, Any], lane: Lane, task_id: str) -> Turn:
        """The turn that ``message`` opens."""
        turn = self.by_id[message.id] = Turn(message.id, lane, label(meta.get("ls_model_name")))
        self._by_task.setdefault(task_id, []).append(turn)
        lane.turns.append(turn)
        return turn

    def hide(self, message: Any, lane: Lane) -> None:
        """A model call that middleware makes for itself, as for a summary: nothing of ``message`` is shown."""
        turn = self.by_id[message.id] = Turn(message.id, lane, "")
        turn.hidden = True

    def tell(self, lane: Lane, text: str, out: list[Event]) -> None:
        """A text that a node wrote as the agent's, without a message object."""
        id = f"written-{len(self.by_id)}"
        turn = self.by_id[id] = Turn(id, lane, "")
        self._say(turn, text, out)
        self.end(turn, out)

    def read(self, turn: Turn, message: Any, out: list[Event]) -> None:
        """A chunk of the turn's message, or the whole of it."""
        extra, content = message.additional_kwargs, message.content
        if extra and (reasoning := prose(extra.get("reasoning_content"))):
            self._think(turn, reasoning, out)
        if content:
            if isinstance(content, str):
                self._say(turn, content, out)
            else:
                self._read_blocks(turn, content, out)
        if message.type == "ai":
            self._read_whole(turn, message, out)
            return
        for chunk in message.tool_call_chunks:
            self._call(turn, chunk, out)
        if message.usage_metadata:
            turn.usage = _sum(turn, message.usage_metadata)
        if message.response_metadata:
            self._note(turn, message.response_metadata)
        if message.chunk_position == "last" or (turn.ended and turn.usage):
            self.end(turn, out)

    def _read_blocks(self, turn: Turn, blocks: list[Any], out: list[Event]) -> None:
        for block in blocks:
            if isinstance(block, str):
                self._say(turn, block, out)
            elif reasoning := thought(block):
                self._think(turn, reasoning, out)
            elif text := prose(block):
                self._say(turn, text, out)

    def _read_whole(self, turn: Turn, message: Any, out: list[Event]) -> None:
        """The rest of a message that was not streamed."""
        for n, call in enumerate([*called(message.tool_calls), *called(message.invalid_tool_calls)]):
            args = call["args"]
            text = args if isinstance(args, str) else json_text({} if args is None else args)
            self._call(turn, {**call, "index": n, "args": text}, out)
        self._note(turn, message.response_metadata)
        if message.usage_metadata:
            turn.usage = _sum(turn, message.usage_metadata)
        self.end(turn, out)

    def _note(self, turn: Turn, metadata: dict[str, Any]) -> None:
        turn.finish = label(metadata.get("finish_reason")) or label(metadata.get("stop_reason")) or turn.finish
        turn.model = label(metadata.get("model_name")) or turn.model

    def _say(self, turn: Turn, text: str, out: list[Event]) -> None:
        if turn.reasoning > 0:
            turn.stop_thinking(out)
        if not turn.said:
            turn.said = True
            out.append(MessageStarted(agent=turn.agent, message_id=turn.id))
        out.append(TextDelta(agent=turn.agent, message_id=turn.id, delta=text))

    def _think(self, turn: Turn, thought: str, out: list[Event]) -> None:
        if turn.reasoning <= 0:
            turn.reasoning = 1 - turn.reasoning
            out.append(ReasoningStarted(agent=turn.agent, reasoning_id=_reasoning_id(turn)))
        out.append(ReasoningDelta(agent=turn.agent, reasoning_id=_reasoning_id(turn), delta=thought))

    def _call(self, turn: Turn, chunk: Any, out: list[Event]) -> None:
        call_id, name, args = chunk["id"], chunk["name"], chunk["args"]
        position, begins, _ = turn.router.route(chunk["index"], call_id, name)
        lane = turn.lane
        if begins:
            if turn.reasoning > 0:
                turn.stop_thinking(out)
            call = lane.begin_call(call_id or f"{turn.id}:{position}", name or "unknown")
            call.asked = True
            turn.calls.append(call)
            out.append(ToolCallStarted(agent=turn.agent, call_id=call.id, name=call.name, message_id=turn.id))
        else:
            call = turn.calls[position]
            if call_id and lane.calls.get(call_id) is not call:
                lane.calls[call_id] = call  # a late or rewritten id
        if args:
            out.append(ToolArgsDelta(agent=turn.agent, call_id=call.id, delta=args))
            if call.name == _plan.TOOL:
                out.extend(lane.plan.write(call.id, args))

    def end(self, turn: Turn, out: list[Event]) -> None:
        """The model said that the turn is complete."""
        if not turn.ended:
            turn.close("narration" if turn.calls else "answer", out)
        if turn.usage:
            usage, turn.usage = turn.usage, None
            out.append(UsageReported(agent=turn.agent, usage=usage))

    def task_ended(self, task_id: str, out: list[Event]) -> None:
        """The node that called the models ended well: a turn that broke off in it was replaced by a later one."""
        turns = self._by_task.pop(task_id, [])
        for position, turn in enumerate(turns):
            if turn.ended:
                continue
            later = next((other for other in turns[position + 1 :] if other.ended), None)
            if not turn.cut:
                self.end(turn, out)
            elif later is not None:
                self._reset(turn, later, out)

    def _reset(self, turn: Turn, later: Turn, out: list[Event]) -> None:
        turn.close("narration", out)
        if turn.said:
            reason = "the model was asked again"
            reset = MessageReset(agent=turn.agent, message_id=turn.id, superseded_by=later.id, reason=reason)
            out.append(reset)
        for call in turn.calls:
            call.returned = True
            result = ToolReturned(
                agent=turn.agent, call_id=call.id, content=_SUPERSEDED, is_error=True, error=_SUPERSEDED
            )
            out.append(result)
            out.extend(turn.lane.plan.revert(call.id))

    def is_cut(self) -> bool:
        """Whether any turn that was shown broke off."""
        return any(turn.cut for turn in self.by_id.values())


def is_internal(meta: dict[str, Any]) -> bool:
    """Whether a model call with this metadata is middleware's own."""
    return label(meta.get("lc_source")) == "summarization" or "lc_internal_call" in meta


def written(change: dict[str, Any]) -> Iterator[str]:
    """What a node wrote as the agent's text in LangChain's short forms, which no other stream mode reports."""
    messages = change.get("messages")
    for item in messages if isinstance(messages, list) else [messages]:
        role, text = entry(item, "role"), entry(item, "content")
        if isinstance(item, tuple) and len(item) == 2:
            role, text = item
        if isinstance(text, str) and text and label(role) in ("assistant", "ai"):
            yield text


def _reasoning_id(turn: Turn) -> str:
    return f"{turn.id}:reasoning-{turn.reasoning}"


def _sum(turn: Turn, metadata: dict[str, Any]) -> Usage:
    """Providers may report a turn's tokens in several chunks, which add up."""
    known = turn.usage or Usage()
    return Usage(
        model=turn.model,
        input=known.input + amount(metadata.get("input_tokens")),
        output=known.output + amount(metadata.get("output_tokens")),
        reasoning=known.reasoning + amount(entry(metadata.get("output_token_details"), "reasoning")),
        cached=known.cached + amount(entry(metadata.get("input_token_details"), "cache_read")),
    )
