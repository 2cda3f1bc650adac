"""The rest of a delegate's stages: connecting, reading on after a break, answering a question, cancelling."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from serving import ask

from tests.sources.a2a._raw import Json
from tests.supervisor.faulty import HALF, TOKEN, WAYS, Faulty, System, modelled, system
from tests.supervisor.spine import free_port
from tests.supervisor.test_failures import (
    BROKEN,
    CUT,
    FIRST,
    QUESTION,
    failures,
    falls_back,
    goes_on,
    kept_apart,
    on_all_ways,
    shows_no_secret,
    text,
)

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
async def model(anyio_backend: str) -> AsyncIterator[str]:
    async with modelled() as url:
        yield url


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMODOR_TOKEN", TOKEN)


async def until(reached: Any) -> None:
    """Let everything else go on until then."""
    while not reached():  # noqa: ASYNC110  nothing tells
        await asyncio.sleep(0)  # noqa: TID251  no time passes


# --- connecting ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(way: str, folder: Path) -> AsyncIterator[str]:
    """The address of something that is no A2A agent: what becomes of a connection."""
    if way == "refused":
        yield f"http://127.0.0.1:{free_port()}"
        return
    held: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        if way == "reset":
            writer.transport.abort()
        elif way == "plain":
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    tls = certified(folder) if way in ("untrusted", "tls") else None
    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        scheme = "https" if way in ("hang", "plain", "untrusted") else "http"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in held:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def certified(folder: Path) -> ssl.SSLContext:
    """TLS with a certificate that nobody has signed."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "komodor")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    both = folder / "komodor.pem"
    both.write_bytes(pem + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("refused", "cannot be reached"),
        ("reset", "closed the connection before it answered"),
        ("hang", "did not accept a connection in time"),
        ("plain", "does not speak TLS; is its address an http:// one"),
        ("untrusted", "shows a TLS certificate that is not trusted"),
        ("tls", "closed the connection before it answered"),
    ],
)
async def test_an_agent_that_cannot_be_connected_to_is_asked_nothing_and_the_supervisor_takes_over(
    model: str, tmp_path: Path, way: str, reason: str
) -> None:
    async with listening(way, tmp_path) as url, system(Faulty(), url=url, model=model) as them:
        await falls_back(them, reason)
        shows_no_secret(them)


# --- reading on ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", ["hang", "drip", "401", "reset"])
async def test_an_agent_that_breaks_off_and_then_fails_again_is_given_up_with_the_first_cause(
    model: str, look: str
) -> None:
    faulty = Faulty("text", "reset")
    faulty.look = look
    async with system(faulty, model=model) as them:
        for way, events in (await on_all_ways(them)).items():
            kept_apart(way, events, (CUT[0], f"The agent komodor {CUT[1]}"))
            assert text(events, "komodor") == "".join(HALF)
        assert len(faulty.sent) == len(WAYS) and "GetTask" in faulty.calls
        await goes_on(them)
        shows_no_secret(them)


# --- answering a question --------------------------------------------------------------------------------------------


async def asked_on_all_ways(them: System) -> dict[str, str]:
    """The question's id on each way."""
    them.faulty.asking = True
    ids = {}
    for way, events in (await on_all_ways(them)).items():
        [question] = events[-1]["outcome"]["interrupts"]
        assert question["message"] == "Which cluster?"
        ids[way] = question["id"]
    return ids


async def answered(them: System, ids: dict[str, str]) -> dict[str, list[Json]]:
    turns = await asyncio.gather(*(them.turn(way, None, answers=[(ids[way], "blue")]) for way in WAYS))
    return dict(zip(WAYS, turns, strict=True))


ANSWERS = [("first", fault) for fault in ("hang", "garbage", "401", "503", "reset")]
ANSWERS += [("text", fault) for fault in ("hang", "reset", "end")]


@pytest.mark.parametrize(("stage", "fault"), ANSWERS, ids=[f"{stage}-{fault}" for stage, fault in ANSWERS])
async def test_an_answer_that_fails_on_its_way_is_sent_once_and_the_failure_is_told(
    model: str, stage: str, fault: str
) -> None:
    code, message = (FIRST if stage == "first" else BROKEN)[fault]
    async with system(Faulty(stage, fault), model=model) as them:
        ids = await asked_on_all_ways(them)
        for way, events in (await answered(them, ids)).items():
            [(name, told, said)] = failures(events)
            assert (name, told) == ("komodor", code) and said.startswith("The agent komodor") and message in said
            assert events[-1]["type"] == ("RUN_FINISHED" if way == "supervised" else "RUN_ERROR")
            if way == "supervised":
                assert "komodor failed" in text(events, "")
        assert [message.get("taskId") for message in them.faulty.sent] == [None] * 3 + ["t"] * 3
        await goes_on(them)
        shows_no_secret(them)


@pytest.mark.parametrize("look", ["hang", "drip", "401"])
async def test_an_answer_is_sent_although_the_agent_does_not_say_what_it_had_asked(model: str, look: str) -> None:
    faulty = Faulty()
    faulty.look = look
    async with system(faulty, model=model) as them:
        for events in (await answered(them, await asked_on_all_ways(them))).values():
            assert failures(events) == [] and events[-1]["outcome"] == {"type": "success"}
        assert [message.get("taskId") for message in faulty.sent] == [None] * 3 + ["t"] * 3


# --- cancelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancel", ["", "hang", "garbage", "401", "reset"])
async def test_a_cancel_that_the_agent_does_not_take_holds_nobody(model: str, cancel: str) -> None:
    faulty = Faulty("text", "hang")
    faulty.cancel = cancel
    async with system(faulty, wait="20s", model=model) as them:
        turns = [asyncio.create_task(them.turn(way, QUESTION, way)) for way in WAYS]
        await until(lambda: faulty.reached == len(WAYS))
        begun = time.monotonic()
        for run in them.runs:
            assert (await ask(them.url, "POST", f"/runs/{run}/cancel")).status == 202
        for events in [await turn for turn in turns]:
            assert events[-1]["type"] == "RUN_FINISHED" and events[-1]["outcome"] == {"type": "cancelled"}
        assert time.monotonic() - begun < 2, "the runs wait for the agent"
        await until(lambda: faulty.calls.count("CancelTask") == len(WAYS))
        await goes_on(them)
        assert faulty.calls.count("CancelTask") == len(WAYS)
        shows_no_secret(them)
