"""Environments beside the one that the tests run in, for what cannot be installed together with our own dependencies.

Each is a lock file here. It is made once on a machine, in the user's cache folder, from a package index.

    python = environments.python("a2a-0.3")                       # or skip, saying what is missing
    async with environments.started(python, script, "--rate", "0") as url:
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_MAKE_S = 240
_START_S = 30


def python(name: str) -> str:
    """The interpreter of the environment ``name``. Skips the test when there is none and it cannot be made."""
    path, flaw = _made(name)
    if flaw:
        pytest.skip(f"needs the environment tests/environments/{name}.txt; connect to a package index once: {flaw}")
    return path


@functools.cache
def _made(name: str) -> tuple[str, str]:
    lock = _HERE / f"{name}.txt"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(lock.read_bytes() + sys.base_prefix.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anabranch" / "environments"
    folder = cache / f"{name}-py{version}-{digest}"
    interpreter = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
    if not (folder / interpreter).exists():
        try:
            _make(folder, lock, interpreter)
        except (OSError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", None) or str(error)
            return "", " ".join(told.split())[-300:]
    return str(folder / interpreter), ""


def _make(folder: Path, lock: Path, interpreter: Path) -> None:
    """Make it beside its place and move it there whole: two test runs may do this at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        made = Path(temporary, folder.name)
        for command in (
            ["venv", "--quiet", "--relocatable", "--python", sys.executable, str(made)],
            ["pip", "install", "--quiet", "--require-hashes", "--python", str(made / interpreter), "-r", str(lock)],
        ):
            uv = [sys.executable, "-m", "uv", *command]
            subprocess.run(uv, check=True, capture_output=True, text=True, timeout=_MAKE_S)
        with contextlib.suppress(OSError):  # another run was faster
            made.rename(folder)
        if not (folder / interpreter).exists():
            raise OSError(f"{folder} could not be written")


@contextlib.asynccontextmanager
async def started(python: str, script: Path, *arguments: str) -> AsyncIterator[str]:
    """Run ``script``, which serves, with another interpreter; its URL, which it prints as ``{"url": ...}``."""
    with tempfile.TemporaryFile() as stderr:
        child = await asyncio.create_subprocess_exec(
            *(python, str(script), *arguments),
            stdin=asyncio.subprocess.PIPE,  # its end is what tells the child that we are gone
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )
        assert child.stdout is not None and child.stdin is not None
        try:
            async with asyncio.timeout(_START_S):
                line = await child.stdout.readline()
            stderr.seek(0)
            assert line, stderr.read().decode(errors="replace")[-2000:]
            yield str(json.loads(line)["url"])
        finally:
            child.stdin.close()
            try:
                async with asyncio.timeout(5):
                    await child.wait()
            except TimeoutError:
                child.kill()
                await child.wait()
