"""The command line, as a process: what it says, where, and how it exits."""

import asyncio
import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch
from anabranch.storage import open_storage

pytestmark = pytest.mark.process

GOOD = "agents: {echo: {python: 'agents_of_the_test:echo'}}\n"
MODULE = "async def echo(request):\n    yield 'hello'\n"


def command(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``anabranch`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "anabranch", *arguments],
        cwd=cwd,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "anabranch.yaml").write_text(GOOD)
    (tmp_path / "agents_of_the_test.py").write_text(MODULE)
    return tmp_path


def refused(folder: Path, text: str | None = None, *arguments: str, **environ: str) -> str:
    """The one line that ``anabranch serve`` writes when it refuses to start."""
    if text is not None:
        (folder / "anabranch.yaml").write_text(text)
    done = command("serve", *arguments, cwd=folder, **environ)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("anabranch: ") and done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("asked", ["version", "--version"])
def test_version_is_data_and_goes_to_stdout(tmp_path: Path, asked: str) -> None:
    done = command(asked, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{anabranch.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("servve",), ("serve", "--prot", "1"), ("serve", "--port", "70000"), ()])
def test_a_wrong_use_exits_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_typo_is_told_with_its_line_and_the_remedy(folder: Path) -> None:
    said = refused(folder, GOOD + "server:\n  prot: 80\n")
    assert "anabranch.yaml:3" in said and "did you mean `port`?" in said


def test_a_variable_with_a_typo_is_told(folder: Path) -> None:
    assert "ANABRANCH__SERVER__PORT: `server.port`" in refused(folder, ANABRANCH__SERVER__PORT="http")


def test_a_missing_file_is_told(folder: Path) -> None:
    assert "elsewhere.yaml: cannot be read: No such file" in refused(folder, None, "elsewhere.yaml")


def test_a_taken_port_is_told_with_the_remedy(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(folder, None, "--port", str(port))
    assert f"cannot listen on 127.0.0.1:{port}" in said and "--port" in said


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "::ffff:192.0.2.1"])
def test_an_address_that_is_not_ours_is_told(folder: Path, host: str) -> None:
    assert f"cannot listen on {host}:0" in refused(folder, None, "--host", host, "--port", "0")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("def echo(:", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("other = 1", "has no 'echo'"),
        ("echo = 42", "int is not an agent"),
        ("async def echo(request): return 'hello'", "not `async def` with `yield`"),
        ("def echo(request): yield 'hello'", "not `async def` with `yield`"),
    ],
)
def test_an_agent_that_cannot_be_made_is_told_with_its_field(folder: Path, module: str, said: str) -> None:
    (folder / "agents_of_the_test.py").write_text(module)
    line = refused(folder)
    assert line.startswith("anabranch: anabranch.yaml:1: `agents.echo.python`: ")
    assert said in line


def test_what_only_the_start_finds_wrong_is_told_with_its_line(folder: Path) -> None:
    text = "agents:\n  echo: {python: 'agents_of_the_test:echo'}\n  other:\n    python: no_such_module:a\n"
    assert "anabranch.yaml:4: `agents.other.python`: 'no_such_module' cannot" in refused(folder, text)
    variable = {"ANABRANCH__AGENTS__ECHO__PYTHON": "agents_of_the_test:shout"}
    assert f"anabranch: {[*variable][0]}: `agents.echo.python`: 'agents_of_the_test' has" in refused(folder, **variable)


@pytest.mark.parametrize(
    ("agent", "without", "field", "extra"),
    [
        ("a2a: 'http://127.0.0.1:1'", "aiohttp", "agents.a.a2a", "a2a"),
        ("openai: 'http://127.0.0.1:1', model: m", "aiohttp", "agents.a.openai", "openai"),
        ("a2a: 'http://127.0.0.1:1'", "langchain_openai", "supervisor", "langgraph"),
        ("a2a: 'http://127.0.0.1:1'", "deepagents", "supervisor", "langgraph"),
    ],
)
def test_a_missing_extra_is_told_when_the_server_starts(
    folder: Path, agent: str, without: str, field: str, extra: str
) -> None:
    (folder / "sitecustomize.py").write_text(f"import sys; sys.modules[{without!r}] = None")
    text = f"agents: {{a: {{{agent}}}}}\n"
    if field == "supervisor":
        text += "model: {name: m}\nsupervisor: {agents: [a]}\n"
    said = refused(folder, text, PYTHONPATH=str(folder))
    assert f"anabranch.yaml:{text[: text.index(field.split('.')[0])].count(chr(10)) + 1}: `{field}`: " in said
    assert f"pip install '.[{extra}]'" in said


def test_a_missing_secret_is_told_by_the_name_of_its_variable(folder: Path) -> None:
    text = "agents: {a: {a2a: 'http://127.0.0.1:1', auth: {bearer_env: NO_SUCH_TOKEN}}}\n"
    said = refused(folder, text)
    assert "anabranch.yaml:1: `agents.a.auth.bearer_env`: the environment variable NO_SUCH_TOKEN is not set" in said


def test_a_storage_whose_runs_cannot_be_read_is_told_with_the_remedy(folder: Path) -> None:
    storage = open_storage(f"sqlite:///{folder / 'anabranch.db'}")
    asyncio.run(storage.aclose())
    with contextlib.closing(sqlite3.connect(folder / "anabranch.db")) as file:
        columns = "key, principal, run_id, thread_id, active, forgotten, size, record, given, outcome"
        file.execute(f"INSERT INTO runs ({columns}) VALUES ('k', 'p', 'r', 't', 1, 0, 0, '{{', '[]', 'null')")
        file.commit()
    done = command("serve", cwd=folder, ANABRANCH__SERVER__PORT="0")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("anabranch: anabranch.yaml: storage: the server cannot start")
