"""Messages: their text, whole to the last character, whatever the pieces were."""

from anabranch import events as ev

from ._case import DONE, Case, says, text

CASES = [
    Case("an answer of three tokens", [*says("m1", "Three", " clus", "ters."), DONE], {"": "Three clusters."}),
    Case("an answer of no token", [*says("m1"), DONE], {"": ""}),
    Case("a run that says nothing", [DONE]),
    Case(
        "two messages of one turn each",
        [*says("m1", "Looking.", phase="narration"), *says("m2", "Found ", "it."), DONE],
        {"": "Looking.Found it."},
    ),
    Case(
        "two messages at the same time",
        [
            ev.MessageStarted(message_id="m1"),
            ev.MessageStarted(message_id="m2", name="second"),
            *text("m1", "one "),
            *text("m2", "two "),
            *text("m1", "one"),
            ev.MessageFinished(message_id="m2", phase="answer"),
            ev.MessageFinished(message_id="m1", phase="narration"),
            DONE,
        ],
        {"": "one onetwo "},
    ),
    Case(
        "every role a message may have",
        [
            *(ev.MessageStarted(message_id=role, role=role) for role in ("developer", "system", "user", "oracle")),
            *(ev.MessageFinished(message_id=role) for role in ("developer", "system", "user", "oracle")),
            DONE,
        ],
    ),
    Case("equal neighbours are not duplicates", [*says("m1", "ha", "ha", "ha", " ", " "), DONE], {"": "hahaha  "}),
    Case(
        "blank pieces and line ends",
        [*says("m1", "a", "\n", "\r", "\n", "\r\n\r\n", "\t", " ", "\u2028b"), DONE],
        {"": "a\n\r\n\r\n\r\n\t \u2028b"},
    ),
    Case(
        "what would end a frame stays text",
        [*says("m1", "data: x\n\nid: 9\n\n", ":", '"}\n\n'), DONE],
        {"": 'data: x\n\nid: 9\n\n:"}\n\n'},
    ),
    Case(
        "an emoji in two halves",
        [*says("m1", "go \ud83d", "\ude80 now"), DONE],
        {"": "go \U0001f680 now"},
        reported="QwenPaw#3553",
    ),
    Case(
        "half an emoji that stays alone",
        [*says("m1", "go \ud83d", "!", "\ude80", "\ud83d"), DONE],
        {"": "go \ufffd!\ufffd\ufffd"},
        reported="QwenPaw#3553",
    ),
    Case(
        "a family, a flag and a combining accent, cut inside",
        [
            *says("m1", "\U0001f469\u200d", "\U0001f469\u200d\U0001f467", "\U0001f1e9", "\U0001f1ea", "e", "\u0301"),
            DONE,
        ],
        {"": "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1eae\u0301"},
    ),
    Case(
        "nul and other control characters",
        [*says("m1", "\x00", "\x1b[0m", "\x7f\x85"), DONE],
        {"": "\x00\x1b[0m\x7f\x85"},
    ),
    Case("an empty piece", [*says("m1", "", "a", ""), DONE], {"": "a"}),
    Case(
        "text of a message that nobody started",
        [*text("m1", "hello"), ev.MessageFinished(message_id="m1"), DONE],
        {"": "hello"},
        {"open:TextDelta": 1},
    ),
    Case(
        "text after its message ended is a continuation",
        [*says("m1", "one"), *text("m1", " two"), DONE],
        {"": "one two"},
        {"renew:TextDelta": 1, "close:RunFinished": 1},
        reported="pydantic-ai#3108",
    ),
    Case(
        "a message that is started and ended twice",
        [*says("m1", "one")[:-1], *says("m1")[:1], *says("m1")[-1:] * 2, DONE],
        {"": "one"},
        {"drop:MessageStarted": 1, "drop:MessageFinished": 1},
    ),
    Case(
        "a message left open at the end",
        [*says("m1", "one")[:-1], DONE],
        {"": "one"},
        {"close:RunFinished": 1},
    ),
    Case(
        "a retry voids what was shown and streams again",
        [
            *says("m1", "The anser")[:-1],
            ev.MessageReset(message_id="m1", superseded_by="m2", reason="retry"),
            *says("m2", "The answer"),
            DONE,
        ],
        {"": "The answer"},
        {"close:MessageReset": 1},
    ),
    Case(
        "parts and citations of a message",
        [
            *says("m1", "See ")[:-1],
            ev.PartAdded(message_id="m1", part=ev.Part(kind="file", url="https://x.test/a.png", mime_type="image/png")),
            ev.PartAdded(message_id="m1", part=ev.Part(kind="json", data={"rows": [1, None]})),
            ev.Annotated(message_id="m1", annotation={"url": "https://x.test", "from": 0, "to": 3}),
            *text("m1", "this."),
            *says("m1")[-1:],
            DONE,
        ],
        {"": "See this."},
    ),
    Case(
        "text, parts and an end after the run's end",
        [*says("m1", "one"), DONE, *text("m1", "two"), *says("m2", "three"), DONE],
        {"": "one"},
        {"drop:TextDelta": 2, "drop:MessageStarted": 1, "drop:MessageFinished": 1, "drop:RunFinished": 1},
        reported="agno#3554",
    ),
]
