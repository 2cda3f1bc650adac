"""A remote A2A agent as a tool of anybody's LangGraph graph: it streams while the tool runs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import uuid
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Annotated, Any, NamedTuple, Self
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from langchain_core.runnables.config import ensure_config
from langchain_core.tools import ArgsSchema, BaseTool, InjectedToolArg, ToolException
from langgraph.config import get_stream_writer
from langgraph.prebuilt import ToolRuntime
from msgspec import UNSET
from msgspec.structs import replace
from pydantic import BaseModel, Field, PrivateAttr, SkipValidation

from ..encodable import whole
from ..errors import ConfigError, MissingExtra
from ..events import Event, Remote
from ..request import Asked, Message, RunRequest
from ..scope import Lane, Scope, current
from ..sources.a2a import A2ASource
from ..sources.relay import Relayed, relay
from ..supervisor.asks import put
from ..supervisor.delegate import report, tool_name
from . import questions
from ._contexts import Contexts
from ._hop import Hop
from .items import Items

_NAME = re.compile("[A-Za-z0-9_-]{1,64}")

_Runtime = Annotated[ToolRuntime | None, InjectedToolArg]
"""What LangGraph hands to a tool; nothing when something else calls it."""

Headers = Mapping[str, str] | Callable[[], Mapping[str, str]]


class _Asking(BaseModel):
    question: str = Field(description="What to ask the agent, with all that it has to know: it sees nothing else.")
    runtime: Annotated[Any, InjectedToolArg] = Field(default=None, exclude=True)


class _Place(NamedTuple):
    """Where a question is sent: a context or task of the agent, none when empty; ``data`` is the text as JSON."""

    context_id: str = ""
    task_id: str = ""
    data: Any = UNSET


class _Shared:
    """What the calls of a tool share, and its shallow copies. Connections belong to an event loop."""

    def __init__(self) -> None:
        self.sources: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, A2ASource]] = WeakKeyDictionary()
        self.contexts = Contexts()

    def __reduce__(self) -> tuple[type[_Shared], tuple[()]]:
        return _Shared, ()  # neither a deep copy nor another process can have them


class RemoteA2ATool(BaseTool):
    """The A2A agent at ``url`` as a tool: ``question`` goes to it, its exact text comes back.

    ``url`` is the agent's root, its JSON-RPC endpoint or its card. ``name`` is the tool's, letters, digits, ``_`` and
    ``-``; without it, it is ``ask_`` and the end of the address. ``agent`` is what users and errors call the agent.
    ``from_card`` takes all that from the agent's card. ``headers`` go with each request, to that address only; a
    function is asked for them each time. Times are in seconds: to connect, to the first byte, between two bytes.

    While it runs, what the agent sends are items of the stream mode ``custom`` (see ``items``) and text deltas of
    ``tools``; inside a run of an anabranch server it is a lane of that run instead. A failure is an error result for
    the model, or a ``ToolException`` with ``handle_tool_error=False``. A question of the agent is an ``interrupt()``,
    and the answer goes to the same task; in a graph without a checkpointer it is an error result. Cancelling the call
    cancels the task. Nothing is asked twice.

    Copies and other event loops are fine. ``await aclose()`` at the end, in each loop that used it: it waits until
    agents know of cancellations. ``invoke`` needs no ``aclose``.

    Raises ``ConfigError`` for an address, a name or a header that cannot be used, ``MissingExtra`` without aiohttp.
    """

    name: str
    description: str
    args_schema: Annotated[ArgsSchema | None, SkipValidation()] = _Asking
    response_format: Any = "content_and_artifact"
    handle_tool_error: Any = True
    url: str
    agent: str
    headers: Any = Field(default=None, exclude=True, repr=False)
    connect_s: float = 5.0
    first_byte_s: float = 60.0
    idle_s: float = 60.0
    _shared: _Shared = PrivateAttr(default_factory=_Shared)

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        description: str | None = None,
        agent: str | None = None,
        headers: Headers | None = None,
        **options: Any,
    ) -> None:
        if importlib.util.find_spec("aiohttp") is None:
            raise MissingExtra("aiohttp", "a2a")
        if name is not None and not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no name for a tool: models take letters, digits, _ and -, at most 64 of them"
            )
        agent = agent or (name or _called(url)).removeprefix("ask_")
        super().__init__(
            url=url,
            name=name or tool_name(agent),
            description=description or f"Ask the agent {agent} and get its whole answer.",
            agent=agent,
            headers=headers,
            **options,
        )
        self._source_made()  # what is wrong with the address or a header shows now

    @classmethod
    async def from_card(
        cls,
        url: str,
        *,
        name: str | None = None,
        description: str | None = None,
        agent: str | None = None,
        **options: Any,
    ) -> Self:
        """The tool, with the name and the description on the agent's card where none are given.

        Raises ``SourceError`` when the card cannot be had.
        """
        tool = cls(url, name=name, description=description, agent=agent, **options)
        source = tool._source()
        try:
            card = await source.endpoint()
        finally:
            await tool.aclose()
        agent = agent or card.name or None
        description = description or source.about.description or None
        return cls(
            url, name=name or (tool_name(agent) if agent else None), description=description, agent=agent, **options
        )

    async def aclose(self) -> None:
        """Wait for cancellations that are under way, at most 4 s, and close the connections of this event loop."""
        for source in self._shared.sources.pop(asyncio.get_running_loop(), {}).values():
            await source.aclose()

    # --- LangChain's side --------------------------------------------------------------------------------------

    async def _arun(self, question: str, runtime: _Runtime = None) -> tuple[str, dict[str, Any]]:
        return await self._answered(question, runtime)

    def _run(self, question: str, runtime: _Runtime = None) -> tuple[str, dict[str, Any]]:
        async def call() -> tuple[str, dict[str, Any]]:
            try:
                return await self._answered(question, runtime, sync=True)
            finally:
                await self.aclose()

        return _finished(call())

    # --- one call ----------------------------------------------------------------------------------------------

    async def _answered(
        self, question: str, runtime: ToolRuntime | None, *, sync: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """The agent's text and, for the program, where it works and what it sent besides."""
        config, contexts = ensure_config(), self._shared.contexts
        call_id = runtime.tool_call_id if runtime else None
        call = {"tool": self.name, "callId": call_id, "request": question}
        pending = await questions.asked_by(config, call, sync=sync)
        said, number = (pending.said, pending.number) if pending else ("", 0)
        if pending:
            text, place = _reply(pending)
        else:
            state = runtime.state if runtime else None
            text, place = question, _Place(contexts.find(self.url, self.name, state, config))
        hop = Hop(self._source(), self.agent, *place)
        with contexts.used(hop.context_id):
            answer = await relay(hop, _request(text), self._lane(runtime, call_id))
        artifact = hop.artifact(self.url)
        contexts.remember(self.url, config, artifact["context_id"])
        said += answer.text
        if answer.asked:
            remote = Remote(url=self.url, task_id=artifact["task_id"], context_id=artifact["context_id"])
            asked = replace(put(answer.asked, self.agent), remote=remote)
            if questions.keeps_checkpoints(config):
                questions.ask(asked, call, agent=self.agent, said=said, number=number + 1)
            self._source().withdraw([Asked(interrupt_id=asked.interrupt_id, remote=asked.remote)])
            raise ToolException(_unanswerable(self.agent, asked.message or asked.reason, said))
        if answer.failed is not None:
            raise ToolException(report(self.agent, Relayed(said, answer.failed)))
        return said, artifact

    def _lane(self, runtime: ToolRuntime | None, call_id: str | None) -> Lane:
        """Where the agent's events go: into the run of ours that this is in, or to the reader of the graph."""
        try:
            scope = current()
        except LookupError:
            scope = Scope(_emitter(runtime, call_id))
        return scope.lane(self.agent, remote=Remote(url=self.url))

    # --- connections -------------------------------------------------------------------------------------------

    def _source(self) -> A2ASource:
        """That of the running loop."""
        sources = self._shared.sources.setdefault(asyncio.get_running_loop(), {})
        headers = self.headers if callable(self.headers) else tuple(sorted((self.headers or {}).items()))
        key = (self.url, self.agent, headers, self.connect_s, self.first_byte_s, self.idle_s)
        if key not in sources:
            sources[key] = self._source_made()
        return sources[key]

    def _source_made(self) -> A2ASource:
        asked_for = callable(self.headers)
        return A2ASource(
            self.url,
            name=self.agent,
            headers=None if asked_for else self.headers,
            forward=self.headers if asked_for else dict,
            bound=asked_for,
            connect_s=self.connect_s,
            first_byte_s=self.first_byte_s,
            idle_s=self.idle_s,
            extensions=Hop.EXTENSIONS,
        )


