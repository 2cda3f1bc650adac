"""What a text says about the agents: who is named, who is excluded, what joins them, what is in doubt. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .naming import Mention, Names, possessive
from .phrases import AND, AND_BEFORE, BETWEEN, NOT, OR, SHUN, WITHOUT, Phrases
from .words import split, unquoted, visible

_STOPS = frozenset(".,;:!?\n()[]{}…—–،؛؟。、，；：！？।\ufffc")
_QUESTION = re.compile("[?\uff1f\u061f]+")
_ADDRESS_ENDS = " \t\r\n,:;،、，：；–—-"


class Reading:
    """A text, read once.

    ``mentions`` are all of what looks like an agent, ``kept`` those that are sure and not ``excluded``. ``unclear`` is
    a negation that may be about any of them. ``quoted`` are the agents in what is only quoted. ``cut`` says that the
    middle of a long text was not read.
    """

    def __init__(self, text: str, names: Names) -> None:
        self.text = text
        self._plain, quoted, self.cut = unquoted(text)
        self.words = split(self._plain)
        self.mentions = names.mentions(self._plain, self.words)
        self.quoted = agents_of(names.mentions(quoted, split(quoted)))
        self._starts = {mention.first: mention for mention in self.mentions}
        self._named = {index for mention in self.mentions for index in range(mention.first, mention.end)}
        self.excluded: set[str] = set()
        self.unclear: str | None = None
        self._negations()
        self.kept = [m for m in self.mentions if m.how != "doubtful" and not self.excluded.issuperset(m.agents)]

    def first_of(self, *tables: Phrases) -> str | None:
        """The first phrase of one of ``tables`` that is no part of a name, as it is written, in lower case."""
        for table in tables:
            for first, end in table.within(self.words):
                if self._named.isdisjoint(range(first, end)):
                    return self._phrase(first, end)
        return None

    def questions(self) -> int:
        """How many questions there are, by their marks."""
        return len(_QUESTION.findall(self._plain))

    def _phrase(self, first: int, end: int) -> str:
        return visible(self._plain[self.words[first].start : self.words[end - 1].end]).lower()

    # --- negation ---

    def _negations(self) -> None:
        excluded_at: set[int] = set()
        for table, first, end in self._negated():
            target = self._target(end) if table is not NOT else None
            if target is not None:
                self.excluded.update(target.agents)
                excluded_at.add(target.first)
            elif table is not WITHOUT or not self._is_about_else(end):
                self.unclear = self.unclear or self._phrase(first, end)
        for mention, after in zip(self.mentions, self.mentions[1:], strict=False):
            # "without komodor and argocd": is argocd excluded too?
            if mention.first in excluded_at and after.first not in excluded_at and self._only_joined(mention, after):
                self.unclear = self.unclear or self._phrase(mention.first, after.end)

    def _negated(self) -> Iterator[tuple[Phrases, int, int]]:
        index = 0
        while index < len(self.words):
            counts = [(table.at(self.words, index), table) for table in (SHUN, WITHOUT, NOT)]
            count, table = max(counts, key=lambda found: found[0])
            if count and self._named.isdisjoint(range(index, index + count)):
                yield table, index, index + count
            index += count or 1

    def _target(self, index: int) -> Mention | None:
        """The mention that follows with nothing but a few particles before it."""
        for _ in range(5):
            if index >= len(self.words) or not self._flows(index - 1):
                return None
            if index in self._starts:
                return self._starts[index]
            count = BETWEEN.at(self.words, index)
            if not count:
                return None
            index += count
        return None

    def _is_about_else(self, index: int) -> bool:
        """Whether a preposition has a word of its own after it, and no agent is named from there on."""
        follows = index < len(self.words) and self._flows(index - 1)
        return follows and (not self.mentions or self.mentions[-1].end <= index)

    def _flows(self, index: int) -> bool:
        """Whether no punctuation stands between a word and the next."""
        return _STOPS.isdisjoint(self._plain[self.words[index].end : self.words[index + 1].start])

    def _only_joined(self, left: Mention, right: Mention) -> bool:
        between = self.words[left.end : right.first]
        return not between or any(table.holds(between) for table in (AND, OR)) or between[0].text in AND_BEFORE

    # --- several agents ---

    def side_by_side(self) -> bool:
        """Whether each agent is joined to the next: by "and", or by a comma in a list of names or that has an "and"."""
        joined, listed = False, True
        for left, right in zip(self.kept, self.kept[1:], strict=False):
            if left.agents == right.agents:
                continue
            between = self._plain[self.words[left.end - 1].end : self.words[right.first].start]
            if self._and(left, right) or not {"&", "+"}.isdisjoint(between):
                joined = True
            elif _STOPS.isdisjoint(between):
                return False
            else:
                listed = listed and left.end == right.first
        return joined or listed

    def _and(self, left: Mention, right: Mention) -> bool:
        if left.end < right.first and self.words[right.first - 1].text in AND_BEFORE:
            return True
        for first, end in AND.within(self.words, left.end, right.first):
            word = self.words[first]
            # Alone between spaces: no `e` of "e.g.", no `ve` of "I've".
            alone = self._plain[word.start - 1].isspace() and self._plain[self.words[end - 1].end].isspace()
            if word.script in ("spaceless", "hangul") or alone:
                return True
        return False

    # --- addresses ---

    def leading(self) -> list[Mention]:
        """The addresses that the text begins with."""
        leading: list[Mention] = []
        end = 0
        for mention in self.mentions:
            before = visible(self._plain[end : self.words[mention.first].start])
            if mention.how != "addressed" or before.strip(" \t\r\n,:;&+")[1:]:
                break
            leading.append(mention)
            end = self.words[mention.end - 1].end
        return leading

    def question(self, agents: Sequence[str]) -> str:
        """The text, without the address at its beginning where that names just ``agents`` and more follows."""
        leading = self.leading()
        if not leading or {*agents_of(leading)} != {*agents}:
            return self.text
        word = self.words[leading[-1].end - 1]
        if possessive(self._plain, word):
            return self.text
        return self.text[word.end :].lstrip(_ADDRESS_ENDS) or self.text


def agents_of(mentions: Sequence[Mention]) -> tuple[str, ...]:
    """The agents of ``mentions``, each once, in order."""
    return tuple(dict.fromkeys(agent for mention in mentions for agent in mention.agents))
