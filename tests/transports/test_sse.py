"""The parser of server-sent events: what it reads, wherever the bytes are cut."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import SourceError
from anabranch.transports.sse import KEEP_ALIVE, Parser, SseEvent, frame

BOM = b"\xef\xbb\xbf"
ROCKET = "🚀".encode()


def parsed(*chunks: bytes, limit: int = 1 << 20) -> tuple[list[SseEvent], bool]:
    """The events of a stream that comes in these chunks, and whether it ended inside one."""
    parser = Parser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)], parser.close()


@pytest.mark.parametrize(
    ("stream", "events"),
    {
        "LF": (b"data: a\n\ndata: b\n\n", [SseEvent(b"a"), SseEvent(b"b")]),
        "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [SseEvent(b"a"), SseEvent(b"b")]),
        "CR": (b"data: a\r\rdata: b\r\r", [SseEvent(b"a"), SseEvent(b"b")]),
        "all three": (b"data: a\ndata: b\r\ndata: c\r\n\n", [SseEvent(b"a\nb\nc")]),
        "several data lines are joined by LF (A2A-21)": (b'data: {"a":\ndata: 1}\n\n', [SseEvent(b'{"a":\n1}')]),
        "only the first space is taken away": (b"data:  a \ndata:b\n\n", [SseEvent(b" a \nb")]),
        "a field without a colon is empty": (b"data\n\ndata\ndata\n\n", [SseEvent(b""), SseEvent(b"\n")]),
        "comments": (KEEP_ALIVE + b":\ndata: a\n: x\ndata: b\n\n", [SseEvent(b"a\nb")]),
        "a byte order mark": (BOM + b"data: a\n\n" + BOM + b"data: b\n\n", [SseEvent(b"a")]),
        "a type, for one event": (
            b"event: error\ndata: a\n\ndata: b\n\n",
            [SseEvent(b"a", "error"), SseEvent(b"b")],
        ),
        "an id, for all that follow": (
            b"id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid: 8\0\ndata: d\n\n",
            [SseEvent(b"a", id="7"), SseEvent(b"b", id="7"), SseEvent(b"c"), SseEvent(b"d")],
        ),
        "an event without data is none": (b"event: x\nid: 1\n\ndata: a\n\n", [SseEvent(b"a", "", "1")]),
        "unknown fields": (b"retry: 5\ndatum: x\ndata: a\n\n", [SseEvent(b"a")]),
        "what no other line end splits": (
            "data: a\u2028b\x0bc\x0cd\x85e\n\n".encode(),
            [SseEvent("a\u2028b\x0bc\x0cd\x85e".encode())],
        ),
        "bytes that are not UTF-8": (b"data: \xff\nevent: \xff\n\n", [SseEvent(b"\xff", "\ufffd")]),
        "what we frame": (frame(b"{}", "r:1.0"), [SseEvent(b"{}", id="r:1.0")]),
    }.values(),
    ids=lambda value: None,
)
def test_a_stream_is_read_whole_and_byte_by_byte(stream: bytes, events: list[SseEvent]) -> None:
    assert parsed(stream) == (events, False)
    assert parsed(*(stream[i : i + 1] for i in range(len(stream)))) == (events, False)


@pytest.mark.parametrize("rest", [b"data: b", b"data: b\n", b"data: b\r", b"da", b"event: x\n", b"\xef", b"\xef\xbb"])
def test_an_event_that_no_blank_line_ends_is_not_given_and_close_says_so(rest: bytes) -> None:
    assert parsed(rest) == ([], True)
    assert parsed(b"data: a\n\n" + rest) == ([SseEvent(b"a")], True)


def test_an_event_is_given_at_its_carriage_return_without_waiting_for_more() -> None:
    parser = Parser()
    assert parser.feed(b"data: a\r\n\r") == [SseEvent(b"a")]
    assert parser.feed(b"\ndata: b\n\n") == [SseEvent(b"b")]


PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b"event: x",
        b"id: 7",
        b"id: \0",
        b": note",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b" ",
        b"{}",
    ]
    + [ROCKET, BOM, b"\xff", b""]
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    stream = draw(st.sampled_from([b"", BOM, BOM[:2]])) + b"".join(draw(st.lists(PIECES, max_size=30)))
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return stream, [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def by_the_standard(stream: bytes) -> list[SseEvent]:
    """The rules of the standard, word by word, for a stream that is there as a whole."""
    events: list[SseEvent] = []
    data, kind, id = b"", b"", b""
    for line in re.split(rb"\r\n|\n|\r", stream.removeprefix(BOM))[:-1]:
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if not line:
            if data:
                events.append(SseEvent(data[:-1], kind.decode(errors="replace"), id.decode(errors="replace")))
            data, kind = b"", b""
        elif name == b"data":
            data += value + b"\n"
        elif name == b"event":
            kind = value
        elif name == b"id" and b"\0" not in value:
            id = value
    return events


@settings(deadline=None, database=None)
@given(cut_streams())
def test_any_cut_of_any_stream_gives_the_events_of_the_standard(case: tuple[bytes, list[bytes]]) -> None:
    stream, chunks = case
    assert parsed(*chunks) == parsed(stream)
    assert parsed(stream)[0] == by_the_standard(stream)


def until_refused(chunks: list[bytes], limit: int) -> tuple[list[SseEvent], str | None]:
    parser = Parser(limit)
    events: list[SseEvent] = []
    try:
        for chunk in [*chunks, b""]:
            events += parser.feed(chunk)
    except SourceError as error:
        return events, error.code
    return events, None


@settings(deadline=None, database=None)
@given(cut_streams(), st.integers(3, 40))
def test_any_cut_gives_the_same_events_before_one_that_is_too_large(
    case: tuple[bytes, list[bytes]], limit: int
) -> None:
    stream, chunks = case
    assert until_refused(chunks, limit) == until_refused([stream], limit)


@pytest.mark.parametrize(
    "stream",
    [b"data: 12345\n\n", b"data: 12345", b"data:1\ndata:2\n\n", b"event: 123456\n", b":123456789a\n"],
    ids=["one line", "a line without end", "two lines", "another field", "a comment"],
)
def test_what_is_larger_than_the_limit_is_a_typed_error_and_stays_one(stream: bytes) -> None:
    parser = Parser(limit=10)
    assert parser.feed(b"data: 1234\n\n:12345678\n:12345678\ndata: 1\n\n") == [SseEvent(b"1234"), SseEvent(b"1")]
    with pytest.raises(SourceError, match="more than 10 bytes") as raised:
        parser.feed(stream)
    assert raised.value.code == "protocol"
    with pytest.raises(SourceError):
        parser.feed(b"data: a\n\n")


def test_an_event_of_the_size_of_the_limit_passes_in_any_pieces() -> None:
    line = b"data: " + b"x" * 94
    pieces = [line[i : i + 7] for i in range(0, 100, 7)]
    assert parsed(line, b"\n\n", limit=100) == parsed(*pieces, b"\n\n", limit=100) == ([SseEvent(b"x" * 94)], False)
