"""Where a text names an agent, and how surely. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from .phrases import RESERVED
from .words import Word, fold, is_letter, is_mark, split, visible

SUPERVISOR = "supervisor"
"""The name by which a request insists on the supervisor. No agent has it."""

_AT = "@\uff20\ufe6b"
_APOSTROPHES = "'\u2019\u02bc\uff07"
# Directly before or after a word, these make it a part of something else: a host, a path, a flag, an identifier.
_SIGNS = frozenset("-_./\\@:#$=~%!\u2010\u2011" + _AT)
_HYPHENS = ("", "-", "_", "\u2010", "\u2011")
_SPACES = (" ", "\u00a0", "\u3000")


class Known(msgspec.Struct, frozen=True):
    """An agent as the router knows it. With ``named`` false only ``@name`` and pins reach it, not its bare name."""

    name: str
    aliases: tuple[str, ...] = ()
    named: bool = True


class Mention(NamedTuple):
    """Words ``first`` to before ``end`` name one of ``agents``: more than one where they share an alias.

    ``how``: addressed (``@name``), named, or in doubt (a part of something longer, such as ``komodor.example.com``).
    """

    agents: tuple[str, ...]
    called: str
    first: int
    end: int
    how: Literal["addressed", "named", "doubtful"]


class _Entry(NamedTuple):
    agent: str
    called: str  # as configured
    own: bool  # the agent's name, not an alias
    bare: bool  # counts without an @
    breaks: dict[int, str]  # after how many letters its own spelling has which sign
    spaced: bool  # a space is as good as a sign of its own
    alone: bool  # one character of a script without spaces


class Names:
    """Every name and alias of the known agents, by its letters."""

    def __init__(self, known: Iterable[Known]) -> None:
        self.agents: tuple[str, ...] = tuple(agent.name for agent in known)
        self._entries: dict[str, list[_Entry]] = {}
        for agent in (*known, Known(SUPERVISOR, named=False)):
            for called in dict.fromkeys((agent.name, *agent.aliases)):
                self._add(agent, called)
        self._beginnings = {letters[:count] for letters in self._entries for count in range(1, len(letters) + 1)}

    def _add(self, agent: Known, called: str) -> None:
        words = split(called)
        if not words:
            return
        letters, breaks = "", dict[int, str]()
        for word, after in zip(words, [*words[1:], None], strict=True):
            letters += word.text
            if after is not None:
                breaks[len(letters)] = visible(called[word.end : after.start])
        foreign = words[0].script in ("spaceless", "hangul", "katakana")
        alone = foreign and len(letters) < 2
        bare = agent.named and not alone and (foreign or len(letters) > 2) and not _reserved(words)
        edges = [0, *breaks, len(letters)]
        # Not where all parts are as short as particles: "to do" is rarely the agent to-do.
        spaced = any(end - start > 2 for start, end in zip(edges, edges[1:], strict=False))
        entry = _Entry(agent.name, called, called == agent.name, bare, breaks, spaced, alone)
        self._entries.setdefault(letters, []).append(entry)

    def exactly(self, called: str) -> str | None:
        """The agent whose name or alias ``called`` is, in any case; ``None`` when none or several are."""
        found = self._entries.get("".join(word.text for word in split(called)), [])
        alike = [entry for entry in found if fold(entry.called) == fold(called)]
        agents = {entry.agent for entry in alike if entry.own} or {entry.agent for entry in alike}
        return agents.pop() if len(agents) == 1 else None

    def mentions(self, text: str, words: Sequence[Word]) -> list[Mention]:
        """Every mention in ``text``, in order; of names that overlap the longest."""
        found, index = [], 0
        while index < len(words):
            mention = self._at(text, words, index)
            if mention is not None:
                found.append(mention)
            index = index + 1 if mention is None else mention.end
        return found

    def _at(self, text: str, words: Sequence[Word], first: int) -> Mention | None:
        if words[first].text not in self._beginnings:
            return None
        at = _is_address(text, words[first])
        letters, gaps, found = "", dict[int, str](), None
        for index in range(first, len(words)):
            if index > first:
                gap = visible(text[words[index - 1].end : words[index].start])
                if len(gap) > 1:
                    break
                gaps[len(letters)] = gap
            letters += words[index].text
            if letters not in self._beginnings:
                break
            fitting = [e for e in self._entries.get(letters, ()) if (at or e.bare) and _fits(e, gaps)]
            if fitting and _stands(words, first, index, fitting[0].alone):
                found = _mention(text, words, first, index, fitting, at)
        return found


@lru_cache(maxsize=64)
def names_of(known: tuple[Known, ...]) -> Names:
    """The names of ``known``, made once."""
    return Names(known)


def _reserved(words: Sequence[Word]) -> bool:
    """Whether it is one of the words that routing goes by."""
    return any(table.holds(words) for table in RESERVED)


def _fits(entry: _Entry, gaps: dict[int, str]) -> bool:
    """Whether the signs in the text can be those of the name.

    A hyphen, ``_`` and nothing are as good as each other, and a space is where the name has a sign. Elsewhere it is
    not, or "to get her" were the agent together.
    """
    for place, gap in gaps.items():
        own = entry.breaks.get(place)
        if gap not in _HYPHENS and gap != own and not (gap in _SPACES and own and entry.spaced):
            return False
    return True


def _stands(words: Sequence[Word], first: int, last: int, alone: bool) -> bool:
    """Whether the name is no piece of a longer word of a script whose words have no signs at their ends."""

    def touch(left: int, scripts: tuple[str, ...]) -> bool:
        if left < 0 or left + 1 >= len(words) or words[left].end != words[left + 1].start:
            return False
        return words[left].script in scripts and words[left + 1].script in scripts

    if touch(first - 1, ("hangul",)):  # particles follow a Korean noun, nothing precedes it
        return False
    scripts = ("hangul", "spaceless")
    return not alone or not (touch(first - 1, scripts) or touch(last, scripts))


def _mention(text: str, words: Sequence[Word], first: int, last: int, fitting: list[_Entry], at: bool) -> Mention:
    start, end = words[first].start, words[last].end
    written = fold(text[start:end])
    alike = [entry for entry in fitting if fold(entry.called) == written] or fitting
    best = [entry for entry in alike if entry.own] or alike
    agents = tuple(dict.fromkeys(entry.agent for entry in best))
    whole = not _goes_on(text, end) and (at or not _comes_from(text, start))
    how: Literal["addressed", "named", "doubtful"] = "doubtful" if not whole else "addressed" if at else "named"
    return Mention(agents, best[0].called, first, last + 1, how)


def _is_address(text: str, word: Word) -> bool:
    """Whether an ``@`` that begins a word stands right before: not that of `user@host`."""
    before = visible(text[max(word.start - 8, 0) : word.start])
    if not before or before[-1] not in _AT:
        return False
    return len(before) < 2 or not (is_letter(before[-2]) or before[-2] in "._-+%/:=\\" + _AT)


def _comes_from(text: str, start: int) -> bool:
    """Whether a sign ties what begins at ``start`` to what stands before it."""
    before = visible(text[max(start - 8, 0) : start])
    return bool(before) and before[-1] in _SIGNS


def _goes_on(text: str, end: int) -> bool:
    """Whether what ends at ``end`` is part of something longer: a sign and more letters, or a mark."""
    if end < len(text) and is_mark(text[end]):
        return True
    index = end
    while index < len(text) and text[index] in _SIGNS:
        index += 1
    return index > end and index < len(text) and (text[index].isalnum() or is_mark(text[index]))


def possessive(text: str, word: Word) -> bool:
    """Whether an apostrophe follows: `komodor's` is about the agent, also after an ``@``."""
    return text[word.end : word.end + 1] in tuple(_APOSTROPHES)
