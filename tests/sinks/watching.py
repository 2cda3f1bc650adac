"""A run as its reader sees it, without the middle: from a source's items to frames, and what a reader does to it."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager

from anabranch import events as ev
from anabranch.grammar import Grammar
from anabranch.log._base import Bounds, Checkpoint, Entry
from anabranch.log.memory import MemoryLog
from anabranch.request import Message
from anabranch.sinks.agui.encode import AguiEncoder
from anabranch.sinks.agui.profile import Profile

START = ev.RunStarted(run_id="run-1", thread_id="thread-1", task_id="run-1", agent_name="supervisor")
AT_MS = 1_700_000_000_000
MODERN, OLD, ASKED = Profile(True, "native"), Profile(False, "steps"), Profile(False, "native")


def lawful(items: Iterable[ev.Event], error: BaseException | None = None) -> list[ev.Event]:
    """What the grammar lets out of a source's items, to the end."""
    grammar = Grammar()
    out = [event for item in (START, *items) for event in grammar.feed(item)]
    return out + grammar.close(error)


def logged(events: Iterable[ev.Event]) -> list[Entry]:
    """Entries as a log gives them back."""
    return [Entry(seq, 1, AT_MS + seq, ev.decode(ev.encode(event))) for seq, event in enumerate(events, 1)]


def frames(entries: Iterable[Entry], profile: Profile) -> list[bytes]:
    """What a client gets that was there from the start."""
    encoder = AguiEncoder(profile)
    return [frame for entry in entries for frame in encoder.feed(entry)]


class Run:
    """``sinks._gate.Watched``. The entries up to ``gone`` are no longer there."""

    def __init__(
        self, run_id: str = "run-1", thread_id: str = "thread-1", history: Sequence[Message] = (), gone: int = 0
    ) -> None:
        self.run_id, self.thread_id, self.dialect = run_id, thread_id, ""
        self._history, self._gone = tuple(history), gone
        self._log = MemoryLog()
        self.notes: dict[tuple[str, int], bytes] = {}
        self.watchers = 0
        self.read_entries = 0

    async def write(self, entries: Sequence[Entry]) -> None:
        """The next entries."""
        await self._log.append("key", entries)

    async def forget(self) -> None:
        """Delete the run."""
        await self._log.delete("key")

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncGenerator[AsyncIterator[Sequence[Entry]], None]:
        self.watchers += 1
        try:
            async with aclosing(self._log.tail("key", max(after, self._gone))) as batches:
                yield batches
        finally:
            self.watchers -= 1

    async def bounds(self) -> Bounds:
        bounds = await self._log.bounds("key")
        return Bounds(self._gone + 1, bounds.last, bounds.ended) if bounds.last else bounds

    async def read(self, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        entries = await self._log.read("key", max(after, self._gone), limit)
        self.read_entries += len(entries)
        return entries

    async def history(self) -> tuple[Message, ...]:
        return self._history

    async def checkpoint(self, reader: str, upto: int) -> Checkpoint | None:
        seqs = [seq for kind, seq in self.notes if kind == reader and seq <= upto]
        return Checkpoint(max(seqs), self.notes[reader, max(seqs)]) if seqs else None

    def keep_checkpoint(self, reader: str, checkpoint: Checkpoint) -> None:
        self.notes.setdefault((reader, checkpoint.seq), checkpoint.state)
