"""Four judges of an AG-UI stream that are not ours, behind one call.

The official JavaScript client in the two generations that pages use (1.0.0 and 0.0.59), as a page would run it: bytes
in, messages out; ag-ui-validate; and the models of ag-ui-protocol. ``strict`` adds what most of them do not see: a
stream that is in order and shows something wrong.

    oracles.require()                                   # or skip, saying what is missing
    oracles.accept(frames)                              # bytes as they were sent, or a list of events
    assert not any(oracles.flaws([frames, ...]))        # many streams at once
    oracles.accept_url("http://127.0.0.1:8000/agui", {"messages": [...]})
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ag_ui.core import Event
from ag_ui_validate.pytest_plugin import validate_agui
from pydantic import TypeAdapter, ValidationError

from .strict import faults, unanswered

CLIENTS = ("1.0.0", "0.0.59")

Stream = str | bytes | Iterable[bytes] | Sequence[Mapping[str, Any]]
"""Server-sent events as text, bytes or frames, or a list of events."""

_HERE = Path(__file__).parent
_FRAME = re.compile(r"(?:id: [^\n]+\n)?data: (\{[^\n]*\})|:[^\n]*")
_MODELS: TypeAdapter[Any] = TypeAdapter(Event)
# 208: a turn without text has a parent message that only its calls mention, which clients expect.
# 903: the names of a source's own CUSTOM events are its own.
_NOT_RULES = {"AGUI208": "off", "AGUI903": "off"}
# Arguments that are not JSON, a patch that does not fit: what the source says, not how it is told.
_CONTENT = frozenset({"AGUI204", "AGUI302"})
_BATCH_TIMEOUT_S = 110


class Run(NamedTuple):
    """One run as a client saw it: its events after expansion, why it failed, what it printed."""

    events: list[dict[str, Any]]
    violation: str | None
    warnings: list[str]


class Seen(NamedTuple):
    """What one client made of a session, and what it sent (the last run's input last)."""

    runs: list[Run]
    messages: list[dict[str, Any]]
    state: Any
    interrupts: list[dict[str, Any]]
    sent: list[dict[str, Any]]


def missing() -> str | None:
    """What the clients need that is not here, with the remedy."""
    if shutil.which("node") is None:
        return "needs node 20 or newer: install it with the system's package manager"
    if not all((_HERE / "node_modules" / name).is_dir() for name in ("client059", "a2a03")):
        return "needs the official AG-UI and A2A clients: make setup"
    return None


def require() -> None:
    """Skip the test when the clients cannot run."""
    if reason := missing():
        pytest.skip(reason)


def accept(stream: Stream, *, strict: bool = True, clients: Sequence[str] = CLIENTS) -> Seen:
    """Fail unless every judge accepts ``stream``. What the first of ``clients`` shows in the end."""
    text = _text(stream)
    seen = sessions([{"client": client, "runs": [{"body": text}]} for client in clients])
    found = [*_flaws(text, dict(zip(clients, seen, strict=True)), strict)]
    assert not found, "\n".join(found)
    return seen[0]


def accept_url(
    url: str, asked: Mapping[str, Any] | None = None, *, strict: bool = True, clients: Sequence[str] = CLIENTS
) -> dict[str, Seen]:
    """Run each client against a live ``url`` and fail unless it accepts what it gets. What each of them shows.

    ``asked`` has fields of a RunAgentInput (``messages``, ``threadId``, ``runId``, ``tools``, ``resume``...) and
    ``headers``. Blocks until the runs have ended: a server in the same loop needs this to be called in a thread.
    """
    given = dict(asked or {})
    job = {"url": url} | {name: given.pop(name) for name in ("threadId", "headers", "state") if name in given}
    answers = sessions([job | {"client": client, "runs": [{"input": given}]} for client in clients])
    seen = dict(zip(clients, answers, strict=True))
    for client, session in seen.items():
        found = [*_flaws(_text(session.runs[0].events), {client: session}, strict)]
        assert not found, "\n".join(found)
    return seen


def flaws(streams: Sequence[Stream], *, strict: bool = True, clients: Sequence[str] = CLIENTS) -> list[list[str]]:
    """What the judges find wrong with each stream; nothing, when they all accept it."""
    texts = [_text(stream) for stream in streams]
    seen = iter(sessions([{"client": client, "runs": [{"body": text}]} for text in texts for client in clients]))
    return [[*_flaws(text, {client: next(seen) for client in clients}, strict)] for text in texts]


def sessions(jobs: Sequence[Mapping[str, Any]]) -> list[Seen]:
    """What clients make of whole sessions, all in one process; see ``clients.mjs`` for a job's fields."""
    if not jobs:
        return []
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    done = subprocess.run(
        ["node", "clients.mjs"], cwd=_HERE, input=lines, capture_output=True, encoding="utf-8", timeout=_BATCH_TIMEOUT_S
    )
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(answers) == len(jobs), done.stderr
    return [_seen(answer) for answer in answers]


def _seen(answer: dict[str, Any]) -> Seen:
    assert "broken" not in answer, answer["broken"]
    return Seen(**answer | {"runs": [Run(**run) for run in answer["runs"]]})


def events(stream: Stream) -> Iterator[dict[str, Any]]:
    """The events of a stream. Raises ``ValueError`` for framing that is not ours: LF only, one line of JSON each."""
    *frames, rest = _text(stream).split("\n\n")
    for frame in frames:
        found = _FRAME.fullmatch(frame)
        if found is None:
            raise ValueError(f"not a frame: {frame!r}")
        if found[1]:
            yield json.loads(found[1])
    if rest:
        raise ValueError(f"the stream ends inside a frame: {rest!r}")


def _text(stream: Stream) -> str:
    if isinstance(stream, str):
        return stream
    if isinstance(stream, bytes):
        return stream.decode()
    items = list(stream)
    if items and isinstance(items[0], bytes):
        return b"".join(items).decode()
    return "".join(f"data: {json.dumps(event)}\n\n" for event in items)


def _flaws(text: str, seen: Mapping[str, Seen], strict: bool) -> Iterator[str]:
    for client, session in seen.items():
        yield from (f"client {client} {flaw}" for flaw in _client_flaws(session.runs[0], session.messages, strict))
    try:
        heard = list(events(text))
    except ValueError as error:
        yield str(error)
        return
    yield from _other_flaws(heard, strict)


def _client_flaws(run: Run, messages: Sequence[Mapping[str, Any]], strict: bool) -> Iterator[str]:
    if run.violation:
        yield f"fails: {run.violation}"
    elif strict:
        yield from (f"warns: {warning}" for warning in run.warnings)
        yield from (f"shows: {fault}" for fault in faults(run.events, messages))


def _other_flaws(heard: Sequence[dict[str, Any]], strict: bool) -> Iterator[str]:
    for place, event in enumerate(heard):
        try:
            _MODELS.validate_python(event)
        except ValidationError as error:
            yield f"ag-ui-protocol, event {place} ({event.get('type')}): {error.errors()[0]['msg']}"
            return
    cut = unanswered(heard)
    for found in validate_agui(list(heard), severity_overrides=_NOT_RULES).diagnostics:
        at = heard[found.event_index] if 0 <= found.event_index < len(heard) else {}
        excused = found.rule in _CONTENT and (not strict or at.get("toolCallId") in cut)
        # It takes the names of steps to be unique in a run; the clients, as the protocol says, for each owner.
        excused |= found.rule == "AGUI606" and at.get("type") == "STEP_FINISHED"
        if found.severity != "info" and not excused:
            yield f"ag-ui-validate, {found.rule}: {found.message}"
