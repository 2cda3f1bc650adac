"""What a client is told that subscribes to a task: the task as it is now, as one frame. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...events import RunStarted
from ...log._base import Entry
from .._base import Cursor, Encoder
from .encode import Envelope, framed
from .profile import Profile
from .task import TaskFold


class Snapshot:
    """See ``sinks._follow.Prelude``: the Task that the entries come to, with the cursor of the last of them.

    ``encoder`` is fresh. ``fold`` was fed the earlier runs of the task, each after what it was ``given``, and what this
    one was given. When the run's first entries are gone, ``started`` is in their place.
    """

    def __init__(
        self, encoder: Encoder, fold: TaskFold, profile: Profile, envelope: Envelope, started: RunStarted | None = None
    ) -> None:
        self._encoder, self._fold, self._profile, self._envelope = encoder, fold, profile, envelope
        self._started = started
        self._run_id = ""
        self._last = Cursor(0, 0)

    def feed(self, entries: Sequence[Entry]) -> None:
        """Take the next entries. Raises what an entry raises that cannot be told."""
        if entries and not self._run_id and entries[0].seq > 1 and self._started:
            self._take(Entry(0, 1, entries[0].at_ms, self._started))
        for entry in entries:
            self._take(entry)

    def frames(self) -> Iterator[bytes]:
        """What they come to."""
        if self._run_id:
            task = self._fold.task(Profile("1.0", self._profile.attributed))
            yield framed({"task": task}, self._last.text(self._run_id), self._profile, self._envelope)

    def _take(self, entry: Entry) -> None:
        if isinstance(entry.event, RunStarted):
            self._run_id = entry.event.run_id
        self._fold.feed(entry)
        self._last = Cursor(entry.seq, max(0, len(self._encoder.feed(entry)) - 1))
