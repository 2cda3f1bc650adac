"""The supervisor: a deep agent whose tools are other agents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra, SourceError, describe

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

_INSTRUCTIONS = """You coordinate specialised agents. Keep a short plan with write_todos. Ask the agents that know; ask
several at once when their questions do not depend on each other. The user reads each agent's answer live, so do not
repeat it: sum up, compare, and say what follows from it. Say plainly when an agent failed."""


def supervisor_graph(
    model: BaseChatModel,
    tools: Sequence[BaseTool],
    instructions: str = "",
    *,
    middleware: Sequence[Any] = (),
    checkpointer: Any = None,
) -> Any:
    """A compiled deepagents graph with ``tools``, a plan, and errors of tools as results instead of exceptions.

    Without a ``checkpointer`` it cannot go on after a question.
    """
    load()
    from deepagents import create_deep_agent
    from langchain.agents.middleware import TodoListMiddleware

    return create_deep_agent(
        model=model,
        tools=list(tools),
        system_prompt=instructions or _INSTRUCTIONS,
        middleware=[TodoListMiddleware(), tool_errors(), *middleware],
        checkpointer=checkpointer,
    )


def load() -> None:
    """Import what the graph is made of, which takes its time. Raises ``MissingExtra``."""
    try:
        import_module("deepagents")
        import_module("langchain.agents.middleware")
    except ImportError as error:
        raise MissingExtra("deepagents", "langgraph") from error


def tool_errors() -> Any:
    """Middleware: a tool that raises gives its own call an error result; its siblings go on (deepagents#694).

    So does one that exits the process or pretends a Ctrl-C: in LangGraph's task that would end the whole server.
    """
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import ToolMessage
    from langgraph.errors import GraphBubbleUp

    failures = (Exception, SystemExit, KeyboardInterrupt)

    def report(call: Any, error: BaseException) -> ToolMessage:
        text = f"Error: {describe(error)}"
        return ToolMessage(content=text, tool_call_id=call["id"], name=call["name"], status="error")

    class ToolErrors(AgentMiddleware[Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            try:
                return handler(request)
            except GraphBubbleUp:
                raise  # an interrupt or another move of the graph, not a failure
            except failures as error:
                return report(request.tool_call, error)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            try:
                return await handler(request.override(tool=_contained(request.tool)))
            except GraphBubbleUp:
                raise
            except failures as error:
                return report(request.tool_call, error)

    return ToolErrors()


def _contained(tool: Any) -> Any:
    """``tool``, whose coroutine LangChain runs in a task of its own: out of it these two go to the loop, not to us."""
    coroutine = getattr(tool, "coroutine", None)
    if coroutine is None:
        return tool

    @wraps(coroutine)
    async def contained(*args: Any, **kwargs: Any) -> Any:
        try:
            return await coroutine(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt) as error:
            raise SourceError(f"The tool tried to end the process ({type(error).__name__}).") from error

    return tool.model_copy(update={"coroutine": contained})
