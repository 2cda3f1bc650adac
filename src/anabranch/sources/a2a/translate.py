"""A2A results become events, those of 1.0 and of the versions before it. Pure.

An item is the ``data`` of one server-sent event, or the body of a plain answer: one JSON-RPC response, as bytes, so
that a recorded stream can be translated again. Events are the remote's own: its agent is the root. Which version the
agent speaks shows in its first result.

When a stream ended too early, the source asks what has become of the task; the answer is an item, too
(``_wire.looked_up``). What it says beyond what was shown goes on from there. When it does not continue what was shown,
the run ends as ``agent_disconnected``: better no text than a wrong one.

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
| ``COMPLETED`` after an artifact that holds an error | ``RunFailed`` ``agent_failed`` with its text |
| ``FAILED`` / ``REJECTED`` | ``RunFailed`` ``agent_failed`` / ``agent_rejected`` with the agent's own words |
| ``INPUT_REQUIRED`` / ``AUTH_REQUIRED`` | ``Interrupted`` and ``RunFinished`` interrupted |
| a JSON-RPC error | ``RunFailed``: ``cycle``, ``agent_protocol`` when it is about the request, else ``agent_failed`` |
| only a message, then the end | ``RunFinished`` success (specification 3.1.2: a stream of exactly one message) |
| the end, and no end was announced | ``RunFailed`` ``no_end`` |

An agent of our own kind notes which failures are ``retryable``; so is the run's then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET

from ... import events as ev
from ...errors import SourceError, scrub
from . import _legacy as legacy
from . import _wire as wire
from ._shown import Shown

_BAD_REQUEST = frozenset({-32700, -32600, -32601, -32602, -32004, -32005, -32009})
"""JSON-RPC and A2A error codes (specification 5.4) that blame the request and not the agent's work."""


_NOTHING = wire.Result()


