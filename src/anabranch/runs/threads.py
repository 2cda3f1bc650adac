"""Where a request belongs in its thread: the server's history, and what the client's copy of it means. Pure.

A thread is a tree of runs. Each run follows another one (``parent``), up to one of its messages (``upto``), and adds the
messages it was given and those it wrote. A path from the first run to any other is a conversation; a *branch* is a line
of runs in which each follows the whole of the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..request import Message
from ..transcript import Outcome
from ._base import RunRecord


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a thread: what it was given beyond its parent's path, and what it left behind (None while it runs)."""

    record: RunRecord
    given: tuple[Message, ...] = ()
    outcome: Outcome | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a new run goes: after ``upto`` of ``parent``; ``forks`` says that it begins a branch of its own.

    ``history`` is the conversation before it, ``given`` what it adds. ``before`` is the run that the thread's newest
    one was when this was found out (None: the thread was empty).
    """

    parent: str | None = None
    upto: str = ""
    branch: str = ""
    forks: bool = False
    history: tuple[Message, ...] = ()
    given: tuple[Message, ...] = ()
    before: str | None = None


def place(turns: Sequence[Turn], messages: Sequence[Message]) -> Place:
    """Where a request with ``messages`` belongs among ``turns`` (oldest first)."""
    raise NotImplementedError


def conversation(turns: Sequence[Turn], key: str | None = None) -> tuple[Message, ...]:
    """The messages on the path to the run ``key`` (default: the newest one), its own included."""
    raise NotImplementedError
