"""What a user may know of an error that an endpoint reports, in its stream or under an HTTP status. Pure.

Of the provider's words its own message is passed on, except about credentials: those words are for the operator.
"""

from __future__ import annotations

from typing import Any

from ...errors import SourceError, scrub
from .._foreign import entry, label, listed

_AUTH = frozenset({"invalid_api_key", "authentication_error", "permission_error", "permission_denied", "unauthorized"})
_RATE = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "insufficient_quota"})
_LASTING = frozenset(
    {"insufficient_quota", "invalid_request_error", "context_length_exceeded", "model_not_found"}
    | {"content_filter", "content_policy_violation", "not_found_error"}
)
"""Codes and types of errors that the same request will meet again."""


def explain(body: Any, who: str, status: int = 0) -> SourceError:
    """The error in ``body``, in whatever form, for the model ``who``. ``status`` is the HTTP status, 0 in a stream.

    ``model_auth``, ``model_rate_limited`` or ``model_error``; the provider's own code is in the message.
    """
    body = next(iter(listed(body)), None)  # some put it into a list
    error = entry(body, "error") or body
    code, kind = label(entry(error, "code")), label(entry(error, "type"))
    status = status or (int(code) if code.isdecimal() and len(code) == 3 else 0)
    names = {code, kind}
    if status in (401, 403) or names & _AUTH:
        return SourceError(f"{who} refused our credentials{f' (HTTP {status})' if status else ''}.", code="model_auth")
    why = words(error) or (f"its endpoint answered with HTTP {status}." if status else "it did not say why.")
    named = next((name for name in (code, kind) if name and not name.isdecimal()), "")
    if named and named not in why:
        why += f" ({named})"
    if status == 429 or names & _RATE:
        text = f"{who} takes no more requests now: {why}"
        return SourceError(scrub(text), code="model_rate_limited", retryable="insufficient_quota" not in names)
    passing = status in (408, 409) or status >= 500 or (not status and not names & _LASTING)
    return SourceError(scrub(f"{who} failed: {why}"), code="model_error", retryable=passing)


def words(error: Any) -> str:
    """What the error says; ``""`` when that is nothing."""
    said = error if isinstance(error, str) else entry(error, "message") or entry(error, "detail")
    return label(said).strip()
