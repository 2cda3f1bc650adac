"""What the demo and the bench measure of a stream, from recorded times only. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def lags_ms(sent: Sequence[Sequence[int]], received: Iterable[tuple[int, int]]) -> list[float]:
    """How late each token was read, in milliseconds.

    ``sent`` has one ``(characters so far, nanoseconds)`` a token, stamped before it was published; ``received`` has one
    such pair a read. A token has arrived with the first read that holds all of it.
    """
    lags: list[float] = []
    reads = iter(received)
    characters = at_ns = 0
    for end, sent_ns in sent:
        while characters < end:
            try:
                characters, at_ns = next(reads)
            except StopIteration:
                return lags  # the rest never came, which `text_exact` tells
        lags.append((at_ns - sent_ns) / 1e6)
    return lags


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of ``values`` lie; 0.0 of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))] if ranked else 0.0
