"""A LangGraph graph as a source: one ``astream`` call for a run, its parts as they come.

LangGraph cannot be paused: tools and models write into an unbounded queue. The limit on what a run may hold is the
runner's, which closes the generator that ``open`` returns; that stops the graph, its models and its tools.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar, Token
from typing import Any

from ...errors import MissingExtra
from ...events import Event
from ...request import RunRequest
from ...scope import Scope, entered
from . import tape
from .translate import MODES, LangGraphTranslator

_NOWHERE = (
    "no tool or node of the graph runs in this context, so there is nowhere to emit: start the thread with "
    "contextvars.copy_context().run, use asyncio.to_thread, or hand it anabranch.sources.langgraph.scope_of(runtime)"
)


class LangGraphSource:
    """Runs ``graph`` (anything with LangGraph's ``astream``: create_agent, create_deep_agent, a compiled StateGraph).

    Inside its nodes and tools ``anabranch.current()`` is the agent that runs there, and their config has what
    ``configurable`` makes of the request. The graph's own recursion limit
    holds. Raises ``MissingExtra`` when a run is opened and langgraph is not installed.
    """

    kind = "langgraph"
    dump = staticmethod(tape.dump)

    def __init__(
        self, graph: Any, *, name: str = "", configurable: Callable[[RunRequest], Mapping[str, Any]] = lambda _: {}
    ) -> None:
        self._graph, self._configurable = graph, configurable
        self.name = name or str(getattr(graph, "name", "") or "")

    def settings(self, request: RunRequest) -> dict[str, Any]:
        """Of the translator: whether the run answers an interrupt."""
        return {"resumed": bool(request.resume)}

    def translator(self, request: RunRequest) -> LangGraphTranslator:
        """A fresh translator for the parts of ``open(request)``."""
        return tape.translator(self.settings(request))

    async def open(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        """Run the graph on ``request`` and give its stream parts.

        Raises ``ClientError`` when an interrupt is answered that the graph has not asked, ``ModelTruncated`` when a
        model's answer broke off, and whatever else the graph raises.
        """
        scope, apart = Scope(_emitter()), _Apart()
        from ._memory import NOTHING, given
        from .guard import ModelGuard

        known = {**self._configurable(request), "thread_id": request.memory_key or request.thread_id}
        config = {"configurable": known, "callbacks": [ModelGuard()]}
        with apart:
            asked, told = await given(self._graph, request, config)
        if told:
            yield {"type": "updates", "ns": (), "data": {"": {"messages": told}}}
        if asked is NOTHING:
            return
        parts = self._graph.astream(asked, config, stream_mode=list(MODES), subgraphs=True, version="v2")
        async with aclosing(parts):
            while True:
                # Not around the loop: a generator shares its context with whoever reads it.
                with entered(scope), apart:
                    try:
                        part = await anext(parts)
                    except StopAsyncIteration:
                        return
                yield part

    async def forget(self, memory_key: str) -> None:
        """Delete what the graph's checkpointer has of that conversation. Raises what the checkpointer raises."""
        if checkpointer := getattr(self._graph, "checkpointer", None):
            await checkpointer.adelete_thread(memory_key)


class _Apart:
    """While entered, nothing of a graph whose tool runs this one is to be seen.

    Otherwise LangGraph would give the outer graph's stream a copy of every token, as if its own root had said it.
    """

    __slots__ = ("_tokens", "_variables")

    def __init__(self) -> None:
        from langchain_core.runnables.config import var_child_runnable_config

        self._variables: tuple[ContextVar[Any], ...] = (var_child_runnable_config, *_writer_variable())
        self._tokens: list[Token[Any]] = []

    def __enter__(self) -> None:
        self._tokens = [variable.set(None) for variable in self._variables]

    def __exit__(self, *_: object) -> None:
        for variable, token in zip(self._variables, self._tokens, strict=True):
            variable.reset(token)


def scope_of(runtime: Any) -> Scope:
    """The scope of the tool call that was given ``runtime`` (a ``ToolRuntime``).

    Unlike ``anabranch.current()`` it may be handed to other threads and tasks. Outside of a run it emits nowhere.
    """
    return Scope(_tool_writer() or runtime.emit_output_delta)


def _emitter() -> Callable[[Event], None]:
    """Emits into the tool call, or else the node, that is running where it is called.

    It raises ``LookupError`` where neither runs: in a thread or a callback that does not have the tool's context.
    """
    try:
        from langgraph.config import get_stream_writer
    except ImportError:
        raise MissingExtra("langgraph", "langgraph") from None

    def emit(event: Event) -> None:
        try:
            writer = _tool_writer() or get_stream_writer()
        except RuntimeError:
            raise LookupError(_NOWHERE) from None
        writer(event)

    return emit


def _tool_writer() -> Callable[[Any], None] | None:
    """The writer of the tool call that is running here."""
    return next((variable.get() for variable in _writer_variable()), None)


def _writer_variable() -> tuple[ContextVar[Any], ...]:
    """LangGraph's variable for that writer, which it does not publish; none in a version that does not have it."""
    try:
        from langgraph.pregel._tools import _tool_call_writer
    except ImportError:
        return ()
    return (_tool_call_writer,)
