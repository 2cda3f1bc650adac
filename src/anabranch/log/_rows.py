"""Entries and notes as rows of a ``SqliteFile``: what is done to them on its threads.

A row holds the entries of one append, as a JSON array without its brackets, so that the rows of a range are joined by
the database. The events in it are as ``events.encode`` writes them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from ..events import decode
from ._base import Checkpoint, Entry
from ._head import Head, head_of
from ._notes import MOST, spare
from ._transaction import Transaction

_SEQS = 2**32  # the ids of a run's rows differ in the lower 32 bits
_READ_BYTES = 2**20  # of rows at once; one row is always read
_CLEARED = 32  # rows at once

_RANGE = f"""
WITH
    whole (last) AS (
        SELECT ifnull((SELECT min(id) FROM entries WHERE id >= :upto AND id < :base + {_SEQS}), :base + {_SEQS} - 1)
    ),
    span (id, bytes) AS (
        SELECT id, sum(length(body)) OVER (ORDER BY id) FROM entries
        WHERE id > :after AND id <= (SELECT last FROM whole)
    ),
    cut (last) AS (SELECT coalesce(max(CASE WHEN bytes <= {_READ_BYTES} THEN id END), min(id)) FROM span)
SELECT CAST(group_concat(body, ',') AS BLOB)
FROM (SELECT body FROM entries WHERE id > :after AND id <= (SELECT last FROM cut) ORDER BY id)
"""


class _Raw(msgspec.Struct):
    seq: int
    epoch: int
    at_ms: int
    event: msgspec.Raw
    v: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Entry]).decode
_decode_raw = msgspec.json.Decoder(list[_Raw]).decode


def packed(entries: Sequence[Entry]) -> bytes:
    """The body of a row. Raises what ``events.encode`` does."""
    return _encode(entries)[1:-1]


def _unpacked(rows: bytes) -> list[Entry]:
    try:
        return _decode(b"[%b]" % rows)
    except msgspec.ValidationError:  # there is an event of a newer version
        return [Entry(raw.seq, raw.epoch, raw.at_ms, decode(raw.event), raw.v) for raw in _decode_raw(b"[%b]" % rows)]


# --- the writer's thread ---------------------------------------------------------------------------------------------


def append(transaction: Transaction, run: str, entries: Sequence[Entry], body: bytes) -> Sequence[Entry]:
    """Add ``entries``, whose body is ``body``; those that were new. Raises ``Fenced``."""
    if not entries:
        return entries
    no, head = transaction.heads.get(run) or _located(transaction, run)
    unseen = head.unseen(entries, lambda seq: _epoch_of(transaction, no, seq))
    if not unseen:
        return unseen
    if len(unseen) < len(entries):
        body = packed(unseen)
    if not no:
        no = transaction.execute("INSERT INTO logs (run) VALUES (?)", (run,)).lastrowid or 0
    head = head_of(unseen[-1])
    transaction.add(no * _SEQS + head.last, body)
    if head.ended:
        transaction.heads.pop(run, None)
    else:
        transaction.heads[run] = no, head
    return unseen


def disown(transaction: Transaction, run: str) -> None:
    """Make a run unknown. What it leaves is removed by ``clear``."""
    transaction.heads.pop(run, None)
    transaction.execute("UPDATE logs SET run = NULL WHERE run = ?", (run,))


def clear(transaction: Transaction) -> bool:
    """Remove some of what nobody owns; whether there may be more. A large run at once would hold up all others."""
    found = transaction.execute("SELECT no FROM logs WHERE run IS NULL LIMIT 1").fetchall()
    for (no,) in found:
        some = "SELECT id FROM entries WHERE id >= ? AND id < ? LIMIT ?"
        span = (no * _SEQS, (no + 1) * _SEQS, _CLEARED)
        if transaction.execute(f"DELETE FROM entries WHERE id IN ({some})", span).rowcount < _CLEARED:
            transaction.execute("DELETE FROM notes WHERE no = ?", (no,))
            transaction.execute("DELETE FROM logs WHERE no = ?", (no,))
    return bool(found)


def keep_note(transaction: Transaction, run: str, reader: str, note: Checkpoint) -> None:
    """Add a note to a run that is known, and drop one when there are too many."""
    if no := number(transaction, run):
        added = "INSERT OR IGNORE INTO notes (no, reader, seq, state) VALUES (?, ?, ?, ?)"
        transaction.execute(added, (no, reader, note.seq, note.state))
        there = "SELECT seq FROM notes WHERE no = ? AND reader = ? ORDER BY seq"
        seqs = [seq for (seq,) in transaction.execute(there, (no, reader)).fetchall()]
        if len(seqs) > MOST:
            one = "DELETE FROM notes WHERE no = ? AND reader = ? AND seq = ?"
            transaction.execute(one, (no, reader, seqs[spare(seqs)]))


def _located(transaction: Transaction, run: str) -> tuple[int, Head]:
    no = number(transaction, run)
    return no, head(transaction, no) if no else Head()


def _epoch_of(transaction: Transaction, no: int, seq: int) -> int:
    found = entries(transaction, no, seq - 1, 1)
    return found[0].epoch


# --- any thread ------------------------------------------------------------------------------------------------------


def number(file: sqlite3.Connection | Transaction, run: str) -> int:
    """What a run's log is called in the file; 0 when it has none."""
    found = file.execute("SELECT no FROM logs WHERE run = ?", (run,)).fetchall()
    return found[0][0] if found else 0


def head(file: sqlite3.Connection | Transaction, no: int) -> Head:
    """The end of a log."""
    last = "SELECT body FROM entries WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1"
    found = file.execute(last, (no * _SEQS, (no + 1) * _SEQS)).fetchall()
    return head_of(_unpacked(found[0][0])[-1]) if found else Head()


def entries(file: sqlite3.Connection | Transaction, no: int, after: int, limit: int) -> list[Entry]:
    """At most ``limit`` entries after ``after``; fewer when they are large."""
    first, last = min(max(after, 0), _SEQS - 1), min(max(after, 0) + limit, _SEQS - 1)
    base = no * _SEQS
    ((rows,),) = file.execute(_RANGE, {"base": base, "after": base + first, "upto": base + last}).fetchall()
    found = _unpacked(rows) if rows else []
    return [entry for entry in found if first < entry.seq <= last]


def note(file: sqlite3.Connection, run: str, reader: str, upto: int) -> Checkpoint | None:
    """The newest note that is not beyond ``upto``."""
    newest = "SELECT seq, state FROM notes WHERE no = ? AND reader = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
    found = file.execute(newest, (number(file, run), reader, upto)).fetchall()
    return Checkpoint(*found[0]) if found else None
