"""What every driver of the log must do: the contract of ``anabranch.log._base``, sentence by sentence.

A driver's test module has a subclass of ``LogConformance`` whose name starts with ``Test`` and whose ``driver`` opens
an empty log.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.errors import Fenced, NotFound, ServerError
from anabranch.events import Event, RunFailed, RunFinished, TextDelta
from anabranch.log._base import Bounds, Checkpoint, Entry, RunLog

RUN = "run"
WAIT_S = 10
ENDS: list[Event] = [RunFinished(), RunFinished(outcome="cancelled"), RunFailed(code="c", message="m")]
Batches = AsyncGenerator[Sequence[Entry], None]


def entries(first: int, count: int = 1, *, epoch: int = 1, end: Event | None = None) -> list[Entry]:
    """``count`` entries from ``first`` on, the last one being ``end`` if there is one."""
    made = [
        Entry(seq, epoch, 1000 + seq, TextDelta(message_id="m", delta=str(seq))) for seq in range(first, first + count)
    ]
    if end is not None:
        made[-1] = Entry(made[-1].seq, epoch, made[-1].at_ms, end)
    return made


async def rest(tail: Batches) -> list[Entry]:
    """Everything that a tail still gives until it ends."""
    got: list[Entry] = []
    async with asyncio.timeout(WAIT_S), aclosing(tail):
        async for batch in tail:
            assert batch, "a batch is never empty"
            got += batch
    return got


async def some(tail: Batches, count: int) -> list[Entry]:
    """At least ``count`` entries of a tail that goes on."""
    got: list[Entry] = []
    async with asyncio.timeout(WAIT_S):
        while len(got) < count:
            got += await anext(tail)
    return got


async def turn() -> None:
    """Let the other tasks take a step."""
    await asyncio.sleep(0)  # noqa: TID251  no time passes


class LogConformance:
    def driver(self) -> AbstractAsyncContextManager[RunLog]:
        """An empty log."""
        raise NotImplementedError

    @pytest.fixture
    async def log(self) -> AsyncIterator[RunLog]:
        async with self.driver() as log:
            yield log

    # --- 1: seq ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("first", [-1, 0, 2, 3])
    async def test_1_seq_starts_at_1(self, log: RunLog, first: int) -> None:
        with pytest.raises(Fenced):
            await log.append(RUN, entries(first))
        assert await log.bounds(RUN) == Bounds(0, 0, False)
        await log.append(RUN, entries(1))
        assert await log.bounds(RUN) == Bounds(1, 1, False)

    @pytest.mark.parametrize("first", [5, 6, 100])
    async def test_1_seq_has_no_gap_between_appends(self, log: RunLog, first: int) -> None:
        await log.append(RUN, entries(1, 3))
        with pytest.raises(Fenced):
            await log.append(RUN, entries(first))
        assert await log.read(RUN) == entries(1, 3)

    async def test_1_seq_has_no_gap_within_an_append(self, log: RunLog) -> None:
        with pytest.raises(Fenced):
            await log.append(RUN, [*entries(1), *entries(3)])
        assert await log.bounds(RUN) == Bounds(0, 0, False)

    async def test_1_each_run_counts_for_itself(self, log: RunLog) -> None:
        await log.append("a", entries(1, 3))
        await log.append("b", entries(1, 2))
        await log.append("a", entries(4))
        assert [(await log.bounds(run)).last for run in ("a", "b")] == [4, 2]

    # --- 2: append and read ------------------------------------------------------------------------------------

    async def test_2_what_was_appended_is_read_as_it_was(self, log: RunLog) -> None:
        given = entries(1, 5, end=RunFinished())
        await log.append(RUN, given[:2])
        await log.append(RUN, given[2:])
        assert await log.read(RUN) == given
        assert await log.bounds(RUN) == Bounds(1, 5, True)

    @pytest.mark.parametrize("end", [None, RunFinished()])
    async def test_2_read_gives_at_most_limit_entries_after_a_cursor(self, log: RunLog, end: Event | None) -> None:
        await log.append(RUN, entries(1, 7))
        await log.append(RUN, entries(8, 4, end=end))
        assert await log.read(RUN, after=3, limit=4) == entries(4, 4)
        assert await log.read(RUN, after=9, limit=1) == entries(10)
        assert await log.read(RUN, after=9, limit=4) == entries(10, 2, end=end)
        assert await log.read(RUN, after=11) == []
        assert await log.read(RUN, after=99) == []

    async def test_2_an_unknown_run_has_nothing(self, log: RunLog) -> None:
        assert await log.read(RUN) == []
        assert await log.bounds(RUN) == Bounds(0, 0, False)

    async def test_2_an_append_of_nothing_is_nothing(self, log: RunLog) -> None:
        await log.append(RUN, [])
        assert await log.bounds(RUN) == Bounds(0, 0, False)

    async def test_2_the_writers_list_may_be_used_again(self, log: RunLog) -> None:
        batch = entries(1, 2)
        await log.append(RUN, batch)
        batch.clear()
        assert await log.read(RUN) == entries(1, 2)

    # --- 3: repeated appends -----------------------------------------------------------------------------------

    @pytest.mark.parametrize(("first", "count"), [(1, 5), (1, 2), (3, 2), (5, 1)])
    async def test_3_a_repeated_append_changes_nothing(self, log: RunLog, first: int, count: int) -> None:
        await log.append(RUN, entries(1, 5))
        await log.append(RUN, entries(first, count))
        assert await log.read(RUN) == entries(1, 5)

    async def test_3_a_repeat_that_goes_further_adds_what_is_new(self, log: RunLog) -> None:
        async with aclosing(log.tail(RUN)) as tail:
            await log.append(RUN, entries(1, 3))
            assert await some(tail, 3) == entries(1, 3)
            await log.append(RUN, entries(2, 4))
            assert await some(tail, 2) == entries(4, 2)
        assert await log.read(RUN) == entries(1, 5)

    async def test_3_the_terminal_entry_may_be_repeated(self, log: RunLog) -> None:
        for _ in range(3):
            await log.append(RUN, entries(1, 3, end=RunFinished()))
        assert await rest(log.tail(RUN)) == entries(1, 3, end=RunFinished())

    @pytest.mark.parametrize("turns", range(4))
    async def test_3_an_append_whose_writer_was_cancelled_is_whole_or_nothing(self, log: RunLog, turns: int) -> None:
        async with aclosing(log.tail(RUN)) as tail:
            for first in range(1, 41, 4):
                appending = asyncio.create_task(log.append(RUN, entries(first, 4)))
                for _ in range(turns):
                    await turn()
                appending.cancel()
                await asyncio.wait([appending])
                assert len(await log.read(RUN)) in (first - 1, first + 3)
                await log.append(RUN, entries(first, 4))
                assert await some(tail, 4) == entries(first, 4)

    # --- 4: refusals -------------------------------------------------------------------------------------------

    async def test_4_a_newer_epoch_goes_on_where_the_older_one_stopped(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 2))
        await log.append(RUN, entries(3, 2, epoch=2))
        assert await log.read(RUN) == [*entries(1, 2), *entries(3, 2, epoch=2)]

    @pytest.mark.parametrize("first", [1, 3, 4, 5])
    async def test_4_a_stale_writer_is_refused_and_leaves_no_trace(self, log: RunLog, first: int) -> None:
        await log.append(RUN, entries(1, 2, epoch=1))
        await log.append(RUN, entries(3, 1, epoch=7))
        with pytest.raises(Fenced):
            await log.append(RUN, entries(first, 2, epoch=6))
        assert await log.read(RUN) == [*entries(1, 2), *entries(3, epoch=7)]

    async def test_4_a_newer_epoch_may_not_rewrite_what_is_there(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 3))
        with pytest.raises(Fenced):
            await log.append(RUN, entries(3, 2, epoch=2))
        assert await log.read(RUN) == entries(1, 3)

    async def test_4_a_refused_append_takes_no_ownership(self, log: RunLog) -> None:
        await log.append(RUN, entries(1))
        with pytest.raises(Fenced):
            await log.append(RUN, entries(9, epoch=5))
        await log.append(RUN, entries(2))
        assert await log.read(RUN) == entries(1, 2)

    @pytest.mark.parametrize("end", ENDS)
    async def test_4_nothing_follows_a_terminal_entry(self, log: RunLog, end: Event) -> None:
        await log.append(RUN, entries(1, 2, end=end))
        for late in (
            entries(3),
            entries(3, epoch=2),
            entries(3, end=RunFinished()),
            [*entries(1, 2, end=end), *entries(3)],
        ):
            with pytest.raises(Fenced):
                await log.append(RUN, late)
        assert await log.read(RUN) == entries(1, 2, end=end)

    async def test_4_nothing_follows_a_terminal_entry_within_an_append(self, log: RunLog) -> None:
        with pytest.raises(Fenced):
            await log.append(RUN, [*entries(1, end=RunFinished()), *entries(2)])
        assert await log.bounds(RUN) == Bounds(0, 0, False)

    # --- 5: tails ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("after", range(7))
    async def test_5_a_tail_of_a_finished_run_gives_the_rest_and_ends(self, log: RunLog, after: int) -> None:
        given = entries(1, 6, end=RunFailed(code="c", message="m"))
        await log.append(RUN, given)
        assert await rest(log.tail(RUN, after)) == given[after:]

    async def test_5_a_tail_waits_for_a_run_that_has_no_entry_yet(self, log: RunLog) -> None:
        async with asyncio.TaskGroup() as group:
            early = group.create_task(rest(log.tail(RUN)))
            await turn()
            await log.append(RUN, entries(1, 2))
            await log.append(RUN, entries(3, end=RunFinished()))
        assert early.result() == entries(1, 3, end=RunFinished())

    async def test_5_a_tail_ends_by_the_terminal_entry_and_not_by_a_number(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 3))
        ahead = asyncio.create_task(rest(log.tail(RUN, 3)))
        async with aclosing(log.tail(RUN)) as tail:
            assert await some(tail, 3) == entries(1, 3)
            waiting = asyncio.ensure_future(anext(tail))
            await turn()
            assert not waiting.done() and not ahead.done()
            await log.append(RUN, entries(4, end=RunFinished()))
            async with asyncio.timeout(WAIT_S):
                assert await waiting == entries(4, end=RunFinished())
                assert await ahead == entries(4, end=RunFinished())
        assert await rest(log.tail(RUN, 4)) == []

    async def test_5_a_tail_gives_nothing_before_it_was_appended(self, log: RunLog) -> None:
        async with aclosing(log.tail(RUN)) as tail:
            for seq in range(1, 6):
                waiting = asyncio.ensure_future(anext(tail))
                await turn()
                assert not waiting.done()
                await log.append(RUN, entries(seq))
                async with asyncio.timeout(WAIT_S):
                    assert await waiting == entries(seq)

    async def test_5_a_long_replay_joins_the_live_part(self, log: RunLog) -> None:
        given = entries(1, 3000, end=RunFinished())
        await log.append(RUN, given[:1500])
        async with aclosing(log.tail(RUN)) as tail:
            got = list(await anext(tail))
            for at in range(1500, 3000, 100):
                await log.append(RUN, given[at : at + 100])
            assert got + await rest(tail) == given

    @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_5_however_appends_and_tails_interleave_each_entry_comes_once(self, data: st.DataObject) -> None:
        steps = data.draw(
            st.lists(
                st.one_of(
                    st.tuples(st.just("append"), st.integers(1, 4)),
                    st.tuples(st.just("repeat"), st.integers(1, 4)),
                    st.tuples(st.just("tail"), st.integers(0, 12)),
                    st.tuples(st.just("leave"), st.integers(0, 5)),
                    st.tuples(st.just("turn"), st.integers(1, 3)),
                ),
                max_size=40,
            )
        )

        async def scenario() -> None:
            async with self.driver() as log, asyncio.timeout(WAIT_S):
                await interleave(log, steps)

        asyncio.run(scenario())

    @pytest.mark.parametrize("seed", range(5))
    async def test_5_whatever_is_appended_at_once_each_tail_gets_its_run(self, log: RunLog, seed: int) -> None:
        chance = random.Random(seed)
        given = {f"run {n}": entries(1, chance.randint(1, 120), end=RunFinished()) for n in range(8)}

        async def write(run: str) -> None:
            at = 0
            while at < len(given[run]):
                count = chance.randint(1, 9)
                await log.append(run, given[run][at : at + count])
                at += count

        async def follow(run: str, after: int, turns: int) -> None:
            for _ in range(turns):
                await turn()
            assert await rest(log.tail(run, after)) == given[run][after:]

        async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
            for run, whole in given.items():
                group.create_task(write(run))
                for _ in range(6):
                    group.create_task(follow(run, chance.randint(0, len(whole)), chance.randint(0, 60)))

    # --- 6: readers --------------------------------------------------------------------------------------------

    async def test_6_a_thousand_tails_from_anywhere_get_all_of_it(self, log: RunLog) -> None:
        given = entries(1, 100, end=RunFinished())
        starts = random.Random(6).choices(range(101), k=1000)
        async with asyncio.timeout(2 * WAIT_S), asyncio.TaskGroup() as group:
            tails = []
            for count, after in enumerate(starts):
                tails.append(group.create_task(rest(log.tail(RUN, after))))
                if count % 50 == 0:
                    await log.append(RUN, given[count // 10 : count // 10 + 5])
                    await turn()
        assert all(tail.result() == given[after:] for tail, after in zip(tails, starts, strict=True))

    async def test_6_a_slow_tail_delays_nobody_and_loses_nothing(self, log: RunLog) -> None:
        given = entries(1, 2000, end=RunFinished())
        async with aclosing(log.tail(RUN)) as slow:
            await log.append(RUN, given[:1])
            first = await some(slow, 1)
            quick = asyncio.create_task(rest(log.tail(RUN)))
            async with asyncio.timeout(WAIT_S):
                for at in range(1, 2000):
                    await log.append(RUN, given[at : at + 1])
                assert await quick == given
            assert first + await rest(slow) == given

    async def test_6_a_tail_that_leaves_disturbs_nobody(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 2))
        stays = asyncio.create_task(rest(log.tail(RUN)))
        waits = asyncio.create_task(rest(log.tail(RUN)))
        async with aclosing(log.tail(RUN)) as leaves:
            assert await some(leaves, 2) == entries(1, 2)
        await turn()
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        await log.append(RUN, entries(3, end=RunFinished()))
        assert await stays == entries(1, 3, end=RunFinished())

    async def test_6_a_tail_that_leaves_before_the_first_entry_leaves_no_trace(self, log: RunLog) -> None:
        early = asyncio.create_task(rest(log.tail(RUN)))
        await turn()
        early.cancel()
        with pytest.raises(asyncio.CancelledError):
            await early
        assert await log.bounds(RUN) == Bounds(0, 0, False)
        await log.append(RUN, entries(1, 2, end=RunFinished()))
        assert await rest(log.tail(RUN)) == entries(1, 2, end=RunFinished())

    # --- 7: deletion -------------------------------------------------------------------------------------------

    async def test_7_a_deleted_run_is_unknown(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 3, end=RunFinished()))
        await log.append("other", entries(1))
        await log.delete(RUN)
        assert await log.bounds(RUN) == Bounds(0, 0, False)
        assert await log.read(RUN) == []
        assert await log.read("other") == entries(1)

    async def test_7_readers_of_a_deleted_run_end_with_not_found(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 600))
        waits = asyncio.create_task(rest(log.tail(RUN, 600)))
        async with aclosing(log.tail(RUN)) as between:
            await anext(between)
            await turn()
            await log.delete(RUN)
            with pytest.raises(NotFound):
                await rest(between)
        with pytest.raises(NotFound):
            await waits

    async def test_7_a_writer_of_a_deleted_run_is_refused(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 3))
        await log.delete(RUN)
        with pytest.raises(Fenced):
            await log.append(RUN, entries(4))

    async def test_7_deleting_what_is_unknown_is_nothing(self, log: RunLog) -> None:
        await log.delete(RUN)
        await log.delete(RUN)

    # --- 8: abandoned runs -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("there", [0, 3])
    async def test_8_readers_of_an_abandoned_run_get_what_was_kept_and_then_the_error(
        self, log: RunLog, there: int
    ) -> None:
        await log.append(RUN, entries(1, there) if there else [])
        tails = [log.tail(RUN), log.tail(RUN)]
        waiting = [asyncio.create_task(until_error(tail)) for tail in tails]
        await turn()
        log.abandon(RUN, ServerError("broken", code="log_failed"))
        late = [asyncio.create_task(until_error(log.tail(RUN))), asyncio.create_task(until_error(log.tail(RUN, 1)))]
        for reader, after in zip((*waiting, *late), (0, 0, 0, 1), strict=True):
            got, error = await reader
            assert got == (entries(1, there)[after:] if there else [])
            assert (str(error), error.code) == ("broken", "log_failed")

    async def test_8_abandoning_a_run_that_is_over_is_nothing(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 3, end=RunFinished()))
        log.abandon(RUN, ServerError("broken"))
        assert await rest(log.tail(RUN)) == entries(1, 3, end=RunFinished())

    # --- 9: checkpoints ----------------------------------------------------------------------------------------

    async def test_9_the_newest_checkpoint_not_beyond_a_place_is_found(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 30))
        for seq in (20, 10, 30):
            log.keep_checkpoint(RUN, "a", Checkpoint(seq, b"after %d" % seq))
        await noted(log, RUN, "a", 30)
        found = [await log.checkpoint(RUN, "a", upto) for upto in (0, 9, 10, 19, 20, 29, 30, 99)]
        assert [note.seq if note else 0 for note in found] == [0, 0, 10, 10, 20, 20, 30, 30]
        assert found[-1] == Checkpoint(30, b"after 30")

    async def test_9_a_checkpoint_is_its_runs_and_its_readers(self, log: RunLog) -> None:
        for run in (RUN, "other"):
            await log.append(run, entries(1, 9, end=RunFinished()))
        log.keep_checkpoint(RUN, "a", Checkpoint(5, b"a"))
        log.keep_checkpoint(RUN, "b", Checkpoint(5, b"b"))
        await noted(log, RUN, "b", 5)
        assert await log.checkpoint(RUN, "a", 9) == Checkpoint(5, b"a")
        assert await log.checkpoint(RUN, "b", 9) == Checkpoint(5, b"b")
        assert await log.checkpoint("other", "a", 9) is None
        assert await log.checkpoint("unknown", "a", 9) is None

    async def test_9_the_first_checkpoint_of_a_place_counts(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 9))
        for state in (b"first", b"second"):
            log.keep_checkpoint(RUN, "a", Checkpoint(5, state))
        log.keep_checkpoint(RUN, "a", Checkpoint(6, b"last"))
        await noted(log, RUN, "a", 6)
        assert await log.checkpoint(RUN, "a", 5) == Checkpoint(5, b"first")

    async def test_9_of_many_checkpoints_those_are_kept_that_are_near_what_a_reader_missed(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 3000))
        for seq in range(10, 3001, 10):
            log.keep_checkpoint(RUN, "a", Checkpoint(seq, b"%d" % seq))
        await noted(log, RUN, "a", 3000)
        found = {cursor: await log.checkpoint(RUN, "a", cursor) for cursor in range(10, 3001, 10)}
        assert len({note and note.seq for note in found.values()}) < 30
        for cursor, note in found.items():
            assert note is not None and note.seq <= cursor and note.state == b"%d" % note.seq
            assert cursor - note.seq <= 3000 - cursor

    async def test_9_checkpoints_go_with_their_run(self, log: RunLog) -> None:
        await log.append(RUN, entries(1, 9))
        log.keep_checkpoint(RUN, "a", Checkpoint(5, b"old"))
        await noted(log, RUN, "a", 5)
        await log.delete(RUN)
        log.keep_checkpoint(RUN, "a", Checkpoint(6, b"late"))
        assert await log.checkpoint(RUN, "a", 9) is None
        await log.append(RUN, entries(1, 9))
        assert await log.checkpoint(RUN, "a", 9) is None


async def noted(log: RunLog, run: str, reader: str, seq: int) -> None:
    """Wait until a checkpoint is there, and with it all that were given before it."""
    async with asyncio.timeout(WAIT_S):
        while (note := await log.checkpoint(run, reader, seq)) is None or note.seq != seq:
            await turn()


async def until_error(tail: Batches) -> tuple[list[Entry], ServerError]:
    """What a tail gives, and the error it ends with."""
    got: list[Entry] = []
    async with asyncio.timeout(WAIT_S), aclosing(tail):
        with pytest.raises(ServerError) as raised:
            async for batch in tail:
                got += batch
    return got, raised.value


async def interleave(log: RunLog, steps: Sequence[tuple[str, int]]) -> None:
    """Do the steps, end the run, and check what every tail got that did not leave."""
    last = 0
    tails: list[tuple[int, asyncio.Task[list[Entry]]]] = []
    for step, number in steps:
        match step:
            case "append":
                await log.append(RUN, entries(last + 1, number))
                last += number
            case "repeat" if last:
                await log.append(RUN, entries(max(1, last + 1 - number), min(number, last)))
            case "tail":
                tails.append((number, asyncio.create_task(rest(log.tail(RUN, number)))))
            case "leave" if number < len(tails):
                tails[number][1].cancel()
            case "turn":
                for _ in range(number):
                    await turn()
    await log.append(RUN, entries(last + 1, end=RunFinished()))
    await asyncio.wait([tail for _, tail in tails] or [asyncio.ensure_future(turn())])
    whole = entries(1, last + 1, end=RunFinished())
    assert all(tail.cancelled() or tail.result() == whole[after:] for after, tail in tails)
