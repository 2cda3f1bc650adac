"""A conversation with everything in it that a conversation may have."""

from anabranch.events import Part
from anabranch.request import Message, ToolCall

HISTORY = (
    Message(id="h1", role="system", content="Be brief."),
    Message(id="h2", role="developer", content="No jokes."),
    Message(id="h3", role="user", content="Is it up?", name="Ann"),
    Message(
        id="run-0:1",
        role="assistant",
        content="I look.",
        tool_calls=(ToolCall(id="run-0:2", name="ask_komodor", arguments='{"q":"up?"}'),),
    ),
    Message(id="run-0:5", role="tool", content="The pods are gone.", tool_call_id="run-0:2", error="gone"),
    Message(id="run-0:4", role="assistant", content="The pods are gone.", name="komodor", agent="run-0:3"),
    Message(id="run-0:6", role="assistant", content="No."),
    Message(
        id="h4",
        role="user",
        parts=(
            Part(kind="text", text="And this?"),
            Part(kind="file", url="https://x.test/a.png", mime_type="image/png", name="a.png"),
            Part(kind="file", url="data:application/pdf;base64,AAAA", mime_type="application/pdf"),
            Part(kind="file", url="https://x.test/b", mime_type="audio/*"),
        ),
    ),
)
"""As ``parse`` reads it: what came from a client may go back to it."""

HANDLE = Message(
    id="h5",
    role="user",
    parts=(Part(kind="file", data={"file": "f-1", "provider": "p"}, mime_type="application/pdf"),),
)
"""A file that only its provider has."""
