"""A process that runs one run after the other in four threads until it is killed: ``finishing.py FILE``.

Each run's log gets two entries and then its end. The process says, for each run that was finished, its key.
"""

import asyncio
import sys
import uuid

from anabranch.events import RunFinished, RunStarted, TextDelta
from anabranch.log._base import Entry
from anabranch.runs._base import RunRecord
from anabranch.runs.machine import Status
from anabranch.storage import Storage, open_storage
from anabranch.transcript import Outcome

THREADS = ("t0", "t1", "t2", "t3")


async def _use(storage: Storage, thread_id: str) -> None:
    before = None
    while True:
        key = uuid.uuid4().hex
        record = RunRecord(
            key=key,
            run_id=key,
            principal="ann",
            thread_id=thread_id,
            task_id="",
            agent="a",
            status=Status.QUEUED,
            digest="",
            created_ms=1,
        )
        while await storage.table.create(record, (), before) is None:
            turns = await storage.table.turns("ann", thread_id)
            before = turns[-1].record.key
        await storage.table.move(key, Status.RUNNING, 2)
        shown = [RunStarted(run_id=key, thread_id=thread_id), TextDelta(message_id="m", delta="x")]
        await storage.log.append(key, [Entry(seq, 1, 1, event) for seq, event in enumerate(shown, 1)])
        await storage.table.finish(key, [Entry(3, 1, 1, RunFinished())], Status.SUCCEEDED, 3, Outcome(), 1)
        sys.stdout.write(f"{key}\n")
        sys.stdout.flush()
        before = key


async def _main() -> None:
    storage = open_storage(f"sqlite:///{sys.argv[1]}")
    for record in await storage.table.active():
        await storage.table.move(record.key, Status.FAILED, 2)
    async with asyncio.TaskGroup() as group:
        for thread_id in THREADS:
            group.create_task(_use(storage, thread_id))


if __name__ == "__main__":
    asyncio.run(_main())
