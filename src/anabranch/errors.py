"""What can go wrong, and whose fault it is.

Every error names the guilty side, keeps a stable machine-readable ``code``, and carries a message that may be shown
to a user: no traceback, no secret, no address of an internal host. What the operator needs besides is in
``__cause__`` and in the log.

| class | side | when |
|---|---|---|
| ``ClientError`` | client | the request is wrong; an HTTP 4xx before a stream starts |
| ``SourceError`` | source | the agent, its model or a remote agent failed or broke the law of the stream |
| ``ServerError`` | server | this server failed or is stopping |
| ``ConfigError`` | operator | the configuration is wrong; the process does not start |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Side = Literal["source", "client", "server"]

TOKEN = r"""
    (?: sk | pk | rk | gh[opsur] | github_pat | glpat | hf | nvapi | xox[abeprs] ) [-_] [\w-]{8,}
    | AKIA[0-9A-Z]{12,} | AIza[\w-]{20,} | eyJ[\w-]{6,}\.[\w.-]+
"""
"""What is a credential by its looks, at the beginning of a word: a verbose pattern, in any case."""
USERINFO = r"""(?<= :// ) [^\s/"\\]* (?= @ )"""
"""The user name and password in a URL: a verbose pattern."""

_SECRET = re.compile(
    rf"""(?ix)
    ( \b bearer \s+ | \b basic \s+ (?= [a-z0-9+/]{{8}} )
    | (?: (?: api | access ) [_-]? key | authorization | credentials? | passw(?:or)?d | pwd | secret | sig(?:nature)?
      | token ) \\?["']? \s* [=:] \s* (?: (?: bearer | basic ) \s+ )?
    | [?&] key=
    )
    (?: \\?"[^"]*"? | '[^']*'? | [^\s"',;&]+ )
    | \b (?: {TOKEN} )
    | {USERINFO}
    """
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_MESSAGE_LIMIT = 500
_READ_LIMIT = 10 * _MESSAGE_LIMIT  # what lies beyond cannot be shown, so it is not searched


class AnabranchError(Exception):
    """Base of every error this package raises on purpose.

    ``code`` is stable and may be matched on; ``retryable`` says whether the same request may succeed later.
    """

    side: Side = "server"
    code: str = "internal"
    retryable: bool = False

    def __init__(self, message: str, *, code: str | None = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable


class ClientError(AnabranchError):
    """The caller's request cannot be served as it is. ``status`` and ``headers`` are for the HTTP answer."""

    side: Side = "client"
    code = "bad_request"

    def __init__(
        self, message: str, *, code: str | None = None, status: int = 400, retryable: bool | None = None
    ) -> None:
        super().__init__(message, code=code, retryable=retryable)
        self.status = status
        self.headers: dict[str, str] = {}


class NotFound(ClientError):
    """What was asked for does not exist, or is not the caller's to see (the two are not told apart)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="not_found", status=404)


class Conflict(ClientError):
    """The request contradicts what exists: another input under a known run id, a second run on a busy thread."""

    def __init__(self, message: str, *, code: str = "conflict") -> None:
        super().__init__(message, code=code, status=409)


class SourceError(AnabranchError):
    """An agent, its model or a remote agent failed. Its partial output stays."""

    side: Side = "source"
    code = "agent_failed"
    unsent = False
    """Whether the agent was asked nothing: another one may be asked in its place."""


class ServerError(AnabranchError):
    """This server could not do its part."""


class ServerStopping(ServerError):
    """The server is shutting down: no new runs, and live ones have had their time."""

    code = "server_stopping"
    retryable = True


class Cancelled(AnabranchError):
    """The run was cancelled: by its caller, or because its last watcher left under the policy ``cancel``."""

    side: Side = "client"
    code = "cancelled"


class Fenced(ServerError):
    """A writer of an older epoch tried to append: another owner has the run."""

    code = "fenced"


class ConfigError(AnabranchError):
    """The configuration cannot be used. The message names the field and the remedy, and the file where it is known.

    ``path`` is the field, by which a reader of the file finds the line; ``problem`` is what is wrong there.
    """

    code = "config"

    def __init__(self, problem: str, *, path: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem, self.path = problem, path

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.problem}" if self.path else self.problem


class MissingExtra(ConfigError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, *, path: tuple[str, ...] = ()) -> None:
        remedy = f"it comes with the extra {extra}: in a clone, pip install '.[{extra}]'"
        super().__init__(f"{package} is not installed; {remedy}", path=path)


def scrub(text: str) -> str:
    """``text`` fit for a user's eyes: one line of at most 500 characters, credentials replaced by ``***``."""
    flat = " ".join(_CONTROL.sub(" ", text[:_READ_LIMIT]).split())
    clean = _SECRET.sub(lambda found: (found.group(1) or "") + "***", flat)
    return clean if len(clean) <= _MESSAGE_LIMIT else clean[: _MESSAGE_LIMIT - 1] + "…"


def describe(error: BaseException) -> AnabranchError:
    """The error a user may see for ``error``: itself when it is ours, else a ``SourceError`` that names its type only.

    Of a group, the first error that is ours, or else the first one. The text of a foreign exception may hold prompts,
    hosts and keys, so it never leaves the process this way; a source that knows its framework's errors raises a
    ``SourceError`` of its own with a message it has checked.
    """
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, AnabranchError):
            return leaf
    return SourceError(f"The agent failed with {type(leaves[0]).__name__}.", code="agent_failed")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
