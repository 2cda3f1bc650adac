"""An agent on the official SDK of A2A 1.0 that asks the user before it answers: once, or again after ``twice``.

``GET /sent`` tells what was said to this process: ``messages`` (text, data, taskId, contextId) and
``cancels`` (task ids).

    python -m tests.agents.asking --port 0
"""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"  # read when the SDK is imported

from a2a import types as a2a
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anabranch.demo._process import command_line, serve

LOOKING, QUESTION, SECOND = "Looking.\n", "Which cluster?", "All of it?"


class Agent(AgentExecutor):
    """Says LOOKING and asks QUESTION; the answer goes on in the same artifact."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.cancels: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """A new task asks, one that was answered goes on."""
        assert context.task_id and context.context_id and context.message
        known, said = context.current_task, context.get_user_input()
        data = [MessageToDict(part.data) for part in context.message.parts if part.HasField("data")]
        place = {"taskId": context.message.task_id, "contextId": context.message.context_id}
        self.messages.append({"text": said, "data": data, **place})
        if known is None:
            task = a2a.Task(id=context.task_id, context_id=context.context_id, history=[context.message])
            task.status.state = a2a.TaskState.TASK_STATE_SUBMITTED
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, known.context_id if known else context.context_id)
        await updater.start_work()
        if known is None and said != "plain":
            await updater.add_artifact([a2a.Part(text=LOOKING)], "answer")
            await updater.requires_input(updater.new_agent_message([a2a.Part(text=QUESTION)]))
        elif known is not None and said == "twice":
            await updater.requires_input(updater.new_agent_message([a2a.Part(text=SECOND)]))
        else:
            for token in ("In ", said, ": 3 pods."):
                await updater.add_artifact([a2a.Part(text=token)], "answer", append=known is not None or token != "In ")
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """CANCELED."""
        assert context.task_id and context.context_id
        self.cancels.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card(url: str) -> a2a.AgentCard:
    """Its card."""
    skill = a2a.AgentSkill(id="test", name="test", description="Asks first.", tags=["test"])
    return a2a.AgentCard(
        name="asking",
        description="An agent that asks first.",
        version="1",
        supported_interfaces=[a2a.AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=f"{url}/")],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )


def build(url: str) -> Starlette:
    """The agent as an ASGI app."""
    agent = Agent()
    handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card(url))

    async def sent(_request: Request) -> Response:
        return JSONResponse({"messages": agent.messages, "cancels": agent.cancels})

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await handler.aclose()

    routes: list[Any] = [Route("/sent", sent), *create_agent_card_routes(agent_card=card(url))]
    return Starlette(routes=[*routes, *create_jsonrpc_routes(handler, "/")], lifespan=lifespan)


def main() -> None:
    """Parse the command line and serve."""
    serve(build, command_line("An agent that asks the user first.").parse_args())


if __name__ == "__main__":
    main()
