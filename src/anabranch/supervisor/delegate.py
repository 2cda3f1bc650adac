"""A remote agent as a tool of a LangGraph agent: its tokens stream through the tool, its text goes to the model."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ..events import Interrupted, Remote
from ..request import Asked
from ..sources._base import Source
from ..sources.langgraph import scope_of
from ..sources.langgraph.translate import REMOTE
from ..sources.relay import Relayed, relay
from .asks import Asks, put

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


WITHDRAWN = "Error: the user did not answer what the agent {} asked, so it went no further."
"""What a model reads of an agent whose question was cancelled."""


def delegate(
    name: str,
    source: Source,
    *,
    description: str = "",
    url: str = "",
    answers: Callable[[Any], bool] = lambda state: False,
) -> BaseTool:
    """A tool ``ask_{name}(question)`` that streams ``source`` into the run that calls it.

    A failing agent gives the model an error result, never an exception: its siblings and the run go on. One that asks
    something interrupts the graph, and the answer goes to the same task. ``answers`` says, of the graph's state,
    whether what the agent says is the answer of who calls it.
    """
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import StructuredTool
    from langgraph.prebuilt import ToolRuntime

    async def ask(question: str, runtime: ToolRuntime) -> Any:
        call_id, asks = runtime.tool_call_id or uuid.uuid4().hex, Asks.of(runtime.config)
        scope = scope_of(runtime)

        async def relayed(opened: Any) -> Relayed:
            with opened as request:
                lane = scope.lane(name, remote=Remote(url=url) if url else None, answers=answers(runtime.state))
                return await relay(source, request, lane)

        def failed(text: str) -> ToolMessage:
            return ToolMessage(content=text, tool_call_id=call_id, name=tool_name(name), status="error")

        asked = asks.open(name, call_id)
        if asked is None:
            answer = await relayed(asks.question(name, call_id, question))
        else:
            payload = _resumed(asked, asks)
            if asks.is_withdrawn(asked):
                return failed(WITHDRAWN.format(name))
            answer = await relayed(asks.follow_up(asked, call_id, payload))
        if answer.asked:
            _ask_user(put(answer.asked, name))  # the graph stops here, and another run goes on with the answer
        return answer.text if answer.failed is None else failed(report(name, answer))

    ask.__annotations__ = {"question": str, "runtime": ToolRuntime, "return": Any}
    return StructuredTool.from_function(
        coroutine=ask,
        name=tool_name(name),
        description=description
        or f"Ask the agent {name} and get its whole answer. The user reads it as it is written.",
    )


def _ask_user(question: Interrupted) -> Any:
    """Stop the graph with the question. Raises ``GraphInterrupt``, or gives the answers to earlier ones, in order."""
    from langgraph.types import interrupt

    value = {
        field: getattr(question, field)
        for field in ("reason", "message", "schema", "expires_at", "metadata")
        if getattr(question, field) is not None
    }
    return interrupt(value | {REMOTE: msgspec.to_builtins(question.remote or Remote())})


def _resumed(asked: Asked, asks: Asks) -> Any:
    """The user's answer. Raises ``GraphInterrupt`` when this run answers other questions only.

    LangGraph runs a tool from its start again and gives it all answers that it ever got. The newest one is to be sent.
    """
    from langgraph.errors import GraphInterrupt

    again = Interrupted(
        interrupt_id=asked.interrupt_id,
        reason=asked.reason,
        message=asked.message,
        schema=asked.schema,
        remote=asked.remote,
        metadata={"agent": asked.name},
    )
    answers: list[Any] = []
    try:
        while True:
            answers.append(_ask_user(again))
    except GraphInterrupt:
        if asks.answer(asked) is None or not answers:
            raise
    return answers[-1]


def tool_name(agent: str) -> str:
    """The name of an agent's tool: what providers allow is letters, digits, ``_`` and ``-``, 64 at most."""
    return ("ask_" + re.sub(r"[^A-Za-z0-9_-]", "_", agent))[:64]


def report(name: str, answer: Relayed) -> str:
    """What a model reads of an agent that failed."""
    assert answer.failed is not None
    said = f"\nBefore that it said:\n{answer.text}" if answer.text else ""
    return f"Error: the agent {name} failed ({answer.failed.code}): {answer.failed.message}{said}"
