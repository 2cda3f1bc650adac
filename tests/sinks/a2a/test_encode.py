"""Every scenario as A2A: whole, cut anywhere, ended in any way, resumed anywhere, for every kind of client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import httpx
import msgspec
import pytest
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import AgentCapabilities, AgentCard, SendMessageRequest, StreamResponse
from cases import CASES, Case
from test_cases import runs

from anabranch import events as ev
from anabranch.errors import SourceError
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.sinks.a2a.encode import A2aEncoder, Envelope, reader
from anabranch.sinks.a2a.profile import EXTENSION, Profile
from anabranch.sources.a2a import A2ATranslator
from sinks.a2a.reading import (
    ATTRIBUTED,
    BARE,
    DIALECTS,
    PLAIN,
    RPC,
    Client,
    encoder,
    ended,
    read,
    reading,
    responses,
    written,
)
from sinks.watching import AT_MS, START, lawful, logged

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def texts(events: Iterable[ev.Event]) -> dict[str, tuple[str, str]]:
    """The author, and the text, of each message that a run ended with."""
    authors: dict[str, str] = {}
    said: dict[str, str] = {}
    for event in events:
        if isinstance(event, ev.MessageStarted) and event.role not in ("user", "system", "developer"):
            authors[event.message_id] = event.agent
        elif isinstance(event, ev.TextDelta) and event.message_id in authors:
            said[event.message_id] = said.get(event.message_id, "") + event.delta
        elif isinstance(event, ev.PartAdded) and event.part.kind == "text" and event.message_id in authors:
            said[event.message_id] = said.get(event.message_id, "") + event.part.text
        elif isinstance(event, ev.MessageReset):
            said.pop(event.message_id, None)
        elif isinstance(event, ev.RunResumed):
            for id in event.voided_message_ids:
                said.pop(id, None)
    return {id: (authors[id], text) for id, text in said.items() if text}


def artifact_texts(client: Client) -> dict[str, str]:
    """What a client reads in each artifact."""
    held = {id: artifact["parts"] for id, artifact in client.holds()["artifacts"].items()}
    read = {id: "".join(part if isinstance(part, str) else part.get("text", "") for part in held[id]) for id in held}
    return {id: text for id, text in read.items() if text}


def assert_ended(client: Client, end: ev.Event) -> None:
    """Once, and as the run did."""
    [said] = client.ended
    assert isinstance(end, ev.Terminal)
    if isinstance(end, ev.RunFailed):
        assert (said, client.task.status.message.parts[0].text) == ("FAILED", end.message)
    elif end.outcome == "interrupted":
        assert said in ("INPUT_REQUIRED", "AUTH_REQUIRED")
    else:
        assert said == {"success": "COMPLETED", "cancelled": "CANCELED"}[end.outcome]


@every_case
def test_a_plain_client_reads_the_root_agents_text_and_the_end_wherever_a_case_is_cut(case: Case) -> None:
    for name, _, events in runs(case):
        client = reading(written(logged(events)))
        assert artifact_texts(client) == {id: text for id, (agent, text) in texts(events).items() if not agent}, name
        assert_ended(client, events[-1])


@every_case
def test_a_client_that_asked_reads_every_text_with_its_author_and_the_tree_of_agents(case: Case) -> None:
    for name, _, events in runs(case):
        client = reading(written(logged(events), ATTRIBUTED), ATTRIBUTED)
        assert_ended(client, events[-1])
        holds, read = client.holds(), artifact_texts(client)
        about = {id: artifact["metadata"][EXTENSION] for id, artifact in holds["artifacts"].items()}
        messages = {id for id, told in about.items() if told["kind"] == "message" and "role" not in told}
        authored = {id: (about[id].get("agent", {}).get("id", ""), read[id]) for id in messages & read.keys()}
        assert authored == texts(events), name
        tree = {agent["id"]: agent for agent in holds["metadata"].get(EXTENSION, {}).get("agents", ())}
        assert tree == agents(events), name
        for told in about.values():
            agent = told.get("agent")
            assert agent is None or agent.items() <= tree[agent["id"]].items(), name


def agents(events: Iterable[ev.Event]) -> dict[str, Any]:
    """What there is to say of each sub-agent in the end."""
    tree: dict[str, Any] = {}
    for event in events:
        if isinstance(event, ev.AgentStarted):
            said = {"id": event.agent, "name": event.name, "parent": event.parent, "callId": event.call_id}
            tree[event.agent] = said | {"continues": event.continues}
        elif isinstance(event, ev.AgentFinished):
            tree[event.agent]["outcome"] = event.outcome
        elif isinstance(event, ev.AgentFailed):
            tree[event.agent] |= {"outcome": "failed", "code": event.code, "message": event.message}
    return {id: {name: value for name, value in said.items() if value} for id, said in tree.items()}


@every_case
def test_calls_results_and_reasoning_are_artifacts_of_their_own_for_who_asked(case: Case) -> None:
    events = lawful(case.items)
    holds = reading(written(logged(events), ATTRIBUTED), ATTRIBUTED).holds()["artifacts"]
    made: dict[str, str] = {}
    for event in events:
        if isinstance(event, ev.ToolArgsDelta):
            made[event.call_id] = made.get(event.call_id, "") + event.delta
        elif isinstance(event, ev.ReasoningDelta):
            made[event.reasoning_id] = made.get(event.reasoning_id, "") + event.delta
    void = {id for event in events if isinstance(event, ev.RunResumed) for id in event.voided_call_ids}
    for id in made.keys() - void:
        assert holds[id]["parts"] == [made[id]]
        assert holds[id]["metadata"][EXTENSION]["kind"] in ("tool_call", "reasoning")
    returned = [event for event in events if isinstance(event, ev.ToolReturned) and event.call_id not in void]
    for event in returned:
        told = holds[f"{event.call_id}:result"]["metadata"][EXTENSION]
        assert (told["kind"], told["callId"]) == ("tool_result", event.call_id)
        assert told.get("isError", False) is event.is_error


@every_case
def test_every_dialect_says_the_same_as_plain_1_0_over_rest(case: Case) -> None:
    entries = logged(lawful(case.items))
    said: dict[bool, Sequence[StreamResponse]] = {}
    for profile, envelope in DIALECTS:
        heard = responses(written(entries, profile, envelope), profile, envelope)
        assert said.setdefault(profile.attributed, heard) == heard, (profile, envelope)


@every_case
def test_a_cursor_is_unique_and_in_the_metadata_and_the_same_in_every_dialect(case: Case) -> None:
    entries = logged(lawful(case.items))
    known: dict[bool, list[str]] = {}
    for profile, envelope in DIALECTS:
        frames = read(written(entries, profile, envelope))
        ids = [frame.id for frame in frames]
        assert len({*ids}) == len(ids)
        assert known.setdefault(profile.attributed, ids) == ids
        for frame in frames:
            said = frame.said if envelope.id is None else frame.said["result"]
            body = said if profile.version == "0.3" and envelope.id is not None else next(iter(said.values()))
            assert body["metadata"]["anabranch"]["cursor"] == frame.id


@every_case
def test_an_encoder_goes_on_from_its_state_after_any_entry_as_if_it_had_never_stopped(case: Case) -> None:
    entries = logged(lawful(case.items))
    for profile, envelope in DIALECTS:
        one = encoder(profile, envelope)
        told = [(one.state(), one.feed(entry)) for entry in entries]
        for seen in range(1, len(entries)):
            heir = A2aEncoder.restored(profile, envelope, told[seen][0])
            assert heir is not None
            for entry, (state, frames) in zip(entries[seen:], told[seen:], strict=True):
                assert heir.state() == state, (seen, entry)
                assert heir.feed(entry) == frames, (seen, entry)
            assert heir.ended and not heir.close()
        last = A2aEncoder.restored(profile, envelope, one.state())
        assert last is not None and last.ended


@every_case
def test_another_server_of_ours_relays_a_stream_exactly(case: Case) -> None:
    events = lawful(case.items)
    translator, grammar = A2ATranslator("peer"), Grammar()
    relayed = grammar.feed(START)
    for frame in read(written(logged(events), PLAIN, RPC)):
        for event in translator.feed(msgspec.json.encode(frame.said)):
            relayed += grammar.feed(event)
    assert grammar.ended
    own = [text for agent, text in texts(events).values() if not agent]
    assert "".join(text for _, text in texts(relayed).values()) == "".join(own)
    ends = [events[-1], relayed[-1]]
    assert len({end.outcome if isinstance(end, ev.RunFinished) else type(end) for end in ends}) == 1


# --- what is written, in so many words -------------------------------------------------------------------------------


def told(*items: ev.Event, profile: Profile = PLAIN) -> list[Any]:
    """What is said of a source's items, after the Task and WORKING, without cursors."""
    frames = read(written(logged(lawful(items)), profile))[2:]
    said = [next(iter(frame.said.values())) for frame in frames]
    for body in said:
        body["metadata"].get("anabranch", {}).pop("cursor")
    return said


