"""What is in the file of a ``SqliteFile``, and whether a file is one."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ..errors import ConfigError

VERSION = 2
"""Of the tables; in the file's header."""
_APPLICATION = 0x616E6162  # says in the header whose file it is
_WAIT_S = 10.0  # for a lock that a foreign process holds, such as one that makes a copy

# An entry's id is its log's number and, in the lower 32 bits, the seq of the row's last entry: the rows of one run lie
# side by side, and no second index is written for each of them. A log without a run is being removed.
_SCHEMA = """
CREATE TABLE logs (no INTEGER PRIMARY KEY, run TEXT UNIQUE);
CREATE TABLE entries (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE notes (
    no INTEGER NOT NULL, reader TEXT NOT NULL, seq INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (no, reader, seq)
) WITHOUT ROWID;
CREATE TABLE runs (
    no INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, principal TEXT NOT NULL, run_id TEXT NOT NULL,
    thread_id TEXT NOT NULL, active INTEGER NOT NULL, forgotten INTEGER NOT NULL, size INTEGER NOT NULL, ending INTEGER,
    record TEXT NOT NULL, given TEXT NOT NULL, outcome TEXT NOT NULL
);
CREATE UNIQUE INDEX run_of_caller ON runs (principal, run_id);
CREATE UNIQUE INDEX active_run ON runs (principal, thread_id) WHERE active;
CREATE INDEX turn ON runs (principal, thread_id, no);
CREATE INDEX listed ON runs (principal, no) WHERE NOT forgotten;
CREATE INDEX ended ON runs (ending, size) WHERE ending IS NOT NULL;
"""
# What version 1 did not know: which runs are a task, and when the task changed. A damaged record is in none.
_TASKS = """
ALTER TABLE runs ADD COLUMN task_id TEXT
    AS (CASE WHEN json_valid(record) THEN json_extract(record, '$.task_id') END);
ALTER TABLE runs ADD COLUMN changed_ms INTEGER AS (
    CASE WHEN json_valid(record)
    THEN ifnull(json_extract(record, '$.ended_ms'), json_extract(record, '$.created_ms')) END
);
CREATE INDEX task ON runs (principal, task_id, no);
CREATE INDEX changed ON runs (principal, changed_ms, task_id) WHERE NOT forgotten;
"""


def connected(path: Path, options: str = "") -> sqlite3.Connection:
    """A connection that begins no transaction by itself."""
    return sqlite3.connect(
        path.as_uri() + options,
        uri=True,
        timeout=_WAIT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def opened(path: Path, synchronous: str) -> sqlite3.Connection:
    """The writer's connection to a file that is ours."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # what users wrote is nobody else's to read
    except OSError as error:
        raise ConfigError(f"{path}: cannot be opened: {error.strerror}; let this user read and write it") from None
    connection = connected(path)
    try:
        _prepare(connection, path)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA secure_delete = FAST")  # some builds write zeros over all that is deleted
    except sqlite3.Error as error:
        connection.close()
        raise ConfigError(f"{path}: cannot be used: {error}; move it away, or name another file") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or see that they are those we know."""
    application, version, tables = (
        connection.execute(query).fetchone()[0]
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if application != _APPLICATION and tables:
        raise ConfigError(f"{path}: is a database of another program: name another file")
    if version > VERSION:
        known = f"it has version {version}, this server knows {VERSION}"
        raise ConfigError(f"{path}: was written by a newer anabranch ({known}): upgrade, or name another file")
    if not tables:
        connection.execute("PRAGMA page_size = 1024")  # many live runs: each commit writes a page of each of them
    connection.execute("PRAGMA journal_mode = WAL")
    if not tables or version < VERSION:
        stamps = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION};"
        connection.executescript(f"BEGIN IMMEDIATE; {'' if tables else _SCHEMA} {_TASKS} {stamps} COMMIT;")
