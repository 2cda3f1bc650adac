"""What is measured inside one process: ``python -m bench.inside SUBJECT SIZE [SIZE]`` prints its figures as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from anabranch import events as ev
from anabranch.grammar import Grammar
from anabranch.log._base import Entry
from anabranch.request import Message, RunRequest
from anabranch.sinks.a2a.encode import A2aEncoder, Envelope
from anabranch.sinks.a2a.profile import Profile as A2aProfile
from anabranch.sinks.agui.encode import AguiEncoder
from anabranch.sinks.agui.profile import Profile
from anabranch.sources._base import Source

_PROFILE = Profile(modern=True, subagents="native")


def main() -> None:
    """The command."""
    subject, *sizes = sys.argv[1:]
    subjects: dict[str, Callable[..., dict[str, Any]]] = {"micro": _micro, "langgraph": _langgraph}
    print(json.dumps(subjects[subject](*map(int, sizes))))


class _Pipe:
    """Everything between a source's items and AG-UI bytes, without the server around it."""

    def __init__(self, run_id: str = "r") -> None:
        self.grammar, self.encoder = Grammar(), AguiEncoder(_PROFILE)
        self.bytes = self._seq = 0
        self.feed([ev.RunStarted(run_id=run_id, thread_id="t", agent_name="a")])

    def feed(self, events: Iterable[ev.Event]) -> None:
        """Through grammar and log entry to frames."""
        for event in events:
            self.log(self.grammar.feed(event))

    def log(self, events: Iterable[ev.Event]) -> None:
        """Entries, stamped as the runner does, then frames."""
        at_ms = time.time_ns() // 1_000_000
        for event in events:
            self._seq += 1
            for frame in self.encoder.feed(Entry(self._seq, 1, at_ms, event)):
                self.bytes += len(frame)

    async def run(self, source: Source, request: RunRequest) -> None:
        """One run of ``source``, to its end."""
        translator = source.translator(request)
        async for item in source.open(request):
            self.feed(translator.feed(item))
        self.feed(translator.close(None))
        self.log(self.grammar.close(None))


# --- one machine at a time -------------------------------------------------------------------------------------------


def _micro(count: int) -> dict[str, Any]:
    """Microseconds an event of grammar and encoders, and a frame of the A2A reader and translator."""
    grammar, agui, a2a = Grammar(), AguiEncoder(_PROFILE), A2aEncoder(A2aProfile(), Envelope.rpc("1"))
    opened: list[ev.Event] = [
        ev.RunStarted(run_id="r", thread_id="t", agent_name="a"),
        ev.MessageStarted(message_id="m"),
    ]
    legal = [event for start in opened for event in grammar.feed(start)]
    deltas = [ev.TextDelta(message_id="m", delta=f"token {n} ") for n in range(count)]
    grammar_us, out = _timed(lambda: [legal for delta in deltas for legal in grammar.feed(delta)], count)
    for seq, event in enumerate(legal, 1):
        for encoder in (agui, a2a):
            encoder.feed(Entry(seq, 1, 0, event))
    entries = [Entry(seq, 1, 1_700_000_000_000, event) for seq, event in enumerate(out, len(legal) + 1)]
    encoder_us, _ = _timed(lambda: [agui.feed(entry) for entry in entries], count)
    a2a_encoder_us, _ = _timed(lambda: [a2a.feed(entry) for entry in entries], count)
    return {
        "grammar_us": grammar_us,
        "encoder_us": encoder_us,
        "a2a_encoder_us": a2a_encoder_us,
        "a2a_us": _a2a_us(count),
    }


def _a2a_us(count: int) -> float:
    from anabranch.sources.a2a import A2ATranslator
    from anabranch.transports.sse import Parser

    def frame(**result: Any) -> bytes:
        return b"data: %b\r\n\r\n" % json.dumps({"jsonrpc": "2.0", "id": "1", "result": result}).encode()

    ids = {"taskId": "task-1", "contextId": "context-1"}
    frames = [
        frame(
            artifactUpdate={
                **ids,
                "artifact": {"artifactId": "answer", "parts": [{"text": f"token {n} "}]},
                "append": n > 0,
            }
        )
        for n in range(count)
    ]
    parser, translator = Parser(), A2ATranslator()

    def read() -> int:
        return sum(len(list(translator.feed(event.data))) for frame in frames for event in parser.feed(frame))

    translator.feed(json.dumps({"result": {"task": {"id": "task-1", "contextId": "context-1"}}}).encode())
    took_us, events = _timed(read, count)
    assert events >= count
    return took_us


def _timed(work: Callable[[], Any], count: int) -> tuple[float, Any]:
    gc.collect()
    gc.disable()
    began = time.process_time()
    result = work()
    took = time.process_time() - began
    gc.enable()
    return took * 1e6 / count, result


# --- LangGraph -------------------------------------------------------------------------------------------------------


def _langgraph(tokens: int, runs: int) -> dict[str, Any]:
    """CPU a token and a run, from LangGraph's item to AG-UI bytes, beside reading the same items and doing nothing."""
    from deepagents import create_deep_agent
    from langchain.agents import create_agent

    from anabranch.serve import tune_gc

    from .fake_model import FakeModel

    figures: dict[str, Any] = {}
    for name, make in (("create_agent", create_agent), ("deepagents", create_deep_agent)):
        tune_gc()
        long, short = FakeModel(tokens=tokens), FakeModel(tokens=1)
        graphs = {
            "token_us": (make(model=long, tools=[]), 1, tokens),
            "run_us": (make(model=short, tools=[]), runs, runs),
        }
        figures[name] = {"ours": {}, "bare": {}}
        for figure, (graph, times, per) in graphs.items():
            asyncio.run(_repeat(_bare(graph), 2))
            asyncio.run(_repeat(_ours(graph), 2))
            best: dict[str, list[float]] = {"bare": [], "ours": []}
            for _ in range(3):
                for way, run in (("bare", _bare(graph)), ("ours", _ours(graph))):
                    gc.collect()
                    began = time.process_time()
                    asyncio.run(_repeat(run, times))
                    best[way].append((time.process_time() - began) * 1e6 / per)
            for way, took in best.items():
                figures[name][way][figure] = sorted(took)[1]
    return figures


async def _repeat(run: Callable[[], Coroutine[Any, Any, None]], times: int) -> None:
    for _ in range(times):
        await run()


def _bare(graph: Any) -> Callable[[], Coroutine[Any, Any, None]]:
    from anabranch.sources.langgraph.translate import MODES

    async def run() -> None:
        given, config = {"messages": [("user", "hi")]}, {"configurable": {"thread_id": "t"}}
        async for _ in graph.astream(given, config, stream_mode=list(MODES), subgraphs=True, version="v2"):
            pass

    return run


def _ours(graph: Any) -> Callable[[], Coroutine[Any, Any, None]]:
    from anabranch.sources.langgraph import LangGraphSource

    source = LangGraphSource(graph)
    request = RunRequest(run_id="r", thread_id="t", messages=(Message(id="m", role="user", content="hi"),))

    async def run() -> None:
        pipe = _Pipe()
        await pipe.run(source, request)
        assert pipe.encoder.ended and not pipe.grammar.repairs, pipe.grammar.repairs

    return run


if __name__ == "__main__":
    main()
