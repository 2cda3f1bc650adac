"""Running the application under uvicorn, with a stop that keeps every promise.

On SIGTERM or Ctrl-C: ``/ready`` turns 503 and new runs are refused, while live runs and their streams go on for the
grace time; then each ends with a typed terminal event, streams close, and the process exits. A second Ctrl-C skips the
grace time, not the terminal events.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from .app import App
from .config import Config
from .errors import ConfigError, ServerError

logger = logging.getLogger("anabranch")

_ACCEPTED_A_TURN = 32
_CLOSE_S = 5  # for clients to read the last frames once every run has ended
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REST_S = 3.0  # for tasks and threads that agents left behind, once the server has stopped


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, app: App, accepting: Callable[[], None]) -> None:
        super().__init__(config)
        self._app, self._accepting = app, accepting
        self._hurry = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The inherited one raises the signal again after a clean stop, and the exit status would not be 0.
        self._loop = asyncio.get_running_loop()
        for sig in _SIGNALS:
            signal.signal(sig, self.handle_exit)
        try:
            yield
        finally:
            for sig in _SIGNALS:
                signal.signal(sig, signal.SIG_IGN)  # the process ends already

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.open()
        await super().startup(sockets)
        self._accepting()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            self._loop.call_soon_threadsafe(self._hurry.set)  # which also wakes a loop that waits for the network
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping = asyncio.create_task(self._app.stop())
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait((stopping, hurry), return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not stopping.done():
            await self._app.stop(0)
        await stopping
        await super().shutdown(sockets)


def serve(
    config: Config,
    *,
    host: str | None = None,
    port: int | None = None,
    record: Path | None = None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve ``config``; see ``run``. Raises ``ConfigError`` also when the application cannot be made.

    ``record`` is a directory for recordings of the runs.
    """
    run(App.from_config(config, record=record), host=host, port=port, announce=announce)


def run(
    app: App,
    *,
    host: str | None = None,
    port: int | None = None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve ``app`` until a signal, in the main thread. ``announce`` gets the URL once connections are accepted.

    The process ends soon after: signals are ignored from then on, and what an agent left running may not hold it.
    Raises ``ConfigError`` when the port is taken.
    """
    settings = app.settings
    listener = _listen(host or settings.host, settings.port if port is None else port)
    if settings.tune_gc:
        tune_gc()
    address, number = listener.getsockname()[:2]
    if not (app.knows_callers or ip_address(address.partition("%")[0]).is_loopback):
        logger.warning("anybody who can reach %s may use this server, as one user: name callers with `auth`", address)
    url = f"http://{f'[{address}]' if ':' in address else address}:{number}"
    server = _Server(uvicorn_config(app), app, lambda: announce(url))
    runner = asyncio.Runner(loop_factory=server.config.get_loop_factory())
    try:
        loop = runner.get_loop()
        _run(loop, server.serve(sockets=[listener, *(listener.dup() for _ in range(_extra_listeners(loop)))]))
    except ServerError as flaw:
        raise ConfigError(f"storage: the server cannot start: {flaw} Restore a copy, or name another file") from flaw
    finally:
        threading.Thread(target=_end, args=(runner.get_loop(), int(sys.exc_info()[0] is not None)), daemon=True).start()
        with contextlib.suppress(SystemExit, KeyboardInterrupt):  # of an agent, see `_run`
            runner.close()


def _run(loop: asyncio.AbstractEventLoop, serving: Coroutine[Any, Any, None]) -> None:
    """Run the loop until ``serving`` is over, whatever agents do to it.

    asyncio lets these two exceptions of any task end the loop. Here they are no signals, for those are handled.
    """
    task = loop.create_task(serving)
    task.add_done_callback(lambda _: loop.stop())
    over = False
    while not over:
        if over := task.done():
            loop.call_soon(loop.stop)  # once more: what is left of the callback must not stop the loop later
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            if not task.done():
                logger.exception("a task of an agent tried to end the process")
    task.result()


def _end(loop: asyncio.AbstractEventLoop, status: int) -> None:
    """End the process, if it has not ended by itself."""
    time.sleep(_REST_S)
    threads = [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
    left = [task.get_name() for task in asyncio.all_tasks(loop)] + [f"thread {each.name}" for each in threads]
    logger.warning("left behind, because it does not stop: %s", ", ".join(left) or "an exit handler")
    logging.shutdown()
    os._exit(status)


def _extra_listeners(loop: asyncio.AbstractEventLoop) -> int:
    """How often more the listening socket is listened on.

    uvloop accepts one connection a turn of the loop and listening socket, and a busy loop turns rarely: of 1,000
    streams that arrive together the last one waited for seconds.
    """
    return _ACCEPTED_A_TURN - 1 if type(loop).__module__.startswith("uvloop") else 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        remedy = "give another with `server.host`, `server.port` or --host, --port"
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"server: cannot listen on {host}:{port}: {reason}; {remedy}") from None
    # Inherited by what is accepted. asyncio sets it only on sockets of a named protocol, which these are not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def uvicorn_config(app: Any, **options: Any) -> uvicorn.Config:
    """The uvicorn settings that anabranch is measured with; ``options`` come before them."""
    settings: dict[str, Any] = {
        "access_log": False,
        "log_level": "info",
        "server_header": False,
        "timeout_graceful_shutdown": _CLOSE_S,
    }
    if importlib.util.find_spec("httptools") is not None:
        settings["http"] = _http_without_trailers()
    return uvicorn.Config(app, **settings | options)


def _http_without_trailers() -> Any:
    """uvicorn's protocol, whose parser adds trailers to the headers of a request that has come whole.

    Nothing in front of this server has checked those, so they are nobody's credentials.
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Http(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            if not self.parser.should_upgrade():
                self.headers = []  # the request has the other list

    return Http


def tune_gc() -> None:
    """Keep what the imports left out of every collection, and collect the oldest generation rarely.

    Heavy frameworks leave hundreds of thousands of objects; scanning them costs tens of milliseconds at a time (see the
    bench). Short-lived events are not tracked at all.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
