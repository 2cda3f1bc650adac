"""Putting the tail of a stream after snapshots of its task. Pure.

A stream broke off, the task went on, and a second stream tells the rest of it: from where? A server of 1.0 tells the
task first, but one that is in use repeats what is in it already, another leaves something out, and no event has a
number. So a piece of the tail is passed on only when its place is proven:

- A snapshot is what the task was at some moment. It is always passed on, and what it holds beyond what was shown is
  shown.
- What a tail says of an artifact is one stretch of that artifact's text. As far as it came before a snapshot was asked
  for, it is in that snapshot, behind what the artifact had before the tail began. If that is in one place only, this is
  the place, and all that follows in the tail has its place, too.
- If not ("ha ha ha"), or if a piece does more than to add text, the next snapshot tells, not token by token. Until then
  nothing else is passed on, so that nothing is shown before what came before it.

That a server keeps an event before it sends it is taken for granted.
"""

from __future__ import annotations

from . import _wire as wire


class _Tail:
    """What a tail says of one artifact that had ``low`` characters before the tail began."""

    __slots__ = ("at", "low", "sound", "text")

    def __init__(self, low: int) -> None:
        self.low = low
        self.text = ""  # as long as its place is unknown
        self.at: int | None = None  # the place of what follows
        self.sound = True  # it only adds


class Join:
    """One task that is looked at while a tail of it is read."""

    def __init__(self) -> None:
        self.over = False
        self.wanting = True  # only a snapshot tells what is new
        self._bare = False  # nothing of the tail has come
        self._shown: dict[str, int] = {}  # how much of each artifact's text was passed on
        self._lows: dict[str, int] = {}
        self._tails: dict[str, _Tail] = {}

    def tail_begins(self) -> None:
        """A tail will be asked for, after the newest snapshot."""
        self._bare, self._lows, self._tails = True, dict(self._shown), {}

    def look(self, task: wire.Task) -> None:
        """A snapshot that is passed on. It was asked for after all that came of the tail."""
        self.wanting = False
        self.over = wire.end(task.status) is not None
        for artifact in task.artifacts or ():
            id, text = artifact.artifact_id or "", _text(artifact)
            shown = self._shown.get(id, 0)
            self._shown[id] = max(shown, len(text))
            self.wanting = self.wanting or len(text) < shown
            tail = self._tails.get(id)
            if tail is not None and tail.at is None and tail.text:
                place = text.find(tail.text, tail.low)
                if place >= 0 and text.find(tail.text, place + 1) < 0:
                    tail.at, tail.text = place + len(tail.text), ""

    def tail(self, item: bytes, result: wire.Result) -> bytes | None:
        """What is passed on of the next item of the tail; None: nothing, or what the next snapshot tells."""
        if self._bare:  # the snapshots before it may lack something that the tail lacks, too
            self._bare, self.wanting = False, True
        if result.artifact_update is not None:
            return self._piece(item, result.artifact_update)
        if result.message is not None:
            return item
        status = result.status_update.status if result.status_update is not None else None
        if wire.end(status) is not None and not self.wanting:
            self.over = True
            return item
        if status is None or status.message is not None or wire.end(status) is not None:
            self.wanting = True
        return None

    def _piece(self, item: bytes, update: wire.ArtifactUpdate) -> bytes | None:
        artifact = update.artifact or wire.Artifact()
        id, text = artifact.artifact_id or "", _text(artifact)
        tail = self._tails.get(id)
        if tail is None:
            tail = self._tails[id] = _Tail(self._lows.get(id, 0))
            if not update.append and id not in self._lows:
                tail.at = 0  # it begins in the tail
        elif not update.append:
            tail.sound = False
        if tail.at is None:
            tail.sound = tail.sound and bool(update.append)
            tail.text += text if tail.sound else ""
            self.wanting = True
            return None
        start, tail.at = tail.at, tail.at + len(text)
        if not tail.sound or any(part.text is None for part in artifact.parts or ()):
            self.wanting = True
        if self.wanting:
            return None
        shown = self._shown.get(id, 0)
        self._shown[id] = max(shown, tail.at)
        new = text[shown - start :]
        if new == text:
            return item
        return wire.piece(update, new) if new else None


def _text(artifact: wire.Artifact) -> str:
    return "".join([part.text for part in artifact.parts or () if part.text is not None])
