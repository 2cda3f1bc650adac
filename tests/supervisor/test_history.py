"""What the supervisor's model hears of a thread, whatever its clients send back and whatever its servers go through."""

import asyncio
import contextlib
import uuid

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from serving import ask, served

from anabranch.app import App
from anabranch.cli.chat.conversation import Conversation
from anabranch.config import Server
from anabranch.demo._process import started
from anabranch.sources.a2a import A2ASource
from anabranch.sources.langgraph.reasoning import chat_model
from anabranch.supervisor.delegate import delegate
from anabranch.supervisor.graph import supervisor_graph
from tests.agents.remote import pieces
from tests.supervisor.spine import asked, running

pytestmark = [pytest.mark.process, pytest.mark.slow]

TEXT = "".join(pieces("ok"))
HALF = "".join(pieces("hang"))
LOST = "a failure ended the agent before this tool returned"

# --- what clients send back ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def parts(anyio_backend):
    async with contextlib.AsyncExitStack() as stack:
        model = await stack.enter_async_context(started("tests.agents.model"))
        agent = await stack.enter_async_context(started("tests.agents.remote", "--name", "komodor", "--rate", "0"))
        yield model, agent


class Client:
    """A client that holds its own copy of a thread's messages."""

    def __init__(self, url, model):
        self.url, self.model = url, model
        self.thread, self.copy = uuid.uuid4().hex, Conversation()

    async def says(self, text, copy=None):
        """A turn: the copy (its own, unless another is given) and a question, if any. What the model then heard."""
        run = uuid.uuid4().hex
        messages = [*(self.copy.messages if copy is None else copy)]
        if text is not None:
            self.copy.say(f"{run}-u", text)
            messages.append({"id": f"{run}-u", "role": "user", "content": text})
        answer = await ask(self.url, "POST", "/agui", asked(self.thread, run, *messages))
        assert answer.events[-1]["type"] == "RUN_FINISHED", answer.events[-1]
        assert answer.events[-1]["outcome"] == {"type": "success"}
        for event in answer.events:
            self.copy.feed(event)
        return (await ask(self.model, "GET", "/heard")).json["heard"][-1]


@pytest.fixture(params=[False, True], ids=["without a memory", "with a memory"])
async def client(request, parts):
    model, agent = parts
    source = A2ASource(agent)
    graph = supervisor_graph(
        chat_model(name="scripted", base_url=f"{model}/v1", api_key="none"), [delegate("komodor", source)]
    )
    graph.checkpointer = InMemorySaver() if request.param else None
    async with asyncio.timeout(40), served(App({"supervisor": graph}, server=Server(stop_grace=0))) as url:
        yield Client(url, model)
    await source.aclose()


def questions(heard):
    return [message["content"] for message in heard if message["role"] == "user"]


def is_whole(heard, turns):
    """Each turn once: a plan, a question to the agent, both with their results, and an answer; the last one is open."""
    roles = [message["role"] for message in heard if message["role"] != "system"]
    turn = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert roles == [*turn * (turns - 1), *turn[:5]]
    assert [m["content"] for m in heard if m["role"] == "tool"][1::2] == [TEXT] * turns


async def test_a_client_that_sends_everything_again_each_time_is_heard_once(client):
    for number in range(1, 4):
        heard = await client.says(f"question {number}")
        is_whole(heard, number)
    assert questions(heard) == ["question 1", "question 2", "question 3"]


async def test_a_client_that_sends_only_what_is_new_is_heard_with_everything_before(client):
    for number in range(1, 4):
        heard = await client.says(f"question {number}", copy=[])
        is_whole(heard, number)
    assert questions(heard) == ["question 1", "question 2", "question 3"]


async def test_an_edited_question_is_a_new_branch_and_the_old_one_is_still_there(client):
    await client.says("question 1")
    first = client.copy.messages
    await client.says("question 2")
    whole = client.copy.messages
    at = next(place for place, message in enumerate(whole) if message["content"] == "question 2")
    edited = [*whole[:at], {**whole[at], "content": "question 2, better"}]
    heard = await client.says(None, copy=edited)
    is_whole(heard, 2)
    assert questions(heard) == ["question 1", "question 2, better"]
    heard = await client.says("question 3", copy=whole)
    is_whole(heard, 3)
    assert questions(heard) == ["question 1", "question 2", "question 3"]
    heard = await client.says("other", copy=first[:1])
    assert questions(heard) == ["question 1", "other"]


async def test_a_shortened_conversation_is_a_new_branch(client):
    await client.says("question 1")
    short = client.copy.messages
    await client.says("question 2")
    await client.says("question 3")
    heard = await client.says("question 2 again", copy=short)
    is_whole(heard, 2)
    assert questions(heard) == ["question 1", "question 2 again"]
    heard = await client.says("and on", copy=[])
    is_whole(heard, 3)
    assert questions(heard) == ["question 1", "question 2 again", "and on"]


async def test_a_question_that_is_sent_again_without_its_answer_is_answered_again(client):
    await client.says("question 1")
    await client.says("question 2")
    whole = client.copy.messages
    at = next(place for place, message in enumerate(whole) if message["content"] == "question 2")
    heard = await client.says(None, copy=whole[: at + 1])
    is_whole(heard, 2)
    assert questions(heard) == ["question 1", "question 2"]


# --- what servers go through -----------------------------------------------------------------------------------------


@pytest.fixture
async def spine(anyio_backend, tmp_path):
    async with running(tmp_path) as spine:
        yield spine


async def log_of(spine, run):
    return (await spine.get(f"{spine.url}/runs/{run}/events?limit=1000"))["events"]


async def test_a_server_that_is_killed_in_the_middle_of_a_delegate_keeps_what_was_shown_and_the_thread_goes_on(spine):
    thread, run = uuid.uuid4().hex, uuid.uuid4().hex
    async with (
        spine.komodor(),
        contextlib.aclosing(
            spine.follow("POST", "/agui", json=asked(thread, run, "komodor, please mode=hang"))
        ) as events,
    ):
        shown, said = [], ""
        async for event in events:
            shown.append(event)
            if event["type"] == "TEXT_MESSAGE_CONTENT" and "subagentRunId" in event:
                said += event["delta"]
            if said == HALF:
                break
        before = await log_of(spine, run)
        await spine.killed()
        async with spine.serving():
            after = await log_of(spine, run)
            assert after[: len(before)] == before
            ends = [entry["event"] for entry in after if entry["event"]["type"] in ("run_finished", "run_failed")]
            assert len(ends) == 1 and after[-1]["event"] == ends[0]
            assert (ends[0]["code"], ends[0]["retryable"]) == ("replica_lost", True)
            assert (await spine.get(f"{spine.url}/runs/{run}"))["status"] == "failed"
            replayed = [event async for event in spine.follow("GET", f"/runs/{run}/agui?protocolVersion=1.0")]
            assert replayed[: len(shown)] == shown
            assert replayed[-1]["type"] == "RUN_ERROR" and replayed[-1]["code"] == "replica_lost"
            again = await spine.run(thread, uuid.uuid4().hex, "and komodor again?")
            assert again[-1]["outcome"] == {"type": "success"}
    heard = (await spine.get(f"{spine.model}/heard"))["heard"][-1]
    assert questions(heard) == ["komodor, please mode=hang", "and komodor again?"]
    assert sum(LOST in message["content"] for message in heard if message["role"] == "tool") == 1
