"""The pure machines one at a time."""

from __future__ import annotations

from typing import Any

from ..options import Options, Row
from ..processes import computed


async def measure(options: Options) -> dict[str, Any]:
    """Microseconds a text delta of grammar and encoders, and an A2A frame of parser and translator."""
    return await computed("bench.inside", "micro", str(options.pick(100_000, 2000)))


ROWS = (
    Row("grammar, a text delta", "grammar_us", unit="us"),
    Row("AG-UI encoder, an entry", "encoder_us", unit="us"),
    Row("A2A encoder, an entry, beside that of AG-UI", "a2a_encoder_us", "encoder_us", unit="us"),
    Row("A2A parser and translator, a frame", "a2a_us", unit="us"),
)
