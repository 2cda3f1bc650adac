"""A cursor is text to clients, and is read strictly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import ClientError
from anabranch.sinks._base import Cursor


@given(st.text(), st.integers(1, 10**18 - 1), st.integers(0, 10**9 - 1))
def test_a_cursor_is_read_as_it_was_written_whatever_the_run_is_called(run_id: str, seq: int, part: int) -> None:
    assert Cursor.parse(Cursor(seq, part).text(run_id), run_id) == (seq, part)


@pytest.mark.parametrize(
    "place",
    ["", "1", "1.", ".0", "0.0", "-1.0", "+1.0", "01.0", "1.00", "1.-1", "1.0.0", " 1.0", "1.0 ", "1,0", "1e3.0", "٣.0"]
    + ["9" * 19 + ".0", "1." + "9" * 10, "1.0\n"],
)
def test_what_was_never_given_out_is_refused_with_the_remedy(place: str) -> None:
    with pytest.raises(ClientError) as refused:
        Cursor.parse(f"run:1:{place}", "run:1")
    assert (refused.value.status, refused.value.code) == (409, "cursor_unknown")
    assert repr(f"run:1:{place}") in str(refused.value)
    assert "was given out" in str(refused.value) and "?prelude=1" in str(refused.value)


@pytest.mark.parametrize("text", ["run:1:7.0", "run:7.0", "7.0", "", ":7.0", "run:12:7.0", "RUN:2:7.0", "x" * 10_000])
def test_a_cursor_of_another_run_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match="is not of run 'run:2'") as refused:
        Cursor.parse(text, "run:2")
    assert refused.value.code == "cursor_unknown" and len(str(refused.value)) < 300


def test_cursors_are_in_the_order_of_the_stream() -> None:
    assert Cursor(2, 0) < Cursor(2, 1) < Cursor(10, 0)
