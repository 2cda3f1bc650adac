"""An agent that asks before it acts, and an A2A client that answers: one task, in two requests.

In one terminal `python examples/a2a.py`, in another `python examples/a2a.py http://127.0.0.1:8000`.
"""

import json
import sys
import uuid
from urllib.request import Request, urlopen

import anabranch
from anabranch.events import Interrupted


async def restart(request):
    if not request.resume:
        yield "Looking at the cluster. "
        yield Interrupted(interrupt_id="sure", reason="confirm", message="Restart 3 pods?")
    elif request.resume[0].payload == "yes":
        yield "Restarted."
    else:
        yield "Nothing was done."


app = anabranch.App({"restart": restart})


def say(url: str, text: str, **more: str) -> tuple[dict, str]:
    """Send a message and read its stream to the end: the last status, and the text on the way."""
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **more}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    answer, status = "", {}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as frames:
        for line in frames:
            name, _, value = line.decode().partition(": ")
            if name == "data":
                event = json.loads(value)["result"]
                if "artifactUpdate" in event:
                    answer += "".join(part.get("text", "") for part in event["artifactUpdate"]["artifact"]["parts"])
                else:
                    status = event.get("statusUpdate") or event["task"]
    return status, answer


def talk(url: str) -> list[str]:
    """What the agent says, asks, and says to the answer."""
    status, said = say(url, "restart the pods")
    assert status["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    question = status["status"]["message"]["parts"][0]["text"]
    _, done = say(url, "yes", taskId=status["taskId"])
    return [said, question, done]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*talk(sys.argv[1]), sep="\n")
    else:
        app.run(port=8000)
