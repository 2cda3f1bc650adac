"""The model is told what each agent is for and whether it can be asked, as it is when the model is called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from .registry import Registered


def describing(agents: Mapping[str, Registered]) -> Any:
    """Middleware: the tools named as in ``agents`` get the descriptions of these agents. The graph stays as it is."""
    from langchain.agents.middleware import AgentMiddleware

    made: dict[str, BaseTool] = {}

    def described(tool: Any) -> Any:
        agent = agents.get(getattr(tool, "name", ""))
        if agent is None or agent.told == tool.description:
            return tool
        last = made.get(tool.name)
        if last is None or last.description != agent.told:
            last = made[tool.name] = tool.model_copy(update={"description": agent.told})
        return last

    def rewritten(request: Any) -> Any:
        tools: Sequence[Any] = [described(tool) for tool in request.tools]
        same = all(new is old for new, old in zip(tools, request.tools, strict=True))
        return request if same else request.override(tools=tools)

    class Describing(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(rewritten(request))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            await asyncio.gather(*(agent.glance() for agent in agents.values()))
            return await handler(rewritten(request))

    return Describing()
