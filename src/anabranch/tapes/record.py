"""Writes the items of each run into a file of its own, as they come.

A file is JSON lines: a header, one line an item, and how the source ended::

    {"anabranch": "0.1.0", "format": 1, "source": "python", "agent": "echo", "run_id": "r1", ...}
    {"at": 3, "item": "Hel"}
    {"at": 41, "event": {"type": "custom", ...}}     what code inside the agent emitted past the source
    {"end": null}

Each line is handed to the operating system at once, so a process that is killed leaves all it had recorded; such a file
has no end. A recording that cannot go on (a full disk, a directory that is gone) is given up, and the run knows nothing
of it; that is logged once, until a recording goes well again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, cast

from .. import __version__
from ..events import Event, RunStarted
from ..request import RunRequest
from ..sources._base import Recordable, Source
from ..sources._tape import dump_error, dump_event
from . import FORMAT
from .redact import Redactor, secrets_in

logger = logging.getLogger("anabranch")

LIMIT = 1 << 30
"""Bytes that one recording may have."""
AT_ONCE = 256
"""Runs that are recorded at once: each holds a file open. Others go on without."""

_NAME_LIMIT = 64


class Recorder:
    """Records runs into files in ``directory``, which it makes (mode 0700) when it is not there.

    ``secrets`` are hidden in them, beside what looks like one and the values of environment variables that are named
    like one. Use it in one event loop.
    """

    def __init__(self, directory: str | Path, secrets: Iterable[str] = ()) -> None:
        self._directory = Path(directory)
        self._redactor = Redactor([*secrets, *secrets_in(os.environ)])
        self._open = 0
        self._failing = False
        self._unknown: set[type[Any]] = set()
        self._make_directory()

    def tape(self, source: Source, request: RunRequest, started: RunStarted) -> FileTape | None:
        """See ``sources._base.Recorder``. The file is named by the time and the run's id."""
        if not hasattr(source, "kind") or not hasattr(source, "dump"):
            if type(source) not in self._unknown:
                self._unknown.add(type(source))
                logger.warning("recording: runs of %s cannot be recorded", type(source).__name__)
            return None
        at = time.time_ns() // 1_000_000
        try:
            if self._open >= AT_ONCE:
                raise OSError(f"{AT_ONCE} runs are recorded at once")
            header = _header(cast(Recordable, source), request, started, at)
            line = self._redactor.line(header)
            self._make_directory()
            file = self._file(at, started.run_id)
        except Exception as error:
            self.failed(f"run {started.run_id} is not recorded", error)
            return None
        self._open += 1
        tape = FileTape(self, file, cast(Recordable, source), started.run_id, self._redactor)
        tape.write(line)
        return tape

    def failed(self, what: str, error: Exception) -> None:
        """Something came to nothing because of ``error``."""
        if not self._failing:
            unforeseen = None if isinstance(error, OSError) else error
            logger.warning("recording: %s: %s", what, error, exc_info=unforeseen)
        self._failing = True

    def closed(self, whole: bool) -> None:
        """A tape was closed; whether it has its end."""
        self._open -= 1
        self._failing = self._failing and not whole

    def _make_directory(self) -> None:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self.failed(f"{self._directory} cannot be made", error)

    def _file(self, at_ms: int, run_id: str) -> FileIO:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        stem = f"{moment:%Y%m%dT%H%M%S}.{at_ms % 1000:03}Z-{_safe(self._redactor.text(run_id))}"
        number = 1
        while True:
            path = self._directory / f"{stem}{f'-{number}' if number > 1 else ''}.jsonl"
            try:
                return FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
            except FileExistsError:
                number += 1


class FileTape:
    """See ``sources._base.Tape``."""

    def __init__(self, recorder: Recorder, file: FileIO, source: Recordable, run_id: str, redactor: Redactor) -> None:
        self._recorder, self._run_id, self._redactor = recorder, run_id, redactor
        self._file: FileIO | None = file
        self._dump = source.dump
        self._begun = time.monotonic()
        self._room = LIMIT

    def item(self, item: Any) -> None:
        """The source gave ``item``."""
        if self._file is not None:
            try:
                self.write(self._redactor.line({"at": self._now(), "item": self._dump(item)}))
            except Exception as error:  # whatever a foreign object raises when it is read
                self._give_up(error)

    def event(self, event: Event) -> None:
        """Code inside the agent emitted ``event``."""
        if self._file is not None:
            try:
                self.write(self._redactor.line({"at": self._now(), "event": dump_event(event)}))
            except Exception as error:
                self._give_up(error)

    def end(self, error: BaseException | None) -> None:
        """The source ended."""
        if self._file is not None:
            try:
                end = None if error is None else dump_error(error)
                self.write(self._redactor.line({"at": self._now(), "end": end}))
            except Exception as failure:
                self._give_up(failure)
        self._close(whole=True)

    def write(self, line: bytes) -> None:
        """Hand one line to the operating system."""
        self._room -= len(line)
        try:
            if self._room < 0:
                raise OSError(f"it would have more than {LIMIT} bytes")
            while self._file is not None and (written := self._file.write(line)) < len(line):
                line = line[written:]  # the disk is full, which the next attempt is told
        except OSError as error:
            self._give_up(error)

    def _now(self) -> int:
        return int((time.monotonic() - self._begun) * 1000)

    def _give_up(self, error: Exception) -> None:
        self._recorder.failed(f"that of run {self._run_id} was given up", error)
        self._close(whole=False)

    def _close(self, whole: bool) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            self._recorder.failed(f"that of run {self._run_id} may be cut", error)
            whole = False
        self._recorder.closed(whole)


def _header(source: Recordable, request: RunRequest, started: RunStarted, at_ms: int) -> dict[str, Any]:
    return {
        "anabranch": __version__,
        "format": FORMAT,
        "source": source.kind,
        "agent": started.agent_name,
        "run_id": started.run_id,
        "thread_id": started.thread_id,
        "task_id": started.task_id,
        "parent_run_id": started.parent_run_id,
        "continues": started.continues,
        "at_ms": at_ms,
        "settings": source.settings(request),
    }


def _safe(run_id: str) -> str:
    """``run_id`` as a part of a file's name; one that had to be changed is told apart by its hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", run_id)[:_NAME_LIMIT]
    if plain == run_id:
        return plain
    return f"{plain}-{hashlib.sha256(run_id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
