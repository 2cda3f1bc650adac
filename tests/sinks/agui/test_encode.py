"""What the AG-UI encoder writes, where the tables of scenarios do not say it in so many words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import oracles
import pytest
from cases import CASES

from anabranch import events as ev
from anabranch.errors import ClientError, SourceError
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.sinks.agui.encode import AguiEncoder
from anabranch.sinks.agui.parse import parse
from anabranch.sinks.agui.profile import Profile
from anabranch.transports.sse import frame

MODERN, OLD = Profile(True, "native"), Profile(False, "steps")
START = ev.RunStarted(run_id="r", thread_id="t")
AT_MS = 1_700_000_000_000


def stream(*events: ev.Event, profile: Profile = MODERN) -> bytes:
    """Frames of public events, as they are."""
    encoder = AguiEncoder(profile)
    entries = [Entry(seq, 1, AT_MS, event) for seq, event in enumerate((START, *events), 1)]
    return b"".join(frame for entry in entries for frame in encoder.feed(entry))


def told(*events: ev.Event, profile: Profile = MODERN) -> list[dict[str, Any]]:
    """The AG-UI events of public events, after RUN_STARTED, without their time."""
    heard = list(oracles.events(stream(*events, profile=profile)))
    assert {repr(event.pop("timestamp")) for event in heard} == {str(AT_MS)}
    return heard[1:]


def public(*items: ev.Event) -> list[ev.Event]:
    """What the grammar makes of a source's items, after RunStarted."""
    grammar = Grammar()
    return [event for item in (START, *items) for event in grammar.feed(item)][1:]


def lane(agent: str, name: str, *inside: ev.Event, **fields: Any) -> list[ev.Event]:
    return [ev.AgentStarted(agent=agent, name=name, **fields), *inside, ev.AgentFinished(agent=agent)]


# --- frames ----------------------------------------------------------------------------------------------------------


def test_a_frame_is_a_cursor_and_one_line_of_json_that_ends_with_lf() -> None:
    delta = ev.TextDelta(message_id="m", delta="a\r\n\n\u2028\N{ROCKET}")
    first, *_ = oracles.events(stream())
    assert stream().startswith(b"id: r:1.0\ndata: {") and stream().endswith(b"}\n\n")
    assert first == {
        "type": "RUN_STARTED",
        "threadId": "t",
        "runId": "r",
        "protocolVersion": "1.0",
        "timestamp": AT_MS,
    }
    assert b"\r" not in stream(delta)
    assert told(delta) == [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta.delta}]


def test_a_token_is_framed_as_everything_else_is() -> None:
    for delta in (
        ev.TextDelta(agent="a", message_id="m", delta='"x"'),
        ev.ToolArgsDelta(agent="a", call_id="c", delta='"x"'),
        ev.ReasoningDelta(agent="a", reasoning_id="r", delta='"x"'),
    ):
        fast = stream(delta).removeprefix(stream())
        data = fast.split(b"\n")[1].removeprefix(b"data: ")
        assert fast == frame(data, "r:2.0")
        assert json.loads(data)["subagentRunId"] == "a"


def test_every_event_of_the_vocabulary_is_in_some_case() -> None:
    seen = {type(event) for case in CASES for event in [START, *public(*case.items)]}
    assert seen == set(ev.EVENT_TYPES)


def test_what_clients_dropped_or_warn_of_is_never_written() -> None:
    for profile in (MODERN, OLD):
        types = {event["type"] for case in CASES for event in told(*public(*case.items), profile=profile)}
        assert not [kind for kind in types if kind.endswith("_CHUNK") or kind.startswith(("RAW", "THINKING"))]
        assert "MESSAGES_SNAPSHOT" not in types


