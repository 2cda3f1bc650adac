"""The JSON of AG-UI events: what may be in it, and how the values of the vocabulary look in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import events as ev
from .._json import SAFE

NAMESPACE = "anabranch"
"""What is ours in an open field: the key in ``metadata``, the first word of a CUSTOM name."""


def event(kind: str, **fields: Any) -> dict[str, Any]:
    """An AG-UI event without its nulls: a null in an optional field ends the run in every client."""
    return {"type": kind} | {name: value for name, value in fields.items() if value is not None}


def notes(**said: Any) -> dict[str, Any] | None:
    """``metadata`` with what is ours in it; None when there is nothing to say."""
    kept = {name: value for name, value in said.items() if value is not None}
    return {NAMESPACE: kept} if kept else None


def usages(reported: Iterable[ev.Usage]) -> list[dict[str, Any]] | None:
    """``TokenUsage`` for each model. A count of zero that may mean "not reported" is left out."""
    rows = []
    for usage in reported:
        spent, made = _count(usage.input), _count(usage.output)
        row = {"model": usage.model, "inputTokens": spent, "outputTokens": made, "totalTokens": _count(spent + made)}
        row |= {"reasoningTokens": _count(usage.reasoning), "cachedInputTokens": _count(usage.cached)}
        optional = ("model", "reasoningTokens", "cachedInputTokens")
        rows.append({name: value for name, value in row.items() if value or name not in optional})
    return rows or None


def _count(tokens: int) -> int:
    return max(0, min(tokens, SAFE))


def interrupt(asked: ev.Interrupted, owner: str | None) -> dict[str, Any]:
    """An ``Interrupt``. Where a remote task runs stays on the server."""
    fields = {
        "id": asked.interrupt_id,
        "reason": asked.reason,
        "message": asked.message,
        "toolCallId": asked.call_id,
        "responseSchema": asked.schema if isinstance(asked.schema, dict) else None,
        "expiresAt": asked.expires_at,
        "metadata": asked.metadata,
        "subagentRunId": owner,
    }
    return {name: value for name, value in fields.items() if value is not None}


def part(content: ev.Part) -> dict[str, Any]:
    """A part of a message that is not a text stream, as the value of a CUSTOM event."""
    fields = {
        "kind": content.kind,
        "text": content.text,
        "data": content.data,
        "url": content.url,
        "mimeType": content.mime_type,
        "name": content.name,
    }
    return {name: value for name, value in fields.items() if value not in ("", None)}
