"""An agent on the official A2A SDK, which says the tokens that it is asked for, one append to its artifact each.

``python -m bench.sdk_agent`` serves it as a remote agent. A paced token also carries, as ``s=``, when it was given to
the SDK. ``GET /sent`` has the SHA-256 of the last answer. No tracing: that costs the SDK a good deal more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator

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
from anabranch.serve import tune_gc

from . import workload
from .workload import Command, parse, until


class _Agent(AgentExecutor):
    sha256 = ""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message and context.task_id and context.context_id
        command = parse(context.get_user_input())
        submitted = a2a.TaskStatus(state=a2a.TaskState.TASK_STATE_SUBMITTED)
        await event_queue.enqueue_event(a2a.Task(id=context.task_id, context_id=context.context_id, status=submitted))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        said = hashlib.sha256()
        number = 0
        async for text in _paced(command) if command.rate else workload.tokens(command):
            said.update(text.encode())
            number += 1
            last = number == command.tokens
            await updater.add_artifact([a2a.Part(text=text)], "answer", append=number > 1, last_chunk=last)
        self.sha256 = said.hexdigest()
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id and context.context_id
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def _paced(command: Command) -> AsyncIterator[str]:
    began_ns = time.monotonic_ns()
    for k in range(command.tokens):
        due_ns = began_ns + int(k * 1e9 / command.rate)
        await until(due_ns)
        yield f"k={k};t={due_ns};s={time.monotonic_ns()}; "


def build(url: str) -> Starlette:
    """The SDK's own server of the agent, as its documentation has it; ``url`` is for the card."""
    card = a2a.AgentCard(
        name="bench",
        description="Says numbered tokens.",
        version="1",
        supported_interfaces=[a2a.AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=f"{url}/")],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a.AgentSkill(id="say", name="say", description="Says numbered tokens.", tags=["bench"])],
    )
    agent = _Agent()
    handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card)

    async def sent(_request: Request) -> Response:
        return JSONResponse({"sha256": agent.sha256})

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await handler.aclose()

    routes = [Route("/sent", sent), *create_agent_card_routes(agent_card=card), *create_jsonrpc_routes(handler, "/")]
    return Starlette(routes=routes, lifespan=lifespan)


def _tuned(url: str) -> Starlette:
    app = build(url)
    tune_gc()  # its pauses would be counted as ours
    return app


if __name__ == "__main__":
    serve(_tuned, command_line(__doc__ or "").parse_args())
