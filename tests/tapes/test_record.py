"""How runs are kept: where, who may read them, what happens when they cannot be, and what a killed process leaves."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anabranch import events as ev
from anabranch.request import RunRequest
from anabranch.sources.python import PythonSource
from anabranch.tapes import record
from anabranch.tapes.record import Recorder

from .taping import agent, asked, file_in, files_in, lines_of, recorded, replayed

KEY = "s3cret-key-0123456789"


def started(run_id: str) -> ev.RunStarted:
    return ev.RunStarted(run_id=run_id, thread_id="t1", task_id="k1", agent_name="agent")


def tape(recorder: Recorder, run_id: str = "r1", source: Any = None) -> Any:
    return recorder.tape(source or agent(), asked(run_id=run_id), started(run_id))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_a_run_is_a_file_of_a_header_its_items_and_its_end(tmp_path: Path) -> None:
    await recorded(agent("Hel", "lo", ev.Custom(name="x", value=1)), Recorder(tmp_path))
    head, *lines, end = lines_of(file_in(tmp_path))
    assert head.pop("at_ms") > 1_700_000_000_000 and head.pop("anabranch")
    assert head == {
        "format": 1,
        "source": "python",
        "agent": "agent",
        "run_id": "r1",
        "thread_id": "t1",
        "task_id": "k1",
        "parent_run_id": None,
        "continues": None,
        "settings": {},
    }
    assert [line["item"] for line in lines] == ["Hel", "lo", {"type": "custom", "name": "x", "value": 1}]
    assert end["end"] is None
    times = [line["at"] for line in (*lines, end)]
    assert times == sorted(times) and times[0] >= 0


async def test_only_the_owner_may_read_a_recording(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "tapes"
    await recorded(agent("x"), Recorder(directory))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file_in(directory).stat().st_mode) == 0o600


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Recorder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


NASTY = ("../../etc/passwd", "..", ".", "/", "a/b\\c", "x" * 512, "läuft 🚀", "CON", "a\nb", "", "\ud800", "-rf", "%2e")


@pytest.mark.parametrize("run_id", NASTY)
def test_any_run_id_makes_a_file_in_the_directory(tmp_path: Path, run_id: str) -> None:
    tape(Recorder(tmp_path / "tapes"), run_id).end(None)
    path = file_in(tmp_path / "tapes")
    assert path.suffix == ".jsonl" and len(path.name) < 120 and path.name.isascii() and path.name[0] in "12"
    assert [each.name for each in tmp_path.iterdir()] == ["tapes"]
    assert lines_of(path)[0]["run_id"] == run_id


def test_run_ids_that_look_alike_as_names_of_files_are_told_apart(tmp_path: Path) -> None:
    for run_id in ("a/b", "a:b", "a_b"):
        tape(Recorder(tmp_path), run_id).end(None)
    stems = {path.stem.partition("Z-")[2] for path in tmp_path.iterdir()}
    assert len(stems) == 3 and "a_b" in stems


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    outside = tmp_path / "outside"
    recorder = Recorder(tmp_path / "tapes")
    (tmp_path / "tapes" / "20231114T221320.000Z-r1.jsonl").symlink_to(outside)
    for _ in range(3):
        tape(recorder).end(None)
    names = sorted(path.name for path in (tmp_path / "tapes").iterdir() if not path.is_symlink())
    assert names == [f"20231114T221320.000Z-r1-{n}.jsonl" for n in (2, 3, 4)]
    assert not outside.exists()


# --- secrets ---------------------------------------------------------------------------------------------------------


async def test_no_secret_of_the_server_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_AGENT_TOKEN", "from-the-environment")
    said = f"keys: {KEY} and from-the-environment, sk-live-0123456789ab"
    items = (said, ev.Custom(name=KEY, value={KEY: [KEY]}), ev.RunFailed(code="x", message=KEY))
    await recorded(agent(*items), Recorder(tmp_path, [KEY]), asked(run_id=f"run-{KEY}"))
    path = file_in(tmp_path)
    kept = path.read_text() + path.name
    assert not any(secret in kept for secret in (KEY, "from-the-environment", "sk-live"))
    text = "".join(event.delta for event in replayed(path) if isinstance(event, ev.TextDelta))
    assert text == f"keys: {'*' * len(KEY)} and {'*' * 20}, {'*' * 20}"


async def test_the_secret_in_an_error_is_not_written(tmp_path: Path) -> None:
    async def fails(request: RunRequest) -> Any:
        yield "x"
        raise ValueError(f"no such key: {KEY}")

    await recorded(PythonSource(fails), Recorder(tmp_path, [KEY]))
    assert KEY not in file_in(tmp_path).read_text()


# --- when it cannot be recorded --------------------------------------------------------------------------------------


def text(entries: Any) -> str:
    return "".join(entry.event.delta for entry in entries if isinstance(entry.event, ev.TextDelta))


async def test_a_directory_that_cannot_be_made_is_told_once_and_hurts_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    recorder = Recorder(tmp_path / "file" / "tapes")
    for run_id in ("r1", "r2"):
        assert text(await recorded(agent("x"), recorder, asked(run_id=run_id))) == "x"
    [said] = warnings(caplog)
    assert "cannot be made" in said and str(tmp_path) in said


async def test_a_directory_that_is_gone_is_made_again(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "tapes")
    (tmp_path / "tapes").rmdir()
    await recorded(agent("x"), recorder)
    assert len(lines_of(file_in(tmp_path / "tapes"))) == 3


class Full:
    """A disk that takes ``room`` more bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, line: bytes) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._file.write(line[: self._room])
        self._room -= taken
        return int(taken)

    def close(self) -> None:
        self._file.close()


