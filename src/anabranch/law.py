"""The table: for a part's kind and state, what each event does.

``LAW`` is the whole of it; ``grammar.Grammar`` is the machine that obeys it, and explains the words. Pure.
"""

from __future__ import annotations

from typing import Any

from .events import (
    EVENT_TYPES,
    ActivityDelta,
    ActivitySnapshot,
    AgentFailed,
    AgentFinished,
    AgentStarted,
    Annotated,
    Custom,
    Interrupted,
    InterruptResolved,
    MessageFinished,
    MessageReset,
    MessageStarted,
    PartAdded,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RemoteKnown,
    Routed,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    StateDelta,
    StateSnapshot,
    StepFinished,
    StepStarted,
    TextDelta,
    ToolArgsDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutputDelta,
    ToolReturned,
    Unknown,
    UsageReported,
)

RUN, AGENT, MESSAGE, REASONING, CALL = "run", "agent", "message", "reasoning", "call"
STEP, ACTIVITY, INTERRUPT, SCOPE = "step", "activity", "interrupt", "scope"

ABSENT, OPEN, CLOSED, DONE = "absent", "open", "closed", "done"

PASS, ADD, CLOSE, RENEW, DROP = "pass", "open", "close", "renew", "drop"


UNLAWFUL = "unlawful"
"""Code of the failure of a run or an agent that broke the law."""


class Unlawful(Exception):
    """What is wrong with an event that cannot be repaired."""


SUBJECT: dict[type[Any], tuple[str, str]] = {
    AgentStarted: (AGENT, "agent"),
    AgentFinished: (AGENT, "agent"),
    AgentFailed: (AGENT, "agent"),
    MessageStarted: (MESSAGE, "message_id"),
    TextDelta: (MESSAGE, "message_id"),
    PartAdded: (MESSAGE, "message_id"),
    Annotated: (MESSAGE, "message_id"),
    MessageFinished: (MESSAGE, "message_id"),
    MessageReset: (MESSAGE, "message_id"),
    ReasoningStarted: (REASONING, "reasoning_id"),
    ReasoningDelta: (REASONING, "reasoning_id"),
    ReasoningFinished: (REASONING, "reasoning_id"),
    ToolCallStarted: (CALL, "call_id"),
    ToolArgsDelta: (CALL, "call_id"),
    ToolCallFinished: (CALL, "call_id"),
    ToolOutputDelta: (CALL, "call_id"),
    ToolReturned: (CALL, "call_id"),
    StepStarted: (STEP, "name"),
    StepFinished: (STEP, "name"),
    ActivitySnapshot: (ACTIVITY, "activity_id"),
    ActivityDelta: (ACTIVITY, "activity_id"),
    Interrupted: (INTERRUPT, "interrupt_id"),
    InterruptResolved: (INTERRUPT, "interrupt_id"),
    **dict.fromkeys((StateSnapshot, StateDelta, RemoteKnown, Routed, UsageReported, Custom, Unknown), (SCOPE, "agent")),
}
"""Which part an event is about: its kind, and the field that holds its id. In ``SCOPE`` are the events about no part,
which pass wherever their agent is."""