def parts_of(*added: ev.Part) -> list[Any]:
    """Parts of a message as parts of its artifact."""
    items = [ev.MessageStarted(message_id="m"), *(ev.PartAdded(message_id="m", part=part) for part in added)]
    said = told(*items, ev.RunFinished())[: len(added)]
    assert [body.get("append", False) for body in said] == [False] + [True] * (len(added) - 1)
    return [part for body in said for part in body["artifact"]["parts"]]


def test_a_stream_begins_with_the_task_that_holds_what_was_asked() -> None:
    task, working = read(written(logged([START])))
    where = {"taskId": "run-1", "contextId": "thread-1"}
    at = "2023-11-14T22:13:20.001Z"
    question = {"messageId": "u1", "role": "ROLE_USER", **where, "parts": [{"text": "How many clusters?"}]}
    assert task.said == {
        "task": {
            "id": "run-1",
            "contextId": "thread-1",
            "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": at},
            "history": [question],
            "metadata": {"anabranch": {"cursor": "run-1:1.0"}},
        }
    }
    update = {"status": {"state": "TASK_STATE_WORKING", "timestamp": at}}
    assert working.said == {"statusUpdate": where | update | {"metadata": {"anabranch": {"cursor": "run-1:1.1"}}}}


def test_a_message_is_an_artifact_that_begins_grows_and_ends() -> None:
    first, second, last, _ = told(
        ev.MessageStarted(message_id="m", phase="answer"),
        ev.TextDelta(message_id="m", delta="a\r\n\u2028"),
        ev.TextDelta(message_id="m", delta='"\N{ROCKET}'),
        ev.MessageFinished(message_id="m", finish_reason="stop"),
        ev.RunFinished(),
    )
    assert "append" not in first and "lastChunk" not in first
    assert first["artifact"]["parts"] == [{"text": "a\r\n\u2028"}]
    assert first["artifact"]["metadata"] == {"anabranch": {"phase": "answer"}}
    assert second["append"] is True and "lastChunk" not in second
    assert second["artifact"] == {"artifactId": "run-1:1", "parts": [{"text": '"\N{ROCKET}'}]}
    assert (last["append"], last["lastChunk"], last["artifact"]["parts"]) == (True, True, [{"text": ""}])
    assert last["artifact"]["metadata"] == {"anabranch": {"phase": "answer", "finishReason": "stop"}}


