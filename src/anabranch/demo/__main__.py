"""``make demo``: a supervisor streams two remote A2A agents, live, with no key and no server of yours.

Four processes on loopback: a scripted model (it looks up its lines, it does not think), two A2A agents, and
``anabranch serve``. This one is the client: it shows the stream and measures how late every token of the agents is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.chat.terminal import Terminal
from ..cli.chat.trail import ChatError
from . import WARM_UP, complete
from ._process import StartFailed, started
from .client import ask
from .measure import lags_ms, percentile

if TYPE_CHECKING:
    import aiohttp

_AGENTS = ("komodor", "argocd")
_QUESTION = "Show me komodor clusters, and what argocd deployed on them."
_CONFIG = """# Written by the demo; the same file works with `anabranch serve`.
model: {{name: {model_name}, base_url: "{model_url}"{key}}}
agents:
  komodor: {{a2a: "{komodor}", description: "Knows the Kubernetes clusters and their health."}}
  argocd: {{a2a: "{argocd}", description: "Knows the deployments and whether they are in sync."}}
supervisor: {{agents: [komodor, argocd]}}
storage: memory://
server: {{stop_grace: 100ms}}
"""


class Measured:
    """One run as the client saw it."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.reads: dict[str, list[tuple[int, int]]] = {}
        self.ended: dict[str, Any] = {}
        self.route: str | None = None
        self.first_ns = 0

    def take(self, at_ns: int, event: dict[str, Any]) -> None:
        """Note what was read when."""
        kind = event["type"]
        self.ended = event if kind in ("RUN_FINISHED", "RUN_ERROR") else self.ended
        if kind == "CUSTOM" and event["name"] == "anabranch.routed":
            self.route = event["value"]["route"]
        elif kind == "SUBAGENT_STARTED":
            name = self.names[event["subagentRunId"]] = event["name"]
            self.texts[name], self.reads[name] = "", []
        elif kind == "TEXT_MESSAGE_CONTENT" and (name := self.names.get(event.get("subagentRunId", ""), "")):
            self.first_ns = self.first_ns or at_ns
            self.texts[name] += event["delta"]
            self.reads[name].append((len(self.texts[name]), at_ns))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="ask one question and exit")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--question", "--ask", default=_QUESTION, help="what to ask; default: %(default)s")
    parser.add_argument("--model-url", help="any OpenAI-compatible URL instead of the scripted model")
    parser.add_argument("--model-name", default="scripted")
    parser.add_argument("--api-key-env", help="the environment variable that holds that model's key")
    parser.add_argument("--port", type=_port, default=8000, help="where to serve; a free one if it is taken")
    options = parser.parse_args()
    complete()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show an emoji still shows the rest
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    try:
        sys.exit(asyncio.run(_demo(options)))
    except (StartFailed, ChatError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(0 if not options.once else 130)


async def _demo(options: argparse.Namespace) -> int:
    import aiohttp

    say = sys.stderr if options.json else sys.stdout
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)))
        say.write("Starting a scripted model, two A2A agents and the server, each in a process of its own...\n")
        say.flush()
        url, model, agents = await _started(stack, options)
        async for _ in ask(url, f"{WARM_UP} {options.question}"):
            pass  # connections are open and everything is imported now
        calls = await _model_calls(http, model)
        report = await _run(http, url, agents, options.question, Terminal(say))
        report["model_calls"] = None if calls is None else (await _model_calls(http, model) or 0) - calls
        say.write(_summary(report, scripted=model is not None))
        if not options.once:
            say.write(f"\nServing on {url} until Ctrl-C. Ask it yourself:\n\n{_yourself(url)}\n")
            say.flush()
            await asyncio.Event().wait()
        if options.json:
            sys.stdout.write(json.dumps(report) + "\n")
    return 0 if report["text_exact"] else 1


