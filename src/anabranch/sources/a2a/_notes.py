"""What an agent of our own kind notes in ``metadata`` and in its questions, read leniently. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ... import events as ev
from . import _wire as wire
from .translate import content

_PHASES = frozenset(get_args(ev.Phase))
_SIDES = frozenset({"source", "client", "server"})


def text_of(said: dict[str, Any], field: str) -> str:
    """A field that is text; ``""`` when it is none."""
    found = said.get(field)
    return found if isinstance(found, str) else ""


def phase_of(artifact: wire.Artifact) -> Any:
    """The phase of a message, as far as it is told."""
    found = wire.noted(artifact.metadata).get("phase")
    return found if isinstance(found, str) and found in _PHASES else "undetermined"


def is_note(part: wire.Part) -> bool:
    """Whether it is an annotation of the message it stands in."""
    return wire.noted(part.metadata, wire.EXTENSION).get("kind") == "annotation"


def returned(agent: str, said: dict[str, Any], artifact: wire.Artifact) -> ev.ToolReturned:
    """The result of a tool."""
    text, parts = content(artifact.parts)
    return ev.ToolReturned(
        agent=agent,
        call_id=text_of(said, "callId"),
        content=text,
        parts=tuple(parts),
        is_error=said.get("isError") is True,
        error=text_of(said, "error") or None,
    )


def routed(said: dict[str, Any]) -> list[ev.Event]:
    """Who was chosen, if that can be read."""
    try:
        told = {"route": said["route"], "agents": said["agents"], "reason": said["reason"]}
        return [msgspec.convert({"type": "routed", **told, "fallback_from": said.get("fallbackFrom")}, ev.Routed)]
    except (KeyError, msgspec.ValidationError, UnicodeEncodeError):
        return []


def failed(event: ev.RunFailed, said: dict[str, Any]) -> ev.RunFailed:
    """``event`` with the code and the side that were noted."""
    side = said["side"] if text_of(said, "side") in _SIDES else "source"
    flags = {field: said.get(field) is True for field in ("retryable", "partial")}
    return replace(event, code=text_of(said, "code") or event.code, side=side, **flags)


def questions(message: wire.Message, remote: ev.Remote) -> Iterator[ev.Interrupted]:
    """The questions of an agent of our own kind: for each a text, then data that say how it is to be answered."""
    text = ""
    for part in message.parts or ():
        said = part.data if part.data is not UNSET and isinstance(part.data, dict) else {}
        if part.text is not None:
            text = part.text
        elif id := text_of(said, "interruptId"):
            reason, metadata = text_of(said, "reason"), said.get("metadata")
            yield ev.Interrupted(
                interrupt_id=id,
                reason=reason,
                message=text if text != reason else None,
                schema=said.get("schema"),
                expires_at=text_of(said, "expiresAt") or None,
                remote=remote,
                metadata=metadata if isinstance(metadata, dict) else None,
            )