def test_a_message_that_says_nothing_is_no_artifact() -> None:
    empty = ev.PartAdded(message_id="m", part=ev.Part(kind="text"))
    said = [ev.MessageStarted(message_id="m"), empty, ev.MessageFinished(message_id="m")]
    assert [body["status"]["state"] for body in told(*said, ev.RunFinished())] == ["TASK_STATE_COMPLETED"]


def test_a_message_that_is_replaced_is_emptied_and_the_retry_is_another_artifact() -> None:
    said = told(
        ev.MessageStarted(message_id="m"),
        ev.TextDelta(message_id="m", delta="Two"),
        ev.MessageFinished(message_id="m"),
        ev.MessageReset(message_id="m", superseded_by="n", reason="retry"),
        ev.MessageStarted(message_id="n"),
        ev.TextDelta(message_id="n", delta="Three"),
        ev.RunFinished(),
    )
    void, retry = said[2:4]
    assert "append" not in void and void["lastChunk"] is True
    about = {"void": True, "supersededBy": retry["artifact"]["artifactId"], "reason": "retry"}
    assert void["artifact"] == {
        "artifactId": said[0]["artifact"]["artifactId"],
        "metadata": {"anabranch": about},
        "parts": [{"text": ""}],
    }
    assert retry["artifact"]["parts"] == [{"text": "Three"}] and "append" not in retry


def test_what_a_new_owner_voids_is_emptied_once_with_all_that_came_of_it() -> None:
    items = [
        *[
            ev.MessageStarted(message_id="m"),
            ev.TextDelta(message_id="m", delta="Two"),
            ev.MessageFinished(message_id="m"),
        ],
        ev.MessageReset(message_id="m", superseded_by=""),
        ev.ToolCallStarted(call_id="c", name="logs"),
        ev.ToolCallFinished(call_id="c"),
        ev.ToolOutputDelta(call_id="c", content="line 1"),
        ev.ToolReturned(call_id="c", content="ok"),
    ]
    grammar = Grammar()
    shown = [event for item in (START, *items) for event in grammar.feed(item)]
    message = next(event.message_id for event in shown if isinstance(event, ev.MessageStarted))
    call = next(event.call_id for event in shown if isinstance(event, ev.ToolCallStarted))
    resumed = ev.RunResumed(epoch=2, voided_message_ids=(message,), voided_call_ids=(call,))
    one = encoder(ATTRIBUTED)
    frames = [read(one.feed(entry)) for entry in logged([*shown, resumed])][-1]
    said = [frame.said["artifactUpdate"] for frame in frames]
    assert [update["artifact"]["artifactId"] for update in said] == [call, f"{call}:output", f"{call}:result"]
    assert all(update["artifact"]["metadata"] == {"anabranch": {"void": True}} for update in said)
    assert [frame.id for frame in frames] == [f"run-1:{len(shown) + 1}.{part}" for part in range(3)]


def test_a_state_keeps_nothing_of_messages_that_said_nothing() -> None:
    silent = [(ev.MessageStarted(message_id=f"m{n}"), ev.MessageFinished(message_id=f"m{n}")) for n in range(100)]
    one = encoder()
    for entry in logged([START, *(event for pair in silent for event in pair)]):
        one.feed(entry)
    assert len(one.state()) < 200


def test_parts_keep_what_they_are() -> None:
    assert parts_of(
        ev.Part(kind="text", text="see", mime_type="text/markdown"),
        ev.Part(kind="json", data={"n": 1}, name="plan.json"),
        ev.Part(kind="json", data=[1, None]),
        ev.Part(kind="json", data=None),
        ev.Part(kind="file", url="https://files.example/a.pdf", mime_type="application/pdf", name="a.pdf"),
        ev.Part(kind="file", url="data:image/png;base64,aGk=", mime_type="image/png"),
        ev.Part(kind="file", url="data:image/png;base64,???"),
        ev.Part(kind="file", data={"file": "f1", "provider": "openai"}, mime_type="image/*"),
    ) == [
        {"text": "see", "mediaType": "text/markdown"},
        {"data": {"n": 1}, "filename": "plan.json"},
        {"data": [1, None]},
        {"data": None},
        {"url": "https://files.example/a.pdf", "mediaType": "application/pdf", "filename": "a.pdf"},
        {"raw": "aGk=", "mediaType": "image/png"},
        {"url": "data:image/png;base64,???"},
        {"data": {"file": "f1", "provider": "openai"}, "mediaType": "image/*"},
    ]


