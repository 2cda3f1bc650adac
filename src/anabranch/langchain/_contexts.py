"""In which context of the agent a conversation goes on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .questions import keeps_checkpoints

_REMEMBERED = 10_000
"""Of how many threads the context is known, for graphs that keep no messages themselves."""


class Contexts:
    """Those of the agent at ``url``, which the tool ``name`` asks, and which of them are in use."""

    def __init__(self) -> None:
        self._of: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._busy: set[str] = set()

    def find(self, url: str, name: str, state: Any, config: Mapping[str, Any]) -> str:
        """What earlier results among the messages of a graph say, or else its thread. ``""``: it has none yet.

        Nor has a call at the same time as another one of its conversation: two questions at once are two contexts.
        """
        found = next(_told(state, name, url), "")
        if not found and not keeps_checkpoints(config):
            found = self._of.get((url, _thread(config)), "")
        return "" if found in self._busy else found

    def remember(self, url: str, config: Mapping[str, Any], context_id: str) -> None:
        """Note the context of a thread whose messages nobody keeps."""
        if not context_id or not (thread := _thread(config)) or keeps_checkpoints(config):
            return
        self._of[url, thread] = context_id
        self._of.move_to_end((url, thread))
        if len(self._of) > _REMEMBERED:
            self._of.popitem(last=False)

    @contextmanager
    def used(self, context_id: str) -> Iterator[None]:
        """While it is, no other call goes on in that context."""
        if not context_id:
            yield
            return
        self._busy.add(context_id)
        try:
            yield
        finally:
            self._busy.discard(context_id)


def _told(state: Any, name: str, url: str) -> Iterator[str]:
    """The contexts that earlier results of the tool ``name`` in a graph's state tell of, the newest first."""
    messages = state.get("messages") if isinstance(state, dict) else getattr(state, "messages", state)
    for message in reversed(messages if isinstance(messages, list) else []):
        artifact = getattr(message, "artifact", None)
        known = isinstance(artifact, dict) and artifact.get("url") == url and artifact.get("context_id")
        if known and getattr(message, "name", None) == name:
            yield str(known)


def _thread(config: Mapping[str, Any]) -> str:
    return str((config.get("configurable") or {}).get("thread_id") or "")
