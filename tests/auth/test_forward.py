"""Which headers go on to tools and agents: those that are named, while the run lives, and nowhere else."""

import asyncio
import copy
import pickle

import msgspec
import pytest

from anabranch.auth import carrying, forwarded, outgoing
from anabranch.auth.forward import _carried
from anabranch.config.callers import NEVER_FORWARDED, unforwardable
from auth.minting import raw

TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "a=1",
    "x-request-id": "r1",
}
SECRET = "Bearer secret-of-ann"
REQUEST = raw(*TRACE.items(), ("Authorization", SECRET), ("X-Tenant", "blue"), ("Cookie", "sid=1"), ("Host", "h"))


def test_trace_headers_go_on_and_others_where_they_are_named() -> None:
    assert forwarded(REQUEST) == TRACE
    assert forwarded(REQUEST, ["authorization"]) == TRACE | {"authorization": SECRET}
    assert forwarded(REQUEST, ["X-TENANT", "x-other"]) == TRACE | {"x-tenant": "blue"}
    assert forwarded([], ["authorization"]) == {}


@pytest.mark.parametrize("name", sorted(NEVER_FORWARDED))
def test_what_belongs_to_one_connection_never_goes_on(name: str) -> None:
    assert forwarded(raw((name, "x")), [name]) == {}
    assert "never forwarded" in (unforwardable(["x-a", name.upper()]) or "")


def test_the_names_of_an_allow_list_are_names_of_headers() -> None:
    assert unforwardable(["authorization", "X-Tenant"]) is None
    for name in ("", "x y", "x:", "x\n", "é"):
        assert unforwardable([name]) is not None


@pytest.mark.parametrize("value", ["", "a\r\nx-evil: 1", "a\nb", "a\x00", "\xe9", "\x7f", "x" * 20_000])
def test_a_value_that_is_no_line_of_text_does_not_go_on(value: str) -> None:
    assert forwarded(raw(("x-a", value), ("x-b", "2")), ["x-a", "x-b"]) == {"x-b": "2"}


def test_what_came_twice_does_not_go_on_unless_it_is_a_list() -> None:
    twice = raw(
        ("authorization", "Bearer a"), ("authorization", "Bearer b"), ("traceparent", "1"), ("traceparent", "2")
    )
    assert forwarded([*twice, *raw(("tracestate", "a=1"), ("tracestate", "b=2"))], ["authorization"]) == {
        "tracestate": "a=1,b=2"
    }


def test_each_agent_gets_what_its_own_list_names() -> None:
    with carrying(REQUEST, ["authorization", "x-tenant"]):
        assert outgoing() == TRACE
        assert outgoing(["Authorization"]) == TRACE | {"authorization": SECRET}
        assert outgoing(["x-tenant", "cookie", "host"]) == TRACE | {"x-tenant": "blue"}
    with carrying(REQUEST, ["x-tenant"]):
        assert outgoing(["authorization"]) == TRACE  # which nobody's list names
    assert outgoing(["authorization"]) == {}


async def test_a_run_has_the_headers_of_its_own_request_for_as_long_as_it_lives() -> None:
    go = asyncio.Event()

    async def run() -> dict[str, str]:
        await go.wait()
        tool = await asyncio.to_thread(outgoing, ["authorization"])
        assert await asyncio.create_task(coroutine()) == tool
        return tool

    async def coroutine() -> dict[str, str]:
        return outgoing(["authorization"])

    async def request(user: str) -> asyncio.Task[dict[str, str]]:
        with carrying(raw(("authorization", user)), ["authorization"]):
            return asyncio.create_task(run())

    runs = [await request(user) for user in ("ann", "eve")]
    assert outgoing(["authorization"]) == {}
    go.set()
    async with asyncio.timeout(5):
        assert [await each for each in runs] == [{"authorization": "ann"}, {"authorization": "eve"}]


def test_what_is_carried_shows_nothing_and_cannot_be_written_anywhere() -> None:
    with carrying(REQUEST, ["authorization"]):
        carried = _carried.get()
        assert "secret" not in f"{carried!r} {carried}"
        for write in (pickle.dumps, copy.copy, copy.deepcopy, msgspec.json.encode, msgspec.to_builtins):
            with pytest.raises(TypeError):
                write(carried)
