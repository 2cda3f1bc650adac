"""The vocabulary: everything that can happen in a run, as past facts.

Events are frozen values without behaviour, one tagged union, ``Event``. Do not subclass them. Every event carries
``agent``: the invocation that produced it, ``""`` for the root agent. A sub-agent is therefore not a special path, it
is a scope on ordinary events, and many messages, calls and agents may be open at once, each keyed by ``(agent, id)``.

**Ids.** A translator writes *local* ids: stable within its own run, free to repeat across agents. The grammar mints the
public ones, ``{run_id}:{n}``, unique within a thread. The log keeps the map: ``origin_id`` is the local id of the part
that an event opens, ``ref_origin_id`` the local id of another part that it names before that one opens. Both are the
grammar's to write, as is ``AgentStarted.continues``; what a source puts there is replaced.

**Fragments.** ``delta`` is always the new piece, never what has been accumulated.

**Versions.** ``VERSION`` is stored beside each entry. A tag that this version does not know decodes to ``Unknown``:
readers learn a tag one release before writers use it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

VERSION = 1
"""Version of this vocabulary, stored beside each log entry."""

ROOT = ""
"""``agent`` of the root agent of a run."""

Phase = Literal["answer", "narration", "progress", "undetermined"]
"""What a message is for. A start says what is known, a finish confirms it."""


class Usage(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Tokens one model spent. ``input`` includes ``cached``, ``output`` includes ``reasoning``."""

    model: str = ""
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cached: int = 0


