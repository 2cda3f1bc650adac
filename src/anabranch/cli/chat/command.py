"""The command line of ``anabranch chat``."""

from __future__ import annotations

import io
import os
import sys
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...errors import ConfigError
from .address import headers, remote, spoken, target

if TYPE_CHECKING:
    from .a2a import A2aPeer
    from .peer import Peer

HEADERS_VARIABLE = "ANABRANCH_CHAT_HEADERS"
"""Headers as in ``--header``, a line each: a command line can be read by everybody on the machine."""

_ID_LIMIT = 256


def chat(
    url: Annotated[
        str, typer.Argument(help="A server, http://HOST:PORT, its /agui endpoint, or an A2A agent or its card.")
    ],
    prompt: Annotated[
        str | None,
        typer.Argument(help="What to ask; piped input is appended. Without both: a conversation.", show_default=False),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Which agent, by name; the server has a default.")] = None,
    protocol: Annotated[
        Literal["auto", "agui", "a2a"],
        typer.Option(help="What is spoken. auto: what the address shows, else AG-UI where it is served, else A2A."),
    ] = "auto",
    thread: Annotated[str | None, typer.Option(help="The thread to go on with; a new one without it.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help=f'"Name: value" to send with every request, repeatable. Also lines of ${HEADERS_VARIABLE}.'),
    ] = None,
    output: Annotated[str, typer.Option(help="text, json (one object at the end) or ndjson (every event).")] = "text",
    hide_reasoning: Annotated[bool, typer.Option("--hide-reasoning", help="Do not show what models think.")] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long a run may take before it is cancelled.")
    ] = None,
) -> None:
    """Talk to an agent over AG-UI or A2A, in a terminal or in a pipe."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show an emoji still shows the rest
    try:
        code = _run(url, prompt, agent, protocol, thread, header or [], output, hide_reasoning, timeout)
    except ConfigError as error:
        typer.echo(f"anabranch: {' '.join(str(error).split())}", err=True)
        code = 2
    raise typer.Exit(code)


def _run(
    url: str,
    prompt: str | None,
    agent: str | None,
    protocol: Literal["auto", "agui", "a2a"],
    thread: str | None,
    header: list[str],
    output: str,
    hide_reasoning: bool,
    timeout: float | None,
) -> int:
    try:
        " ".join(filter(None, (url, prompt, agent, *header))).encode()
    except UnicodeEncodeError:
        raise ConfigError("an argument is not UTF-8 text") from None
    shape = spoken(url) if protocol == "auto" else protocol
    (remote if shape == "a2a" else target)(url, agent)
    given = headers([*os.environ.get(HEADERS_VARIABLE, "").splitlines(), *header])
    if output not in ("text", "json", "ndjson"):
        raise ConfigError(f"--output {output}: it is one of text, json and ndjson")
    if timeout is not None and not 0 < timeout < float("inf"):
        raise ConfigError(f"--timeout {timeout:g}: give a number of seconds above 0")
    if thread is not None and (
        not 0 < len(thread) <= _ID_LIMIT or not thread.isprintable() or thread != thread.strip()
    ):
        raise ConfigError(f"--thread: give 1 to {_ID_LIMIT} printable characters")
    if sys.stdout is None:
        raise ConfigError("standard output is closed")
    interactive = sys.stdin is not None and sys.stdin.isatty()
    asked = _asked(prompt, interactive)
    # Not before the options are known to be right: these take their time to import.
    from .output import Lanes, Lines, Output, Pipe, Summary, Verbatim
    from .session import Session

    shown: Output
    if output == "text" and sys.stdout.isatty():
        shown = Lanes(sys.stdout, reasoning=not hide_reasoning)
    else:
        shown = {"text": Verbatim, "json": Summary, "ndjson": Lines}[output](Pipe(sys.stdout))
    peer = _peer(url, agent, shape, given, thread or "", shown.say)
    thread_id = thread or ("" if shape == "a2a" else uuid.uuid4().hex)  # of A2A, the agent names it
    session = Session(peer, shown, thread_id, timeout_s=timeout, interactive=interactive)
    return session.run(asked)


def _peer(
    url: str, agent: str | None, shape: str | None, given: dict[str, str], thread: str, say: Callable[[str], None]
) -> Peer:
    """Who is asked."""

    def a2a() -> A2aPeer:
        from .a2a import A2aPeer

        return A2aPeer(remote(url, agent), given, thread)

    if shape == "a2a":
        return a2a()
    from .client import Client

    agui = Client(target(url, agent), given, say=say)
    if shape == "agui":
        return agui
    from .guess import Guess

    return Guess(agui, a2a)


def _asked(prompt: str | None, interactive: bool) -> str | None:
    """What to ask: the argument, then what was piped. None: whatever will be typed. Raises ``ConfigError``."""
    if interactive or sys.stdin is None:
        piped = ""
    else:
        try:
            piped = sys.stdin.buffer.read().decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise ConfigError(f"standard input is not UTF-8 text: see byte {error.start}") from None
    asked = "\n\n".join(filter(None, (prompt, piped)))
    if not asked.strip() and (prompt is not None or not interactive):
        raise ConfigError("there is nothing to ask: give a PROMPT, or pipe one in")
    return asked or None
