"""Runs that are recorded, and what a replay makes of the file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from anabranch import events as ev
from anabranch.errors import AnabranchError
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.log.memory import MemoryLog
from anabranch.request import Message, RunRequest
from anabranch.runs._base import RunRecord
from anabranch.runs.machine import Status
from anabranch.runs.runner import Runner, Writer, started
from anabranch.sources._base import Source, Translator
from anabranch.sources._tape import dump_error
from anabranch.sources.python import PythonSource
from anabranch.tapes.record import Recorder
from anabranch.tapes.redact import written
from anabranch.tapes.replay import KINDS, Replay, replay

WAIT_S = 20
START = ev.RunStarted(run_id="r1", thread_id="t1", task_id="k1", agent_name="agent")


def asked(text: str = "hello", run_id: str = "r1", **more: Any) -> RunRequest:
    """A request."""
    question = Message(id="m1", role="user", content=text)
    return RunRequest(run_id=run_id, thread_id="t1", messages=(question,), **more)


async def recorded(
    source: Source, recorder: Recorder, request: RunRequest | None = None, stop: AnabranchError | None = None
) -> list[Entry]:
    """What the log of a run has in the end; ``stop`` ends it as soon as it has said something."""
    request = request or asked()
    record = RunRecord(
        key=request.run_id,
        run_id=request.run_id,
        principal="ann",
        thread_id=request.thread_id,
        task_id="k1",
        agent="agent",
        status=Status.RUNNING,
        digest="",
        created_ms=0,
    )
    log = MemoryLog()
    writer = Writer(log, record, lambda entries: log.append(record.key, entries))
    stopping: asyncio.Future[AnabranchError] = asyncio.get_running_loop().create_future()
    tape = recorder.tape(source, request, started(record))
    entries: list[Entry] = []
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(Runner(source, request, record, writer, tape).run(stopping))
        async for batch in log.tail(record.key):
            entries += batch
            if stop and not stopping.done() and any(isinstance(entry.event, ev.TextDelta) for entry in entries):
                stopping.set_result(stop)
    return entries


def files_in(directory: Path) -> list[Path]:
    """What is there."""
    return sorted(directory.iterdir())


def file_in(directory: Path) -> Path:
    """The only file there."""
    [path] = files_in(directory)
    return path


def replayed(path: Path) -> list[ev.Event]:
    """The events that come of a recording."""
    return [entry.event for entry in opened(path).entries()]


def opened(path: Path, kind: str | None = None) -> Replay:
    """The replay of a file."""
    return replay(path.read_bytes().splitlines(keepends=True), path.name, kind)


def lines_of(path: Path) -> list[Any]:
    """What a recording holds, header first."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def saying(*items: Any) -> Any:
    """Gives ``items``."""
    for item in items:
        yield item


def agent(*items: Any) -> PythonSource:
    """An agent that gives ``items``."""
    return PythonSource(lambda request: saying(*items))


def lawful(translator: Translator, items: Iterable[Any], error: BaseException | None = None) -> list[ev.Event]:
    """What the grammar lets out of ``items``, or of those before one at which the translator fails."""
    grammar = Grammar()
    out = grammar.feed(START)
    try:
        for item in items:
            for event in () if grammar.ended else translator.feed(item):
                out += grammar.feed(event)
        for event in () if grammar.ended else translator.close(error):
            out += grammar.feed(event)
    except Exception as failure:
        error = failure
    return out + grammar.close(error)


def loaded(kind: str, items: Sequence[Any], error: BaseException | None = None) -> tuple[list[Any], Any]:
    """``items`` and ``error`` as they come out of a file."""
    room = KINDS[kind]
    lines = [written(room.dump(item)) for item in items]
    end = written(dump_error(error)) if error else b"null"
    loader = room.loader()
    items = [loader.item(json.loads(line)) for line in lines]
    end = json.loads(end)
    return items, end and loader.error(end)


def header(kind: str = "python", **more: Any) -> dict[str, Any]:
    """The first line of a recording."""
    names = {"agent": "agent", "run_id": "r1", "thread_id": "t1", "task_id": "k1"}
    return {"anabranch": "0.1.0", "format": 1, "source": kind, **names, "at_ms": 1000, "settings": {}, **more}


def tape_of(*lines: Any, kind: str = "python") -> list[bytes]:
    """The lines of a recording; bytes are lines as they are."""
    return [line if isinstance(line, bytes) else written(line) + b"\n" for line in (header(kind), *lines)]


def events_of(lines: list[bytes], kind: str | None = None) -> list[ev.Event]:
    """What a replay of these lines gives."""
    return [entry.event for entry in replay(lines, "run.jsonl", kind).entries()]
