"""Whether an agent can be asked, by what looks at its card have shown, and when to look again. Pure.

| state | means | the next look |
|---|---|---|
| ``unknown`` | nobody has looked yet; it may be asked | at once |
| ``up`` | the last look saw a card that can be used | after 60 s, or within 1 s when a request failed |
| ``down`` | nothing is sent to it (an open circuit) | after as long as it has been down: 1 s at least, 30 s at most |

Whoever wants to ask an agent that is down has it looked at first: that look, and no request, is what finds out whether
it is back (half open). A request that fails brings a look and is no evidence of its own, as it may have failed for one
user only. An agent that is up and does not show its card in time may be busy: only the second time is it down.
"""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["unknown", "up", "down"]

UP_S = 60.0
DOWN_S = (1.0, 30.0)
SUSPECT_S = 1.0
_SLOW = 2  # looks in a row without an answer


class Look(msgspec.Struct, frozen=True):
    """What one look at a card has shown: nothing is wrong, or a reason. ``slow``: there was no answer in time."""

    reason: str = ""
    slow: bool = False


SEEN = Look()


class Health:
    """One agent's. Times are seconds of one clock; ``since`` is when it came into its state."""

    def __init__(self, now: float) -> None:
        self.state: State = "unknown"
        self.reason = ""
        self.since = self.due = now
        self.checked: float | None = None
        self.failures = 0
        """Looks in a row that failed."""

    @property
    def is_down(self) -> bool:
        """Whether nothing is to be sent to it."""
        return self.state == "down"

    def feed(self, look: Look, now: float) -> None:
        """``look`` has ended."""
        self.checked = now
        if not look.reason:
            self.failures, self.reason = 0, ""
            self._become("up", now)
            self.due = now + UP_S
            return
        self.failures += 1
        if self.state == "up" and look.slow and self.failures < _SLOW:
            self.due = now + SUSPECT_S
            return
        self.reason = look.reason
        self._become("down", now)
        least, most = DOWN_S
        self.due = now + min(most, max(least, now - self.since))

    def suspect(self, now: float) -> None:
        """A request has failed: look at once, but not twice within a second."""
        earliest = now if self.checked is None else max(now, self.checked + SUSPECT_S)
        self.due = min(self.due, earliest)

    def _become(self, state: State, now: float) -> None:
        if state != self.state:
            self.state, self.since = state, now
