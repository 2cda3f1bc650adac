"""A client that leaves after any frame and comes back, in both ways, and one that comes new at any entry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import oracles
import pytest
from cases import CASES, Case
from oracles.strict import faults

from anabranch import events as ev
from anabranch.errors import NotFound, ServerError
from anabranch.events import Part
from anabranch.log._base import Entry
from anabranch.request import Message
from anabranch.sinks._base import NOTED, CursorUnknown
from anabranch.sinks._follow import Follower
from anabranch.sinks.agui.encode import AguiEncoder, reader
from anabranch.sinks.agui.messages import written
from anabranch.sinks.agui.profile import Profile
from anabranch.sinks.agui.routes import attached
from sinks.agui.histories import HISTORY
from sinks.watching import ASKED, MODERN, OLD, START, Run, frames, lawful, logged

WAIT_S = 10
READERS = {MODERN: ("1.0.0",), OLD: oracles.CLIENTS, ASKED: ("0.0.59",)}

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_profile = pytest.mark.parametrize("profile", READERS, ids=["1.0", "before 1.0", "before 1.0, with sub-agents"])


async def kept(entries: Sequence[Entry], **fields: Any) -> Run:
    run = Run(**fields)
    await run.write(entries)
    return run


@asynccontextmanager
async def reading(follower: Follower) -> AsyncIterator[AsyncIterator[bytes]]:
    """The frames one by one, however they are joined."""
    async with asyncio.timeout(WAIT_S), follower.frames() as pieces, aclosing(apart(pieces)) as stream:
        yield stream


async def apart(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        for frame in piece.removesuffix(b"\n\n").split(b"\n\n"):
            yield frame + b"\n\n"


async def rest(follower: Follower) -> list[bytes]:
    async with reading(follower) as stream:
        return [frame async for frame in stream]


def id_of(frame: bytes) -> str:
    line = frame.split(b"\n")[0]
    return line.removeprefix(b"id: ").decode() if line.startswith(b"id: ") else ""


def seq_of(frame: bytes) -> int:
    return int(id_of(frame).rpartition(":")[2].partition(".")[0])


def many(count: int) -> list[Entry]:
    """A run of one text in so many pieces, in a lane, so that there is something to know."""
    pieces = [ev.TextDelta(agent="a", message_id="m", delta=f"{n} ") for n in range(count)]
    start = [ev.AgentStarted(agent="a", name="komodor"), ev.MessageStarted(agent="a", message_id="m")]
    return logged(lawful([*start, *pieces, ev.MessageFinished(agent="a", message_id="m"), ev.RunFinished()]))


# --- after a frame ---------------------------------------------------------------------------------------------------


@every_case
async def test_a_client_that_leaves_after_each_frame_has_the_same_frames_in_the_end(case: Case) -> None:
    entries = logged(lawful(case.items))
    for profile in READERS:
        stream, run, last = frames(entries, profile), Run(), ""
        for frame in stream:
            await run.write(entries[(await run.bounds()).last : seq_of(frame)])  # no more than this frame takes
            async with reading(await attached(run, profile, last)) as arriving:
                assert await anext(arriving) == frame
            last = id_of(frame)
        assert (await attached(run, profile, last)).over


@every_case
async def test_after_any_cursor_of_a_finished_run_comes_exactly_the_rest(case: Case) -> None:
    for profile in READERS:
        run = await kept(entries := logged(lawful(case.items)))
        stream = frames(entries, profile)
        for place, frame in enumerate(stream[:-1], 1):
            assert await rest(await attached(run, profile, id_of(frame))) == stream[place:]
        for entry in entries[:-1]:  # also of one that adds no frame
            before = len(frames(entries[: entry.seq], profile))
            part = len(frames(entries[: entry.seq], profile)) - len(frames(entries[: entry.seq - 1], profile)) - 1
            assert await rest(await attached(run, profile, f"run-1:{entry.seq}.{max(part, 0)}")) == stream[before:]
            with pytest.raises(CursorUnknown, match="a frame that there is not"):
                await attached(run, profile, f"run-1:{entry.seq}.{max(part, 0) + 1}")
        assert run.watchers == 0


@every_profile
async def test_what_a_cursor_costs_is_what_was_missed_not_the_length_of_the_run(profile: Profile) -> None:
    entries = many(5000)
    run = await kept(entries)
    stream = frames(entries, profile)
    assert await rest(await attached(run, profile)) == stream
    assert {seq for _, seq in run.notes} == {*range(NOTED, len(entries), NOTED)}
    for place in (NOTED - 1, NOTED, NOTED + 1, 1000, len(stream) - 2):
        run.read_entries = 0
        assert await rest(await attached(run, profile, id_of(stream[place]))) == stream[place + 1 :]
        assert run.read_entries <= NOTED


async def test_who_comes_back_leaves_notes_as_well() -> None:
    entries = many(1000)
    run = await kept(entries)
    stream = frames(entries, MODERN)
    for _ in range(2):
        run.read_entries = 0
        assert (await rest(await attached(run, MODERN, id_of(stream[900])))) == stream[901:]
    assert run.read_entries < NOTED


@pytest.mark.parametrize(
    "state", [b"", b"{}", b"null", b"\xff", b'{"run_id":"run-1"}', b"[" * 100_000], ids=lambda state: state[:9]
)
async def test_a_note_that_is_none_is_no_note(state: bytes) -> None:
    entries = many(600)
    run = await kept(entries)
    stream = frames(entries, OLD)
    run.notes = {(reader(OLD), seq): state for seq in (NOTED, 2 * NOTED)}
    assert AguiEncoder.restored(OLD, state) is None
    assert await rest(await attached(run, OLD, id_of(stream[550]))) == stream[551:]


async def test_a_note_with_something_new_in_it_is_of_another_version_and_none() -> None:
    encoder = AguiEncoder(MODERN)
    encoder.feed(logged([START])[0])
    state = json.loads(encoder.state())
    assert AguiEncoder.restored(MODERN, json.dumps(state).encode()) is not None
    assert AguiEncoder.restored(MODERN, json.dumps(state | {"news": 1}).encode()) is None
    assert AguiEncoder.restored(MODERN, json.dumps(state | {"run_id": "r\n"}).encode()) is None


async def test_a_note_of_another_kind_of_reader_is_not_taken() -> None:
    entries = many(600)
    run = await kept(entries)
    await rest(await attached(run, MODERN))
    stream = frames(entries, OLD)
    assert await rest(await attached(run, OLD, id_of(stream[550]))) == stream[551:]
    assert len({reader(profile) for profile in READERS}) == 3


async def test_a_cursor_that_the_run_does_not_have_is_refused_unless_a_prelude_is_wanted() -> None:
    run = await kept(logged([START]))
    for seen in ("run-1:2.0", "run-1:1.1", "run-2:1.0", "run-1:x", "x"):
        with pytest.raises(CursorUnknown):
            await attached(run, MODERN, seen)
        async with reading(await attached(run, MODERN, seen, prelude=True)) as stream:
            assert id_of(await anext(stream)) == "run-1:1.0"
    with pytest.raises(CursorUnknown, match="is beyond"):
        await attached(Run(), MODERN, "run-1:1.0")


async def test_a_run_that_is_forgotten_meanwhile_is_not_found() -> None:
    run = await kept(logged([START]))

    async def forgotten(after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        return []

    run.read = forgotten  # type: ignore[method-assign]
    with pytest.raises(NotFound):
        await attached(run, MODERN, "run-1:1.0")


# --- new, at any entry -----------------------------------------------------------------------------------------------


@every_case
async def test_a_prelude_at_any_entry_goes_on_as_the_whole_does_without_a_gap_or_a_repeat(case: Case) -> None:
    entries = logged(lawful(case.items))
    for profile in READERS:
        stream = frames(entries, profile)
        for upto in range(len(entries) + 1):
            run = await kept(entries[:upto], history=HISTORY)
            follower = await attached(run, profile, prelude=True)
            await run.write(entries[upto:])
            got = await rest(follower)
            ids = [id_of(frame) for frame in got if id_of(frame)]
            if upto:
                covered = seq_of(next(frame for frame in got if id_of(frame)))
                assert covered == upto
                live = [frame for frame in stream if seq_of(frame) > upto]
                assert got[len(got) - len(live) :] == live
                assert ids[1:] == [id_of(frame) for frame in live]
            assert [*map(place, ids)] == sorted({*map(place, ids)})
            # Whoever leaves then, comes back by the id.
            for at, frame in enumerate(got[:-1], 1):
                if id_of(frame):
                    assert await rest(await attached(run, profile, id_of(frame), prelude=True)) == got[at:]


def place(id: str) -> tuple[int, ...]:
    return tuple(map(int, id.rpartition(":")[2].split(".")))


async def test_a_prelude_grows_with_parts_and_not_with_tokens() -> None:
    short, long = [await kept(many(count)[:-3]) for count in (3, 3000)]
    sizes = []
    for run in (short, long):
        async with reading(await attached(run, MODERN, prelude=True)) as stream:
            got = [await anext(stream) for _ in range(4)]
        sizes.append(len(got))
        last = [*oracles.events(got)][-1]
        assert last["type"] == "TEXT_MESSAGE_CONTENT" and id_of(got[-1]) == f"run-1:{(await run.bounds()).last}.0"
        assert [id_of(frame) for frame in got[:-1]] == [""] * 3
    assert last["delta"] == "".join(f"{n} " for n in range(3000))


async def test_a_prelude_begins_with_the_conversation_before_the_run() -> None:
    run = await kept(logged([START]), history=HISTORY)
    async with reading(await attached(run, OLD, prelude=True)) as stream:
        got = [await anext(stream) for _ in range(2)]
    started, snapshot = oracles.events(got)
    assert started["type"] == "RUN_STARTED"
    assert snapshot == {
        "type": "MESSAGES_SNAPSHOT",
        "messages": written(HISTORY, OLD),
        "timestamp": started["timestamp"],
    }
    assert [id_of(frame) for frame in got] == ["", "run-1:1.0"]


async def test_a_prelude_without_a_conversation_has_no_snapshot() -> None:
    run = await kept(logged(lawful([])))
    got = await rest(await attached(run, MODERN, prelude=True))
    assert [event["type"] for event in oracles.events(got)] == ["RUN_STARTED", "RUN_ERROR"]


async def test_what_a_message_has_no_place_for_follows_the_conversation() -> None:
    part = Part(kind="file", url="https://x.test/a.png")
    run = await kept(logged([START]), history=[Message(id="m", role="assistant", content="See.", parts=(part,))])
    async with reading(await attached(run, MODERN, prelude=True)) as stream:
        *_, shown = oracles.events([await anext(stream) for _ in range(3)])
    assert (shown["name"], shown["value"]["messageId"]) == ("anabranch.part", "m")
    assert shown["value"]["part"] == {"kind": "file", "url": "https://x.test/a.png"}


async def test_a_run_without_an_entry_is_waited_for_and_its_conversation_told_as_well() -> None:
    run = Run(history=HISTORY)
    follower = await attached(run, MODERN, prelude=True)
    assert not follower.over
    async with reading(follower) as stream:
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # noqa: TID251  no time passes
        assert not first.done() and run.watchers == 1
        await run.write(entries := logged(lawful([])))
        got = [await first, *[frame async for frame in stream]]
    assert [event["type"] for event in oracles.events(got)] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_ERROR"]
    assert id_of(got[-1]) == f"run-1:{len(entries)}.0"


async def test_an_event_that_cannot_be_written_ends_a_prelude_as_it_ends_the_stream() -> None:
    run = await kept([*logged([START]), Entry(2, 1, 0, ev.Custom(name="x", value=object()))], history=HISTORY)
    got = await rest(await attached(run, MODERN, prelude=True))
    assert [*oracles.events(got)][-1]["code"] == "ENCODING_ERROR"
    follower = await attached(run, MODERN, id_of(got[-1]))
    assert follower.over, "there is nothing after it, though the run goes on"


async def test_a_run_that_cannot_even_begin_has_no_conversation_behind_its_error() -> None:
    run = await kept(logged([ev.RunStarted(run_id="run-1\n", thread_id="t")]), history=HISTORY)
    [event] = oracles.events(await rest(await attached(run, MODERN, prelude=True)))
    assert (event["type"], event["code"]) == ("RUN_ERROR", "ENCODING_ERROR")


async def test_what_fails_while_a_prelude_is_read_is_its_last_frame() -> None:
    run = await kept(logged([START]))

    async def failing(after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        raise ServerError("The disk is gone.", code="log_failed")

    run.read = failing  # type: ignore[method-assign]
    [event] = oracles.events(await rest(await attached(run, MODERN, prelude=True)))
    assert (event["type"], event["code"]) == ("RUN_ERROR", "log_failed")


async def test_a_prelude_leaves_only_notes_that_are_true() -> None:
    entries = many(1000)
    run = await kept(entries[:300])
    follower = await attached(run, OLD, prelude=True)
    await run.write(entries[300:])
    await rest(follower)
    whole = await kept(entries)
    await rest(await attached(whole, OLD))
    assert run.notes and run.notes.items() <= whole.notes.items()


# --- when the beginning is gone --------------------------------------------------------------------------------------


@every_case
async def test_what_is_left_of_a_run_is_told_after_a_gap_that_says_so(case: Case) -> None:
    entries = logged(lawful(case.items))
    for profile in READERS:
        for gone in range(1, len(entries)):
            run = Run(history=HISTORY, gone=gone)
            await run.write(entries)
            for seen in ("", "run-1:1.0"):
                got = await rest(await attached(run, profile, seen))
                assert oracles.flaws([got], clients=()) == [[]], (gone, b"".join(got).decode())
                head = [*oracles.events(got)][:5]
                assert [event["type"] for event in head][:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
                assert (head[0]["runId"], head[0]["threadId"]) == ("run-1", "thread-1")
                assert head[2] | {"timestamp": 0} == {
                    "type": "CUSTOM",
                    "name": "anabranch.gap",
                    "value": {"first": 1, "last": gone},
                    "timestamp": 0,
                }
            assert not run.notes


async def test_who_has_only_what_is_left_of_a_run_leaves_no_notes() -> None:
    entries = many(1000)
    run = await kept(entries[:150], gone=100)
    follower = await attached(run, OLD, "run-1:120.0")
    await run.write(entries[150:])
    got = await rest(follower)
    assert [*oracles.events(got)][1]["name"] == "anabranch.gap"
    assert run.notes == {}


async def test_a_note_bridges_what_is_gone_before_it() -> None:
    entries = many(1000)
    whole = await kept(entries)
    stream = frames(entries, OLD)
    assert await rest(await attached(whole, OLD)) == stream
    run = await kept(entries, gone=300)
    run.notes = whole.notes
    assert await rest(await attached(run, OLD, id_of(stream[600]))) == stream[601:]
    [_, gap, *_] = oracles.events(await rest(await attached(run, OLD, id_of(stream[400]))))
    assert gap["name"] == "anabranch.gap"


# --- what the judges say ---------------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.timeout(120)
@every_profile
async def test_the_official_clients_show_the_same_whenever_they_come(profile: Profile) -> None:
    oracles.require()
    streams: dict[bytes, tuple[str, bytes]] = {}
    for case in CASES:
        entries = logged(lawful(case.items))
        whole = b"".join(frames(entries, profile))
        for upto in range(1, len(entries) + 1):
            run = await kept(entries[:upto], history=HISTORY)
            follower = await attached(run, profile, prelude=True)
            await run.write(entries[upto:])
            streams[b"".join(await rest(follower))] = f"{case.name}, at {upto}", whole
    assert not any(oracles.flaws([*streams], clients=()))
    wholes = [*dict.fromkeys(whole for _, whole in streams.values())]
    for client in READERS[profile]:
        there = screens(client, wholes, written(HISTORY, profile))
        for (name, whole), screen in zip(streams.values(), screens(client, [*streams]).values(), strict=True):
            assert screen == there[whole], (client, name)


def screens(client: str, streams: Sequence[bytes], messages: Sequence[Any] = ()) -> dict[bytes, Any]:
    """What a client shows, that had ``messages``, after each stream, which it must accept."""
    jobs = [{"client": client, "runs": [{"body": stream.decode()}], "messages": messages} for stream in streams]
    shown = {}
    for stream, seen in zip(streams, oracles.sessions(jobs), strict=True):
        [run] = seen.runs
        flaws = [run.violation, *run.warnings, *faults(run.events, seen.messages)]
        assert flaws == [None], (flaws, stream.decode())
        shown[stream] = seen.messages, seen.state, seen.interrupts
    return shown


@pytest.mark.oracle
@every_profile
async def test_the_official_clients_accept_what_is_left_of_a_run(profile: Profile) -> None:
    oracles.require()
    streams = set()
    for case in CASES:
        entries = logged(lawful(case.items))
        for gone in range(1, len(entries)):
            run = Run(history=HISTORY, gone=gone)
            await run.write(entries)
            streams.add(b"".join(await rest(await attached(run, profile))))
    screens(READERS[profile][-1], [*streams])
