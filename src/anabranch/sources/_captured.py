"""The items in an answer that somebody captured, with ``curl`` for one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..errors import SourceError
from ..transports.sse import Parser

_BLANK = b"\xef\xbb\xbf \t\r\n"


def captured(lines: Iterable[bytes], cut: SourceError) -> Iterator[bytes]:
    """The ``data`` of each server-sent event in ``lines``, or the body that is JSON; heads of HTTP are left out.

    Raises ``cut`` when it ends inside an event.
    """
    rest = iter(lines)
    first = next(rest, b"")
    while first.startswith(b"HTTP/"):  # of `curl -i`; there may be several
        while next(rest, b"").strip():
            pass
        first = next(rest, b"")
    if first.lstrip(_BLANK)[:1] in (b"{", b"["):
        yield b"".join((first, *rest)).strip(_BLANK)
        return
    parser = Parser()
    for line in chain((first,), rest):
        for event in parser.feed(line):
            yield event.data
    if parser.close():
        raise cut
