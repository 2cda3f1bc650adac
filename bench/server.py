"""A server under measure: ``python -m bench.server FILE.yaml``, or ``bare`` or ``sdk`` in place of the file.

All kinds run under the uvicorn settings that ``anabranch serve`` has, so that only the application differs.
"""

from __future__ import annotations

import logging
import socket

import uvicorn
from starlette.types import ASGIApp

from anabranch.demo._process import announce, command_line, end_with_parent
from anabranch.serve import tune_gc, uvicorn_config


def main() -> None:
    """Serve what the command line names."""
    parser = command_line(__doc__ or "")
    parser.add_argument("target")
    parser.add_argument("--loop", default="auto")
    parser.add_argument("--no-gc", action="store_true", help="leave garbage collection as Python has it")
    parser.add_argument(
        "--listeners", type=int, default=1, help="how often the listening socket is accepted from a turn"
    )
    options = parser.parse_args()
    logging.basicConfig()
    logging.getLogger().handlers[0].setLevel(logging.WARNING)
    app: ASGIApp
    if options.target == "bare":
        from .bare import app as bare

        app = bare
    elif options.target == "sdk":
        from .sdk_agent import build

        app = build("http://127.0.0.1")
    else:
        from anabranch.app import App
        from anabranch.config import load

        app = App.from_config(load(options.target))
    if not options.no_gc:
        tune_gc()
    config = uvicorn_config(app, loop=options.loop, log_config=None)
    listener = socket.create_server(("127.0.0.1", options.port), backlog=2048)
    # Inherited by what is accepted. asyncio sets it only on sockets of a named protocol, which these are not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end_with_parent(options)
    announce(f"http://127.0.0.1:{listener.getsockname()[1]}")
    # uvloop accepts one connection a turn of the loop and listening socket; a busy loop turns rarely.
    uvicorn.Server(config).run(sockets=[listener, *(listener.dup() for _ in range(options.listeners - 1))])


if __name__ == "__main__":
    main()
