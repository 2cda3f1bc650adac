"""How a run ends: exactly one terminal event, last, after everything open was closed."""

from anabranch import events as ev

from ._case import DONE, Case, calls, lane, returns, says, text, thinks

OPEN = [
    *says("m1", "half an ans")[:-1],
    *thinks("r1", "hm")[:-1],
    *calls("c1", "komodor", '{"task":'),
    ev.StepStarted(name="look"),
    *lane("k", "komodor", says("m1", "2 clus", agent="k")[:-1], call="c1")[:-1],
    *calls("c2", "look", '{"reg', agent="k")[:-1],
]
"""Everything that can be open, in two lanes."""

ASKED = ev.Interrupted(
    interrupt_id="i1",
    reason="confirmation",
    message="Delete it?",
    schema={"type": "object"},
    call_id="c1",
    expires_at="2030-01-01T00:00:00Z",
    metadata={"tool": "delete"},
)

CASES = [
    Case(
        "a failure with everything open",
        [*OPEN, ev.RunFailed(code="model_error", message="The model failed.")],
        {"": "half an ans", "k": "2 clus"},
        terminal="model_error",
        reported="agno#4668",
    ),
    Case(
        "a cancel with everything open",
        [*OPEN, ev.RunFinished(outcome="cancelled")],
        {"": "half an ans", "k": "2 clus"},
        terminal="cancelled",
    ),
    Case("a success with everything open", [*OPEN, DONE], {"": "half an ans", "k": "2 clus"}, {"close:RunFinished": 7}),
    Case(
        "a failure before anything",
        [ev.RunFailed(code="model_error", message="key=sk-12345678 refused")],
        terminal="model_error",
        reported="ag-ui#2416",
    ),
    Case(
        "a failure with usage",
        [
            ev.UsageReported(usage=ev.Usage(model="m", input=5, output=1)),
            ev.RunFailed(code="rate_limited", message="Later.", retryable=True),
        ],
        terminal="rate_limited",
    ),
    Case(
        "a failure of a kind that nobody knows",
        [*says("m1", "a"), ev.RunFailed(code="ModelContentFilter", message="")],
        {"": "a"},
        terminal="ModelContentFilter",
        reported="agno#9486",
    ),
    Case("two ends", [DONE, ev.RunFailed(code="late", message="late")], repairs={"drop:RunFailed": 1}),
    Case(
        "a source that breaks the law",
        [*says("m1", "a")[:-1], ev.StateDelta(patch=[{"op": "add", "path": "no/slash"}]), *says("m2", "b")],
        {"": "a"},
        {"refuse:StateDelta": 1, "drop:MessageStarted": 1, "drop:TextDelta": 1, "drop:MessageFinished": 1},
        terminal="unlawful",
    ),
    Case(
        "a sub-agent that breaks the law, beside one that does not",
        [
            *calls("c1", "komodor", "{}"),
            *calls("c2", "argo", "{}"),
            ev.AgentStarted(agent="k", name="komodor", call_id="c1"),
            ev.AgentStarted(agent="a", name="argo", call_id="c2"),
            *calls("c9", "look", '{"a', agent="k")[:-1],
            *says("m1", "2 clus", agent="k")[:-1],
            *says("m1", "3 ", agent="a")[:-1],
            ev.StateDelta(agent="k", patch=[{"op": "add", "path": "no/slash"}]),
            *text("m1", "ters", agent="k"),
            *text("m1", "deployments", agent="a"),
            ev.AgentFinished(agent="k"),
            ev.AgentFinished(agent="a"),
            returns("c1", "2 clusters"),
            returns("c2", "3 deployments"),
            *says("m2", "Done."),
            DONE,
        ],
        {"": "Done.", "k": "2 clus", "a": "3 deployments"},
        {"refuse:StateDelta": 1, "drop:TextDelta": 1, "drop:AgentFinished": 1, "close:AgentFinished": 1},
    ),
    Case(
        "a question about a call",
        [*calls("c1", "delete", "{}")[:-1], ASKED, ev.RunFinished(outcome="interrupted")],
        terminal="interrupted",
        reported="agent-framework#8244",
    ),
    Case(
        "two questions, one from a sub-agent, one already answered",
        [
            *calls("c1", "komodor", "{}"),
            ev.AgentStarted(agent="k", name="komodor", call_id="c1"),
            *says("m1", "Which one?", agent="k"),
            ev.Interrupted(agent="k", interrupt_id="i1", reason="input_required", schema=True),
            ev.AgentFinished(agent="k", outcome="suspended"),
            ev.Interrupted(interrupt_id="i2", reason="langgraph:review"),
            ev.Interrupted(interrupt_id="i3", reason="confirmation"),
            ev.InterruptResolved(interrupt_id="i3"),
            ev.RunFinished(outcome="interrupted"),
        ],
        {"k": "Which one?"},
        terminal="interrupted",
    ),
    Case(
        "a question with a lane open",
        [
            *calls("c1", "komodor", "{}"),
            ev.AgentStarted(agent="k", name="komodor", call_id="c1"),
            *calls("c9", "delete", "{}", agent="k"),
            ev.Interrupted(agent="k", interrupt_id="i1", reason="tool_call", call_id="c9"),
            ev.RunFinished(outcome="interrupted"),
        ],
        terminal="interrupted",
    ),
    Case(
        "a question that is asked twice",
        [ASKED, ASKED, ev.RunFinished(outcome="interrupted")],
        repairs={"drop:Interrupted": 1},
        terminal="interrupted",
    ),
    Case(
        "a run that succeeds with a question open",
        [ASKED, *says("m1", "Never mind."), DONE],
        {"": "Never mind."},
        {"ask:RunFinished": 1},
        terminal="interrupted",
    ),
]
