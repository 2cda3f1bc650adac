"""``anabranch replay``: what this version makes of a recorded run, as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from .chat.screen import visible

if TYPE_CHECKING:
    from ..log._base import Entry


def replay(
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(help="A recording, or a captured answer of an openai or a2a agent; - is stdin."),
    ],
    source: Annotated[
        Literal["a2a", "langgraph", "openai", "python"] | None,
        typer.Option(help="What it was recorded from. A recording says so itself, a captured answer does not."),
    ] = None,
    to: Annotated[
        Literal["events", "agui"], typer.Option(help="The run's log entries, or the frames of an AG-UI client.")
    ] = "events",
    profile: Annotated[
        Literal["modern", "older"], typer.Option(help="With --to agui: a client of AG-UI 1.0, or one before it.")
    ] = "modern",
    subagents: Annotated[
        Literal["native", "steps"] | None,
        typer.Option(help="With --to agui: how sub-agents are told; by default as the profile wants it."),
    ] = None,
) -> None:
    """Replay a recorded run: exit 0 when it was read to its end (however the run ended), 1 when it could not be."""
    import msgspec

    from ..errors import ConfigError
    from ..sinks.agui.encode import AguiEncoder
    from ..sinks.agui.profile import PROTOCOL_VERSION, Profile
    from ..tapes import replay as tapes

    name = "stdin" if file.name in ("-", "<stdin>", 0) else str(file.name)
    write = typer.get_binary_stream("stdout").write
    line = msgspec.json.Encoder().encode
    try:
        run = tapes.replay(_lines(file, tapes.LINE_LIMIT), name, source)
        client = Profile.negotiate(PROTOCOL_VERSION if profile == "modern" else None, subagents)
        encoder = AguiEncoder(client) if to == "agui" else None
        for entry in run.entries():
            for frame in _events(entry) if encoder is None else _frames(encoder, entry):
                write(line(frame) + b"\n")
    except tapes.BadTape as error:
        raise _ended(error, 1) from None
    except ConfigError as error:
        raise _ended(error, 2) from None
    if run.cut:
        why = "the process that made it was killed, its disk was full, or it still runs"
        _tell(f"{name}: it stops before the end of the run: {why}")


def _lines(file: BinaryIO, limit: int) -> Iterator[bytes]:
    return iter(lambda: file.readline(limit + 1), b"")


def _events(entry: Entry) -> Iterator[dict[str, Any]]:
    yield {"seq": entry.seq, "event": entry.event}


def _frames(encoder: Any, entry: Entry) -> Iterator[dict[str, Any]]:
    import msgspec

    from ..transports.sse import Parser

    for frame in encoder.feed(entry):
        for event in Parser().feed(frame):
            yield ({"id": event.id} if event.id else {}) | {"data": msgspec.Raw(event.data)}


def _ended(problem: object, status: int) -> typer.Exit:
    _tell(str(problem))
    return typer.Exit(status)


def _tell(text: str) -> None:
    """A line on stderr, which no file can write escapes to."""
    typer.echo(f"anabranch: {visible(' '.join(text.split()))}", err=True)
