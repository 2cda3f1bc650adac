"""``anabranch serve``, as a process of the demo: announces its URL and ends with its parent."""

from __future__ import annotations

import logging
import signal
from pathlib import Path


def main() -> None:
    """Serve the configuration file named on the command line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is a server to stop, Ctrl-C needs no traceback
    from ..config import load
    from ..serve import serve
    from ._process import announce, command_line, end_with_parent

    parser = command_line(__doc__ or "")
    parser.add_argument("config", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    end_with_parent(options)
    serve(load(options.config), port=options.port, announce=announce)


if __name__ == "__main__":
    main()
