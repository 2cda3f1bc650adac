"""The bench runs, and has every figure it promises. Not one of them is judged here: this machine is busy with tests."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(180)]


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)


def at(figures: dict[str, Any], path: str) -> Any:
    value: Any = figures
    for name in path.split("."):
        value = value[name]
    return value


def test_a_quick_run_gives_every_figure_and_loses_no_token(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    done = ran("--quick", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    assert {"date", "anabranch", "python", "packages", "machine", "options", "figures", "passes"} <= report.keys()
    assert report["machine"]["cpu"] and report["packages"]["msgspec"]
    figures = report["figures"]
    for path in (
        *("relay.ours.lag.p50_ms", "relay.direct.lag.p99_ms", "lanes.ours.one.token_us", "lanes.bare.many.token_us"),
        *(
            "python.ours.token_us",
            "python.bare.run_us",
            "python.ours.s1000.p99_ms",
            "langgraph.deepagents.ours.token_us",
        ),
        *("langgraph.create_agent.bare.run_us", "micro.grammar_us", "micro.encoder_us", "micro.a2a_us"),
        *("start.import_s", "start.ready_s", "memory.watcher_kb", "memory.sqlite_kb", "memory.bare_kb"),
        *("storage.sqlite.token_us", "storage.memory.run_us", "storage.sqlite.s100.token_us"),
        *("storage.sqlite.relay.lag.p99_ms", "reconnect.memory.k10.ms", "reconnect.sqlite.k100.cpu_ms"),
        *("reconnect.sqlite.k100.unseen_cpu_ms", "reconnect.bare.cpu_ms", "reconnect.restarted.k100.first_ms"),
    ):
        assert isinstance(at(figures, path), int | float), path
    assert figures["relay"]["ours"]["exact"] and figures["relay"]["direct"]["exact"]
    for each in ("memory", "sqlite", "restarted"):
        assert figures["reconnect"][each]["exact"], each
    for size in ("one", "some", "many"):
        assert (figures["lanes"]["ours"][size]["lost"], figures["lanes"]["ours"][size]["repeated"]) == (0, 0)
    assert "relay lag p50" in done.stdout and "smoke run" in done.stdout


def test_an_unknown_measure_is_refused_with_the_known_ones() -> None:
    done = ran("relais")
    assert done.returncode == 2
    assert "no measure relais" in done.stderr and "known: relay, nested, lanes" in done.stderr