async def _started(
    stack: contextlib.AsyncExitStack, options: argparse.Namespace
) -> tuple[str, str | None, dict[str, str]]:
    wanted: list[tuple[str, ...]] = [("anabranch.demo.agents", name) for name in _AGENTS]
    if options.model_url is None:
        wanted.append(("anabranch.demo.model",))
    urls = await asyncio.gather(*(stack.enter_async_context(started(*one)) for one in wanted))
    agents = dict(zip(_AGENTS, urls, strict=False))
    model = None if options.model_url else urls[-1]
    key = f", api_key_env: {options.api_key_env}" if options.api_key_env else ""
    text = _CONFIG.format(
        model_name=options.model_name, model_url=options.model_url or f"{model}/v1", key=key, **agents
    )
    path = _written(text, stack.enter_context(tempfile.TemporaryDirectory(prefix="anabranch-demo-")))
    port = 0 if options.once else _free(options.port)
    url = await stack.enter_async_context(started("anabranch.demo.server", path, port=port))
    return url, model, agents


def _written(text: str, folder: str) -> str:
    path = Path(folder, "anabranch.yaml")
    path.write_text(text, encoding="utf-8")
    return str(path)


async def _run(
    http: aiohttp.ClientSession, url: str, agents: dict[str, str], question: str, terminal: Terminal
) -> dict[str, Any]:
    seen = Measured()
    began_ns = time.monotonic_ns()
    with terminal:
        async for at_ns, event in ask(url, question):
            seen.take(at_ns, event)
            terminal.show([event])
        if seen.ended["type"] == "RUN_ERROR":
            terminal.say(f"the run failed: {seen.ended['message']}")
    exact = seen.ended.get("type") == "RUN_FINISHED" and bool(seen.texts)
    lags: list[float] = []
    for name in seen.texts:
        async with http.get(f"{agents[name]}/sent") as response:
            sent = await response.json()
        exact = exact and sent["text"] == seen.texts[name]
        lags += lags_ms(sent["stamps"], seen.reads[name])
    heard = bool(lags)
    return {
        "text_exact": exact,
        "first_sub_agent_token_ms": round((seen.first_ns - began_ns) / 1e6, 1) if heard else None,
        "relay_lag_ms": {
            "p50": round(percentile(lags, 0.5), 2) if heard else None,
            "p99": round(percentile(lags, 0.99), 2) if heard else None,
        },
        "route": seen.route,
        "agents": list(seen.texts),
    }


async def _model_calls(http: aiohttp.ClientSession, model: str | None) -> int | None:
    if model is None:
        return None
    async with http.get(f"{model}/calls") as response:
        return int((await response.json())["count"])


def _summary(report: dict[str, Any], scripted: bool) -> str:
    if report["first_sub_agent_token_ms"] is None:
        return "\nNo agent said anything, so there is nothing to measure.\n"
    lag = report["relay_lag_ms"]
    exact = "byte for byte what they sent" if report["text_exact"] else "NOT what they sent"
    model = "scripted model, paced" if scripted else "your model"
    return (
        f"\nagents {', '.join(report['agents'])}: text {exact}\n"
        f"first sub-agent token after {report['first_sub_agent_token_ms']} ms ({model})\n"
        f"relay lag, from before an agent publishes a token until it is read here: "
        f"p50 {lag['p50']} ms, p99 {lag['p99']} ms\n"
    )


def _yourself(url: str) -> str:
    message = '{"id":"m1","role":"user","content":"Show me komodor clusters"}'
    body = f'{{"threadId":"t1","runId":"r1","protocolVersion":"1.0","messages":[{message}]}}'
    curl = f"curl -N {url}/agui -H 'content-type: application/json' -d '{body}'"
    return f"  {sys.executable} -m anabranch chat {url}\n  {curl}"


def _free(port: int) -> int:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        sys.stderr.write(f"Port {port} is taken; taking a free one.\n")
        return 0
    return port


def _port(text: str) -> int:
    if not 0 <= int(text) < 65536:
        raise ValueError
    return int(text)


if __name__ == "__main__":
    main()
