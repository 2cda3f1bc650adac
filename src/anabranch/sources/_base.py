"""What a source is: an agent of some framework or protocol, as an async stream of foreign items and a pure translator.

A source holds no state of a run: one object serves many runs at once. ``open`` and ``translator`` are called once for
each run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any, Protocol

from ..events import Event, RunStarted
from ..request import RunRequest


class Translator(Protocol):
    """Pure: foreign items in, events with local ids out. No await, no clock, no random, no I/O.

    After ``close`` (or a terminal event) it is not fed again.
    """

    def feed(self, item: Any) -> Iterable[Event]:
        """The events that one item means, in order; often none."""

    def close(self, error: BaseException | None) -> Iterable[Event]:
        """The events owed at the end of the stream: ended by itself (``None``) or by ``error``.

        Says truthfully how the run ended: a terminal event when the stream had its own finish marker, otherwise
        nothing (the grammar makes that a failure) or a ``RunFailed`` that knows better.
        """


class Source(Protocol):
    """An agent that can be run."""

    def open(self, request: RunRequest) -> AsyncGenerator[Any, None]:
        """Start the agent on ``request`` and give its items as they come.

        Closing the generator, or cancelling the task that reads it, stops the agent and whatever it called: nothing
        more comes once it returns. What others still have to be told (that a remote task is cancelled) goes on in the
        background; ``aclose``, where a source has one, waits for it. Raises ``SourceError`` (or a framework's own
        error) when the agent fails.
        """

    def translator(self, request: RunRequest) -> Translator:
        """A fresh translator for the items of ``open(request)``."""


class Recordable(Source, Protocol):
    """A source whose runs can be recorded. Its ``tape`` module reads again what is written here."""

    kind: str
    """Whose items they are; ``anabranch replay --source`` knows it."""

    def settings(self, request: RunRequest) -> dict[str, Any]:
        """What ``translator(request)`` depends on, as JSON."""

    def dump(self, item: Any) -> Any:
        """``item`` as a JSON value (in which strings may hold halves of surrogate pairs). Pure."""


class Tape(Protocol):
    """What keeps the items of one run, for a replay. Its methods never raise and never wait."""

    def item(self, item: Any) -> None:
        """The source gave ``item``."""

    def event(self, event: Event) -> None:
        """Code inside the agent emitted ``event``, past the source."""

    def end(self, error: BaseException | None) -> None:
        """The source ended, by itself (None) or because of ``error``, or was ended because of it."""


class Recorder(Protocol):
    """Makes tapes. Its method never raises."""

    def tape(self, source: Source, request: RunRequest, started: RunStarted) -> Tape | None:
        """A tape for the run of ``source`` on ``request`` that begins with ``started``; None: it cannot be recorded."""
