"""What a reader of a run's public events knows in the end, by local ids, and how a graph's run becomes it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from referee import Referee

from anabranch import events as ev
from anabranch.grammar import Grammar
from anabranch.request import Message, Resume, RunRequest
from anabranch.sources._tape import dump_error
from anabranch.sources.langgraph import LangGraphSource, tape
from anabranch.tapes.redact import written

START = ev.RunStarted(run_id="run-1", thread_id="thread-1")


@dataclass
class Agent:
    """One sub-agent: its name, the local ids of its caller and of the call, and how it ended."""

    name: str
    parent: str
    call: str | None
    end: str | None = None


@dataclass
class Call:
    """One tool call. ``turn`` is the public id of its model turn's message."""

    name: str
    turn: str
    arguments: str = ""
    closed: bool = False
    result: str | None = None
    is_error: bool = False
    output: list[Any] = field(default_factory=list)


class Seen:
    """Public events, read the way a client reads them. ``calls`` and ``agents`` are keyed by local ids."""

    def __init__(self, events: Iterable[ev.Event], repairs: Counter[str]) -> None:
        self.events = list(events)
        self.repairs = dict(repairs)
        self.agents: dict[str, Agent] = {}
        self.calls: dict[tuple[str, str], Call] = {}
        self.messages: dict[str, list[str]] = {}  # public id -> [agent, text, phase]
        self.reasoning: dict[str, list[str]] = {}
        self._local = {ev.ROOT: ev.ROOT}
        self._calls: dict[str, Call] = {}
        self._call_ids: dict[str, str] = {}
        self.terminal: ev.RunFinished | ev.RunFailed | None = None
        judge = Referee()
        judge.see(self.events)
        judge.over()
        for event in self.events:
            self._read(event)

    def of(self, kind: type[Any]) -> list[Any]:
        """All events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    def text(self, agent: str = ev.ROOT) -> str:
        """Everything the agent said."""
        return "".join(text for owner, text, _ in self.messages.values() if owner == agent)

    def said(self, agent: str = ev.ROOT) -> list[tuple[str, str]]:
        """``(text, phase)`` of the agent's messages."""
        return [(text, phase) for owner, text, phase in self.messages.values() if owner == agent]

    def thought(self, agent: str = ev.ROOT) -> list[str]:
        """The text of each reasoning of the agent."""
        return [text for owner, text in self.reasoning.values() if owner == agent]

    def call(self, call_id: str, agent: str = ev.ROOT) -> Call:
        """The agent's call with this local id."""
        return self.calls[agent, call_id]

    def _read(self, event: Any) -> None:
        agent = self._local.get(event.agent, "?")
        match event:
            case ev.MessageStarted():
                self.messages[event.message_id] = [agent, "", event.phase]
            case ev.TextDelta():
                self.messages[event.message_id][1] += event.delta
            case ev.MessageFinished():
                self.messages[event.message_id][2] = event.phase
            case ev.ReasoningStarted():
                self.reasoning[event.reasoning_id] = [agent, ""]
            case ev.ReasoningDelta():
                self.reasoning[event.reasoning_id][1] += event.delta
            case ev.RunFinished() | ev.RunFailed():
                self.terminal = event
            case ev.AgentStarted() | ev.AgentFinished() | ev.AgentFailed():
                self._read_agent(event, agent)
            case _ if hasattr(event, "call_id"):
                self._read_call(event, agent)

    def _read_agent(self, event: Any, agent: str) -> None:
        if isinstance(event, ev.AgentStarted):
            self._local[event.agent] = event.origin_id
            call = self._call_ids.get(event.call_id or "")
            self.agents[event.origin_id] = Agent(event.name, self._local[event.parent], call)
        else:
            self.agents[agent].end = event.code if isinstance(event, ev.AgentFailed) else event.outcome

    def _read_call(self, event: Any, agent: str) -> None:
        if isinstance(event, ev.ToolCallStarted):
            call = Call(event.name, event.message_id)
            self.calls[agent, event.origin_id] = self._calls[event.call_id] = call
            self._call_ids[event.call_id] = event.origin_id
            return
        call = self._calls.get(event.call_id, Call("", ""))  # an interrupt may name no call
        match event:
            case ev.ToolArgsDelta():
                call.arguments += event.delta
            case ev.ToolCallFinished():
                call.closed = True
            case ev.ToolOutputDelta():
                call.output.append(event.content)
            case ev.ToolReturned():
                call.result, call.is_error = event.content, event.is_error


def translated(translator: Any, parts: Iterable[Any], error: BaseException | None = None) -> Seen:
    """``parts`` through ``translator`` and the grammar, then the end. A recording of them gives the same events."""
    parts, again = list(parts), copy.deepcopy(translator)
    recorded = [read_again(tape.dump(part)) for part in parts], error and read_again(dump_error(error))
    seen = _lawful(translator, parts, error)
    loader = tape.loader()
    loaded = [loader.item(part) for part in recorded[0]], recorded[1] and loader.error(recorded[1])
    assert _lawful(again, *loaded).events == seen.events
    return seen


def read_again(value: Any) -> Any:
    """A JSON value that was written into a file."""
    return json.loads(written(value))


def _lawful(translator: Any, parts: Iterable[Any], error: BaseException | None) -> Seen:
    grammar = Grammar()
    out = grammar.feed(START)
    for part in parts:
        for event in translator.feed(part):
            out += grammar.feed(event)
    for event in translator.close(error):
        out += grammar.feed(event)
    return Seen(out + grammar.close(error), grammar.repairs)


def asks(text: str = "go", *, resume: Iterable[Resume] = (), thread: str = "thread-1") -> RunRequest:
    """A request: a question, or the answers to some."""
    question = () if resume else (Message(id="u1", role="user", content=text),)
    return RunRequest(run_id="run-1", thread_id=thread, messages=question, resume=tuple(resume))


async def run(graph: Any, request: RunRequest | None = None) -> Seen:
    """``graph`` run by its source, translated and made lawful. Bounded in time."""
    source, request = LangGraphSource(graph), request or asks()
    parts, error = await read(source, request)
    return translated(source.translator(request), parts, error)


async def read(
    source: LangGraphSource, request: RunRequest, watch: Callable[[Any], object] = lambda part: None
) -> tuple[list[Any], Exception | None]:
    """Every part of a run, and the error that ended it; ``watch`` is shown each part as it comes."""
    parts: list[Any] = []
    try:
        async with asyncio.timeout(20), aclosing(source.open(request)) as stream:
            async for part in stream:
                watch(part)
                parts.append(part)
    except Exception as failure:
        return parts, failure
    return parts, None
