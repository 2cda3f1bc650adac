"""Server-sent events, pure: framing for what we serve, incremental parsing for what we read.

Frames end with LF only: both generations of the official AG-UI client split on a literal blank line.
"""

from __future__ import annotations

import msgspec

from ..errors import SourceError


def frame(data: bytes, id: str) -> bytes:
    """One event: ``data`` must be one line (JSON is)."""
    return b"id: %b\ndata: %b\n\n" % (id.encode(), data)


KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which every client ignores and no proxy buffers away."""

EVENT_LIMIT = 16 * 1024 * 1024
"""How many bytes one received event may have, unless its reader says otherwise."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One received event: its ``data`` lines joined by LF, its type (``""``: not named) and the stream's last id."""

    data: bytes
    event: str = ""
    id: str = ""


class Parser:
    """Reads server-sent events from bytes that may be cut anywhere, by the WHATWG HTML standard, section 9.2.6.

    Lines end with LF, CRLF or CR. A blank line gives the event out; one that no blank line ends is never given out.
    Comments and unknown fields are ignored, ``retry`` too: this package does not reconnect by itself. However the same
    bytes are cut, the events are the same.

    ``limit`` is the most bytes that one event, or one comment, may have.
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._started = self._after_cr = self._failed = False
        self._rest: list[bytes] = []  # pieces of a line whose end has not come
        self._rest_size = 0
        self._data: list[bytes] = []
        self._event = self._id = ""
        self._size = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that ``chunk`` completes.

        Raises ``SourceError`` (code ``protocol``) at an event over the limit, after those before it were given out.
        """
        events: list[SseEvent] = []
        for line in () if self._failed else self._lines(chunk):
            if not line:
                if self._data:
                    events.append(SseEvent(b"\n".join(self._data), self._event, self._id))
                    self._data = []
                self._event = ""
                self._size = 0
                continue
            if self._over(line[:1], len(line)):
                self._failed = True
                break
            if line[:1] != b":":
                self._size += len(line)
            if line[:6] == b"data: ":
                self._data.append(line[6:])
            else:
                self._field(line)
        if self._rest and self._over(self._rest[0][:1], self._rest_size):
            self._failed = True
        if self._failed and not events:
            raise SourceError(f"The agent sent an event of more than {self._limit} bytes.", code="protocol")
        return events

    def close(self) -> bool:
        """Whether the stream ended inside an event, which is lost then."""
        return bool(self._rest or self._data or self._event)

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` ends, without their ends; what comes after the last of them waits."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not self._started:
            chunk = self._take_rest(chunk)
            self._started = len(chunk) >= len(_BOM) or not _BOM.startswith(chunk)
            chunk = chunk.removeprefix(_BOM)
        if b"\n" not in chunk and b"\r" not in chunk:
            self._wait(chunk)
            return []
        chunk = self._take_rest(chunk)
        lines = chunk.splitlines()
        self._after_cr = chunk[-1:] == b"\r"
        if chunk[-1:] != b"\n" and not self._after_cr:
            self._wait(lines.pop())
        return lines

    def _wait(self, piece: bytes) -> None:
        if piece:
            self._rest.append(piece)
            self._rest_size += len(piece)

    def _take_rest(self, chunk: bytes) -> bytes:
        if not self._rest:
            return chunk
        whole = b"".join((*self._rest, chunk))
        self._rest, self._rest_size = [], 0
        return whole

    def _over(self, first: bytes, size: int) -> bool:
        """Whether a line of ``size`` bytes that begins with ``first`` is too much. A comment belongs to no event."""
        return size + (0 if first == b":" else self._size) > self._limit

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
