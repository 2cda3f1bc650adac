"""A cancel reaches the bottom: remote agents are told, the run ends at once, and its thread goes on."""

import asyncio
import contextlib
import time
import uuid

import pytest
from deepagents import create_deep_agent
from langgraph.checkpoint.memory import InMemorySaver
from serving import ask, body, sent, served

from anabranch.app import App
from anabranch.config import Server
from anabranch.sources.a2a import A2ASource
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.graph import supervisor_graph
from tests.agents.remote import pieces
from tests.sources.a2a._cases import DONE, TASK, artifact
from tests.sources.a2a._raw import card, raw
from tests.sources.langgraph.graphs import asks_for, model, says
from tests.sources.langgraph.strict import Strict, told
from tests.supervisor.spine import asked, running

WAIT_S = 20

# --- processes -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def spine(anyio_backend, tmp_path_factory):
    hanging = ("tests.agents.remote", "--name", "argocd")
    async with running(tmp_path_factory.mktemp("cancelling"), argocd=hanging) as spine:
        yield spine


async def until(events, *texts):
    """Read until these texts were streamed, each in a lane of its own."""
    said = {}
    async for event in events:
        if event["type"] == "TEXT_MESSAGE_CONTENT" and "subagentRunId" in event:
            said[event["subagentRunId"]] = said.get(event["subagentRunId"], "") + event["delta"]
        if sorted(said.values()) == sorted(texts):
            return
    raise AssertionError(f"the stream ended after {said}")


async def cancels(spine, agent):
    """The tasks that an agent was told to cancel, once there is one."""
    async with asyncio.timeout(WAIT_S):
        while not (found := (await spine.get(f"{agent}/sent"))["cancels"]):
            pass
    return found


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("names", [["komodor"], ["komodor", "argocd"]], ids=["one", "two in parallel"])
async def test_a_cancel_in_the_middle_of_delegates_tells_each_agent_and_the_next_turn_works(spine, names):
    thread, run = uuid.uuid4().hex, uuid.uuid4().hex
    half = "".join(pieces("hang"))
    question = f"{' and '.join(names)}, please mode=hang"
    before = (await spine.get(f"{spine.argocd}/sent"))["cancels"]
    async with spine.komodor() as komodor, contextlib.AsyncExitStack() as stack:
        posted = spine.follow("POST", "/agui", json=asked(thread, run, question))
        watched = [posted]
        await until(posted, *[half] * len(names))
        for _ in range(2):
            attached = spine.follow("GET", f"/runs/{run}/agui?protocolVersion=1.0")
            await until(attached, *[half] * len(names))
            watched.append(attached)
        for events in watched:
            stack.push_async_callback(events.aclose)
        at = time.monotonic()
        assert (await spine.post(f"/runs/{run}/cancel"))[0] == 202
        rests = [[event async for event in events] for events in watched]
        assert time.monotonic() - at < 5
        for rest in rests:
            assert rest[-1]["type"] == "RUN_FINISHED" and rest[-1]["outcome"] == {"type": "cancelled"}
            assert sum(event["type"] in ("RUN_FINISHED", "RUN_ERROR") for event in rest) == 1
            assert len([event for event in rest if event["type"] == "TOOL_CALL_RESULT"]) == len(names)
        assert len(await cancels(spine, komodor)) == 1
        if "argocd" in names:
            assert len(await cancels(spine, spine.argocd)) == len(before) + 1
        status, refused = await spine.post(f"/runs/{run}/cancel")
        assert (status, refused["error"]["code"]) == (409, "run_over")
        assert (await spine.get(f"{spine.url}/runs/{run}"))["status"] == "cancelled"
        again = await spine.run(thread, uuid.uuid4().hex, "and komodor again?")
        assert again[-1]["type"] == "RUN_FINISHED" and again[-1]["outcome"] == {"type": "success"}
        assert len((await spine.get(f"{komodor}/sent"))["cancels"]) == 1
    heard = (await spine.get(f"{spine.model}/heard"))["heard"][-1]
    assert [message["content"] for message in heard if message["role"] == "user"] == [question, "and komodor again?"]
    results = [message["content"] for message in heard if message["role"] == "tool"]
    assert sum("the agent was cancelled before this tool returned" in text for text in results) == len(names)


# --- one process, agents that behave badly ---------------------------------------------------------------------------


class Remote:
    """An agent that begins to answer and then hangs; told to cancel, it does not answer before ``free``."""

    def __init__(self, *, named=True):
        self.free, self.begun, self.told = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cancels, self.named = [], named

    async def __call__(self, request):
        if request.call["method"] == "CancelTask":
            self.cancels.append(request.call["params"]["id"])
            self.told.set()
            await self.free.wait()
            return await request.answer({"jsonrpc": "2.0", "id": "1", "result": {}})
        await request.begin()
        for item in (TASK, artifact("Hi")) if self.named else ():
            await request.event(item)
        self.begun.set()
        if not self.named:
            await self.free.wait()
            await request.event(TASK)
        await request.gone.wait()