class A2ATranslator:
    """Translates the items of one request to one remote agent, called ``name`` in messages to users."""

    def __init__(self, name: str = "") -> None:
        self._who = f"The agent {name}" if name else "The agent"
        self._shown = Shown()
        self._task_id = self._context_id = ""
        self._answered = self._worked = False  # a message came; anything of a task came
        self._ended = False
        self._decode = wire.decode
        self._said: list[tuple[str, str]] = []  # id and text of each status so far, as the task's history will have it
        self._behind = False  # our last look at the task did not have all that was shown: nothing can go on from it
        self._goes_on = False  # the task may be told first as it was when it asked
        self._aside = False  # one of them was a tool notification, which no history tells

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
        if earlier := wire.told_before(item):
            known = [event for event in self.feed(earlier) if isinstance(event, ev.RemoteKnown)]
            self.go_on()
            return known
        try:
            response = self._decode(item)
        except SourceError as error:
            return self._failed(error.code, f"{self._who} sent something that is not a JSON-RPC response.")
        return self.read(response, item)

    @property
    def is_legacy(self) -> bool:
        """Whether the agent speaks an older version than 1.0, as far as it has shown."""
        return self._decode is legacy.decode

    def read(self, response: wire.Response, item: bytes) -> Iterable[ev.Event]:
        """The events of a response that was decoded already."""
        result = response.result
        if self._ended:
            return ()
        if result is None:
            return self._looked(response.look) if response.look is not None else self._refused(response.error)
        if self._behind:
            return self._cut_off()
        if self._goes_on and result.task is None and result != _NOTHING:
            self._goes_on = False
        known = () if self._context_id else self._located(result)
        if result.artifact_update is not None:
            self._worked = True
            events: Iterable[ev.Event] = self._artifact(result.artifact_update)
        else:
            events = self._other(result) if result != _NOTHING else self._older(item)
        return (*known, *events) if known else events

    def go_on(self) -> None:
        """The task goes on with the user's answer: another request, of which what was shown before stays known."""
        self._shown.go_on()
        self._ended = self._answered = self._worked = self._behind = False
        self._goes_on = True

    def close(self, error: BaseException | None) -> Iterable[ev.Event]:
        """The end of the stream. What broke it, if anything, is for the grammar to say; partial text stays."""
        if self._ended or error is not None:
            return ()
        if self._answered and not self._worked:
            return self._finished("success")
        what = "before its task did" if self._worked else "without an answer"
        return self._failed("no_end", f"{self._who}'s stream ended {what}.")

    # --- what can come -----------------------------------------------------------------------------------------

    def _located(self, result: wire.Result) -> tuple[ev.Event, ...]:
        before, (task_id, context_id) = self.remote, wire.place(result)
        self._task_id, self._context_id = self._task_id or task_id, self._context_id or context_id
        return (ev.RemoteKnown(remote=self.remote),) if self.remote != before else ()

    def _other(self, result: wire.Result) -> Iterable[ev.Event]:
        if result.message is not None:
            return self._message(result.message)
        self._worked = True
        if result.status_update is not None:
            return self._status(result.status_update.status, result.status_update.metadata)
        return self._task(result.task or wire.Task())

    def _older(self, item: bytes) -> Iterable[ev.Event]:
        """An item that its version does not know: is it of an older one?"""
        if self._decode is legacy.decode:
            return self._failed("agent_protocol", f"{self._who} sent a result that A2A does not know.")
        self._decode = legacy.decode
        return self.feed(item)

    def _task(self, task: wire.Task) -> list[ev.Event]:
        if not self._said:
            self._said = [said for said, _ in _statuses(task.history)]
        if self._goes_on and wire.end(task.status) in wire.ASKING:
            self._goes_on = False
            return self._artifacts(task)
        return self._artifacts(task) + self._status(task.status, snapshot=True)

    def _artifacts(self, task: wire.Task) -> list[ev.Event]:
        out: list[ev.Event] = []
        for artifact in task.artifacts or ():
            text, parts = content(artifact.parts)
            out += self._shown.artifact(artifact.artifact_id or "", artifact.name or "", text, parts, snapshot=True)
        return out

    def _looked(self, look: wire.Look) -> list[ev.Event]:
        """What the task is by now, after some of its stream was lost."""
        if look.result is None:
            return self._refused(look.error)
        task, self._worked = look.result, True
        over = wire.end(task.status) is not None
        now = {artifact.artifact_id or "": content(artifact.parts) for artifact in task.artifacts or ()}
        missed, behind = self._missed(task, over), self._shown.behind(now)
        if self._answered or missed is None or behind is None or (behind and over):
            return self._cut_off()
        self._behind = behind
        out: list[ev.Event] = []
        for (id, text), parts in missed:  # first, because an artifact may repeat them
            out += self._shown.status(id, text, parts)
        return out + self._artifacts(task) + (self._status(task.status) if over else [])

    def _missed(self, task: wire.Task, over: bool) -> list[_Said] | None:
        """The statuses that were not shown; None when nobody can tell what they were.

        They matter only where no artifact has the text of the answer.
        """
        said = _statuses([*(task.history or ()), *([] if over or task.status is None else [task.status.message])])
        known = len(self._said)
        if [each[0] for each in said[:known]] != self._said or (self._aside and len(said) > known):
            in_artifacts = any(part.text for each in task.artifacts or () for part in each.parts or ())
            return [] if in_artifacts else None
        self._said += [each[0] for each in said[known:]]
        return said[known:]

    def _artifact(self, update: wire.ArtifactUpdate) -> list[ev.Event]:
        artifact = update.artifact or wire.Artifact()
        if artifact.metadata is not None and wire.is_void(artifact):
            return self._shown.void(artifact.artifact_id or "")
        text, parts = content(artifact.parts)
        append, last = bool(update.append), bool(update.last_chunk)
        return self._shown.artifact(artifact.artifact_id or "", artifact.name or "", text, parts, append, last)

    def _message(self, message: wire.Message) -> list[ev.Event]:
        if wire.is_users(message):
            return []
        self._answered = True
        return self._shown.message(message.message_id or "", *content(message.parts))

    def _status(self, status: wire.Status | None, metadata: object = None, snapshot: bool = False) -> list[ev.Event]:
        if status is None:
            return []
        said = status.message if status.message is not None and not wire.is_users(status.message) else wire.Message()
        id, (text, parts) = said.message_id or "", content(said.parts)
        end = wire.end(status)
        if end is None and (text or parts) and not (snapshot and self._said[-1:] == [(id, text)]):
            self._said.append((id, text))
        match end:
            case None if isinstance(metadata, dict) and metadata.get("tool_notification"):
                self._aside = True
                return self._shown.aside(id, text, parts)
            case None:
                return self._shown.status(id, text, parts, snapshot)
            case "completed" if self._shown.error is not None:
                return self._failed("agent_failed", self._shown.error or f"{self._who} failed and did not say why.")
            case "completed":
                return [*self._shown.message(id, text, parts, last=True), *self._finished("success")]
            case "canceled":
                return [*self._shown.aside(id, text, parts), *self._finished("cancelled")]
            case "failed":
                later = wire.noted(said.metadata).get("retryable") is True
                return self._failed("agent_failed", text or f"{self._who} failed and did not say why.", later)
            case "rejected":
                return self._failed("agent_rejected", text or f"{self._who} refused the task and did not say why.")
            case reason:
                return self._interrupted(reason, id, text, parts)

    def _refused(self, error: wire.Error | None) -> list[ev.Event]:
        if error is None:
            return self._failed("agent_protocol", f"{self._who} sent a response with neither a result nor an error.")
        if wire.in_circle(error):
            return self._failed(wire.CYCLE, f"{self._who} was not asked: {error.message}")
        code = "agent_protocol" if error.code in _BAD_REQUEST else "agent_failed"
        text = f"{self._who} answered with error {error.code}: {error.message or 'no message'}"
        return self._failed(code, text, error.retryable)

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

    def _cut_off(self) -> list[ev.Event]:
        flaw = "what its task holds now does not continue what it had said"
        return self._failed("agent_disconnected", f"{self._who} was cut off, and {flaw}: the answer is not whole.")

    def _failed(self, code: str, message: str, retryable: bool = False) -> list[ev.Event]:
        self._ended = True
        return [ev.RunFailed(code=code, message=scrub(message), retryable=retryable)]


