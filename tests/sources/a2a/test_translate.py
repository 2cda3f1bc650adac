"""What becomes of a remote agent's items: whole, and cut after each of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referee import judged

from anabranch import events as ev
from anabranch.errors import SourceError
from anabranch.grammar import Grammar
from anabranch.sources.a2a import A2ATranslator

from ._cases import (
    CASES,
    DONE,
    ERROR,
    IDS,
    TASK,
    Case,
    artifact,
    error,
    in_old_words,
    result,
    says,
    status,
    thinks,
    tokens,
)

BROKEN = SourceError("The agent closed the connection.", code="agent_disconnected", retryable=True)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class Run:
    """Items through a translator and the grammar."""

    def __init__(self, items: Iterable[bytes]) -> None:
        self.translator = A2ATranslator("komodor")
        self.grammar = Grammar()
        self.events = self.grammar.feed(ev.RunStarted(run_id="r", thread_id="t"))
        for item in items:
            self._take(self.translator.feed(item))

    def _take(self, events: Iterable[ev.Event]) -> None:
        for event in events:
            self.events += self.grammar.feed(event)

    def close(self, error: BaseException | None = None) -> Run:
        self._take(self.translator.close(error))
        self.events += self.grammar.close(error)
        judged(self.events)
        return self

    @property
    def end(self) -> str:
        last = self.events[-1]
        assert isinstance(last, ev.Terminal)
        return last.code if isinstance(last, ev.RunFailed) else last.outcome

    def all(self, *kinds: type[ev.Event]) -> list[ev.Event]:
        return [event for event in self.events if isinstance(event, kinds)]

    def texts(self) -> dict[str, str]:
        """The text of each message, by its local id, void or not."""
        local = {event.message_id: event.origin_id for event in self.all(ev.MessageStarted)}
        texts = dict.fromkeys(local.values(), "")
        for event in self.all(ev.TextDelta):
            texts[local[event.message_id]] += event.delta
        return texts

    def messages(self) -> list[tuple[str, str]]:
        """Phase and text of each message that is not void; the phase that its end confirmed, if it says one."""
        void = {event.message_id for event in self.all(ev.MessageReset)}
        phases = {event.message_id: event.phase for event in self.all(ev.MessageFinished)}
        texts = self.texts()
        return [
            (phases[event.message_id], texts[event.origin_id])
            for event in self.all(ev.MessageStarted)
            if event.message_id not in void
        ]


@every_case
def test_a_stream_gives_its_messages_its_parts_and_its_end_and_nothing_to_mend(case: Case) -> None:
    run = Run(case.items).close()
    assert run.messages() == case.messages
    assert [event.part for event in run.all(ev.PartAdded)] == case.parts
    assert run.end == case.end
    assert run.grammar.repairs == {}


@every_case
def test_an_agent_of_the_older_version_is_understood_as_well(case: Case) -> None:
    run, old = Run(case.items).close(), Run(map(in_old_words, case.items)).close()
    assert old.events == run.events
    assert old.translator.remote == run.translator.remote


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ({"id": "t", "contextId": "c", "status": {"state": "completed"}}, "success"),
        ({"taskId": "t", "contextId": "c", "status": {"state": "input_required"}}, "interrupted"),
        ({"messageId": "m", "role": "agent", "parts": [{"type": "text", "text": "Hi"}]}, "success"),
    ],
    ids=["task", "status", "message"],
)
def test_an_older_agent_need_not_say_what_a_result_is(result: dict[str, Any], kind: str) -> None:
    assert Run([json.dumps({"result": result}).encode()]).close().end == kind


@every_case
def test_the_returned_text_is_that_of_the_answer(case: Case) -> None:
    translator = Run(case.items).close().translator
    assert translator.text == "".join(text for phase, text in case.messages if phase == "answer")


@every_case
@pytest.mark.parametrize("error", [None, BROKEN], ids=["ended", "broken"])
def test_wherever_a_stream_is_cut_one_end_comes_last_and_partial_text_stays(
    case: Case, error: SourceError | None
) -> None:
    full = Run(case.items).close().texts()
    for cut in range(len(case.items)):
        before = Run(case.items[:cut])
        ended, shown = before.grammar.ended, before.texts()
        run = before.close(error)
        assert sum(isinstance(event, ev.Terminal) for event in run.events) == 1
        assert run.texts() == shown
        assert all(full[id].startswith(text) for id, text in shown.items())
        if not ended:
            only_messages = error is None and cut and all(b'"message": {"messageId"' in item for item in case.items)
            assert run.end == ("success" if only_messages else "agent_disconnected" if error else "no_end")


@every_case
def test_the_same_items_give_the_same_events(case: Case) -> None:
    assert Run(case.items).close().events == Run(case.items).close().events


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            [TASK, status("FAILED", says("the cluster is gone,\n password=hunter2"))],
            "the cluster is gone, password=***",
        ),
        ([TASK, status("FAILED")], "The agent komodor failed and did not say why."),
        ([TASK, status("REJECTED")], "The agent komodor refused the task and did not say why."),
        ([ERROR], "The agent komodor answered with error -32603: it broke token=***"),
        ([error(-32602, "bad params")], "The agent komodor answered with error -32602: bad params"),
        ([], "The agent komodor's stream ended without an answer."),
        ([TASK, *tokens("a")], "The agent komodor's stream ended before its task did."),
        ([b"{"], "The agent komodor sent something that is not a JSON-RPC response."),
    ],
)
def test_a_failure_says_in_the_agents_words_or_ours_what_happened_and_no_secret(
    items: list[bytes], message: str
) -> None:
    # Without the grammar: what a delegate does with a failure is not scrubbed again by it.
    translator = A2ATranslator("komodor")
    events = [event for item in items for event in translator.feed(item)] + [*translator.close(None)]
    assert [event.message for event in events if isinstance(event, ev.RunFailed)] == [message]


def noting(retryable: Any, *, old: bool) -> bytes:
    """The end of a task that failed, with what an agent of our own kind notes about it."""
    said = {"messageId": "m", "role": "agent" if old else "ROLE_AGENT", "parts": [{"kind": "text", "text": "lost"}]}
    said["metadata"] = {"anabranch": {"code": "replica_lost", "side": "server", "retryable": retryable}}
    update = {
        "taskId": "t",
        "contextId": "c",
        "status": {"state": "failed" if old else "TASK_STATE_FAILED", "message": said},
    }
    result = update | {"kind": "status-update", "final": True} if old else {"statusUpdate": update}
    return json.dumps({"jsonrpc": "2.0", "id": "1", "result": result}).encode()


def explained(retryable: Any) -> bytes:
    """An error of JSON-RPC with what our server says beside it."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "UNAVAILABLE", "metadata": retryable}
    return json.dumps({"id": "1", "error": {"code": -32603, "message": "lost", "data": ["x", info]}}).encode()


