"""Which of a reader's notes on a run are worth keeping. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 16
"""Notes that are kept for a run and a kind of reader."""


def spare(seqs: Sequence[int]) -> int:
    """Which of at least three notes, at the rising ``seqs``, is missed least: not the first, nor the newest.

    Who comes back after a note that is gone begins at the one before it. Beside the entries that he missed since, that
    is little where notes lie close and long ago: so they become sparser with their age.
    """
    newest = seqs[-1]
    return min(range(1, len(seqs) - 1), key=lambda at: (seqs[at + 1] - seqs[at - 1]) / (newest - seqs[at - 1]))
