"""The whole system, each part in an operating-system process of its own."""

import asyncio
import contextlib
import json
import socket

import aiohttp
import psutil

from anabranch.demo._process import started
from anabranch.demo.client import ask
from anabranch.transports.sse import Parser

CONFIG = """
model: {{name: scripted, base_url: "{model}/v1"}}
agents:
  komodor: {{a2a: "http://127.0.0.1:{port}", timeout: {{first_byte: 2s, idle: 2s}}}}
  argocd: {{a2a: "{argocd}"}}
supervisor: {{agents: [komodor, argocd], routing: off}}
storage: "{storage}"
server: {{port: {own}}}
"""


class Spine:
    """The running system. ``komodor`` is started by each test, on the port that the server knows."""

    def __init__(self, folder, model, argocd, http):
        self.model, self.argocd, self.http = model, argocd, http
        self.url, self.port, self._own = "", free_port(), free_port()
        self._config = folder / "anabranch.yaml"
        self._storage = f"sqlite:///{folder / 'runs.db'}"

    @contextlib.asynccontextmanager
    async def serving(self):
        """The server, on the same port and the same storage each time."""
        parts = {"model": self.model, "argocd": self.argocd, "port": self.port, "own": self._own}
        self._config.write_text(CONFIG.format(**parts, storage=self._storage))
        async with started("anabranch.demo.server", str(self._config), port=self._own) as self.url:
            yield self

    async def killed(self):
        """Kill the server, as a crash would."""
        [server] = [each for each in psutil.Process().children() if str(self._config) in each.cmdline()]
        server.kill()
        await asyncio.to_thread(psutil.wait_procs, [server], timeout=10)

    @contextlib.asynccontextmanager
    async def komodor(self, *options):
        async with started("tests.agents.remote", "--name", "komodor", *options, port=self.port) as url:
            yield url

    async def events(self, question):
        """A question on a thread of its own."""
        async with asyncio.timeout(30):
            return [event async for event in ask(self.url, question)]

    async def get(self, url):
        async with self.http.get(url) as response:
            return await response.json()

    async def post(self, path):
        async with self.http.post(self.url + path) as response:
            return response.status, await response.json()

    async def run(self, thread, run, *messages):
        """A turn of a thread, to its end."""
        return [event async for event in self.follow("POST", "/agui", json=asked(thread, run, *messages))]

    async def follow(self, method, path, **more):
        """The events of a stream as they come."""
        parser = Parser()
        async with asyncio.timeout(30), self.http.request(method, self.url + path, **more) as response:
            assert response.status == 200, await response.text()
            async for chunk in response.content.iter_any():
                for event in parser.feed(chunk):
                    yield json.loads(event.data)


def asked(thread, run, *messages):
    """A RunAgentInput; a message that is a string is the user's."""
    said = [
        {"id": f"{run}-{number}", "role": "user", "content": message} if isinstance(message, str) else message
        for number, message in enumerate(messages)
    ]
    return {"threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": said}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextlib.asynccontextmanager
async def running(folder, argocd=("anabranch.demo.agents", "argocd", "--rate", "200")):
    """All of it but komodor; ``argocd`` is on the official SDK, unless another one is named."""
    async with contextlib.AsyncExitStack() as stack:
        model = await stack.enter_async_context(started("tests.agents.model", "--pace", "0"))
        agent = await stack.enter_async_context(started(*argocd))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        spine = Spine(folder, model, agent, http)
        yield await stack.enter_async_context(spine.serving())
