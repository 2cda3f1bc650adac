"""Following a run over connections that break: no frame is lost, repeated or asked for in a way that runs it twice."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from cases._case import DONE, lane, says

from anabranch import App
from anabranch import events as ev
from anabranch.cli.chat import client
from anabranch.cli.chat.address import headers, target
from anabranch.cli.chat.client import Client, run_input
from anabranch.cli.chat.reading import Reading
from anabranch.cli.chat.trail import ChatError, Frame
from anabranch.errors import ConfigError
from anabranch.request import RunRequest
from tests.cli.double import LOST, RUN, Double, bare, cable, event, first, frames
from tests.serving import served
from tests.sources.a2a._raw import Request, raw

TEXT = "Three \U0001f469\u200d\U0001f680 clusters,\r\n\nall ha ha ha well."
STREAM = frames([*says("m", *TEXT), *lane("k", "komodor", says("n", "sub", agent="k")), DONE])


async def followed(url: str, said: list[str] | None = None, **options: Any) -> tuple[str, list[str]]:
    """Ask ``url`` and follow the run to its end: the text, and the cursor of each frame."""
    asked = run_input("thread-1", [{"id": "u", "role": "user", "content": "?"}], runId=RUN)
    text, read_frames = await read(url, asked, said=said, **options)
    return text, [frame.cursor for frame in read_frames]


async def read(
    url: str, asked: dict[str, Any], said: list[str] | None = None, **options: Any
) -> tuple[str, list[Frame]]:
    """Follow a run to its end: its text, and its frames."""
    reading, out, written = Reading(), [], []
    say = [].append if said is None else said.append
    async with (
        asyncio.timeout(20),
        Client(target(url), say=say, **{"patience_s": 5.0, "pause_s": 0.0005} | options) as asking,
        aclosing(asking.run(asked)) as batches,
    ):
        async for _, batch in batches:
            out += batch
            written += [reading.feed(frame.event)[1] for frame in batch]
    assert reading.flaw is None
    return "".join(written), out


async def refused(url: str, **options: Any) -> str:
    with pytest.raises(ChatError) as caught:
        await followed(url, **options)
    return str(caught.value)


async def test_every_frame_is_read_once_wherever_the_connection_is_cut() -> None:
    double = Double(STREAM)
    async with served(double.app) as url:
        whole = await followed(url)
        assert whole[0] == TEXT and len(whole[1]) == len(STREAM) == len(set(whole[1]))
        size = sum(map(len, STREAM)) + 1500  # heads, and a chunk's own framing
        for cut in range(0, size, 11):
            async with cable(url, first(cut)) as bad_url:
                assert await followed(bad_url) == whole, cut


async def test_a_connection_that_breaks_again_and_again_is_followed_as_long_as_it_gives_something() -> None:
    double = Double(STREAM)
    said: list[str] = []
    async with served(double.app) as url, cable(url, lambda number: 700) as bad_url:
        text, cursors = await followed(bad_url, said, patience_s=1.0)
    assert text == TEXT and len(cursors) == len(STREAM)
    assert len(said) > 5 and set(said) == {"the connection was lost; following the run again"}
    assert [method for method, _ in double.asked] == ["POST"] + ["GET"] * len(said)


async def test_it_goes_on_after_the_last_frame_it_read_whole() -> None:
    double = Double(STREAM)
    async with served(double.app) as url, cable(url, first(STREAM[4][:-10])) as bad_url:
        await followed(bad_url)
    assert double.cursors == [f"{RUN}:4.0"]


async def test_a_request_that_got_no_answer_is_asked_for_before_it_is_sent_again() -> None:
    double = Double(STREAM)
    async with served(double.app) as url, cable(url, first(LOST)) as bad_url:
        text, _ = await followed(bad_url)
    assert text == TEXT
    assert double.asked == [("GET", "/agui"), ("POST", "/agui")]


async def test_a_run_that_began_unseen_is_followed_and_not_started_again() -> None:
    double = Double(STREAM)
    async with served(double.app) as url, cable(url, first(0)) as bad_url:
        text, _ = await followed(bad_url)
    assert text == TEXT
    assert double.asked == [("POST", "/agui"), ("GET", "/agui")] and double.cursors == [None]


@pytest.mark.parametrize("cut", [0, 1500])
async def test_a_server_without_our_routes_is_never_asked_twice(cut: int) -> None:
    double = Double(bare(STREAM), ours=False)
    async with served(double.app) as url, cable(url, first(cut)) as bad_url:
        said = await refused(bad_url)
    assert "the connection was lost" in said and "cannot" in said
    assert [asked for asked in double.asked if asked[0] == "POST"] == [("POST", "/agui")]


async def test_a_server_without_cursors_is_read_whole() -> None:
    async with served(Double(bare(STREAM), ours=False).app) as url:
        text, cursors = await followed(url)
    assert text == TEXT and set(cursors) == {""}


@pytest.mark.parametrize("ours", [True, False])
async def test_a_stream_that_ends_before_its_run_is_an_error(ours: bool) -> None:
    script = STREAM[:-1] if ours else bare(STREAM[:-1])
    double = Double(script, ours=ours)
    async with served(double.app) as url:
        assert await refused(url) == "the stream ended without saying how the run ended"
    # A proxy may have ended it: whoever has the run is asked once.
    assert double.asked == [("POST", "/agui"), ("GET", "/agui")][: 2 if ours else 1]


async def test_a_server_that_does_not_come_back_is_given_up() -> None:
    double = Double(STREAM, hold=6)
    tries: list[int] = []

    def cuts(number: int) -> int:
        tries.append(number)
        return LOST if number else 700

    async with served(double.app) as url, cable(url, cuts) as bad_url:
        assert await refused(bad_url, patience_s=0.2) == "the connection was lost; tried for 0.2 s"
        double.go.set()
    assert len(tries) > 2


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (204, "", "the stream ended without saying how the run ended"),
        (404, '{"error": {"code": "not_found", "message": "no such run"}}', "the server no longer has this run"),
        (404, '{"detail": "Not Found"}', "this server cannot continue a run"),
        (409, '{"error": {"code": "cursor_unknown", "message": "beyond the log"}}', "answered 409: beyond the log"),
        (401, "", 'answered 401; send credentials with --header "Name: value", as "Authorization: Bearer ..."'),
    ],
)
async def test_what_the_server_answers_when_it_is_asked_again_is_told(status: int, body: str, said: str) -> None:
    double = Double(STREAM, hold=6)
    app = double.app

    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] == "POST":
            return await app(scope, receive, send)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body.encode()})

    async with served(refusing) as url, cable(url, first(700)) as bad_url:
        assert said in await refused(bad_url)
        double.go.set()


async def test_a_run_that_is_told_from_its_start_again_is_not_shown_twice() -> None:
    double = Double(STREAM)
    double.forgetful = True
    async with served(double.app) as url, cable(url, first(STREAM[4])) as bad_url:
        assert "no longer has all of this run" in await refused(bad_url)


@pytest.mark.parametrize(
    ("status", "kind", "body", "said"),
    [
        (404, "application/json", '{"error": {"code": "not_found", "message": "no agent"}}', "404: no agent; give the"),
        (307, "text/plain", "", "it moved: use http://elsewhere.test/agui/"),
        (422, "application/json", '{"detail": [{"loc": ["body"]}]}', '422: {"detail": [{"loc": ["body"]}]}'),
        (500, "text/plain", "token=abc", "answered 500: token=***"),
        (200, "text/html", "<html>", "answered with text/html, which is no stream of events"),
        (200, "text/event-stream", "data: hello\n\n", "no AG-UI event: b'hello'"),
        (200, "text/event-stream", "data: [1]\n\n", "no AG-UI event"),
        (200, "text/event-stream", f'data: {{"type":"RAW","event":{"[" * 5000}{"]" * 5000}}}\n\n', "no AG-UI event"),
        (500, "application/json", "[" * 9000, "answered 500: [["),
    ],
)
async def test_an_answer_that_is_no_run_is_told_with_the_remedy(status: int, kind: str, body: str, said: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = [(b"content-type", kind.encode()), (b"location", b"http://elsewhere.test/agui/")]
            await send({"type": "http.response.start", "status": status, "headers": given})
            await send({"type": "http.response.body", "body": body.encode()})

    async with served(app, lifespan="off") as url:
        assert said in await refused(url)


@pytest.mark.parametrize("end", ["hang", "close"])
async def test_a_refusal_that_does_not_come_whole_is_told_as_far_as_it_came(end: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(client, "_BODY_S", 0.2)

    async def answer(request: Request) -> None:
        await request.send(b"HTTP/1.1 403 X\r\ncontent-length: 100\r\n\r\nnot you")
        if end == "hang":
            await request.gone.wait()
        request.writer.close()

    async with raw(answer, None) as server:
        assert "answered 403: not you; send credentials" in await refused(server.url)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "said", ['{"error": {"code": "no", "message": "not with open-sesame"}}', "Bearer open-sesame?"]
)
async def test_a_server_that_repeats_our_credentials_is_quoted_without_them(said: str) -> None:
    async def answer(request: Request) -> None:
        await request.answer(said.encode(), 400)

    async with raw(answer, None) as server:
        assert "***" in (told := await refused(server.url, headers={"authorization": "Bearer open-sesame"}))
        assert "sesame" not in told


async def test_what_does_not_speak_http_is_told_at_once() -> None:
    async def answer(request: Request) -> None:
        await request.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        request.writer.close()

    async with raw(answer, None) as server:
        assert "does not speak HTTP" in await refused(server.url, patience_s=60)


@pytest.mark.parametrize("host", ["..", "a" * 300])
async def test_a_host_name_that_none_can_be_is_told_and_its_query_is_not(host: str) -> None:
    told = await refused(f"http://{host}/agui?key=sesame")
    assert "/agui cannot be reached: " in told and "sesame" not in told


async def test_blank_events_of_a_server_keep_a_connection_alive_and_say_nothing() -> None:
    stream = [
        event("RUN_STARTED", threadId="t", runId="r"),
        b"data:\n\n",
        event("RUN_FINISHED", threadId="t", runId="r"),
    ]
    async with served(Double(stream, ours=False).app) as url:
        assert (await followed(url))[0] == ""


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    async with served(Double(STREAM).app) as url:
        pass
    assert "cannot be reached: Connection refused" in await refused(url, patience_s=60)


async def test_the_whole_of_a_character_that_a_server_cut_is_read() -> None:
    stream = [
        event("TEXT_MESSAGE_START", messageId="m"),
        b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\\ud83d\\ude80 \\ud83d!"}\n\n',
        event("RUN_FINISHED", threadId="t", runId="r"),
    ]
    async with served(Double(stream, ours=False).app) as url:
        assert (await followed(url))[0] == "\U0001f680 \ufffd!"


async def test_what_follows_the_terminal_event_is_not_read() -> None:
    async with served(Double([*bare(STREAM), event("TEXT_MESSAGE_START", messageId="z")], ours=False).app) as url:
        assert (await followed(url))[0] == TEXT


async def test_a_run_is_cancelled_at_its_server() -> None:
    double = Double(STREAM, hold=5)
    async with served(double.app) as url, asyncio.timeout(10), Client(target(url)) as client:
        batches = client.run(run_input("t", []) | {"runId": RUN})
        kinds = [frame.event["type"] for frame in (await anext(batches))[1]]
        assert await client.cancel(RUN)
        async for _, batch in batches:
            kinds += [frame.event["type"] for frame in batch]
    assert kinds[-1] == "RUN_FINISHED" and len(kinds) == 6


async def test_a_server_that_cannot_cancel_says_so() -> None:
    async with (
        served(Double(bare(STREAM), ours=False).app) as url,
        asyncio.timeout(10),
        Client(target(url)) as client,
    ):
        assert not await client.cancel(RUN)


async def test_a_run_that_was_cancelled_before_it_began_is_not_started_again() -> None:
    double = Double(STREAM)
    async with (
        asyncio.timeout(10),
        served(double.app) as url,
        cable(url, first(LOST)) as bad_url,
        Client(target(bad_url), pause_s=0.05) as client,
    ):
        running = asyncio.create_task(anext(client.run(run_input("t", []) | {"runId": RUN})))
        cancelling = asyncio.create_task(client.cancel(RUN))
        with pytest.raises(ChatError, match="never started"):
            await running
        cancelling.cancel()
    assert double.bodies == []


# --- addresses and headers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "agent", "endpoint", "base"),
    [
        ("http://h:1", None, "http://h:1/agui", "http://h:1"),
        ("http://h:1/", None, "http://h:1/agui", "http://h:1"),
        ("https://h/api", None, "https://h/api/agui", "https://h/api"),
        ("http://h/agui", None, "http://h/agui", "http://h"),
        ("http://h/agui/", None, "http://h/agui", "http://h"),
        ("http://[::1]:8000", None, "http://[::1]:8000/agui", "http://[::1]:8000"),
        ("http://h/p/agents/a/agui", None, "http://h/p/agents/a/agui", "http://h/p"),
        ("http://h/agui?subagents=steps", None, "http://h/agui?subagents=steps", "http://h"),
        ("http://h", "a b/c", "http://h/agents/a%20b%2Fc/agui", "http://h"),
        ("http://h/agui?x=1", "a", "http://h/agents/a/agui?x=1", "http://h"),
        ("http://h/agents/a/agui", "a", "http://h/agents/a/agui", "http://h"),
    ],
)
def test_an_address_is_a_server_or_an_endpoint(url: str, agent: str | None, endpoint: str, base: str) -> None:
    found = target(url, agent)
    assert (found.endpoint, found.base) == (endpoint, base)
    asked = f"&{url.partition('?')[2]}" if "?" in url else ""
    assert found.attach("r/1") == f"{base}/runs/r%2F1/agui?protocolVersion=1.0{asked}"
    assert found.cancel("r1") == f"{base}/runs/r1/cancel"


@pytest.mark.parametrize(
    ("url", "agent", "said"),
    [
        ("localhost:8000", None, "write http://HOST:PORT"),
        ("ftp://h", None, "write http://HOST:PORT"),
        ("http://", None, "write http://HOST:PORT"),
        ("http://h:x", None, "write http://HOST:PORT"),
        ("http://h:99999", None, "write http://HOST:PORT"),
        ("http://[", None, "write http://HOST:PORT"),
        ("http://user:secret@h", None, "--header"),
        ("http://h?x=1", None, "only an endpoint"),
        ("http://h/agents/a/agui", "b", "leave --agent b out"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_remedy(url: str, agent: str | None, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        target(url, agent)
    assert said in str(caught.value) and "secret" not in str(caught.value)


def test_headers_are_read_and_a_wrong_one_is_refused_without_its_value() -> None:
    assert headers(["Authorization: Bearer a:b", "x-user:bob", "X-User:ann"]) == {
        "authorization": "Bearer a:b",
        "x-user": "ann",
    }
    for wrong in ("secret", "a b: secret", ": secret", "Content-Type: secret", "x: secret\nsecret"):
        with pytest.raises(ConfigError) as caught:
            headers([wrong])
        assert "secret;" not in str(caught.value) and "secret\n" not in str(caught.value)
        assert str(caught.value).count("secret") <= 1  # "may be a secret"


# --- against the real server -----------------------------------------------------------------------------------------


async def letters(request: RunRequest) -> Any:
    """An agent whose sub-agent and tools speak as well."""
    yield ev.AgentStarted(agent="k", name="komodor")
    for letter in request.last_user_text():
        yield letter
        yield ev.TextDelta(agent="k", message_id="m", delta=letter)
    yield ev.AgentFinished(agent="k")


async def test_a_run_of_the_real_server_is_read_whole_wherever_the_connection_is_cut() -> None:
    asked = run_input("t", [{"id": "u", "role": "user", "content": TEXT}])
    async with served(App({"letters": letters})) as url:
        whole = await read(url, asked)
        assert whole[0] == TEXT and len(whole[1]) > 2 * len(TEXT)
        size = sum(len(frame.data) for frame in whole[1]) + 2000
        for cut in range(0, size, 37):
            async with cable(url, first(cut)) as bad_url:
                text, read_frames = await read(bad_url, asked)
            assert text == TEXT and [frame.data for frame in read_frames] == [frame.data for frame in whole[1]], cut


async def test_a_run_of_the_real_server_is_cancelled() -> None:
    started = asyncio.Event()

    async def endless(request: RunRequest) -> Any:
        yield "a"
        started.set()
        await asyncio.Event().wait()

    async with served(App({"endless": endless})) as url, asyncio.timeout(10), Client(target(url)) as client:
        reading = asyncio.create_task(
            read(url, run_input("t", [{"id": "u", "role": "user", "content": "?"}], runId="r"))
        )
        await started.wait()
        assert await client.cancel("r")
        text, read_frames = await reading
        assert await client.cancel("r")  # it is over: that is as good
    assert text == "a" and read_frames[-1].event["outcome"] == {"type": "cancelled"}
