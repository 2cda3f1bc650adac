"""Runs in the words of the Platform Engineer, as its clients read them: one answer, exact, wherever they come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from a2a.types import StreamResponse
from cases import CASES, Case
from cases._case import DONE, calls, lane, returns, says, woven

from anabranch import events as ev
from anabranch.errors import Cancelled, SourceError
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.request import Message
from anabranch.sinks.a2a.caipe import CaipeEncoder, CaipeFold
from anabranch.sinks.a2a.encode import Envelope, reader
from anabranch.sinks.a2a.prelude import Snapshot
from anabranch.sinks.a2a.profile import Profile
from anabranch.sources.a2a import A2ATranslator
from sinks.a2a.assembling import Cli, Piece, Slack, Web, pieces
from sinks.a2a.reading import BARE, GIVEN, RPC, Client, holding, official, read
from sinks.watching import START, lawful, logged

DIALECTS = [(Profile(version, caipe=True), envelope) for version in ("1.0", "0.3") for envelope in (BARE, RPC)]
OLD = Profile("0.3", caipe=True), RPC
TEXT = ("\n", "2 clus", "ters:\r\n", " ", " ", "\N{ROCKET}\u2028", "a", "a", "\t")
WHOLE = "".join(TEXT)


def answering(agent: str, name: str, items: Sequence[ev.Event], call: str | None = None, parent: str = "") -> Any:
    """A lane whose text is the answer of its parent."""
    return [
        ev.AgentStarted(agent=agent, name=name, parent=parent, call_id=call, answers=True),
        *items,
        ev.AgentFinished(agent=agent),
    ]


def guessed(id: str, *deltas: str, agent: str = "", phase: ev.Phase = "answer") -> list[ev.Event]:
    """A message of which nobody knows before its end what it is for."""
    start, *rest, _ = says(id, *deltas, agent=agent, phase="undetermined")
    return [start, *rest, ev.MessageFinished(agent=agent, message_id=id, phase=phase)]


@dataclass(frozen=True)
class Scene:
    """A run and the one answer that each client shows; ``live``: in pieces that are marked."""

    name: str
    items: Sequence[ev.Event]
    answer: str
    live: bool = False
    narration: str = ""
    slack: str | None = None
    """What Slack shows when something had to be taken back."""
    error: BaseException | None = None
    end: str = "COMPLETED"


KOMODOR = says("m", *TEXT, agent="k")
ARGO = says("m", "3 ", "apps", agent="a")
ASK_K, ASK_A = calls("c1", "ask_komodor", '{"question":"q"}'), calls("c2", "ask_argo", '{"question":"q"}')
DIRECT = ev.Routed(route="direct", agents=("komodor",), reason="named")
PARALLEL = ev.Routed(route="parallel", agents=("komodor", "argo"), reason="both")
LATE = [  # an agent that starts while another one answers
    *ASK_K,
    *ASK_A,
    ev.AgentStarted(agent="k", name="komodor", call_id="c1", answers=True),
    *KOMODOR[:3],
    ev.AgentStarted(agent="a", name="argo", call_id="c2", answers=True),
    *ARGO,
]

SCENES = [
    Scene(
        "direct", [DIRECT, *ASK_K, *answering("k", "komodor", KOMODOR, "c1"), returns("c1", WHOLE), DONE], WHOLE, True
    ),
    Scene(
        "direct, to an agent that narrates and of which nobody knows what it says",
        [
            *ASK_K,
            *answering(
                "k",
                "komodor",
                [*guessed("n", "Let me see.", agent="k", phase="narration"), *guessed("m", *TEXT, agent="k")],
                "c1",
            ),
            returns("c1", WHOLE),
            DONE,
        ],
        WHOLE,
        narration="Let me see.",
    ),
    Scene(
        "supervised, and nobody knows what a text is before its end",
        [
            *guessed("n", "I will ", "ask.", phase="narration"),
            *ASK_K,
            *lane("k", "komodor", KOMODOR, call="c1"),
            returns("c1", WHOLE),
            *guessed("m", *TEXT),
            DONE,
        ],
        WHOLE,
        narration="I will ask.",
    ),
    Scene(
        "supervised, with phases",
        [
            *says("n", "I will ask.", phase="narration"),
            *ASK_K,
            *lane("k", "komodor", says("m", "from below", agent="k"), call="c1"),
            returns("c1", "from below"),
            *says("m", *TEXT),
            DONE,
        ],
        WHOLE,
        True,
        "I will ask.",
    ),
    Scene(
        "forwarded after a narration that nobody knew to be one",
        [
            *guessed("n", "I will ask.", phase="narration"),
            *ASK_K,
            *answering("k", "komodor", KOMODOR, "c1"),
            returns("c1", WHOLE),
            DONE,
        ],
        WHOLE,
        True,
        "I will ask.",
    ),
    Scene(
        "parallel",
        [
            PARALLEL,
            *ASK_K,
            *ASK_A,
            *woven(answering("k", "komodor", KOMODOR, "c1"), answering("a", "argo", ARGO, "c2")),
            returns("c2", "3 apps"),
            returns("c1", WHOLE),
            DONE,
        ],
        f"{WHOLE}3 apps",
    ),
    Scene(
        "parallel, where the second begins when the first has said something: nobody waits",
        [PARALLEL, *LATE, ev.AgentFinished(agent="a"), *KOMODOR[3:], ev.AgentFinished(agent="k"), DONE],
        f"{WHOLE}3 apps",
    ),
    Scene(
        "parallel, where one fails after it has said something",
        [
            PARALLEL,
            *ASK_K,
            *ASK_A,
            ev.AgentStarted(agent="k", name="komodor", call_id="c1", answers=True),
            ev.AgentStarted(agent="a", name="argo", call_id="c2", answers=True),
            *woven(KOMODOR[:3], ARGO),
            ev.AgentFailed(agent="k", code="unreachable", message="gone"),
            ev.AgentFinished(agent="a"),
            returns("c1", "", error="gone"),
            returns("c2", "3 apps"),
            DONE,
        ],
        "3 apps",
    ),
    Scene(
        "a second agent that starts while the first one answers has to wait",
        [
            *LATE,
            ev.AgentFinished(agent="a"),
            *KOMODOR[3:],
            ev.AgentFinished(agent="k"),
            returns("c1", ""),
            returns("c2", ""),
            DONE,
        ],
        f"{WHOLE}3 apps",
        True,
    ),
    Scene(
        "the first of two fails after it has answered",
        [*LATE, ev.AgentFailed(agent="k", code="x", message="gone"), ev.AgentFinished(agent="a"), DONE],
        "3 apps",
        True,
        slack=f"{''.join(TEXT[:2])}3 apps3 apps",
    ),
    Scene(
        "an agent that answers for one that answers",
        [
            *answering(
                "k",
                "komodor",
                [
                    *says("m", "Below: ", agent="k"),
                    *answering("h", "helm", says("m", "ok", agent="h"), parent="k"),
                    *says("m2", ".", agent="k"),
                ],
            ),
            DONE,
        ],
        "Below: ok.",
        True,
    ),
    Scene(
        "text that nobody knows after some that is known",
        [
            *says("m1", "One. "),
            *guessed("n", "Look", phase="narration"),
            *guessed("m2", "Two. "),
            *says("m3", "Three."),
            DONE,
        ],
        "One. Two. Three.",
        True,
        "Look",
    ),
    Scene(
        "text that is known after some that nobody knew",
        [*guessed("m1", "One. "), *says("m2", "Two."), DONE],
        "One. Two.",
    ),
    Scene(
        "a direct agent that fails with the run",
        [
            *ASK_K,
            *answering("k", "komodor", KOMODOR[:4], "c1")[:-1],
            ev.AgentFailed(agent="k", code="x", message="gone"),
            ev.RunFailed(code="x", message="gone"),
        ],
        "".join(TEXT[:3]),
        True,
        end="FAILED",
    ),
    Scene(
        "supervised, failed in the middle of an answer",
        guessed("m", *TEXT)[:4],
        "".join(TEXT[:3]),
        error=SourceError("gone"),
        end="FAILED",
    ),
    Scene("failed before any text", [*ASK_K], "", error=SourceError("gone"), end="FAILED"),
    Scene("cancelled", says("m", *TEXT)[:4], "".join(TEXT[:3]), True, error=Cancelled("x"), end="CANCELED"),
    Scene(
        "interrupted after a text",
        [
            *says("m", *TEXT),
            ev.Interrupted(interrupt_id="i", reason="confirmation", message="Delete?", schema={"type": "boolean"}),
            ev.RunFinished(outcome="interrupted"),
        ],
        WHOLE,
        True,
        end="INPUT_REQUIRED",
    ),
    Scene(
        "a retry of what was shown",
        [
            *says("m1", "One. "),
            *says("m2", "Tw"),
            ev.MessageReset(message_id="m2", superseded_by="m3", reason="retry"),
            *says("m3", "Two."),
            DONE,
        ],
        "One. Two.",
        True,
        slack="One. TwOne. Two.",
    ),
    Scene("nothing but a result", [ev.RunFinished(result={"clusters": 2})], ""),
    Scene("nothing at all", [DONE], ""),
    Scene(
        "an answer and a tool call in one turn",
        [*says("m", *TEXT), *calls("c", "look", "{}", turn="m"), returns("c", "seen"), DONE],
        WHOLE,
        True,
    ),
]
every_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def entries_of(scene: Scene) -> list[Entry]:
    return logged(lawful(scene.items, scene.error))


def written(entries: Sequence[Entry], profile: Profile = OLD[0], envelope: Envelope = OLD[1]) -> list[bytes]:
    one = CaipeEncoder(profile, envelope, GIVEN)
    return [frame for entry in entries for frame in one.feed(entry)]


def heard(frames: Sequence[bytes], profile: Profile = OLD[0], envelope: Envelope = OLD[1]) -> list[StreamResponse]:
    """The frames as the official types read them."""
    return [official(frame, profile, envelope) for frame in read(frames)]


def assembled(events: Sequence[StreamResponse]) -> tuple[Web, Slack, Cli]:
    found = Web(), Slack(), Cli()
    for event in events:
        for each in found:
            each.take(event)
    return found


def told(*items: ev.Event) -> list[Piece]:
    """The artifacts of a run."""
    return [piece for event in heard(written(logged(lawful(items)))) for piece in pieces(event)]


def folded(entries: Sequence[Entry], fold: CaipeFold | None = None, given: Sequence[Message] = GIVEN) -> CaipeFold:
    fold = fold or CaipeFold()
    fold.given(given)
    for entry in entries:
        fold.feed(entry)
    return fold


# --- one answer ------------------------------------------------------------------------------------------------------


@every_scene
def test_every_client_shows_one_answer_exactly_and_how_it_ended(scene: Scene) -> None:
    for profile, envelope in DIALECTS:
        web, slack, cli = assembled(heard(written(entries_of(scene), profile, envelope), profile, envelope))
        assert (web.answer, cli.answer) == (scene.answer, scene.answer)
        assert slack.answer == (scene.answer if scene.slack is None else scene.slack)
        assert web.states == ["SUBMITTED", "WORKING", scene.end]
        assert bool(web.bubble) is scene.live
        assert scene.narration in "".join(web.thinking.values())
        assert (cli.form is not None) is (scene.end == "INPUT_REQUIRED")
        assert "error_result" not in web.names and "complete_result" not in web.names


@every_scene
def test_who_comes_in_at_any_place_shows_the_same_answer(scene: Scene) -> None:
    entries = entries_of(scene)
    for seen in range(1, len(entries)):
        one = CaipeEncoder(*OLD)
        snapshot = Snapshot(one, folded([]), *OLD)
        snapshot.feed(entries[:seen])
        frames = [*snapshot.frames(), *(frame for entry in entries[seen:] for frame in one.feed(entry))]
        web, slack, cli = assembled(heard(frames))
        assert (web.answer, cli.answer) == (scene.answer, scene.answer), seen
        assert scene.slack is not None or slack.answer == scene.answer, seen


@every_scene
def test_an_encoder_goes_on_from_its_state_after_any_entry_as_if_it_had_never_stopped(scene: Scene) -> None:
    assert_restorable(entries_of(scene))


@every_case
def test_every_case_can_be_gone_on_with_anywhere_and_gives_one_answer(case: Case) -> None:
    events = lawful(case.items)
    entries = logged(events)
    assert_restorable(entries)
    web, _, cli = assembled(heard(written(entries)))
    assert web.answer == cli.answer
    end = events[-1]
    if isinstance(end, ev.RunFinished) and end.answer:
        ids = {*end.answer.message_ids}
        deltas = [event for event in events if isinstance(event, ev.TextDelta) and event.message_id in ids]
        texts = {id: "".join(event.delta for event in deltas if event.message_id == id) for id in ids}
        parts = any(isinstance(event, ev.PartAdded) and event.part.kind == "text" for event in events)
        assert parts or cli.answer == "".join(texts[id] for id in end.answer.message_ids)


def assert_restorable(entries: Sequence[Entry]) -> None:
    for profile, envelope in DIALECTS:
        one = CaipeEncoder(profile, envelope, GIVEN)
        told = [(one.state(), one.feed(entry)) for entry in entries]
        ids = [frame.id for _, frames in told for frame in read(frames)]
        assert len({*ids}) == len(ids)
        for seen in range(1, len(entries)):
            heir = CaipeEncoder.restored(profile, envelope, told[seen][0])
            assert heir is not None
            for entry, (state, frames) in zip(entries[seen:], told[seen:], strict=True):
                assert heir.state() == state, (seen, entry)
                assert heir.feed(entry) == frames, (seen, entry)
            assert heir.ended and not heir.close()


@every_scene
def test_a_task_is_what_a_client_holds_after_each_entry(scene: Scene) -> None:
    client, fold, one = Client(), folded([]), CaipeEncoder(Profile("1.0", caipe=True), BARE, GIVEN)
    for entry in entries_of(scene):
        for event in heard(one.feed(entry), Profile("1.0", caipe=True), BARE):
            client.take(event)
        fold.feed(entry)
        assert holding(fold.task(Profile("1.0", caipe=True))) == client.holds(), entry


@every_scene
def test_our_own_client_of_such_agents_reads_the_answer_out_of_it(scene: Scene) -> None:
    translator, grammar = A2ATranslator("peer"), Grammar()
    events = grammar.feed(START)
    for frame in written(entries_of(scene)):
        line = frame.split(b"data: ", 1)[1].strip()
        events += [event for item in translator.feed(line) for event in grammar.feed(item)]
    assert grammar.ended
    if scene.end == "COMPLETED" and scene.slack is None and scene.answer:
        shown: dict[str, str] = {}
        for event in events:
            if isinstance(event, ev.TextDelta):
                shown[event.message_id] = shown.get(event.message_id, "") + event.delta
        assert scene.answer in "".join(shown.values())


@pytest.mark.parametrize("seed", range(20))
def test_how_a_text_is_cut_changes_nothing(seed: int) -> None:
    cut = 1 + seed % 7
    deltas = [WHOLE[at : at + cut] for at in range(0, len(WHOLE), cut)]
    for items in (says("m", *deltas), guessed("m", *deltas)):
        web, slack, cli = assembled(heard(written(logged(lawful([*items, DONE])))))
        assert web.answer == slack.answer == cli.answer == WHOLE


# --- in so many words ------------------------------------------------------------------------------------------------


def test_the_answer_is_one_artifact_that_begins_once_and_is_not_closed() -> None:
    events = heard(written(entries_of(SCENES[0])))
    updates = [event.artifact_update for event in events if event.WhichOneof("payload") == "artifact_update"]
    stream = [update for update in updates if update.artifact.name == "streaming_result"]
    assert len({update.artifact.artifact_id for update in stream}) == 1
    assert [update.append for update in stream] == [False] + [True] * (len(TEXT) - 1)
    assert not any(update.last_chunk for update in stream)
    [final] = [update for update in updates if update.artifact.name == "final_result"]
    assert final.last_chunk and not final.append


def test_whose_text_it_is_says_the_metadata() -> None:
    found = told(
        ev.AgentStarted(agent="k", name="komodor"),
        *says("m", "below", agent="k"),
        ev.AgentFinished(agent="k"),
        *says("m", "above"),
        DONE,
    )
    below, closed, above, final = found
    assert below.about == {"sourceAgent": "komodor", "agentType": "sub-agent", "is_narration": True}
    assert (closed.id, closed.text, closed.append) == (below.id, "", True)
    assert above.about == {"sourceAgent": "supervisor", "is_final_answer": True}
    assert (final.name, final.text, final.about) == ("final_result", "above", {"sourceAgent": "supervisor"})


def test_tool_calls_are_notifications_with_their_tool_and_how_they_ended() -> None:
    items = [
        *calls("c1", "ask_komodor", "{}"),
        ev.AgentStarted(agent="k", name="komodor", call_id="c1"),
        *calls("c2", "list_pods", "{}", agent="k"),
        returns("c2", "", agent="k", error="timeout"),
        ev.AgentFinished(agent="k"),
        returns("c1", "none"),
        DONE,
    ]
    found = [piece for piece in told(*items) if piece.name.startswith("tool_")]
    assert [(piece.name, piece.text) for piece in found] == [
        ("tool_notification_start", "Supervisor: Calling Agent Komodor...\n"),
        ("tool_notification_start", "Komodor: Calling tool: List_Pods\n"),
        ("tool_notification_end", "Komodor: Tool List_Pods failed: error: timeout\n"),
        ("tool_notification_end", "Supervisor: Agent task Komodor completed\n"),
    ]
    assert len({piece.id for piece in found}) == 4 and not any(piece.append for piece in found)
    about = {"sourceAgent": "komodor", "agentType": "notification", "tool_name": "list_pods"}
    assert about.items() <= found[1].about.items()
    updates = [event.artifact_update.artifact for event in heard(written(logged(lawful(items))))]
    assert [made.description for made in updates if made.name.startswith("tool_")] == [
        "Tool call started: ask_komodor",
        "Tool call started: list_pods",
        "Tool call completed: list_pods",
        "Tool call completed: ask_komodor",
    ]


def planned(*patch: dict[str, Any]) -> ev.Event:
    return ev.ActivityDelta(activity_id="plan", kind="plan", patch=list(patch))


def todo(content: str, status: str) -> dict[str, Any]:
    return {"content": content, "status": status}


def test_a_plan_is_told_whole_once_it_is_written_and_then_with_each_change() -> None:
    found = told(
        *calls("c1", "write_todos")[:1],
        ev.ActivitySnapshot(activity_id="plan", kind="plan", content={"todos": [{"content": "Lo"}]}),
        planned({"op": "replace", "path": "/todos/0/content", "value": "Look"}),
        planned({"op": "add", "path": "/todos/0/status", "value": "in_progress"}),
        planned({"op": "add", "path": "/todos/1", "value": todo("Tell", "pending")}),
        ev.ToolCallFinished(call_id="c1"),
        returns("c1", "ok"),
        planned({"op": "replace", "path": "/todos", "value": [todo("Look", "in_progress"), todo("Tell", "pending")]}),
        planned({"op": "replace", "path": "/todos", "value": [todo("Look", "completed"), todo("Tell", "in_progress")]}),
        *calls("c2", "look"),
        planned({"op": "test", "path": "/todos", "value": 1}),
        planned({"op": "remove", "path": "/todos/1"}),
        DONE,
    )
    plans = [piece for piece in found if piece.name.startswith("execution_plan")]
    assert [piece.name for piece in plans] == [
        "execution_plan_update",
        "execution_plan_status_update",
        "execution_plan_update",
    ]
    assert len({piece.id for piece in plans}) == 1 and not any(piece.append for piece in plans)
    look = {"step_id": "step-1", "title": "Look", "agent": "supervisor", "order": 0}
    tell = {"step_id": "step-2", "title": "Tell", "agent": "supervisor", "order": 1}
    assert [piece.data["steps"] for piece in plans] == [
        [look | {"status": "in_progress"}, tell | {"status": "pending"}],
        [look | {"status": "completed"}, tell | {"status": "in_progress"}],
        [look | {"status": "completed"}],
    ]
    [started] = [piece for piece in found if piece.about.get("tool_name") == "look" and piece.name.endswith("start")]
    assert started.about["plan_step_id"] == "step-2"


def test_a_question_is_a_form_and_then_the_end_of_the_stream() -> None:
    schema = {"properties": {"name": {"type": "string", "description": "Which?"}, "sure": {"type": "boolean"}}}
    events = heard(
        written(
            logged(
                lawful(
                    [
                        ev.Interrupted(interrupt_id="i", reason="auth_required", message="Which one?", schema=schema),
                        ev.RunFinished(outcome="interrupted"),
                    ]
                )
            )
        )
    )
    web, _, cli = assembled(events)
    assert web.states[-1] == "INPUT_REQUIRED" and web.names == ["UserInputMetaData"]
    assert cli.form == {
        "user_input": True,
        "input_title": "Input required",
        "input_description": "Which one?",
        "input_fields": [
            {"field_name": "name", "field_description": "Which?", "field_values": None},
            {"field_name": "sure", "field_description": "sure", "field_values": ["yes", "no"]},
        ],
        "response": "Which one?",
    }


def test_files_and_data_of_an_answer_are_in_its_stream_and_in_its_result() -> None:
    file = ev.Part(kind="file", url="https://x.test/a.pdf", mime_type="application/pdf")
    data = ev.Part(kind="json", data={"n": 1})
    start, first, end = says("m", "See ")
    added = [ev.PartAdded(message_id="m", part=part) for part in (file, ev.Part(kind="text", text="it."), data)]
    events = heard(written(logged(lawful([start, first, *added, end, ev.RunFinished(result=[1])]))))
    made = [event.artifact_update.artifact for event in events if event.WhichOneof("payload") == "artifact_update"]
    kinds = [part.WhichOneof("content") for part in made[-1].parts]
    assert kinds == ["text", "url", "data", "data"] and made[-1].parts[0].text == "See it."
    assert [part.WhichOneof("content") for piece in made[:-1] for part in piece.parts] == [
        "text",
        "url",
        "text",
        "data",
    ]


def test_what_a_new_owner_voids_is_taken_back_and_its_calls_end() -> None:
    grammar = Grammar()
    items = [START, *says("m1", "One. "), *says("m2", "Two"), *calls("c", "look", "{}", turn="m2")]
    shown = [event for item in items for event in grammar.feed(item)]
    second = [event.message_id for event in shown if isinstance(event, ev.MessageStarted)][1]
    call = next(event.call_id for event in shown if isinstance(event, ev.ToolCallStarted))
    resumed = ev.RunResumed(epoch=2, voided_message_ids=(second,), voided_call_ids=(call,))
    web, _, _ = assembled(heard(written(logged([*shown, resumed]))))
    assert web.answer == "One. " and web.names[-2:] == ["tool_notification_end", "streaming_result"]


def test_a_task_that_goes_on_has_the_answer_of_its_newest_run_alone() -> None:
    first = entries_of(next(scene for scene in SCENES if scene.end == "INPUT_REQUIRED"))
    start = ev.RunStarted(run_id="run-2", thread_id="thread-1", task_id="run-1", continues="run-1")
    grammar = Grammar()
    second = logged([event for item in (start, *says("m", "Deleted."), DONE) for event in grammar.feed(item)])
    fold = folded(first)
    assert [question.message for question in fold.asked.values()] == ["Delete?"]
    before = fold.task(Profile("1.0", caipe=True))
    one = CaipeEncoder(*OLD, [Message(id="u2", role="user", content="yes")], before)
    web, slack, cli = assembled(heard([frame for entry in second for frame in one.feed(entry)]))
    assert web.answer == slack.answer == cli.answer == "Deleted."
    folded(second, fold, [])
    task = fold.task(Profile("1.0", caipe=True))
    assert {made["artifactId"].rpartition(":")[0] for made in task["artifacts"]} == {"run-2"}
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_state_is_of_readers_of_this_profile_alone() -> None:
    names = {reader(profile) for profile, _ in DIALECTS}
    assert len(names) == 1 and names.isdisjoint({reader(Profile()), reader(Profile(attributed=True))})
    assert CaipeEncoder.restored(*OLD, b"{}") is None


def test_a_state_keeps_nothing_of_texts_that_are_no_answer() -> None:
    one = CaipeEncoder(*OLD)
    said = [item for n in range(100) for item in guessed(f"m{n}", "x" * 100, phase="narration")]
    for entry in logged(
        [START, *[event for event in lawful([*said, DONE]) if not isinstance(event, ev.RunStarted)]][:-1]
    ):
        one.feed(entry)
    assert len(one.state()) < 4000


def test_what_cannot_be_written_ends_the_stream_with_an_error() -> None:
    events = [START, ev.MessageStarted(message_id="m", phase="answer"), ev.TextDelta(message_id="m", delta="\ud83d")]
    one = CaipeEncoder(*OLD)
    frames = [frame for entry in logged(events[:2]) for frame in one.feed(entry)]
    frames += one.feed(Entry(3, 1, 0, events[2]))
    assert one.ended and b"event: error" in frames[-1]
