"""The guard around every model and tool of a graph: a model stream that broke off fails before a tool runs.

LangChain takes a stream that ends cleanly but without a finish reason for a whole answer, and its JSON parser completes
half-written arguments, so a tool would run with them. A translator sees that too late. The guard is a callback handler
that ``LangGraphSource`` puts into the run's config; LangChain hands it down to every model call inside the graph, also
those of sub-agents and of tools, and an error it raises in ``on_llm_end`` ends the model call.

Let through: models of a provider that is not known to give a finish reason (fakes, and providers without
``model_provider`` in their metadata), and calls that were not streamed by a chat model.

Two more things end the model call, because what follows would be told wrong: tool calls of one turn that their ids do
not tell apart, and arguments that are no JSON object (LangChain would run nothing, and call that success).

A tool or chain that exits the process or pretends a Ctrl-C fails like any other. But asyncio lets these two of any
task end the event loop first, and LangChain runs coroutines of nodes and tools in tasks of their own, where no callback
is called: the loop has to be run again after them, as ``anabranch serve`` does.

The handler is synchronous on purpose: in a synchronous ``invoke`` LangChain swallows the errors of asynchronous ones.
"""

from __future__ import annotations

from typing import Any

from ...errors import MissingExtra, SourceError
from .._foreign import label

try:
    from langchain_core.callbacks import BaseCallbackHandler
except ImportError:
    raise MissingExtra("langchain-core", "langgraph") from None

_FINISH = {
    **dict.fromkeys(("openai", "deepseek", "groq"), ("finish_reason", "status")),
    "anthropic": ("stop_reason",),
    "google_genai": ("finish_reason",),
}
"""Where a provider's finish reason is in the metadata of a message (``status``: OpenAI's Responses API)."""

_CUT = frozenset({"length", "content_filter", "max_tokens", "MAX_TOKENS", "SAFETY", "incomplete"})


class ModelTruncated(SourceError):
    """A model's answer broke off: no finish reason came, or its tool calls were cut off by a limit."""

    code = "model_truncated"
    retryable = True


def truncation(message: Any) -> str | None:
    """Why ``message``, which a model has finished, is not whole; None when it is, or when nobody can know."""
    metadata = message.response_metadata
    fields = _FINISH.get(metadata.get("model_provider") or "")
    if fields is None:
        return None
    reasons = [label(metadata[field]) for field in fields if field in metadata]
    if not reasons:
        return "The model's answer broke off: its stream ended without a finish reason."
    if any(reason in _CUT for reason in reasons) and (message.tool_calls or message.invalid_tool_calls):
        return f"The model's tool calls were cut off ({', '.join(reasons)})."
    return None


def confusion(message: Any) -> str | None:
    """Why the tool calls of ``message``, which a model has finished, cannot be made; None when they can."""
    if message.invalid_tool_calls and _FINISH.get(message.response_metadata.get("model_provider") or ""):
        return "The model called a tool with arguments that are not a JSON object."
    ids = [call["id"] for call in message.tool_calls]
    if not all(ids):
        return "The model called a tool without giving the call an id."
    return "The model gave several tool calls the same id." if len(set(ids)) < len(ids) else None


class ModelGuard(BaseCallbackHandler):
    """Raises ``ModelTruncated`` at the end of a model call whose answer is not whole, and turns exits into errors."""

    raise_error = True
    run_inline = True  # in the model's own task, before it returns

    def on_llm_end(self, response: Any, **_: Any) -> None:
        """A model call ended. Raises ``ModelTruncated``, or ``SourceError`` when its tool calls cannot be made."""
        for generation in response.generations[0] if response.generations else ():
            message = getattr(generation, "message", None)
            if getattr(message, "type", None) not in ("ai", "AIMessageChunk"):
                continue
            if why := truncation(message):
                raise ModelTruncated(why)
            if why := confusion(message):
                raise SourceError(why, code="model_error")

    def on_tool_error(self, error: BaseException, **_: Any) -> None:
        """A tool raised. Raises ``SourceError`` in the place of what would end the process."""
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise SourceError(f"The agent tried to end the process ({type(error).__name__}).") from error

    on_chain_error = on_tool_error
