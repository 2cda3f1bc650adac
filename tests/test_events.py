"""The vocabulary survives a log, and a reader survives a newer vocabulary."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from anabranch import events as ev

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


SIMPLE: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.AnyType: json_values,
    inspect.StrType: texts,
    inspect.IntType: st.integers(0, 2**53),
    inspect.BoolType: st.booleans(),
    inspect.NoneType: st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type may have."""
    match kind:
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.UnionType():
            return st.one_of([values(member) for member in kind.types])
        case inspect.VarTupleType():
            return st.lists(values(kind.item_type), max_size=3).map(tuple)
        case inspect.ListType():
            return st.lists(values(kind.item_type), max_size=3)
        case inspect.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=3)
        case inspect.StructType():
            return st.builds(kind.cls, **{field.name: values(field.type) for field in kind.fields})
    return SIMPLE[type(kind)]


def events(kind: type[ev.Event]) -> st.SearchStrategy[Any]:
    return values(inspect.type_info(kind))


@pytest.mark.parametrize("kind", ev.EVENT_TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, database=None)
@given(st.data())
def test_every_event_survives_a_log(kind: type[ev.Event], data: st.DataObject) -> None:
    event = data.draw(events(kind))
    assert ev.decode(ev.encode(event)) == event
    assert type(ev.decode(ev.encode(event))) is kind


def test_what_is_not_said_takes_no_room() -> None:
    assert ev.encode(ev.RunFinished()) == b'{"type":"run_finished"}'
    assert ev.encode(ev.TextDelta(message_id="r:1", delta="x")) == (
        b'{"type":"text_delta","message_id":"r:1","delta":"x"}'
    )


def test_tags_are_the_names_of_the_types_and_unique() -> None:
    tags = [kind.__struct_config__.tag for kind in ev.EVENT_TYPES]
    assert len(set(tags)) == len(tags)
    assert [str(tag).replace("_", "") for tag in tags] == [kind.__name__.lower() for kind in ev.EVENT_TYPES]


def test_events_are_frozen_and_equal_by_value() -> None:
    event: Any = ev.TextDelta(message_id="m", delta="x")
    with pytest.raises(AttributeError):
        event.delta = "y"
    assert event == ev.TextDelta(message_id="m", delta="x") != ev.ReasoningDelta(reasoning_id="m", delta="x")


def test_an_event_of_a_newer_version_is_kept_as_it_was_written() -> None:
    data = b'{"type":"teleported","agent":"r:1","to":{"x":[1]},"name":"n"}'
    assert ev.decode(data) == ev.Unknown(agent="r:1", name="teleported", value={"to": {"x": [1]}, "name": "n"})
    assert ev.decode(b'{"type":"teleported"}') == ev.Unknown(name="teleported", value={})


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    assert ev.decode(b'{"type":"run_finished","mood":"good"}') == ev.RunFinished()


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"text_delta","message_id":5,"delta":"x"}',
        b'{"type":"text_delta"}',
        b'{"type":"run_finished","outcome":"exploded"}',
        b'{"message_id":"m"}',
        b'{"type":null}',
        b'{"type":[]}',
        b'{"type":7}',
        b"[]",
        b'"text_delta"',
        b"null",
    ],
)
def test_what_is_wrong_or_no_event_is_an_error(data: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        ev.decode(data)


@pytest.mark.parametrize("data", [b"", b"{", b'{"type":"text_del', b"\xff"])
def test_what_is_no_json_is_an_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        ev.decode(data)
