"""What these clients send. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ....events import Interrupted
from ....request import RunRequest
from .. import messages, wire
from ..checks import checked_context_id
from .form import answers


def sent(given: wire.SendMessage) -> messages.Sent:
    """``messages.sent``; the conversation is what ``context_id`` in the metadata says, before ``contextId``.

    ``user_email`` beside it is for the agent to read: who asks is known by the credentials alone.
    """
    found = messages.sent(given)
    said = given.message.metadata if given.message else None
    if not said or said.get("context_id") is None:
        return found
    return replace(found, context_id=checked_context_id(said["context_id"], "message.metadata.context_id"))


def resumed(request: RunRequest, asked: Mapping[str, Interrupted]) -> RunRequest:
    """``request`` with its answers in the forms that these clients send; ``asked`` are the open questions.

    Raises ``ClientError`` when it does not answer all of them.
    """
    open_ = [asked[answer.interrupt_id] for answer in request.resume if answer.interrupt_id in asked]
    given = answers(request.messages[-1], open_)
    return replace(
        request,
        resume=tuple(replace(each, payload=given.get(each.interrupt_id, each.payload)) for each in request.resume),
    )
