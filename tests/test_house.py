"""The house rules that no linter knows: purity, the public names, what an import costs, what may be committed."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import anabranch

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "anabranch"

PUBLIC = ("App", "__version__", "current")

# The pure machines: by the names that the house gives them, and whatever says so of itself.
NAMED = ("encode.py", "errors.py", "events.py", "grammar.py", "machine.py", "parse.py", "sse.py", "translate.py")
PURE = sorted(
    path
    for path in SRC.rglob("*.py")
    if path.name in NAMED or re.search(r"\bPure\b", ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
)
SHELL_ONLY = frozenset(
    {"aiohttp", "anyio", "asyncio", "httpx", "os", "random", "secrets", "socket", "starlette", "threading"}
    | {"time", "uuid", "uvicorn"}
)
CLOCKS = frozenset({"now", "today", "utcnow"})
WAITS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def impurities(source: str) -> Iterator[str]:
    """Name everything in a module's text that needs a loop, a clock, chance or the outside."""
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        elif isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            yield f"line {node.lineno} reads a clock: .{node.attr}"
        elif isinstance(node, WAITS):
            yield f"line {node.lineno} waits: {type(node).__name__}"
        for module in modules:
            if module.partition(".")[0] in SHELL_ONLY:
                yield f"line {node.lineno} imports {module}"


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(SRC)))
def test_a_pure_module_needs_no_loop_no_clock_no_chance_and_no_outside(path: Path) -> None:
    assert list(impurities(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "def late():\n    from time import monotonic",
        "import os.path",
        "from datetime import datetime\nat = datetime.now()",
        "async def feed(item): ...",
    ],
)
def test_the_purity_check_sees_through_each_disguise(source: str) -> None:
    assert list(impurities(source))


def test_the_public_names_are_exactly_these_and_all_of_them_resolve() -> None:
    assert isinstance(anabranch.__all__, tuple | list)
    assert tuple(anabranch.__all__) == PUBLIC
    for name in anabranch.__all__:
        assert getattr(anabranch, name) is not None, name


def test_importing_the_package_loads_no_framework_and_no_protocol_sdk() -> None:
    code = "import json, sys, anabranch; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    heavy = re.compile(r"a2a|ag_ui|aiohttp|deepagents|lang(chain|graph|smith)\w*|openai|starlette|uvicorn")
    loaded = set(json.loads(done.stdout))
    assert "anabranch" in loaded
    assert [name for name in sorted(loaded) if heavy.fullmatch(name)] == []


def locked(path: Path) -> dict[str, Requirement]:
    """Read a lock file: each requirement by its normal name. Fails on a line without a version or a hash."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    requirements = {}
    for line in text.replace("\\\n", " ").splitlines():
        spec, *hashes = line.split(" --hash=")
        requirement = Requirement(spec.strip())
        assert str(requirement.specifier).startswith("=="), line
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest.strip()) for digest in hashes), line
        requirements[normal(requirement.name)] = requirement
    return requirements


def normal(name: str) -> str:
    """A distribution's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_file_pins_and_hashes_everything_and_names_no_address(path: Path) -> None:
    assert "://" not in path.read_text(encoding="utf-8")
    assert len(locked(path)) > 20


def test_the_lock_files_fit_what_the_project_declares() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = declared["project"]["optional-dependencies"]
    demo = [*declared["project"]["dependencies"], *(line for lines in extras.values() for line in lines)]
    dev = [line for line in declared["dependency-groups"]["dev"] if isinstance(line, str)]
    assert [path.name for path in LOCKS] == ["demo.txt", "dev.txt"]
    for path, lines in zip(LOCKS, (demo, demo + dev), strict=True):
        pins = locked(path)
        for wanted in map(Requirement, lines):
            if normal(wanted.name) == "anabranch":
                continue
            assert normal(wanted.name) in pins, f"{path.name} lacks {wanted}: make lock"
            version = str(pins[normal(wanted.name)].specifier).removeprefix("==")
            assert wanted.specifier.contains(version, prereleases=True), (
                f"{path.name}: {wanted} is {version}: make lock"
            )


def test_the_demo_runs_on_the_versions_that_the_tests_run_on() -> None:
    demo, dev = (locked(ROOT / "requirements" / name) for name in ("demo.txt", "dev.txt"))
    assert {name: str(pin.specifier) for name, pin in demo.items()}.items() <= {
        name: str(pin.specifier) for name, pin in dev.items()
    }.items()


def committed_texts() -> Iterator[tuple[str, str]]:
    """Every file that git has or would take, with its text; binary files are left out."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
    )
    if listing.returncode != 0:
        pytest.skip("needs a git checkout: clone the repository instead of unpacking an archive")
    for name in filter(None, listing.stdout.split("\0")):
        try:
            yield name, (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git: install it with the system's package manager")
def test_no_committed_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    shared = {Path("/"), Path(tempfile.gettempdir()), Path("/tmp"), Path("/home"), Path("/Users"), Path("/usr/src")}
    own = {ROOT, ROOT.parent, Path.home()} - shared
    pattern = re.compile(
        r"(?<![\w.:/~*-])(?:"
        + "|".join([*(re.escape(str(path)) for path in sorted(own)), r"/home/\w+", r"/Users/\w+"])
        + r")/\w"
    )
    found = [
        f"{name}: {match.group()}" for name, text in committed_texts() for match in [pattern.search(text)] if match
    ]
    assert found == []


@pytest.mark.process
@pytest.mark.parametrize("ci", [True, False])
def test_a_skip_is_a_failure_in_ci_and_only_there(tmp_path: Path, ci: bool) -> None:
    skips = {
        "test_module.py": "import pytest\npytest.importorskip('no_such_package_anywhere')\ndef test_it(): pass\n",
        "test_mark.py": "import pytest\n@pytest.mark.skip(reason='no node')\ndef test_it(): pass\n",
        "test_call.py": "import pytest\ndef test_it(): pytest.skip('no node')\n",
        "test_expected.py": "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n",
    }
    for name, body in skips.items():
        (tmp_path / name).write_text(body)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"],
        cwd=tmp_path,
        env=os.environ | {"CI": "true" if ci else "", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=40,
    )
    verdict = "1 failed, 1 xfailed, 2 errors" if ci else "3 skipped, 1 xfailed"
    assert verdict in done.stdout, done.stdout
    assert ("test_module.py: a skip is a failure when CI=true" in done.stdout) is ci, done.stdout
    assert done.returncode == (1 if ci else 0)
