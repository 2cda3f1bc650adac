"""Where a run goes: the answer's text, every event, one object at the end, or lanes on a terminal.

Data goes to standard output, byte for byte on a pipe; what this program has to say goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import sys
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TextIO

import msgspec

from .reading import Ending, Event, Reading, readable
from .screen import visible
from .terminal import Terminal
from .trail import Frame

Format = Literal["text", "json", "ndjson"]

_SOME_CONTROL = re.compile("[\x7f-\x9f]")  # JSON escapes the others


class Output(Protocol):
    """Shows one run after the other. What a ``lasting`` one has shown cannot be taken back."""

    lasting: bool

    @property
    def busy(self) -> bool:
        """Whether something still waits to be written."""

    def begin(self) -> None:
        """A run begins."""

    async def show(self, frames: Sequence[Frame], events: Sequence[Event], text: str) -> None:
        """Frames as received, their events without chunks, the text they give. Raises ``OSError``."""

    async def end(self, ids: dict[str, str], reading: Reading, ending: Ending) -> None:
        """The run of ``ids`` is over, however it ended. Raises ``OSError``."""

    def close(self) -> None:
        """The run is over or given up. Called once for each ``begin``."""

    def say(self, text: str) -> None:
        """Tell the user something that is no data."""


class Pipe:
    """Standard output as bytes. It is written by a thread: a reader that does not read must not keep us from Ctrl-C."""

    def __init__(self, out: TextIO) -> None:
        self._number = out.fileno()
        self.terminal = out.isatty()
        self.busy = False

    async def write(self, data: bytes) -> None:
        """Write ``data`` and return when it was taken. Raises ``OSError``."""
        if data:
            await asyncio.to_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        left, self.busy = memoryview(data), True
        try:
            while left:
                try:
                    left = left[os.write(self._number, left) :]
                except BlockingIOError:  # somebody we share it with made it non-blocking
                    select.select((), (self._number,), ())
        finally:
            self.busy = False


class _Plain:
    lasting = False

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    @property
    def busy(self) -> bool:
        """Whether a write waits for its reader."""
        return self._pipe.busy

    def begin(self) -> None:
        """Nothing to begin."""

    async def show(self, frames: Sequence[Frame], events: Sequence[Event], text: str) -> None:
        """Nothing to show."""

    async def end(self, ids: dict[str, str], reading: Reading, ending: Ending) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to close."""

    def say(self, text: str) -> None:
        """A line on standard error."""
        tell(text)


class Verbatim(_Plain):
    """The answer, as it comes, and nothing else."""

    lasting = True

    async def show(self, frames: Sequence[Frame], events: Sequence[Event], text: str) -> None:
        """Write ``text``."""
        await self._pipe.write(text.encode())

    async def end(self, ids: dict[str, str], reading: Reading, ending: Ending) -> None:
        """Write what waited for the end of a message that never came."""
        await self._pipe.write(reading.answer.close().encode())


class Lines(_Plain):
    """Each event as it was received, a line each."""

    async def show(self, frames: Sequence[Frame], events: Sequence[Event], text: str) -> None:
        """Write ``frames``."""
        said = [frame for frame in frames if frame.data]
        lines = (msgspec.json.encode(frame.event) if b"\n" in frame.data else frame.data for frame in said)
        await self._pipe.write(self._safe(b"".join(line + b"\n" for line in lines)))

    def _safe(self, line: bytes) -> bytes:
        """``line`` without what a terminal could obey."""
        if not self._pipe.terminal:
            return line
        return _SOME_CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", line.decode(errors="replace")).encode()


class Summary(Lines):
    """One object at the end."""

    async def show(self, frames: Sequence[Frame], events: Sequence[Event], text: str) -> None:
        """Nothing before the end."""

    async def end(self, ids: dict[str, str], reading: Reading, ending: Ending) -> None:
        """Write the object."""
        said: dict[str, Any] = {"text": reading.answer.text, "status": ending.status} | ids | {"usage": ending.usage}
        if ending.interrupts:
            said["interrupts"] = ending.interrupts
        if ending.status == "failed":
            said["error"] = {"code": ending.code, "message": ending.message}
        await self._pipe.write(self._safe(msgspec.json.encode(said) + b"\n"))


class Lanes:
    """On a terminal."""

    lasting = busy = False

    def __init__(self, out: TextIO, *, reasoning: bool) -> None:
        self._terminal = Terminal(out, reasoning=reasoning)
        self._drawing = False

    def begin(self) -> None:
        """Begin to draw."""
        self._terminal.__enter__()
        self._drawing = True

    async def show(self, frames: Sequence[Frame], events: Sequence[Event], text: str) -> None:
        """Draw ``events``."""
        with readable():
            self._terminal.show(events)

    async def end(self, ids: dict[str, str], reading: Reading, ending: Ending) -> None:
        """Everything is on screen."""

    def close(self) -> None:
        """Leave everything on screen as it is."""
        self._drawing = False
        self._terminal.__exit__()

    def say(self, text: str) -> None:
        """A line above what is drawn; on standard error when that is elsewhere."""
        if self._drawing and sys.stderr.isatty():
            self._terminal.say(f"anabranch: {visible(text)}")
        else:
            tell(text)


def tell(text: str) -> None:
    """A line on standard error, which no agent can write escapes to."""
    sys.stderr.write(f"anabranch: {visible(' '.join(text.split()))}\n")
    sys.stderr.flush()
