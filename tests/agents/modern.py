"""An agent on the official SDK of A2A 1.0 whose streams are worth cutting, by the word ``mode=...`` in the message.

``GET /sent`` tells what was asked of this process: ``requests``, ``cancels`` (task ids), and the ``text`` of the last
answer so far.

    python -m tests.agents.modern --port 0 [--rate 200]
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator
from typing import Any

os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"  # read when the SDK is imported

from a2a import types as a2a
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anabranch.demo._process import command_line, serve
from tests.agents.wire import pause

COUNT = 300


def words(mode: str) -> list[str]:
    """The pieces that the answer in ``mode`` has."""
    return ["ha "] * COUNT if mode.startswith("same") else [f"{n} " for n in range(COUNT)]


class Agent(AgentExecutor):
    """One answer is the coroutine that is called as the mode is."""

    def __init__(self, rate: float) -> None:
        self.requests = 0
        self.cancels: list[str] = []
        self.text = ""
        self._gap_s = 1 / rate if rate else 0.0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Task, WORKING, what the mode does."""
        assert context.task_id and context.context_id and context.message
        self.requests += 1
        self.text = ""
        task = a2a.Task(id=context.task_id, context_id=context.context_id, history=[context.message])
        task.status.state = a2a.TaskState.TASK_STATE_SUBMITTED
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        named = re.search(r"mode=(\w+)", context.get_user_input())
        assert named
        await getattr(self, named[1])(updater)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """CANCELED."""
        assert context.task_id and context.context_id
        self.cancels.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def say(self, updater: TaskUpdater, text: str, id: str, append: bool) -> None:
        """A piece of an artifact."""
        self.text += text
        await updater.add_artifact([a2a.Part(text=text)], id, append=append)
        await pause(self._gap_s)

    async def long(self, updater: TaskUpdater) -> None:
        """So many numbered words that a stream of them can be cut anywhere."""
        for n, text in enumerate(words("long")):
            await self.say(updater, text, "answer", n > 0)
        await updater.complete()

    async def same(self, updater: TaskUpdater) -> None:
        """Pieces that nothing tells apart."""
        for n, text in enumerate(words("same")):
            await self.say(updater, text, "answer", n > 0)
        await updater.complete()

    async def several(self, updater: TaskUpdater) -> None:
        """A new artifact every seven pieces."""
        for n, text in enumerate(words("several")):
            await self.say(updater, text, f"a{n // 7}", n % 7 > 0)
        await updater.complete()

    async def status_text(self, updater: TaskUpdater) -> None:
        """Tokens as status updates."""
        for text in words("status_text"):
            self.text += text
            message = updater.new_agent_message([a2a.Part(text=text)])
            await updater.update_status(a2a.TaskState.TASK_STATE_WORKING, message)
            await pause(self._gap_s)
        await updater.complete()

    async def crash(self, updater: TaskUpdater) -> None:
        """It raises in the middle."""
        for n, text in enumerate(words("crash")[:20]):
            await self.say(updater, text, "answer", n > 0)
        raise RuntimeError("token=s3cret")

    async def no_terminal(self, updater: TaskUpdater) -> None:
        """It stops and never says so."""
        for n, text in enumerate(words("no_terminal")[:20]):
            await self.say(updater, text, "answer", n > 0)

    async def hang(self, updater: TaskUpdater) -> None:
        """It falls silent until it is cancelled."""
        await self.no_terminal(updater)
        await asyncio.Event().wait()


def card(url: str) -> a2a.AgentCard:
    """Its card."""
    skill = a2a.AgentSkill(id="test", name="test", description="Does what it is told.", tags=["test"])
    return a2a.AgentCard(
        name="modern",
        description="An agent of A2A 1.0.",
        version="1",
        supported_interfaces=[a2a.AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=f"{url}/")],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )


def build(rate: float, url: str) -> Starlette:
    """The agent as an ASGI app."""
    agent = Agent(rate)
    handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card(url))

    async def sent(_request: Request) -> Response:
        return JSONResponse({"requests": agent.requests, "cancels": agent.cancels, "text": agent.text})

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await handler.aclose()

    routes: list[Any] = [Route("/sent", sent), *create_agent_card_routes(agent_card=card(url))]
    return Starlette(routes=[*routes, *create_jsonrpc_routes(handler, "/")], lifespan=lifespan)


def main() -> None:
    """Parse the command line and serve."""
    parser = command_line("An agent on the official SDK of A2A 1.0.")
    parser.add_argument("--rate", type=float, default=200.0, help="pieces a second (0: no pace)")
    options = parser.parse_args()
    serve(lambda url: build(options.rate, url), options)


if __name__ == "__main__":
    main()
