"""What a client was told that later frames go back to: the whole state of the encoder. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ... import events as ev


class Told(msgspec.Struct, forbid_unknown_fields=True):
    """Small, explicit, and the same whoever read the same entries: a note of it lets a reader begin in the middle.

    Nothing here has a default, so that bytes which are something else do not become a state.
    """

    run_id: str
    thread_id: str
    names: dict[str, str]
    """Of sub-agents, by invocation."""
    lanes: dict[str, str]
    """Invocations that are told as steps, and how each is called."""
    steps: dict[str, dict[str, str]]
    """Open steps: by agent, the name and how it is called."""
    asked: dict[str, ev.Interrupted]
    """Open questions."""
    ended: bool

    @classmethod
    def nothing(cls) -> Told:
        """Before the first entry."""
        return cls(run_id="", thread_id="", names={}, lanes={}, steps={}, asked={}, ended=False)

    def free(self, *words: str) -> str:
        """``words`` as the name of a step, numbered if a step with that name is open."""
        label = plain = ": ".join(filter(None, words))
        taken, number = set(self._labels()), 1
        while label in taken:
            number += 1
            label = f"{plain} #{number}"
        return label

    def _labels(self) -> Iterator[str]:
        yield from self.lanes.values()
        for inner in self.steps.values():
            yield from inner.values()
