"""The turns of one thread, and what the process says and exits with after them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from types import FrameType
from typing import Any, NoReturn

from .client import run_input
from .conversation import Conversation
from .output import Output, tell
from .peer import Peer
from .question import answered, asked
from .reading import Ending, Reading
from .turn import Stuck, Turn

OK, FAILED, INTERRUPTED, BROKEN_PIPE = 0, 1, 130, 141
"""Exit codes: as shells have them for a process that SIGINT or SIGPIPE ended."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h\n"


class Session:
    """One thread at one server, ``""`` when that is to name it.

    ``interactive``: somebody sits at standard input and can be asked.
    """

    def __init__(
        self, peer: Peer, output: Output, thread_id: str, *, timeout_s: float | None, interactive: bool
    ) -> None:
        self._peer, self._output, self._thread_id = peer, output, thread_id
        self._timeout_s, self._interactive = timeout_s, interactive
        self._conversation = Conversation()
        self._stop = asyncio.Event()
        self._signalled = False
        self._runner = asyncio.Runner()

    def run(self, prompt: str | None) -> int:
        """Ask ``prompt``, or whatever is typed until Ctrl-D. Returns the exit code."""
        with self._runner, _interruptible():
            try:
                self._runner.run(self._peer.__aenter__())
                return self._loop() if prompt is None else self._exchange(prompt)
            except KeyboardInterrupt:
                sys.stderr.write("\n")
                return INTERRUPTED
            except OSError as error:  # of standard output: the client has its own
                # Nothing that Python still flushes at its exit may fail again.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if isinstance(error, BrokenPipeError):
                    return BROKEN_PIPE
                tell(f"standard output cannot be written: {error.strerror}")
                return FAILED
            except Stuck:
                _leave(INTERRUPTED if self._signalled else FAILED)
            finally:
                self._runner.run(self._peer.__aexit__())

    def _loop(self) -> int:
        thread_id = self._thread_id
        tell(f"{thread_id and f'thread {thread_id}; '}Ctrl-C stops a run, Ctrl-D leaves")
        while True:
            if self._thread_id != thread_id:
                thread_id = self._thread_id
                tell(f"thread {thread_id}")
            try:
                line = _typed("> ")
            except EOFError:
                return OK
            if line.strip():
                self._exchange(line)

    def _exchange(self, text: str) -> int:
        """One question of the user, and every question that the agent has before it answers."""
        message_id = uuid.uuid4().hex
        self._conversation.say(message_id, text)
        turn, ending = self._turn()
        if not turn.started:
            self._conversation.forget(message_id)
        while ending.status == "interrupted" and self._interactive and not self._signalled:
            _, ending = self._turn(resume=[_answer(interrupt) for interrupt in ending.interrupts])
        return self._report(ending)

    def _turn(self, **more: Any) -> tuple[Turn, Ending]:
        body = run_input(self._thread_id, self._conversation.messages, **more)
        turn = Turn(self._peer, body, Reading(self._conversation), self._output)
        self._stop, self._signalled = asyncio.Event(), False
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            ending = self._runner.run(turn.play(self._stop, self._timeout_s))
            self._thread_id = self._peer.ids(body)["thread_id"] or self._thread_id
            return turn, ending
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signalled:
            _leave(INTERRUPTED)
        self._signalled = True
        self._runner.get_loop().call_soon_threadsafe(self._stop.set)

    def _report(self, ending: Ending) -> int:
        """Say how it ended, unless it ended well, and return the exit code."""
        if self._signalled:
            said = "cancelled" if ending.status == "cancelled" else f"interrupted ({ending.message or ending.status})"
            tell(said)
            return INTERRUPTED
        if ending.status == "success":
            return OK
        if ending.status == "interrupted":
            for interrupt in ending.interrupts:
                tell(f"the agent asks: {asked(interrupt)}")
            tell("nobody can be asked here: run this in a terminal, without piped input, to answer")
        elif ending.status == "cancelled":
            tell(f"the run was cancelled{': ' if ending.message else ', and not from here'}{ending.message}")
        else:
            tell(f"{ending.message}{f' ({ending.code})' if ending.code else ''}")
        return FAILED


def _answer(interrupt: dict[str, Any]) -> dict[str, Any]:
    """Ask the user. Ctrl-D withdraws the question."""
    tell(f"the agent asks: {asked(interrupt)} (Ctrl-D: no answer)")
    while True:
        try:
            return {
                "interruptId": interrupt["id"],
                "status": "resolved",
                "payload": answered(interrupt, _typed("answer> ")),
            }
        except EOFError:
            return {"interruptId": interrupt["id"], "status": "cancelled"}
        except ValueError as flaw:
            tell(str(flaw))


def _typed(prompt: str) -> str:
    """A line of standard input; what is no text in it becomes U+FFFD. Raises ``EOFError``."""
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  gives input() its editing keys
        try:
            return input(prompt).encode(errors="surrogateescape").decode(errors="replace")
        except EOFError:
            sys.stdout.write("\n")
            raise
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return input()


@contextlib.contextmanager
def _interruptible() -> Any:
    """While no run is under way, a signal raises ``KeyboardInterrupt``."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(code: int) -> NoReturn:
    """Exit at once, whatever still waits for whom."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), _SHOW_CURSOR)
    os._exit(code)
