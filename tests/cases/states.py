"""State, activities, steps and what has no event of its own."""

from anabranch import events as ev

from ._case import DONE, Case, args, calls, returns, says, text


class NotJson:
    """Something a framework keeps in its state."""


CASES = [
    Case(
        "the plan is activity while it is written and state once it is made",
        [
            *calls("c1", "write_todos")[:-1],
            ev.ActivitySnapshot(activity_id="p1", kind="plan", content={"todos": []}),
            *args("c1", '{"todos":["look"'),
            ev.ActivityDelta(activity_id="p1", kind="plan", patch=[{"op": "add", "path": "/todos/-", "value": "look"}]),
            *args("c1", "]}"),
            *calls("c1", "write_todos")[-1:],
            ev.ActivitySnapshot(activity_id="p1", kind="plan", content={"todos": ["look"], "done": True}),
            ev.StateSnapshot(value={"todos": ["look"]}),
            returns("c1", "ok"),
            DONE,
        ],
    ),
    Case(
        "state changes while a message streams",
        [
            ev.StateSnapshot(value={"n": 1, "a/b": {"~": None}}),
            *says("m1", "counting")[:-1],
            ev.StateDelta(patch=[{"op": "replace", "path": "/n", "value": 2}]),
            *text("m1", " on"),
            ev.StateDelta(patch=[{"op": "test", "path": "/a~1b/~0", "value": None}, {"op": "remove", "path": "/a~1b"}]),
            *says("m1")[-1:],
            DONE,
        ],
        {"": "counting on"},
        reported="assistant-ui#5307",
    ),
    Case(
        "a state of nothing",
        [ev.StateSnapshot(value=None), ev.StateSnapshot(value=[]), ev.StateSnapshot(value=0), DONE],
    ),
    Case(
        "state that is not JSON",
        [
            ev.StateSnapshot(
                value={"obj": NotJson(), "set": {1}, "nan": float("nan"), "key": {1: "a"}, "half": "\ud83d"}
            ),
            ev.Custom(name="raw", value=NotJson()),
            DONE,
        ],
        reported="ag-ui PR #355",
    ),
    Case(
        "integers that JavaScript would round",
        [
            ev.StateSnapshot(value={"id": 2**53 + 1, "least": -(2**53), "safe": 2**53 - 1, "deep": [{"n": 10**30}]}),
            ev.Custom(name="big", value=2**64),
            ev.UsageReported(usage=ev.Usage(model="m", input=2**60, output=1)),
            DONE,
        ],
    ),
    Case(
        "usage of two models",
        [
            ev.UsageReported(usage=ev.Usage(model="big", input=10, output=5, reasoning=2, cached=4)),
            ev.UsageReported(usage=ev.Usage(model="small", input=1, output=1)),
            ev.UsageReported(usage=ev.Usage(model="big", input=3)),
            ev.UsageReported(usage=ev.Usage(input=1)),
            DONE,
        ],
    ),
    Case(
        "steps, one left open, one ended alone",
        [
            ev.StepStarted(name="a"),
            ev.StepStarted(name="b"),
            ev.StepFinished(name="a"),
            ev.StepFinished(name="c"),
            ev.StepStarted(name="b"),
            DONE,
        ],
        repairs={"drop:StepFinished": 1, "drop:StepStarted": 1, "close:RunFinished": 1},
    ),
    Case(
        "what has no event of its own",
        [
            ev.Routed(
                route="parallel", agents=("komodor", "argo"), reason="both are named", fallback_from="supervisor"
            ),
            ev.Custom(name="on_tick", value={"n": 1}),
            ev.Custom(name="on_tick"),
            ev.Unknown(name="hologram_started", value={"id": "h1"}),
            ev.RunResumed(epoch=2, voided_message_ids=("m9",)),
            DONE,
        ],
    ),
    Case("a result of the run", [*says("m1", "42"), ev.RunFinished(result={"answer": 42, "unit": None})], {"": "42"}),
]
