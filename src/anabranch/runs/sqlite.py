"""The table of runs in the SQLite file that has their log.

A row has the record, the messages given and the outcome as JSON, and beside them what rows are searched by. Many rows
are read as one, joined by the database: each row of a result has its price (see ``_sqlite_file``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from ..log import _rows
from ..log._base import Entry
from ..log._transaction import Parameters, Transaction
from ..log.sqlite import Appending, SqliteLog
from ..request import Message
from ..transcript import Outcome
from ._base import Kept, RunRecord, Tasks
from ._refusals import refuse_if_busy, refuse_if_fenced
from .machine import FINAL, Status, can_move, failure_of
from .threads import Turn

_OF_RUN = "principal = :principal AND run_id = :run_id"
_OF_THREAD = "principal = :principal AND thread_id = :thread_id"
_PLACE = f"""
SELECT
    (SELECT record FROM runs WHERE {_OF_RUN}),
    (SELECT record FROM runs WHERE {_OF_THREAD} AND active),
    (SELECT key FROM runs WHERE {_OF_THREAD} ORDER BY no DESC LIMIT 1)
"""
_ADD = """
INSERT INTO runs (key, principal, run_id, thread_id, active, forgotten, size, record, given, outcome)
VALUES (:key, :principal, :run_id, :thread_id, 1, 0, :size, :record, :given, 'null')
"""
_NEWEST_OF_TASK = """
principal = :principal AND NOT forgotten AND NOT EXISTS (
    SELECT 1 FROM runs AS later
    WHERE later.principal = :principal AND later.task_id = runs.task_id AND later.no > runs.no AND NOT later.forgotten
)
"""
_NEXT_ENDING = "(SELECT ifnull(max(ending), 0) + 1 FROM runs WHERE ending IS NOT NULL)"
_TURN = """'{"record":' || record || ',"given":' || given || ',"outcome":' || outcome || '}'"""

_decode_record = msgspec.json.Decoder(RunRecord).decode
_decode_records = msgspec.json.Decoder(list[RunRecord]).decode
_decode_turns = msgspec.json.Decoder(list[Turn]).decode


def _encoded(value: RunRecord | Outcome | tuple[Message, ...]) -> str:
    return msgspec.json.encode(value).decode()


class SqliteTable:
    """``RunTable`` in the file of ``log``. What the log has of runs that the table does not know is removed."""

    def __init__(self, log: SqliteLog) -> None:
        self._log, self._file = log, log.file
        self._file.write_soon(_sweep)

    async def create(
        self, record: RunRecord, given: tuple[Message, ...] = (), before: str | None = None
    ) -> RunRecord | None:
        """Add ``record`` or return the existing one; see the contract."""
        names = {name: getattr(record, name) for name in ("key", "principal", "run_id", "thread_id", "size")}
        row = {**names, "record": _encoded(record), "given": _encoded(given)}

        def work(transaction: Transaction) -> RunRecord | None:
            ((same, busy, newest),) = transaction.execute(_PLACE, names).fetchall()
            if same is not None:
                return _decode_record(same)
            refuse_if_busy(record.thread_id, [_decode_record(busy)] if busy is not None else [])
            if newest != before:
                return None
            transaction.execute(_ADD, row)
            return record

        return await self._file.write(work)

    async def find(self, principal: str, run_id: str) -> RunRecord | None:
        """The caller's run of that id."""
        found = await self._records(_OF_RUN, {"principal": principal, "run_id": run_id})
        return found[0] if found else None

    async def move(self, key: str, to: Status, at_ms: int) -> bool:
        """Change the status if it may be changed."""

        def work(transaction: Transaction) -> bool:
            record = _run(transaction, key)
            if record is None or not can_move(record.status, to):
                return False
            _save(transaction, replace(record, status=to, ended_ms=at_ms if to in FINAL else None))
            return True

        return await self._file.write(work)

    async def finish(
        self, key: str, entries: Sequence[Entry], to: Status, at_ms: int, outcome: Outcome, size: int
    ) -> bool:
        """Append the last entries and end the run."""
        appending, left = Appending(self._log, key, entries), _encoded(outcome)

        def work(transaction: Transaction) -> Sequence[Entry] | None:
            record = _run(transaction, key)
            if record is None or not can_move(record.status, to):
                return None
            refuse_if_fenced(entries, record.epoch)
            unseen = appending(transaction)
            why = failure_of(entries[-1].event)
            _save(transaction, replace(record, status=to, ended_ms=at_ms, size=size, **why))
            transaction.execute("UPDATE runs SET outcome = ? WHERE key = ?", (left, key))
            return unseen

        return await self._file.write(work, lambda unseen: appending.shown(unseen or ())) is not None

    async def take(self, key: str) -> RunRecord | None:
        """Own a run that is not over."""

        def work(transaction: Transaction) -> RunRecord | None:
            record = _run(transaction, key)
            if record is None or record.status in FINAL:
                return None
            taken = replace(record, epoch=record.epoch + 1)
            _save(transaction, taken)
            return taken

        return await self._file.write(work)

    async def active(self) -> Sequence[RunRecord]:
        """Runs that are not over, oldest first."""
        return await self._records("active ORDER BY no")

    async def turns(self, principal: str, thread_id: str) -> Sequence[Turn]:
        """The runs of a thread with their messages."""
        thread = {"principal": principal, "thread_id": thread_id}
        return await self._file.read(
            lambda file: _decode_turns(_joined(file, _TURN, f"{_OF_THREAD} ORDER BY no", thread))
        )

    async def turn(self, key: str) -> Turn | None:
        """One run with its messages."""
        found = await self._file.read(lambda file: _decode_turns(_joined(file, _TURN, "key = ?", (key,))))
        return found[0] if found else None

    async def list(
        self, principal: str, *, thread_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """The caller's runs, newest first."""
        where = "principal = :principal AND NOT forgotten"
        if thread_id is not None:
            where += " AND thread_id = :thread_id"
        if before is not None:
            where += f" AND no < (SELECT no FROM runs WHERE {_OF_RUN})"
        given = {"principal": principal, "thread_id": thread_id, "run_id": before, "limit": limit}
        return await self._records(f"{where} ORDER BY no DESC LIMIT :limit", given)

    async def task(self, principal: str, task_id: str) -> Sequence[RunRecord]:
        """The runs of a task."""
        where = "principal = :principal AND task_id = :task_id AND NOT forgotten ORDER BY no"
        return await self._records(where, {"principal": principal, "task_id": task_id})

    async def tasks(
        self,
        principal: str,
        *,
        agent: str | None = None,
        thread_id: str | None = None,
        statuses: Collection[Status] | None = None,
        since_ms: int = 0,
        before: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> Tasks:
        """The caller's tasks, those that changed last first."""
        given = {"principal": principal, "agent": agent, "thread_id": thread_id, "since_ms": since_ms, "limit": limit}
        # The sign keeps the planner from the index of times: a thread has few runs, its caller may have very many.
        changed_ms = "changed_ms" if thread_id is None else "+changed_ms"
        where = f"{_NEWEST_OF_TASK} AND {changed_ms} >= :since_ms"
        if agent is not None:
            where += " AND json_extract(record, '$.agent') = :agent"
        if thread_id is not None:
            where += " AND thread_id = :thread_id"
        if statuses is not None:
            where += " AND json_extract(record, '$.status') IN (SELECT value FROM json_each(:statuses))"
            given["statuses"] = msgspec.json.encode([*statuses]).decode()
        page = where
        if before is not None:
            page += " AND (changed_ms, task_id) < (:at_ms, :after)"
            given["at_ms"], given["after"] = before
        page += f" ORDER BY {changed_ms} DESC, task_id DESC LIMIT :limit"

        def work(file: sqlite3.Connection) -> Tasks:
            ((total,),) = file.execute(f"SELECT count(*) FROM runs WHERE {where}", given).fetchall()
            return Tasks(_decode_records(_joined(file, "record", page, given)), total)

        return await self._file.read(work)

    async def ended(self, limit: int = 100) -> Sequence[RunRecord]:
        """Finished runs that are not forgotten, in the order they ended."""
        return await self._records("ending IS NOT NULL ORDER BY ending LIMIT ?", (limit,))

    async def kept(self) -> Kept:
        """What those come to."""
        total = "SELECT count(*), ifnull(sum(size), 0) FROM runs WHERE ending IS NOT NULL"
        return await self._file.read(lambda file: Kept(*file.execute(total).fetchall()[0]))

    async def forget(self, key: str) -> Sequence[RunRecord]:
        """Mark a finished run as forgotten."""

        def work(transaction: Transaction) -> Sequence[RunRecord]:
            record = _run(transaction, key)
            if record is None or record.status not in FINAL:
                return []
            _save(transaction, replace(record, forgotten=True))
            thread = {"principal": record.principal, "thread_id": record.thread_id}
            kept = f"SELECT 1 FROM runs WHERE {_OF_THREAD} AND NOT forgotten ORDER BY no DESC LIMIT 1"
            return [] if transaction.execute(kept, thread).fetchall() else _remove(transaction, thread)

        return await self._file.write(work)

    async def delete_thread(self, principal: str, thread_id: str) -> Sequence[RunRecord]:
        """Forget a thread wholly."""
        thread = {"principal": principal, "thread_id": thread_id}

        def work(transaction: Transaction) -> Sequence[RunRecord]:
            busy = _decode_records(_joined(transaction, "record", f"{_OF_THREAD} AND active", thread))
            refuse_if_busy(thread_id, busy)
            return _remove(transaction, thread)

        return await self._file.write(work)

    async def _records(self, where: str, parameters: Parameters = ()) -> Sequence[RunRecord]:
        return await self._file.read(lambda file: _decode_records(_joined(file, "record", where, parameters)))


def _sweep(transaction: Transaction) -> None:
    """A process may end between a run's removal from the table and that of its log."""
    transaction.execute("UPDATE logs SET run = NULL WHERE run NOT IN (SELECT key FROM runs WHERE NOT forgotten)")
    while _rows.clear(transaction):
        pass


def _joined(file: sqlite3.Connection | Transaction, column: str, where: str, parameters: Parameters) -> str:
    """A column of all rows, in their order, as one JSON array."""
    each = f"SELECT {column} AS value FROM runs WHERE {where}"
    rows = file.execute(f"SELECT '[' || ifnull(group_concat(value, ','), '') || ']' FROM ({each})", parameters)
    ((joined,),) = rows.fetchall()
    return str(joined)


def _run(transaction: Transaction, key: str) -> RunRecord | None:
    found = transaction.execute("SELECT record FROM runs WHERE key = ?", (key,)).fetchall()
    return _decode_record(found[0][0]) if found else None


def _remove(transaction: Transaction, thread: Parameters) -> Sequence[RunRecord]:
    """Remove the rows of a thread; what they were."""
    records = _decode_records(_joined(transaction, "record", f"{_OF_THREAD} ORDER BY no", thread))
    transaction.execute(f"DELETE FROM runs WHERE {_OF_THREAD}", thread)
    return records


def _save(transaction: Transaction, record: RunRecord) -> None:
    """Change a run's record, and the columns that say the same."""
    over = record.status in FINAL
    ending = "NULL" if record.forgotten or not over else f"coalesce(ending, {_NEXT_ENDING})"
    changes = f"active = ?, forgotten = ?, size = ?, ending = {ending}, record = ?"
    values = (not over, record.forgotten, record.size, _encoded(record), record.key)
    transaction.execute(f"UPDATE runs SET {changes} WHERE key = ?", values)
