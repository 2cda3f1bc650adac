"""All messages of a thread, each at its place in the tree that its runs make. Pure.

``threads`` says what a request means; this is what it looks at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..request import Message
from ..transcript import Outcome

if TYPE_CHECKING:
    from ._base import RunRecord
    from .threads import Turn


class Spot:
    """A message at its place, after ``above``. ``run`` was given or has ``written`` it.

    ``line`` is the newest run whose path has it.
    """

    __slots__ = ("above", "line", "message", "run", "written")

    def __init__(self, message: Message, above: Spot | None, run: int, written: bool) -> None:
        self.message, self.above, self.run, self.written = message, above, run, written
        self.line = -1


class Tree:
    """A thread's messages. Runs are known by number, oldest first; a message may be on several branches."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.runs = {turn.record.key: run for run, turn in enumerate(turns)}
        self.tips: list[Spot | None] = []
        self._spots: defaultdict[str, list[Spot]] = defaultdict(list)
        self._void: set[str] = set()
        self._stand_ins: set[str] = set()
        for run, turn in enumerate(turns):
            self._grow(run, turn, turn.outcome or Outcome())
        for run in reversed(range(len(turns))):
            spot = self.tips[run]
            while spot is not None and spot.line < 0:
                spot.line = run
                spot = spot.above

    def _grow(self, run: int, turn: Turn, outcome: Outcome) -> None:
        tip = self._start(turn.record)
        for written, messages in enumerate((turn.given, outcome.messages)):
            for message in messages:
                tip = Spot(message, tip, run, bool(written))
                self._spots[message.id].append(tip)
        self.tips.append(tip)
        self._void.update(outcome.void)
        self._stand_ins.update(outcome.stand_ins)

    def _start(self, record: RunRecord) -> Spot | None:
        parent = self.runs.get(record.parent or "", len(self.tips))
        tip = spot = self.tips[parent] if parent < len(self.tips) else None
        while record.upto and spot is not None and spot.message.id != record.upto:
            spot = spot.above
        return spot or tip

    def path(self, run: int) -> list[Spot]:
        """All messages up to the end of ``run``."""
        path = []
        spot = self.tips[run]
        while spot is not None:
            path.append(spot)
            spot = spot.above
        return path[::-1]

    def recognisable(self, messages: Iterable[Message]) -> list[Message]:
        """Those of ``messages`` that can be part of the thread, each id once and none without an id."""
        copy: dict[str, Message] = {}
        for message in messages:
            foreign = message.role in ("system", "developer") or message.id in self._void
            if not foreign and (message.id in self._spots or not _is_empty(message)):
                named = message if message.id else replace(message, id=f"unnamed:{len(self._spots)}.{len(copy)}")
                copy.setdefault(named.id, named)
        return [*copy.values()]

    def runs_with(self, copy: Sequence[Message]) -> list[int]:
        """The newest run of each path that has the last known message; the newest of all when none is known."""
        for message in reversed(copy):
            if message.id in self._spots:
                return sorted({spot.line for spot in self._spots[message.id]}, reverse=True)
        return [len(self.turns) - 1] if self.turns else []

    def stands_in(self, message: Message) -> bool:
        """Whether it is a result that only counts until the client sends its own."""
        return message.role == "tool" and message.id in self._stand_ins

    def answered(self, messages: Iterable[Message]) -> set[str]:
        """The calls that have a result among ``messages`` that does not stand in for another."""
        results = [message for message in messages if message.role == "tool" and not self.stands_in(message)]
        return {message.tool_call_id for message in results if message.tool_call_id is not None}

    def told(self, path: Iterable[Spot], given: Sequence[Message] = ()) -> tuple[Message, ...]:
        """The messages of ``path`` as they are after ``given``: what stood in for a result that has come is gone."""
        messages = [spot.message for spot in path]
        answered = self.answered([*messages, *given])
        return tuple(
            message for message in messages if not (message.tool_call_id in answered and self.stands_in(message))
        )


def _is_empty(message: Message) -> bool:
    """Whether it is an answer that says nothing, which no provider takes."""
    return message.role == "assistant" and not (message.content or message.parts or message.tool_calls)
