"""The JSON of a RunAgentInput, as far as it is read. Nothing is required here that only some clients send.

Fields that clients send and we have no use for are not named, and so ignored.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Input(msgspec.Struct, rename="camel"):
    """The body. Its ids are checked by ``parse``, which says more about them."""

    thread_id: Any = None
    run_id: Any = None
    parent_run_id: Any = None
    protocol_version: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[Tool] | None = None
    context: list[dict[str, Any]] | None = None
    state: Any = None
    forwarded_props: Any = None
    resume: list[Answer] | None = None


class Tool(msgspec.Struct):
    """A tool that the client executes."""

    name: str
    description: str | None = None
    parameters: Any = None


class Answer(msgspec.Struct, rename="camel"):
    """The answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class Function(msgspec.Struct):
    """What a tool call calls; ``arguments`` is JSON text."""

    name: str
    arguments: str


class Call(msgspec.Struct):
    """A tool call of an assistant message."""

    id: str
    function: Function
    metadata: dict[str, Any] | None = None


class Source(msgspec.Struct, rename="camel"):
    """Where the bytes of a medium are: inline in base64, at a URL, or at a provider under its handle."""

    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None
    provider: str | None = None


class Text(msgspec.Struct, tag="text"):
    """A text part."""

    text: str


class Media(msgspec.Struct):
    """What every medium has."""

    source: Source
    metadata: Any = None


class Image(Media, tag="image"):
    """An image part."""


class Audio(Media, tag="audio"):
    """An audio part."""


class Video(Media, tag="video"):
    """A video part."""


class Document(Media, tag="document"):
    """A document part."""


class Binary(msgspec.Struct, tag="binary", rename="camel"):
    """The medium of clients before 1.0."""

    mime_type: str
    id: str | None = None
    url: str | None = None
    data: str | None = None
    filename: str | None = None


Part = Text | Image | Audio | Video | Document | Binary


class Message(msgspec.Struct, rename="camel"):
    """A message of any role that a model may read."""

    id: str
    role: str
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    error: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None
