"""A2A 1.0 results become events. Pure.

An item is the ``data`` of one server-sent event, or the body of a plain answer: one JSON-RPC response, as bytes, so
that a recorded stream can be translated again. Events are the remote's own: its agent is the root.

How each thing is shown (which text is new is decided in ``_shown``):

| the agent sends | what becomes of it |
|---|---|
| an artifact's text | a message, phase ``answer``; ``lastChunk`` ends that message and not the run |
| the text of a status that goes on | one message for all of it, phase ``undetermined`` until it is known |
| such a text marked as a tool notification | a message of its own, phase ``progress`` |
| a message, or the text of ``COMPLETED`` | a message, phase ``answer`` |
| data, a file, a URL | ``PartAdded`` on the message of its artifact or message |
| the user's message, the history of a task | nothing |
| ``COMPLETED`` / ``CANCELED`` | ``RunFinished`` success / cancelled; text or no text |
| ``FAILED`` / ``REJECTED`` | ``RunFailed`` ``agent_failed`` / ``agent_rejected`` with the agent's own words |
| ``INPUT_REQUIRED`` / ``AUTH_REQUIRED`` | ``Interrupted`` and ``RunFinished`` interrupted |
| a JSON-RPC error | ``RunFailed``: ``agent_protocol`` when it is about the request, else ``agent_failed`` |
| only a message, then the end | ``RunFinished`` success (specification 3.1.2: a stream of exactly one message) |
| the end, and no end was announced | ``RunFailed`` ``no_end`` |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET

from ... import events as ev
from ...errors import SourceError, scrub
from . import _wire as wire
from ._shown import Shown

_BAD_REQUEST = frozenset({-32700, -32600, -32601, -32602, -32004, -32005, -32009})
"""JSON-RPC and A2A error codes (specification 5.4) that blame the request and not the agent's work."""