class Answer(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Which messages are the answer: the root agent's, and those of agents that answer for it (``AgentStarted``).

    They are in the order in which they began, those of an agent where the agent began.

    A client that joins the deltas of each of ``message_ids``, and these texts in this order with nothing between, can
    tell whether it has the whole answer: ``length`` counts its Unicode code points, ``sha256`` is the hexadecimal
    SHA-256 of its UTF-8 bytes. A message that was reset or voided is never in it.
    """

    message_ids: tuple[str, ...]
    length: int
    sha256: str


class Remote(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Where a remote agent's work runs, as far as it is known."""

    url: str = ""
    task_id: str = ""
    context_id: str = ""


class Part(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Content that is not a text stream: ``text``, ``json`` (in ``data``) or ``file`` (by reference: ``url``)."""

    kind: Literal["text", "json", "file"]
    text: str = ""
    data: Any = None
    url: str = ""
    mime_type: str = ""
    name: str = ""


class _Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    agent: str = ROOT


# --- run ---------------------------------------------------------------------------------------------------------


class RunStarted(_Event, frozen=True, gc=False, tag="run_started"):
    """A run began. ``continues`` is the interrupted run it answers; ``task_id`` is shared by such a chain of runs."""

    run_id: str
    thread_id: str
    task_id: str = ""
    agent_name: str = ""
    parent_run_id: str | None = None
    continues: str | None = None


class RunResumed(_Event, frozen=True, gc=False, tag="run_resumed"):
    """A new owner took the run over (``epoch``). The named messages and calls are void; the others go on.

    The ids are public ones, read from the log. The local ids behind them are free again: the new owner's source may
    stream the same parts once more, under new public ids.
    """

    epoch: int
    voided_message_ids: tuple[str, ...] = ()
    voided_call_ids: tuple[str, ...] = ()


class RunFinished(_Event, frozen=True, gc=False, tag="run_finished"):
    """Terminal. What the run wrote stays in the log, whatever the outcome.

    The grammar fills in ``interrupt_ids`` (the open questions), ``answer`` (None when cancelled: it may be cut),
    ``pending_call_ids`` (complete calls that the client has to execute) and ``usage``.
    """

    outcome: Literal["success", "interrupted", "cancelled"] = "success"
    interrupt_ids: tuple[str, ...] = ()
    answer: Answer | None = None
    pending_call_ids: tuple[str, ...] = ()
    usage: tuple[Usage, ...] = ()
    result: Any = None


class RunFailed(_Event, frozen=True, gc=False, tag="run_failed"):
    """Terminal. ``message`` is scrubbed; ``partial`` says that some text was shown before."""

    code: str
    message: str
    retryable: bool = False
    side: Literal["source", "client", "server"] = "source"
    partial: bool = False
    usage: tuple[Usage, ...] = ()


# --- agents ------------------------------------------------------------------------------------------------------


class AgentStarted(_Event, frozen=True, gc=False, tag="agent_started"):
    """A sub-agent was called. ``agent`` is the new invocation; ``call_id`` is the parent's tool call that made it.

    ``answers``: what it says is its parent's answer, if it does not fail.

    ``continues`` is the ended invocation that this one goes on from, because more came from an agent that had ended.
    """

    name: str
    parent: str = ROOT
    call_id: str | None = None
    remote: Remote | None = None
    answers: bool = False
    continues: str | None = None
    origin_id: str = ""
    ref_origin_id: str = ""


class AgentFinished(_Event, frozen=True, gc=False, tag="agent_finished"):
    """A sub-agent ended without an error. ``suspended`` waits for an answer to an interrupt."""

    outcome: Literal["success", "suspended", "cancelled"] = "success"


class AgentFailed(_Event, frozen=True, gc=False, tag="agent_failed"):
    """A sub-agent ended with an error. What it wrote before stays."""

    code: str
    message: str


class RemoteKnown(_Event, frozen=True, gc=False, tag="remote_known"):
    """The agent works elsewhere, and it is known by now where: in which context, as which task."""

    remote: Remote


# --- messages ----------------------------------------------------------------------------------------------------


class MessageStarted(_Event, frozen=True, gc=False, tag="message_started"):
    """A message opened. ``phase`` says what is known of its purpose now."""

    message_id: str
    role: str = "assistant"
    name: str | None = None
    phase: Phase = "undetermined"
    origin_id: str = ""


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """The next piece of a message's text."""

    message_id: str
    delta: str


class MessageFinished(_Event, frozen=True, gc=False, tag="message_finished"):
    """A message is complete. ``phase`` is now certain, as far as it can be."""

    message_id: str
    finish_reason: str | None = None
    phase: Phase = "undetermined"


class MessageReset(_Event, frozen=True, gc=False, tag="message_reset"):
    """What was shown of a finished message is void: a retry streams it again, as ``superseded_by``.

    The retry may use the same local id. ``superseded_by`` is ``""`` when nothing replaces the message.
    """

    message_id: str
    superseded_by: str
    reason: str = ""
    ref_origin_id: str = ""


class PartAdded(_Event, frozen=True, gc=False, tag="part_added"):
    """A message got content that is not a text stream."""

    message_id: str
    part: Part


class Annotated(_Event, frozen=True, gc=False, tag="annotated"):
    """A message got a citation or another annotation (any JSON object)."""

    message_id: str
    annotation: Any


class ReasoningStarted(_Event, frozen=True, gc=False, tag="reasoning_started"):
    """A model began to show its reasoning."""

    reasoning_id: str
    origin_id: str = ""


class ReasoningDelta(_Event, frozen=True, gc=False, tag="reasoning_delta"):
    """The next piece of the reasoning."""

    reasoning_id: str
    delta: str


class ReasoningFinished(_Event, frozen=True, gc=False, tag="reasoning_finished"):
    """The reasoning is complete. ``encrypted`` is the provider's opaque value, to be sent back as it is."""

    reasoning_id: str
    encrypted: str | None = None


# --- tool calls --------------------------------------------------------------------------------------------------


class ToolCallStarted(_Event, frozen=True, gc=False, tag="tool_call_started"):
    """A model began to call a tool. ``message_id`` is the model turn's message: calls of one turn share it.

    A source that does not know it leaves it out: the turn is then what the agent did since its last tool result.
    """

    call_id: str
    name: str
    message_id: str = ""
    executor: Literal["server", "client"] = "server"
    origin_id: str = ""
    ref_origin_id: str = ""


class ToolArgsDelta(_Event, frozen=True, gc=False, tag="tool_args_delta"):
    """The next fragment of a call's arguments (JSON text)."""

    call_id: str
    delta: str


class ToolCallFinished(_Event, frozen=True, gc=False, tag="tool_call_finished"):
    """A call's arguments are complete."""

    call_id: str


class ToolOutputDelta(_Event, frozen=True, gc=False, tag="tool_output_delta"):
    """A running tool reported output before its result: a piece of text, or any other JSON value."""

    call_id: str
    content: Any


class ToolReturned(_Event, frozen=True, gc=False, tag="tool_returned"):
    """A tool's result, as the model will read it. ``error`` is the error's text when ``is_error``.

    ``message_id`` is the result's own id, new with each result.
    """

    call_id: str
    content: str = ""
    parts: tuple[Part, ...] = ()
    message_id: str = ""
    is_error: bool = False
    error: str | None = None


# --- state -------------------------------------------------------------------------------------------------------


class StateSnapshot(_Event, frozen=True, gc=False, tag="state_snapshot"):
    """The committed state of the agent, whole."""

    value: Any


class StateDelta(_Event, frozen=True, gc=False, tag="state_delta"):
    """A change of the committed state: an RFC 6902 patch."""

    patch: list[dict[str, Any]]


class ActivitySnapshot(_Event, frozen=True, gc=False, tag="activity_snapshot"):
    """Something in progress, whole: ``content`` is a JSON object. The plan is one while its arguments stream."""

    activity_id: str
    kind: str
    content: dict[str, Any]
    origin_id: str = ""


class ActivityDelta(_Event, frozen=True, gc=False, tag="activity_delta"):
    """A change of something in progress: an RFC 6902 patch."""

    activity_id: str
    kind: str
    patch: list[dict[str, Any]]


# --- interrupts --------------------------------------------------------------------------------------------------


class Interrupted(_Event, frozen=True, gc=False, tag="interrupted"):
    """The agent asks a question; the run will end ``interrupted`` and its answer starts a new run."""

    interrupt_id: str
    reason: str
    message: str | None = None
    schema: Any = None
    call_id: str | None = None
    expires_at: str | None = None
    remote: Remote | None = None
    metadata: dict[str, Any] | None = None
    origin_id: str = ""
    ref_origin_id: str = ""


class InterruptResolved(_Event, frozen=True, gc=False, tag="interrupt_resolved"):
    """A question was answered or withdrawn. One of an earlier run keeps the id it had there."""

    interrupt_id: str


# --- the rest ----------------------------------------------------------------------------------------------------


class Routed(_Event, frozen=True, gc=False, tag="routed"):
    """Which agents got the request, and why."""

    route: Literal["direct", "parallel", "supervisor"]
    agents: tuple[str, ...]
    reason: str
    fallback_from: str | None = None


class UsageReported(_Event, frozen=True, gc=False, tag="usage_reported"):
    """One model call's tokens. The grammar sums them per model into the terminal event."""

    usage: Usage


class StepStarted(_Event, frozen=True, gc=False, tag="step_started"):
    """A named step of an agent began. A name may come again after it finished."""

    name: str


class StepFinished(_Event, frozen=True, gc=False, tag="step_finished"):
    """A named step of an agent ended."""

    name: str


class Custom(_Event, frozen=True, gc=False, tag="custom"):
    """Anything a source wants its client to know that has no event of its own."""

    name: str
    value: Any = None


class Unknown(_Event, frozen=True, gc=False, tag="unknown"):
    """An event of a newer version, kept as it was written."""

    name: str
    value: Any = None


Event = (
    RunStarted
    | RunResumed
    | RunFinished
    | RunFailed
    | AgentStarted
    | AgentFinished
    | AgentFailed
    | RemoteKnown
    | MessageStarted
    | TextDelta
    | MessageFinished
    | MessageReset
    | PartAdded
    | Annotated
    | ReasoningStarted
    | ReasoningDelta
    | ReasoningFinished
    | ToolCallStarted
    | ToolArgsDelta
    | ToolCallFinished
    | ToolOutputDelta
    | ToolReturned
    | StateSnapshot
    | StateDelta
    | ActivitySnapshot
    | ActivityDelta
    | Interrupted
    | InterruptResolved
    | Routed
    | UsageReported
    | StepStarted
    | StepFinished
    | Custom
    | Unknown
)
"""Anything that can happen in a run."""

Terminal = RunFinished | RunFailed
"""The last event of a run."""

EVENT_TYPES: tuple[type[Event], ...] = Event.__args__

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


def encode(event: Event) -> bytes:
    """``event`` as JSON bytes, for a log or a wire. Events that passed the grammar always encode."""
    return _encode(event)


def decode(data: bytes) -> Event:
    """The event that ``encode`` wrote. A tag from a newer version becomes ``Unknown``.

    Raises ``msgspec.DecodeError`` when ``data`` is no JSON object with a tag, and its subclass
    ``msgspec.ValidationError`` when a known event has a field of the wrong type.
    """
    try:
        return _decode(data)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(data)
        tag = raw.pop("type", None) if isinstance(raw, dict) else None
        if not isinstance(tag, str) or tag in _TAGS:
            raise
        return Unknown(agent=str(raw.pop("agent", ROOT)), name=tag, value=raw)


_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)
