"""One conversation in four requests: what is new, the whole copy, an edit, and the answer again.

In one terminal `python examples/threads.py`, in another `python examples/threads.py http://127.0.0.1:8000`.
"""

import json
import sys
import uuid
from urllib.request import Request, urlopen

import anabranch


async def recall(request):
    said = [message.content for message in request.messages if message.role == "user"]
    yield f"You said {', then '.join(said)}."


app = anabranch.App({"recall": recall})


def ask(url: str, thread_id: str, *messages: dict) -> None:
    """Run one turn to its end."""
    asked = {"threadId": thread_id, "runId": uuid.uuid4().hex, "protocolVersion": "1.0", "messages": messages}
    with urlopen(Request(f"{url}/agui", json.dumps(asked).encode(), {"content-type": "application/json"})) as answer:
        answer.read()


def talk(url: str) -> list[str]:
    """The last message of the thread after each request."""
    thread_id, heard = uuid.uuid4().hex, []

    def turn(*messages: dict) -> list[dict]:
        ask(url, thread_id, *messages)
        with urlopen(f"{url}/threads/{thread_id}") as answer:
            history = json.load(answer)["messages"]
        heard.append(history[-1]["content"])
        return history

    one = {"id": "1", "role": "user", "content": "one"}
    two = {"id": "2", "role": "user", "content": "two"}
    history = turn(one)
    turn(*history, two)  # turn(two) means the same
    turn({**one, "content": "uno"})  # an edit: a branch of its own, beside the other two
    turn({**one, "content": "uno"})  # nothing new: the same question is answered again
    return heard


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print("\n".join(talk(sys.argv[1])))
    else:
        app.run(port=8000)
