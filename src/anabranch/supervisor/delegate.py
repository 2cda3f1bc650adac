"""A remote agent as a tool of a LangGraph agent: its tokens stream through the tool, its text goes to the model."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

from ..encodable import whole
from ..events import Remote
from ..request import Message, RunRequest
from ..sources._base import Source
from ..sources.langgraph import scope_of
from ..sources.relay import Relayed, relay

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def delegate(name: str, source: Source, *, description: str = "", url: str = "") -> BaseTool:
    """A tool ``ask_{name}(question)`` that streams ``source`` into the run that calls it.

    A failing agent gives the model an error result, never an exception: its siblings and the run go on.
    """
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import StructuredTool
    from langgraph.prebuilt import ToolRuntime

    async def ask(question: str, runtime: ToolRuntime) -> Any:
        call_id = runtime.tool_call_id or uuid.uuid4().hex
        request = RunRequest(
            run_id=call_id,
            thread_id=call_id,
            messages=(Message(id=uuid.uuid4().hex, role="user", content=whole(question)),),
        )
        lane = scope_of(runtime).lane(name, remote=Remote(url=url) if url else None)
        answer = await relay(source, request, lane)
        if answer.failed is None:
            return answer.text
        return ToolMessage(content=_report(name, answer), tool_call_id=call_id, name=tool_name(name), status="error")

    ask.__annotations__ = {"question": str, "runtime": ToolRuntime, "return": Any}
    return StructuredTool.from_function(
        coroutine=ask,
        name=tool_name(name),
        description=description
        or f"Ask the agent {name} and get its whole answer. The user reads it as it is written.",
    )


def tool_name(agent: str) -> str:
    """The name of an agent's tool: what providers allow is letters, digits, ``_`` and ``-``, 64 at most."""
    return ("ask_" + re.sub(r"[^A-Za-z0-9_-]", "_", agent))[:64]


def _report(name: str, answer: Relayed) -> str:
    assert answer.failed is not None
    said = f"\nBefore that it said:\n{answer.text}" if answer.text else ""
    return f"Error: the agent {name} failed ({answer.failed.code}): {answer.failed.message}{said}"
