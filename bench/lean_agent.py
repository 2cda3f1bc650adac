"""A remote A2A 1.0 agent on bare asyncio: ``python -m bench.lean_agent``. It costs a fraction of what it loads.

An answer announces its task and then waits for ``POST /go``, which starts all that wait at once, evenly out of step.
``GET /held`` says how many do.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import Any

import msgspec

from anabranch.demo._process import announce, command_line, end_with_parent
from anabranch.serve import tune_gc

from .workload import Command, parse, until

_CARD = "/.well-known/agent-card.json"
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class _Agent:
    def __init__(self) -> None:
        self.url = ""
        self._held: list[tuple[asyncio.Future[int], int]] = []
        self._numbers = itertools.count(1)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                method, path, _ = head.split(" ", 2)
                _, named, after = head.partition("content-length:")
                body = await reader.readexactly(int(after.split("\r\n", 1)[0])) if named else b""
                if method == "post" and path == "/":
                    await self._rpc(json.loads(body), writer)
                else:
                    _answer(writer, self._plain(method, path))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _plain(self, method: str, path: str) -> Any:
        if path == _CARD:
            interface = {"url": f"{self.url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            skill = {"id": "say", "name": "say", "description": "Says numbered tokens.", "tags": ["bench"]}
            modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [skill]}
            about = {"name": "bench", "description": "Says numbered tokens.", "version": "1"}
            return {**about, "supportedInterfaces": [interface], "capabilities": {"streaming": True}, **modes}
        held, began_ns = len(self._held), time.monotonic_ns() + 10_000_000
        if method == "post" and path == "/go":
            for n, (waiting, gap_ns) in enumerate(self._held):
                waiting.set_result(began_ns + n * gap_ns // held)
            self._held.clear()
        return {"held": held}

    async def _rpc(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        rpc = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] != "SendStreamingMessage":
            _answer(writer, {**rpc, "error": {"code": -32004, "message": "This agent only streams."}})
            return
        number = next(self._numbers)
        ids = {"taskId": f"task-{number}", "contextId": f"context-{number}"}
        writer.write(_STREAM_HEAD)
        task = {"id": ids["taskId"], "contextId": ids["contextId"], "status": {"state": "TASK_STATE_SUBMITTED"}}
        for result in ({"task": task}, _status(ids, "WORKING")):
            writer.write(_chunk(msgspec.json.encode({**rpc, "result": result})))
        await self._say(parse(request["params"]["message"]["parts"][0]["text"]), rpc, ids, writer)
        writer.write(_chunk(msgspec.json.encode({**rpc, "result": _status(ids, "COMPLETED")})) + b"0\r\n\r\n")

    async def _say(
        self, command: Command, rpc: dict[str, Any], ids: dict[str, str], writer: asyncio.StreamWriter
    ) -> None:
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        gap_ns = int(1e9 / command.rate)
        self._held.append((waiting, gap_ns))
        began_ns = await waiting
        artifact = {"artifactId": "answer", "parts": [{"text": "%b"}]}
        update = {"artifactUpdate": {**ids, "artifact": artifact, "append": True}}
        frame = msgspec.json.encode({**rpc, "result": update}).replace(b'"append":true', b'"append":%b')
        for k in range(command.tokens):
            due_ns = began_ns + k * gap_ns
            await until(due_ns)
            text = b"k=%d;t=%d; " % (k, due_ns)
            writer.write(_chunk(frame % (text, b"true" if k else b"false")))


def _status(ids: dict[str, str], state: str) -> dict[str, Any]:
    return {"statusUpdate": {**ids, "status": {"state": f"TASK_STATE_{state}"}}}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\ndata: %b\r\n\r\n\r\n" % (len(data) + 10, data)


def _answer(writer: asyncio.StreamWriter, value: Any) -> None:
    body = msgspec.json.encode(value)
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )


async def _serve(port: int) -> None:
    agent = _Agent()
    server = await asyncio.start_server(agent.connected, "127.0.0.1", port, backlog=1024)
    agent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    tune_gc()
    announce(agent.url)
    await server.serve_forever()


def main() -> None:
    """Serve until the parent ends."""
    options = command_line(__doc__ or "").parse_args()
    end_with_parent(options)
    try:
        import uvloop

        uvloop.run(_serve(options.port))
    except ImportError:
        asyncio.run(_serve(options.port))


if __name__ == "__main__":
    main()
