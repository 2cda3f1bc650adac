"""A client that loses its connection and comes back: no piece of the text is lost or repeated.

In one terminal `python examples/coming_back.py`, in another `python examples/coming_back.py http://127.0.0.1:8000`.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import Generator
from contextlib import closing
from itertools import islice
from urllib.request import Request, urlopen

import anabranch


async def count(request):
    for number in range(10):
        yield f"{number} "
        await asyncio.sleep(0.3)


app = anabranch.App({"count": count})


def pieces(request: Request) -> Generator[tuple[str, str], None, None]:
    """Each piece of text in an answer, as it comes, with the cursor of its frame."""
    with urlopen(request) as answer:
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                cursor = value
            elif name == "data" and (event := json.loads(value))["type"] == "TEXT_MESSAGE_CONTENT":
                yield cursor, event["delta"]


def read(url: str) -> str:
    """Start a run, leave after the second piece, come back for the rest; the text of both connections."""
    run_id = uuid.uuid4().hex
    question = {"id": uuid.uuid4().hex, "role": "user", "content": "count"}
    asked = {"threadId": uuid.uuid4().hex, "runId": run_id, "protocolVersion": "1.0", "messages": [question]}
    start = Request(f"{url}/agui", json.dumps(asked).encode(), {"content-type": "application/json"})
    with closing(pieces(start)) as first:
        got = list(islice(first, 2))
    # The connection is closed, and the run goes on.
    last, _ = got[-1]
    got += pieces(Request(f"{url}/runs/{run_id}/agui?protocolVersion=1.0", headers={"last-event-id": last}))
    return "".join(piece for _, piece in got)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(read(sys.argv[1]))
    else:
        app.run(port=8000)
