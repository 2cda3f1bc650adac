"""The one workload, asked for in the prompt: ``BENCH n=<tokens> rate=<tokens a second, 0: no pace>``.

Token k is the text ``k=<k>;t=<ns>; ``. The time is CLOCK_MONOTONIC: of a paced token when it was *due*, so that a
producer that lags counts as delay; of another when it was made. Whoever reads it must share this machine.
"""

from __future__ import annotations

import asyncio
import re
import time
from array import array
from collections.abc import AsyncIterator
from typing import NamedTuple

from anabranch.demo.measure import percentile

_COMMAND = re.compile(r"BENCH n=(\d+) rate=([\d.]+)")
_TOKEN = re.compile(r"k=(\d+);t=(\d+);(?:s=(\d+);)? ")
_BURST = 50  # unpaced tokens between two turns of the loop


class Command(NamedTuple):
    """How many tokens, and how many a second (0: as fast as they are taken)."""

    tokens: int
    rate: float

    def __str__(self) -> str:
        return f"BENCH n={self.tokens} rate={self.rate:g}"


def parse(prompt: str) -> Command:
    """The command in ``prompt``. Raises ``ValueError`` when there is none."""
    found = _COMMAND.search(prompt)
    if not found:
        raise ValueError(f"there is no BENCH command in {prompt[:80]!r}")
    return Command(int(found[1]), float(found[2]))


async def tokens(command: Command) -> AsyncIterator[str]:
    """The text of the command's tokens, each when it is due."""
    if not command.rate:
        for k in range(command.tokens):
            if k % _BURST == 0:
                await asyncio.sleep(0)
            yield f"k={k};t={time.monotonic_ns()}; "
        return
    began_ns = time.monotonic_ns()
    for k in range(command.tokens):
        due_ns = began_ns + int(k * 1e9 / command.rate)
        await until(due_ns)
        yield f"k={k};t={due_ns}; "


async def until(due_ns: int) -> None:
    """Wait until then, but not at all when it is over: who lags must not be slowed further."""
    if (wait_ns := due_ns - time.monotonic_ns()) > 0:
        await asyncio.sleep(wait_ns / 1e9)


class Samples:
    """When each token was due, sent (0: not told) and read, in nanoseconds."""

    def __init__(self) -> None:
        self.due, self.sent, self.read = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self.due)

    def delays_ms(self, from_ns: int = 0, until_ns: int = 1 << 62) -> list[float]:
        """From due to read, of the tokens that were due in the window."""
        return [(at - due) / 1e6 for due, at in zip(self.due, self.read, strict=True) if from_ns <= due < until_ns]

    def lags_ms(self) -> list[float]:
        """From sent to read."""
        return [(at - sent) / 1e6 for sent, at in zip(self.sent, self.read, strict=True)]

    def read_in(self, from_ns: int, until_ns: int) -> int:
        """How many tokens were read in the window."""
        return sum(from_ns <= at < until_ns for at in self.read)


class Ledger:
    """Holds one lane to its promise: every token once, in order, and not a character between."""

    __slots__ = ("_rest", "_samples", "foreign", "lost", "next", "repeated")

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._rest = ""
        self.next = self.lost = self.repeated = self.foreign = 0

    def take(self, text: str, at_ns: int) -> None:
        """Note a piece of text, cut anywhere, that was read at ``at_ns``."""
        if self._rest:
            text = self._rest + text
        end = 0
        samples = self._samples
        for found in _TOKEN.finditer(text):
            self.foreign += found.start() - end
            end = found.end()
            k, due, sent = found.groups("0")
            number = int(k)
            if number < self.next:
                self.repeated += 1
                continue
            self.lost += number - self.next
            self.next = number + 1
            samples.due.append(int(due))
            samples.sent.append(int(sent))
            samples.read.append(at_ns)
        self._rest = text[end:]

    def close(self, tokens: int) -> None:
        """The lane is over, and should have had so many."""
        self.lost += max(0, tokens - self.next)
        self.foreign += len(self._rest)


def summary(delays_ms: list[float]) -> dict[str, float]:
    """p50, p99 and the largest, in milliseconds."""
    ranked = sorted(delays_ms)
    return {
        "p50_ms": round(percentile(ranked, 0.5), 3),
        "p99_ms": round(percentile(ranked, 0.99), 3),
        "max_ms": round(ranked[-1] if ranked else 0.0, 3),
    }
