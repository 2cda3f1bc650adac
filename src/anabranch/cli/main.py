"""Commands. Data goes to stdout, everything else to stderr; a wrong use exits 2, a failure 1."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..errors import ConfigError
from .chat.command import chat
from .replay import replay

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """The ``anabranch`` command."""
    app()


def _tell_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Stream agents: every token of every agent, in order, exactly once."""


app.command()(chat)
app.command()(replay)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@app.command()
def serve(
    config: Annotated[Path, typer.Argument(help="The configuration file.")] = Path("anabranch.yaml"),
    host: Annotated[str | None, typer.Option(help="Address to listen on; overrides the file.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on, 0 for any free one; overrides the file."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="A directory to keep what the agents of each run give, for `replay`.")
    ] = None,
) -> None:
    """Serve the agents of a configuration file."""
    from ..config import located
    from ..serve import serve as run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "httpx2"):  # a line for every call of a model
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        loaded, reader = located(config)
    except ConfigError as error:
        raise _refused(error) from None
    try:
        run(loaded, host=host, port=port, record=record, announce=_announce)
    except ConfigError as error:
        raise _refused(reader.error(error.path, error.problem) if error.path else f"{config}: {error}") from None


def _refused(problem: object) -> typer.Exit:
    typer.echo(f"anabranch: {' '.join(str(problem).split())}", err=True)
    return typer.Exit(2)


def _announce(url: str) -> None:
    typer.echo(f"anabranch: serving on {url}", err=True)
