"""A process that appends to three runs until it is killed: ``appending.py FILE``.

Before that it says ``ready``; then, for each append that was acknowledged, the run and its last seq.
"""

import asyncio
import sys

from anabranch.events import TextDelta
from anabranch.log._base import Entry
from anabranch.log._sqlite_file import SqliteFile
from anabranch.log.sqlite import SqliteLog

RUNS = ("a", "b", "c")


def entry(run: str, seq: int) -> Entry:
    """What the run ``run`` has at ``seq``."""
    return Entry(seq, 1, 1000 + seq, TextDelta(message_id=run, delta=f"{run}{seq}"))


async def _write(log: SqliteLog, run: str, size: int) -> None:
    last = (await log.bounds(run)).last
    while True:
        await log.append(run, [entry(run, seq) for seq in range(last + 1, last + size + 1)])
        last += size
        sys.stdout.write(f"{run} {last}\n")
        sys.stdout.flush()


async def _main() -> None:
    log = SqliteLog(SqliteFile(sys.argv[1]))
    sys.stdout.write("ready\n")
    async with asyncio.TaskGroup() as group:
        for size, run in enumerate(RUNS, 1):
            group.create_task(_write(log, run, size))


if __name__ == "__main__":
    asyncio.run(_main())
