"""One small server in its own operating-system process, seen from both ends.

The child calls :func:`serve`: it binds 127.0.0.1, writes one JSON line ``{"url": "http://127.0.0.1:PORT"}`` to stdout,
and exits 0 on SIGTERM or SIGINT. The parent enters :func:`started`, which reads that line and stops the child on exit.
With ``--die-with-parent`` the child also ends when its stdin does, so no orphan survives a parent that was killed.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import FrameType
from typing import IO

import uvicorn
from starlette.types import ASGIApp


class StartFailed(RuntimeError):
    """The child process did not announce a URL; the message carries the end of its stderr."""


def command_line(description: str) -> argparse.ArgumentParser:
    """A parser that knows the options every demo process takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 (default) picks a free one")
    parser.add_argument("--die-with-parent", action="store_true", help="exit when stdin ends")
    return parser


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: the inherited one raises the signal again after a clean stop, and the exit status is not 0."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; the streams that are cut by it are not worth a traceback."""
        logging.disable(logging.CRITICAL)
        super().handle_exit(sig, frame)


def serve(build: Callable[[str], ASGIApp], options: argparse.Namespace) -> None:
    """Serve `build(url)` until a signal. `options` comes from :func:`command_line`.

    Raises SystemExit with a plain message when the port cannot be bound.
    """
    try:
        listener = socket.create_server(("127.0.0.1", options.port))
    except OSError as error:
        raise SystemExit(f"cannot listen on 127.0.0.1:{options.port}: {error.strerror}; use --port 0") from None
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    # Streams still open at a stop are cut at once: a demo process has nothing to hand over.
    server = _Server(uvicorn.Config(build(url), log_level="warning", timeout_graceful_shutdown=0))
    signal.signal(signal.SIGTERM, server.handle_exit)
    signal.signal(signal.SIGINT, server.handle_exit)
    end_with_parent(options)
    announce(url)
    server.run(sockets=[listener])


def announce(url: str) -> None:
    """Tell the parent where this process listens."""
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()


def end_with_parent(options: argparse.Namespace) -> None:
    """Make this process end when its stdin does, if it was started so."""
    if options.die_with_parent:
        threading.Thread(target=_exit_at_end_of_stdin, daemon=True).start()


def _exit_at_end_of_stdin() -> None:
    # os.read, not sys.stdin: a thread that waits inside the buffered reader holds its lock and breaks a normal exit.
    while os.read(0, 4096):
        pass
    os._exit(0)


@contextlib.asynccontextmanager
async def started(module: str, *arguments: str, port: int = 0, within_s: float = 30.0) -> AsyncIterator[str]:
    """Run ``python -m module arguments`` and yield the URL it serves; the process is gone on exit.

    Raises :class:`StartFailed` when no URL came within `within_s` seconds, or the process ended first.
    """
    with tempfile.TemporaryFile() as stderr:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, "--port", str(port), "--die-with-parent", *arguments),
            stdin=asyncio.subprocess.PIPE,  # held open: its end is what tells the child that we are gone
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
            start_new_session=True,  # Ctrl-C in a terminal is the parent's to handle, in its own order
        )
        try:
            yield await _announced(child, module, stderr, within_s)
        finally:
            await _stop(child)


async def _announced(child: asyncio.subprocess.Process, module: str, stderr: IO[bytes], within_s: float) -> str:
    assert child.stdout is not None
    line, cause = b"", "ended"
    try:
        async with asyncio.timeout(within_s):
            line = await child.stdout.readline()
    except TimeoutError:
        cause = f"said nothing for {within_s:g} s"
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, TypeError):
        stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - 2000))
        tail = stderr.read().decode(errors="replace").strip()
        said = f" printed {line!r}" if line else f" {cause}"
        raise StartFailed(f"{module}{said} instead of announcing a URL; its stderr ends with:\n{tail}") from None


async def _stop(child: asyncio.subprocess.Process) -> None:
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signum)  # child.terminate() would reap a child that just died, behind asyncio's back
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await child.wait()
                break
    if child.stdin is not None:
        child.stdin.close()
