"""Who watches which run, and what it means for a run that its last watcher has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import contextmanager

from ._base import RunRecord


class Watchers(Collection[str]):
    """The watchers of all runs; as a collection, the keys of the runs that are watched.

    ``live`` has the keys of the runs that are not over. ``cancel`` is called with the key of one that nobody watches,
    when its policy says so.
    """

    def __init__(self, live: Container[str], cancel: Callable[[str], None]) -> None:
        self._live, self._cancel = live, cancel
        self._counts: dict[str, int] = {}
        self._forgotten: set[str] = set()
        self._leaving: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._counts

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def awaited(self) -> set[str]:
        """The keys of the runs that are cancelled if nobody comes back to them."""
        return set(self._leaving)

    @contextmanager
    def one(self, run: RunRecord) -> Iterator[None]:
        """Within it there is one watcher more. The last one who leaves has ``run.on_disconnect`` applied."""
        key = run.key
        self._counts[key] = self._counts.get(key, 0) + 1
        self.over(key)
        try:
            yield
        finally:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
                self._forgotten.discard(key)
                self._left_alone(run)

    def over(self, key: str) -> None:
        """Nobody has to come back to this run."""
        if leaving := self._leaving.pop(key, None):
            leaving.cancel()

    def forget(self, key: str) -> None:
        """This run is being removed, maybe while somebody is about to read it."""
        if key in self._counts:
            self._forgotten.add(key)

    def misses(self, key: str) -> bool:
        """Whether this run went while it was watched."""
        return key in self._forgotten

    def _left_alone(self, run: RunRecord) -> None:
        policy, key = run.on_disconnect, run.key
        if policy == "cancel":
            self._cancel(key)
        elif policy != "continue" and key in self._live:
            self._leaving[key] = asyncio.get_running_loop().call_later(policy, self._nobody_came, key)

    def _nobody_came(self, key: str) -> None:
        del self._leaving[key]
        self._cancel(key)