class A2ATranslator:
    """Translates the items of one request to one remote agent, called ``name`` in messages to users."""

    def __init__(self, name: str = "") -> None:
        self._who = f"The agent {name}" if name else "The agent"
        self._shown = Shown()
        self._task_id = self._context_id = ""
        self._answered = self._worked = False  # a message came; anything of a task came
        self._ended = False

    @property
    def text(self) -> str:
        """The text of the answer so far: exactly what was sent, nothing between its pieces."""
        return self._shown.text

    @property
    def parts(self) -> tuple[ev.Part, ...]:
        """What the answer holds besides text, so far."""
        return self._shown.parts

    @property
    def remote(self) -> ev.Remote:
        """The remote task and context, as soon as they are known."""
        return ev.Remote(task_id=self._task_id, context_id=self._context_id)

    def feed(self, item: bytes) -> Iterable[ev.Event]:
        """The events of one JSON-RPC response. What cannot be read ends the run as ``agent_protocol``."""
        if self._ended:
            return ()
        try:
            response = wire.decode(item)
        except SourceError as error:
            return self._failed(error.code, str(error))
        result = response.result
        if result is None:
            return self._refused(response.error)
        if not self._context_id:
            self._locate(result)
        if result.message is not None:
            return self._message(result.message)
        self._worked = True
        if result.artifact_update is not None:
            return self._artifact(result.artifact_update)
        if result.status_update is not None:
            return self._status(result.status_update.status, result.status_update.metadata)
        if result.task is not None:
            return self._task(result.task)
        return self._failed("agent_protocol", f"{self._who} sent a result that A2A {wire.VERSION} does not know.")

    def close(self, error: BaseException | None) -> Iterable[ev.Event]:
        """The end of the stream. What broke it, if anything, is for the grammar to say; partial text stays."""
        if self._ended or error is not None:
            return ()
        if self._answered and not self._worked:
            return self._finished("success")
        what = "before its task did" if self._worked else "without an answer"
        return self._failed("no_end", f"{self._who}'s stream ended {what}.")

    # --- what can come -----------------------------------------------------------------------------------------

    def _locate(self, result: wire.Result) -> None:
        task_id, context_id = wire.place(result)
        self._task_id, self._context_id = self._task_id or task_id, self._context_id or context_id

    def _task(self, task: wire.Task) -> list[ev.Event]:
        out: list[ev.Event] = []
        for artifact in task.artifacts or ():
            text, parts = _content(artifact.parts)
            out += self._shown.artifact(artifact.artifact_id or "", artifact.name or "", text, parts, snapshot=True)
        return out + self._status(task.status, snapshot=True)

    def _artifact(self, update: wire.ArtifactUpdate) -> list[ev.Event]:
        artifact = update.artifact or wire.Artifact()
        text, parts = _content(artifact.parts)
        append, last = bool(update.append), bool(update.last_chunk)
        return self._shown.artifact(artifact.artifact_id or "", artifact.name or "", text, parts, append, last)

    def _message(self, message: wire.Message) -> list[ev.Event]:
        if _is_users(message):
            return []
        self._answered = True
        return self._shown.message(message.message_id or "", *_content(message.parts))

    def _status(self, status: wire.Status | None, metadata: object = None, snapshot: bool = False) -> list[ev.Event]:
        if status is None:
            return []
        said = status.message if status.message is not None and not _is_users(status.message) else wire.Message()
        id, (text, parts) = said.message_id or "", _content(said.parts)
        match wire.end(status):
            case None if isinstance(metadata, dict) and metadata.get("tool_notification"):
                return self._shown.aside(id, text, parts)
            case None:
                return self._shown.status(id, text, parts, snapshot)
            case "completed":
                return [*self._shown.message(id, text, parts, last=True), *self._finished("success")]
            case "canceled":
                return [*self._shown.aside(id, text, parts), *self._finished("cancelled")]
            case "failed":
                return self._failed("agent_failed", text or f"{self._who} failed and did not say why.")
            case "rejected":
                return self._failed("agent_rejected", text or f"{self._who} refused the task and did not say why.")
            case reason:
                return self._interrupted(reason, id, text, parts)

    def _refused(self, error: wire.Error | None) -> list[ev.Event]:
        if error is None:
            return self._failed("agent_protocol", f"{self._who} sent a response with neither a result nor an error.")
        code = "agent_protocol" if error.code in _BAD_REQUEST else "agent_failed"
        return self._failed(code, f"{self._who} answered with error {error.code}: {error.message or 'no message'}")

    # --- how it ends -------------------------------------------------------------------------------------------

    def _interrupted(self, reason: str, id: str, text: str, parts: list[ev.Part]) -> list[ev.Event]:
        data = [part.data for part in parts if part.kind == "json"]
        asked = ev.Interrupted(
            interrupt_id=id or self._task_id or reason,
            reason=reason,
            message=text or None,
            remote=self.remote,
            metadata={"data": data} if data else None,
        )
        return [asked, *self._finished("interrupted")]

    def _finished(self, outcome: Literal["success", "interrupted", "cancelled"]) -> list[ev.Event]:
        self._ended = True
        return [*self._shown.finish(), ev.RunFinished(outcome=outcome)]

    def _failed(self, code: str, message: str) -> list[ev.Event]:
        self._ended = True
        return [ev.RunFailed(code=code, message=scrub(message))]


def _is_users(message: wire.Message) -> bool:
    return message.role == "ROLE_USER"


def _content(parts: list[wire.Part] | None) -> tuple[str, list[ev.Part]]:
    """The text of ``parts`` and the other parts, each in order."""
    if not parts:
        return "", []
    if len(parts) == 1 and parts[0].text is not None:
        return parts[0].text, []
    text = "".join([part.text for part in parts if part.text is not None])
    return text, [_part(part) for part in parts if part.text is None]


def _part(part: wire.Part) -> ev.Part:
    kind, name = part.media_type or "", part.filename or ""
    if part.url is not None:
        return ev.Part(kind="file", url=part.url, mime_type=kind, name=name)
    if part.raw is not None:
        return ev.Part(kind="file", url=f"data:{kind};base64,{part.raw}", mime_type=kind, name=name)
    return ev.Part(kind="json", data=None if part.data is UNSET else part.data, mime_type=kind, name=name)
