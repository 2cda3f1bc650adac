"""What a client of this profile was told, and what it is owed at the end. Pure."""

from __future__ import annotations

from typing import Any, Literal, Self

import msgspec

from ..told import Told

Stream = Literal["", "answer", "text", "narration", "held"]
"""Where a message is told; ``""`` before its first piece, ``held`` until it is its turn."""


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """One message. Of one that cannot be the answer only where it goes is kept, and only while it is open."""

    agent: str
    is_answer: bool | None
    """None while nobody knows."""
    place: list[int] | None
    """Where it stands in the answer; None when it cannot be part of it."""
    stream: Stream
    open: bool
    pieces: list[str]
    parts: list[dict[str, Any]]


class CaipeTold(Told):
    """Other than ``Told`` it grows with the answer: this profile sends the whole of it once more at the end."""

    agent_name: str
    said: dict[str, Said]
    places: dict[str, int]
    """The order in which agents that answer, and messages that may be the answer, began."""
    answering: dict[str, list[int]]
    """Agents that answer and have not ended, with their places."""
    how: Literal["", "live", "whole"]
    """How the answer is told: in pieces that are marked as it, or only at the end; ``""`` before that is decided."""
    shown: list[str]
    """The messages in the stream of the answer."""
    calls: dict[str, list[str]]
    """Open tool calls: the tool and the agent."""
    plan: dict[str, Any]
    """The activity that is the plan."""
    stale: bool
    """Whether the client has not got all of it that it should have."""
    steps: list[dict[str, Any]]
    """The plan as the client has it."""

    @classmethod
    def nothing(cls) -> Self:
        """Before the first entry."""
        return cls("", "", "", 0, {}, {}, {}, {}, False, "", {}, {}, {}, "", [], {}, {}, False, [])

    def join(self) -> None:
        """One string of each message: who read the same entries in other portions has the same state."""
        for said in self.said.values():
            said.pieces[:] = ["".join(said.pieces)]
