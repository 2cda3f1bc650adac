"""Does again what a server did with a run: the items of a recording through translator and grammar. Pure.

What comes of it is what *this* version makes of the items: the same events as then, or not those of a bug that is gone.
Times are those of the recording, so the same file always gives the same entries.

A file that is no recording may be a capture of an answer: the server-sent events of an ``openai`` or ``a2a`` agent as
``curl`` writes them, with or without the head.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from ..errors import ClientError, ConfigError, ServerError
from ..events import Event, RunStarted
from ..grammar import Grammar
from ..log._base import Entry
from ..sources._base import Translator
from ..sources._tape import Loader, Unreadable
from ..sources.a2a import tape as a2a
from ..sources.langgraph import tape as langgraph
from ..sources.openai import tape as openai
from ..sources.python import tape as python
from ..supervisor import tape as supervisor
from . import FORMAT

KINDS: dict[str, Any] = {
    "a2a": a2a,
    "langgraph": langgraph,
    "openai": openai,
    "python": python,
    "supervisor": supervisor,
}
"""The sources whose items can be read, by name: their ``tape`` modules."""
LINE_LIMIT = 1 << 26
"""Bytes that one line may have."""

_BOM = b"\xef\xbb\xbf"


class BadTape(ClientError):
    """A file that is no recording, or a broken one. The message names the line and the remedy."""


class Step(NamedTuple):
    """One line: at which time (in milliseconds), whether it is an ``item``, an ``event`` or the ``end``, and that."""

    at: int
    what: str
    value: Any


class Replay:
    """One run, as ``entries``. ``cut`` is true when they stopped because the recording has no end."""

    def __init__(self, started: RunStarted, translator: Translator, steps: Iterable[Step], at_ms: int = 0) -> None:
        self._started, self._translator, self._steps, self._at_ms = started, translator, iter(steps), at_ms
        self._grammar = Grammar()
        self._seq = 0
        self.cut = True

    @property
    def repairs(self) -> dict[str, int]:
        """What the grammar had to mend so far, by rule."""
        return dict(self._grammar.repairs)

    def entries(self) -> Iterator[Entry]:
        """The entries of the run's log, up to its terminal event. Call it once. Raises ``BadTape`` where it breaks."""
        at, what, error = 0, "", None
        yield from self._lawful([self._started], at)
        for at, what, value in self._steps:
            if what == "end":
                error = value
                break
            try:
                events = [value] if what == "event" else () if self._grammar.ended else self._translator.feed(value)
                yield from self._lawful(events, at)
            except Exception as failure:  # of the translator: it ended the run then, too
                what, error = "flaw", failure
                break
        self.cut = what not in ("end", "flaw")
        yield from self._end(error, at)
        if what == "end":
            for _ in self._steps:  # which complain about what follows
                pass

    def _end(self, error: BaseException | None, at: int) -> Iterator[Entry]:
        if self.cut:
            text = "The recording stops before the end of the run."
            error = ServerError(text, code="replica_lost", retryable=True)
        else:
            try:
                yield from self._lawful(() if self._grammar.ended else self._translator.close(error), at)
            except Exception as failure:
                error = error or failure
        yield from self._logged(self._grammar.close(error), at)

    def _lawful(self, events: Iterable[Event], at: int) -> Iterator[Entry]:
        for event in events:
            yield from self._logged(self._grammar.feed(event), at)

    def _logged(self, events: Iterable[Event], at: int) -> Iterator[Entry]:
        for event in events:
            self._seq += 1
            yield Entry(self._seq, 1, self._at_ms + at, event)


def replay(lines: Iterable[bytes], name: str, kind: str | None = None) -> Replay:
    """The run in the file ``name``, which has ``lines`` (each with its end). ``kind`` is the source it is of.

    Raises ``ConfigError`` when ``kind`` is needed or another one, ``BadTape`` when the file cannot be read.
    """
    rest = iter(lines)
    first = next((line for line in rest if line.strip()), None)
    if first is None:
        raise BadTape(f"{name}: it is empty; record a run with `anabranch serve --record DIR`")
    header = _header(first, name)
    if header is None:
        return _captured(chain((first,), rest), name, kind)
    recorded = header.get("source")
    if not isinstance(recorded, str) or recorded not in KINDS:
        raise BadTape(f"{name}:1: source {recorded!r:.60} is not known; known: {', '.join(KINDS)}")
    if kind not in (None, recorded):
        raise ConfigError(f"{name}:1: it was recorded from {recorded}; give `--source {recorded}`")
    room = KINDS[recorded]
    settings = header.get("settings")
    translator = room.translator(settings if isinstance(settings, dict) else {})
    at_ms = _time(header, "at_ms", f"{name}:1")
    return Replay(_started(header, name), translator, _steps(rest, name, room.loader()), at_ms)


