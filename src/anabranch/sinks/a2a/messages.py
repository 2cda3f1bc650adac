"""A message of a client, to the run that it asks for. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ...events import Part
from ...request import Message, Resume, RunRequest
from . import wire
from .checks import ID_LIMIT, LONG_ID, bad, checked_context_id, checked_id, refuse, shown

_CONTENTS = ("text", "raw", "url")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*")


class Sent(msgspec.Struct, frozen=True):
    """A message, checked."""

    run_id: str
    message: Message
    task_id: str | None
    context_id: str | None
    options: dict[str, Any] | None
    at_once: bool
    """Whether the client does not wait for the end."""
    history_length: int | None

    def request(self, context_id: str | None = None, questions: Sequence[str] = ()) -> RunRequest:
        """The run that the message asks for, in its context or the one of its task: ``context_id``.

        There it answers the ``questions``, all in the same way: with its data if it has some, else with its text.
        """
        # The same message again, without a context, belongs to the same one.
        derived = hashlib.sha256(b"context of " + self.run_id.encode()).hexdigest()[:32]
        data = [part.data for part in self.message.parts if part.kind == "json"]
        texts = self.message.content or "".join(part.text for part in self.message.parts)
        payload = data[0] if data else texts
        return RunRequest(
            run_id=self.run_id,
            thread_id=context_id or self.context_id or derived,
            messages=(replace(self.message, is_answer=bool(questions)),),
            resume=tuple(Resume(interrupt_id=question, payload=payload) for question in questions),
            options=self.options,
        )


def sent(given: wire.SendMessage) -> Sent:
    """The message of a SendMessage. Raises ``ClientError``."""
    said, wanted = given.message, given.configuration or wire.Configuration()
    if said is None:
        bad("message", "it is missing")
    if wanted.task_push_notification_config is not None:
        refuse("push notifications are not served: stream, or subscribe to the task", "push_unsupported")
    id = checked_id(said.message_id, "message.messageId", LONG_ID)
    if said.role != wire.USER:
        bad("message.role", f"it is {shown(said.role)}; a client sends {wire.USER} (in 0.3: user)")
    if not said.parts:
        bad("message.parts", "it is missing or empty; send at least one part")
    parts = tuple(_part(part, f"message.parts[{number}]") for number, part in enumerate(said.parts))
    alone = parts[0].text if len(parts) == 1 and parts[0] == Part(kind="text", text=parts[0].text) else ""
    return Sent(
        run_id=run_id(id),
        message=Message(id=id, role="user", content=alone, parts=() if alone else parts),
        task_id=None if not said.task_id else checked_id(said.task_id, "message.taskId", LONG_ID),
        context_id=None if not said.context_id else checked_context_id(said.context_id, "message.contextId"),
        options=(given.metadata or {}) | (said.metadata or {}) or None,
        at_once=bool(wanted.return_immediately),
        history_length=wanted.history_length,
    )


def run_id(message_id: str) -> str:
    """The run that answers the message: the message again finds it."""
    plain = f"a2a:{message_id}"
    if len(plain) <= ID_LIMIT and plain.isprintable() and message_id == message_id.strip():
        return plain
    return f"a2a:{hashlib.sha256(message_id.encode()).hexdigest()}"


def _part(said: wire.Part, path: str) -> Part:
    found = [name for name in _CONTENTS if getattr(said, name) is not None]
    if said.data not in (None, msgspec.UNSET) or (said.data is None and not found):
        found.append("data")
    if len(found) != 1:
        bad(path, "send exactly one of text, raw, url and data")
    media, name = said.media_type or "", said.filename or ""
    if re.search(r"[\s,]", media):
        bad(f"{path}.mediaType", f"it is {shown(media)}; send a media type")
    if said.text is not None:
        return Part(kind="text", text=said.text, mime_type=media, name=name)
    if said.raw is not None:
        media = media or "application/octet-stream"
        return Part(kind="file", url=f"data:{media};base64,{_raw(said.raw, path)}", mime_type=media, name=name)
    if said.url is not None:
        return Part(kind="file", url=said.url, mime_type=media, name=name)
    return Part(kind="json", data=said.data, mime_type=media, name=name)


def _raw(data: str, path: str) -> str:
    """Bytes in the JSON of protocol buffers: both alphabets of base64, with padding or without."""
    plain = data.rstrip("=").replace("-", "+").replace("_", "/")
    if not _BASE64.fullmatch(plain) or len(plain) % 4 == 1:
        bad(f"{path}.raw", "it is not base64")
    return base64.b64encode(base64.b64decode(plain + "=" * (-len(plain) % 4))).decode()