@pytest.mark.parametrize(
    ("item", "retryable"),
    [
        *((noting(said, old=old), said is True) for old in (False, True) for said in (True, False, "true", None)),
        (explained({"retryable": "true"}), True),
        (explained({"code": "x"}), False),
        (explained("true"), False),
        (status("FAILED", says("lost")), False),
    ],
)
def test_a_failure_can_be_tried_again_where_an_agent_of_our_own_kind_says_so(item: bytes, retryable: bool) -> None:
    [failed] = [event for event in A2ATranslator("komodor").feed(item) if isinstance(event, ev.RunFailed)]
    assert (failed.code, failed.retryable) == ("agent_failed", retryable), "the code is for who asks for authors"


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32004, -32005, -32009])
def test_an_error_that_blames_the_request_is_one_of_the_protocol(code: int) -> None:
    assert Run([error(code, "no")]).close().end == "agent_protocol"


def test_a_replaced_text_is_void_and_names_what_takes_its_place() -> None:
    run = Run([TASK, *tokens("dra", "ft"), artifact("final"), DONE]).close()
    draft, final = run.all(ev.MessageStarted)
    (reset,) = run.all(ev.MessageReset)
    assert (reset.message_id, reset.superseded_by) == (draft.message_id, final.message_id)
    assert run.texts()[draft.origin_id] == "draft"