_Said = tuple[tuple[str, str], list[ev.Part]]


def _statuses(messages: Iterable[wire.Message | None] | None) -> list[_Said]:
    """What an agent said since the user's last message: id and text, other parts."""
    said: list[_Said] = []
    for message in messages or ():
        if message is None:
            continue
        if wire.is_users(message):
            said = []
            continue
        text, parts = content(message.parts)
        if text or parts:
            said.append(((message.message_id or "", text), parts))
    return said


def content(parts: list[wire.Part] | None) -> tuple[str, list[ev.Part]]:
    """The text of ``parts`` and the other parts, each in order."""
    if not parts:
        return "", []
    if len(parts) == 1 and parts[0].text is not None:
        return parts[0].text, []
    text = "".join([part.text for part in parts if part.text is not None])
    return text, [_part(part) for part in parts if part.text is None]


def _part(part: wire.Part) -> ev.Part:
    if part.file is not None:
        file = part.file
        part = wire.Part(raw=file.bytes, url=file.uri, filename=file.name, media_type=file.mime_type)
    kind, name = part.media_type or "", part.filename or ""
    if part.url is not None:
        return ev.Part(kind="file", url=part.url, mime_type=kind, name=name)
    if part.raw is not None:
        return ev.Part(kind="file", url=f"data:{kind};base64,{part.raw}", mime_type=kind, name=name)
    return ev.Part(kind="json", data=None if part.data is UNSET else part.data, mime_type=kind, name=name)
