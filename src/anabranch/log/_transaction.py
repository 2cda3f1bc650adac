"""One transaction of the writer's thread of a ``SqliteFile``."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ._head import Head

Parameters = Sequence[Any] | Mapping[str, Any]

_ROWS = 64  # in one statement


class Transaction:
    """What the writer has open: an operation's way to the file. Entries wait here to be written as one statement.

    ``heads`` holds, for logs that are being written, their number and head as they will be after the commit.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.heads: dict[str, tuple[int, Head]] = {}
        self.commits = 0
        self._connection = connection
        self._begun = False
        self._entries: list[Any] = []

    def add(self, entry_id: int, body: bytes) -> None:
        """Write a row of entries."""
        self._entries += (entry_id, body)

    def execute(self, sql: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        """Execute a statement that sees all that was done so far. Of a query, all rows have to be fetched."""
        self._begin()
        self._flush()
        return self._connection.execute(sql, parameters)

    def commit(self) -> None:
        """Make it durable."""
        if len(self._entries) > 2 * _ROWS:
            self._begin()
        if self._begun or self._entries:
            self._flush()
            if self._begun:
                self._connection.execute("COMMIT")
            self._begun = False
            self.commits += 1

    def rollback(self) -> None:
        """Undo it."""
        self.heads.clear()
        self._entries.clear()
        self._begun = False
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # then it is tried again when the next operation fails
                self._connection.execute("ROLLBACK")

    def _begin(self) -> None:
        if not self._begun:
            self._connection.execute("BEGIN IMMEDIATE")
            self._begun = True

    def _flush(self) -> None:
        waiting = self._entries
        for at in range(0, len(waiting), 2 * _ROWS):
            rows = waiting[at : at + 2 * _ROWS]
            self._connection.execute(_insert(len(rows) // 2), rows)
        waiting.clear()


@lru_cache(_ROWS)
def _insert(rows: int) -> str:
    return "INSERT INTO entries VALUES " + ",".join(["(?,?)"] * rows)
