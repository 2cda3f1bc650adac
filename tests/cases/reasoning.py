"""Reasoning: never in the answer's bubble, always closed."""

from anabranch import events as ev

from ._case import DONE, Case, says, text, thinks

CASES = [
    Case("reasoning, then an answer", [*thinks("r1", "hm", "m"), *says("m1", "42"), DONE], {"": "42"}),
    Case(
        "one id for the reasoning and the text",
        [*thinks("msg_1", "hm"), *says("msg_1", "42"), DONE],
        {"": "42"},
        reported="ag-ui#2199",
    ),
    Case(
        "reasoning with the provider's signature",
        [*thinks("r1", "hm", encrypted="c2lnbmVk"), *thinks("r2", encrypted="cmVkYWN0ZWQ="), *says("m1", "42"), DONE],
        {"": "42"},
        reported="ag-ui PR #1149",
    ),
    Case(
        "reasoning while the text is open",
        [*says("m1", "4")[:-1], *thinks("r1", "hm"), *text("m1", "2"), *says("m1")[-1:], DONE],
        {"": "42"},
        reported="agno#5466",
    ),
    Case(
        "reasoning that nobody ends",
        [*thinks("r1", "hm")[:-1], DONE],
        repairs={"close:RunFinished": 1},
        reported="@ag-ui/client 1.0.0",
    ),
    Case(
        "reasoning that ends twice and goes on",
        [
            *thinks("r1", "hm"),
            ev.ReasoningFinished(reasoning_id="r1"),
            ev.ReasoningDelta(reasoning_id="r1", delta=" well"),
            ev.ReasoningFinished(reasoning_id="r1"),
            *says("m1", "42"),
            DONE,
        ],
        {"": "42"},
        {"drop:ReasoningFinished": 1, "renew:ReasoningDelta": 1},
        reported="agentscope-java#1382",
    ),
    Case(
        "reasoning that nobody starts, cut inside an emoji",
        [
            ev.ReasoningDelta(reasoning_id="r1", delta="hm \ud83e"),
            ev.ReasoningDelta(reasoning_id="r1", delta="\udd14"),
            ev.ReasoningFinished(reasoning_id="r1"),
            DONE,
        ],
        repairs={"open:ReasoningDelta": 1},
    ),
]
