"""What went wrong with an MCP server: a code, and words that users may read. Pure."""

from __future__ import annotations

from ...errors import scrub

CLOSED, NO_METHOD = -32000, -32601
"""Error codes: the library's own for a session that ended, and JSON-RPC's for a method that is not there."""


def number_of(error: BaseException) -> int | None:
    """The code of an error that the server answered with."""
    number = getattr(getattr(leaf(error), "error", None), "code", None)
    return number if isinstance(number, int) else None


def code_of(error: BaseException) -> str:
    """As ``SourceError`` has it."""
    return "agent_disconnected" if number_of(error) in (None, CLOSED) else "agent_failed"


def because(error: BaseException) -> str:
    """Why it failed: in the server's words where it has some, without addresses."""
    error = leaf(error)
    if number_of(error) == CLOSED:
        return "broke off"
    if number_of(error) is not None:
        return scrub(f"answered with an error: {error}")
    if (status := getattr(getattr(error, "response", None), "status_code", None)) is not None:
        return f"answered with HTTP {status}"
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    if isinstance(error, FileNotFoundError):
        return "cannot be started: there is no such command"
    if isinstance(error, OSError) or type(error).__name__ == "ConnectError":
        return "cannot be reached"
    return f"failed with {type(error).__name__}"


def leaf(error: BaseException) -> BaseException:
    """The error in a group of one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