async def test_a_full_disk_is_told_once_and_hurts_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = record.FileIO
    monkeypatch.setattr(record, "FileIO", lambda *args: Full(whole(*args), 320))
    recorder = Recorder(tmp_path)
    for run_id in ("r1", "r2"):
        entries = await recorded(agent(*["word "] * 20), recorder, asked(run_id=run_id))
        assert text(entries) == "word " * 20 and isinstance(entries[-1].event, ev.RunFinished)
    [said] = warnings(caplog)
    assert "No space left on device" in said
    for path in files_in(tmp_path):  # what fitted can be replayed
        assert len(path.read_bytes()) == 320
        events = replayed(path)
        said = "".join(event.delta for event in events if isinstance(event, ev.TextDelta))
        assert said and ("word " * 20).startswith(said)
        assert isinstance(events[-1], ev.RunFailed) and events[-1].code == "replica_lost"


def test_a_line_that_the_disk_takes_in_two_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Halting(Full):
        def write(self, line: bytes) -> int:
            return int(self._file.write(line[: max(1, len(line) // 2)]))

    whole = record.FileIO
    monkeypatch.setattr(record, "FileIO", lambda *args: Halting(whole(*args), 0))
    halting = tape(Recorder(tmp_path))
    halting.item("one")
    halting.end(None)
    assert [line.get("item", "-") for line in lines_of(file_in(tmp_path))] == ["-", "one", "-"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full: run it on Linux")
def test_the_systems_own_full_disk_gives_a_recording_up(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    class Elsewhere(Recorder):
        def _file(self, at_ms: int, run_id: str) -> Any:
            return record.FileIO("/dev/full", "w")

    tape(Elsewhere(tmp_path)).item("x")
    assert "No space left" in warnings(caplog)[0]


async def test_an_item_that_cannot_be_written_gives_the_recording_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(PythonSource):
        @staticmethod
        def dump(item: Any) -> Any:
            raise RuntimeError("no")

    broken = Broken(agent("x", "y")._agent)
    assert text(await recorded(broken, Recorder(tmp_path))) == "xy"
    assert len(lines_of(file_in(tmp_path))) == 1 and len(warnings(caplog)) == 1


async def test_a_source_that_cannot_be_recorded_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Foreign:
        open, translator = PythonSource.open, PythonSource.translator
        _agent = staticmethod(agent("x")._agent)

    recorder = Recorder(tmp_path)
    for run_id in ("r1", "r2"):
        assert text(await recorded(Foreign(), recorder, asked(run_id=run_id))) == "x"
    assert files_in(tmp_path) == []
    assert warnings(caplog) == ["recording: runs of Foreign cannot be recorded"]


def test_a_recording_has_a_limit_and_so_have_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record, "LIMIT", 400)
    monkeypatch.setattr(record, "AT_ONCE", 2)
    recorder = Recorder(tmp_path)
    first, second = tape(recorder, "r1"), tape(recorder, "r2")
    assert tape(recorder, "r3") is None
    second.end(None)  # which goes well, so that the next failure is told
    for _ in range(20):
        first.item("a long item")
    assert all(path.stat().st_size <= 400 for path in tmp_path.iterdir())
    for again in (tape(recorder, "r4"), tape(recorder, "r5")):
        again.end(None)
    assert [("at once" in said, "400 bytes" in said) for said in warnings(caplog)] == [(True, False), (False, True)]


def test_a_tape_that_has_ended_takes_nothing_more(tmp_path: Path) -> None:
    ended = tape(Recorder(tmp_path))
    ended.end(None)
    ended.item("late")
    ended.event(ev.Custom(name="late"))
    ended.end(ValueError("late"))
    assert [line.get("end", "") for line in lines_of(file_in(tmp_path))][1:] == [None]


# --- what a killed process leaves ------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from anabranch import events as ev
from anabranch.request import RunRequest
from anabranch.sources.python import PythonSource
from anabranch.tapes.record import Recorder

started = ev.RunStarted(run_id="r1", thread_id="t1")
tape = Recorder(sys.argv[1]).tape(PythonSource(print), RunRequest(run_id="r1", thread_id="t1"), started)
for number in range(1000):
    tape.item(f"{number} ")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
def test_a_killed_process_leaves_all_that_it_had_recorded(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, timeout=30)
    assert done.returncode == -9, done.stderr
    events = replayed(file_in(tmp_path))
    said = "".join(event.delta for event in events if isinstance(event, ev.TextDelta))
    assert said == "".join(f"{number} " for number in range(1000))
    assert isinstance(events[-1], ev.RunFailed) and events[-1].code == "replica_lost" and events[-1].retryable


def test_a_line_is_in_the_file_as_soon_as_it_is_recorded(tmp_path: Path) -> None:
    open_tape = tape(Recorder(tmp_path))
    for number in range(3):
        open_tape.item(str(number))
        assert json.loads(file_in(tmp_path).read_bytes().splitlines()[-1])["item"] == str(number)
    open_tape.end(None)
