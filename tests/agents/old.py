"""Agents on the official SDK of A2A 0.3 (0.3.26): they do what old agents do, by the word ``mode=...`` in the message.

It runs in an environment of its own (``tests.environments``), so it imports nothing of ours. ``GET /sent`` tells what
was asked of this process: ``requests`` (messages that it took), ``cancels`` (task ids) and the exact ``text`` of the
last answer.

    python tests/agents/old.py [--mode ok] [--rate 200] [--card 0.3] [--url http://0.0.0.0:9/] [--whole]
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import sys
import threading
import uuid

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Part,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task
from starlette.responses import JSONResponse
from starlette.routing import Route

TOKENS = ["## Höhe", " 🚀", "\r", "\n\n", "ha ", "ha ", " ", "𝔸lpha", "\n", "👩‍", "🚀", " fin."]
HALF = TOKENS[: len(TOKENS) // 2]
TEXT = "".join(TOKENS)
CLUSTERS = {"clusters": [{"name": "prod-eu-1", "nodes": 42}]}


async def pause(seconds):
    """Wait as part of what the agent does."""
    await asyncio.sleep(seconds)  # noqa: TID251 - pacing is this agent's behaviour


def text_part(text):
    return Part(root=TextPart(text=text))


class Agent(AgentExecutor):
    """One answer is the coroutine that is called as the mode is."""

    def __init__(self, mode, rate):
        self.requests, self.cancels, self.text = [], [], ""
        self._mode, self._gap_s = mode, 1 / rate if rate else 0.0

    async def execute(self, context, queue):
        named = re.search(r"mode=(\w+)", context.get_user_input())
        mode = named[1] if named else self._mode
        self.requests.append(mode)
        self.text = ""
        self._queue, self._context = queue, context
        if mode == "message_only":
            self.text = TEXT
            return await queue.enqueue_event(new_agent_text_message(TEXT, context.context_id, context.task_id))
        await queue.enqueue_event(context.current_task or new_task(context.message))
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        if mode != "echo_user":
            await updater.start_work()
        await getattr(self, mode)(updater)

    async def cancel(self, context, queue):
        self.cancels.append(context.task_id)
        if self.requests[-1] != "cancel_ignored":
            await TaskUpdater(queue, context.task_id, context.context_id).cancel()

    # --- what it says ------------------------------------------------------------------------------------------

    async def tokens(self, updater, texts=TOKENS, id="answer", name=None, first=False, last=False):
        """An artifact in pieces. ``first``: whether it begins as if it were there already."""
        for n, text in enumerate(texts):
            self.text += text
            ends = last and n == len(texts) - 1
            await updater.add_artifact([text_part(text)], id, name, append=first or n > 0, last_chunk=ends)
            await pause(self._gap_s)

    async def says(self, updater, text, state=TaskState.working, **more):
        """A status with a text."""
        message = updater.new_agent_message([text_part(text)])
        await updater.update_status(state, message, **more)
        await pause(self._gap_s)

    async def state(self, state, final):
        """A status that the SDK's updater would not send."""
        event = TaskStatusUpdateEvent(
            task_id=self._context.task_id,
            context_id=self._context.context_id,
            status=TaskStatus(state=state),
            final=final,
        )
        await self._queue.enqueue_event(event)

    # --- modes: well behaved -----------------------------------------------------------------------------------

    async def ok(self, updater):
        await self.tokens(updater, last=True)
        await updater.complete()

    async def empty(self, updater):
        await updater.complete()

    async def long(self, updater):
        """So many numbered words that a stream of them can be cut anywhere."""
        await self.tokens(updater, [f"{n} " for n in range(300)])
        await updater.complete()

    async def failed(self, updater):
        await self.tokens(updater, HALF)
        await self.says(updater, "the cluster does not answer", TaskState.failed, final=True)

    async def rejected(self, updater):
        await self.says(updater, "not my business", TaskState.rejected, final=True)

    async def input_required(self, updater):
        await self.says(updater, "Which cluster?", TaskState.input_required, final=True)

    async def input_not_final(self, updater):
        await self.says(updater, "Which cluster?", TaskState.input_required)

    async def auth_required(self, updater):
        await self.says(updater, "Log in.", TaskState.auth_required)

    async def hang(self, updater):
        await self.tokens(updater, HALF)
        await asyncio.Event().wait()

    # --- modes: where the text is ------------------------------------------------------------------------------

    async def status_text(self, updater):
        for text in TOKENS:
            self.text += text
            await self.says(updater, text)
        await updater.complete()

    async def status_long(self, updater):
        for n in range(300):
            self.text += f"{n} "
            await self.says(updater, f"{n} ")
        await updater.complete()

    async def status_then_artifact(self, updater):
        for text in TOKENS:
            await self.says(updater, text)
        await self.tokens(updater, [TEXT])
        await updater.complete()

    async def cumulative(self, updater):
        for n in range(len(TOKENS)):
            await updater.add_artifact([text_part("".join(TOKENS[: n + 1]))], "answer")
        self.text = TEXT
        await updater.complete()

    async def recap(self, updater):
        await self.tokens(updater)
        await self.says(updater, TEXT, TaskState.completed, final=True)

    final_recap = recap  # as the agent without an SDK calls it

    async def data_part(self, updater):
        await updater.add_artifact([Part(root=DataPart(data=CLUSTERS))], "answer")
        await updater.complete()

    async def file_parts(self, updater):
        here = FileWithBytes(bytes="aGk=", mime_type="text/plain", name="hi.txt")
        there = FileWithUri(uri="https://x.example/f.png", mime_type="image/png")
        await updater.add_artifact([Part(root=FilePart(file=file)) for file in (here, there)], "answer")
        await updater.complete()

    async def caipe(self, updater):
        """A sub-agent of the platform engineer."""
        await updater.add_artifact([text_part("🔧 Calling list")], "n1", "tool_notification_start")
        await self.tokens(updater, id="s", name="streaming_result")
        await updater.add_artifact([text_part("✅ list")], "n2", "tool_notification_end")
        await updater.add_artifact([text_part("")], "s", "streaming_result", append=True, last_chunk=True)
        await updater.add_artifact([text_part(TEXT)], "r", "complete_result", last_chunk=True)
        await updater.complete()

    async def caipe_empty_result(self, updater):
        await self.tokens(updater, id="s", name="streaming_result")
        await updater.add_artifact([text_part("")], "r", "complete_result", last_chunk=True)
        await updater.complete()

    async def echo_user(self, updater):
        await updater.update_status(TaskState.submitted, self._context.message)
        await self.says(updater, "On it. ")
        await self.tokens(updater)
        await updater.complete()

    # --- modes: wrong ------------------------------------------------------------------------------------------

    async def append_first(self, updater):
        await self.tokens(updater, first=True)
        await updater.complete()

    async def last_early(self, updater):
        await updater.add_artifact([text_part(TOKENS[0])], "answer", last_chunk=True)
        self.text = TOKENS[0]
        await self.tokens(updater, TOKENS[1:], first=True)
        await updater.complete()

    async def pause_between(self, updater):
        await self.tokens(updater, HALF, "a", last=True)
        await pause(0.7)  # longer than the SDK's own queues wait
        await self.tokens(updater, TOKENS[len(HALF) :], "b", last=True)
        await updater.complete()

    async def new_id_each(self, updater):
        """Each piece is an artifact of its own."""
        for text in TOKENS:
            self.text += text
            await updater.add_artifact([text_part(text)], str(uuid.uuid4()), "streaming_result")
        await updater.complete()

    new_ids = new_id_each

    async def terminal_twice(self, updater):
        await self.tokens(updater)
        await self.state(TaskState.completed, final=False)
        await self.state(TaskState.failed, final=True)

    async def completed_not_final(self, updater):
        await self.tokens(updater)
        await self.state(TaskState.completed, final=False)

    async def working_final(self, updater):
        await self.tokens(updater)
        await self.state(TaskState.working, final=True)

    async def no_terminal(self, updater):
        await self.tokens(updater)

    async def error_completed(self, updater):
        await updater.add_artifact([text_part("no access to the cluster")], "e", "error_result", last_chunk=True)
        await updater.complete()

    async def heartbeat(self, updater):
        for text in TOKENS:
            await updater.start_work()
            await self.says(updater, "still working…")
            await self.tokens(updater, [text], first=bool(self.text))
        await updater.complete()

    async def crash(self, updater):
        await self.tokens(updater, HALF)
        raise RuntimeError("token=s3cret")

    async def cancel_ignored(self, updater):
        await self.tokens(updater, HALF)
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()


