"""The supervisor as a source: it decides who gets a request, and asks them itself or lets its graph do it.

A turn that goes straight to agents looks like one whose model called their tools, without the model: a call
``ask_<name>`` of the root agent, the agent's lane under it, its text as the result. So whoever reads the conversation,
clients and the model of a later turn alike, needs to know nothing about routes.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from ..events import (
    Part,
    Remote,
    Routed,
    RunFailed,
    ToolArgsDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolReturned,
)
from ..request import Asked, Message, RunRequest
from ..scope import Scope, current
from ..sources.langgraph import LangGraphSource
from ..sources.relay import Relayed, relay
from . import tape
from .asks import KEY, Asks, put
from .delegate import WITHDRAWN, report, tool_name
from .memory import closed
from .routing import Decision, Known, Mode, decide, pins
from .translate import SupervisorTranslator

_ROUTED = "routed:"  # how the questions of a turn that the graph does not know are called


class Delegated(msgspec.Struct, frozen=True):
    """An agent that the supervisor may ask. ``description`` is for its model, ``url`` says where the agent is."""

    name: str
    source: Any
    aliases: tuple[str, ...] = ()
    description: str = ""
    url: str = ""


class SupervisorSource:
    """Routes each request to ``agents``, or to the graph that ``graph`` makes once, when a run first needs it.

    ``mode`` says how freely (``routing``). Everything else is LangGraph's: see ``LangGraphSource``.
    """

    kind = "supervisor"
    dump = staticmethod(tape.dump)

    def __init__(
        self,
        agents: Sequence[Delegated],
        graph: Callable[[], Awaitable[Any]],
        *,
        mode: Mode = "on",
        name: str = "",
        closes: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._agents = {agent.name: agent for agent in agents}
        self._known = [Known(name=agent.name, aliases=agent.aliases) for agent in agents]
        self._tools = {tool_name(agent.name): agent.name for agent in agents}
        self._make, self._mode, self._name, self._closes = graph, mode, name, closes
        self._making: asyncio.Task[LangGraphSource] | None = None
        self._checkpointer: Any = None

    def settings(self, request: RunRequest) -> dict[str, Any]:
        """Of the translator: whether the run answers an interrupt."""
        return {"resumed": bool(request.resume)}

    def translator(self, request: RunRequest) -> SupervisorTranslator:
        """A fresh translator for the items of ``open(request)``."""
        return tape.translator(self.settings(request))

    async def open(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        """The decision, then what comes of it: events, and parts of the graph's stream.

        Raises ``ClientError`` for an agent that is pinned and not known, and what the graph raises.
        """
        asks = Asks(request)
        self.withdraw(asks.withdrawn())
        waiting = [asked for asked in request.asked if asked.origin_id.startswith(_ROUTED)] if request.resume else []
        if waiting or not request.resume:
            decision = self._resumed(waiting) if waiting else self._decided(request)
            yield Routed(route=decision.route, agents=decision.agents, reason=decision.reason)
            if decision.route != "supervisor":
                turn = _Turn(self._agents, asks, current(), request.last_user_parts())
                calls = turn.announce(decision, waiting)
                answers = await turn.ask(decision.question, calls)
                if not (decision.route == "direct" and answers[0].unsent and not waiting):
                    for item in turn.ending(answers, calls):
                        yield item
                    return
                reason = f"{decision.agents[0]} could not be asked"
                yield Routed(route="supervisor", agents=(), reason=reason, fallback_from=decision.route)
        graph = await self._graph()
        async with aclosing(graph.open(request)) as parts:
            async for part in parts:
                yield part

    async def forget(self, memory_key: str) -> None:
        """Delete what the graph's checkpointer has of that conversation. Raises what the checkpointer raises."""
        await (await self._graph()).forget(memory_key)

    def withdraw(self, questions: Iterable[Asked]) -> None:
        """Tell those who asked that nobody will answer, in the background: their tasks wait for nothing."""
        for question in questions:
            agent = self._agents.get(question.name)
            if agent is not None and (withdraw := getattr(agent.source, "withdraw", None)):
                withdraw((question,))

    async def aclose(self) -> None:
        """Close the graph's memory, and what else it has open."""
        for close in self._closes:
            await close()
        if self._making is not None:
            await asyncio.wait((self._making,))
        await closed(self._checkpointer)

    # --- deciding ----------------------------------------------------------------------------------------------

    def _decided(self, request: RunRequest) -> Decision:
        last = last_asked(request.messages, self._tools)
        return decide(request.last_user_text(), self._known, mode=self._mode, pinned=pins(request.options), last=last)

    def _resumed(self, waiting: Sequence[Asked]) -> Decision:
        names = tuple(asked.name for asked in waiting)
        return Decision(
            route="direct" if len(names) == 1 else "parallel",
            agents=names,
            reason="the answer is for who asked",
            question="",
        )

    async def _graph(self) -> LangGraphSource:
        """Made once, on the loop of the server: its memory is open there."""
        if self._making is None:
            self._making = asyncio.create_task(self._make_graph(), name="supervisor graph")
        try:
            return await asyncio.shield(self._making)
        except Exception:
            self._making = None  # another run may have more luck
            raise

    async def _make_graph(self) -> LangGraphSource:
        graph = await self._make()
        self._checkpointer = graph.checkpointer
        return LangGraphSource(graph, name=self._name, configurable=configurable)