@pytest.mark.parametrize(
    ("event", "broken"),
    [
        (ev.Custom(name="x", value=object()), "Custom"),
        (ev.TextDelta(message_id="m", delta="\ud83d"), "TextDelta"),
        (ev.MessageStarted(message_id="\ud83d"), "MessageStarted"),
        (ev.StepFinished(name="never started"), "StepFinished"),
        (ev.ReasoningFinished(reasoning_id="r", encrypted="\ud83d"), "ReasoningFinished"),
        ("not an event", "str"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_written_ends_the_stream_with_a_typed_error(event: Any, broken: str) -> None:
    assert told(event, ev.TextDelta(message_id="m", delta="x"), ev.RunFinished()) == [
        {
            "type": "RUN_ERROR",
            "code": "ENCODING_ERROR",
            "message": f"Event 2 of this run ({broken}) cannot be written as AG-UI.",
        }
    ]


def test_a_run_id_that_would_break_the_frames_is_an_error_too() -> None:
    encoder = AguiEncoder(MODERN)
    [only] = encoder.feed(Entry(1, 1, AT_MS, ev.RunStarted(run_id="r\ndata: {}", thread_id="t")))
    assert b"ENCODING_ERROR" in only and encoder.ended
    assert not encoder.feed(Entry(2, 1, AT_MS, ev.RunFinished()))


def test_a_record_without_a_start_is_an_error_without_a_cursor() -> None:
    for event in (ev.TextDelta(message_id="m", delta="x"), ev.RunFailed(code="gone", message="gone")):
        [only] = AguiEncoder(MODERN).feed(Entry(1, 1, AT_MS, event))
        assert only.startswith(b'data: {"type":"RUN_ERROR"')


def test_a_record_that_stops_early_is_told_as_an_error_without_a_cursor() -> None:
    for error, code in ((None, "no_end"), (SourceError("gone", code="gone"), "gone"), (ValueError("secret"), None)):
        encoder = AguiEncoder(MODERN)
        encoder.feed(Entry(1, 1, AT_MS, START))
        [last] = encoder.close(error)
        [event] = oracles.events(last)
        assert last.startswith(b"data: ") and event["type"] == "RUN_ERROR"
        assert code in (None, event["code"]) and "secret" not in event["message"]
        assert encoder.ended and not encoder.close() and not encoder.feed(Entry(2, 1, AT_MS, ev.RunFinished()))


def test_nothing_is_owed_after_the_end() -> None:
    encoder = AguiEncoder(OLD)
    for seq, event in enumerate((START, ev.RunFinished()), 1):
        assert encoder.feed(Entry(seq, 1, AT_MS, event))
    assert encoder.ended and not encoder.close(ValueError())


# --- profiles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "asked", "expected"),
    [
        (None, None, Profile(False, "steps")),
        ("", "", Profile(False, "steps")),
        ("0.9", None, Profile(False, "steps")),
        ("1.0", None, Profile(True, "native")),
        ("1.7", None, Profile(True, "native")),
        ("10.0", None, Profile(True, "native")),
        ("two", None, Profile(True, "native")),
        ("1.0", "steps", Profile(True, "steps")),
        (None, "native", Profile(False, "native")),
    ],
)
def test_a_client_is_read_from_the_version_it_declares_and_what_it_asks_for(
    version: str | None, asked: str | None, expected: Profile
) -> None:
    assert Profile.negotiate(version, asked) == expected


def test_an_unknown_way_to_tell_sub_agents_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ClientError, match="'native' or 'steps', not 'lanes'") as refused:
        Profile.negotiate("1.0", "lanes")
    assert refused.value.status == 422


def test_a_cancelled_run_is_an_outcome_to_new_clients_and_an_error_to_old_ones() -> None:
    cancelled = ev.RunFinished(outcome="cancelled")
    assert told(cancelled)[0]["outcome"] == {"type": "cancelled"}
    assert told(cancelled, profile=OLD) == [
        {"type": "RUN_ERROR", "code": "cancelled", "message": "The run was cancelled."}
    ]


def test_calls_that_wait_for_the_client_are_listed_for_new_clients_only() -> None:
    finished = ev.RunFinished(pending_call_ids=("c1", "c2"))
    assert told(finished)[0]["outcome"] == {"type": "success", "pendingToolCallIds": ["c1", "c2"]}
    assert "outcome" not in told(finished, profile=OLD)[0]


# --- sub-agents -------------------------------------------------------------------------------------------------------


def test_a_sub_agent_is_attributed_to_its_parents_and_all_it_says_to_it() -> None:
    inside = [
        ev.MessageStarted(agent="a", message_id="m"),
        ev.TextDelta(agent="a", message_id="m", delta="x"),
        ev.MessageFinished(agent="a", message_id="m"),
        ev.ToolCallStarted(agent="a", call_id="c", name="look", message_id="m"),
        ev.ToolReturned(agent="a", call_id="c", message_id="t", content="seen"),
        ev.StepStarted(agent="a", name="s"),
        ev.StepFinished(agent="a", name="s"),
        ev.Custom(agent="a", name="tick"),
    ]
    started, *said = told(
        *lane("a", "komodor", *inside, parent="p", call_id="c0", remote=ev.Remote(url="http://inner"))
    )
    assert started == {
        "type": "SUBAGENT_STARTED",
        "subagentRunId": "a",
        "name": "komodor",
        "parentSubagentRunId": "p",
        "parentToolCallId": "c0",
    }
    assert {event["subagentRunId"] for event in said} == {"a"}


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (ev.AgentFinished(agent="a"), {"type": "SUBAGENT_FINISHED", "outcome": {"type": "success"}}),
        (
            ev.AgentFinished(agent="a", outcome="suspended"),
            {"type": "SUBAGENT_FINISHED", "outcome": {"type": "suspended", "interruptIds": ["i1"]}},
        ),
        (
            ev.AgentFinished(agent="a", outcome="cancelled"),
            {"type": "SUBAGENT_ERROR", "code": "cancelled", "message": "The agent was cancelled."},
        ),
        (
            ev.AgentFailed(agent="a", code="unreachable", message="gone"),
            {"type": "SUBAGENT_ERROR", "code": "unreachable", "message": "gone"},
        ),
    ],
    ids=["success", "suspended", "cancelled", "failed"],
)
def test_a_sub_agent_ends_in_the_way_it_ended(end: ev.Event, expected: dict[str, Any]) -> None:
    ids = (("a", "i1"), ("b", "i2"), ("a", "i3"))
    asked = [ev.Interrupted(agent=agent, interrupt_id=id, reason="tool_call") for agent, id in ids]
    answered = ev.InterruptResolved(agent="a", interrupt_id="i3")
    *_, ended = told(ev.AgentStarted(agent="a", name="komodor"), *asked, answered, end)
    assert ended == expected | {"subagentRunId": "a"}