def test_text_is_shown_before_its_message_or_its_task_is_over() -> None:
    translator = A2ATranslator()
    for items, new in ((tokens("a", "b"), "ab"), (thinks("c", "d"), "cd")):
        shown = [event for item in items for event in translator.feed(item)]
        assert "".join(event.delta for event in shown if isinstance(event, ev.TextDelta)) == new
        assert not any(isinstance(event, ev.MessageFinished) for event in shown)


@pytest.mark.parametrize(
    ("state", "reason"), [("INPUT_REQUIRED", "input_required"), ("AUTH_REQUIRED", "auth_required")]
)
def test_a_question_names_its_remote_task_and_carries_its_form(state: str, reason: str) -> None:
    form = {"fields": ["cluster"]}
    run = Run([TASK, status(state, says("Which one?", {"data": form}, id="q1"))]).close()
    (asked,) = run.all(ev.Interrupted)
    assert (asked.reason, asked.message, asked.origin_id) == (reason, "Which one?", "q1")
    assert asked.remote == ev.Remote(task_id="t", context_id="c")
    assert asked.metadata == {"data": [form]}
    assert run.events[-1].interrupt_ids == (asked.interrupt_id,)


@pytest.mark.parametrize("first", [TASK, status("WORKING"), artifact("a"), result(message=says("a") | IDS)])
def test_the_remote_task_is_known_from_the_first_item_that_names_it(first: bytes) -> None:
    translator = A2ATranslator()
    assert translator.remote == ev.Remote()
    list(translator.feed(first))
    assert translator.remote == ev.Remote(task_id="t", context_id="c")


def test_the_returned_text_leaves_out_what_became_void_and_what_is_beside_the_answer() -> None:
    run = Run([TASK, *thinks("looking"), *tokens("draft"), artifact("Fin"), artifact("al", append=True)])
    assert run.translator.text == "Final"
    assert run.translator.parts == ()


def test_the_returned_parts_are_those_of_the_answer() -> None:
    run = Run([TASK, artifact({"data": 1}, name="execution_plan_update", id="p"), artifact({"data": 2}), DONE])
    assert run.translator.parts == (ev.Part(kind="json", data=2),)


def test_half_a_character_in_one_piece_and_half_in_the_next_is_one_character() -> None:
    run = Run([TASK, *tokens("\ud83d", "\ude80", "\ud83d!"), DONE]).close()
    assert run.messages() == [("answer", "🚀\ufffd!")]
    assert run.translator.text == "🚀\ufffd!"


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert Run([TASK, artifact("a?").replace(b"?", b"\xff"), DONE]).close().messages() == [("answer", "a\ufffd")]


PIECES = st.lists(st.text(st.sampled_from("ab \r\n🚀é"), min_size=1, max_size=3), min_size=1, max_size=8)


@settings(deadline=None, database=None)
@given(
    PIECES, st.sampled_from(["pieces", "grows", "status", "status, artifact", "pieces, end", "status, end", "CAIPE"])
)
def test_however_the_text_is_cut_and_told_it_is_read_once_and_exactly(pieces: list[str], way: str) -> None:
    text = "".join(pieces)
    told = {
        "pieces": [*tokens(*pieces), DONE],
        "grows": [*(artifact("".join(pieces[: n + 1])) for n in range(len(pieces))), DONE],
        "status": [*thinks(*pieces), DONE],
        "status, artifact": [*thinks(*pieces), artifact(text, lastChunk=True), DONE],
        "pieces, end": [*tokens(*pieces), status("COMPLETED", says(text))],
        "status, end": [*thinks(*pieces), status("COMPLETED", says(text))],
        "CAIPE": [*tokens(*pieces, id="s"), artifact(text, id="r", name="complete_result"), DONE],
    }
    run = Run([TASK, *told[way]]).close()
    assert run.messages() == [("answer", text)]
    assert run.translator.text == text
