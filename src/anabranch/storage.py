"""Where runs and their logs are kept: one URL says it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal
from urllib.parse import parse_qsl, unquote

from .errors import ConfigError, scrub
from .log._base import RunLog
from .log._sqlite_file import SqliteFile
from .log.memory import MemoryLog
from .log.sqlite import SqliteLog
from .runs._base import IN_MEMORY, ON_DISK, Kept, RunTable
from .runs.memory import MemoryTable
from .runs.sqlite import SqliteTable

_CHOICES = "`memory://`, or `sqlite:///FILE` (`sqlite:////FILE` from the root), with `?synchronous=full` if need be"


class Storage:
    """A log and the table of its runs, to be used from one event loop. ``keeps`` is how much of them by default."""

    def __init__(
        self, log: RunLog, table: RunTable, keeps: Kept, close: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.log, self.table, self.keeps = log, table, keeps
        self._close = close

    async def aclose(self) -> None:
        """Write what waits and let the file go. May be called again."""
        if self._close:
            await self._close()


def open_storage(url: str) -> Storage:
    """The storage that ``url`` names; needs no event loop.

    ``memory://``; ``sqlite:///relative.db``, ``sqlite:////absolute.db``, made when it is missing, and with
    ``?synchronous=full`` safe against a power cut, at the price of a wait for the disk with each commit. Raises
    ``ConfigError`` for any other URL, and for a file that cannot be used.
    """
    if url == "memory://":
        log = MemoryLog()
        return Storage(log, MemoryTable(log), IN_MEMORY)
    path, synchronous = _sqlite(url)
    kept = SqliteLog(SqliteFile(path, synchronous=synchronous))
    return Storage(kept, SqliteTable(kept), ON_DISK, kept.aclose)


def _sqlite(url: str) -> tuple[str, Literal["normal", "full"]]:
    """The file, and how safe it is to be."""
    scheme, _, rest = url.partition(":///")
    path, _, query = rest.partition("?")
    if scheme != "sqlite" or path in ("", ":memory:"):
        raise ConfigError(f"storage: {scrub(url)!r} is not known; give {_CHOICES}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = options.pop("synchronous", "normal")
    if options or synchronous not in ("normal", "full"):
        raise ConfigError(f"storage: `?{query}` is not known; give `?synchronous=` with `normal` or `full`")
    return unquote(path), "full" if synchronous == "full" else "normal"