def test_a_lane_is_a_step_with_a_name_of_its_own_for_clients_that_know_no_sub_agents() -> None:
    heard = told(
        ev.StepStarted(name="komodor"),
        ev.AgentStarted(agent="a", name="komodor"),
        ev.AgentStarted(agent="b", name="komodor"),
        ev.StepStarted(agent="b", name="look"),
        ev.StepFinished(agent="b", name="look"),
        ev.AgentFinished(agent="a"),
        ev.AgentStarted(agent="c", name="komodor"),
        ev.AgentFailed(agent="b", code="unreachable", message="gone"),
        ev.AgentFinished(agent="c"),
        ev.StepFinished(name="komodor"),
        profile=OLD,
    )
    assert [(event["type"].removeprefix("STEP_"), event["stepName"]) for event in heard] == [
        ("STARTED", "komodor"),
        ("STARTED", "komodor #2"),
        ("STARTED", "komodor #3"),
        ("STARTED", "komodor: look"),
        ("FINISHED", "komodor: look"),
        ("FINISHED", "komodor #2"),
        ("STARTED", "komodor #2"),
        ("FINISHED", "komodor #3"),
        ("FINISHED", "komodor #2"),
        ("FINISHED", "komodor"),
    ]
    assert heard[7]["metadata"]["anabranch"] == {
        "agent": "b",
        "agentName": "komodor",
        "outcome": "failed",
        "code": "unreachable",
        "message": "gone",
    }
    assert not [event for event in heard if "subagentRunId" in event]


def test_the_messages_of_a_lane_have_the_agents_name_for_clients_that_know_no_sub_agents() -> None:
    start = ev.MessageStarted(agent="a", message_id="m")
    _, message, _ = told(*lane("a", "komodor", start), profile=OLD)
    assert (message["name"], message["metadata"]["anabranch"]["agent"]) == ("komodor", "a")
    assert "name" not in told(*lane("a", "komodor", start))[1]


@pytest.mark.oracle
@pytest.mark.parametrize("client", oracles.CLIENTS)
def test_what_a_client_sends_back_says_which_agent_wrote_each_message(client: str) -> None:
    oracles.require()
    [case] = [case for case in CASES if case.name == "a sub-agent inside a sub-agent, each with tools and reasoning"]
    profile = MODERN if client == "1.0.0" else OLD
    events = public(*case.items)
    body = stream(*events, profile=profile).decode()
    [seen] = oracles.sessions([{"client": client, "runs": [{"body": body}, {"body": body, "input": {"runId": "r2"}}]}])
    request, negotiated = parse(json.dumps(seen.sent[1]).encode())
    assert negotiated == profile
    names = {event.agent: event.name for event in events if isinstance(event, ev.AgentStarted)}
    wrote = [(names.get(message.agent, message.agent), message.role, message.content) for message in request.messages]
    assert wrote == [
        ("", "assistant", ""),
        ("", "tool", "synced"),
        ("argo", "assistant", ""),
        ("argo", "tool", "chart ok"),
        ("helm", "assistant", "chart ok"),
        ("argo", "assistant", "synced"),
        ("", "assistant", "Done."),
    ]