def _reply(pending: questions.Question) -> tuple[str, _Place]:
    """What the user's answer is in words, and where it is sent."""
    payload, remote = pending.answer(), pending.remote
    if isinstance(payload, str):
        return payload, _Place(remote.context_id, remote.task_id)
    text = json.dumps(payload, ensure_ascii=False, default=str)
    return text, _Place(remote.context_id, remote.task_id, json.loads(text))


def _request(text: str) -> RunRequest:
    id = uuid.uuid4().hex
    return RunRequest(run_id=id, thread_id=id, messages=(Message(id=id, role="user", content=whole(text)),))


def _emitter(runtime: ToolRuntime | None, call_id: str | None) -> Callable[[Event], None]:
    """Writes into the graph's stream, if there is a graph."""
    try:
        writer = runtime.stream_writer if runtime else get_stream_writer()
    except (RuntimeError, KeyError):  # what LangGraph raises outside of a graph
        return lambda event: None
    id = uuid.uuid4().hex
    items = Items(id, call_id or id)

    def emit(event: Event) -> None:
        for item, text in items.feed(event):
            writer(item)
            if text and runtime is not None:
                runtime.emit_output_delta(text)

    return emit


def _called(url: str) -> str:
    """What to call an agent of which only the address is known: the end of its path, or its host."""
    parts = urlsplit(url)
    path = [part for part in parts.path.split("/") if part and part != ".well-known" and not part.endswith(".json")]
    host = (parts.hostname or "agent").removeprefix("www.")
    if re.fullmatch(r"localhost|[\d.]+|.*:.*", host):
        host = f"agent_{parts.port}" if parts.port else "agent"
    return path[-1] if path else host


def _unanswerable(agent: str, question: str, said: str) -> str:
    before = f"\nBefore that it said:\n{said}" if said else ""
    why = "It cannot be answered, because this graph keeps no checkpoints, so its task was cancelled"
    return f"Error: the agent {agent} asks: {question}\n{why}. Ask again with what it wants to know.{before}"


def _finished(call: Coroutine[Any, Any, tuple[str, dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """The result of ``call``, in a loop of its own; in a thread of its own where one runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(copy_context().run, asyncio.run, call).result()