class _Turn:
    """Calls of agents that no model makes."""

    def __init__(self, agents: Mapping[str, Delegated], asks: Asks, scope: Scope, parts: Sequence[Part]) -> None:
        self._agents, self._asks, self._scope, self._parts = agents, asks, scope, parts

    def announce(self, decision: Decision, waiting: Sequence[Asked]) -> list[tuple[str, str, Asked | None]]:
        """Show the calls, all of them before the first one runs: the name and the call of each, and what it resumes."""
        asked: Sequence[Asked | None] = waiting or [None] * len(decision.agents)
        calls = [
            (name, each.call_id if each else f"call_{uuid.uuid4().hex[:24]}", each)
            for name, each in zip(decision.agents, asked, strict=True)
        ]
        for name, call_id, _ in calls:
            arguments = json.dumps({"question": decision.question}, ensure_ascii=False)
            self._scope.emit(ToolCallStarted(call_id=call_id, name=tool_name(name)))
            self._scope.emit(ToolArgsDelta(call_id=call_id, delta=arguments))
            self._scope.emit(ToolCallFinished(call_id=call_id))
        return calls

    async def ask(self, question: str, calls: Sequence[tuple[str, str, Asked | None]]) -> list[Relayed]:
        """Ask all of them at once. Their lanes open in order; no one waits for another."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._relayed(question, *call), name=f"ask {call[0]}") for call in calls]
        return [task.result() for task in tasks]

    async def _relayed(self, question: str, name: str, call_id: str, asked: Asked | None) -> Relayed:
        agent = self._agents[name]
        answer = self._asks.answer(asked) if asked else None
        if asked and self._asks.is_withdrawn(asked):
            relayed = Relayed("", RunFailed(code="cancelled", message=WITHDRAWN.format(name)))
            self._scope.emit(_result(call_id, WITHDRAWN.format(name), True))
            return relayed
        opened = (
            self._asks.follow_up(asked, call_id, answer.payload if answer else None)
            if asked
            else self._asks.question(name, call_id, question, self._parts)
        )
        with opened as request:
            remote = Remote(url=agent.url) if agent.url else None
            lane = self._scope.lane(name, call_id=call_id, remote=remote, answers=True)
            relayed = await relay(agent.source, request, lane)
        if not relayed.asked:
            text = relayed.text if relayed.failed is None else report(name, relayed)
            self._scope.emit(_result(call_id, text, relayed.failed is not None))
        return relayed

    def ending(self, answers: Sequence[Relayed], calls: Sequence[tuple[str, str, Asked | None]]) -> Iterable[Any]:
        """What the user is asked, or the failure of the run when every agent failed."""
        asked = False
        for (name, call_id, _), answer in zip(calls, answers, strict=True):
            if answer.asked:
                asked = True
                question = put(answer.asked, name)
                yield msgspec.structs.replace(question, interrupt_id=f"{_ROUTED}{call_id}", call_id=call_id)
        failed = [answer.failed for answer in answers if answer.failed is not None]
        if len(failed) == len(answers) and not asked:
            yield failed[0]


def configurable(request: RunRequest) -> dict[str, Any]:
    """What the tools of a graph find in their config."""
    return {KEY: Asks(request)}


def last_asked(messages: Sequence[Message], tools: Mapping[str, str]) -> str | None:
    """The agent whose words were the whole answer to the user's message before this one, by the names of ``tools``."""
    own = [message for message in messages if not message.agent]
    while own and own[-1].role == "user":
        own.pop()
    called: list[str] = []
    for message in reversed(own):
        if message.role == "user":
            break
        if message.role == "assistant":
            if message.content and not message.tool_calls:
                return None  # the supervisor spoke
            called += [call.name for call in message.tool_calls]
    return tools.get(called[0]) if len(called) == 1 else None


def _result(call_id: str, text: str, is_error: bool) -> ToolReturned:
    return ToolReturned(call_id=call_id, content=text, is_error=is_error, error=text if is_error else None)