def test_a_sub_agents_state_does_not_take_the_place_of_the_roots() -> None:
    heard = told(
        ev.StateSnapshot(value=None),
        ev.StateSnapshot(agent="a", value={"n": 1}),
        ev.StateDelta(agent="a", patch=[{"op": "remove", "path": "/n"}]),
    )
    assert heard[0] == {"type": "STATE_SNAPSHOT", "snapshot": None}
    assert [(event["type"], event["name"], event["subagentRunId"]) for event in heard[1:]] == [
        ("CUSTOM", "anabranch.state_snapshot", "a"),
        ("CUSTOM", "anabranch.state_delta", "a"),
    ]


# --- messages and tools -----------------------------------------------------------------------------------------------


def test_a_message_says_what_it_is_for_as_soon_as_that_is_known() -> None:
    start, end = told(
        ev.MessageStarted(message_id="m"), ev.MessageFinished(message_id="m", finish_reason="stop", phase="answer")
    )
    assert "metadata" not in start
    assert end["metadata"] == {"anabranch": {"phase": "answer", "finishReason": "stop"}}


def test_a_reset_names_what_it_voids_and_what_comes_instead() -> None:
    [case] = [case for case in CASES if case.name == "a retry voids what was shown and streams again"]
    heard = told(*public(*case.items))
    place = next(place for place, event in enumerate(heard) if event["type"] == "CUSTOM")
    assert heard[place - 1]["type"] == "TEXT_MESSAGE_END"
    assert heard[place]["name"] == "anabranch.message_reset"
    assert heard[place]["value"] == {
        "messageId": heard[place - 1]["messageId"],
        "supersededBy": heard[place + 1]["messageId"],
        "reason": "retry",
    }


def test_calls_of_one_turn_share_a_parent_and_turns_do_not() -> None:
    for name, parents in (("two turns of calls without text", 2), ("turns that the source does not name", 2)):
        [case] = [case for case in CASES if case.name == name]
        starts = [event for event in told(*public(*case.items)) if event["type"] == "TOOL_CALL_START"]
        assert len({event["parentMessageId"] for event in starts}) == parents < len(starts) + 1
        assert not {event["parentMessageId"] for event in starts} & {event["toolCallId"] for event in starts}


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": "Error: foo"}, "Error: foo"),
        ({"parts": (ev.Part(kind="text", text="a"), ev.Part(kind="json", data={"n": 1}))}, 'a\n{"n":1}'),
        ({"is_error": True, "error": "no such pod"}, "no such pod"),
        ({"is_error": True, "error": "no such pod", "content": "Error: no such pod."}, "Error: no such pod."),
        ({"is_error": True, "error": "timeout", "content": "half a list"}, "half a list\ntimeout"),
    ],
)
def test_a_tools_result_is_one_string_in_which_its_error_can_be_read(returned: dict[str, Any], content: str) -> None:
    [result] = told(ev.ToolReturned(call_id="c", message_id="m", **returned))
    assert result["content"] == content
    noted = {"isError": True, "error": returned["error"]} if "error" in returned else None
    assert result.get("metadata") == (noted and {"anabranch": noted})


def test_parts_that_no_string_can_hold_follow_the_message_they_belong_to() -> None:
    image = ev.Part(kind="file", url="https://x.test/a.png", mime_type="image/png", name="a.png")
    value = {"kind": "file", "url": "https://x.test/a.png", "mimeType": "image/png", "name": "a.png"}
    added = told(ev.PartAdded(message_id="m", part=image))
    _, returned = told(ev.ToolReturned(call_id="c", message_id="m", content="see", parts=(image,)))
    assert added == [returned]
    assert returned == {"type": "CUSTOM", "name": "anabranch.part", "value": {"messageId": "m", "part": value}}


def test_reasoning_is_a_span_around_a_message_and_keeps_the_providers_value() -> None:
    heard = told(ev.ReasoningStarted(reasoning_id="x"), ev.ReasoningFinished(reasoning_id="x", encrypted="c2ln"))
    assert [event["type"].removeprefix("REASONING_") for event in heard] == [
        "START",
        "MESSAGE_START",
        "MESSAGE_END",
        "ENCRYPTED_VALUE",
        "END",
    ]
    assert heard[1]["role"] == "reasoning"
    assert (heard[3]["subtype"], heard[3]["entityId"], heard[3]["encryptedValue"]) == ("message", "x", "c2ln")
    assert heard[0].get("metadata") is None


