"""One SQLite file, owned by this process: a thread that writes it, and a few that read it.

**Writing.** An operation is a function that is handed a ``Transaction``, on the writer's thread. The writer takes all
operations that wait, executes them in order as one transaction, and then answers them all. There is no timer: a commit
begins when the one before is done, with what came meanwhile. An operation refuses by raising an ``AnabranchError``
before it has changed anything. Any other failure undoes the whole transaction; then each operation gets one of its own,
so that only the guilty one fails.

**The interpreter's lock.** SQLite lets it go for each step of a statement, and gets it back from a busy event loop only
after milliseconds. So what is frequent is one step: a commit of appends alone is a single statement that needs no
``BEGIN``, and a read is a single row.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar

import msgspec

from ..errors import AnabranchError, ConfigError, ServerError, ServerStopping
from ._file_lock import FileLock
from ._schema import connected, opened
from ._transaction import Transaction

logger = logging.getLogger("anabranch")

T = TypeVar("T")

_READERS = 2


class _Operation:
    __slots__ = ("error", "future", "loop", "result", "then", "work")

    def __init__(self, work: Callable[[Transaction], Any], then: Callable[[Any], None] | None, waits: bool) -> None:
        self.work, self.then = work, then
        self.loop = asyncio.get_running_loop() if waits or then else None
        self.future: asyncio.Future[Any] | None = self.loop.create_future() if self.loop and waits else None
        self.result: Any = None
        self.error: AnabranchError | None = None

    def settle(self) -> None:
        if self.error is None and self.then is not None:
            self.then(self.result)
        if self.future is None or self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class SqliteFile:
    """The file at ``path``, made if it is missing. To be used from one event loop at a time.

    ``synchronous``: what is acknowledged survives the end of the process (``normal``), or of the machine's power too
    (``full``). Raises ``ConfigError`` for a file that is in use, unusable, or of a newer version.
    """

    def __init__(self, path: str | os.PathLike[str], *, synchronous: Literal["normal", "full"] = "normal") -> None:
        self._path = Path(path).resolve()
        if not self._path.parent.is_dir():
            raise ConfigError(f"{path}: there is no directory {self._path.parent}: make it, or name another file")
        self._lock = FileLock(self._path)
        try:
            connection = opened(self._path, synchronous)
        except BaseException:
            self._lock.release()
            raise
        self._connections = [connection]
        self._transaction = Transaction(connection)
        self._queue = SimpleQueue[_Operation | None]()
        self._closing, self._closed, self._shutting = False, False, threading.Lock()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="anabranch-storage-reader")
        self._thread = threading.Thread(target=self._write, name="anabranch-storage-writer", daemon=True)
        self._thread.start()

    @property
    def commits(self) -> int:
        """How many transactions were committed since the file was opened."""
        return self._transaction.commits

    async def write(self, work: Callable[[Transaction], T], then: Callable[[T], None] | None = None) -> T:
        """Execute ``work`` in a transaction; what it returned. Cancelling this changes nothing about that.

        Once it is committed, ``then`` is called on the loop. Raises what ``work`` refused with, and ``ServerError`` for
        a file that cannot be written.
        """
        if self._closing:
            raise ServerStopping("The server's storage is closed.")
        operation = _Operation(work, then, True)
        self._queue.put(operation)
        assert operation.future is not None
        result: T = await operation.future
        return result

    def write_soon(self, work: Callable[[Transaction], T], then: Callable[[T], None] | None = None) -> None:
        """``write`` that nobody waits for. Without ``then`` it needs no loop. Only the operator learns of a failure."""
        if not self._closing:
            self._queue.put(_Operation(work, then, False))

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Execute ``query`` on another thread; it sees all that was acknowledged before. Raises ``ServerError``."""
        if self._closing:
            raise ServerStopping("The server's storage is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._query, query)

    async def aclose(self) -> None:
        """Write what waits, end the threads and let the file go. May be called again."""
        self._closing = True
        await asyncio.to_thread(self._close)

    # --- on other threads --------------------------------------------------------------------------------------

    def _close(self) -> None:
        with self._shutting:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
            self._thread.join()
            self._pool.shutdown()
            for connection in reversed(self._connections):  # the writer's last: it puts everything into the one file
                connection.close()
            self._lock.release()

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if not hasattr(self._local, "connection"):
                self._local.connection = connected(self._path, "?mode=ro")
                self._connections.append(self._local.connection)
            return query(self._local.connection)
        except (sqlite3.Error, msgspec.DecodeError) as error:
            logger.error("%s: cannot be read: %s", self._path, error)
            raise ServerError("The server's storage cannot be read.", code="storage_failed") from error

    def _write(self) -> None:
        queue = self._queue
        last = False
        while not last:
            waiting = [queue.get()]
            try:
                while True:
                    waiting.append(queue.get_nowait())
            except Empty:
                operations = [operation for operation in waiting if operation is not None]
            last = len(operations) < len(waiting)
            self._execute(operations)
            self._answer(operations)

    def _execute(self, operations: list[_Operation]) -> None:
        transaction = self._transaction
        try:
            for operation in operations:
                try:
                    operation.result, operation.error = operation.work(transaction), None
                except AnabranchError as refusal:
                    operation.error = refusal
            transaction.commit()
        except Exception as error:
            transaction.rollback()
            if len(operations) == 1:
                operations[0].error = self._failure(error)
            else:
                for operation in operations:
                    self._execute([operation])

    def _answer(self, operations: list[_Operation]) -> None:
        for loop in {operation.loop for operation in operations if operation.loop}:
            own = [operation for operation in operations if operation.loop is loop]
            with contextlib.suppress(RuntimeError):  # the loop is closed, with everybody who waited there
                loop.call_soon_threadsafe(_settle, own)

    def _failure(self, error: Exception) -> ServerError:
        unforeseen = None if isinstance(error, sqlite3.Error) else error
        logger.error("%s: cannot be written: %s", self._path, error, exc_info=unforeseen)
        failure = ServerError("The server's storage cannot be written.", code="storage_failed", retryable=True)
        failure.__cause__ = error
        return failure


def _settle(operations: list[_Operation]) -> None:
    for operation in operations:
        operation.settle()
