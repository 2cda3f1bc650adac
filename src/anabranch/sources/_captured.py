"""The items in an answer that somebody captured, with ``curl`` for one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..errors import SourceError
from ..transports.sse import EVENT_LIMIT, Parser

_BLANK = b"\xef\xbb\xbf \t\r\n"


def captured(lines: Iterable[bytes], cut: SourceError) -> Iterator[bytes]:
    """The ``data`` of each server-sent event in ``lines``, or the body that is JSON; heads of HTTP are left out.

    Raises ``cut`` when it ends inside an event, ``SourceError`` (code ``protocol``) when one or the body is too large.
    """
    rest = iter(lines)
    first = next(rest, b"")
    while first.startswith(b"HTTP/"):  # of `curl -i`; there may be several
        while next(rest, b"").strip():
            pass
        first = next(rest, b"")
    if first.lstrip(_BLANK)[:1] in (b"{", b"["):
        yield _body(chain((first,), rest)).strip(_BLANK)
        return
    parser = Parser()
    for line in chain((first,), rest):
        for event in parser.feed(line):
            yield event.data
    if parser.close():
        raise cut


def _body(lines: Iterable[bytes]) -> bytes:
    body = bytearray()
    for line in lines:
        body += line
        if len(body) > EVENT_LIMIT:
            raise SourceError(f"The answer has more than {EVENT_LIMIT} bytes.", code="protocol")
    return bytes(body)
