"""The command line: ``anabranch serve anabranch.yaml``."""

import signal

__all__ = ("main",)


def main() -> None:
    """The ``anabranch`` command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is a server to stop, Ctrl-C needs no traceback
    from .main import main as command

    command()
