"""The supervisor: a deep agent whose tools are other agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra, describe

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

_INSTRUCTIONS = """You coordinate specialised agents. Keep a short plan with write_todos. Ask the agents that know; ask
several at once when their questions do not depend on each other. The user reads each agent's answer live, so do not
repeat it: sum up, compare, and say what follows from it. Say plainly when an agent failed."""


def supervisor_graph(model: BaseChatModel, tools: Sequence[BaseTool], instructions: str = "") -> Any:
    """A compiled deepagents graph with ``tools``, a plan, and errors of tools as results instead of exceptions."""
    try:
        from deepagents import create_deep_agent
        from langchain.agents.middleware import TodoListMiddleware
    except ImportError as error:
        raise MissingExtra("deepagents", "langgraph") from error
    return create_deep_agent(
        model=model,
        tools=list(tools),
        system_prompt=instructions or _INSTRUCTIONS,
        middleware=[TodoListMiddleware(), tool_errors()],
    )


def tool_errors() -> Any:
    """Middleware: a tool that raises gives its own call an error result; its siblings go on (deepagents#694)."""
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import ToolMessage
    from langgraph.errors import GraphBubbleUp

    class ToolErrors(AgentMiddleware[Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            try:
                return await handler(request)
            except GraphBubbleUp:
                raise  # an interrupt or another move of the graph, not a failure
            except Exception as error:
                call = request.tool_call
                return ToolMessage(
                    content=f"Error: {describe(error)}", tool_call_id=call["id"], name=call["name"], status="error"
                )

    return ToolErrors()
