"""The client of the official SDK of A2A 0.3 (0.3.26) against a server with the agents ``count`` and ``stage``.

It runs in an environment of its own (``tests.environments``), so it imports nothing of ours. What it saw is one line
of JSON.

    python tests/agents/old_client.py URL JSONRPC
"""

import asyncio
import json
import sys
from typing import Any

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TaskIdParams, TaskQueryParams, TextPart


def message(id: str, **more: Any) -> Message:
    return Message(message_id=id, role=Role.user, parts=[Part(root=TextPart(text="go"))], **more)


def text_of(task: Any) -> str:
    parts = [part.root for artifact in task.artifacts or () for part in artifact.parts]
    return "".join(getattr(part, "text", "") for part in parts)


def shown(task: Any) -> dict[str, Any]:
    return {"state": task.status.state.value, "text": text_of(task), "id": task.id}


async def main(url: str, transport: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    async with httpx.AsyncClient(timeout=10) as http:

        async def client(agent: str, streaming: bool = True) -> Any:
            config = ClientConfig(streaming=streaming, httpx_client=http, supported_transports=[transport])
            return await ClientFactory.connect(f"{url}/a2a/{agent}", client_config=config)

        count = await client("count")
        async for task, _ in count.send_message(message("streamed")):
            out["streamed"] = shown(task)
        got = await count.get_task(TaskQueryParams(id=out["streamed"]["id"]))
        out["got"], out["history"] = shown(got), [said.message_id for said in got.history]
        async for task, _ in (await client("count", streaming=False)).send_message(message("sent")):
            out["sent"] = shown(task)
        try:
            await count.get_task(TaskQueryParams(id="unknown"))
        except Exception as error:
            out["unknown"] = str(error)
        out["cancelled"] = await cancelled(await client("stage"))
    return out


async def cancelled(stage: Any) -> list[dict[str, Any]]:
    """The ends that a stream, a subscription and the one who cancels see."""

    async def subscribed(task_id: str) -> Any:
        last = None
        async for task, _ in stage.resubscribe(TaskIdParams(id=task_id)):
            last = shown(task)
            here.set()
        return last

    here, other, end, last = asyncio.Event(), None, None, None
    async for task, _ in stage.send_message(message("to cancel")):
        last = shown(task)
        if other is None and text_of(task):
            other = asyncio.create_task(subscribed(task.id))
            await here.wait()
            end = shown(await stage.cancel_task(TaskIdParams(id=task.id)))
    return [last, await other, end]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:]))))
