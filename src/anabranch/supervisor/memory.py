"""What the supervisor's graph remembers: its checkpoints, without which it could not go on after a question.

They are beside the server's own storage, ``memory://`` or ``sqlite:///runs.db``, here in ``runs-graph.db``. Of the two
the server's conversation counts: what the graph lacks of it is told to it with the next message.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import ConfigError, MissingExtra


async def memory(storage: str) -> Any:
    """A checkpointer for a server with this ``storage``, on the running loop. Close it with ``closed``.

    Raises ``ConfigError`` when its file cannot be used, ``MissingExtra`` without the library.
    """
    load(storage)
    if not _has_file(storage):
        from langgraph.checkpoint.memory import InMemorySaver

        return InMemorySaver()
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    path = graph_file(storage)
    try:
        saver = AsyncSqliteSaver(await aiosqlite.connect(path))
        await saver.setup()
    except Exception as error:
        raise ConfigError(f"storage: {path}, the memory of the supervisor, cannot be used: {error}") from error
    return saver


def load(storage: str) -> None:
    """Import what ``memory`` needs, which takes its time. Raises ``MissingExtra``."""
    try:
        import_module("langgraph.checkpoint.sqlite.aio" if _has_file(storage) else "langgraph.checkpoint.memory")
    except ImportError as error:
        raise MissingExtra("langgraph-checkpoint-sqlite", "langgraph") from error


def _has_file(storage: str) -> bool:
    return storage.startswith("sqlite:///")


async def closed(checkpointer: Any) -> None:
    """Close the file of a checkpointer, where it has one."""
    if connection := getattr(checkpointer, "conn", None):
        await connection.close()


def graph_file(storage: str) -> Path:
    """Where the supervisor remembers, beside the file that ``storage`` names."""
    file = Path(storage.removeprefix("sqlite:///").partition("?")[0])
    return file.with_name(f"{file.stem}-graph{file.suffix or '.db'}")