def card(options, url):
    """The card as the SDK writes it, or as agents of 0.2 did."""
    said = AgentCard(
        name="old",
        description="An agent of A2A 0.3.",
        version="1",
        url=options.url if options.url is not None else f"{url}/",
        capabilities=AgentCapabilities(streaming=not options.whole),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="test", name="test", description="Does what it is told.", tags=["test"])],
    )
    shown = said.model_dump(mode="json", by_alias=True, exclude_none=True)
    if options.card == "0.2":
        for field in ("protocolVersion", "preferredTransport"):
            shown.pop(field, None)
    return said, shown


def build(options, url):
    """The agent as an ASGI app."""
    agent = Agent(options.mode, options.rate)
    said, shown = card(options, url)
    app = A2AStarletteApplication(said, DefaultRequestHandler(agent, InMemoryTaskStore())).build()

    async def sent(_request):
        return JSONResponse({"requests": len(agent.requests), "cancels": agent.cancels, "text": agent.text})

    async def shows(_request):
        return JSONResponse(shown)

    place = "/.well-known/agent.json" if options.card == "0.2" else "/.well-known/agent-card.json"
    rest = [route for route in app.routes if not route.path.startswith("/.well-known/")]
    app.router.routes = [Route("/sent", sent), Route(place, shows), *rest]
    return app


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="ok")
    parser.add_argument("--rate", type=float, default=200.0, help="pieces a second (0: no pace)")
    parser.add_argument("--card", choices=["0.2", "0.3"], default="0.3", help="as which version its card looks")
    parser.add_argument("--url", help="what its card says its address is")
    parser.add_argument("--whole", action="store_true", help="its card says that it does not stream")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = build(options, url)
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
