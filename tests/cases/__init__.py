"""Scenarios, as data: what a source says, and what a reader must have read in the end.

Each case goes through the grammar, the log and every protocol: whole, cut after each item and ended in each way,
resumed at each cursor, rebuilt from each prefix of its log. A new bug becomes a new case here.
"""

from . import agents, endings, reasoning, states, texts, tools
from ._case import Case

CASES: list[Case] = [case for group in (texts, tools, agents, reasoning, states, endings) for case in group.CASES]
assert len({case.name for case in CASES}) == len(CASES), "two cases have one name"

__all__ = ("CASES", "Case")
