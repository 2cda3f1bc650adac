"""What a run is asked to do, in no protocol's words. Pure.

A sink's ``parse`` makes a ``RunRequest`` of its protocol's body; a source reads it. Nothing of a protocol or a
framework passes between them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .events import Part, Remote


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call in a conversation's history. ``arguments`` is JSON text.

    ``origin_id`` is what the model that made the call named it, as far as the server saw it; ``id`` is what clients
    know it by.
    """

    id: str
    name: str
    arguments: str = ""
    origin_id: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation.

    ``agent`` is ``""`` unless a sub-agent wrote it; such messages are shown to users and not to the root agent's model.
    A ``tool`` message answers ``tool_call_id``; ``error`` is the error's text when the tool failed. ``is_answer`` is
    for a user's message that answers what the agent asked: the agent gets it as ``RunRequest.resume``.
    """

    id: str
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str = ""
    parts: tuple[Part, ...] = ()
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    error: str | None = None
    agent: str = ""
    is_answer: bool = False


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the client offers to execute. ``parameters`` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Any = None


class Resume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one interrupt of an earlier run."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question that a run left open. ``origin_id`` is what its source calls it.

    ``agent`` is the invocation that asks and ``name`` what it is called, ``call_id`` the tool call of the root agent
    that it works for, as its source calls it. ``remote`` is the task that waits for the answer.
    """

    interrupt_id: str
    origin_id: str = ""
    agent: str = ""
    name: str = ""
    call_id: str = ""
    reason: str = ""
    message: str = ""
    schema: Any = None
    remote: Remote | None = None


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a source is given. ``run_id`` and ``thread_id`` are the caller's when it named them.

    A sink fills in what the caller sent. The middle then makes ``messages`` the whole conversation, as the server knows
    it, and sets ``news``, ``memory_key``, ``asked``, ``contexts`` and the source's own ids in ``resume``.
    """

    run_id: str
    thread_id: str
    messages: tuple[Message, ...] = ()
    news: int | None = None
    """How many of ``messages``, the last ones, this run adds to the conversation. None: nobody has compared them."""
    tools: tuple[ToolSpec, ...] = ()
    state: Any = None
    context: tuple[dict[str, Any], ...] = ()
    resume: tuple[Resume, ...] = ()
    asked: tuple[Asked, ...] = ()
    """The questions that are open when ``resume`` answers some of them."""
    contexts: dict[str, str] = {}
    """In which context remote agents, by name, spoke in this conversation; ``""`` is the agent of the run itself."""
    options: Any = None
    """What the protocol lets a caller pass through unread (AG-UI ``forwardedProps``)."""
    parent_run_id: str | None = None
    dialect: str = ""
    """How whoever starts the run reads it, in the words of its sink; so does who attaches and says nothing else."""
    memory_key: str = ""
    """Names the conversation for what a source keeps of it. Two callers may use one ``thread_id`` for different
    threads, and each branch of a thread (an edited or shortened conversation) is another conversation."""

    def last_user_parts(self) -> list[Part]:
        """What the newest user message has besides text."""
        newest = next((message for message in reversed(self.messages) if message.role == "user"), None)
        return [part for part in newest.parts if part.kind != "text"] if newest is not None else []

    def last_user_text(self) -> str:
        """The text of the newest user message, ``""`` when there is none."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.content or "".join(part.text for part in message.parts)
        return ""
