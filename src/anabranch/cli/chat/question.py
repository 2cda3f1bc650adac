"""What a user types, as the answer to an agent's question. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

Interrupt = dict[str, Any]

_YES, _NO = frozenset({"y", "yes"}), frozenset({"n", "no"})


def asked(interrupt: Interrupt) -> str:
    """The question, and how to answer it when not in words."""
    question = str(interrupt.get("message") or f"it needs an answer ({interrupt.get('reason', 'no reason given')})")
    schema = interrupt.get("responseSchema")
    if not isinstance(schema, dict) or schema.get("type") == "string":
        return question
    if _yes_or_no(schema):
        return f"{question} [y/n]"
    return f"{question} [JSON of the form {msgspec.json.encode(schema).decode()}]"


def answered(interrupt: Interrupt, line: str) -> Any:
    """``line`` as the payload that ``interrupt`` asks for. Raises ``ValueError``, which says what to type."""
    schema = interrupt.get("responseSchema")
    if not isinstance(schema, dict) or schema.get("type") == "string":
        return line
    word = line.strip().lower()
    if _yes_or_no(schema) and word in _YES | _NO:
        return {"approved": word in _YES} if schema.get("type") != "boolean" else word in _YES
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        raise ValueError("type y or n" if _yes_or_no(schema) else "type JSON of that form") from None


def _yes_or_no(schema: dict[str, Any]) -> bool:
    fields = schema.get("properties")
    return schema.get("type") == "boolean" or (isinstance(fields, dict) and "approved" in fields)
