"""What an A2A agent says, as our server would tell it over AG-UI. Pure.

The items of the ``a2a`` source go through a translator and the grammar, and are written as AG-UI: so the chat has one
reader for both protocols, and an agent is shown as it would be behind our server.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ... import events as ev
from ...encodable import whole
from ...grammar import Grammar
from ...log._base import Entry
from ...sinks.agui.encode import AguiEncoder
from ...sinks.agui.profile import PROTOCOL_VERSION, Profile
from ...sources.a2a import _wire as wire
from ...sources.a2a.attributed import AttributedTranslator
from ...transports.sse import Parser
from .trail import Frame

_decode = msgspec.json.Decoder().decode


class Bridge:
    """One run. It begins with the first item, because only the agent knows what its context is called."""

    def __init__(self, translator: AttributedTranslator, run_id: str, context_id: str) -> None:
        self._translator, self._run_id, self._context_id = translator, run_id, context_id
        self._grammar = Grammar()
        self._encoder = AguiEncoder(Profile.negotiate(PROTOCOL_VERSION, "native"))
        self._seq = 0

    @property
    def ended(self) -> bool:
        """Whether the terminal frame was given."""
        return self._grammar.ended

    def feed(self, item: bytes) -> list[Frame]:
        """The frames of one item: what was received, and what it says."""
        received = Frame(_received(item), {"type": "RAW"}, "")
        try:
            events = list(self._translator.feed(item))
        except Exception as flaw:  # no agent is trusted: what nobody thought of ends its run, not this program
            return [received, *self._told(()), *self._written(self._grammar.close(flaw))]
        return [received, *self._told(events)]

    def close(self) -> list[Frame]:
        """What is owed when the agent has no more to say."""
        frames = self._told(self._translator.close(None))
        return frames + self._written(self._grammar.close(None))

    def _told(self, events: Iterable[ev.Event]) -> list[Frame]:
        events = list(events)
        if not self._seq:  # the translator knows now where it is
            where = self._translator.remote.context_id or self._context_id
            events.insert(0, ev.RunStarted(run_id=self._run_id, thread_id=where))
        return self._written(legal for event in events for legal in self._grammar.feed(event))

    def _written(self, events: Iterable[ev.Event]) -> list[Frame]:
        out: list[Frame] = []
        for event in events:
            self._seq += 1
            for frame in self._encoder.feed(Entry(self._seq, 1, 0, event)):
                out += [Frame(b"", _decode(sse.data), "") for sse in Parser().feed(frame)]
        return out


def _received(item: bytes) -> bytes:
    """The JSON text of what was received, on one line."""
    text = item.removeprefix(_LOOK).removesuffix(b"}") if item.startswith(_LOOK) else item
    if b"\n" not in text and b"\r" not in text:
        return text
    try:
        return msgspec.json.encode(_decode(text))
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode(whole(text.decode(errors="replace")))


_LOOK = wire.looked_up(b"").removesuffix(b"}")
