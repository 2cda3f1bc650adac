"""What one A2A client can read. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

EXTENSION = "https://anabranch.dev/extensions/attribution/v1"
"""The extension by which a client asks for everything that has an author: sub-agents, tools, reasoning, routing.

The same address is the key, in ``metadata``, of what is told because of it.
"""

NAMESPACE = "anabranch"
"""The key, in ``metadata``, of what every client is told beyond the protocol."""

Version = Literal["1.0", "0.3"]


Name = Literal["standard", "caipe"]
"""What clients and configurations call a profile: the protocol as it is, or what ``caipe`` makes of it."""


class Profile(msgspec.Struct, frozen=True):
    """What a client can read: the version it speaks, whether it asked for ``EXTENSION`` (``attributed``), or else
    whether it was built for the Platform Engineer (``caipe``)."""

    version: Version = "1.0"
    attributed: bool = False
    caipe: bool = False
