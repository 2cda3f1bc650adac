"""What a user may know of an error that ended a model, a tool or the graph. Pure: told apart by class names only.

The text of an exception may hold prompts, hosts and keys. Only what a provider's error *body* says is passed on; of
every other error the kind.
"""

from __future__ import annotations

from typing import Any

from ...errors import AnabranchError, SourceError, describe
from .._foreign import label

_DISCONNECTED = frozenset({"APIConnectionError", "APITimeoutError", "ModelConnectionError", "ModelTimeoutError"})
_ANSWERED = frozenset({"APIError", "APIStatusError", "ModelError", "GoogleAPIError", "ClientError", "ServerError"})
_PROVIDERS = frozenset({"openai", "anthropic", "google", "groq", "mistralai", "cohere", "ollama", "langchain_core"})
_TRANSPORTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "ssl"})


def explain(error: BaseException, tool: str | None = None) -> AnabranchError:
    """The error to show for ``error``, which ended ``tool`` or, without one, a model or the graph itself."""
    if isinstance(error, AnabranchError):
        return error
    kinds = type(error).__mro__
    names = {kind.__name__ for kind in kinds}
    modules = {kind.__module__.partition(".")[0] for kind in kinds}
    if "GraphRecursionError" in names:
        return SourceError("The agent took too many steps and was stopped.", code="recursion_limit")
    if modules & _PROVIDERS and names & _DISCONNECTED:
        return _disconnected()
    if modules & _PROVIDERS and names & _ANSWERED:
        return SourceError(f"The model failed: {_said(error)}", code="model_error", retryable=_may_pass(error))
    if tool is not None:
        return SourceError(f"The tool {tool} failed with {type(error).__name__}.", code="tool_failed")
    if modules & _TRANSPORTS:
        return _disconnected()
    if "JSONDecodeError" in names:
        return SourceError("The model sent data that is not JSON.", code="model_error", retryable=True)
    if isinstance(error, ValueError) and label(*error.args[:1]).startswith("No generation"):
        return SourceError("The model's answer ended before it began.", code="model_truncated", retryable=True)
    return describe(error)


def _disconnected() -> SourceError:
    return SourceError("The connection to the model was lost.", code="model_disconnected", retryable=True)


def _said(error: Any) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error")
        text = body.get("message") or (inner.get("message") if isinstance(inner, dict) else inner)
        if isinstance(text, str) and text:
            return text
    status = getattr(error, "status_code", None)
    return f"its endpoint answered with status {status}." if isinstance(status, int) else f"{type(error).__name__}."


def _may_pass(error: Any) -> bool:
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status in (408, 409, 429) or status >= 500
