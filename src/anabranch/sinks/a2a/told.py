"""What a client was told that later frames go back to: the whole state of the encoder. Pure."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from ... import events as ev


class Told(msgspec.Struct, forbid_unknown_fields=True):
    """Small, explicit, and the same whoever read the same entries: a note of it lets a reader begin in the middle.

    Nothing here has a default, so that bytes which are something else do not become a state.
    """

    run_id: str
    task_id: str
    context_id: str
    since_ms: int
    """When the task began to work."""
    agents: dict[str, dict[str, Any]]
    """What is said of each sub-agent, by invocation."""
    waiting: dict[str, dict[str, Any]]
    """Texts that have opened and say nothing yet, and how their artifacts will begin."""
    begun: dict[str, None]
    """Artifacts that the client has, by id: only these can be added to, or made void."""
    asked: dict[str, ev.Interrupted]
    """Open questions."""
    ended: bool

    @classmethod
    def nothing(cls) -> Self:
        """Before the first entry."""
        return cls("", "", "", 0, {}, {}, {}, {}, False)
