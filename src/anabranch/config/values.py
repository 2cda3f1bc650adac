"""What a section is, and what a value may be. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec

_DAY_S = 86_400

Seconds = Annotated[float, msgspec.Meta(gt=0, le=_DAY_S)]
"""A time: ``30``, ``"30s"``, ``"500ms"``, ``"2m"``, ``"1h"``."""
Grace = Annotated[float, msgspec.Meta(ge=0, le=_DAY_S)]
"""A time that may be nothing."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Bytes = Annotated[int, msgspec.Meta(gt=0)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass
