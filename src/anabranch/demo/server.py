"""``anabranch serve``, as a process of the demo: announces its URL and ends with its parent."""

from __future__ import annotations

import logging
from pathlib import Path

from ..config import load
from ..serve import serve
from ._process import announce, command_line, end_with_parent


def main() -> None:
    """Serve the configuration file named on the command line."""
    parser = command_line(__doc__ or "")
    parser.add_argument("config", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    end_with_parent(options)
    serve(load(options.config), port=options.port, announce=announce)


if __name__ == "__main__":
    main()
