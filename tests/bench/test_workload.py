"""The bench's own judges: what finds a lost, repeated or changed token, and what makes one figure of many."""

import pytest

from bench.options import Row
from bench.report import flaws, middle, table
from bench.workload import Command, Ledger, Samples, parse

WHOLE = "k=0;t=1; k=1;t=2;s=3; k=2;t=3; "


def judged(*pieces: str, tokens: int = 3) -> tuple[int, int, int, int]:
    """Tokens counted, lost, repeated, and foreign characters."""
    samples = Samples()
    ledger = Ledger(samples)
    for piece in pieces:
        ledger.take(piece, 10)
    ledger.close(tokens)
    return len(samples), ledger.lost, ledger.repeated, ledger.foreign


@pytest.mark.parametrize("at", range(len(WHOLE) + 1))
def test_a_text_is_exact_wherever_it_is_cut(at: int) -> None:
    assert judged(WHOLE[:at], WHOLE[at:]) == (3, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("k=0;t=1; k=2;t=3; ", (2, 1, 0, 0)),
        ("k=0;t=1; k=1;t=2; ", (2, 1, 0, 0)),
        ("k=0;t=1; k=0;t=1; k=1;t=2; k=2;t=3; ", (3, 0, 1, 0)),
        ("k=1;t=2; k=0;t=1; k=2;t=3; ", (2, 1, 1, 0)),
        ("k=0;t=1; ?k=1;t=2; k=2;t=3; ", (3, 0, 0, 1)),
        (WHOLE + "k=", (3, 0, 0, 2)),
        ("", (0, 3, 0, 0)),
    ],
)
def test_every_flaw_of_a_text_is_found(text: str, found: tuple[int, int, int, int]) -> None:
    assert judged(text) == found


def test_delays_count_from_when_a_token_was_due_and_only_in_the_window() -> None:
    samples = Samples()
    Ledger(samples).take("k=0;t=1000000;s=2000000; k=1;t=5000000;s=6000000; ", 9_000_000)
    assert samples.delays_ms() == [8.0, 4.0]
    assert samples.delays_ms(from_ns=2_000_000) == [4.0]
    assert samples.lags_ms() == [7.0, 3.0]
    assert samples.read_in(9_000_000, 9_000_001) == 2


def test_the_command_is_found_in_a_prompt() -> None:
    assert parse(f"alpha and beta: {Command(7, 2.5)}") == Command(7, 2.5)
    with pytest.raises(ValueError, match="no BENCH command"):
        parse("hello")


def test_passes_become_their_median_and_a_truth_must_always_hold() -> None:
    passes = [{"a": {"x": 1.0, "ok": True}}, {"a": {"x": 9.0, "ok": False}}, {"a": {"x": 2.0, "ok": True}}]
    assert middle(passes) == {"a": {"x": 2.0, "ok": False}}


def test_flaws_are_named_with_their_place() -> None:
    figures = {
        "a": {"lost": 0, "repeated": 2, "exact": True, "errors": {}},
        "b": {"exact": False, "errors": {"cut": 1}},
    }
    assert list(flaws(figures)) == ["a.repeated: 2", "b.exact: no", "b.errors: {'cut': 1}"]


def test_the_table_says_which_targets_are_met() -> None:
    passes = [{"ours": 3.0, "bare": 2.0, "kept_up": False}, {"ours": 5.0, "bare": 2.0, "kept_up": True}]
    figures = middle(passes)
    rows = [
        Row("near", "ours", "bare", "us", limit=4, ratio=3),
        Row("far", "ours", "bare", "us", ratio=1.5),
        Row("kept up", "kept_up"),
    ]
    lines = table([(row, figures, passes) for row in rows]).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[2] == ["near", "4.00 us", "3.00 .. 5.00", "2.00 us", "2.00x", "<= 4 us, <= 3x", "yes"]
    assert cells[3][-2:] == ["<= 1.5x", "NO"]
    assert (cells[4][1], cells[4][-1]) == ("no", "NO")
