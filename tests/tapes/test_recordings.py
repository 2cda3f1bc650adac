"""Recorded runs: what is made of each stays what is beside it in ``NAME.expected.jsonl``.

A bug report becomes a test here: put its recording into ``tests/recordings`` as ``SOURCE-WHAT.jsonl`` (or a captured
answer as ``SOURCE-WHAT.txt``), and what it should give beside it::

    anabranch replay --source SOURCE FILE > tests/recordings/SOURCE-WHAT.expected.jsonl
"""

from __future__ import annotations

import json
from pathlib import Path

import oracles
import pytest
from referee import judged

from anabranch.events import encode
from anabranch.sinks.agui.encode import AguiEncoder
from anabranch.sinks.agui.profile import Profile

from .taping import opened

HERE = Path(__file__).parent.parent / "recordings"
FILES = sorted(path for path in HERE.iterdir() if not path.name.endswith(".expected.jsonl"))

every_recording = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def kind_of(path: Path) -> str:
    return path.name.partition("-")[0]


def test_every_source_has_a_recording() -> None:
    assert {kind_of(path) for path in FILES} == {"a2a", "langgraph", "openai", "python", "supervisor"}


@every_recording
def test_a_recording_gives_what_is_expected_lawfully(path: Path) -> None:
    replay = opened(path, kind_of(path))
    entries = list(replay.entries())
    assert replay.repairs == {}
    judged(entry.event for entry in entries)
    expected = path.with_name(f"{path.stem}.expected.jsonl").read_bytes().splitlines()
    assert [(entry.seq, json.loads(encode(entry.event))) for entry in entries] == [
        (line["seq"], line["event"]) for line in map(json.loads, expected)
    ]


@every_recording
@pytest.mark.parametrize("profile", [Profile(True, "native"), Profile(False, "steps")], ids=["1.0", "before 1.0"])
def test_an_ag_ui_client_accepts_what_comes_of_a_recording(path: Path, profile: Profile) -> None:
    encoder = AguiEncoder(profile)
    frames = [frame for entry in opened(path, kind_of(path)).entries() for frame in encoder.feed(entry)]
    assert oracles.flaws([frames], clients=()) == [[]]