# --- the end ----------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_asks_every_open_question_once() -> None:
    heard = told(
        ev.AgentStarted(agent="a", name="komodor"),
        ev.Interrupted(
            agent="a",
            interrupt_id="i1",
            reason="confirmation",
            message="Delete?",
            schema={"type": "object"},
            call_id="c",
            expires_at="2030-01-01T00:00:00Z",
            remote=ev.Remote(url="http://inner", task_id="t"),
            metadata={"tool": None},
        ),
        ev.Interrupted(interrupt_id="i2", reason="input_required", schema=True),
        ev.InterruptResolved(interrupt_id="i2"),
        ev.AgentFinished(agent="a", outcome="suspended"),
        ev.RunFinished(outcome="interrupted", interrupt_ids=("i1",)),
    )
    question = {
        "id": "i1",
        "reason": "confirmation",
        "message": "Delete?",
        "toolCallId": "c",
        "responseSchema": {"type": "object"},
        "expiresAt": "2030-01-01T00:00:00Z",
        "metadata": {"tool": None},
        "subagentRunId": "a",
    }
    assert heard[-1]["outcome"] == {"type": "interrupt", "interrupts": [question]}
    assert b"inner" not in json.dumps(heard).encode()


def test_an_interrupted_run_without_a_question_is_an_error() -> None:
    assert told(ev.RunFinished(outcome="interrupted"))[0]["code"] == "no_question"


def test_the_end_tells_the_answer_the_result_and_what_was_spent() -> None:
    answer = ev.Answer(message_ids=("m1",), length=2, sha256="ab")
    usage = (
        ev.Usage(model="big", input=10, output=5, reasoning=2, cached=4),
        ev.Usage(input=2**60, output=-1),
    )
    assert told(ev.RunFinished(answer=answer, usage=usage, result={"n": 1})) == [
        {
            "type": "RUN_FINISHED",
            "threadId": "t",
            "runId": "r",
            "outcome": {"type": "success"},
            "result": {"n": 1},
            "usage": [
                {
                    "model": "big",
                    "inputTokens": 10,
                    "outputTokens": 5,
                    "totalTokens": 15,
                    "reasoningTokens": 2,
                    "cachedInputTokens": 4,
                },
                {"inputTokens": 2**53 - 1, "outputTokens": 0, "totalTokens": 2**53 - 1},
            ],
            "metadata": {"anabranch": {"answer": {"messageIds": ["m1"], "length": 2, "sha256": "ab"}}},
        }
    ]


def test_a_failure_tells_its_code_its_side_and_whether_it_is_worth_another_try() -> None:
    failed = ev.RunFailed(
        code="rate_limited", message="Later.", retryable=True, partial=True, usage=(ev.Usage(input=1),)
    )
    assert told(failed) == [
        {
            "type": "RUN_ERROR",
            "code": "rate_limited",
            "message": "Later.",
            "usage": [{"inputTokens": 1, "outputTokens": 0, "totalTokens": 1}],
            "metadata": {"anabranch": {"side": "source", "retryable": True, "partial": True}},
        }
    ]


def test_integers_that_javascript_would_round_are_strings() -> None:
    for value, written in (
        (2**53 - 1, 2**53 - 1),
        (2**53, str(2**53)),
        (1 - 2**53, 1 - 2**53),
        ([{"n": -(2**53)}], [{"n": str(-(2**53))}]),
        ({"big": 10**30, "yes": True, "text": "1" * 20}, {"big": "1" + "0" * 30, "yes": True, "text": "1" * 20}),
    ):
        assert told(ev.StateSnapshot(value=value))[0]["snapshot"] == written


def test_a_long_integer_is_found_at_any_depth() -> None:
    value: Any = 2**53
    for _ in range(700):
        value = [value]
    (written,) = told(ev.Custom(name="c", value=value))
    assert json.dumps(written["value"]).strip("[]") == f'"{2**53}"'


def nulls(value: Any, path: str = "") -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from [f"{path}/{key}"] if item is None else nulls(item, f"{path}/{key}")


def test_nothing_optional_is_ever_null() -> None:
    # What a source itself put there may be.
    free = ("/snapshot", "/value", "/content", "/result", "/delta")
    for profile in (MODERN, OLD):
        for case in CASES:
            for event in told(*public(*case.items), profile=profile):
                assert not [path for path in nulls(event) if not path.startswith(free)], event
