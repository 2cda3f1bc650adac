"""``anabranch replay`` as a process: data on stdout, everything else on stderr, and how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .taping import tape_of

pytestmark = pytest.mark.process

RECORDINGS = Path(__file__).parent.parent / "recordings"
SUPERVISOR = RECORDINGS / "langgraph-supervisor-one-agent-fails.jsonl"
HELLO = [{"at": 3, "item": "Hel"}, {"at": 5, "item": "lo"}, {"at": 9, "end": None}]


def replay(*arguments: object, given: bytes = b"") -> tuple[int, list[Any], str]:
    """The exit status, the lines of stdout, and stderr."""
    command = [sys.executable, "-m", "anabranch", "replay", *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, timeout=30)
    said = done.stderr.decode()
    assert "Traceback" not in said
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], said


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(tape_of(*HELLO)))
    return path


def test_events_are_lines_with_their_seq(file: Path) -> None:
    status, lines, said = replay("--source", "python", file, "--to", "events")
    assert (status, said) == (0, "")
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(line.keys() == {"seq", "event"} for line in lines)
    assert [line["event"].get("delta") for line in lines if line["event"]["type"] == "text_delta"] == ["Hel", "lo"]


def test_frames_are_lines_with_their_cursor_and_the_times_of_the_recording(file: Path) -> None:
    status, lines, said = replay(file, "--to", "agui")
    assert (status, said) == (0, "")
    assert [line["id"] for line in lines] == [f"r1:{n}.0" for n in range(1, len(lines) + 1)]
    assert [line["data"]["timestamp"] for line in lines] == [1000, 1003, 1003, 1005, 1009, 1009]
    assert lines[-1]["data"]["type"] == "RUN_FINISHED"


def test_the_same_file_gives_the_same_bytes_also_through_stdin() -> None:
    runs = [replay(SUPERVISOR, "--to", "agui"), replay("-", "--to", "agui", given=SUPERVISOR.read_bytes())]
    assert runs[0] == runs[1] and runs[0][0] == 0


def test_sub_agents_are_told_as_the_client_wants_it() -> None:
    def types(*options: str) -> set[str]:
        return {line["data"]["type"] for line in replay(SUPERVISOR, "--to", "agui", *options)[1]}

    assert "SUBAGENT_STARTED" in types() & types("--profile", "older", "--subagents", "native")
    assert "STEP_STARTED" in types("--profile", "older") & types("--subagents", "steps")
    assert "SUBAGENT_STARTED" not in types("--profile", "older")


def test_the_frames_of_an_a2a_client_are_those_of_its_version(file: Path) -> None:
    status, lines, said = replay(file, "--to", "a2a")
    assert (status, said) == (0, "")
    assert [line["id"] for line in lines] == ["r1:1.0", "r1:1.1", "r1:3.0", "r1:4.0", "r1:5.0", "r1:6.0"]
    results = [line["data"]["result"] for line in lines]
    updates = [result["artifactUpdate"] for result in results if "artifactUpdate" in result]
    assert "".join(part["text"] for update in updates for part in update["artifact"]["parts"]) == "Hello"
    assert results[0]["task"]["status"]["timestamp"] == "1970-01-01T00:00:01.000Z"
    assert results[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    older = [line["data"]["result"] for line in replay(file, "--to", "a2a", "--profile", "older")[1]]
    assert [result["kind"] for result in older] == ["task", "status-update", *["artifact-update"] * 3, "status-update"]
    assert (older[-1]["status"]["state"], older[-1]["final"]) == ("completed", True)


@pytest.mark.parametrize("profile", ["modern", "older"])
def test_an_a2a_client_is_told_who_said_what_when_it_asks(profile: str) -> None:
    plain, told = (
        replay(SUPERVISOR, "--to", "a2a", "--profile", profile, *options)[1]
        for options in ((), ("--subagents", "native"))
    )
    assert len(told) > len(plain) > 2
    assert "attribution" in json.dumps(told) and "attribution" not in json.dumps(plain)


def test_what_an_a2a_client_is_told_can_be_read_and_replayed_again() -> None:
    _, told, _ = replay(SUPERVISOR, "--to", "a2a")
    answer = b"".join(b"data: %b\n\n" % json.dumps(line["data"]).encode() for line in told)
    status, lines, said = replay("-", "--source", "a2a", given=answer)
    assert (status, lines[-1]["event"]["type"], said) == (0, "run_finished", "")


def test_a_captured_answer_is_replayed() -> None:
    path = RECORDINGS / "openai-captured-with-curl.txt"
    status, lines, said = replay("--source", "openai", path, "--to", "agui")
    assert (status, said) == (0, "")
    assert "".join(each["data"].get("delta", "") for each in lines if "TEXT" in each["data"]["type"]) == "Two calls 🚀."
    assert len(lines[-1]["data"]["outcome"]["pendingToolCallIds"]) == 2


def test_a_run_that_failed_is_data(tmp_path: Path) -> None:
    end = {"type": "SourceError", "code": "busy", "message": "No.", "retryable": True}
    status, lines, said = replay("-", given=b"".join(tape_of(HELLO[0], {"end": end})))
    assert (status, lines[-1]["event"]["code"], said) == (0, "busy", "")


def test_a_recording_that_was_cut_off_is_told_and_read() -> None:
    status, lines, said = replay(RECORDINGS / "langgraph-killed.jsonl")
    assert (status, lines[-1]["event"]["code"]) == (0, "replica_lost")
    assert said.startswith("anabranch: ") and "it stops before the end of the run" in said and said.count("\n") == 1


def test_a_broken_file_exits_1_after_what_could_be_read(file: Path) -> None:
    file.write_bytes(b"".join(tape_of(HELLO[0], b"no json\n", *HELLO[1:])))
    status, lines, said = replay(file)
    assert status == 1 and lines[-1]["event"]["delta"] == "Hel"
    assert said == f"anabranch: {file}:3: this is no line of JSON; cut the file before it to replay what came before\n"


def test_no_escape_sequence_of_a_file_reaches_the_terminal() -> None:
    # typer strips them itself where there is no terminal
    broken = b'{"at":1,"event":{"type":"text_delta","message_id":"m","delta":5,"\\u001b[2J":1}}\n'
    _, _, said = replay("-", given=b"".join(tape_of()) + broken)
    assert "\\x1b[2J" in said


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (("no-such-file",), b"", "No such file"),
        ((), b"", "Missing argument"),
        (("-", "--source", "nat"), b"", "nat"),
        (("-", "--to", "acp"), b"", "acp"),
        (("-", "--to", "a2a", "--subagents", "steps"), b"", "A2A has no steps"),
        (("-", "--to", "agui", "--subagents", "all"), b"", "all"),
        (("-", "--source", "a2a"), tape_of(*HELLO)[0], "stdin:1: it was recorded from python; give `--source python`"),
        (("-",), b"data: x\n\n", "give `--source` a2a or openai"),
    ],
)
def test_a_wrong_use_exits_2(arguments: tuple[str, ...], given: bytes, said: str) -> None:
    status, lines, error = replay(*arguments, given=given)
    assert (status, lines) == (2, []) and said in error


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    command = [sys.executable, "-m", "anabranch", "replay", str(SUPERVISOR)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout and running.stderr
        running.stdout.close()
        said = running.stderr.read()
        assert running.wait(30) in (0, 1)
    assert b"Traceback" not in said


def test_the_command_line_starts_without_what_replay_needs() -> None:
    code = "import sys, anabranch.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert not {"anabranch.tapes", "anabranch.sinks", "anabranch.sources"} & set(done.stdout.split())