def nested(depth: int, arrays: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if arrays else {"a": value}
    return value


@pytest.mark.parametrize("arrays", [True, False], ids=["arrays", "objects"])
@pytest.mark.parametrize("depth", [1, 29, 30, 31, 95])
def test_data_that_official_clients_would_find_too_deep_is_text(depth: int, arrays: bool) -> None:
    value = nested(depth, arrays)
    items = [
        ev.MessageStarted(message_id="m"),
        ev.PartAdded(message_id="m", part=ev.Part(kind="json", data=value)),
        ev.Interrupted(interrupt_id="i", reason="ask", schema=value),
        ev.RunFinished(outcome="interrupted"),
    ]
    entries = logged(lawful(items))
    for profile, envelope in DIALECTS:
        reading(written(entries, profile, envelope), profile, envelope)
    [part] = told(*items)[0]["artifact"]["parts"]
    text = msgspec.json.encode(value).decode()
    assert part == ({"data": value} if depth <= 30 else {"text": text, "mediaType": "application/json"})


def test_integers_that_clients_would_round_are_text() -> None:
    assert parts_of(ev.Part(kind="json", data={"id": 2**53 + 1})) == [{"data": {"id": "9007199254740993"}}]


def test_the_result_of_a_run_is_an_artifact_before_its_end() -> None:
    made, end = told(ev.RunFinished(result={"clusters": 3}))
    assert made["artifact"] == {"artifactId": "run-1:result", "name": "result", "parts": [{"data": {"clusters": 3}}]}
    assert made["lastChunk"] is True and end["status"]["state"] == "TASK_STATE_COMPLETED"


def test_the_end_says_which_artifacts_are_the_answer() -> None:
    answer = [ev.MessageStarted(message_id="m", phase="answer"), ev.TextDelta(message_id="m", delta="Hi")]
    said = told(*answer, ev.RunFinished())
    assert said[-1]["metadata"]["anabranch"]["answer"] == {
        "messageIds": ["run-1:1"],
        "length": 2,
        "sha256": "3639efcd08abb273b1619e82e78c29a7df02c1051b1820e99fc395dcaa3326b8",
    }


def test_a_failure_says_why_to_people_and_to_programs() -> None:
    [said] = told(ev.RunFailed(code="model_overloaded", message="The model is busy.", retryable=True))
    assert said["status"]["state"] == "TASK_STATE_FAILED"
    message = said["status"]["message"]
    assert (message["messageId"], message["role"]) == ("run-1:end", "ROLE_AGENT")
    assert message["parts"] == [{"text": "The model is busy."}]
    about = {"code": "model_overloaded", "side": "source", "retryable": True, "partial": False}
    assert message["metadata"] == {"anabranch": about}


@pytest.mark.parametrize(
    ("reason", "state"),
    [("confirmation", "INPUT_REQUIRED"), ("auth_required", "AUTH_REQUIRED"), ("authorization", "AUTH_REQUIRED")],
)
def test_a_question_is_the_message_of_the_last_status_with_its_schema_and_who_asks(reason: str, state: str) -> None:
    schema = {"type": "boolean"}
    remote = ev.Remote(url="https://inner.example", task_id="t9")
    said = told(
        ev.AgentStarted(agent="k", name="komodor"),
        ev.Interrupted(agent="k", interrupt_id="i", reason=reason, message="Delete?", schema=schema, remote=remote),
        ev.AgentFinished(agent="k", outcome="suspended"),
        ev.RunFinished(outcome="interrupted"),
    )
    assert said[-1]["status"]["state"] == f"TASK_STATE_{state}"
    assert said[-1]["status"]["message"]["parts"] == [
        {"text": "Delete?"},
        {
            "data": {
                "interruptId": "run-1:2",
                "reason": reason,
                "schema": schema,
                "agent": {"id": "run-1:1", "name": "komodor"},
            }
        },
    ]


def test_a_run_that_asks_nothing_it_told_of_has_failed() -> None:
    one = encoder()
    one.feed(logged([START])[0])
    [frame] = read(one.feed(Entry(2, 1, AT_MS, ev.RunFinished(outcome="interrupted", interrupt_ids=("gone",)))))
    assert frame.said["statusUpdate"]["status"]["state"] == "TASK_STATE_FAILED" and one.ended


def test_only_who_asked_is_told_of_routes_and_annotations() -> None:
    items = [
        ev.Routed(route="parallel", agents=("argo", "komodor"), reason="both", fallback_from="direct"),
        ev.MessageStarted(message_id="m"),
        ev.Annotated(message_id="m", annotation={"url": "https://docs.example"}),
        ev.TextDelta(message_id="m", delta="See there."),
        ev.RunFinished(),
    ]
    routed, note, text, *_ = told(*items, profile=ATTRIBUTED)
    assert routed["status"]["state"] == "TASK_STATE_WORKING"
    assert routed["metadata"][EXTENSION] == {
        "routed": {"route": "parallel", "agents": ["argo", "komodor"], "reason": "both", "fallbackFrom": "direct"}
    }
    [part] = note["artifact"]["parts"]
    assert part == {"data": {"url": "https://docs.example"}, "metadata": {EXTENSION: {"kind": "annotation"}}}
    assert text["append"] is True and "append" not in note
    assert EXTENSION not in str(told(*items)) and len(told(*items)) == 3


def test_what_a_tool_reports_before_its_result_is_an_artifact_of_its_own() -> None:
    said = told(
        ev.ToolCallStarted(call_id="c", name="logs"),
        ev.ToolCallFinished(call_id="c"),
        ev.ToolOutputDelta(call_id="c", content="line 1"),
        ev.ToolOutputDelta(call_id="c", content={"line": 2}),
        ev.ToolReturned(call_id="c", content="no", is_error=True, error="timeout"),
        ev.RunFinished(),
        profile=ATTRIBUTED,
    )
    first, second, result = [body for body in said if ":" in body.get("artifact", {}).get("artifactId", "")[6:]]
    assert first["artifact"]["metadata"][EXTENSION] == {"kind": "tool_output", "callId": "run-1:1"}
    assert (second["append"], second["artifact"]["parts"]) == (True, [{"data": {"line": 2}}])
    about = {"kind": "tool_result", "callId": "run-1:1", "isError": True, "error": "timeout"}
    assert result["artifact"]["metadata"][EXTENSION] == about
    assert result["artifact"]["parts"] == [{"text": "no\ntimeout"}]


# --- streams that break ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "broken"),
    [
        (ev.TextDelta(message_id="m", delta="\ud83d"), "TextDelta"),
        (ev.PartAdded(message_id="m", part=ev.Part(kind="json", data=object())), "PartAdded"),
        ("not an event", "str"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_written_ends_the_stream_with_an_error_in_its_place(event: Any, broken: str) -> None:
    events = [START, ev.MessageStarted(message_id="m"), event, ev.RunFinished()]
    one = encoder(PLAIN, Envelope.rpc(7))
    frames = [frame for seq, fact in enumerate(events, 1) for frame in one.feed(Entry(seq, 1, AT_MS, fact))]
    last = read(frames)[-1]
    assert (last.id, last.event, last.said["id"], last.said["error"]["code"]) == ("run-1:3.0", "error", 7, -32603)
    assert last.said["error"]["message"] == f"Event 3 of this run ({broken}) cannot be written as A2A."
    assert len(frames) == 3 and one.ended and not one.close()


def test_a_run_id_that_would_break_the_frames_is_an_error_too() -> None:
    one = encoder()
    [only] = one.feed(Entry(1, 1, AT_MS, ev.RunStarted(run_id="r\ndata: {}", thread_id="t")))
    assert only.startswith(b"event: error\ndata: {") and only.count(b"\n") == 3 and one.ended


def test_text_before_the_start_of_the_run_is_an_error() -> None:
    [only] = encoder().feed(Entry(1, 1, AT_MS, ev.TextDelta(message_id="m", delta="x")))
    assert only.startswith(b"event: error\n")


@pytest.mark.parametrize("state", [b"", b"{}", b"[]", b"\xff", b'{"run_id":"r"}'])
def test_bytes_that_are_no_state_restore_nothing(state: bytes) -> None:
    assert A2aEncoder.restored(PLAIN, BARE, state) is None


def test_a_state_is_for_readers_of_one_kind_in_any_version_and_envelope() -> None:
    assert reader(PLAIN) == reader(Profile("0.3", False)) != reader(ATTRIBUTED) == reader(Profile("0.3", True))
    entries = logged(lawful(CASES[0].items))
    states = set()
    for profile, envelope in DIALECTS:
        one = encoder(profile, envelope)
        for entry in entries[:5]:
            one.feed(entry)
        states.add((reader(profile), one.state()))
    assert len(states) == 2


# --- the official clients --------------------------------------------------------------------------------------------


async def heard(stream: bytes, transport: type[Any]) -> AsyncGenerator[StreamResponse, None]:
    """What an official client gives out of ``stream``."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    card = AgentCard(capabilities=AgentCapabilities(streaming=True))
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        request = SendMessageRequest(message={"message_id": "u1", "role": "ROLE_USER", "parts": [{"text": "?"}]})
        async for response in transport(http, card, "http://agent").send_message_streaming(request):
            yield response


OFFICIAL = {
    ("1.0", RPC): JsonRpcTransport,
    ("1.0", BARE): RestTransport,
    ("0.3", RPC): CompatJsonRpcTransport,
    ("0.3", BARE): CompatRestTransport,
}


@pytest.mark.parametrize("how", OFFICIAL, ids=lambda how: f"{how[0]} {'bare' if how[1] is BARE else 'rpc'}")
async def test_official_clients_read_a_stream_and_raise_where_it_breaks(how: tuple[Any, Envelope]) -> None:
    version, envelope = how
    profile = Profile(version, False)
    items = [ev.MessageStarted(message_id="m"), ev.TextDelta(message_id="m", delta="Three clu"), ev.RunFinished()]
    entries = logged(lawful(items))
    whole = [said async for said in heard(b"".join(written(entries, profile, envelope)), OFFICIAL[how])]
    assert whole == responses(written(entries))
    assert ended(whole[-1].status_update.status.state) == "COMPLETED"
    cut = encoder(profile, envelope)
    frames = [frame for entry in entries[:3] for frame in cut.feed(entry)]
    frames += cut.close(SourceError("The record of this run cannot be read.", code="log_lost", retryable=True))
    assert cut.ended and not cut.close()
    seen: list[StreamResponse] = []
    with pytest.raises(Exception, match="cannot be read"):
        async for said in heard(b"".join(frames), OFFICIAL[how]):
            seen += [said]
    assert seen == whole[:3]


def test_an_error_names_its_code_and_whether_to_try_again() -> None:
    error = SourceError("The log is away.", code="log_lost", retryable=True)
    [rpc] = read(encoder(PLAIN, RPC).close(error))
    [rest] = read(encoder(PLAIN, BARE).close(error))
    [info] = rpc.said["error"]["data"]
    assert info["metadata"] == {"code": "log_lost", "retryable": "true"} and rpc.said["id"] == "q"
    assert rest.said["error"] == {"code": 500, "status": "INTERNAL", "message": "The log is away.", "details": [info]}
    [unasked] = read(encoder(PLAIN, RPC).close())
    assert unasked.said["error"]["data"][0]["metadata"] == {"code": "no_end"} and unasked.id == ""
