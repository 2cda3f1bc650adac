"""Two small A2A agents on the official SDK, one a process: `komodor` (clusters) and `argocd` (deployments).

Each streams a fixed text token by token as one artifact, with the characters in it that break careless relays. The
moment before each token is published is recorded, so that a reader of ``GET /sent`` can say how late a token arrived.

    python -m anabranch.demo.agents komodor --port 0 [--rate 50]
"""

import asyncio
import contextlib
import logging
import os
import re
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"  # read when the SDK is imported

try:
    from a2a import types as a2a
    from a2a.server.agent_execution import AgentExecutor, RequestContext
    from a2a.server.events import EventQueue
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
except ImportError:
    from anabranch.demo import missing

    raise missing("a2a-sdk") from None
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anabranch.demo import WARM_UP
from anabranch.demo._process import command_line, serve


class _Role(NamedTuple):
    description: str
    text: str


_ROLES = {
    "komodor": _Role(
        "Kubernetes clusters: what runs where, and how healthy it is.",
        "## Clusters 🚢\r\n\n"
        "| cluster | region | nodes | health |\n"
        "|---|---|---|---|\n"
        "| prod-eu-1 | Zürich 🇨🇭 | 42 | ✅ healthy |\n"
        "| prod-us-2 | São Paulo | 38 | ⚠️ degraded |\n"
        "| staging | 東京 | 7 | ✅ healthy |\n"
        "| edge-𝔸 | Tromsø 🧊 | 3 | ❌ down |\n"
        "\n"
        "Three of four clusters are very very calm. In `prod-us-2` a node runs out of memory every night at 02:10, "
        "and `edge-𝔸` has not been seen for 3 days. 👩‍🚀 Start there.\n",
    ),
    "argocd": _Role(
        "Deployments: what is rolled out, in which version, and whether it is in sync.",
        "## Deployments 🐙\r\n\n"
        "| application | version | sync | health |\n"
        "|---|---|---|---|\n"
        "| checkout | v2.14.0 | ✅ synced | healthy |\n"
        "| catalogue-ñ | v1.9.3 | 🔄 out of sync | progressing |\n"
        "| payments | v5.0.1 | ✅ synced | healthy |\n"
        "| search-𝔹 | v0.7.2 | ✅ synced | degraded 🥵 |\n"
        "\n"
        "`catalogue-ñ` waits, and waits, and waits for a migration that locks a table; roll it back or let it finish. "
        "Nothing else is pending. 👨‍👩‍👧 All owners were told.\n",
    ),
}


def tokens(name: str) -> list[str]:
    """The text of agent `name` in pieces of a few characters: about what a tokenizer makes of it."""
    return re.findall(r"\r|\n\n|\n| ?\w{1,6}| ?[^\w\s]{1,4}| +", _ROLES[name].text)


class Sent:
    """What the last task was sent: whole text so far, and (characters so far, monotonic ns) before each publish."""

    def __init__(self, task_id: str = "") -> None:
        self.task_id = task_id
        self.text = ""
        self.stamps: list[tuple[int, int]] = []

    def about_to_send(self, token: str) -> None:
        """Record `token`, to be called right before it is published."""
        self.text += token
        self.stamps.append((len(self.text), time.monotonic_ns()))


class TokenAgent(AgentExecutor):
    """Streams the tokens of one role, `rate` a second (0: as fast as the SDK takes them)."""

    def __init__(self, name: str, rate: float) -> None:
        self.sent = Sent()
        self._tokens = tokens(name)
        self._rate = rate
        self._canceled: set[str] = set()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Task, WORKING, the tokens, COMPLETED; FAILED with a plain message if anything goes wrong (A2A 3.1.2)."""
        task = context.current_task or a2a.Task(
            id=context.task_id,
            context_id=context.context_id,
            status=a2a.TaskStatus(state=a2a.TaskState.TASK_STATE_SUBMITTED),
            history=[context.message] if context.message else [],
        )
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        try:
            await updater.start_work()
            rate = 0 if context.get_user_input().startswith(WARM_UP) else self._rate
            if await self._stream(updater, rate):
                await updater.complete()
        except Exception:  # the SDK would end the stream with no terminal state
            logging.getLogger(__name__).exception("task %s failed", task.id)
            reason = a2a.Part(text="The agent failed while it was answering.")
            await updater.failed(updater.new_agent_message([reason]))
        finally:
            self._canceled.discard(task.id)

    async def _stream(self, updater: TaskUpdater, rate: float) -> bool:
        """True when the whole text was sent, False when the task was cancelled."""
        sent = self.sent = Sent(updater.task_id)
        began = time.monotonic()
        for n, token in enumerate(self._tokens):
            # Each token has its own due time: a late one does not delay those after it.
            due = began + n / rate if rate else began
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if updater.task_id in self._canceled:
                return False
            sent.about_to_send(token)
            last = n == len(self._tokens) - 1
            await updater.add_artifact([a2a.Part(text=token)], "answer", "answer", append=n > 0, last_chunk=last)
        return True

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop before the next token and publish CANCELED."""
        assert context.task_id and context.context_id
        self._canceled.add(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card(name: str, url: str) -> a2a.AgentCard:
    """The agent card of role `name` served at `url`."""
    description = _ROLES[name].description
    return a2a.AgentCard(
        name=name,
        description=description,
        version="1.0.0",
        supported_interfaces=[a2a.AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=f"{url}/")],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a.AgentSkill(id="report", name=name, description=description, tags=["demo"])],
    )


def build(name: str, rate: float, url: str) -> Starlette:
    """The agent as an ASGI app: JSON-RPC at ``/``, its card, and ``GET /sent``."""
    agent = TokenAgent(name, rate)
    handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card(name, url))

    async def sent(_request: Request) -> Response:
        return JSONResponse({"task_id": agent.sent.task_id, "text": agent.sent.text, "stamps": agent.sent.stamps})

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await handler.aclose()

    routes: list[Any] = [
        Route("/sent", sent),
        *create_agent_card_routes(agent_card=card(name, url)),
        *create_jsonrpc_routes(handler, "/"),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    """Parse the command line and serve."""
    parser = command_line("A demo A2A agent that streams a fixed text.")
    parser.add_argument("name", choices=sorted(_ROLES))
    parser.add_argument("--rate", type=float, default=50.0, help="tokens a second (default 50, 0 for no pace)")
    options = parser.parse_args()
    serve(lambda url: build(options.name, options.rate, url), options)


if __name__ == "__main__":
    main()
