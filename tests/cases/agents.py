"""Sub-agents: every token in its own lane, nested and side by side."""

from anabranch import events as ev

from ._case import DONE, Case, args, calls, lane, returns, says, text, thinks, woven

KOMODOR = says("m1", "2 clus", "ters: ", "a, b", agent="k")
ARGO = says("m1", "3 ", "deploy", "ments", agent="a")

CASES = [
    Case(
        "a sub-agent inside a tool call",
        [
            *calls("c1", "komodor", '{"task":"clusters"}'),
            *lane("k", "komodor", KOMODOR, call="c1"),
            returns("c1", "2 clusters: a, b"),
            *says("m1", "You have two."),
            DONE,
        ],
        {"": "You have two.", "k": "2 clusters: a, b"},
        reported="ag-ui#1773",
    ),
    Case(
        "two sub-agents at the same time",
        [
            *calls("c1", "komodor", "{}"),
            *calls("c2", "argo", "{}"),
            *woven(lane("k", "komodor", KOMODOR, call="c1"), lane("a", "argo", ARGO, call="c2")),
            returns("c2", "3 deployments"),
            returns("c1", "2 clusters: a, b"),
            *says("m1", "Both."),
            DONE,
        ],
        {"": "Both.", "k": "2 clusters: a, b", "a": "3 deployments"},
        reported="agentscope-java#2500",
    ),
    Case(
        "one agent called twice at the same time",
        [
            *calls("c1", "komodor", "{}"),
            *calls("c2", "komodor", "{}"),
            *woven(
                lane("k1", "komodor", says("m", "one ", "1", agent="k1"), call="c1"),
                lane("k2", "komodor", says("m", "two ", "2", agent="k2"), call="c2"),
            ),
            returns("c1", "one 1"),
            returns("c2", "two 2"),
            DONE,
        ],
        {"k1": "one 1", "k2": "two 2"},
    ),
    Case(
        "a sub-agent inside a sub-agent, each with tools and reasoning",
        [
            *calls("c1", "argo", "{}"),
            *lane(
                "a",
                "argo",
                [
                    *thinks("r", "hm", agent="a"),
                    *calls("c1", "helm", "{}", agent="a"),
                    *lane("h", "helm", says("m1", "chart ok", agent="h"), call="c1", parent="a"),
                    returns("c1", "chart ok", agent="a"),
                    *says("m1", "synced", agent="a"),
                ],
                call="c1",
            ),
            returns("c1", "synced"),
            *says("m1", "Done."),
            DONE,
        ],
        {"": "Done.", "a": "synced", "h": "chart ok"},
        reported="ag-ui#1773",
    ),
    Case(
        "sub-agents without a call, and steps with equal names",
        [
            ev.StepStarted(name="plan"),
            *woven(
                lane(
                    "k",
                    "plan",
                    [ev.StepStarted(agent="k", name="plan"), *KOMODOR, ev.StepFinished(agent="k", name="plan")],
                ),
                lane(
                    "a",
                    "plan",
                    [ev.StepStarted(agent="a", name="plan"), *ARGO, ev.StepFinished(agent="a", name="plan")],
                ),
            ),
            ev.StepFinished(name="plan"),
            ev.StepStarted(name="plan"),
            ev.StepFinished(name="plan"),
            DONE,
        ],
        {"k": "2 clusters: a, b", "a": "3 deployments"},
    ),
    Case(
        "an agent that nobody announced",
        [*says("m1", "who am I", agent="x"), *says("m1", "root"), DONE],
        {"x": "who am I", "": "root"},
        {"open:MessageStarted": 1, "close:RunFinished": 1},
    ),
    Case(
        "text of a lane that has ended is a lane of the same name",
        [
            *calls("c1", "komodor", "{}"),
            *lane("k", "komodor", KOMODOR, call="c1"),
            *text("m1", ", c", agent="k"),
            ev.AgentFinished(agent="k"),
            returns("c1", "2 clusters"),
            DONE,
        ],
        {"k": "2 clusters: a, b, c"},
        {"renew:TextDelta": 2, "close:AgentFinished": 1},
        reported="agno#4157",
    ),
    Case(
        "a call in a lane that has ended",
        [
            *lane(
                "k",
                "komodor",
                [*calls("c0", "look", "{}", turn="m1", agent="k"), returns("c0", "seen", agent="k"), *KOMODOR],
            ),
            *calls("c1", "look", "{}", turn="m1", agent="k"),
            returns("c1", "seen", agent="k"),
            ev.AgentFinished(agent="k"),
            DONE,
        ],
        {"k": "2 clusters: a, b"},
        {"renew:ToolCallStarted": 1},
    ),
    Case(
        "an activity, a step and a question of a lane that has ended",
        [
            *lane("k", "komodor", [ev.ActivitySnapshot(agent="k", activity_id="p", kind="plan", content={"n": 1})]),
            ev.ActivityDelta(agent="k", activity_id="p", kind="plan", patch=[{"op": "remove", "path": "/n"}]),
            ev.StepStarted(agent="k", name="look"),
            ev.StepFinished(agent="k", name="look"),
            ev.Interrupted(agent="k", interrupt_id="i", reason="input_required"),
            ev.AgentFinished(agent="k", outcome="suspended"),
            ev.RunFinished(outcome="interrupted"),
        ],
        repairs={"renew:ActivityDelta": 1},
        terminal="interrupted",
    ),
    Case(
        "a result that comes after its lane has ended",
        [
            ev.AgentStarted(agent="k", name="komodor"),
            *calls("c1", "look", "{}", agent="k"),
            ev.AgentFinished(agent="k", outcome="suspended"),
            returns("c1", "seen", agent="k"),
            ev.AgentFinished(agent="k"),
            DONE,
        ],
        repairs={"renew:ToolReturned": 1},
    ),
    Case(
        "an agent that is called again under the same id",
        [
            *lane("k", "komodor", says("m1", "first", agent="k")),
            *lane(
                "k", "komodor", [*says("m1", ", second", agent="k"), *calls("c1", "look", "{}", turn="m1", agent="k")]
            ),
            returns("c1", "late", agent="k"),
            DONE,
        ],
        {"k": "first, second"},
        {"close:AgentFinished": 1, "drop:ToolReturned": 1},
    ),
    Case(
        "an agent that is started and ended twice",
        [
            *lane("k", "komodor", [ev.AgentStarted(agent="k", name="komodor"), *KOMODOR]),
            ev.AgentFinished(agent="k"),
            ev.AgentFailed(agent="k", code="late", message="late"),
            DONE,
        ],
        {"k": "2 clusters: a, b"},
        {"drop:AgentStarted": 1, "drop:AgentFinished": 1, "drop:AgentFailed": 1},
    ),
    Case(
        "a lane that fails beside one that goes on",
        [
            *calls("c1", "komodor", "{}"),
            *calls("c2", "argo", "{}"),
            ev.AgentStarted(agent="k", name="komodor", call_id="c1"),
            ev.AgentStarted(agent="a", name="argo", call_id="c2"),
            *woven(KOMODOR[:3], ARGO[:2]),
            ev.AgentFailed(agent="k", code="unreachable", message="The agent komodor is gone."),
            returns("c1", "Error: komodor is gone.", error="komodor is gone."),
            *ARGO[2:],
            ev.AgentFinished(agent="a"),
            returns("c2", "3 deployments"),
            *says("m1", "Half of it."),
            DONE,
        ],
        {"": "Half of it.", "k": "2 clusters: ", "a": "3 deployments"},
    ),
    Case(
        "a lane that fails with everything open in it",
        [
            ev.AgentStarted(agent="k", name="komodor"),
            *lane("h", "helm", [], parent="k")[:-1],
            *says("m1", "half a", agent="h")[:-1],
            *calls("c1", "look", '{"reg', agent="k")[:-1],
            *thinks("r1", "hm", agent="k")[:-1],
            ev.StepStarted(agent="k", name="look"),
            ev.AgentFailed(agent="k", code="unreachable", message="gone"),
            *says("m1", "Sorry."),
            DONE,
        ],
        {"": "Sorry.", "h": "half a"},
    ),
    Case(
        "a lane left open at the end",
        [*lane("k", "komodor", KOMODOR)[:-1], DONE],
        {"k": "2 clusters: a, b"},
        {"close:RunFinished": 1},
    ),
    Case(
        "a lane that is cancelled alone",
        [
            *lane("k", "komodor", KOMODOR[:2])[:-1],
            ev.AgentFinished(agent="k", outcome="cancelled"),
            *says("m1", "Stopped it."),
            DONE,
        ],
        {"": "Stopped it.", "k": "2 clus"},
    ),
    Case(
        "fragments of a sub-agent's arguments beside its parent's text",
        [
            *says("m1", "Wait")[:-1],
            ev.AgentStarted(agent="k", name="komodor"),
            *calls("c1", "look", agent="k")[:-1],
            *woven(args("c1", '{"a"', ":1}", agent="k"), text("m1", " for", " it.")),
            *calls("c1", "look", agent="k")[-1:],
            returns("c1", "seen", agent="k"),
            ev.AgentFinished(agent="k"),
            *says("m1")[-1:],
            DONE,
        ],
        {"": "Wait for it."},
    ),
    Case(
        "a direct route to a sub-agent, whose text is the answer",
        [
            ev.Routed(route="direct", agents=("komodor",), reason="the user named it"),
            *lane("k", "komodor", [ev.RemoteKnown(agent="k", remote=ev.Remote(context_id="c")), *KOMODOR]),
            DONE,
        ],
        {"k": "2 clusters: a, b"},
    ),
    Case(
        "a sub-agent's own state beside the root's",
        [
            ev.StateSnapshot(value={"todos": []}),
            *lane(
                "k",
                "komodor",
                [
                    ev.StateSnapshot(agent="k", value={"pods": 3}),
                    ev.StateDelta(agent="k", patch=[{"op": "remove", "path": "/pods"}]),
                ],
            ),
            ev.StateDelta(patch=[{"op": "add", "path": "/todos/-", "value": "look"}]),
            DONE,
        ],
    ),
]
