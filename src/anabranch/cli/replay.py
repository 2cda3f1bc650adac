"""``anabranch replay``: what this version makes of a recorded run, as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from .chat.screen import visible

if TYPE_CHECKING:
    from ..log._base import Entry
    from ..sinks._base import Encoder


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
        Literal["events", "agui", "a2a"],
        typer.Option(help="The run's log entries, or the frames of an AG-UI or an A2A client."),
    ] = "events",
    profile: Annotated[
        Literal["modern", "older"],
        typer.Option(help="With --to agui or a2a: a client of version 1.0, or one before it (A2A: 0.3)."),
    ] = "modern",
    subagents: Annotated[
        Literal["native", "steps"] | None,
        typer.Option(
            help="How sub-agents are told: with --to agui, by default as the profile wants it; with --to a2a, native is"
            " a client that asks who said what, and by default they are not told."
        ),
    ] = None,
) -> None:
    """Replay a recorded run: exit 0 when it was read to its end (however the run ended), 1 when it could not be."""
    import msgspec

    from ..errors import ConfigError
    from ..tapes import replay as tapes

    name = "stdin" if file.name in ("-", "<stdin>", 0) else str(file.name)
    write = typer.get_binary_stream("stdout").write
    line = msgspec.json.Encoder().encode
    try:
        encoder = None if to == "events" else _encoder(to, profile == "modern", subagents)
        run = tapes.replay(_lines(file, tapes.LINE_LIMIT), name, source)
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


def _encoder(to: str, modern: bool, subagents: Literal["native", "steps"] | None) -> Encoder:
    """What writes for the client that the options say. Raises ``ConfigError``."""
    from ..errors import ConfigError
    from ..sinks.a2a import encode as a2a
    from ..sinks.a2a.profile import Profile as A2aProfile
    from ..sinks.agui.encode import AguiEncoder
    from ..sinks.agui.profile import PROTOCOL_VERSION, Profile

    if to == "agui":
        return AguiEncoder(Profile.negotiate(PROTOCOL_VERSION if modern else None, subagents))
    if subagents == "steps":
        raise ConfigError("A2A has no steps: give `--subagents native`, or leave it out")
    client = A2aProfile("1.0" if modern else "0.3", attributed=subagents == "native")
    return a2a.A2aEncoder(client, a2a.Envelope.rpc("1"))


def _lines(file: BinaryIO, limit: int) -> Iterator[bytes]:
    return iter(lambda: file.readline(limit + 1), b"")


def _events(entry: Entry) -> Iterator[dict[str, Any]]:
    yield {"seq": entry.seq, "event": entry.event}


def _frames(encoder: Encoder, entry: Entry) -> Iterator[dict[str, Any]]:
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
