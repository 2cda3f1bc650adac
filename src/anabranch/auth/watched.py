"""A file of keys that may change while the server runs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from ..errors import ConfigError, ServerError

logger = logging.getLogger("anabranch")

FILE_LIMIT = 2**20
"""Bytes such a file may have."""

_SETTLED_NS = 2_000_000_000
"""A file that was changed more recently may change again without another time: clocks of file systems are coarse."""

T = TypeVar("T")


class WatchedFile(Generic[T]):
    """What ``read`` makes of a file, read again whenever the file has changed.

    A change that cannot be read lets nobody in, rather than somebody whose key was to be removed.
    """

    def __init__(self, field: str, path: str, read: Callable[[bytes], T]) -> None:
        """``field`` names it in errors. Raises ``ConfigError`` when it cannot be read now."""
        self._field, self._path, self._read = field, Path(path), read
        self._stamp: tuple[int, ...] = ()  # of the file that the value is from
        self._value: T
        self._flaw = self._look()
        if self._flaw is not None:
            raise ConfigError(f"{field}: {path}: {self._flaw}")

    def value(self) -> T:
        """What is in the file now. Raises ``ServerError`` (503, ``auth_unavailable``) when that cannot be read."""
        flaw = self._look()
        if flaw is not None:
            if flaw != self._flaw:
                logger.error("%s: %s: %s; nobody is let in until it can be read", self._field, self._path, flaw)
            text = "this credential cannot be checked now; ask again"
            self._flaw = flaw
            raise ServerError(text, code="auth_unavailable", retryable=True)
        self._flaw = None
        return self._value

    def _look(self) -> str | None:
        """Read the file unless the value is from it; what is wrong with it."""
        try:
            found = os.stat(self._path)
            stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return None
            with self._path.open("rb") as file:
                data = file.read(FILE_LIMIT + 1)
            if len(data) > FILE_LIMIT:
                return f"it has more than {FILE_LIMIT} bytes"
            self._value = self._read(data)
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            return "it is not UTF-8 text"
        except ValueError as error:
            return str(error)
        self._stamp = stamp if time.time_ns() - max(stamp[:2]) > _SETTLED_NS else ()
        return None