@pytest.mark.parametrize("named", [True, False], ids=["named", "not named yet"])
async def test_a_run_does_not_wait_for_the_agent_that_is_told_to_cancel(named):
    remote = Remote(named=named)
    async with asyncio.timeout(WAIT_S), raw(remote, card()) as server:
        app = App({"agent": A2ASource(server.url)}, server=Server(stop_grace=0))
        async with served(app) as url, sent(url, "POST", "/agui", body()) as wire:
            await wire.head()
            await remote.begun.wait()
            at = time.monotonic()
            assert (await ask(url, "POST", "/runs/r1/cancel")).status == 202
            last = (await wire.chunks())[-1]
            assert b"RUN_FINISHED" in last and b"cancelled" in last and time.monotonic() - at < 1
            remote.free.set()
            await remote.told.wait()
    assert remote.cancels == ["t"]


async def test_a_server_that_stops_right_after_a_cancel_still_tells_the_agent():
    remote = Remote()
    async with asyncio.timeout(WAIT_S), raw(remote, card()) as server:
        app = App({"agent": A2ASource(server.url)}, server=Server(stop_grace=0))
        async with served(app) as url, sent(url, "POST", "/agui", body()) as wire:
            await wire.head()
            await remote.begun.wait()
            assert (await ask(url, "POST", "/runs/r1/cancel")).status == 202
            await wire.chunks()
            stopping = asyncio.create_task(app.stop(0))
            await remote.told.wait()
            assert not stopping.done()
            remote.free.set()
            await stopping
    assert remote.cancels == ["t"]


async def test_a_cancel_reaches_the_agents_of_a_graph_inside_a_graph_and_the_memory_stays_usable():
    """Two delegates of a sub-agent that is a supervisor itself."""
    remotes = [Remote(), Remote()]
    async with asyncio.timeout(WAIT_S), contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(raw(remote, card())) for remote in remotes]
        sources = [A2ASource(server.url) for server in servers]
        for source, remote in zip(sources, remotes, strict=True):
            stack.push_async_callback(source.aclose)
            remote.free.set()
        both = asks_for(("c1", "ask_one", '{"question": "q"}'), ("c2", "ask_two", '{"question": "q"}'))
        inner = supervisor_graph(
            model(both, says("never")), [delegate(n, s) for n, s in zip(("one", "two"), sources, strict=True)]
        )
        task = asks_for(("t1", "task", '{"description": "x", "subagent_type": "inner"}'))
        strict = Strict(turns=list(model(task, says("never")).turns))
        subs = [{"name": "inner", "description": "i", "runnable": inner}]
        graph = create_deep_agent(strict, subagents=subs, checkpointer=InMemorySaver())
        url = await stack.enter_async_context(served(App({"agent": graph}, server=Server(stop_grace=0))))
        async with sent(url, "POST", "/agui", body(thread_id="t", text="go")) as wire:
            await wire.head()
            for remote in remotes:
                await remote.begun.wait()
            assert (await ask(url, "POST", "/runs/r1/cancel")).status == 202
            assert b'"cancelled"' in (await wire.chunks())[-1]
        for remote in remotes:
            await remote.told.wait()
        strict.turns = list(model(says("fine")).turns)
        more = body("r2", thread_id="t")
        more["messages"][0] |= {"id": "m2", "content": "next"}
        events = (await ask(url, "POST", "/agui", more)).events
        assert events[-1]["outcome"] == {"type": "success"}
    assert [remote.cancels for remote in remotes] == [["t"], ["t"]]
    assert [item for item in told(strict.heard[-1]) if item[0] != "system"] == [
        ("human", "go"),
        ("calls", ["t1"]),
        ("tool", ("t1", "Error: the agent was cancelled before this tool returned.")),
        ("human", "next"),
    ]


async def test_a_delegate_that_is_over_when_its_run_is_cancelled_is_not_told():
    over, waiting = asyncio.Event(), Remote()

    async def answer(request):
        await request.begin()
        for item in (TASK, artifact("Hi"), DONE):
            await request.event(item)
        await request.end()
        over.set()

    async with asyncio.timeout(WAIT_S), contextlib.AsyncExitStack() as stack:
        done = await stack.enter_async_context(raw(answer, card()))
        hangs = await stack.enter_async_context(raw(waiting, card()))
        sources = [A2ASource(done.url), A2ASource(hangs.url)]
        for source in sources:
            stack.push_async_callback(source.aclose)
        both = asks_for(("c1", "ask_one", '{"question": "q"}'), ("c2", "ask_two", '{"question": "q"}'))
        strict = Strict(turns=list(model(both, says("never")).turns))
        graph = supervisor_graph(strict, [delegate(n, s) for n, s in zip(("one", "two"), sources, strict=True)])
        url = await stack.enter_async_context(served(App({"agent": graph}, server=Server(stop_grace=0))))
        async with sent(url, "POST", "/agui", body(thread_id="t", text="go")) as wire:
            await wire.head()
            await over.wait()
            await waiting.begun.wait()
            async for chunk in wire:
                if b"TOOL_CALL_RESULT" in chunk:
                    break
            assert (await ask(url, "POST", "/runs/r1/cancel")).status == 202
            await wire.chunks()
        await waiting.told.wait()
        waiting.free.set()
        strict.turns = list(model(says("fine")).turns)
        more = body("r2", thread_id="t")
        more["messages"][0] |= {"id": "m2", "content": "next"}
        assert (await ask(url, "POST", "/agui", more)).events[-1]["outcome"] == {"type": "success"}
    assert [request.call["method"] for request in done.requests] == ["SendStreamingMessage"]
    heard = dict(item for kind, item in told(strict.heard[-1]) if kind == "tool")
    assert heard == {"c1": "Hi", "c2": "Error: the agent was cancelled before this tool returned."}