LAW: dict[tuple[str, str], dict[type[Any], tuple[str, str]]] = {
    (RUN, ABSENT): {RunStarted: (PASS, OPEN)},
    (RUN, OPEN): {RunStarted: (DROP, OPEN), RunResumed: (PASS, OPEN)}
    | dict.fromkeys((RunFinished, RunFailed), (PASS, DONE))
    | dict.fromkeys(SUBJECT, (PASS, OPEN)),
    (RUN, DONE): dict.fromkeys(EVENT_TYPES, (DROP, DONE)),
    (AGENT, ABSENT): {
        AgentStarted: (PASS, OPEN),
        AgentFinished: (DROP, ABSENT),
        AgentFailed: (ADD, OPEN),
    },
    (AGENT, OPEN): {
        AgentStarted: (DROP, OPEN),
        **dict.fromkeys((AgentFinished, AgentFailed), (PASS, CLOSED)),
    },
    (AGENT, CLOSED): {
        AgentStarted: (PASS, OPEN),  # called again: a new invocation
        **dict.fromkeys((AgentFinished, AgentFailed), (DROP, CLOSED)),
    },
    (MESSAGE, ABSENT): {
        MessageStarted: (PASS, OPEN),
        **dict.fromkeys((TextDelta, PartAdded, Annotated), (ADD, OPEN)),
        **dict.fromkeys((MessageFinished, MessageReset), (DROP, ABSENT)),
    },
    (MESSAGE, OPEN): {
        MessageStarted: (DROP, OPEN),
        **dict.fromkeys((TextDelta, PartAdded, Annotated), (PASS, OPEN)),
        MessageFinished: (PASS, CLOSED),
        MessageReset: (CLOSE, CLOSED),
    },
    (MESSAGE, CLOSED): {
        **dict.fromkeys((MessageStarted, MessageFinished), (DROP, CLOSED)),
        **dict.fromkeys((TextDelta, PartAdded, Annotated), (RENEW, OPEN)),
        MessageReset: (PASS, DONE),
    },
    (MESSAGE, DONE): {
        **dict.fromkeys((MessageStarted, MessageFinished, MessageReset), (DROP, DONE)),
        **dict.fromkeys((TextDelta, PartAdded, Annotated), (RENEW, OPEN)),
    },
    (REASONING, ABSENT): {
        ReasoningStarted: (PASS, OPEN),
        ReasoningDelta: (ADD, OPEN),
        ReasoningFinished: (DROP, ABSENT),
    },
    (REASONING, OPEN): {
        ReasoningStarted: (DROP, OPEN),
        ReasoningDelta: (PASS, OPEN),
        ReasoningFinished: (PASS, CLOSED),
    },
    (REASONING, CLOSED): {
        **dict.fromkeys((ReasoningStarted, ReasoningFinished), (DROP, CLOSED)),
        ReasoningDelta: (RENEW, OPEN),
    },
    (CALL, ABSENT): {
        ToolCallStarted: (PASS, OPEN),
        **dict.fromkeys((ToolArgsDelta, ToolOutputDelta, ToolReturned), (ADD, OPEN)),
        ToolCallFinished: (DROP, ABSENT),
    },
    (CALL, OPEN): {
        ToolCallStarted: (DROP, OPEN),
        ToolArgsDelta: (PASS, OPEN),
        ToolCallFinished: (PASS, CLOSED),
        **dict.fromkeys((ToolOutputDelta, ToolReturned), (CLOSE, CLOSED)),
    },
    (CALL, CLOSED): {
        **dict.fromkeys((ToolCallStarted, ToolArgsDelta, ToolCallFinished), (DROP, CLOSED)),
        ToolOutputDelta: (PASS, CLOSED),
        ToolReturned: (PASS, DONE),
    },
    (CALL, DONE): dict.fromkeys(
        (ToolCallStarted, ToolArgsDelta, ToolCallFinished, ToolOutputDelta, ToolReturned), (DROP, DONE)
    ),
    (STEP, ABSENT): {StepStarted: (PASS, OPEN), StepFinished: (DROP, ABSENT)},
    (STEP, OPEN): {StepStarted: (DROP, OPEN), StepFinished: (PASS, ABSENT)},
    (ACTIVITY, ABSENT): {ActivitySnapshot: (PASS, CLOSED)},
    (ACTIVITY, CLOSED): dict.fromkeys((ActivitySnapshot, ActivityDelta), (PASS, CLOSED)),
    (INTERRUPT, ABSENT): {Interrupted: (PASS, CLOSED), InterruptResolved: (PASS, DONE)},
    (INTERRUPT, CLOSED): {Interrupted: (DROP, CLOSED), InterruptResolved: (PASS, DONE)},
    (INTERRUPT, DONE): dict.fromkeys((Interrupted, InterruptResolved), (DROP, DONE)),
}
"""``(kind, state)`` -> event type -> ``(outcome, next state)``. What is not here is refused."""

LANE: dict[str, str] = {ABSENT: ADD, OPEN: PASS, CLOSED: RENEW}
"""What an agent's state means for an event *in* the agent, when the law of the event's part does not drop it."""

REFERENCES: dict[type[Any], tuple[str, str, str]] = {
    AgentStarted: ("call_id", CALL, "parent"),
    MessageReset: ("superseded_by", MESSAGE, "agent"),
    ToolCallStarted: ("message_id", MESSAGE, "agent"),
    Interrupted: ("call_id", CALL, "agent"),
}
"""Events that name a part beside their own: the field, the kind of the part, the field that holds the part's agent."""

OPENERS = frozenset({AgentStarted, MessageStarted, ReasoningStarted, ToolCallStarted, ActivitySnapshot, Interrupted})
"""Events that open a part and record its local id as ``origin_id``."""

DELTAS: dict[type[Any], tuple[str, str]] = {
    TextDelta: (MESSAGE, "message_id"),
    ReasoningDelta: (REASONING, "reasoning_id"),
    ToolArgsDelta: (CALL, "call_id"),
}
"""Events that add a fragment of text to an open part, and that part's kind and field."""

TEXTS: dict[type[Any], str] = {**dict.fromkeys(DELTAS, "delta"), ToolOutputDelta: "content"}
"""Events whose text may be cut inside a character, and the field it is in."""


def ruling(kind: str, state: str, event: object) -> tuple[str, str]:
    """The outcome of ``event`` for a part of this kind in this state, and the next state. Raises ``Unlawful``."""
    row = LAW[kind, state].get(type(event))
    if row is None:
        raise Unlawful(f"its {kind} is {state}")
    return row
