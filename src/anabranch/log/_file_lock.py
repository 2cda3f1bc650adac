"""Who may use a file: one process at a time, until it ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path

from ..errors import ConfigError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_FAR = 2**30  # the byte that Windows locks: nobody can read one that is locked, and the holder's number is to be read


class FileLock:
    """The exclusive lock of ``path``, on a file beside it. The system gives it back when the process is gone.

    Raises ``ConfigError`` that names the file and who has it.
    """

    def __init__(self, path: Path) -> None:
        beside = path.with_name(path.name + ".lock")
        try:
            self._file = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(f"{beside}: cannot be opened: {error.strerror}; let this user write there") from None
        try:
            self._acquire()
        except OSError as error:
            problem = f"cannot be locked: {error.strerror}; put it on a local disk"
            if error.errno in _HELD:
                holder = os.read(self._file, 20).decode("ascii", "replace")
                problem = f"process {holder or '?'} is using it: stop that process, or name another file"
            os.close(self._file)
            raise ConfigError(f"{path}: {problem}") from None
        with contextlib.suppress(OSError):  # a full disk: then nobody learns the number
            os.ftruncate(self._file, 0)
            os.write(self._file, str(os.getpid()).encode())

    def release(self) -> None:
        """Give it back. The file of the lock stays: who removes it may remove the next holder's."""
        os.close(self._file)

    def _acquire(self) -> None:
        if sys.platform == "win32":
            os.lseek(self._file, _FAR, os.SEEK_SET)
            try:
                msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(self._file, 0, os.SEEK_SET)
        else:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