def _header(line: bytes, name: str) -> dict[str, Any] | None:
    """The header in ``line``; None when it is none."""
    try:
        header = json.loads(line.removeprefix(_BOM).decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or "anabranch" not in header:
        return None
    if header.get("format") != FORMAT:
        text = f"its format is {header.get('format')!r:.20} and this is a reader of format {FORMAT}"
        raise BadTape(f"{name}:1: {text}; it was written by anabranch {header['anabranch']!r:.20}")
    return header


def _started(header: dict[str, Any], name: str) -> RunStarted:
    fields = {"agent": "agent_name"} | {field: field for field in ("run_id", "thread_id", "task_id")}
    given = {to: header.get(field, "") for field, to in fields.items()}
    given |= {field: header.get(field) for field in ("parent_run_id", "continues")}
    for field, value in given.items():
        if not isinstance(value, str) and not (value is None and field in ("parent_run_id", "continues")):
            raise BadTape(f"{name}:1: {field!r} is not text; is this line a header?")
    return RunStarted(**given)


def _time(record: dict[str, Any], field: str, where: str) -> int:
    at = record.get(field, 0)
    if type(at) is not int or not 0 <= at < 2**53:
        raise BadTape(f"{where}: {field!r} is {at!r:.40}; it is a time in milliseconds")
    return at


def _steps(lines: Iterable[bytes], name: str, loader: Loader) -> Iterator[Step]:
    number, over = 1, False
    for line in lines:
        number += 1
        where = f"{name}:{number}"
        if not line.strip():
            continue
        if len(line) > LINE_LIMIT:
            raise BadTape(f"{where}: a line of more than {LINE_LIMIT} bytes; is this a recording?")
        if over:
            raise BadTape(f"{where}: it comes after the end of the run; a file holds one run")
        try:
            record = json.loads(line.decode())
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):
                raise BadTape(
                    f"{where}: this is no line of JSON; cut the file before it to replay what came before"
                ) from None
            return  # what the process was writing when it died
        step = _step(record, where, loader)
        over = step.what == "end"
        yield step


def _step(record: Any, where: str, loader: Loader) -> Step:
    found = {"item", "event", "end"} & record.keys() if isinstance(record, dict) else set()
    if len(found) != 1:
        raise BadTape(f"{where}: expected an object with one of `item`, `event` and `end`")
    [what] = found
    read: dict[str, Callable[[Any], Any]] = {"item": loader.item, "event": loader.event, "end": loader.error}
    value = record[what]
    try:
        return Step(_time(record, "at", where), what, None if what == "end" and value is None else read[what](value))
    except Unreadable as flaw:
        raise BadTape(f"{where}: this {what} cannot be read: {flaw}; correct it, or cut the file before it") from None
    except RecursionError:
        raise BadTape(f"{where}: this {what} is nested too deeply; cut the file before it") from None


def _captured(lines: Iterable[bytes], name: str, kind: str | None) -> Replay:
    readers = [each for each, room in KINDS.items() if hasattr(room, "captured")]
    if kind is None or kind not in KINDS:
        remedy = f"if it is a captured answer, give `--source` {' or '.join(readers)}"
        raise ConfigError(f"{name}:1: this is no recording, it has no header; {remedy}")
    if kind not in readers:
        remedy = "record a run with `anabranch serve --record DIR`"
        raise BadTape(f"{name}:1: this is no recording, it has no header; {remedy}")
    started = RunStarted(run_id="captured", thread_id="captured", agent_name=kind)
    return Replay(started, KINDS[kind].translator({}), _answered(KINDS[kind].captured(lines)))


def _answered(items: Iterator[bytes]) -> Iterator[Step]:
    error = None
    try:
        for item in items:
            yield Step(0, "item", item)
    except ClientError:
        raise
    except Exception as failure:  # what the source would have failed with
        error = failure
    yield Step(0, "end", error)
