"""The states of a run."""

import pytest

from anabranch.events import RunFailed, RunFinished, Terminal
from anabranch.runs.machine import FINAL, MOVES, Status, can_move, status_of

ENDS: list[tuple[Terminal, Status]] = [
    (RunFinished(), Status.SUCCEEDED),
    (RunFinished(outcome="interrupted"), Status.INTERRUPTED),
    (RunFinished(outcome="cancelled"), Status.CANCELLED),
    (RunFailed(code="c", message="m"), Status.FAILED),
]


def test_the_table_knows_every_state_and_no_other() -> None:
    assert set(MOVES) == set(Status)
    assert set().union(*MOVES.values()) <= set(Status)


def test_a_final_state_stays() -> None:
    assert {Status.SUCCEEDED, Status.INTERRUPTED, Status.CANCELLED, Status.FAILED} == FINAL
    assert not [(status, to) for status in FINAL for to in Status if can_move(status, to)]


def test_a_run_that_is_not_over_can_still_end_and_never_goes_back() -> None:
    for status in set(Status) - FINAL:
        assert MOVES[status] & FINAL
        assert not can_move(status, Status.QUEUED)
        assert not can_move(status, status)


def test_every_state_can_be_reached() -> None:
    reached = {Status.QUEUED}
    for _ in Status:
        reached |= {to for status in reached for to in MOVES[status]}
    assert reached == set(Status)


def test_a_run_succeeds_only_after_it_ran() -> None:
    assert not can_move(Status.QUEUED, Status.SUCCEEDED)
    assert not can_move(Status.QUEUED, Status.INTERRUPTED)


@pytest.mark.parametrize(("terminal", "status"), ENDS)
def test_each_terminal_event_means_one_final_state(terminal: Terminal, status: Status) -> None:
    assert status_of(terminal) is status
    assert can_move(Status.RUNNING, status)


def test_the_terminal_events_reach_every_final_state() -> None:
    assert {status_of(terminal) for terminal, _ in ENDS} == FINAL
