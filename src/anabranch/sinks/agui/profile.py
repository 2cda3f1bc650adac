"""What one AG-UI client can read. Pure."""

from __future__ import annotations

import re
from typing import Literal, cast, get_args

import msgspec

from ...errors import ClientError

PROTOCOL_VERSION = "1.0"
"""The version of AG-UI that is written, declared on RUN_STARTED."""

Subagents = Literal["native", "steps"]
"""How sub-agents are told: SUBAGENT_* events and ``subagentRunId``, or steps and named messages (any client)."""

_OLDER = re.compile(r"0+\.[0-9]+")


class Profile(msgspec.Struct, frozen=True):
    """What a client can read. Every profile of a run has the same cursors.

    ``modern`` clients speak 1.0 or later. Older ones (0.0.59 and before) do not declare a version, refuse an outcome
    they do not know, and before 0.0.59 refuse SUBAGENT_* events as well.
    """

    modern: bool = False
    subagents: Subagents = "steps"

    @classmethod
    def negotiate(cls, protocol_version: str | None, subagents: str | None = None) -> Profile:
        """The profile of a client that declares ``protocol_version`` (None or empty: older than 1.0).

        ``subagents`` is what the caller asked for, if it did. A version outside the published grammar counts as a newer
        one, as AG-UI's versioning rules say. Raises ``ClientError`` for an unknown value of ``subagents``.
        """
        modern = bool(protocol_version) and not _OLDER.fullmatch(protocol_version or "")
        if not subagents:
            return cls(modern, "native" if modern else "steps")
        if subagents not in ("native", "steps"):
            raise ClientError(f"subagents must be 'native' or 'steps', not {subagents[:40]!r}.", status=422)
        return cls(modern, cast(Subagents, subagents))

    @classmethod
    def of(cls, dialect: str) -> Profile:
        """The profile that ``dialect`` names, or that of a client of which nothing is known."""
        return _DIALECTS.get(dialect, cls())

    @property
    def dialect(self) -> str:
        """What ``of`` reads."""
        return f"agui:{'modern' if self.modern else 'older'}:{self.subagents}"


_DIALECTS = {
    profile.dialect: profile
    for profile in (Profile(modern, way) for modern in (True, False) for way in get_args(Subagents))
}
